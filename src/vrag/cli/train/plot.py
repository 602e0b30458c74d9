"""`vrag train plot`: the course of trainings as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import Json, emit_json, show_table
from vrag.cli.terminal.output import STDOUT, check_out, tell_saved, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.rl.plots import PlottedTraining

__all__ = ["plot"]


def plot(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Folders of trainings, or their metrics.jsonl; each gets a colour."
    ),
    out: str = typer.Option("curves.svg", "--out", "-o", help="SVG file to write; - for standard output."),
    title: str = typer.Option("", "--title", help="Of the picture.", show_default="the name of the run"),
    as_json: bool = Json,
) -> None:
    """Draw what trainings measured: reward, accuracy, length, KL and the rest, step by step.

    A training that still goes on is drawn as far as it is. The last values are printed as a table.

    Example: vrag train plot runs/grpo runs/ggpo --out curves.svg
    """
    check_out(out, as_json=as_json)
    if out != STDOUT and (suffix := Path(out).suffix.lower()) not in {"", ".svg"}:
        raise typer.BadParameter(f"{out} ends in {suffix}: what is drawn is SVG.", param_hint="--out")
    from vrag.rl.metrics import read_metrics
    from vrag.rl.plots import PlottedTraining, curves_svg

    records = [read_metrics(run) for run in runs]
    trainings = [PlottedTraining(*pair) for pair in zip(_names(runs), records, strict=True)]
    facts = write_file(out, curves_svg(trainings, title).encode())
    if as_json:
        emit_json(facts | {"runs": _values(trainings)})
    elif out != STDOUT:
        show_table(["measure", *(training.name for training in trainings)], _rows(trainings))
        tell_saved(facts, ())


def _names(runs: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell the runs apart."""
    folders = [path.parent if path.is_file() else path for path in map(Path.resolve, runs)]
    for length in range(1, max(len(folder.parts) for folder in folders)):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, 1)]


def _values(trainings: Sequence[PlottedTraining]) -> dict[str, dict[str, dict[str, float]]]:
    from vrag.rl.metrics import latest

    return {
        training.name: {
            name: {"step": step, "value": value} for name, (step, value) in latest(training.records).items()
        }
        for training in trainings
    }


def _rows(trainings: Sequence[PlottedTraining]) -> list[list[str]]:
    """A row for each measure: the last value of each training."""
    from vrag.render.axes import short
    from vrag.rl.metrics import latest
    from vrag.rl.plots import measures_of

    ends = [latest(training.records) for training in trainings]
    steps = [max((record.step for record in training.records), default=0) for training in trainings]
    table = [["step", *(f"{step:,}" for step in steps)]]
    for measure in measures_of(trainings):
        found = [end.get(measure.name) for end in ends]
        table.append([measure.name, *("–" if value is None else short(value[1]) for value in found)])
    return table
