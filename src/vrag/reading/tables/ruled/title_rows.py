"""Rows of a frame of rules that are none of its table: the numbered title at the top, notes at the bottom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.reading.tables.captions import NOTE, TABLE_TITLE
from vrag.reading.tables.text_kinds import count_words
from vrag.reading.tables.text_pieces import join_words

if TYPE_CHECKING:
    from vrag.reading.tables.grid import Grid
    from vrag.reading.tables.text_pieces import StraightWords

MIN_NOTE_WORDS = 8
"""Words from which the only cell of the last row is a note."""


def without_title_and_notes(grid: Grid, page: StraightWords) -> Grid:
    """Return a ruled table without a numbered title in its first row and notes in its last ones.

    These are the only cell of their row.
    """
    top, bottom = 0, grid.height
    while bottom - top > 2 and _is_only_cell(grid, top) and TABLE_TITLE.match(_row_text(grid, page, top)):
        top += 1
    while bottom - top > 2 and _is_only_cell(grid, bottom - 1):
        text = _row_text(grid, page, bottom - 1)
        if not (NOTE.match(text) or count_words(text) >= MIN_NOTE_WORDS):
            break
        bottom -= 1
    cells = (replace(cell, row=cell.row - top) for cell in grid.cells if top <= cell.row < bottom)
    below = frozenset(row - top for row in grid.ruled_below if top <= row < bottom)
    boxes = page.straight[[index for cell in grid.cells if top <= cell.row < bottom for index in cell.words]]
    area = grid.area._replace(
        y1=grid.area.y1 if top == 0 else float(boxes[:, 1].min()),
        y2=grid.area.y2 if bottom == grid.height else float(boxes[:, 3].max()),
    )
    return replace(grid, cells=tuple(cells), ruled_below=below, area=area)


def _is_only_cell(grid: Grid, row: int) -> bool:
    """Return whether one cell alone covers a row."""
    inside = [cell for cell in grid.cells if cell.row <= row < cell.row + cell.rows]
    return len(inside) == 1 and inside[0].columns == grid.width and inside[0].rows == 1


def _row_text(grid: Grid, page: StraightWords, row: int) -> str:
    words = [index for cell in grid.cells if cell.row == row for index in cell.words]
    return join_words(page.item, [page.numbers[index] for index in words])
