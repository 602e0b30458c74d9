"""Pieces of lines of text: the words of a page between wide gaps, set straight; lines of running text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.reading.tables.text_kinds import count_words, is_number
from vrag.reading.tables.typed_text import (
    NO_SPACE,
    SPACE,
    find_leaders,
    is_monospaced,
    is_typed_rule,
    measure_letter,
    without_leader,
)
from vrag.reading.views.turned_text import UprightView, list_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from vrag.types import Item

MAX_WORDS = 40_000
"""Words of a page beyond which the rest is left out."""
GAP = 0.85
"""Space between two pieces of one line, in heights of the text."""
MAX_DOT = 1.2
"""Width of a dot, with the space behind it, in a row of dots, in heights of the text."""
MAX_SLOPE = 0.06
"""Steepest line of text that is set straight, in y over x."""
MIN_SLOPE_WORDS = 8
"""Words of a page below which its text is not set straight."""
MIN_SLOPE_LENGTH = 10.0
"""Length of a line that tells the slope, in its heights."""
MIN_SLOPES = 4
"""Slopes of lines below which they do not tell the slope of the page."""
NO_SIZE = (1000.0, 1414.0)
"""Size of a page whose picture has none."""
FULL_WIDTH = "（）【】《》、，。：；！？“”—"
"""Punctuation as wide as an ideograph, most of it blank."""
CURRENCY = re.compile(r"(?:US|C|A|HK|NZ)?[$€£¥₹]|R(?:MB|\$)|USD|EUR|GBP")
SUFFIX = re.compile(r"[)%]+|\)?%|\*+|[†‡§]+|bps|pts")


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that stand close together in one line, in pixels of the page."""

    x1: float
    y1: float
    x2: float
    y2: float
    words: tuple[int, ...]
    """Numbers of its words in the item, from left to right."""
    text: str
    led: bool = False
    """True if a row of dots leads from it to what stands at its right."""

    @property
    def width(self) -> float:
        """Extent along x."""
        return self.x2 - self.x1

    @property
    def height(self) -> float:
        """Extent along y."""
        return self.y2 - self.y1

    @property
    def middle(self) -> float:
        """Y of its centre."""
        return (self.y1 + self.y2) / 2


@dataclass(frozen=True, slots=True)
class StraightWords:
    """The words of an item with usable boxes, set straight."""

    item: Item
    width: float
    height: float
    numbers: tuple[int, ...]
    """Number of each word in the item."""
    boxes: NDArray[np.float64]
    """Shape (words, 4): x1, y1, x2, y2 in pixels, as on the picture."""
    straight: NDArray[np.float64]
    """The same without the slope of the lines."""
    slope: float
    """y over x of lines of text."""
    line_height: float
    """Median height of the words."""
    monospaced: bool = False
    """True if all letters are equally wide, as on pages of a typewriter."""


class StraightView(NamedTuple):
    """The lines of an item that are turned alike, upright, with their words set straight."""

    upright: UprightView
    words: StraightWords


def list_straight_views(item: Item) -> tuple[StraightView, ...]:
    """Return an item once for each direction of its lines, those that run to the right first."""
    return tuple(StraightView(view, straighten_words(view.item)) for view in list_views(item))


def straighten_words(item: Item) -> StraightWords:
    """Return the words of an item in pixels; words without a usable box or span are left out."""
    width, height = NO_SIZE
    if item.size is not None and item.size.width > 0 and item.size.height > 0:
        width, height = map(float, item.size)
    numbers: list[int] = []
    rows: list[tuple[float, float, float, float]] = []
    for number, word in enumerate(item.words[:MAX_WORDS]):
        sides = word.box.as_tuple()
        if is_typed_rule(item.text[word.start : word.end]):
            continue
        if not (0 <= word.start < word.end <= len(item.text) and all(map(math.isfinite, sides))):
            continue
        x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in sides)
        if x1 < x2 and y1 < y2:
            numbers.append(number)
            rows.append((x1 * width, y1 * height, x2 * width, y2 * height))
    boxes = np.asarray(rows, dtype=np.float64).reshape(-1, 4)
    slope = _slope(boxes)
    straight = boxes.copy()
    if slope:
        straight[:, [1, 3]] -= slope * boxes[:, [0, 2]].mean(axis=1, keepdims=True)
        straight[:, [0, 2]] += slope * boxes[:, [1, 3]].mean(axis=1, keepdims=True)
    line_height = float(np.median(boxes[:, 3] - boxes[:, 1])) if rows else 0.0
    texts = [item.text[item.words[number].start : item.words[number].end] for number in numbers]
    monospaced = is_monospaced(texts, boxes)
    return StraightWords(item, width, height, tuple(numbers), boxes, straight, slope, line_height, monospaced)


