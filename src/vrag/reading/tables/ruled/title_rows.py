"""Rows that bound a table in a frame of rules: a numbered title, notes, blank rows between two tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.reading.tables.captions import NOTE, TABLE_TITLE
from vrag.reading.tables.text_kinds import count_words, is_number
from vrag.reading.tables.text_pieces import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def split_stacked(page: StraightWords, grid: Grid, places: Sequence[float]) -> list[Grid]:
    """Return the tables of a frame, each below the one before with heads of its own behind a blank row.

    Args:
        page: The words of the page.
        grid: The frame, with its empty rows.
        places: The positions of its horizontal lines.
    """
    filled = {row for cell in grid.cells if cell.words for row in range(cell.row, cell.row + cell.rows)}
    starts = [0]
    for row in sorted(filled):
        if row - 1 in filled or row == 0 or row + 1 not in filled:
            continue
        above = range(starts[-1], row)
        has_figures = any(map(is_number, _list_texts(grid, page, above)))
        if has_figures and _is_head_row(grid, page, row):
            starts.append(row)
    ends = [*starts[1:], grid.height]
    return [_cut_rows(grid, places, start, end) for start, end in zip(starts, ends, strict=True)]


def _is_head_row(grid: Grid, page: StraightWords, row: int) -> bool:
    """Return whether a row has two names and more and no number, and the one below it has a number."""
    heads = _list_texts(grid, page, range(row, row + 1))
    values = _list_texts(grid, page, range(row + 1, row + 2))
    return len(heads) > 1 and not any(map(is_number, heads)) and any(map(is_number, values))


def _list_texts(grid: Grid, page: StraightWords, rows: range) -> list[str]:
    """Return the texts of the cells that begin in some rows."""
    return [
        join_words(page.item, [page.numbers[index] for index in cell.words])
        for cell in grid.cells
        if cell.words and cell.row in rows
    ]


def _cut_rows(grid: Grid, places: Sequence[float], start: int, end: int) -> Grid:
    """Return the rows from one up to another as a grid of their own."""
    return replace(
        grid,
        cells=tuple(replace(cell, row=cell.row - start) for cell in grid.cells if start <= cell.row < end),
        area=grid.area._replace(y1=places[start], y2=places[end]),
        ruled_below=frozenset(row - start for row in grid.ruled_below if start <= row < end),
    )


def _is_only_cell(grid: Grid, row: int) -> bool:
    """Return whether one cell alone covers a row."""
    inside = [cell for cell in grid.cells if cell.row <= row < cell.row + cell.rows]
    return len(inside) == 1 and inside[0].columns == grid.width and inside[0].rows == 1


def _row_text(grid: Grid, page: StraightWords, row: int) -> str:
    words = [index for cell in grid.cells if cell.row == row for index in cell.words]
    return join_words(page.item, [page.numbers[index] for index in words])
