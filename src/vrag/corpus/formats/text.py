"""Text files → passage items, cut at paragraphs and sentences, each with the headings above it."""

from __future__ import annotations

import itertools
import re
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.sections import json_lines, json_sections, markdown_sections, plain_sections
from vrag.corpus.formats.texts.separated_values import table_sections
from vrag.corpus.sniff import decode
from vrag.errors import CorpusError, FileTooLargeError
from vrag.item_facts import list_field_places, move_field
from vrag.types import Item, ItemFacts, ItemKind, TextSource, TextTable, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile
    from vrag.corpus.formats.texts.outline import Section
    from vrag.corpus.formats.texts.table_lines import LinedTable
    from vrag.types import FormField

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
JSON_LINES = (".jsonl", ".ndjson")
VALUES = (".csv", ".tsv")
SUFFIXES = (*PARSERS, *JSON_LINES, *VALUES)


class TextPassage(NamedTuple):
    """A part of a text, and the headings above it joined to one line."""

    heading: str
    text: str
    tables: tuple[TextTable, ...] = ()
    """The parts of tables in it."""
    unread: tuple[str, ...] = ()
    """Sentences about what is seen beside it and not read."""
    fields: tuple[FormField, ...] = ()
    """The fields of a form in it."""
    hidden_text: str = ""
    """Words that stand in it and nobody sees."""


class TextFile(OpenFile):
    """A text file that was read. Invalid lines of JSON Lines fail together, as its last item.

    Raises `FileTooLargeError` if it has more than 64 MiB, and `CorpusError` if it is not text, not what its
    suffix says, or has no words in it.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        suffix, text = source.path.suffix.lower(), read_text(source)
        sections: Iterable[Section]
        self._fault = ""
        if suffix in JSON_LINES:
            section, self._fault = json_lines(text)
            sections = [section]
        elif suffix in VALUES:
            sections = table_sections(text, context.options.passage_chars)
        else:
            sections = PARSERS[suffix](text)
        self._passages = passages(sections, context.options)
        self.count = len(self._passages) + bool(self._fault)
        if not self._passages:
            raise CorpusError(self._fault or "There is no text in the file.")

    def item(self, ordinal: int) -> Item:
        """Make the item of one passage.

        Raises `CorpusError` after the last of them, with the faults of invalid lines.
        """
        if ordinal > len(self._passages):
            raise CorpusError(self._fault)
        return passage_item(self._passages[ordinal - 1], self._source, ordinal)


def read_text(source: SourceFile) -> str:
    """Read and decode a text file.

    Raises `FileTooLargeError` if it has more than 64 MiB, `CorpusError` if it is not text, and `OSError`.
    """
    if source.size > MAX_BYTES:
        raise FileTooLargeError(f"The text file has {source.size:,} bytes; the limit is {MAX_BYTES:,}.")
    with source.open() as file:
        return decode(file.read())


def passages(sections: Iterable[Section], options: CorpusOptions) -> list[TextPassage]:
    """Cut sections into passages; one more than are allowed stands for all those beyond."""
    found = (passage for section in sections for passage in _cut_section(section, options.passage_chars))
    return list(itertools.islice(found, options.max_pages + 1))


def _cut_section(section: Section, size: int) -> Iterator[TextPassage]:
    """Cut a section into passages. One that begins within a table begins with the table's heads."""
    heading = SEPARATOR.join(filter(None, section.headings))
    text, tables = section.text, deque(section.tables)
    unread, hidden, fields = section.unread, section.hidden_text, deque(section.fields)
    for start, end in cut_ranges(text, size):
        while tables and tables[0].end <= start:
            tables.popleft()
        inside = list(itertools.takewhile(partial(_begins_before, end), tables))
        if inside and inside[0].is_continued(start, end, size // 2):
            first = inside.pop(0)
            begin = max(start, first.body_start)
            heads = text[first.start : first.body_start]
            parts = [first.continued_part(begin, end)]
        else:
            begin, heads, parts = start, "", []
        parts += [table.part(begin - len(heads), end) for table in inside]
        placed = _place_fields(fields, begin - len(heads), end)
        tables_inside = tuple(filter(None, parts))
        yield TextPassage(heading, heads + text[begin:end], tables_inside, unread, placed, hidden)
        unread, hidden = (), ""


def _place_fields(fields: deque[FormField], start: int, end: int) -> tuple[FormField, ...]:
    """Take the fields that begin before the end of a passage, with their places in it.

    A field that is cut is left out.
    """
    placed: list[FormField] = []
    while fields and min(list_field_places(fields[0]))[0] < end:
        field = fields.popleft()
        places = list_field_places(field)
        if start <= min(places)[0] and max(places)[1] <= end:
            placed.append(move_field(field, lambda at: (at[0] - start, at[1] - start)))
    return tuple(placed)


def _begins_before(end: int, table: LinedTable) -> bool:
    return table.start < end


def passage_item(passage: TextPassage, source: SourceFile, ordinal: int) -> Item:
    """Make the item of a passage."""
    return Item(
        id=item_id(source.document, ordinal),
        document=source.document,
        document_name=source.name,
        kind=ItemKind.PASSAGE,
        ordinal=ordinal,
        text=passage.text,
        text_source=TextSource.FILE,
        heading=passage.heading,
        facts=ItemFacts(
            tables=passage.tables,
            unread=passage.unread,
            fields=passage.fields,
            hidden_text=passage.hidden_text,
        ),
    )


def cut(text: str, size: int) -> Iterator[str]:
    """Cut a text into passages of at most `size` characters, or a quarter more for the last.

    Borders are, by preference: an empty line, a line break, the end of a sentence, a space; a cut
    within a word happens only where half a passage has none of these.

    >>> list(cut("One two. Three four. Five.", 12))
    ['One two.', 'Three four.', 'Five.']
    """
    return (text[start:end] for start, end in cut_ranges(text, size))


def cut_ranges(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield where the passages of `cut` begin and end in a text."""
    start = 0
    while start < len(text):
        is_last = len(text) - start <= size + size // 4
        end = len(text) if is_last else _best_cut(text, start + max(size // 2, 1), start + size)
        passage = text[start:end]
        if words := passage.strip():
            first = start + len(passage) - len(passage.lstrip())
            yield first, first + len(words)
        start = end


def _best_cut(text: str, low: int, high: int) -> int:
    for mark in ("\n\n", "\n"):
        at = text.rfind(mark, low, high + 1)
        if at >= 0:
            return at + len(mark)
    sentences = [match.end() for match in SENTENCE_END.finditer(text, low - 1, high + 1)]
    spaces = [at for at in range(low, high + 1) if text[at].isspace()]
    return max((end for end in sentences if low <= end <= high), default=max(spaces, default=high))
