"""`vrag train`: models learn to search, look and answer."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_result
from vrag.cli.terminal.inputs import read_questions
from vrag.cli.terminal.progress import note_on_interrupt
from vrag.cli.train.local import rl, sft
from vrag.cli.train.plot import plot
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


local.command("sft")(sft)
local.command("rl")(rl)
app.add_typer(local, name="local")
for command in (rollout, plot, verl, doctor):
    app.command()(command)
