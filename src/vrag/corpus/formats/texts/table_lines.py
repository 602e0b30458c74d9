"""Tables of HTML, Markdown and separated values as lines of text, a line for each row, and where cells stand.

A cell that spans rows or columns is repeated in each, so that every line can be read by itself; all copies
are one cell of the table.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from vrag.types import TextCell, TextTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CELL = " | "
"""Text between two cells of a line."""
MAX_REPEATED_CHARS = 80
"""Characters of a cell that is repeated in each row and column that it spans; a longer one stands once."""
MAX_CELL_CHARS = 1000
"""Characters of a cell beyond which a table is a layout of a page."""
MAX_COLUMNS = 500
"""Columns that a cell may span."""
MAX_PLACES = 1_000_000
"""Rows times columns beyond which a table is read as plain lines."""
MAX_HEAD_ROWS = 6
"""Rows at the top that may be heads."""
_FIGURE = re.compile(r"[-+−(]?\s?[$€£¥]?\s?\d[\d.,’'\s]*\s?[%)]?")
_YEAR = re.compile(r"(?:1[4-9]|20)\d\d(?:[-/–]\d\d(?:\d\d)?)?")


class LineCell(NamedTuple):
    """The words of a cell in one row."""

    number: int
    """Number of the cell in its table: the same in each row that it spans."""
    column: int
    columns: int
    """Columns that it spans."""
    start: int
    end: int
    """The same as `start` where the words stand in another row."""


class RowLine(NamedTuple):
    """A row of a table: `text[start:end]`."""

    start: int
    end: int
    cells: tuple[LineCell, ...]
    """Its cells by column; cells without words are left out."""

    def moved(self, by: int) -> RowLine:
        """Return the row in a text that has `by` characters more in front."""
        cells = (cell._replace(start=cell.start + by, end=cell.end + by) for cell in self.cells)
        return RowLine(self.start + by, self.end + by, tuple(cells))


class LinedTable(NamedTuple):
    """A table as lines of a text."""

    text: str
    lines: tuple[RowLine, ...]
    header_rows: int | None
    """Lines at the top that hold the heads of columns; None where that is not known."""
    header_columns: int | None
    """Columns at the left that hold the heads of rows; None where that is not known."""
    caption: tuple[int, int] | None = None
    is_part: bool = False
    """True if its file has more rows than these."""

    @property
    def start(self) -> int:
        """Where its caption begins, or the first line."""
        return self.caption[0] if self.caption else self.lines[0].start

    @property
    def body_start(self) -> int:
        """Where the first line below the heads begins."""
        return self.lines[min(self.header_rows or 0, len(self.lines) - 1)].start

    @property
    def end(self) -> int:
        """Where the last line ends."""
        return self.lines[-1].end

    def is_continued(self, start: int, end: int, most: int) -> bool:
        """Return whether `text[start:end]` begins within it and needs its caption and heads again.

        They are repeated if they have at most `most` characters.
        """
        heads = self.body_start - self.start
        return self.start < start < self.end and self.body_start < end and 0 < heads <= most

    def moved(self, by: int) -> LinedTable:
        """Return the table in a text that has `by` characters more in front; its own text stays."""
        if not by:
            return self
        caption = (self.caption[0] + by, self.caption[1] + by) if self.caption else None
        return self._replace(lines=tuple(line.moved(by) for line in self.lines), caption=caption)

    def part(self, start: int, end: int) -> TextTable | None:
        """Return what stands in `text[start:end]`, with places in that part; None if nothing does."""
        caption = self.caption
        if caption is not None and (caption[0] < start or end < caption[1]):
            caption = None
        is_whole = start <= self.lines[0].start
        header_rows = self.header_rows if is_whole else 0
        table = self._build(self._lines_between(start, end), caption, header_rows, -start)
        is_all = is_whole and self.end <= end and not self.is_part
        return table if table is None or is_all else replace(table, is_part=True)

    def continued_part(self, start: int, end: int) -> TextTable | None:
        """Return the heads with what stands in `text[start:end]`; None if nothing stands there.

        Places are those in the caption and the heads, followed by that part.
        """
        heads = [line.moved(-self.start) for line in self.lines[: self.header_rows or 0]]
        shift = self.body_start - self.start - start
        body = [line.moved(shift) for line in self._lines_between(start, end)]
        caption = (0, self.caption[1] - self.caption[0]) if self.caption else None
        table = self._build([*heads, *body], caption, len(heads), 0) if body else None
        return table and replace(table, is_part=True)

    def _lines_between(self, start: int, end: int) -> list[RowLine]:
        """Return the lines with words in a range of the text, without cells that are cut."""
        first = bisect_right(self.lines, start, key=lambda line: line.end)
        last = bisect_left(self.lines, end, key=lambda line: line.start)
        lines = (
            line._replace(cells=tuple(c for c in line.cells if start <= c.start and c.end <= end))
            for line in self.lines[first:last]
        )
        return [line for line in lines if any(cell.start < cell.end for cell in line.cells)]

    def _build(
        self, lines: Sequence[RowLine], caption: tuple[int, int] | None, header_rows: int | None, by: int
    ) -> TextTable | None:
        if not lines:
            return None
        cells = tuple(sorted(_join_lines([line.moved(by) for line in lines])))
        count = None if header_rows is None else min(header_rows, len(lines))
        place = (caption[0] + by, caption[1] + by) if caption else None
        return TextTable(cells, count, self.header_columns, place)


def _join_lines(lines: Sequence[RowLine]) -> Iterator[TextCell]:
    """Yield the cells of some lines; those that stand in several rows once."""
    rows: dict[int, list[int]] = {}
    words: dict[int, LineCell] = {}
    for row, line in enumerate(lines):
        for cell in line.cells:
            rows.setdefault(cell.number, []).append(row)
            if cell.start < cell.end:
                words.setdefault(cell.number, cell)
    for number, cell in words.items():
        first, last = rows[number][0], rows[number][-1]
        yield TextCell(first, cell.column, last - first + 1, cell.columns, cell.start, cell.end)


@dataclass(slots=True)
class CellDraft:
    """A cell while its file is read."""

    column: int
    columns: int
    rows: int
    is_head: bool
    parts: list[str] = field(default_factory=list[str])
    text: str = ""
    """Its words, with single spaces, once the table has ended."""


@dataclass(slots=True)
class RowDraft:
    """A row while its file is read."""

    is_head: bool = False
    cells: list[tuple[int, CellDraft]] = field(default_factory=list[tuple[int, CellDraft]])
    """Its cells with their numbers: those that span it from above, then its own."""
    own: int = 0
    """Cells that begin in it."""
    taken: set[int] = field(default_factory=set[int])
    """Columns of cells from above."""
    column: int = 0
    """The first column behind its own cells."""

    @property
    def own_cells(self) -> list[CellDraft]:
        """The cells that begin in it."""
        return [cell for _, cell in self.cells[len(self.cells) - self.own :]]


class TableDraft:
    """A table while its file is read: rows and cells are begun in order, text is added to the last cell."""

    def __init__(self) -> None:
        self.caption: list[str] = []
        self._rows: list[RowDraft] = []
        self._spanning: list[tuple[int, CellDraft, int]] = []
        """Cells that span rows to come: number, cell, and how many."""
        self._cells = 0
        self._places = 0

    def begin_row(self, *, is_head: bool = False) -> None:
        """Begin a row, which starts with the cells that reach into it from above."""
        row = RowDraft(is_head)
        for number, cell, _ in self._spanning:
            row.cells.append((number, cell))
            row.taken.update(range(cell.column, cell.column + cell.columns))
        self._places += len(row.taken)
        self._spanning = [(number, cell, left - 1) for number, cell, left in self._spanning if left > 1]
        if self._places > MAX_PLACES:
            self._spanning = []
        self._rows.append(row)

    def begin_cell(self, rows: int = 1, columns: int = 1, *, is_head: bool = False) -> None:
        """Begin a cell at the next free place of the row."""
        if not self._rows:
            self.begin_row()
        row = self._rows[-1]
        while row.column in row.taken:
            row.column += 1
        end = row.column + min(max(columns, 1), MAX_COLUMNS)
        if row.taken:
            end = next((column for column in range(row.column, end) if column in row.taken), end)
        cell = CellDraft(row.column, end - row.column, max(rows, 1), is_head)
        row.cells.append((self._cells, cell))
        row.own += 1
        row.column = end
        if cell.rows > 1 and self._places <= MAX_PLACES:
            self._spanning.append((self._cells, cell, cell.rows - 1))
        self._cells += 1
        self._places += cell.columns

    def add(self, text: str) -> None:
        """Add text to the cell begun last."""
        if self._rows and self._rows[-1].own:
            self._rows[-1].cells[-1][1].parts.append(text)
        elif text.strip():
            self.begin_cell()
            self.add(text)

    def finish(self) -> LinedTable | None:
        """Return the table as lines; None if its text is a layout and no table."""
        rows = [row for row in self._rows if any("".join(cell.parts).strip() for cell in row.own_cells)]
        width = max((cell.column + cell.columns for row in rows for _, cell in row.cells), default=0)
        if len(rows) < 2 or width < 2 or max(self._places, width * len(rows)) > MAX_PLACES:
            return None
        for row in rows:
            for cell in row.own_cells:
                cell.text = " ".join("".join(cell.parts).split())
                if len(cell.text) > MAX_CELL_CHARS:
                    return None
        is_table = any(sum(bool(cell.text) for _, cell in row.cells) > 1 for row in rows)
        return _write_lines(rows, " ".join("".join(self.caption).split())) if is_table else None

    def lines(self) -> str:
        """Return the text of a layout: a line for each row of short cells, or for each cell."""
        texts: list[str] = ["".join(self.caption)]
        for row in self._rows:
            cells = ["".join(cell.parts).strip() for cell in row.own_cells]
            are_short = not any("\n" in cell for cell in cells)
            texts.append((CELL if are_short else "\n\n").join(filter(None, cells)))
        return "\n".join(texts)


def _write_lines(rows: Sequence[RowDraft], caption: str) -> LinedTable:
    """Write the rows of a table below its caption."""
    width = max(cell.column + cell.columns for row in rows for _, cell in row.cells)
    parts: list[str] = [caption] if caption else []
    length = len(caption) + 1 if caption else 0
    lines: list[RowLine] = []
    written: set[int] = set()
    for row in rows:
        text, cells = _write_row(row, width, written, length)
        lines.append(RowLine(length, length + len(text), tuple(cells)))
        parts.append(text)
        length += len(text) + 1
    header_rows, header_columns = _count_heads(rows)
    if header_rows is None:
        texts = [[cell.text for _, cell in sorted(row.cells, key=_column_of)] for row in rows]
        header_rows = guess_header_rows(texts)
    span = (0, len(caption)) if caption else None
    return LinedTable("\n".join(parts), tuple(lines), header_rows, header_columns, span)


def _column_of(numbered: tuple[int, CellDraft]) -> int:
    return numbered[1].column


def _write_row(row: RowDraft, width: int, written: set[int], at: int) -> tuple[str, list[LineCell]]:
    """Write the line of a row that begins at `at`, and where its cells stand."""
    texts = [""] * width
    places: list[tuple[int, CellDraft]] = sorted(row.cells, key=_column_of)
    for number, cell in places:
        is_short = len(cell.text) <= MAX_REPEATED_CHARS
        if number in written and not is_short:
            continue
        copies = cell.columns if is_short and cell.columns < width else 1
        texts[cell.column : cell.column + copies] = [cell.text] * copies
    while texts and not texts[-1]:
        texts.pop()
    starts, length = list[int](), at
    for text in texts:
        starts.append(length)
        length += len(text) + len(CELL)
    line = CELL.join(texts)
    shift = len(line) - len(line.lstrip())
    cells: list[LineCell] = []
    for number, cell in places:
        if not cell.text:
            continue
        start = end = at
        if cell.column < len(texts) and texts[cell.column]:
            start = starts[cell.column] - shift
            end = start + len(cell.text)
        written.add(number)
        cells.append(LineCell(number, cell.column, cell.columns, start, end))
    return line.lstrip(), cells


def _count_heads(rows: Sequence[RowDraft]) -> tuple[int | None, int | None]:
    """Return the rows and columns of heads that the file marks as such; None where it marks none."""
    marked = 0
    while marked < min(len(rows) - 1, MAX_HEAD_ROWS) and _is_head_row(rows[marked]):
        marked += 1
    body = rows[marked:]
    columns = 0
    while all(_is_head_at(row, columns) for row in body) and columns < 3:
        columns += 1
    return (marked if marked or columns else None), columns or None


def _is_head_row(row: RowDraft) -> bool:
    return row.is_head or all(cell.is_head for _, cell in row.cells)


def _is_head_at(row: RowDraft, column: int) -> bool:
    """Return whether a head covers a column of a row, and not all of its cells are heads."""
    covers = (cell for _, cell in row.cells if cell.column <= column < cell.column + cell.columns)
    return any(cell.is_head for cell in covers) and not all(cell.is_head for _, cell in row.cells)


def guess_header_rows(rows: Iterable[Sequence[str]]) -> int | None:
    """Return 1 if the first row holds words only and another one figures, 0 if it holds figures; else None.

    Years are no figures here.
    """
    first, *others = [list(row) for row in rows] or [[]]
    if any(map(is_figure, first)):
        return 0
    below = any(is_figure(text) for row in others[:50] for text in row)
    is_full = sum(map(bool, first)) >= max(len(first) - 1, 2)
    return 1 if below and is_full else None


def is_figure(text: str) -> bool:
    """Return whether a cell holds a number that is no year.

    >>> [is_figure(text) for text in ("12.40", "(1,200)", "2019", "EUR", "€ 3 %")]
    [True, True, False, False, True]
    """
    return _FIGURE.fullmatch(text) is not None and _YEAR.fullmatch(text) is None
