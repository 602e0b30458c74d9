"""Several runs side by side, as papers lay out their tables: a row for each, columns by kind of question.

Shares are in percent, and the last column is the mean over all questions, not over columns: a benchmark with
more questions weighs more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.errors import CaseError
from vrag.evaluation.groups import GROUPS, grouped
from vrag.evaluation.measures.conduct import COUNTS
from vrag.evaluation.pairing import ACCURACY, value
from vrag.view.markdown import inline, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.evaluation.record import Record

__all__ = ["ALL", "Cell", "Layout", "lay_out"]

ALL = "all"
"""The last column."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run on one kind of question."""

    mean: float | None
    """None where nothing could be measured."""
    n: int
    """Questions and samples that it is the mean of."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of runs."""

    measure: str
    columns: tuple[tuple[str, str], ...]
    """Benchmark and kind of question, which is empty for all of a benchmark. The last is (`ALL`, "")."""
    rows: Mapping[str, tuple[Cell, ...]]
    """By the name of the run, a cell for each column."""

    @property
    def heads(self) -> tuple[str, ...]:
        """What columns are called; the benchmark is named where there are several, or no more to name."""
        several = len({benchmark for benchmark, _ in self.columns}) > 2
        return tuple(
            " ".join(filter(None, (benchmark if several or not kind else "", kind)))
            for benchmark, kind in self.columns
        )

    @property
    def markdown(self) -> str:
        """The table in Markdown; shares in percent, the best of each column in bold."""
        heads = ["", *map(inline, self.heads)]
        best = [_best([row[at] for row in self.rows.values()]) for at in range(len(self.columns))]
        return table(
            heads,
            (
                [inline(name), *(self._told(cell, best[at]) for at, cell in enumerate(row))]
                for name, row in self.rows.items()
            ),
        )

    def told(self, cell: Cell) -> str:
        """A cell as text: a share in percent, an amount as it is."""
        if cell.mean is None:
            return "–"
        return f"{cell.mean:.1f}" if self.measure in COUNTS else f"{100 * cell.mean:.1f}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON: means are fractions."""
        return {
            "measure": self.measure,
            "columns": [list(column) for column in self.columns],
            "rows": {
                name: [{"mean": cell.mean, "n": cell.n} for cell in row] for name, row in self.rows.items()
            },
        }

    def _told(self, cell: Cell, best: float | None) -> str:
        told = self.told(cell)
        shown = best is not None and len(self.rows) > 1 and self.measure not in COUNTS
        return f"**{told}**" if shown and cell.mean == best else told


def lay_out(
    runs: Mapping[str, Sequence[Record]], *, by: str = "benchmark", measure: str = ACCURACY
) -> Layout:
    """Lays out runs.

    Each cell is of the questions that its run has; a run that was not asked about a benchmark has none there.
    A question without a verdict is left out of accuracy, a run that broke off counts 0.

    Args:
        runs: Records by the name of their run.
        by: What columns there are within a benchmark: one of `GROUPS`; "benchmark" for no more.
        measure: Which is told.

    Raises:
        CaseError: If there is no such kind, or no run has the measure.
    """
    if by not in GROUPS:
        raise CaseError(f"There are no columns by {by!r}.", f"Known: {', '.join(GROUPS)}.")
    sorted_out = {name: _columns(records, by) for name, records in runs.items()}
    columns = (*sorted({column for found in sorted_out.values() for column in found}), (ALL, ""))
    rows = {
        name: tuple(
            _cell(runs[name] if column == (ALL, "") else found.get(column, ()), measure) for column in columns
        )
        for name, found in sorted_out.items()
    }
    if not any(cell.n for row in rows.values() for cell in row):
        raise CaseError(
            f"None of the runs has the measure {measure}.", "The report of a run names those it has."
        )
    return Layout(measure, columns, rows)


def _columns(records: Iterable[Record], by: str) -> dict[tuple[str, str], list[Record]]:
    """Records by benchmark and kind of question."""

    def labels(record: Record) -> Iterable[str]:
        return [""] if by == "benchmark" else GROUPS[by](record.subject)

    benchmarks = grouped(records, {"benchmark": lambda record: [record.subject.benchmark or "–"]})
    return {
        (benchmark, label): [record for record in held if label in labels(record)]
        for benchmark, held in benchmarks.get("benchmark", {}).items()
        for label in sorted(
            {label for record in held for label in labels(record) if label or by == "benchmark"}
        )
    }


def _cell(records: Iterable[Record], measure: str) -> Cell:
    values = [found for record in records if (found := value(record, measure)) is not None]
    return Cell(math.fsum(values) / len(values) if values else None, len(values))


def _best(cells: Iterable[Cell]) -> float | None:
    return max((cell.mean for cell in cells if cell.mean is not None), default=None)
