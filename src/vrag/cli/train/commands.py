"""`vrag train`: models learn to search, look and answer; tiny models to start from, and the curves."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, print_result, print_table
from vrag.cli.terminal.files import STDOUT, check_out, print_saved, read_questions, write_file
from vrag.cli.terminal.progress import note_on_interrupt
from vrag.cli.train.local import rl, sft
from vrag.cli.train.rollout import rollout
from vrag.cli.train.verl import doctor, verl

app = typer.Typer(help="Train a model to search, look and answer.", no_args_is_help=True)
local = typer.Typer(help="Train a small model in this process, on a CPU or one GPU.", no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train a model to search, look and answer."""


@local.callback()
def train_locally() -> None:
    """Train a small model in this process, on a CPU or one GPU."""


@app.command("make-tiny")
def make_tiny(
    folder: Path = typer.Argument(..., help="Output folder of the checkpoint; must not exist."),
    cases: list[Path] = typer.Option(
        ..., "--cases", help="Data set or .txt file whose words become the vocabulary; repeatable."
    ),
    family: str = typer.Option("qwen3-vl", help="Model family: qwen3-vl or qwen2.5-vl."),
    hidden: int = typer.Option(64, help="Width of the language model, a multiple of 32."),
    layers: int = typer.Option(2, min=1, help="Number of layers of the language model."),
    picture_tokens: int = typer.Option(4, min=1, help="Visual tokens per picture."),
    seed: int = typer.Option(0, min=0, help="Random seed of the weights."),
    as_json: opt.JsonOption = False,
) -> None:
    """Make a tiny Qwen-VL model with random weights and its own tokenizer, to train on one CPU core.

    Example: vrag train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json
    """
    from vrag.rl.tiny import TinyOptions
    from vrag.rl.tiny import make_tiny as make

    words = [text for path in cases for text in _read_texts(path)]
    options = TinyOptions(
        family=family, hidden=hidden, layers=layers, picture_tokens=picture_tokens, seed=seed
    )
    with note_on_interrupt("No checkpoint was made."):
        profile = make(folder, words, options)
    size = sum(path.stat().st_size for path in folder.iterdir())

    def render() -> None:
        echo(("Made", "bold"), f" {plain(str(folder))}, a random {family} of {size / 1e6:.1f} MB.")
        echo("Next, teach it: vrag train local sft RUNS --model", f" {plain(shlex.quote(str(folder)))} …")

    print_result({"folder": str(folder), "profile": profile.name, "bytes": size}, render, as_json=as_json)


def _read_texts(path: Path) -> list[str]:
    """Read the questions and answers of a data set, or the lines of a text."""
    from vrag.errors import CaseError

    if path.suffix == ".txt":
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CaseError(f"{path} cannot be read: {error}.") from error
    return [text for case in read_questions(path) for text in (case.query, case.reference_answer)]


@app.command()
def plot(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Output folders of training, or their metrics.jsonl; one colour each."
    ),
    out: str = typer.Option("curves.svg", "--out", "-o", help="Output file (SVG); - for standard output."),
    title: str = typer.Option(
        "", "--title", help="Title of the picture.", show_default="the name of the run"
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Draw the curves of training runs: reward, accuracy, length, KL and more, and print the latest values.

    A run in progress is drawn up to its latest step.

    Example: vrag train plot runs/grpo runs/ggpo --out curves.svg
    """
    check_out(out, as_json=as_json)
    if out != STDOUT and (suffix := Path(out).suffix.lower()) not in {"", ".svg"}:
        raise typer.BadParameter(f"{out} ends in {suffix}, but the picture is SVG.", param_hint="--out")
    from vrag.render.axes import short
    from vrag.rl.metrics import latest, read_metrics
    from vrag.rl.plots import PlottedTraining, curves_svg, measures_of

    records = [read_metrics(run) for run in runs]
    trainings = [PlottedTraining(*pair) for pair in zip(_short_names(runs), records, strict=True)]
    facts = write_file(out, curves_svg(trainings, title).encode())
    if as_json:
        values = {
            training.name: {
                name: {"step": step, "value": value}
                for name, (step, value) in latest(training.records).items()
            }
            for training in trainings
        }
        print_json(facts | {"runs": values})
    elif out != STDOUT:
        ends = [latest(training.records) for training in trainings]
        steps = [max((record.step for record in training.records), default=0) for training in trainings]
        rows = [["step", *(f"{step:,}" for step in steps)]]
        for measure in measures_of(trainings):
            values = [end.get(measure.name) for end in ends]
            rows.append([measure.name, *("–" if value is None else short(value[1]) for value in values)])
        print_table(["measure", *(training.name for training in trainings)], rows)
        print_saved(facts)


def _short_names(runs: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that differ."""
    folders = [path.parent if path.is_file() else path for path in map(Path.resolve, runs)]
    for length in range(1, max(len(folder.parts) for folder in folders)):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, 1)]


local.command("sft")(sft)
local.command("rl")(rl)
app.add_typer(local, name="local")
for command in (rollout, verl, doctor):
    app.command()(command)
