"""One row of a comparison, and how rows are printed and kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Comparison", "compared", "keep", "show"]

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside theirs: the same work on the same data, runs interleaved, medians."""

    name: str
    ours: float
    theirs: float
    ratio: float
    """Ours divided by theirs."""
    unit: str
    runs: int
    """Of each, those counted."""


def compared(name: str, ours: float, theirs: float, unit: str, runs: int) -> Comparison:
    """A row with its ratio."""
    return Comparison(name, ours, theirs, ours / theirs if theirs else float("nan"), unit, runs)


def show(rows: Sequence[Comparison]) -> None:
    """Prints one table."""
    width = max([len(row.name) for row in rows], default=4)
    print(f"{'name':{width}}  {'ours':>10}  {'theirs':>10}  {'ratio':>7}  unit (runs)")
    for row in rows:
        figures = f"{row.ours:10.4g}  {row.theirs:10.4g}  {row.ratio:7.3f}"
        print(f"{row.name:{width}}  {figures}  {row.unit} ({row.runs})")


def keep(rows: Sequence[Comparison]) -> None:
    """Writes `benchmarks/results.json`."""
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