def _slope(boxes: NDArray[np.float64]) -> float:
    """Return the slope on which the lines of text agree, in y over x; 0 if they do not, or if it is small.

    Letters with and without stems move the sides of single words up and down, so a slope is fitted to all
    words of a line: to their upper sides and to their lower ones.
    """
    if len(boxes) < MIN_SLOPE_WORDS:
        return 0.0
    heights = boxes[:, 3] - boxes[:, 1]
    across, down = np.diff((boxes[:, :2] + boxes[:, 2:]) / 2, axis=0).T
    near = (across > heights[1:]) & (np.abs(down) < 0.8 * heights[1:]) & (across < 40 * heights[1:])
    slopes: list[float] = []
    lengths: list[float] = []
    for line in np.split(boxes, np.flatnonzero(~near) + 1):
        length = float(line[-1, 2] - line[0, 0])
        if len(line) < 3 or length < MIN_SLOPE_LENGTH * float((line[:, 3] - line[:, 1]).mean()):
            continue
        x = (line[:, 0] + line[:, 2]) / 2
        x -= x.mean()
        slopes += [float(x @ side / (x @ x)) for side in (line[:, 1], line[:, 3])]
        lengths += [length, length]
    if len(slopes) < MIN_SLOPES:
        return 0.0
    order = np.argsort(slopes)
    share = np.cumsum(np.asarray(lengths)[order]) / sum(lengths)
    low, slope, high = np.asarray(slopes)[order][np.searchsorted(share, (0.25, 0.5, 0.75))].tolist()
    agree = high - low < abs(slope)
    return slope if agree and 0.0015 < abs(slope) < MAX_SLOPE else 0.0


def join_words(item: Item, words: Sequence[int]) -> str:
    """Return words as one text: as the item has them where they follow each other, else with spaces."""
    parts: list[str] = []
    before = -2
    for number in _order_turned(item, words):
        word = item.words[number]
        if parts:
            between = item.text[item.words[before].end : word.start] if number == before + 1 else " "
            glued = number == before + 1 and item.words[before].end == word.start
            parts.append("" if glued else "-" if between.strip() == "-" else " ")
        parts.append(item.text[word.start : word.end])
        before = number
    return " ".join("".join(parts).split())


def _order_turned(item: Item, words: Sequence[int]) -> Sequence[int]:
    """Return words in the order of their line if all are of one that runs up or down; others as they are."""
    turned = [part for part in item.facts.turned if part.angle % 180]
    if not turned or not words:
        return words
    first, last = min(words), max(words)
    start, end = item.words[first].start, item.words[last].end
    return sorted(words) if any(part.start <= start and end <= part.end for part in turned) else words


def split_rows(page: StraightWords, chosen: Iterable[int]) -> list[list[int]]:
    """Group words that stand beside each other: rows from top to bottom, each from left to right.

    Args:
        page: The words of the page.
        chosen: Indices into `page.numbers`.
    """
    rows: list[list[int]] = []
    spans: list[tuple[float, float]] = []
    boxes = page.straight
    order = sorted(chosen, key=lambda index: boxes[index, 1] + boxes[index, 3])
    for index in order:
        top, bottom = float(boxes[index, 1]), float(boxes[index, 3])
        if rows:
            above, below = spans[-1]
            overlap = min(bottom, below) - max(top, above)
            if overlap > 0.45 * min(bottom - top, below - above):
                rows[-1].append(index)
                count = len(rows[-1])
                spans[-1] = (above + (top - above) / count, below + (bottom - below) / count)
                continue
        rows.append([index])
        spans.append((top, bottom))
    return [sorted(row, key=lambda index: float(boxes[index, 0])) for row in rows]


def split_pieces(
    page: StraightWords, chosen: Iterable[int], separators: Sequence[tuple[float, float, float]] = ()
) -> list[list[Piece]]:
    """Split words into rows of pieces, at wide gaps, rows of dots, and vertical rules between words.

    Rows of dots are left out.

    Args:
        page: The words of the page.
        chosen: Indices into `page.numbers`.
        separators: x, first y and last y of vertical rules.
    """
    rows = (_split_row(page, row, separators) for row in split_rows(page, chosen))
    return [row for row in rows if row]


