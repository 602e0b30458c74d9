"""The heads, texts and boxes of a found table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.geometry import Box
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.tables.text_kinds import is_number, is_year
from vrag.reading.tables.text_pieces import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.grid import Grid
    from vrag.reading.tables.text_pieces import PageText

MAX_HEADER_ROWS = 6
"""Rows at the top that are looked at for heads."""
_RAISED = re.compile(r"[\d,*†‡§]{1,3}|[a-z]|\([\da-z]\)|\[[\da-z]\]")
_MARKS = re.compile(r"(?<=[\d%)])\s?(?:[¹²³⁴-⁹†‡§]+|\*{1,3}|\([a-z]\)|\[[a-z\d]{1,2}\])+$")


def make_table(page: PageText, grid: Grid, caption: str) -> DocumentTable:
    """Make the table of a grid: with texts, boxes, heads, sections and caption.

    Args:
        page: The words of the page.
        grid: The grid.
        caption: Its caption.
    """
    cells = [
        Cell(
            row=cell.row,
            column=cell.column,
            rows=cell.rows,
            columns=cell.columns,
            text=without_marks(join_words(page.item, _without_raised_marks(page, cell.words))),
            box=_box_of(page, cell.words),
        )
        for cell in grid.cells
    ]
    cells.sort(key=lambda cell: (cell.row, cell.column))
    header_rows = count_header_rows(cells, grid)
    header_columns = count_header_columns(cells, header_rows, grid.width)
    sections = find_sections(cells, header_rows, grid.width)
    words = sorted({index for cell in grid.cells for index in cell.words})
    return DocumentTable(
        cells=tuple(cells),
        header_rows=header_rows,
        header_columns=header_columns,
        sections=sections,
        caption=caption,
        box=_box_of(page, words),
    )


def _without_raised_marks(page: PageText, words: Sequence[int]) -> list[int]:
    """Return the numbers in the item of a cell's words that are no small raised marks behind others."""
    if len(words) < 2:
        return [page.numbers[index] for index in words]
    boxes = page.straight[list(words)]
    height = float((boxes[:, 3] - boxes[:, 1]).max())
    kept: list[int] = []
    for place, index in enumerate(words):
        word = page.item.words[page.numbers[index]]
        small = boxes[place, 3] - boxes[place, 1] < 0.78 * height
        raised = place > 0 and boxes[place, 3] < boxes[place - 1, 3] - 0.12 * height
        raised = raised and boxes[place, 1] < boxes[place - 1, 1] + 0.1 * height
        if not (small and raised and _RAISED.fullmatch(page.item.text[word.start : word.end])):
            kept.append(page.numbers[index])
    return kept


def without_marks(text: str) -> str:
    """Return the text of a cell without the marks of footnotes after a number.

    >>> [without_marks(text) for text in ("84,210¹", "12.3*", "(1.5)(a)", "2019 [b]", "Total (a)")]
    ['84,210', '12.3', '(1.5)', '2019', 'Total (a)']
    """
    stripped = _MARKS.sub("", text)
    return stripped if is_number(stripped) else text


def count_header_rows(cells: Sequence[Cell], grid: Grid) -> int:
    """Return the number of rows at the top that hold heads of columns.

    They end above the first row with figures, or at the first rule where no row has figures.
    """
    height = grid.height
    first_data = next((row for row in range(height) if _is_data_row(cells, row)), None)
    last = min(height - 1, MAX_HEADER_ROWS) if first_data is None else min(first_data, MAX_HEADER_ROWS)
    count = last if first_data is not None else min(1, last)
    rules = sorted(row + 1 for row in grid.ruled_below if row + 1 <= last)
    if rules and not grid.ruled:
        count = rules[-1] if first_data is not None else rules[0]
    elif first_data is not None:
        while count > 1 and _is_section(cells, count - 1, grid.width):
            count -= 1
    # A head that spans rows or columns has its own heads below.
    spans = [cell.row + cell.rows for cell in cells if cell.row < max(count, 1) and cell.rows > 1]
    count = max([count, *(end for end in spans if end <= MAX_HEADER_ROWS and end < height)])
    if first_data is None and any(cell.row == 0 and cell.columns > 1 for cell in cells):
        count = max(count, min(2, height - 1))
    return min(count, height - 1) if count else 0


def _is_data_row(cells: Sequence[Cell], row: int) -> bool:
    """Return whether at least half of a row's cells right of the first column are numbers, not years."""
    values = [cell.text for cell in cells if cell.row == row and cell.column > 0 and cell.text]
    figures = sum(is_number(text) and not is_year(text) for text in values)
    return bool(values) and figures * 2 >= len(values)


def count_header_columns(cells: Sequence[Cell], header_rows: int, width: int) -> int:
    """Return the number of columns at the left that hold heads of rows: words beside figures."""
    count = 0
    for column in range(min(width - 1, 3)):
        texts = [
            cell.text for cell in cells if cell.column == column and cell.row >= header_rows and cell.text
        ]
        figures = sum(is_number(text) and not is_year(text) for text in texts)
        if not texts or figures > 0.3 * len(texts):
            break
        count += 1
        if count == 1 and _has_figures(cells, header_rows, 1):
            break
    if count > 1 and not _has_figures(cells, header_rows, count):
        return 1
    return count


def _has_figures(cells: Sequence[Cell], header_rows: int, column: int) -> bool:
    texts = [cell.text for cell in cells if cell.column == column and cell.row >= header_rows and cell.text]
    return sum(map(is_number, texts)) > 0.3 * len(texts)


def find_sections(cells: Sequence[Cell], header_rows: int, width: int) -> frozenset[int]:
    """Return the rows of the body with one cell at the left, or over all columns, above rows with more."""
    height = max((cell.row + cell.rows for cell in cells), default=0)
    if width < 3:
        return frozenset()
    rows = [row for row in range(header_rows, height) if _is_section(cells, row, width)]
    return frozenset(row for row in rows if row + 1 < height and row + 1 not in rows)


def _is_section(cells: Sequence[Cell], row: int, width: int) -> bool:
    inside = [cell for cell in cells if cell.row <= row < cell.row + cell.rows and cell.text]
    return (
        len(inside) == 1
        and inside[0].rows == 1
        and (inside[0].column == 0 or inside[0].columns > width // 2)
        and not is_number(inside[0].text)
    )


def _box_of(page: PageText, words: Sequence[int]) -> Box | None:
    """Return the rectangle around words, as they stand on the picture."""
    if not words:
        return None
    boxes = page.boxes[list(words)]
    x1, y1 = boxes[:, :2].min(axis=0).tolist()
    x2, y2 = boxes[:, 2:].max(axis=0).tolist()
    return Box.unit(x1 / page.width, y1 / page.height, x2 / page.width, y2 / page.height)


def has_heads(grid: Grid, page: PageText) -> bool:
    """Return whether the first row or column holds words or years: the labels of charts are all figures."""
    edges = [cell for cell in grid.cells if cell.row == 0 or cell.column == 0]
    texts = [join_words(page.item, [page.numbers[index] for index in cell.words]) for cell in edges]
    return sum(is_year(text) or not is_number(text) for text in texts) > 0.3 * len(texts)
