"""The layout of a page from its words alone: lines, and blocks of lines that belong together.

A line is a run of words in the order of the text that stand beside each other. A block is a set of
lines that whitespace keeps together: a paragraph, a list, a table, the labels of a chart. Lengths
are compared in units of the page's height, so that they mean the same along both axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.geometry import Box
from vrag.types import Item, Word

__all__ = ["PageLayout", "Rect", "TextLine", "around", "layout"]

_BREAK = re.compile(r"[\r\n\u2028\u2029\f\v]")
_SENTENCE = re.compile(
    r"[^.!?。！？\r\n]*[^\s.!?。！？][^.!?。！？\r\n]*[.!?。！？]*(?=\s|$|(?<=[。！？]))|[^\r\n]*[^\s][^\r\n]*"
)

ROW_GAP = 0.9
"""Space between two lines of one block, in heights of the lower line."""
CELL_GAP = 1.5
"""Space between two pieces of one line of text, in heights."""
PITCH = 0.03
"""Distance from sentence to sentence of a text without picture, as if it were set on a page."""
SIZE_RATIO = 1.6
"""Heights of two lines of one block differ by less than this factor."""


class Rect(NamedTuple):
    """A rectangle on the page in unit coordinates; plain numbers, for speed."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def area(self) -> float:
        """Share of the page."""
        return max(self.x2 - self.x1, 0.0) * max(self.y2 - self.y1, 0.0)

    @property
    def height(self) -> float:
        """Extent along y."""
        return self.y2 - self.y1

    @property
    def width(self) -> float:
        """Extent along x."""
        return self.x2 - self.x1

    def box(self) -> Box:
        """Return the same as a box."""
        return Box.unit(*self)


@dataclass(slots=True)
class TextLine:
    """A run of words; `block` numbers the block that it belongs to."""

    start: int
    end: int
    """`item.text[start:end]`."""
    rect: Rect
    block: int = -1


@dataclass(slots=True)
class PageLayout:
    """The lines of one item, in the order of the text."""

    item: Item
    words: list[tuple[int, int, Rect]]
    """Words with a usable box, by start."""
    lines: list[TextLine]
    rects: NDArray[np.float64]
    """Rectangles of the lines, shape (lines, 4)."""
    blocks: list[list[int]]
    """Numbers of the lines of each block."""
    aspect: float
    """Width over height."""

    def rect_of_block(self, number: int) -> Rect:
        """Return the rectangle around the lines of a block."""
        return around(self.lines[line].rect for line in self.blocks[number]) or Rect(0.0, 0.0, 0.0, 0.0)

    def rect_of(self, start: int, end: int) -> Rect | None:
        """Return the rectangle around the words that touch a span of the text; None when no word does."""
        return around(rect for first, last, rect in self.words if first < end and start < last)


def around(rects: Iterable[Rect]) -> Rect | None:
    """Return the smallest rectangle over all; None over nothing."""
    sides = list(zip(*rects, strict=True))
    if not sides:
        return None
    return Rect(min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3]))


def layout(item: Item) -> PageLayout:
    """Find the lines and blocks of an item. Words without a usable box or span are left out."""
    words = _usable(item)
    aspect = item.size.width / item.size.height if item.size and item.size.height > 0 else 1.0
    lines = _lines(item.text, words) if words else _sentences(item.text)
    blocks = _blocks(lines, aspect) if words else [[number] for number in range(len(lines))]
    for number, block in enumerate(blocks):
        for line in block:
            lines[line].block = number
    rects = np.asarray([line.rect for line in lines], dtype=np.float64).reshape(-1, 4)
    return PageLayout(item, words, lines, rects, blocks, aspect)


def _usable(item: Item) -> list[tuple[int, int, Rect]]:
    """Return words with a span inside the text and a box inside the page, by start."""
    found = [(word.start, word.end, rect) for word in item.words if (rect := _rect(word, len(item.text)))]
    return sorted(found, key=lambda word: word[:2])


def _rect(word: Word, length: int) -> Rect | None:
    """Return the word's box, clipped to the page; None when nothing of it can be used."""
    sides = word.box.as_tuple()
    if not (0 <= word.start < word.end <= length) or not all(map(math.isfinite, sides)):
        return None
    rect = Rect(*(min(max(side, 0.0), 1.0) for side in sides))
    return rect if rect.area > 0 else None


def _lines(text: str, words: Sequence[tuple[int, int, Rect]]) -> list[TextLine]:
    """Return runs of words between line breaks of the text and jumps on the page."""
    runs: list[list[tuple[int, int, Rect]]] = []
    for word in words:
        if runs and _continues(text, runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    return [_line(run) for run in runs]


def _continues(text: str, last: tuple[int, int, Rect], word: tuple[int, int, Rect]) -> bool:
    """Return whether a word stands on the line of the one before it; words without a space between do."""
    if _BREAK.search(text, last[1], word[0]):
        return False
    return word[0] <= last[1] or _beside(last[2], word[2])


def _line(run: Sequence[tuple[int, int, Rect]]) -> TextLine:
    rect = around(word[2] for word in run)
    assert rect is not None, "a run has at least one word"
    return TextLine(run[0][0], max(word[1] for word in run), rect)


def _beside(a: Rect, b: Rect) -> bool:
    """Return whether two rectangles share at least a quarter of the lower one's height."""
    return min(a.y2, b.y2) - max(a.y1, b.y1) >= 0.25 * min(a.height, b.height)


def _sentences(text: str) -> list[TextLine]:
    """Return the sentences of a text without picture, as lines set one below the other."""
    found: list[TextLine] = []
    for match in _SENTENCE.finditer(text):
        stripped = match.group().strip()
        if stripped:
            start = match.start() + match.group().index(stripped)
            place = Rect(0.0, len(found) * PITCH, 1.0, (len(found) + 0.5) * PITCH)
            found.append(TextLine(start, start + len(stripped), place))
    return found


def _blocks(lines: Sequence[TextLine], aspect: float) -> list[list[int]]:
    """Join lines that whitespace keeps together, from the top of the page down."""
    parent = list(range(len(lines)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    order = sorted(range(len(lines)), key=lambda number: lines[number].rect.y1)
    for place, upper in enumerate(order):
        a = lines[upper].rect
        reach = a.y2 + ROW_GAP * SIZE_RATIO * a.height
        for lower in order[place + 1 :]:
            b = lines[lower].rect
            if b.y1 > reach:
                break
            if _joined(a, b, aspect):
                parent[root(lower)] = root(upper)
    groups: dict[int, list[int]] = {}
    for number in range(len(lines)):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def _joined(a: Rect, b: Rect, aspect: float) -> bool:
    """Return whether two lines belong to one block."""
    low, high = sorted((a.height, b.height))
    if high > SIZE_RATIO * low:
        return False
    shared = min(a.x2, b.x2) - max(a.x1, b.x1)
    if _beside(a, b):
        return -shared * aspect <= CELL_GAP * high
    return max(a.y1, b.y1) - min(a.y2, b.y2) <= ROW_GAP * low and shared > 0
