"""Values written at points or bars of a chart, with the caption and the label of the axis below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from vrag.reading.table_answers.values import parse_cell
from vrag.reading.tables.text_pieces import Piece

MIN_TICKS = 3
"""Numbers of a scale."""
UNEVEN = 0.15
"""Largest difference between two steps of a scale, as a share of the step."""
BELOW = 3.0
"""Largest distance of the labels below from the lowest tick, in heights of the tick."""
CAPTION_REACH = 8.0
"""Largest distance of the caption above from the highest tick, in heights of the tick."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A value in a chart."""

    value: Piece
    caption: tuple[Piece, ...]
    label: Piece
    """The label of the horizontal axis below it."""
    is_highest: bool
    """True for the highest of the values written in its chart."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """A vertical axis with evenly spaced numbers, the highest first."""

    ticks: tuple[Piece, ...]

    @property
    def right(self) -> float:
        return max(tick.x2 for tick in self.ticks)

    @property
    def top(self) -> float:
        return self.ticks[0].middle - (self.ticks[1].middle - self.ticks[0].middle)

    @property
    def bottom(self) -> float:
        return self.ticks[-1].middle


def find_chart_points(rows: Sequence[Sequence[Piece]]) -> Iterator[ChartPoint]:
    """Yield the values inside the charts of a page, which is given as rows of pieces from the top down."""
    pieces = [piece for row in rows for piece in row]
    numbers = [piece for piece in pieces if parse_cell(piece.text).whole]
    for scale in _find_scales(numbers):
        height = scale.ticks[-1].height
        labels = [
            piece
            for piece in pieces
            if piece.x2 > scale.right and 0 < piece.middle - scale.bottom <= BELOW * height
        ]
        if len(labels) < MIN_TICKS:
            continue
        right = max(label.x2 for label in labels)
        caption = _find_caption(rows, scale, right)
        inside = [
            value
            for value in numbers
            if scale.right < value.x1 < right and scale.top < value.middle < scale.bottom - height / 2
        ]
        highest = max(map(_read_number, inside), default=0.0)
        for value in inside:
            label = min(labels, key=lambda label: abs(label.x1 + label.x2 - value.x1 - value.x2))
            yield ChartPoint(value, caption, label, _read_number(value) == highest)


def _read_number(piece: Piece) -> float:
    return parse_cell(piece.text).number or 0.0


def _find_scales(numbers: Sequence[Piece]) -> Iterator[_Scale]:
    """Yield the longest runs of numbers above each other that go down in even steps."""
    used: set[Piece] = set()
    for first, second in combinations(sorted(numbers, key=lambda piece: piece.middle), 2):
        if first in used or second in used or not _is_above(first, second):
            continue
        ticks = [first, second]
        for piece in sorted(numbers, key=lambda piece: piece.middle):
            if _is_above(ticks[-1], piece) and _is_even([*ticks, piece]):
                ticks.append(piece)
        if len(ticks) > MIN_TICKS or (len(ticks) == MIN_TICKS and _read_number(ticks[-1]) == 0):
            used.update(ticks)
            yield _Scale(tuple(ticks))


def _is_above(one: Piece, other: Piece) -> bool:
    """Return whether a number stands above a smaller one, both set to one side."""
    aligned = min(abs(one.x2 - other.x2), abs(one.x1 - other.x1)) <= 0.6 * one.height
    return aligned and other.middle - one.middle > one.height and _read_number(one) > _read_number(other)


def _is_even(ticks: Sequence[Piece]) -> bool:
    places = [below.middle - above.middle for above, below in pairwise(ticks)]
    values = [_read_number(above) - _read_number(below) for above, below in pairwise(ticks)]
    return all(max(steps) - min(steps) <= UNEVEN * max(steps) for steps in (places, values))


def _find_caption(rows: Sequence[Sequence[Piece]], scale: _Scale, right: float) -> tuple[Piece, ...]:
    """Return the nearest line above a chart that stands over it."""
    height = scale.ticks[0].height
    over = [
        tuple(piece for piece in row if piece.x1 < right and piece.x2 > scale.ticks[0].x1)
        for row in rows
        if 0 < scale.ticks[0].y1 - row[0].y2 <= CAPTION_REACH * height
    ]
    over = [row for row in over if not all(parse_cell(piece.text).whole for piece in row)]
    return max(over, key=lambda row: row[0].middle, default=())
