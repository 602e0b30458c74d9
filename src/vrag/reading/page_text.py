"""The text of a page, found once for each version of an item and passed on.

It has the words with their boxes, their lines and blocks, and what is made of them: terms and forms that can
be compared, words set straight, tables with their cells, and numbers with their labels. A part is made when
it is asked for first, by the module whose matter it is.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from vrag.reading.labelled_values import LabelledValue, find_labelled_values
from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.places.word_forms import WordForm, list_forms, root
from vrag.reading.tables.finder import find_charts, find_tables
from vrag.reading.tables.table import DocumentTable
from vrag.reading.tables.text_pieces import StraightView, list_straight_views
from vrag.reading.views.text_lines import (
    CELL_GAP,
    PlacedWord,
    Rect,
    TextLine,
    around,
    group_turned_words,
    group_words,
    list_sentences,
)
from vrag.reading.views.turned_text import turn_upright
from vrag.text.terms import tokens
from vrag.types import Item, TextTable

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

CACHE_SIZE = 256
"""Items whose text is kept."""
_NARROW, _NARROW_LETTERS = 0.5, frozenset(".,:;'’!|()[]{}ijlI1tfr-")
"""Width of narrow characters, in widths of others."""


@dataclass(frozen=True, eq=False)
class PageText:
    """The text of one version of an item: its words with boxes, its lines in the order of the text."""

    item: Item
    words: list[PlacedWord]
    """Words with a usable box, by start."""
    lines: list[TextLine]
    rects: NDArray[np.float64]
    """Rectangles of the lines, shape (lines, 4)."""
    blocks: list[list[int]]
    """Numbers of the lines of each block."""
    aspect: float
    """Width over height."""
    _found: dict[UnreadPart, object] = field(default_factory=dict[UnreadPart, object], repr=False)
    """What `_find_once` has found."""

    @property
    def text(self) -> str:
        """The text of the item."""
        return self.item.text

    def tables(self, picture: Callable[[], Image | None]) -> tuple[DocumentTable, ...]:
        """Return the tables with their cells; none, which is told, where a fault keeps them from being found.

        `picture` opens the stored picture of the item.
        """
        return self._find_once(UnreadPart.TABLES, lambda: find_tables(self.item, picture(), self.views))

    def charts(self, picture: Callable[[], Image | None]) -> tuple[DocumentTable, ...]:
        """Return the charts with numbers at their labels as tables; none after a fault, which is told."""

        def find() -> tuple[DocumentTable, ...]:
            return find_charts(self.item, picture, self.tables(picture), self.views)

        return self._find_once(UnreadPart.CHARTS, find)

    @property
    def values(self) -> tuple[LabelledValue, ...]:
        """The numbers, dates and amounts with the labels beside them; none after a fault, which is told."""
        return self._find_once(UnreadPart.VALUES, lambda: find_labelled_values(self.views))

    def _find_once(self, part: UnreadPart, find: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """Return what a finder finds here, once; nothing after a fault, which is told at each asking."""
        if part not in self._found:
            found = read_part(part, self.item, find, None)
            if found is None:
                return ()
            self._found[part] = found
        return cast("tuple[T, ...]", self._found[part])

    @cached_property
    def views(self) -> tuple[StraightView, ...]:
        """The words by the direction of their lines, set straight; those that run to the right come first."""
        return list_straight_views(self.item)

    def rect_of_block(self, number: int) -> Rect:
        """Return the rectangle around the lines of a block."""
        return around(self.lines[line].rect for line in self.blocks[number]) or Rect(0.0, 0.0, 0.0, 0.0)

    def rect_of(self, start: int, end: int) -> Rect | None:
        """Return the rectangle around the words that touch a span of the text; None when no word does."""
        return around(rect for first, last, rect in self.words if first < end and start < last)

    @cached_property
    def line_terms(self) -> tuple[tuple[str, ...], ...]:
        """The terms of each line."""
        text = self.item.text
        return tuple(
            tuple(token.term for token in tokens(text[line.start : line.end])) for line in self.lines
        )

    @cached_property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The ranges of the text that stand together, in order.

        They are runs of lines of one block, and the pieces of lines with wide gaps, such as cells.
        """
        segments: list[tuple[int, int]] = []
        for block in self.blocks:
            begun = False  # a run of lines without gaps
            for number in block:
                pieces = _pieces(self, self.lines[number])
                if begun and len(pieces) == 1:
                    segments[-1] = segments[-1][0], max(segments[-1][1], pieces[0][1])
                else:
                    segments += pieces
                begun = len(pieces) == 1
        return tuple(sorted(segments))

    @cached_property
    def forms(self) -> tuple[WordForm, ...]:
        """The words, numbers and ideographs of the text in the form in which an answer finds them."""
        return tuple(list_forms(self.text))

    @cached_property
    def form_lines(self) -> tuple[int, ...]:
        """The number of the line of each form; -1 for one without a line."""
        starts = [line.start for line in self.lines]
        numbers = (bisect_right(starts, form.start) - 1 for form in self.forms)
        return tuple(
            number if number >= 0 and form.start < self.lines[number].end else -1
            for number, form in zip(numbers, self.forms, strict=True)
        )

    @cached_property
    def line_blocks(self) -> NDArray[np.int64]:
        """The number of the block of each line."""
        return np.asarray([line.block for line in self.lines], dtype=np.int64)

    @cached_property
    def form_places(self) -> dict[str, list[int]]:
        """The numbers of the forms with each key."""
        return _index((key, number) for number, form in enumerate(self.forms) for key in form.keys)

    @cached_property
    def form_roots(self) -> dict[str, list[int]]:
        """The numbers of the forms with each stem."""
        return _index((root(form), number) for number, form in enumerate(self.forms))

    @cached_property
    def form_initials(self) -> dict[str, list[int]]:
        """The numbers of the forms with each first character."""
        return _index((form.key[0], number) for number, form in enumerate(self.forms))

    def rects_of_forms(self, first: int, last: int) -> list[Rect]:
        """Return a rectangle for each line that a run of words stands on, the last word included."""
        found: list[Rect] = []
        line = None
        for number in range(first, last + 1):
            angle = self._angle(number)
            for rect in self._rects_of(number):
                if found and line == self.form_lines[number] and _is_beside(found[-1], rect, angle):
                    found[-1] = around((found[-1], rect)) or rect
                else:
                    found.append(rect)
            line = self.form_lines[number]
        return found

    def run_on(self, number: int) -> bool:
        """Return whether the word behind this one belongs to the same run of text.

        It does on the same line without a wide gap, or in the next line of the same block.
        """
        line, next_line = self.form_lines[number], self.form_lines[number + 1]
        if line < 0 or next_line < 0:
            return False
        if line != next_line:
            same_block = self.line_blocks[line] == self.line_blocks[next_line]
            return bool(self.words) and bool(same_block) and next_line == line + 1
        before, after = self._rects_of(number), self._rects_of(number + 1)
        if not before or not after:
            return True
        angle = self._angle(number)
        left, right = (Rect(*turn_upright(rect, angle)) for rect in (before[-1], after[0]))
        gap = (right.x1 - left.x2) * (1 / self.aspect if angle % 180 else self.aspect)
        return gap <= CELL_GAP * max(left.height, right.height)

    def gap(self, number: int) -> str:
        """Return the text between a word and the one behind it."""
        return self.text[self.forms[number].end : self.forms[number + 1].start]

    def _angle(self, number: int) -> int:
        """Return the degrees clockwise by which the line of a word is turned."""
        line = self.form_lines[number]
        return self.lines[line].angle if line >= 0 else 0

    def _rects_of(self, number: int) -> list[Rect]:
        """Return the boxes of a word: several where it is divided, cut where others share its box."""
        form, words = self.forms[number], self.words
        at = bisect_left(words, form.start, key=lambda word: word[1])
        while at < len(words) and words[at][1] <= form.start:
            at += 1
        found: list[Rect] = []
        while at < len(words) and words[at][0] < form.end:
            found.append(_cut(words[at], form.start, form.end, self.text, self._angle(number)))
            at += 1
        return found


