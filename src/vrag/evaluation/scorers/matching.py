"""Which of several things said is which of several things that are right: the best one-to-one match."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["best_match"]


def best_match(scores: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """The pairs of a one-to-one match whose scores have the greatest sum.

    By the Hungarian method with potentials (Kuhn 1955; Jonker and Volgenant 1987): rows one after the other,
    each by the cheapest path that changes the pairs so far. Takes rows² × columns steps.

    Args:
        scores: A row for each thing of one kind, a column for each of the other.

    Returns:
        Row and column of each pair, by row; as many as there are rows or columns, whichever are fewer.

    >>> best_match([[0.9, 0.8], [0.7, 0.1]])
    [(0, 1), (1, 0)]
    """
    if scores and len(scores) > len(scores[0]):
        turned = [list(column) for column in zip(*scores, strict=True)]
        return sorted((row, column) for column, row in enumerate(_paired(turned)))
    return list(enumerate(_paired(scores)))


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
