"""The text of a page: its words as terms that can be compared, and its lines and blocks.

Letters are folded and inflection is left out of a term. Words of scripts with spaces become light stems;
runs of Chinese, Japanese and Korean characters become overlapping pairs, which need no dictionary. Morphology
only: no synonyms.

A line is a run of words in the order of the text that stand beside each other. A block is a set of
lines that whitespace keeps together: a paragraph, a list, a table, the labels of a chart. Lengths
are compared in units of the page's height, so that they mean the same along both axes.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.folding import DIGIT_SEPARATORS, INVISIBLE, MARKS, fold, fold_case
from vrag.geometry import Box
from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.views.turned_text import list_angles, turn_upright
from vrag.types import Item, TextTable

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_TOKEN = re.compile(
    rf"""(?P<skip>(?<=\w)['’]s\b) | (?P<run>[{CJK}]+) | \d+(?:[.,{DIGIT_SEPARATORS}]\d+)+
    | (?:\b[A-Z]\.){{2,}} | [^\W_{CJK}]+(?:[{MARKS}{INVISIBLE}]+[^\W_{CJK}]+)*[{MARKS}]*""",
    re.VERBOSE,
)
_CHARACTER = re.compile("[\uff66-\uff9d][\uff9e\uff9f]|.", re.DOTALL)
"""A character of Chinese, Japanese or Korean; a narrow letter with its mark is one."""
_ORDINAL = re.compile(r"^(\d+)(?:st|nd|rd|th)$")
_NUMBER = re.compile(r"\d[\d.]*")
_VOWEL = re.compile(r"[aeiouy]")

STOP_WORDS = frozenset(
    """a about according after all also among an and any are as at be been before being both but by can
    could did do does doing down during each either every few following for from given had has
    have having he her here him his how i if in include included includes including into is it
    its itself just like look looks many me mention mentioned more most much my name named no
    nor not of on one only or other our out over own per please provide same say says shall she
    should show shown shows so some such tell than that the their them then there these they
    this those through to too under until up us use used uses using very was we were what when
    where whether which while who whom whose why will with would you your""".split()
)
"""English words that say nothing about what a question looks for."""


class Token(NamedTuple):
    """One term of a text: `text[start:end]`, folded to `term`."""

    term: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the terms of a text in order, stop words included.

    >>> [token.term for token in tokens("Studies of 1,234 gross margins")]
    ['study', 'of', '1234', 'gross', 'margin']
    >>> [token.term for token in tokens("总收入")]
    ['总收', '收入']
    """
    terms: list[Token] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match["skip"]:
            continue
        if match["run"] and end - start > 1:
            terms += _pair_characters(text, start, end)
        else:
            terms.append(Token(stem(match.group()), start, end))
    return terms


def _pair_characters(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the pairs of neighbours in a run of Chinese, Japanese or Korean, or its only character."""
    spans = [match.span() for match in _CHARACTER.finditer(text, start, end)]
    for (first, _), (_, last) in pairwise(spans) if len(spans) > 1 else [(spans[0], spans[0])]:
        yield Token(fold(text[first:last]), first, last)


def is_cjk(text: str) -> bool:
    """Return whether the text starts with a Chinese, Japanese or Korean character."""
    return re.match(f"[{CJK}]", text) is not None


def is_number(term: str) -> bool:
    """Return whether a term is a plain number."""
    return _NUMBER.fullmatch(term) is not None


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the folded word without thousands separators and the commonest English endings.

    >>> [stem(word) for word in ("Companies", "cited", "running", "1,383", "21st", "loss")]
    ['company', 'cit', 'run', '1383', '21', 'loss']
    """
    folded = fold(word).rstrip(".")
    if folded in STOP_WORDS and not word.isascii():  # no English word, as Vietnamese "đo"
        return fold_case(word)
    if folded[:1].isdigit():
        return _ORDINAL.sub(r"\1", folded.replace(",", ""))
    word = folded.replace(".", "")
    if not word.isascii():
        return word

    # The s of a plural or of a verb.
    if len(word) >= 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            word = word[:-3] + "y"
        else:
            word = word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]

    # The endings ed, ing and ly, and a final e, where a stem with a vowel and three letters remains.
    for ending in ("ing", "ed", "ly"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def one_edit_apart(a: str, b: str) -> bool:
    """Return whether one inserted, lost, changed or swapped letter turns one word into the other.

    >>> one_edit_apart("goverment", "government"), one_edit_apart("fourth", "fifth")
    (True, False)
    """
    if abs(len(a) - len(b)) > 1:
        return False
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    left, right = a[same:], b[same:]
    swapped = left[1::-1] + left[2:] if len(left) > 1 else left
    return left[1:] == right[1:] or left[1:] == right or left == right[1:] or swapped == right


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
    angle: int = 0
    """Degrees clockwise by which it is turned."""


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
    """Find the lines and blocks of an item. Words without a usable box or span are left out.

    A fault costs the item its lines, see `page_faults`.
    """
    empty = PageLayout(item, [], [], np.empty((0, 4)), [], 1.0)
    return read_part(UnreadPart.TEXT, item, lambda: _find_layout(item), empty)


def _find_layout(item: Item) -> PageLayout:
    words: list[tuple[int, int, Rect]] = []
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
            _group_by_angle(item, words, aspect) if item.facts.turned else _group(item, words, aspect)
        )
    else:
        lines = _sentences(item.text)
        blocks = [[number] for number in range(len(lines))]
    for number, block in enumerate(blocks):
        for line in block:
            lines[line].block = number
    rects = np.asarray([line.rect for line in lines], dtype=np.float64).reshape(-1, 4)
    return PageLayout(item, words, lines, rects, blocks, aspect)


def _group(
    item: Item, words: Sequence[tuple[int, int, Rect]], aspect: float
) -> tuple[list[TextLine], list[list[int]]]:
    """Return the lines of some words, and the numbers of the lines of each block."""
    lines = _lines(item.text, words)
    return lines, _blocks(lines, aspect)


def _group_by_angle(
    item: Item, words: Sequence[tuple[int, int, Rect]], aspect: float
) -> tuple[list[TextLine], list[list[int]]]:
    """Return lines and blocks as `_group` does, each of words that are turned alike."""
    angles = list_angles(item, [(start, end) for start, end, _ in words])
    lines: list[TextLine] = []
    blocks: list[list[TextLine]] = []
    for angle in sorted(set(angles)):
        turned = [
            (start, end, Rect(*turn_upright(rect, angle)))
            for (start, end, rect), own in zip(words, angles, strict=True)
            if own == angle
        ]
        found, numbers = _group(item, turned, 1 / aspect if angle % 180 else aspect)
        for line in found:
            line.rect, line.angle = Rect(*turn_upright(line.rect, 360 - angle)), angle
        lines += found
        blocks += ([found[number] for number in block] for block in numbers)
    lines.sort(key=lambda line: line.start)
    numbers_of_lines = {id(line): number for number, line in enumerate(lines)}
    return lines, [[numbers_of_lines[id(line)] for line in block] for block in blocks]


def list_segments(page: PageLayout) -> list[tuple[int, int]]:
    """Return the ranges of the text that stand together, in order.

    They are runs of lines of one block, and the pieces of lines with wide gaps, such as cells and columns.
    """
    segments: list[tuple[int, int]] = []
    for block in page.blocks:
        begun = False  # a run of lines without gaps
        for number in block:
            pieces = _pieces(page, page.lines[number])
            if begun and len(pieces) == 1:
                segments[-1] = segments[-1][0], max(segments[-1][1], pieces[0][1])
            else:
                segments += pieces
            begun = len(pieces) == 1
    return sorted(segments)


def _pieces(page: PageLayout, line: TextLine) -> list[tuple[int, int]]:
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


def _lines(text: str, words: Sequence[tuple[int, int, Rect]]) -> list[TextLine]:
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


def _sentences(text: str) -> list[TextLine]:
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
