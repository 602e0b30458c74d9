"""Columns of running text among the lines that OCR read of a page, which are put one behind the other.

OCR gives lines by where they stand, and what stands at one height is one row. Lines of running text go on
below and fill their column; cells of a table do not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.corpus.pages.segments import Rows, TextSegment

MIN_LINES = 4
"""Lines of a column."""
MIN_WORDS = 3.0
"""Words of a line of running text in a column, on average; cells of tables have fewer."""
MIN_CONTINUED = 0.5
"""Share of the lines of each column, without the first, that begin with a small letter."""
MIN_FEWER_BREAKS = 2
"""Breaks of sentences across columns, by those from line to line."""
MIN_BESIDE = 0.5
"""Share of the rows of a block that have lines of both columns."""
FULL_LINE, MIN_FULL = 0.8, 0.65
"""Width of a line by the widest one of its column from which it is full, and the share of full lines of long
columns. The last line of a paragraph, or of a cell of a table, is not."""
MIN_FULL_LINES = 8
"""Lines of long columns. Names at the begins of lines count as breaks in them, too."""
SENTENCE_ENDS = frozenset(".!?:")


class _Gutter(NamedTuple):
    """The space between two columns, in fractions of the page."""

    left: float
    right: float

    def fit(self, row: Sequence[TextSegment]) -> _Gutter | None:
        """Return the part of the space that a row leaves; None if a line stands in or across it."""
        left, right = self
        for segment in row:
            start, _, end, _ = segment.bounds
            middle = (start + end) / 2
            if middle <= left:
                left = max(left, end)
            elif middle >= right:
                right = min(right, start)
            else:
                return None
        return _Gutter(left, right) if left < right else None


def order_rows(rows: Rows) -> Rows:
    """Return rows of lines, from top to bottom, with columns of running text one behind the other."""
    ordered: Rows = []
    for block, gutter in _list_blocks(rows):
        columns = [order_rows(column) for column in _split(block, gutter)] if gutter else []
        if columns and _is_running_text(block, columns):
            ordered += [row for column in columns for row in column]
        else:
            ordered += block
    return ordered


def _list_blocks(rows: Rows) -> Iterator[tuple[Rows, _Gutter | None]]:
    """Yield rows that leave the same space between two columns, and others alone."""
    block: Rows = []
    gutter: _Gutter | None = None
    for row in rows:
        kept = gutter.fit(row) if gutter else None
        if kept is None:
            if block:
                yield block, gutter
            block, kept = [], _first_gap(row)
        block.append(row)
        gutter = kept
        if gutter is None:
            yield block, None
            block = []
    if block:
        yield block, gutter


def _first_gap(row: Sequence[TextSegment]) -> _Gutter | None:
    """Return the space behind the first line of a row, if another one stands beside it."""
    if len(row) < 2 or any(segment.angle for segment in row) or row[0].bounds[2] >= row[1].bounds[0]:
        return None
    return _Gutter(row[0].bounds[2], row[1].bounds[0])


def _split(rows: Rows, gutter: _Gutter) -> list[Rows]:
    """Return the rows on either side of a space; none where few of them have lines on both sides."""
    middle = (gutter.left + gutter.right) / 2
    left = [[line for line in row if line.bounds[0] < middle] for row in rows]
    right = [[line for line in row if line.bounds[0] >= middle] for row in rows]
    beside = sum(bool(one and other) for one, other in zip(left, right, strict=True))
    if beside < MIN_BESIDE * len(rows):
        return []
    return [[row for row in side if row] for side in (left, right)]


def _is_running_text(block: Rows, columns: Sequence[Rows]) -> bool:
    """Return whether each column of a block goes on from line to line, and its rows do not go on across."""
    lines = [[line.text for row in column for line in row] for column in columns]
    if not all(map(_goes_on, lines)):
        return False
    across = _count_breaks([line.text for row in block for line in row])
    down = sum(map(_count_breaks, lines))
    return across >= MIN_FEWER_BREAKS * max(down, 1) or (across > down and all(map(_is_full, columns)))


def _goes_on(lines: Sequence[str]) -> bool:
    """Return whether lines look like running text."""
    if len(lines) < MIN_LINES or sum(len(line.split()) for line in lines) < MIN_WORDS * len(lines):
        return False
    return sum(line[0].islower() for line in lines[1:]) >= MIN_CONTINUED * (len(lines) - 1)


def _is_full(column: Rows) -> bool:
    """Return whether most lines of a long column are as wide as it."""
    widths = [line.bounds[2] - line.bounds[0] for row in column for line in row]
    full = sum(width >= FULL_LINE * max(widths) for width in widths)
    return len(widths) >= MIN_FULL_LINES and full >= MIN_FULL * len(widths)


def _count_breaks(lines: Sequence[str]) -> int:
    """Return how often a line does not go on in the next one."""
    return sum(following[0].islower() == (line[-1] in SENTENCE_ENDS) for line, following in pairwise(lines))