def _split_row(
    page: StraightWords, row: Sequence[int], separators: Sequence[tuple[float, float, float]]
) -> list[Piece]:
    boxes = page.straight
    texts = [word_text(page, index) for index in row]
    groups: list[list[int]] = []
    led: set[int] = set()
    right = middle = 0.0
    spaces = _Spaces.of_row(page, row, texts)
    behind = False
    for index, text, leads in zip(row, texts, find_leaders(texts), strict=True):
        x1, y1, x2, y2 = boxes[index].tolist()
        if leads and x2 - x1 < MAX_DOT * page.line_height * len(text):
            led.add(len(groups) - 1)
            behind = True
            continue
        if groups and not behind:
            ruled = any(right - 3 < at < x1 + 3 and first < middle < last for at, first, last in separators)
            if x1 - right <= spaces.between(page, groups[-1][-1], index) and not ruled:
                groups[-1].append(index)
                right = max(right, x2)
                continue
        behind = False
        groups.append([index])
        right, middle = x2, (y1 + y2) / 2
    pieces = [make_piece(page, group) for group in groups]
    pieces = [replace(piece, led=piece.led or number in led) for number, piece in enumerate(pieces)]
    return _attach_symbols(pieces, page)


def word_text(page: StraightWords, index: int) -> str:
    """Return the text of a word, given by its index into `page.numbers`."""
    word = page.item.words[page.numbers[index]]
    return page.item.text[word.start : word.end]


