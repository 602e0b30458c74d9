"""Text files → passage items, cut at paragraphs and sentences, each with the headings above it."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Self

from vrag.corpus.decode import decode
from vrag.corpus.markup import Section, html_sections, json_sections, markdown_sections, plain_sections
from vrag.errors import CorpusError, TooLarge
from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vrag.corpus.base import Desk, Source

__all__ = ["PARSERS", "TextFile", "cut"]

MOST_BYTES = 64 * 2**20
"""Larger text files are logs or data, and would take gigabytes to parse."""
SEPARATOR = " › "
SENTENCE_END = re.compile(r"(?:[.!?…]['\"”’)\]]*(?=\s))|[。！？；]['\"”’」』）]*")
PARSERS: dict[str, Callable[[str], Iterator[Section]]] = {
    ".txt": plain_sections,
    ".md": markdown_sections,
    ".markdown": markdown_sections,
    ".html": html_sections,
    ".htm": html_sections,
    ".json": json_sections,
    ".jsonl": json_sections,
    ".ndjson": json_sections,
}


class TextFile:
    """A text file that was read.

    Raises:
        TooLarge: If it has more than 64 MiB.
        CorpusError: If it is no text, not what its suffix says, or has no words in it.
    """

    def __init__(self, source: Source, desk: Desk) -> None:
        if source.size > MOST_BYTES:
            raise TooLarge(f"The text file has {source.size:,} bytes; the limit is {MOST_BYTES:,}.")
        self._source = source
        text = decode(source.path.read_bytes())
        sections = PARSERS[source.path.suffix.lower()](text)
        most = desk.options.max_pages + 1
        self._passages = list(itertools.islice(_passages(sections, desk.options.passage_chars), most))
        self.count = len(self._passages)
        if not self.count:
            raise CorpusError("There is no text in the file.")

    def item(self, ordinal: int) -> Item:
        """Makes the item of one passage."""
        heading, text = self._passages[ordinal - 1]
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PASSAGE,
            ordinal=ordinal,
            text=text,
            text_source=TextSource.FILE,
            heading=heading,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._passages.clear()


def _passages(sections: Iterator[Section], size: int) -> Iterator[tuple[str, str]]:
    """Heading path and text of each passage."""
    for section in sections:
        heading = SEPARATOR.join(filter(None, section.headings))
        for passage in cut(section.text, size):
            yield heading, passage


def cut(text: str, size: int) -> Iterator[str]:
    """Cuts a text into passages of at most `size` characters, or a quarter more for the last.

    Borders are, by preference: an empty line, a line break, the end of a sentence, a space; a cut
    within a word happens only where half a passage has none of these.

    >>> list(cut("One two. Three four. Five.", 12))
    ['One two.', 'Three four.', 'Five.']
    """
    start = 0
    while len(text) - start > size + size // 4:
        end = _border(text, start + max(size // 2, 1), start + size)
        if passage := text[start:end].strip():
            yield passage
        start = end
    if passage := text[start:].strip():
        yield passage


def _border(text: str, low: int, high: int) -> int:
    """The best place to cut between `low` and `high`."""
    for mark in ("\n\n", "\n"):
        at = text.rfind(mark, low, high + 1)
        if at >= 0:
            return at + len(mark)
    sentences = [match.end() for match in SENTENCE_END.finditer(text, low - 1, high + 1)]
    ends = [end for end in sentences if low <= end <= high]
    if ends:
        return ends[-1]
    spaces = [at for at in range(high, low - 1, -1) if text[at].isspace()]
    return spaces[0] if spaces else high
