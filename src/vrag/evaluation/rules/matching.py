"""Which of several things said is meant by which of several things that are right: the best one-to-one match."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["best_match"]


def best_match(scores: Sequence[Sequence[float]]) -> list[float]:
    """The scores of the pairs of a one-to-one match whose sum is the greatest.

    By the Hungarian method with potentials (Kuhn 1955; Jonker and Volgenant 1987): rows one after the other,
    each by the cheapest path that changes the pairs so far. Takes rows² × columns steps.

    Args:
        scores: A row for each thing of one kind, a column for each of the other.

    Returns:
        As many as there are rows or columns, whichever are fewer; in the order of those.

    >>> best_match([[0.9, 0.8], [0.7, 0.1]])
    [0.8, 0.7]
    """
    rows = [list(row) for row in scores]
    if rows and len(rows) > len(rows[0]):
        rows = [list(column) for column in zip(*rows, strict=True)]
    paired = _paired(rows)
    return [row[column] for row, column in zip(rows, paired, strict=True)]


def _paired(rows: Sequence[Sequence[float]]) -> list[int]:
    """The column of each row; there are no more rows than columns."""
    width = len(rows[0]) if rows else 0
    of_row, of_column = [0.0] * len(rows), [0.0] * (width + 1)
    taken: list[int | None] = [None] * (width + 1)
    """The row of each column; the last column is where a new row waits."""
    for new in range(len(rows)):
        taken[width], at = new, width
        cheapest, before = [math.inf] * width, [width] * width
        seen: dict[int, int] = {}
        while (row := taken[at]) is not None:
            seen[at] = row
            free = [column for column in range(width) if column not in seen]
            for column in free:
                cost = of_row[row] + of_column[column] - rows[row][column]
                if cost < cheapest[column]:
                    cheapest[column], before[column] = cost, at
            step = min(cheapest[column] for column in free)
            at = min(free, key=lambda column: cheapest[column])
            for column, held in seen.items():
                of_row[held] -= step
                of_column[column] += step
            for column in free:
                cheapest[column] -= step
        while at != width:
            taken[at], at = taken[before[at]], before[at]
    columns = {row: column for column, row in enumerate(taken[:width]) if row is not None}
    return [columns[row] for row in range(len(rows))]
