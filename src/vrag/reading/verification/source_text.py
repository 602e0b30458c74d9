"""The text of a page as statements: sentences and cells with the words that belong to them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.reader import TABLES
from vrag.reading.spans.tokens import tokenize
from vrag.reading.table_answers.scales import find_scale
from vrag.reading.tables.table import DocumentTable
from vrag.reading.text_layout import PageLayout, Rect, Token, layout, list_segments, tokens
from vrag.reading.verification.comparison import ValueContext
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.units import find_units
from vrag.types import Item

HEAD, ROW, NEXT, CAPTION, PAGE = 0.9, 0.7, 0.5, 0.5, 0.25
"""Weights of words in the heads of a cell, in its row, in the sentences beside it, in the caption of its table,
and elsewhere on the page; a word in the statement itself has 1."""
SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "percent": 1.0, "": 1.0}
CACHE_SIZE = 128
"""Pages."""
_FALLS = re.compile(
    r"""\b(?:decreas|declin|decline|fell|fall|falls|falling|drop|lower|down\b|reduc|loss|lost|shrank|shrink
    |negative|minus|deficit|less\b|fewer|cut\b|slump|plung|below\b) | 下降|减少|減少|降低|下跌|亏损|负""",
    re.IGNORECASE | re.VERBOSE,
)
_PARTED = re.compile(r"\b([^\W\d_]{2,})[-‐\u00ad]\s*\n\s*([^\W\d_]{2,})\b")
"""A word that a hyphen parts at the end of a line."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or a cell of a page."""

    start: int
    end: int
    """`text[start:end]`."""
    rect: Rect | None
    """None for a text without picture."""
    terms: Mapping[str, float]
    """The words that belong to it, with weights from 0 to 1."""
    context: ValueContext
    """What its heads and its own words say about the values in it."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of one page, ready to be compared with claims."""

    item: Item
    page: PageLayout
    tokens: tuple[Token, ...]
    """Its words as terms, by start."""
    places: Mapping[str, tuple[int, ...]]
    """Numbers of the tokens of each term."""
    statements: tuple[Statement, ...]
    values: tuple[tuple[TextValue, int], ...]
    """The values with the numbers of their statements."""
    title: frozenset[str]
    """Terms of the headings above and of the name of the file."""

    def statement_at(self, offset: int) -> int:
        """Return the number of the statement of a place in the text."""
        return max(bisect_right(self.statements, offset, key=lambda statement: statement.start) - 1, 0)

    def boxes(self, start: int, end: int) -> tuple[Box, ...]:
        """Return the rectangles of a range of the text, one for each line."""
        rects = (
            self.page.rect_of(max(start, line.start), min(end, line.end))
            for line in self.page.lines
            if line.start < end and start < line.end and self.page.words
        )
        return tuple(rect.box() for rect in rects if rect is not None)

    def weight(self, term: str, statement: Statement) -> float:
        """Return how much a word belongs to a statement, 0 to 1."""
        here = statement.terms.get(term, 0.0)
        return here or (PAGE if term in self.places or term in self.title else 0.0)


def read_source(page: ReadPage, tables: Sequence[DocumentTable] | None = None) -> SourceText:
    """Return the text of a page, from the cache if it is one of those read last."""
    key = page.item.id, page.item.text, page.item.heading
    with _LOCK:
        source = _SOURCES.get(key)
    if source is None:
        source = _read(page.item, TABLES.tables(page) if tables is None else tables)
        with _LOCK:
            _SOURCES[key] = source
    return source


_SOURCES: LRUCache[tuple[str, str, str], SourceText] = LRUCache(CACHE_SIZE)
_LOCK = Lock()


def _read(item: Item, tables: Sequence[DocumentTable]) -> SourceText:
    placed = layout(item)
    terms = tuple(sorted([*tokens(item.text), *_joined_words(item.text)], key=lambda token: token.start))
    ranges = _sentences(item.text, list_segments(placed) if placed.words else ())
    own = _terms_of(ranges, terms)
    rects = [placed.rect_of(start, end) if placed.words else None for start, end in ranges]
    cells = _cells_of(rects, tables)
    places: dict[str, list[int]] = {}
    for number, token in enumerate(terms):
        places.setdefault(token.term, []).append(number)
    statements = tuple(
        Statement(
            start,
            end,
            rects[at],
            _with_context(at, own, rects, cells),
            _context(item.text[start:end], cells.get(at)),
        )
        for at, (start, end) in enumerate(ranges)
    )
    title = frozenset(token.term for token in tokens(f"{item.heading} {item.document_name}"))
    source = SourceText(
        item, placed, terms, {term: tuple(found) for term, found in places.items()}, statements, (), title
    )
    values = ((value, source.statement_at(value.start)) for value in find_values(item.text))
    return SourceText(
        item, placed, terms, source.places, statements, tuple(values) if statements else (), title
    )


