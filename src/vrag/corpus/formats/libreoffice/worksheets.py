"""Cells of a workbook: what each one shows, where it is, and whether it is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.libreoffice.xml_parts import attribute, find_all, repeated, shown_text, xml_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

MAX_CELLS = 500_000
"""Cells with content of one workbook beyond which no more are read."""
CELL_NAMES = (xml_name("table:table-cell"), xml_name("table:covered-table-cell"))


class WorksheetCell(NamedTuple):
    """A cell with something in it."""

    row: int
    column: int
    """Its place, both from 0."""
    text: str
    """What it shows, by its number format."""
    is_hidden: bool
    """True if its row or column is hidden, or filtered out."""
    value: str = ""
    """The stored value of a number or a date."""
    comments: tuple[Element, ...] = ()

    @property
    def address(self) -> str:
        """Its address in the sheet: "C14"."""
        return f"{column_name(self.column)}{self.row + 1}"

    @property
    def stored(self) -> str:
        """Its stored value, where it is not what the cell shows."""
        return "" if self.value == self.text else self.value


class Worksheet(NamedTuple):
    """A sheet of a workbook."""

    name: str
    is_hidden: bool
    cells: tuple[WorksheetCell, ...]
    """Cells with content, by rows."""


def column_name(number: int) -> str:
    """Return the letters of a column, counted from 0.

    >>> column_name(0), column_name(25), column_name(26), column_name(702)
    ('A', 'Z', 'AA', 'AAA')
    """
    letters = ""
    while number >= 0:
        number, letter = divmod(number, 26)
        letters = chr(65 + letter) + letters
        number -= 1
    return letters


def read_worksheets(root: Element, hidden: frozenset[str]) -> tuple[Worksheet, ...]:
    """Read the sheets of a workbook.

    Args:
        root: Root of its content.
        hidden: Names of the styles of hidden sheets.
    """
    worksheets: list[Worksheet] = []
    room = MAX_CELLS
    for table in root.findall(".//" + xml_name("office:spreadsheet") + "/" + xml_name("table:table")):
        cells: list[WorksheetCell] = []
        for cell in _cells(table):
            if room == 0:
                break
            cells.append(cell)
            room -= 1
        style = attribute(table, "table:style-name")
        worksheets.append(Worksheet(attribute(table, "table:name"), style in hidden, tuple(cells)))
    return tuple(worksheets)


def _cells(table: Element) -> Iterator[WorksheetCell]:
    """Yield the cells with content; a row that stands for many is one row if it is empty."""
    hidden_columns = _hidden_columns(table)
    number = 0
    for row in find_all(table, "table:table-row"):
        count = repeated(row, "table:number-rows-repeated")
        cells = list(_row_cells(row, hidden_columns, is_hidden=_is_hidden(row)))
        for offset in range(count if cells else 0):
            yield from (cell._replace(row=number + offset) for cell in cells)
        number += count


def _row_cells(row: Element, hidden_columns: list[range], *, is_hidden: bool) -> Iterator[WorksheetCell]:
    column = 0
    for element in row:
        if element.tag not in CELL_NAMES:
            continue
        count = repeated(element, "table:number-columns-repeated")
        text = shown_text(element) if element.tag == CELL_NAMES[0] and len(element) else ""
        value = attribute(element, "office:value") or attribute(element, "office:date-value")
        comments = tuple(element.findall(xml_name("office:annotation")))
        for each in range(column, column + count if text or comments else column):
            unseen = is_hidden or any(each in columns for columns in hidden_columns)
            yield WorksheetCell(0, each, text, unseen, value, comments)
        column += count


def _hidden_columns(table: Element) -> list[range]:
    found: list[range] = []
    start = 0
    for column in find_all(table, "table:table-column"):
        count = repeated(column, "table:number-columns-repeated")
        if _is_hidden(column):
            found.append(range(start, start + count))
        start += count
    return found


def _is_hidden(line: Element) -> bool:
    """Return whether a row or a column is hidden, or filtered out."""
    return attribute(line, "table:visibility") in {"collapse", "filter"}