_TEXTS: LRUCache[tuple[str, str], PageText] = LRUCache(CACHE_SIZE)
_LOCK = Lock()


def read_page_text(item: Item) -> PageText:
    """Return the text of an item; that of the items read last is kept.

    Words without a usable box are left out. A fault costs the item its lines, see `page_faults`.
    """
    key = item.id, item.text
    with _LOCK:
        known = _TEXTS.get(key)
    if known is not None and known.item == item:
        return known
    found = read_part(UnreadPart.TEXT, item, lambda: _place_words(item), None)
    if found is None:
        return PageText(item, [], [], np.empty((0, 4)), [], 1.0)
    with _LOCK:
        _TEXTS[key] = found
    return found


def _place_words(item: Item) -> PageText:
    words: list[PlacedWord] = []
    for word in item.words:
        sides = word.box.as_tuple()
        if 0 <= word.start < word.end <= len(item.text) and all(map(math.isfinite, sides)):
            rect = Rect(*(min(max(side, 0.0), 1.0) for side in sides))
            if rect.area > 0:
                words.append((word.start, word.end, rect))
    words.sort(key=lambda word: word[:2])
    aspect = item.size.width / item.size.height if item.size and item.size.height > 0 else 1.0
    if words:
        lines, blocks = (
            group_turned_words(item, words, aspect) if item.facts.turned else group_words(item, words, aspect)
        )
    else:
        lines = list_sentences(item.text)
        blocks = [[number] for number in range(len(lines))]
    for number, block in enumerate(blocks):
        for line in block:
            lines[line].block = number
    rects = np.asarray([line.rect for line in lines], dtype=np.float64).reshape(-1, 4)
    return PageText(item, words, lines, rects, blocks, aspect)


