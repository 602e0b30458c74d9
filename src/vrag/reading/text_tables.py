"""The tables that the file of an item has as tables: cells stand in the item's text, and need no picture."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from vrag.geometry import Box
from vrag.reading.tables.captions import find_text_caption
from vrag.reading.tables.grid import Area, Grid, GridCell
from vrag.reading.tables.heads import count_header_columns, count_header_rows, find_sections, without_marks
from vrag.reading.tables.table import Cell, DocumentTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.types import Item, TextTable

MAX_CAPTION_CHARS = 2000
"""Characters above a table among which its caption is looked for."""
_NO_AREA = Area(0.0, 0.0, 0.0, 0.0)


def read_text_tables(item: Item) -> tuple[DocumentTable, ...]:
    """Return the tables that the facts of an item tell, in order.

    Raises `ValueError` if two cells of a table take the same place.
    """
    tables: list[DocumentTable] = []
    last = 0
    for table in item.facts.tables:
        if table.cells:
            tables.append(_read_table(item, table, last))
            last = max(cell.end for cell in table.cells)
    return tuple(tables)


def _read_table(item: Item, table: TextTable, last: int) -> DocumentTable:
    """Read a table; `last` is where the one before it ends."""
    boxes = [_box_of(item, cell.start, cell.end) for cell in table.cells] if item.words else []
    cells = [
        Cell(
            row=cell.row,
            column=cell.column,
            rows=cell.rows,
            columns=cell.columns,
            text=without_marks(" ".join(item.text[cell.start : cell.end].split())),
            box=boxes[number] if boxes else None,
            span=(cell.start, cell.end),
        )
        for number, cell in enumerate(table.cells)
    ]
    width = max(cell.column + cell.columns for cell in cells)
    header_rows = _count_header_rows(cells) if table.header_rows is None else table.header_rows
    header_columns = table.header_columns
    if header_columns is None:
        header_columns = count_header_columns(cells, header_rows, width)
    found = [box for box in boxes if box is not None]
    return DocumentTable(
        cells=tuple(cells),
        header_rows=header_rows,
        header_columns=header_columns,
        sections=find_sections(cells, header_rows, width),
        caption=_find_caption(item, table, last),
        box=Box.around(found) if found else None,
        is_part=table.is_part,
    )


def _count_header_rows(cells: Sequence[Cell]) -> int:
    places = tuple(
        GridCell(row=cell.row, column=cell.column, rows=cell.rows, columns=cell.columns) for cell in cells
    )
    return count_header_rows(cells, Grid(cells=places, area=_NO_AREA))


def _find_caption(item: Item, table: TextTable, last: int) -> str:
    """Return the caption that the file marks, or the title and the lines about units above the table."""
    if table.caption is not None:
        return " ".join(item.text[slice(*table.caption)].split())
    first = min(cell.start for cell in table.cells)
    above = item.text[max(first - MAX_CAPTION_CHARS, last, 0) : first].split("\n")
    lines = [line.strip() for line in reversed(above[:-1]) if line.strip()]
    return find_text_caption(lines)


def _box_of(item: Item, start: int, end: int) -> Box | None:
    first = bisect_right(item.words, start, key=lambda word: word.end)
    last = bisect_left(item.words, end, key=lambda word: word.start)
    boxes = [word.box for word in item.words[first:last]]
    return Box.around(boxes) if boxes else None
