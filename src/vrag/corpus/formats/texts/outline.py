"""Sections of a text: what stands under one heading, with its tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.texts.table_lines import LinedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.types import FormField


MAX_HIDDEN_CHARS = 10_000
"""Characters that are kept of the words of a section that nobody sees."""


class Section(NamedTuple):
    """Text under one heading, which is its first line."""

    headings: tuple[str, ...]
    """Outermost first, the section's own last; "" where a level is skipped."""
    text: str
    tables: tuple[LinedTable, ...] = ()
    """Its tables, with their places in the text."""
    unread: tuple[str, ...] = ()
    """Sentences about what is seen beside it and not read."""
    fields: tuple[FormField, ...] = ()
    """Fields of a form, with their places in the text, in order."""
    hidden_text: str = ""
    """Words that stand in it and nobody sees."""


def strip_text(text: str) -> str:
    """Return a text without spaces around it."""
    return text.strip()


def tidy_lines(text: str) -> str:
    """Return a text without spaces around its lines, and with one empty line between paragraphs."""
    lines = (line.strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class SectionOutline:
    """A section in the making, and the headings above it."""

    def __init__(self, tidy: Callable[[str], str] = strip_text) -> None:
        self._tidy = tidy
        self._headings: tuple[str, ...] = ()
        self._parts: list[str] = []
        self._blocks: list[str | LinedTable] = []
        """What is finished of the section: texts and tables."""
        self._unread: list[str] = []
        self._hidden: list[str] = []
        self._hidden_chars = 0

    @property
    def headings(self) -> tuple[str, ...]:
        """The current heading and those above it."""
        return self._headings

    def add(self, text: str) -> None:
        """Add text under the current heading."""
        self._parts.append(text)

    def add_table(self, table: LinedTable) -> None:
        """Add a table under the current heading, as a paragraph."""
        self._end_text()
        self._blocks.append(table)

    def add_unread(self, sentence: str) -> None:
        """Add a sentence about what is seen in the section and not read, unless it is empty."""
        if sentence:
            self._unread.append(sentence)

    def add_hidden(self, text: str) -> None:
        """Add words that nobody sees; those beyond a limit are left out."""
        if self._hidden_chars < MAX_HIDDEN_CHARS:
            self._hidden.append(text)
            self._hidden_chars += len(text)

    def add_section(self, section: Section) -> None:
        """Add what is in a section, whose headings do not count here."""
        self._unread += section.unread
        self.add_hidden(section.hidden_text)
        at = 0
        for table in section.tables:
            self.add(section.text[at : table.start])
            self.add_table(table.moved(-table.start))
            at = table.end
        self.add(section.text[at:])

    def head(self, level: int, title: str) -> Section:
        """Begin a section under a heading of a level from 1; return the section that ends."""
        ended = self.end()
        above = (*self._headings, *[""] * level)[: level - 1]
        self._headings = (*above, title)
        self._parts, self._blocks = [title, "\n\n"], []
        self._unread, self._hidden, self._hidden_chars = [], [], 0
        return ended

    def end(self) -> Section:
        """Return the current section."""
        self._end_text()
        parts: list[str] = []
        tables: list[LinedTable] = []
        length = 0
        for block in self._blocks:
            text = block if isinstance(block, str) else block.text
            if isinstance(block, LinedTable):
                tables.append(block.moved(length))
            parts.append(text)
            length += len(text) + 2
        hidden = " ".join(" ".join(self._hidden).split())
        unread = tuple(dict.fromkeys(self._unread))
        return Section(self._headings, "\n\n".join(parts), tuple(tables), unread, hidden_text=hidden)

    def _end_text(self) -> None:
        text = self._tidy("".join(self._parts))
        self._parts = []
        if text:
            self._blocks.append(text)
