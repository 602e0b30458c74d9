"""The lines of a page and the blocks that they form, by the boxes of words.

A line is a run of words in the order of the text that stand beside each other. A block is a set of
lines that whitespace keeps together: a paragraph, a list, a table, the labels of a chart. Lengths
are compared in units of the page's height, so that they mean the same along both axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from vrag.geometry import Box
from vrag.reading.views.turned_text import list_angles, turn_upright
from vrag.types import Item

_BREAK = re.compile(r"[\r\n\u2028\u2029\f\v]")
_SENTENCE = re.compile(
    r"""(?=\S) (?:
    (?: [^.!?。！？\r\n] | [.!?]+(?=[^\s.!?。！？"”’)\]]) )*
    [^\s.!?。！？] (?: [.!?]+["”’)\]]*(?=\s|$) | [。！？]+ | (?=[\r\n]|$) )
    | [^\r\n]+ )""",
    re.VERBOSE,
)
"""A sentence of one line; a point inside a number or an address ends none."""

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
    angle: int = 0
    """Degrees clockwise by which it is turned."""


PlacedWord: TypeAlias = tuple[int, int, Rect]
"""Start and end of a word in the text, and its rectangle."""


def around(rects: Iterable[Rect]) -> Rect | None:
    """Return the smallest rectangle over all; None over nothing."""
    sides = list(zip(*rects, strict=True))
    if not sides:
        return None
    return Rect(min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3]))


def group_words(
    item: Item, words: Sequence[PlacedWord], aspect: float
) -> tuple[list[TextLine], list[list[int]]]:
    """Return the lines of some words, and the numbers of the lines of each block."""
    lines = _lines(item.text, words)
    return lines, _blocks(lines, aspect)


def group_turned_words(
    item: Item, words: Sequence[PlacedWord], aspect: float
) -> tuple[list[TextLine], list[list[int]]]:
    """Return lines and blocks as `group_words` does, each of words that are turned alike."""
    angles = list_angles(item, [(start, end) for start, end, _ in words])
    lines: list[TextLine] = []
    blocks: list[list[TextLine]] = []
    for angle in sorted(set(angles)):
        turned = [
            (start, end, Rect(*turn_upright(rect, angle)))
            for (start, end, rect), own in zip(words, angles, strict=True)
            if own == angle
        ]
        found, numbers = group_words(item, turned, 1 / aspect if angle % 180 else aspect)
        for line in found:
            line.rect, line.angle = Rect(*turn_upright(line.rect, 360 - angle)), angle
        lines += found
        blocks += ([found[number] for number in block] for block in numbers)
    lines.sort(key=lambda line: line.start)
    numbers_of_lines = {id(line): number for number, line in enumerate(lines)}
    return lines, [[numbers_of_lines[id(line)] for line in block] for block in blocks]


def _lines(text: str, words: Sequence[PlacedWord]) -> list[TextLine]:
    """Return runs of words between line breaks of the text and jumps on the page.

    Words without a space between them stay on one line.
    """
    lines: list[TextLine] = []
    before = words[0]
    for word in words:
        start, end, rect = word
        same_line = not _BREAK.search(text, before[1], start) and (
            start <= before[1] or _beside(before[2], rect)
        )
        if lines and same_line:
            line = lines[-1]
            line.end = max(line.end, end)
            line.rect = around((line.rect, rect)) or rect
        else:
            lines.append(TextLine(start, end, rect))
        before = word
    return lines


def _beside(a: Rect, b: Rect) -> bool:
    """Return whether two rectangles share at least a quarter of the lower one's height."""
    return min(a.y2, b.y2) - max(a.y1, b.y1) >= 0.25 * min(a.height, b.height)


def list_sentences(text: str) -> list[TextLine]:
    """Return the sentences of a text without picture, as lines set one below the other."""
    lines: list[TextLine] = []
    for match in _SENTENCE.finditer(text):
        sentence = match.group().strip()
        if sentence:
            start = match.start() + match.group().index(sentence)
            rect = Rect(0.0, len(lines) * PITCH, 1.0, (len(lines) + 0.5) * PITCH)
            lines.append(TextLine(start, start + len(sentence), rect))
    return lines


def _blocks(lines: Sequence[TextLine], aspect: float) -> list[list[int]]:
    """Join lines that whitespace keeps together, from the top of the page down."""
    parent = list(range(len(lines)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    order = sorted(range(len(lines)), key=lambda number: lines[number].rect.y1)
    for position, upper in enumerate(order):
        a = lines[upper].rect
        reach = a.y2 + ROW_GAP * SIZE_RATIO * a.height
        for lower in order[position + 1 :]:
            b = lines[lower].rect
            if b.y1 > reach:
                break
            if _in_one_block(a, b, aspect):
                parent[root(lower)] = root(upper)
    groups: dict[int, list[int]] = {}
    for number in range(len(lines)):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def _in_one_block(a: Rect, b: Rect, aspect: float) -> bool:
    """Return whether two lines belong to one block."""
    low, high = sorted((a.height, b.height))
    if high > SIZE_RATIO * low:
        return False
    shared = min(a.x2, b.x2) - max(a.x1, b.x1)
    if _beside(a, b):
        return -shared * aspect <= CELL_GAP * high
    return max(a.y1, b.y1) - min(a.y2, b.y2) <= ROW_GAP * low and shared > 0
