"""Pages with word boxes, set from paragraphs and tables of data sets that have none."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from vrag.geometry import Box, Size
from vrag.reading.labelled_values import LabelSide
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.types import Item, ItemKind, TextSource, Word

LINE_CHARS = 95
"""Characters of a line, of half an em each."""
MARGIN = 0.05
"""Margin at all sides, as a share of the page."""
PAGE_SIZE = Size(1000, 1414)
CARD_COLUMNS = 3
MAX_PITCH = 0.016
"""Largest distance of lines, as a share of the page's height."""
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\ud7af\uf900-\ufaff\uff00-\uff60]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class TypesetPage:
    """A page and its tables, whose cells have boxes."""

    item: Item
    tables: tuple[DocumentTable, ...]


def typeset_page(document: str, number: int, blocks: Sequence[str | DocumentTable]) -> TypesetPage:
    """Set paragraphs and tables below each other on one page, whose lines move together until all fit."""
    heights = [len(_wrap(block)) if isinstance(block, str) else block.height for block in blocks]
    pitch = min(MAX_PITCH, (1 - 2 * MARGIN) / max(sum(heights) + len(heights), 1))
    setter = _Setter(pitch)
    tables: list[DocumentTable] = []
    for block in blocks:
        if isinstance(block, str):
            setter.set_paragraph(block)
        else:
            tables.append(setter.set_table(block))
    item = _make_item(document, number, setter)
    return TypesetPage(item, tuple(tables))


@dataclass(frozen=True, slots=True)
class ValueCard:
    """A value and its label, as slides show them."""

    value: str
    label: str


def typeset_cards(
    document: str, number: int, title: str, cards: Sequence[ValueCard], side: LabelSide
) -> TypesetPage:
    """Set a title and below it cards in columns; each value is larger than its label at that side."""
    setter = _Setter(MAX_PITCH)
    setter.set_paragraph(title)
    across = side in (LabelSide.LEFT, LabelSide.RIGHT)
    columns = 1 if across else CARD_COLUMNS
    width = (1 - 2 * MARGIN) / columns
    for place, card in enumerate(cards):
        row, column = divmod(place, columns)
        left, top = MARGIN + column * width, 0.15 + row * (0.03 if across else 0.11)
        lines = textwrap.wrap(card.label, 25)[:3]
        if across:
            lefts = (left + 0.3, left) if side is LabelSide.LEFT else (left, left + 0.2)
            setter.set_line(card.value, lefts[0], top, 0.02)
            setter.set_line(" ".join(lines), lefts[1], top + 0.004, 0.014)
            continue
        first = top + 0.035 if side is LabelSide.BELOW else top
        for line, text in enumerate(lines):
            setter.set_line(text, left, first + 0.018 * line, 0.014)
        setter.set_line(
            card.value, left, top if side is LabelSide.BELOW else top + 0.018 * len(lines) + 0.004, 0.028
        )
    return TypesetPage(_make_item(document, number, setter), ())


def _make_item(document: str, number: int, setter: _Setter) -> Item:
    return Item(
        id=f"{document}-{number}",
        document=document,
        document_name=document,
        kind=ItemKind.PAGE,
        ordinal=number,
        text=setter.text,
        words=tuple(setter.words),
        text_source=TextSource.LAYER,
        size=PAGE_SIZE,
    )


def _wrap(paragraph: str) -> list[str]:
    """Return the lines of a paragraph; characters of two columns count twice."""
    width = LINE_CHARS // 2 if len(_WIDE.findall(paragraph)) > len(paragraph) / 3 else LINE_CHARS
    return [line for part in paragraph.splitlines() for line in textwrap.wrap(part, width)]


@dataclass(slots=True)
class _Setter:
    """The text and the words of a page so far, and the place of the next line."""

    pitch: float
    text: str = ""
    words: list[Word] = field(default_factory=list[Word])
    line: int = 0

    @property
    def top(self) -> float:
        return min(MARGIN + self.line * self.pitch, 1 - self.pitch)

    def set_paragraph(self, paragraph: str) -> None:
        for line in _wrap(paragraph):
            self._set_words(line, MARGIN, 1 - MARGIN, "\n")
            self.line += 1
        self.line += 1

    def set_table(self, table: DocumentTable) -> DocumentTable:
        """Set a table, row by row, and return it with boxes."""
        column = (1 - 2 * MARGIN) / max(table.width, 1)
        first, cells = self.line, list[Cell]()
        for cell in sorted(table.cells, key=lambda cell: (cell.row, cell.column)):
            self.line = first + cell.row
            left = MARGIN + cell.column * column
            box = self._set_words(cell.text, left, left + cell.columns * column * 0.95, "\n")
            cells.append(replace(cell, box=box))
        self.line = first + table.height + 1
        box = Box.unit(MARGIN, MARGIN + first * self.pitch, 1 - MARGIN, min(self.top, 1.0))
        return replace(table, cells=tuple(cells), box=box)

    def set_line(self, text: str, left: float, top: float, height: float) -> None:
        """Set words at a place, in letters of half their height."""
        begin, step = len(self.text), 0.5 * height * PAGE_SIZE.height / PAGE_SIZE.width
        for match in _WORD.finditer(text):
            x1, x2 = left + match.start() * step, left + match.end() * step
            if x1 < 1 and top + height < 1:
                box = Box.unit(x1, top, min(x2, 1.0), top + height)
                self.words.append(Word(begin + match.start(), begin + match.end(), box))
        self.text += text + "\n"

    def _set_words(self, text: str, left: float, right: float, end: str) -> Box | None:
        """Set words in one line, and return the box around them; None without words."""
        matches = list(_WORD.finditer(text))
        step = min((right - left) / max(len(text), 1), 0.9 / LINE_CHARS * (2 if _WIDE.search(text) else 1))
        y1, y2, begin = self.top, self.top + 0.75 * self.pitch, len(self.text)
        for match in matches:
            x1, x2 = left + match.start() * step, left + match.end() * step
            box = Box.unit(x1, y1, min(x2, 1.0), y2)
            self.words.append(Word(begin + match.start(), begin + match.end(), box))
        self.text += text + end
        return Box.around([word.box for word in self.words[-len(matches) :]]) if matches else None


def split_paragraphs(text: str, size: int) -> Iterator[str]:
    """Yield pieces of a text of some characters at most where its lines or sentences allow it."""
    piece = ""
    for part in re.split(r"(?<=\n)|(?<=[.!?。！？]) ", text):
        if piece and len(piece) + len(part) > size:
            yield piece
            piece = ""
        piece += part + " "
    if piece.strip():
        yield piece
