"""Finding the columns of rows of pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from vrag.reading.tables.columns import MAX_COLUMNS, find_columns, touched_columns
from vrag.reading.tables.text_pieces import Piece

HEIGHT = 10.0


def make_row(number: int, extents: list[tuple[int, int]]) -> list[Piece]:
    """A row of pieces that do not overlap, given by their gaps and widths from left to right."""
    pieces: list[Piece] = []
    right = 0.0
    for gap, width in extents:
        left, right = right + gap, right + gap + width
        top = 2 * HEIGHT * number
        pieces.append(Piece(left, top, right, top + HEIGHT, (len(pieces),), "12"))
    return pieces


extents = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 200)), min_size=1, max_size=8)
HEADS_OVER_GAPS = [
    [(0, 20), (30, 20), (30, 20), (30, 20), (30, 20)],
    [(0, 20), (30, 20), (30, 20), (30, 20), (30, 20)],
    [(72, 24), (76, 24)],
]
"""The last row has two heads: each stands on the centre of two columns, between them."""


@given(st.lists(extents, min_size=1, max_size=8), st.lists(st.integers(0, 800), max_size=3))
@example(HEADS_OVER_GAPS, [])
def test_columns_of_any_rows_are_in_order_and_apart(
    layout: list[list[tuple[int, int]]], separators: list[int]
) -> None:
    rows = [make_row(number, row) for number, row in enumerate(layout)]

    columns = find_columns(rows, sorted(separators))

    assert len(columns) <= MAX_COLUMNS
    assert all(column.x1 <= column.x2 for column in columns)
    assert all(left.x2 <= right.x1 for left, right in pairwise(columns))


def test_a_row_of_heads_over_gaps_takes_no_column_and_changes_none() -> None:
    rows = [make_row(number, row) for number, row in enumerate(HEADS_OVER_GAPS)]

    columns = find_columns(rows)

    assert [(column.x1, column.x2) for column in columns] == [(50 * n, 50 * n + 20) for n in range(5)]
    assert not any(touched_columns(columns, piece.x1, piece.x2) for piece in rows[-1])
