"""The text of a page as statements: sentences and cells with the words that belong to them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.spans.tokens import tokenize
from vrag.reading.table_answers.scales import find_scale
from vrag.reading.table_answers.values import SCALES
from vrag.reading.tables.table import DocumentTable
from vrag.reading.verification.comparison import ValueContext
from vrag.reading.verification.flat_text import SEPARATOR, FlatText, flatten
from vrag.reading.verification.text_values import TextValue, find_values
from vrag.reading.verification.units import find_units
from vrag.reading.views.neighbour_pages import read_number_style, read_tables
from vrag.reading.views.text_lines import Rect
from vrag.text.numerals import NumberStyle
from vrag.text.terms import Token, tokens
from vrag.types import Item

Boxes: TypeAlias = NDArray[np.float64]
HEAD, ROW, NEXT, CAPTION, PAGE = 0.9, 0.7, 0.5, 0.5, 0.25
"""Weights of words in the heads of a cell, in its row, in the sentences beside it, in the caption of its
table, and elsewhere on the page; a word in the statement itself has 1."""
CACHE_SIZE = 128
"""Pages."""
_SCALES = {name: SCALES[name] for name in ("thousand", "million", "billion")}
_SCALE_OF_PAGE = re.compile(
    r"""(?:\bin|\()\s*(?:(?:US)?[$€£¥]\s?|[A-Z]{3}\s)?(thousand|million|billion)s?\b | [$€£¥]\s?['’]?(000)s?\b
    | [$€£¥]\s?(m|bn|k)\b | (thousand|million|billion)s?\s(?:of\s)?(?:dollars|euros|[$€£¥])""",
    re.IGNORECASE | re.VERBOSE,
)
_SCALES_OF_PAGE = {**_SCALES, "000": SCALES["k"], "m": SCALES["m"], "bn": SCALES["bn"], "k": SCALES["k"]}


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or a cell of a page."""

    start: int
    end: int
    """`text[start:end]` of the flat text."""
    rect: Rect | None
    """None for a text without picture."""
    terms: Mapping[str, float]
    """The words that belong to it, with weights from 0 to 1."""
    context: ValueContext
    """The information that its heads give about the values in it."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of one page, ready to be compared with claims. All places are those of the flat text."""

    item: Item
    page: PageText
    flat: FlatText
    tokens: tuple[Token, ...]
    """Its words as terms, by start."""
    places: Mapping[str, tuple[int, ...]]
    """Numbers of the tokens of each term."""
    statements: tuple[Statement, ...]
    values: tuple[tuple[TextValue, int], ...]
    """The values with the numbers of their statements."""
    title: frozenset[str]
    """Terms of the headings above and of the name of the file."""
    companions: tuple[tuple[int, ...], ...]
    """For each statement, those in its row, and the cells that it is a head of."""

    @property
    def text(self) -> str:
        """The flat text."""
        return self.flat.text

    def statement_at(self, offset: int) -> int:
        """Return the number of the statement at a place."""
        return _number_at([statement.start for statement in self.statements], offset)

    def boxes(self, start: int, end: int) -> tuple[Box, ...]:
        """Return the rectangles of a range, one for each line."""
        first, last = self.flat.original(start, end)
        rects = (
            self.page.rect_of(max(first, line.start), min(last, line.end))
            for line in self.page.lines
            if line.start < last and first < line.end and self.page.words
        )
        return tuple(rect.box() for rect in rects if rect is not None)

    def weight(self, term: str, statement: Statement) -> float:
        """Return how much a word belongs to a statement, 0 to 1."""
        here = statement.terms.get(term, 0.0)
        return here or (PAGE if term in self.places or term in self.title else 0.0)


def read_source(page: ReadPage) -> SourceText:
    """Return the text of a page, from the cache if it is one of those read last."""
    key = page.item.id, page.item.text, page.item.heading
    with _LOCK:
        source = _SOURCES.get(key)
    if source is None:
        text = read_page_text(page.item)
        source = _read(text, read_tables(page), read_number_style(page))
        with _LOCK:
            _SOURCES[key] = source
    return source


_SOURCES: LRUCache[tuple[str, str, str], SourceText] = LRUCache(CACHE_SIZE)
_LOCK = Lock()


def _read(placed: PageText, tables: Sequence[DocumentTable], style: NumberStyle) -> SourceText:
    item = placed.item
    segments = _find_segments(placed, tables) if placed.words else _find_cells(item.text, tables)
    flat = flatten(item.text, segments, keep_paragraphs=not placed.words)
    terms = tuple(tokens(flat.text))
    places: dict[str, list[int]] = {}
    for number, token in enumerate(terms):
        places.setdefault(token.term, []).append(number)
    ranges = _find_statements(flat.text)
    rects = [placed.rect_of(*flat.original(start, end)) if placed.words else None for start, end in ranges]
    spans = [flat.original(start, end) for start, end in ranges]
    heads, cells = _find_heads(placed, rects, spans, tables)
    rows = _find_rows(rects) if placed.words else _find_text_rows(spans, tables)
    surroundings = _Surroundings(_terms_of(ranges, terms), rows, heads)
    companions = tuple(tuple(dict.fromkeys([*row, *cells.get(at, ())])) for at, row in enumerate(rows))
    scales = frozenset(
        _SCALES_OF_PAGE[next(filter(None, match.groups())).lower()]
        for match in _SCALE_OF_PAGE.finditer(flat.text)
    )
    statements = tuple(
        Statement(start, end, rects[at], surroundings.terms(at), _value_context(heads.get(at), scales))
        for at, (start, end) in enumerate(ranges)
    )
    starts = [start for start, _ in ranges]
    values = [(value, _number_at(starts, value.start)) for value in _find_all_values(flat.text, style)]
    title = frozenset(token.term for token in tokens(f"{item.heading} {item.document_name}"))
    numbers = {term: tuple(found) for term, found in places.items()}
    return SourceText(item, placed, flat, terms, numbers, statements, tuple(values), title, companions)


def _find_segments(page: PageText, tables: Sequence[DocumentTable]) -> list[tuple[int, int]]:
    """Return the ranges of the text that stand together, cut at the edges of cells.

    A line beside the one before it, and a word in another cell than the one before it, begin a new range.
    """
    starts = [start for start, _, _ in page.words]
    cuts = {
        line.start
        for before, line in pairwise(page.lines)
        if min(before.rect.y2, line.rect.y2) - max(before.rect.y1, line.rect.y1) > 0.5 * line.rect.height
    }
    boxes = [cell.box.as_tuple() for table in tables for cell in table.cells if cell.box and not cell.item]
    if boxes:
        cuts |= _find_cell_edges(page, np.asarray(boxes))
    ranges: list[tuple[int, int]] = []
    for start, end in page.segments:
        inside = sorted(cut for cut in cuts if start < cut < end)
        for first, last in pairwise([start, *inside, end]):
            words = starts[bisect_left(starts, first) : bisect_left(starts, last)]
            if words:
                ranges.append((words[0], last))
    return ranges


def _find_cells(text: str, tables: Sequence[DocumentTable]) -> list[tuple[int, int]]:
    """Return the ranges of the cells of tables in a text without picture, and of what stands between them."""
    cells = sorted(cell.span for table in tables for cell in table.cells if cell.span)
    if not cells:
        return []
    ranges: list[tuple[int, int]] = []
    last = 0
    for start, end in [*cells, (len(text), len(text))]:
        if any(map(str.isalnum, text[last:start])):
            ranges.append((last, start))
        if start < end:
            ranges.append((start, end))
        last = max(end, last)
    return ranges


def _find_text_rows(spans: Sequence[tuple[int, int]], tables: Sequence[DocumentTable]) -> list[list[int]]:
    """Return for each statement of a text without picture those in its row of a table."""
    beside: list[list[int]] = [[] for _ in spans]
    for table in tables:
        members: dict[int, list[int]] = {}
        for cell in table.cells:
            for row in range(cell.row, cell.row + cell.rows):
                members.setdefault(row, []).extend(_overlapping(cell.span, spans))
        for row in members.values():
            for at in row:
                beside[at] += (other for other in row if other != at)
    return beside


def _overlapping(span: tuple[int, int] | None, spans: Sequence[tuple[int, int]]) -> range:
    """Return the numbers of the ranges, which are in order, that share a part with another one."""
    if span is None:
        return range(0)
    first = bisect_right(spans, span[0], key=lambda other: other[1])
    return range(first, max(first, bisect_left(spans, span[1], key=lambda other: other[0])))


def _find_cell_edges(page: PageText, boxes: Boxes) -> set[int]:
    """Return where words begin that are in another cell than the words before them, or in none."""
    rects = np.asarray([rect for _, _, rect in page.words])
    x, y = (rects[:, 0] + rects[:, 2]) / 2, (rects[:, 1] + rects[:, 3]) / 2
    inside = (
        (boxes[:, 0, None] <= x)
        & (x <= boxes[:, 2, None])
        & (boxes[:, 1, None] <= y)
        & (y <= boxes[:, 3, None])
    )
    cell = np.where(inside.any(axis=0), inside.argmax(axis=0), -1)
    return {page.words[at][0] for at in (np.flatnonzero(np.diff(cell)) + 1).tolist()}


def _find_statements(text: str) -> list[tuple[int, int]]:
    """Return the sentences and cells of a flat text."""
    words = tokenize(text)
    bounds: list[int] = words.bounds.tolist()
    return [
        (int(words.starts[first]), int(words.ends[last - 1]))
        for first, last in pairwise(bounds)
        if last > first
    ]


def _find_all_values(text: str, style: NumberStyle) -> Iterator[TextValue]:
    """Yield the values of each part of a flat text; none reaches from one part into the next."""
    at = 0
    for part in text.split(SEPARATOR):
        for value in find_values(part, style):
            yield value.moved(at)
        at += len(part) + len(SEPARATOR)


def _number_at(starts: Sequence[int], offset: int) -> int:
    return max(bisect_right(starts, offset) - 1, 0)


def _terms_of(ranges: Sequence[tuple[int, int]], terms: Iterable[Token]) -> list[set[str]]:
    own: list[set[str]] = [set() for _ in ranges]
    starts = [start for start, _ in ranges]
    for token in terms:
        if own:
            own[_number_at(starts, token.start)].add(token.term)
    return own


def _find_rows(rects: Sequence[Rect | None]) -> list[list[int]]:
    """Return for each statement those that stand in a row with it: at the same height, and no higher."""
    sides = np.asarray([(rect.y1, rect.y2) if rect else (0.0, -1.0) for rect in rects]).reshape(-1, 2)
    top, bottom = sides[:, 0], sides[:, 1]
    height = bottom - top
    shared = np.minimum(bottom[:, None], bottom[None]) - np.maximum(top[:, None], top[None])
    beside = (shared > 0.5 * np.maximum(height[:, None], height[None])) & (height > 0)[:, None]
    np.fill_diagonal(beside, val=False)
    return [np.flatnonzero(row).tolist() for row in beside]


@dataclass(frozen=True, slots=True)
class _Heads:
    """The context of a cell or a labelled value."""

    text: str
    caption: str = ""


def _find_heads(
    page: PageText,
    rects: Sequence[Rect | None],
    spans: Sequence[tuple[int, int]],
    tables: Sequence[DocumentTable],
) -> tuple[dict[int, _Heads], dict[int, list[int]]]:
    """Return the heads of the statements that are cells of tables, and the labels of other values.

    `rects` and `spans` are the places of the statements on the picture and in the text of the item.

    The second result has the cells below and beside each head.
    """
    found: dict[int, _Heads] = {}
    cells: dict[int, list[int]] = {}
    centers = np.asarray(
        [((rect.x1 + rect.x2) / 2, (rect.y1 + rect.y2) / 2) if rect else (-1.0, -1.0) for rect in rects]
    ).reshape(-1, 2)
    for table in tables:
        places = {
            cell: _inside(cell.box, centers) if cell.box else list(_overlapping(cell.span, spans))
            for cell in table.cells
            if cell.text and (cell.box or cell.span) and not cell.item
        }
        for cell, numbers in places.items():
            heads = [*table.column_heads(cell.column), *table.row_heads(cell.row)]
            heads = [head for head in heads if head is not cell]
            for at in numbers:
                found[at] = _Heads(" ".join(head.text for head in heads), table.caption)
                for head in heads:
                    for above in places.get(head, ()):
                        cells.setdefault(above, []).append(at)
    labels: dict[int, list[str]] = {}
    for value in page.values:
        for at in _inside(value.marks[0].box, centers):
            if at not in found:
                labels.setdefault(at, []).append(value.label)
    return found | {at: _Heads(" ".join(texts)) for at, texts in labels.items()}, cells


def _inside(box: Box, centers: Boxes) -> list[int]:
    """Return the statements whose centres lie in a box, with a little tolerance."""
    x1, y1, x2, y2 = box.as_tuple()
    x, y = centers[:, 0], centers[:, 1]
    inside = (x1 - 0.002 <= x) & (x <= x2 + 0.002) & (y1 - 0.002 <= y) & (y <= y2 + 0.002)
    return np.flatnonzero(inside).tolist()


@dataclass(frozen=True, slots=True)
class _Surroundings:
    own: Sequence[set[str]]
    rows: Sequence[Sequence[int]]
    heads: Mapping[int, _Heads]

    def terms(self, at: int) -> dict[str, float]:
        """Return the words of a statement, its heads, its row and its neighbours, with weights."""
        terms: dict[str, float] = {}
        heads = self.heads.get(at)
        if heads is not None:
            terms |= {token.term: CAPTION for token in tokens(heads.caption)}
        for beside in (at - 1, at + 1):
            if 0 <= beside < len(self.own):
                terms |= dict.fromkeys(self.own[beside], NEXT)
        for other in self.rows[at]:
            terms |= dict.fromkeys(self.own[other], ROW)
        if heads is not None:
            terms |= {token.term: HEAD for token in tokens(heads.text)}
        return terms | dict.fromkeys(self.own[at], 1.0)


def _value_context(heads: _Heads | None, scales: frozenset[Decimal]) -> ValueContext:
    if heads is None:
        return ValueContext(scales=scales)
    scale = find_scale(heads.text) or find_scale(heads.caption)
    own = frozenset({_SCALES[scale]}) if scale in _SCALES else scales
    return ValueContext(
        find_units(heads.text) or find_units(heads.caption), own, is_cell=True, words=heads.text
    )
