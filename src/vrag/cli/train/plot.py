"""`vrag train plot`: the curves of training runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import print_json, print_table
from vrag.cli.terminal.output import STDOUT, check_out, print_saved, write_file

if TYPE_CHECKING:
    from vrag.rl.plots import PlottedTraining


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
    from vrag.rl.metrics import latest, read_metrics
    from vrag.rl.plots import PlottedTraining, curves_svg

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
        print_table(["measure", *(training.name for training in trainings)], _rows(trainings))
        print_saved(facts)


def _short_names(runs: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that differ."""
    folders = [path.parent if path.is_file() else path for path in map(Path.resolve, runs)]
    for length in range(1, max(len(folder.parts) for folder in folders)):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, 1)]


def _rows(trainings: Sequence[PlottedTraining]) -> list[list[str]]:
    """Return a row for each measure: the latest value of each training."""
    from vrag.render.axes import short
    from vrag.rl.metrics import latest
    from vrag.rl.plots import measures_of

    ends = [latest(training.records) for training in trainings]
    steps = [max((record.step for record in training.records), default=0) for training in trainings]
    table = [["step", *(f"{step:,}" for step in steps)]]
    for measure in measures_of(trainings):
        values = [end.get(measure.name) for end in ends]
        table.append([measure.name, *("–" if value is None else short(value[1]) for value in values)])
    return table
