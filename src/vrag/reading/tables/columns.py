"""Columns of a table, from the pieces of its lines."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.text_pieces import Piece

MAX_CROSSINGS = 0.3
"""Share of the rows at a boundary that may cross it."""
MIN_OVERLAP = 0.15
"""Share of the narrower extent that two pieces of one column share."""
FULL_ROW = 0.8
"""Share of the pieces of the fullest row that rows with one cell in each column have."""
MIN_HEAD_OVERLAP = 0.5
"""Share of the narrower extent that a piece of another row shares with a column that it widens."""
MAX_COLUMNS = 60
"""Columns beyond which text makes no table."""


@dataclass(slots=True)
class ColumnExtent:
    """The extent of a column along x, in pixels."""

    x1: float
    x2: float


def find_columns(rows: Sequence[Sequence[Piece]], separators: Sequence[float] = ()) -> list[ColumnExtent]:
    """Find the columns of rows of pieces; empty if there are too many.

    Narrow pieces make the columns, wide ones that overlap two of them are cells that span. A boundary that
    many rows cross is none.

    Args:
        rows: Pieces of each row, from left to right.
        separators: Positions of vertical rules, which always divide columns.
    """
    columns = _seed_columns(rows)
    if len(columns) > MAX_COLUMNS:
        return []
    columns = _join_complementary(columns, rows, separators)
    while len(columns) > 1:
        weakest = _weakest_boundary(columns, rows, separators)
        if weakest is None:
            break
        right = columns.pop(weakest + 1)
        columns[weakest].x2 = max(columns[weakest].x2, right.x2)
    return columns


def _seed_columns(rows: Sequence[Sequence[Piece]]) -> list[ColumnExtent]:
    """Return extents that do not overlap, made from the narrow pieces of the fullest rows first.

    The pieces of other rows are heads over several columns, or stand over a part of one.
    """
    columns: list[ColumnExtent] = []
    heads: list[tuple[ColumnExtent, Piece]] = []
    full = FULL_ROW * max(map(len, rows), default=0)
    pieces = sorted(
        ((len(row) < full, piece.width, piece.x1, piece) for row in rows for piece in row),
        key=lambda entry: entry[:3],
    )
    for sparse, _, _, piece in pieces:
        touched = touched_columns(columns, piece.x1, piece.x2)
        if not touched:
            column = ColumnExtent(piece.x1, piece.x2)
            columns.insert(bisect_left([other.x1 for other in columns], piece.x1), column)
            if sparse:
                heads.append((column, piece))
            if len(columns) > MAX_COLUMNS:
                break
        elif len(touched) == 1:
            column = columns[touched[0]]
            if sparse and _overlap(column, piece.x1, piece.x2) < MIN_HEAD_OVERLAP:
                continue
            left = columns[touched[0] - 1].x2 if touched[0] else piece.x1
            right = columns[touched[0] + 1].x1 if touched[0] + 1 < len(columns) else piece.x2
            column.x1 = min(column.x1, max(piece.x1, left))
            column.x2 = max(column.x2, min(piece.x2, right))
            heads = [entry for entry in heads if entry[0] is not column]
    return [
        column
        for number, column in enumerate(columns)
        if not any(head is column and _is_between(columns, number, piece) for head, piece in heads)
    ]


def _is_between(columns: Sequence[ColumnExtent], number: int, piece: Piece) -> bool:
    """Return whether the only piece of a column stands on the centre of its neighbours: a head over both."""
    if not 1 < number < len(columns) - 1:
        return False
    middle = (columns[number - 1].x1 + columns[number + 1].x2) / 2
    return abs(middle - (piece.x1 + piece.x2) / 2) < piece.height


def touched_columns(columns: Sequence[ColumnExtent], x1: float, x2: float) -> range:
    """Return the numbers of the columns that an extent overlaps by more than a little."""
    first = bisect_right([column.x2 for column in columns], x1)
    last = bisect_left([column.x1 for column in columns], x2)
    while first < last - 1 and _overlap(columns[first], x1, x2) < MIN_OVERLAP:
        first += 1
    while first < last - 1 and _overlap(columns[last - 1], x1, x2) < MIN_OVERLAP:
        last -= 1
    return range(first, last)


def _overlap(column: ColumnExtent, x1: float, x2: float) -> float:
    shared = min(column.x2, x2) - max(column.x1, x1)
    return shared / max(min(column.x2 - column.x1, x2 - x1), 1e-9)


def _occupied(columns: Sequence[ColumnExtent], rows: Sequence[Sequence[Piece]]) -> list[list[range]]:
    """Return for each row the columns that each of its pieces takes."""
    return [[touched_columns(columns, piece.x1, piece.x2) for piece in row] for row in rows]


def _join_complementary(
    columns: list[ColumnExtent], rows: Sequence[Sequence[Piece]], separators: Sequence[float]
) -> list[ColumnExtent]:
    """Join neighbours that are never filled in the same row and stand close together."""
    number = 0
    while number + 1 < len(columns):
        left, right = columns[number], columns[number + 1]
        gap = right.x1 - left.x2
        ruled = any(left.x2 - 3 <= at <= right.x1 + 3 for at in separators)
        wide = max(left.x2 - left.x1, right.x2 - right.x1)
        if not ruled and gap < wide and not _both_filled(columns, number, rows):
            beyond = columns[number + 2].x1 - right.x2 if number + 2 < len(columns) else gap + 1
            before = left.x1 - columns[number - 1].x2 if number else gap + 1
            if gap <= min(beyond, before) * 1.5:
                columns[number] = ColumnExtent(left.x1, right.x2)
                del columns[number + 1]
                continue
        number += 1
    return columns


def _both_filled(columns: Sequence[ColumnExtent], number: int, rows: Sequence[Sequence[Piece]]) -> bool:
    for places in _occupied(columns, rows):
        single = {place[0] for place in places if len(place) == 1}
        if number in single and number + 1 in single:
            return True
    return False


def _weakest_boundary(
    columns: Sequence[ColumnExtent], rows: Sequence[Sequence[Piece]], separators: Sequence[float]
) -> int | None:
    """Return the boundary that the largest share of rows cross, if that is too many.

    Lines that consist of one piece alone do not count: heads of sections run across.
    """
    crossed, kept = [0] * len(columns), [0] * len(columns)
    for places in _occupied(columns, rows):
        if len(places) < 2:
            continue
        for place in places:
            for boundary in range(place.start, place.stop - 1):
                crossed[boundary] += 1
        filled = [number for place in places for number in place]  # none in a row of heads over gaps
        for boundary in range(min(filled, default=0), max(filled, default=0)):
            kept[boundary] += 1
    worst, share = None, MAX_CROSSINGS
    for boundary in range(len(columns) - 1):
        gap = (columns[boundary].x2 - 3, columns[boundary + 1].x1 + 3)
        if any(gap[0] <= at <= gap[1] for at in separators):
            continue
        part = crossed[boundary] / max(kept[boundary], 1)
        supported = kept[boundary] - crossed[boundary]
        if part > share or (supported < 2 and crossed[boundary] >= supported and crossed[boundary]):
            worst, share = boundary, max(part, share)
    return worst
