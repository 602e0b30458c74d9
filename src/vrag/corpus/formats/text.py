"""Text files → passage items, cut at paragraphs and sentences, each with the headings above it."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple, Self

from vrag.corpus.encoding import decode
from vrag.corpus.formats.sections import Section, json_lines, json_sections, markdown_sections, plain_sections
from vrag.errors import CorpusError, TooLarge
from vrag.types import Item, ItemKind, TextSource, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.options import CorpusOptions

__all__ = ["SEPARATOR", "SUFFIXES", "TextFile", "TextPassage", "cut", "passage_item", "passages", "read_text"]

MAX_BYTES = 64 * 2**20
"""Larger text files are logs or data, and would take gigabytes to parse."""
SEPARATOR = " › "
SENTENCE_END = re.compile(r"(?:[.!?…]['\"”’)\]]*(?=\s))|[。！？；]['\"”’」』）]*")
PARSERS: dict[str, Callable[[str], Iterator[Section]]] = {
    ".txt": plain_sections,
    ".md": markdown_sections,
    ".markdown": markdown_sections,
    ".json": json_sections,
}
LINES = (".jsonl", ".ndjson")
"""Suffixes of files in which each line stands for itself."""
SUFFIXES = (*PARSERS, *LINES)


class TextPassage(NamedTuple):
    """A stretch of text, and the headings above it joined to one line."""

    heading: str
    text: str


class TextFile:
    """A text file that was read. Lines of JSON Lines that are none fail together, as its last item.

    Raises:
        TooLarge: If it has more than 64 MiB.
        CorpusError: If it is no text, not what its suffix says, or has no words in it.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        sections, self._fault = _parse(source.path.suffix.lower(), read_text(source))
        self._passages = passages(sections, context.options)
        self.count = len(self._passages) + bool(self._fault)
        if not self._passages:
            raise CorpusError(self._fault or "There is no text in the file.")

    def item(self, ordinal: int) -> Item:
        """Makes the item of one passage.

        Raises:
            CorpusError: After the last of them, with what is wrong with the lines that cannot be used.
        """
        if ordinal > len(self._passages):
            raise CorpusError(self._fault)
        return passage_item(self._passages[ordinal - 1], self._source, ordinal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._passages.clear()


def _parse(suffix: str, text: str) -> tuple[Iterable[Section], str]:
    """The sections of a file, and what is wrong with the rest of it."""
    if suffix not in LINES:
        return PARSERS[suffix](text), ""
    section, fault = json_lines(text)
    return [section], fault


def read_text(source: SourceFile) -> str:
    """The text of a file.

    Raises:
        TooLarge: If it has more than 64 MiB.
        CorpusError: If it is no text.
        OSError: If it cannot be read.
    """
    if source.size > MAX_BYTES:
        raise TooLarge(f"The text file has {source.size:,} bytes; the limit is {MAX_BYTES:,}.")
    return decode(source.path.read_bytes())


def passages(sections: Iterable[Section], options: CorpusOptions) -> list[TextPassage]:
    """The passages of a file; one more than are allowed stands for all those beyond."""
    found = (
        TextPassage(SEPARATOR.join(filter(None, section.headings)), passage)
        for section in sections
        for passage in cut(section.text, options.passage_chars)
    )
    return list(itertools.islice(found, options.max_pages + 1))


def passage_item(passage: TextPassage, source: SourceFile, ordinal: int) -> Item:
    """The item of a passage."""
    return Item(
        id=item_id(source.document, ordinal),
        document=source.document,
        document_name=source.name,
        kind=ItemKind.PASSAGE,
        ordinal=ordinal,
        text=passage.text,
        text_source=TextSource.FILE,
        heading=passage.heading,
    )


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
