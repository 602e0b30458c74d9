"""Pages of a workbook: the sheet that each one shows, and its cells in the text of the page.

LibreOffice notes in the contents at which rows pages begin (`printing.bas`), and in the PDF file at which
page a sheet begins. Where the two do not agree, or most cells are not found in the text, no cell has an
address: a wrong one is worse than none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from vrag.corpus.formats.libreoffice.xml_parts import attribute, find_all
from vrag.types import AddressedCell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

    from vrag.corpus.formats.libreoffice.worksheets import Worksheet, WorksheetCell
    from vrag.types import Item, Word

ROWS = re.compile(r"vrag rows (\d{1,6})")
"""Name of the property with the rows at which the pages of a sheet begin, and the number of the sheet."""
MIN_FOUND = 0.6
"""Part of the cells of a page that must be found in its text; else its order is not that of the rows."""
MAX_CELLS, MAX_PLACES = 20_000, 200
"""Cells of a page, and places of one of them, that are looked at."""


class WorksheetPage(NamedTuple):
    """A page of a workbook."""

    worksheet: str
    cells: tuple[WorksheetCell, ...]
    """Cells that are seen on it, by rows; empty where they are not known."""


def read_page_rows(meta: Element | None) -> dict[int, list[int]]:
    """Return, by the number of the sheet, the rows at which its pages begin, and the one after the last."""
    found: dict[int, list[int]] = {}
    for each in find_all(meta, "meta:user-defined") if meta is not None else ():
        rows = (each.text or "").split()
        if (match := ROWS.fullmatch(attribute(each, "meta:name"))) and all(map(_is_number, rows)):
            found[int(match[1])] = [int(row) for row in rows]
    return found


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 9


def read_outline(file: BinaryIO) -> list[tuple[str, int]]:
    """Return the names of the sheets in a printed workbook, with the numbers of their first pages, from 1."""
    from pypdfium2 import PdfDocument

    found: list[tuple[str, int]] = []
    with cast("Any", PdfDocument(file)) as document:
        for entry in document.get_toc(max_depth=1):
            target = entry.get_dest()
            page = None if target is None else target.get_index()
            if page is not None:
                found.append((str(entry.get_title()), int(page) + 1))
    return found


def find_worksheet_pages(
    worksheets: Sequence[Worksheet],
    rows: Mapping[int, Sequence[int]],
    outline: Sequence[tuple[str, int]],
    count: int,
) -> dict[int, WorksheetPage]:
    """Return the pages of a workbook by their numbers.

    Args:
        worksheets: Its sheets.
        rows: `read_page_rows` of it.
        outline: `read_outline` of it.
        count: Number of pages.
    """
    numbers = {
        worksheet.name: number for number, worksheet in enumerate(worksheets) if not worksheet.is_hidden
    }
    pages: dict[int, WorksheetPage] = {}
    for (name, first), (_, end) in pairwise([*outline, ("", count + 1)]):
        if name not in numbers:
            continue
        borders = list(pairwise(rows.get(numbers[name], ())))
        if len(borders) != end - first:
            borders = [(0, 0)] * (end - first)
        for page, (top, bottom) in enumerate(borders, first):
            cells = (cell for cell in worksheets[numbers[name]].cells if top <= cell.row < bottom)
            pages[page] = WorksheetPage(
                name, tuple(cell for cell in cells if cell.text and not cell.is_hidden)
            )
    return pages


def locate_cells(item: Item, cells: Sequence[WorksheetCell]) -> tuple[AddressedCell, ...]:
    """Find cells in the text of their page. Those that are not found are left out.

    LibreOffice draws cells by rows, and after them those with several lines. So the longest series of places
    in the order of the cells is taken first, then places of the others that are the only ones left.
    """
    letters = _PageLetters.of(item)
    places = letters.find_series([letters.find_all(cell) for cell in cells[:MAX_CELLS]])
    letters.add_lone(places, cells)
    found = [
        AddressedCell(*letters.span(cells[number], place), cells[number].address, cells[number].stored)
        for number, place in letters.from_left_to_right(places, cells)
    ]
    return tuple(found) if len(found) >= MIN_FOUND * len(cells) else ()


class _PageLetters(NamedTuple):
    """The letters of a page without white space."""

    letters: str
    places: list[int]
    """The place of each in the text."""
    words: Sequence[Word]

    @classmethod
    def of(cls, item: Item) -> Self:
        places = [at for at, letter in enumerate(item.text) if not letter.isspace()]
        return cls("".join(item.text[at] for at in places), places, item.words)

    def span(self, cell: WorksheetCell, start: int) -> tuple[int, int]:
        """Return the part of the text that a cell takes whose letters begin at a number."""
        return self.places[start], self.places[start + len(_letters(cell)) - 1] + 1

    def find_all(self, cell: WorksheetCell) -> list[int]:
        """Return where the letters of a cell begin, as whole words; the first of very many."""
        wanted = _letters(cell)
        found: list[int] = []
        start = self.letters.find(wanted)
        while start >= 0 and len(found) < MAX_PLACES:
            if self._is_whole(start, start + len(wanted)):
                found.append(start)
            start = self.letters.find(wanted, start + 1)
        return found

    def find_series(self, options: Sequence[Sequence[int]]) -> dict[int, int]:
        """Return the longest series of ascending places, by the numbers of the cells that have one each."""
        ends: list[int] = []
        """Smallest last place of a series, by its length."""
        links: list[_Link] = []
        """The last link of each of these."""
        for number, places in enumerate(options):
            for place in reversed(places):
                length = bisect_left(ends, place)
                link = _Link(number, place, links[length - 1] if length else None)
                ends[length : length + 1], links[length : length + 1] = [place], [link]
        series: dict[int, int] = {}
        last = links[-1] if links else None
        while last is not None:
            series[last.number], last = last.place, last.before
        return series

    def add_lone(self, places: dict[int, int], cells: Sequence[WorksheetCell]) -> None:
        """Add cells that have one place left, which no other cell takes."""
        taken = {
            at
            for number, place in places.items()
            for at in range(place, place + len(_letters(cells[number])))
        }
        lone: dict[int, list[int]] = {}
        for number, cell in enumerate(cells[:MAX_CELLS]):
            if number not in places:
                left = [place for place in self.find_all(cell) if place not in taken]
                if len(left) == 1:
                    lone.setdefault(left[0], []).append(number)
        places.update({numbers[0]: place for place, numbers in lone.items() if len(numbers) == 1})

    def from_left_to_right(
        self, places: Mapping[int, int], cells: Sequence[WorksheetCell]
    ) -> Iterator[tuple[int, int]]:
        """Yield cells with their places, in order, without those at the left of one before in their row."""
        row, left = -1, -1.0
        for number in sorted(places):
            if cells[number].row != row:
                row, left = cells[number].row, -1.0
            own = self._left(places[number])
            if own > left:
                left = own
                yield number, places[number]

    def _is_whole(self, start: int, end: int) -> bool:
        """Return whether letters begin and end with words."""
        begins = start == 0 or self.places[start - 1] + 1 < self.places[start]
        return begins and (end == len(self.places) or self.places[end - 1] + 1 < self.places[end])

    def _left(self, start: int) -> float:
        """Return the left side of the word at a letter; -1 if it has no box."""
        place = self.places[start]
        number = bisect_left(self.words, place + 1, key=lambda word: word.start) - 1
        return self.words[number].box.x1 if number >= 0 and place < self.words[number].end else -1.0


class _Link(NamedTuple):
    """A cell in a series of cells, and the one before it."""

    number: int
    place: int
    before: _Link | None


def _letters(cell: WorksheetCell) -> str:
    return "".join(cell.text.split())


class _Part(NamedTuple):
    """A part of the text of a page, and where it begins in the text that is put into order."""

    start: int
    end: int
    place: int


def order_rows(item: Item, count: int) -> Item:
    """Return a page of a workbook with its text by rows: LibreOffice draws cells with several lines last.

    Args:
        item: The page, with the addresses of its cells.
        count: Number of cells that are seen on it. Where some have no address, the page stays as it is.
    """
    cells = sorted(item.facts.cells, key=_row_and_column)
    if len(cells) != count or all(a.end <= b.start for a, b in pairwise(cells)):
        return item
    by_place = sorted(cells, key=lambda cell: cell.start)
    if any(a.end > b.start for a, b in pairwise(by_place)):
        return item
    rows = [
        [(cell.start, cell.end) for cell in row]
        for _, row in groupby(cells, key=lambda cell: _row_and_column(cell)[0])
    ]
    first, *others = _text_between(item.text, by_place)
    return _rearrange(item, [line for line in (first, *rows, *others) if line])


def _row_and_column(cell: AddressedCell) -> tuple[int, int, str]:
    """Return the number of the row of a cell, and its column as one that sorts."""
    row = cell.address.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    column = cell.address.removesuffix(row)
    return int(row), len(column), column


def _text_between(text: str, cells: Sequence[AddressedCell]) -> list[list[tuple[int, int]]]:
    """Return the text before the first cell, and each that stands between or behind cells, as ranges."""
    ends = [0, *(cell.end for cell in cells)]
    starts = [*(cell.start for cell in cells), len(text)]
    found: list[list[tuple[int, int]]] = []
    for start, end in zip(ends, starts, strict=True):
        part = text[start:end]
        begin = start + len(part) - len(part.lstrip())
        found.append([(begin, begin + len(part.strip()))] if part.strip() else [])
    return found


def _rearrange(item: Item, lines: Sequence[Sequence[tuple[int, int]]]) -> Item:
    """Return an item with ranges of its text as lines, and its words and facts where they are then."""
    parts: list[_Part] = []
    at = 0
    for line in lines:
        for start, end in line:
            parts.append(_Part(start, end, at))
            at += end - start + 1
    text = "\n".join(" ".join(item.text[start:end] for start, end in line) for line in lines)
    starts = [word.start for word in item.words]
    words = [
        replace(word, start=word.start - part.start + part.place, end=word.end - part.start + part.place)
        for part in parts
        for word in item.words[bisect_left(starts, part.start) : bisect_left(starts, part.end)]
    ]
    turned = [
        replace(
            each,
            start=max(each.start, part.start) - part.start + part.place,
            end=min(each.end, part.end) - part.start + part.place,
        )
        for part in parts
        for each in item.facts.turned
        if each.start < part.end and part.start < each.end
    ]
    places = {(part.start, part.end): part.place for part in parts}
    cells = [
        replace(cell, start=place, end=place + cell.end - cell.start)
        for cell in item.facts.cells
        if (place := places.get((cell.start, cell.end))) is not None
    ]
    cells.sort(key=lambda cell: cell.start)
    facts = replace(item.facts, turned=tuple(turned), cells=tuple(cells))
    return replace(item, text=text, words=tuple(words), facts=facts)