def _joined_words(text: str) -> Iterable[Token]:
    """Yield the words that a hyphen at the end of a line parts, as a whole."""
    for match in _PARTED.finditer(text):
        term = tokens(match[1] + match[2])
        yield Token(term[0].term, *match.span())


def _sentences(text: str, segments: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sentences and cells of a text."""
    words = tokenize(text, segments)
    ranges: list[tuple[int, int]] = []
    for first, last in zip(words.bounds[:-1].tolist(), words.bounds[1:].tolist(), strict=True):
        if last > first:
            ranges.append((int(words.starts[first]), int(words.ends[last - 1])))
    return ranges


def _terms_of(ranges: Sequence[tuple[int, int]], terms: Sequence[Token]) -> list[set[str]]:
    own: list[set[str]] = [set() for _ in ranges]
    starts = [start for start, _ in ranges]
    for token in terms:
        at = bisect_right(starts, token.start) - 1
        if at >= 0:
            own[at].add(token.term)
    return own


@dataclass(frozen=True, slots=True)
class _CellContext:
    heads: str
    caption: str
    scale: float


def _cells_of(rects: Sequence[Rect | None], tables: Sequence[DocumentTable]) -> dict[int, _CellContext]:
    """Return the heads of the statements that are cells of tables."""
    found: dict[int, _CellContext] = {}
    for table in tables:
        for cell in table.cells:
            if cell.box is None or not cell.text:
                continue
            x1, y1, x2, y2 = cell.box.as_tuple()
            inside = [
                at
                for at, rect in enumerate(rects)
                if rect
                and x1 - 0.002 <= (rect.x1 + rect.x2) / 2 <= x2 + 0.002
                and y1 - 0.002 <= (rect.y1 + rect.y2) / 2 <= y2 + 0.002
            ]
            if not inside:
                continue
            heads = [
                head.text
                for head in (*table.column_heads(cell.column), *table.row_heads(cell.row))
                if head is not cell
            ]
            text = " ".join(heads)
            scale = SCALES[find_scale(text) or find_scale(table.caption)]
            for at in inside:
                found[at] = _CellContext(text, table.caption, scale)
    return found


def _with_context(
    at: int, own: Sequence[set[str]], rects: Sequence[Rect | None], cells: Mapping[int, _CellContext]
) -> dict[str, float]:
    """Return the words of a statement, its heads, its row and its neighbours, with weights."""
    terms: dict[str, float] = {}
    cell = cells.get(at)
    if cell is not None:
        terms |= {token.term: CAPTION for token in tokens(cell.caption)}
    for beside in (at - 1, at + 1):
        if 0 <= beside < len(own):
            terms |= dict.fromkeys(own[beside], NEXT)
    rect = rects[at]
    if rect is not None:
        for other, place in enumerate(rects):
            if place and other != at and _in_row(rect, place):
                terms |= dict.fromkeys(own[other], ROW)
    if cell is not None:
        terms |= {token.term: HEAD for token in tokens(cell.heads)}
    return terms | dict.fromkeys(own[at], 1.0)


def _in_row(one: Rect, other: Rect) -> bool:
    """Return whether two statements of one line each stand in one row."""
    shared = min(one.y2, other.y2) - max(one.y1, other.y1)
    return shared > 0.5 * max(one.height, other.height)


def _context(text: str, cell: _CellContext | None) -> ValueContext:
    falls = _FALLS.search(text) is not None
    if cell is None:
        return ValueContext(falls=falls)
    units = find_units(cell.heads) or find_units(cell.caption)
    return ValueContext(units, cell.scale, falls or _FALLS.search(cell.heads) is not None)


def falls(text: str) -> bool:
    """Return whether a text speaks of a decrease or a loss.

    >>> falls("Sales fell by 3 %"), falls("Sales rose by 3 %")
    (True, False)
    """
    return _FALLS.search(text) is not None