def _pieces(page: PageText, line: TextLine) -> list[tuple[int, int]]:
    """Return the ranges of a line between gaps that are wider than those of words."""
    first = bisect_left(page.words, line.start, key=lambda word: word[0])
    last = bisect_left(page.words, line.end, key=lambda word: word[0])
    if not page.words and page.item.facts.tables:
        return _cells_of_line(page.item.facts.tables, line)
    pieces: list[tuple[int, int]] = []
    right = 0.0
    aspect = 1 / page.aspect if line.angle % 180 else page.aspect
    for start, end, shown in page.words[first:last]:
        rect = Rect(*turn_upright(shown, line.angle)) if line.angle else shown
        gap = (rect.x1 - right) * aspect
        if pieces and -CELL_GAP * rect.height <= gap <= CELL_GAP * rect.height:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
        right = rect.x2
    return pieces or [(line.start, line.end)]


def _cells_of_line(tables: Sequence[TextTable], line: TextLine) -> list[tuple[int, int]]:
    """Return the ranges of the cells in a line of a text without picture; the line itself if it has none."""
    cells = [
        (cell.start, cell.end)
        for table in tables
        for cell in table.cells
        if line.start <= cell.start and cell.end <= line.end
    ]
    return sorted(cells) or [(line.start, line.end)]


def _cut(word: tuple[int, int, Rect], start: int, end: int, text: str, angle: int) -> Rect:
    """Return the part of a box that a range of its text covers, by the widths of characters; signs stay."""
    first, last, rect = word
    start, end = max(start, first), min(end, last)
    if not any(map(str.isalnum, text[first:start] + text[end:last])):
        return rect
    widths = [_NARROW if letter in _NARROW_LETTERS else 1.0 for letter in text[first:last]]
    whole = sum(widths)
    low, high = sum(widths[: start - first]) / whole, sum(widths[: end - first]) / whole
    upright = Rect(*turn_upright(rect, angle))
    part = (upright.x1 + low * upright.width, upright.y1, upright.x1 + high * upright.width, upright.y2)
    return Rect(*turn_upright(part, 360 - angle))


def _is_beside(a: Rect, b: Rect, angle: int) -> bool:
    if angle % 180:
        return min(a.x2, b.x2) - max(a.x1, b.x1) >= 0.25 * min(a.width, b.width)
    return min(a.y2, b.y2) - max(a.y1, b.y1) >= 0.25 * min(a.height, b.height)


def _index(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, number in pairs:
        found[key].append(number)
    return dict(found)