@dataclass(frozen=True, slots=True)
class _Spaces:
    """The measures of the widest space between two words of one piece in a row, in pixels."""

    by_height: float
    letter: float
    """Width of a letter where all are equally wide; 0 elsewhere."""

    @classmethod
    def of_row(cls, page: StraightWords, row: Sequence[int], texts: Sequence[str]) -> _Spaces:
        boxes = page.straight[list(row)]
        heights = np.sort(boxes[:, 3] - boxes[:, 1])
        by_height = GAP * min(float(heights[len(heights) * 3 // 4]), 2.5 * page.line_height)
        return cls(by_height, measure_letter(texts, boxes) if page.monospaced else 0.0)

    def between(self, page: StraightWords, left: int, right: int) -> float:
        """Return the widest space between two words of one piece; two figures are two cells."""
        wide = self.by_height * _wide_space(page, left, right)
        if not self.letter:
            return wide
        figures = all(re.search(r"\d", word_text(page, index)) for index in (left, right))
        return min(wide, NO_SPACE * self.letter) if figures else max(wide, SPACE * self.letter)


def _wide_space(page: StraightWords, left: int, right: int) -> float:
    """Return how much wider a space between two words of one piece may be: glyphs of some scripts are narrow.

    Full-width punctuation stands in half of its square, and digits beside ideographs far from them.
    """
    before, after = (page.item.words[page.numbers[index]] for index in (left, right))
    last, first = page.item.text[before.end - 1], page.item.text[after.start]
    if last in FULL_WIDTH or first in FULL_WIDTH:
        return 1.5
    if "\u2e80" <= max(last, first) <= "\u9fff":
        return 1.25
    return 1.0


def make_piece(page: StraightWords, words: Sequence[int]) -> Piece:
    """Make the piece of some words, given by their indices into `page.numbers`."""
    boxes = page.straight[list(words)]
    x1, y1 = boxes[:, :2].min(axis=0).tolist()
    x2, y2 = boxes[:, 2:].max(axis=0).tolist()
    text = join_words(page.item, [page.numbers[index] for index in words])
    name = without_leader(text)
    return Piece(x1, y1, x2, y2, tuple(words), name, led=name != text)


def _attach_symbols(pieces: list[Piece], page: StraightWords) -> list[Piece]:
    """Join the sign of a currency with the number at its right, and a per cent sign with that at its left."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        near = before is not None and piece.x1 - before.x2 < 14 * page.line_height
        starts = before is not None and CURRENCY.fullmatch(before.text) and re.match(r"[(\d–—-]", piece.text)
        ends = before is not None and SUFFIX.fullmatch(piece.text) and re.search(r"\d", before.text)
        if before is not None and near and (starts or (ends and piece.x1 - before.x2 < 2 * page.line_height)):
            joined[-1] = make_piece(page, before.words + piece.words)
        else:
            joined.append(piece)
    return joined


_PAGE_NUMBER = re.compile(r"[A-Z]?[-–]?\d{1,4}|[ivxlc]{1,6}|[IVXLC]{1,6}")
MAX_FALLS = 0.25
"""Page numbers of contents that are smaller than the one before, as a share."""
MIN_LINES = 3
"""Lines of a paragraph."""
MIN_WIDTH = 13.0
"""Width of a column of running text, in heights of its lines."""
WIDE = 28.0
"""Width of a line that is running text by itself, in heights."""
LINE_WORDS = 3.5
"""Words in a line of running text."""
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|will|does|did|includes?|shows?)\b")
LOOK_AHEAD = 3
"""Rows below a line among which the next line of its paragraph stands."""


def find_running_text(rows: Sequence[Sequence[Piece]]) -> set[int]:
    """Return the `id` of each piece that is a line of running text, of a contents page or a sentence.

    Lines are running text if three or more of a width stand below each other, with words as prose has them.
    """
    prose: set[int] = set()
    taken: set[int] = set()
    labels = {
        id(piece)
        for row in rows
        for piece, after in pairwise(row)
        if is_number(after.text)
        and after.x1 - piece.x2 > 2 * GAP * piece.height
        and any(
            is_number(other.text) and re.search(r"\d", other.text) for other in row if other.x1 >= after.x1
        )
    }
    contents = find_contents(rows)
    for number, row in enumerate(rows):
        for piece in row:
            if id(piece) in contents or (_is_sentence(piece) and id(piece) not in labels):
                prose.add(id(piece))
            if id(piece) in taken:
                continue
            chain = _chain(rows, number, piece, taken)
            taken.update(map(id, chain))
            if _is_paragraph(chain) and sum(id(line) in labels for line in chain) <= 0.5 * len(chain):
                prose.update(map(id, chain))
    return prose | find_statements(rows)


def find_contents(rows: Sequence[Sequence[Piece]]) -> set[int]:
    """Return the `id` of each piece before dots that lead to a page number, as those of contents pages do.

    Dots of a table lead to several values, to values with a sign or a point, or to numbers that fall.
    """
    led = [(piece, row[place + 1 :]) for row in rows for place, piece in enumerate(row) if piece.led]
    values = [[other.text for other in after] for _, after in led]
    pages = [texts[0] for texts in values if len(texts) == 1 and _PAGE_NUMBER.fullmatch(texts[0])]
    figures = [int(text) for text in pages if text.isdigit()]
    falls = sum(before > after for before, after in pairwise(figures))
    tabular = sum(map(bool, values)) - len(pages)
    if tabular > len(pages) or falls > MAX_FALLS * len(figures):
        return set()
    return {id(piece) for piece, _ in led}


def find_statements(rows: Sequence[Sequence[Piece]]) -> set[int]:
    """Return the `id` of each piece of a sentence that stands alone on one to three lines.

    Such sentences stand between two tables and announce the second one.
    """
    found: set[int] = set()
    for number, row in enumerate(rows):
        if len(row) != 1 or not row[0].text.endswith((":", ".", "：", "。")):
            continue
        lines = [row[0]]
        for above in reversed(rows[max(number - 2, 0) : number]):
            if len(above) != 1 or not _goes_on(above[0], lines[0]) or not _is_long(above[0]):
                break
            lines.insert(0, above[0])
        if _is_statement(" ".join(line.text for line in lines)):
            found.update(map(id, lines))
    return found


def _is_long(piece: Piece) -> bool:
    """Return whether a line is as long as those of running text whose next line goes on."""
    return piece.width > WIDE * piece.height


def _is_sentence(piece: Piece) -> bool:
    return piece.width > WIDE * piece.height and count_words(piece.text) >= 7


def _is_statement(text: str) -> bool:
    """Return whether a line that stands alone is a whole sentence, as those between two tables are."""
    if text.endswith(("：", "。")):
        return count_words(text) >= 6
    return text.endswith((":", ".")) and count_words(text) >= 6 and _VERB.search(text) is not None


def _chain(rows: Sequence[Sequence[Piece]], number: int, piece: Piece, taken: set[int]) -> list[Piece]:
    """Return a piece and those that go on below it at the same left side."""
    chain = [piece]
    while True:
        last = chain[-1]
        below = None
        for ahead in range(number + 1, min(number + 1 + LOOK_AHEAD, len(rows))):
            below = next((other for other in rows[ahead] if _goes_on(last, other)), None)
            if below is not None:
                number = ahead
                break
        if below is None or id(below) in taken:
            return chain
        chain.append(below)


def _goes_on(upper: Piece, lower: Piece) -> bool:
    """Return whether a piece can be the next line of a paragraph."""
    height = max(upper.height, lower.height)
    if not 0.5 * height < lower.middle - upper.middle < 2.1 * height:
        return False
    if min(upper.height, lower.height) < 0.6 * height:
        return False
    return abs(upper.x1 - lower.x1) < 2.5 * height


def _is_paragraph(chain: Sequence[Piece]) -> bool:
    if len(chain) < MIN_LINES:
        return False
    widths = np.array([piece.width / piece.height for piece in chain])
    words = np.array([count_words(piece.text) for piece in chain])
    if float(np.median(widths)) < MIN_WIDTH or float(np.median(words)) < LINE_WORDS:
        return False
    full = int(np.count_nonzero(widths > 0.75 * float(np.quantile(widths, 0.9))))
    return full >= 0.5 * len(chain) and not sum(is_number(piece.text) for piece in chain) > 0.2 * len(chain)
