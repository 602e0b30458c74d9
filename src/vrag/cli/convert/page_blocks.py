"""Paragraphs, headings and entries of lists of a page, as Markdown, from the places of its lines.

A heading is what the file marks as one (`ItemFacts.headings`), or a short line in larger letters than the
text of the document. Lines of one paragraph are joined: a line goes on in the next one if the first word of
that would not have had room in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.reading.page_text import read_page_text
from vrag.reading.views.text_lines import CELL_GAP
from vrag.text.signs import CHECKED, CHOSEN, NOT_CHECKED, NOT_CHOSEN
from vrag.types import TextSource

if TYPE_CHECKING:
    from vrag.reading.page_text import PageText
    from vrag.reading.views.text_lines import Rect, TextLine
    from vrag.types import Item

MAX_LEVEL = 6
"""Levels of headings that Markdown has."""
LARGER = 1.2
"""Size of a heading that is not marked, in sizes of the text."""
SAME_SIZE = 1.09
"""Ratio of two sizes up to which they are one."""
MAX_HEADING_CHARS = 120
MAX_HEADING_SHARE = 0.2
"""Part of the letters of a document beyond which larger letters are no headings."""
INDENT = 0.12
"""Distance from the left end of a line in which lines begin that are as wide as its column."""
MAX_GAP = 3.0
"""Space between two lines of a paragraph, in heights of the upper one."""
PITCH = 1.35
"""Distance from line to line beyond which a paragraph ends, in that of the page."""
NARROW = 0.3
"""Width of a line, in that of the page, below which it goes on only where no sentence begins."""
MIN_SUPPORT, SUPPORT_SHARE = 3, 0.1
"""Lines that end where their column does, and their part of the lines that begin as far left."""
END_TOLERANCE = 0.02
"""Differences of the ends of such lines, in the width of the page."""
MAX_UNMARKED_LEVEL = 3
LEADERS = re.compile(r"(?:\.\s?){5}|…\s?…")
"""Dots that lead to the number of a page."""
SMALL_CIRCLE = re.compile(r"o\s")
"""A bullet in a font that calls it a letter; it is one where it begins several lines."""
BULLET = re.compile(r"[•●○◦▪■□◻❑‣∙·⁃➢➤◆❖✓–—](?=\s)")
NUMBER = re.compile(r"(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]\s")
CROSSED = "☒"
"""The state of a box of Word that is checked."""
SPECIAL_START = re.compile(r"#{1,6}\s|>|[-+*=_]{3,}$|[-+*]\s|```|~~~")
"""The beginning of a line that Markdown would take for a heading, a quotation, a rule, a list or code."""
TAG = re.compile(r"<(?=[A-Za-z/!?])")
ASCENDERS, DESCENDERS = re.compile(r"[A-Z\dbdfhklt]"), re.compile(r"[gjpqy]")
HEIGHTS = {(True, True): 0.93, (True, False): 0.72, (False, True): 0.73, (False, False): 0.52}
"""Height of the box of a word in sizes of its letters, with ascenders and with descenders or without."""


class MarkdownBlock(NamedTuple):
    """A paragraph, a heading or an entry of a list."""

    start: int
    """Its place in the text of its item."""
    text: str
    """Markdown."""
    is_entry: bool = False
    """True for an entry of a list."""


class PageLine(NamedTuple):
    """A line of a page, without what stands in tables."""

    line: TextLine
    text: str
    size: float
    """Size of its letters in pixels; 0 where it is not known."""
    right: float
    """Its right end before the first wide gap."""


class HeadingSizes(NamedTuple):
    """Sizes of the letters of headings that are not marked, in pixels, largest first."""

    sizes: tuple[float, ...] = ()

    def level(self, size: float) -> int | None:
        """Return the level of a line in letters of a size; None if it is no heading."""
        levels = (number for number, each in enumerate(self.sizes, 1) if size * SAME_SIZE >= each)
        found = next(levels, None)
        return found and min(found, MAX_UNMARKED_LEVEL)


def find_heading_sizes(items: Iterable[Item]) -> HeadingSizes:
    """Find the sizes of headings of a document: those larger than its text and its marked headings."""
    letters: Counter[float] = Counter()
    candidates: Counter[float] = Counter()
    marked: list[float] = []
    for item in items:
        for line in list_lines(item):
            size = round(line.size, 1)
            letters[size] += len(line.text) if size else 0
            if _is_marked(item, line.line):
                marked.append(size)
            elif size and _may_be_heading(line.text) and item.text_source is TextSource.LAYER:
                candidates[size] += len(line.text)
    if not letters.total():
        return HeadingSizes()
    least = max(LARGER * _median_size(letters), SAME_SIZE * max(marked, default=0))
    sizes = sorted((size for size in candidates if size >= least), reverse=True)
    if sum(candidates[size] for size in sizes) > MAX_HEADING_SHARE * letters.total():
        return HeadingSizes()
    groups: list[float] = []
    for size in sizes:
        if not groups or groups[-1] > size * SAME_SIZE:
            groups.append(size)
    return HeadingSizes(tuple(groups))


def _median_size(letters: Counter[float]) -> float:
    remaining = letters.total() / 2
    for size in sorted(letters):
        remaining -= letters[size]
        if remaining <= 0:
            return size
    return 0.0


def list_lines(item: Item, free: Sequence[bool] = ()) -> list[PageLine]:
    """Return the lines of a page in reading order, without the characters that are not free."""
    page = read_page_text(item)
    found: list[PageLine] = []
    for line in page.lines:
        shown = item.text[line.start : line.end]
        if free:
            shown = "".join(letter for at, letter in enumerate(shown, line.start) if free[at])
        if text := " ".join(shown.split()):
            words = _words(page, line)
            found.append(PageLine(line, text, _size(page, line, words), _right(page, line, words)))
    return found


def _words(page: PageText, line: TextLine) -> list[tuple[int, int, Rect]]:
    first = bisect_left(page.words, line.start, key=lambda word: word[0])
    return page.words[first : bisect_left(page.words, line.end, key=lambda word: word[0])]


def _right(page: PageText, line: TextLine, words: Sequence[tuple[int, int, Rect]]) -> float:
    """Return the right end of a line before a gap that is wider than those of words."""
    if not words:
        return line.rect.x2
    right = words[0][2].x2
    for _, _, rect in words[1:]:
        if (rect.x1 - right) * page.aspect > CELL_GAP * rect.height:
            break
        right = max(right, rect.x2)
    return right


def _size(page: PageText, line: TextLine, words: Iterable[tuple[int, int, Rect]]) -> float:
    """Return the size of the letters of an upright line: its boxes are as high as what is drawn in them."""
    text, height = page.item.text, page.item.size.height if page.item.size else 0
    sizes: list[float] = []
    for start, end, rect in words if not line.angle else ():
        word = text[start:end].strip(".,:;")
        if word.isalnum() and word.isascii():
            shape = bool(ASCENDERS.search(word)), bool(DESCENDERS.search(word))
            sizes.append(rect.height * height / HEIGHTS[shape])
    return median(sizes) if sizes else 0.0


def _may_be_heading(text: str) -> bool:
    return len(text) <= MAX_HEADING_CHARS and text[-1] not in ".,;" and bool(re.search(r"[^\W\d_]{2}", text))


def list_blocks(item: Item, free: Sequence[bool], sizes: HeadingSizes) -> list[MarkdownBlock]:
    """Return the blocks of a page without the characters that are not free, which stand in tables."""
    lines = _mark_buttons(_mark_circles(list_lines(item, free)))
    pitch, right_ends = _pitch(lines), _right_ends(lines)
    blocks: list[MarkdownBlock] = []
    run: list[PageLine] = []
    for number, line in enumerate(lines):
        run.append(line)
        following = lines[number + 1] if number + 1 < len(lines) else None
        level = _level(item, line, sizes)
        if following is not None and _is_free_between(free, line, following):
            same = _level(item, following, sizes) == level
            if level is not None and same and _is_same_heading(item, line, following):
                continue
            if level is None and same and _goes_on(line, following, right_ends[number], pitch):
                continue
        blocks.append(_make_block(run, level))
        run = []
    return blocks


def _mark_circles(lines: list[PageLine]) -> list[PageLine]:
    """Return lines with small circles as bullets."""
    circles = [bool(SMALL_CIRCLE.match(line.text)) for line in lines]
    if sum(circles) < 2:
        return lines
    return [
        line._replace(text=f"◦{line.text[1:]}") if is_circle else line
        for line, is_circle in zip(lines, circles, strict=True)
    ]


def _mark_buttons(lines: list[PageLine]) -> list[PageLine]:
    """Return lines with radio buttons as entries that have their state: others are no bullets."""
    if not any(CHOSEN in line.text for line in lines):
        return lines
    is_button = [line.text.startswith((CHOSEN, NOT_CHOSEN)) for line in lines]
    return [
        line._replace(text=f"• {line.text}") if button else line
        for line, button in zip(lines, is_button, strict=True)
    ]


def _is_free_between(free: Sequence[bool], line: PageLine, following: PageLine) -> bool:
    return all(free[line.line.end : following.line.start])


def _make_block(run: Sequence[PageLine], level: int | None) -> MarkdownBlock:
    text = TAG.sub("&lt;", " ".join(line.text for line in run))
    start = run[0].line.start
    if level is not None:
        return MarkdownBlock(start, f"{'#' * min(level, MAX_LEVEL)} {text}")
    if match := BULLET.match(text):
        return MarkdownBlock(start, f"- {text[match.end() :].strip()}", is_entry=True)
    if text.startswith((CROSSED, CHECKED, NOT_CHECKED)):
        mark = "x" if text.startswith((CROSSED, CHECKED)) else " "
        return MarkdownBlock(start, f"- [{mark}] {text[1:].strip()}", is_entry=True)
    escaped = f"\\{text}" if SPECIAL_START.match(text) else text
    return MarkdownBlock(start, escaped, is_entry=bool(NUMBER.match(text)))


def _level(item: Item, line: PageLine, sizes: HeadingSizes) -> int | None:
    """Return the level of a line as a heading; None if it is none."""
    for heading in item.facts.headings:
        if heading.start <= line.line.start and line.line.end <= heading.end:
            return heading.level
    if item.text_source is not TextSource.LAYER or not _may_be_heading(line.text):
        return None
    return sizes.level(line.size)


def _is_marked(item: Item, line: TextLine) -> bool:
    return any(heading.start <= line.start < heading.end for heading in item.facts.headings)


def _is_same_heading(item: Item, line: PageLine, following: PageLine) -> bool:
    """Return whether two lines of headings of one level are one heading."""
    marked = [heading for heading in item.facts.headings if heading.start <= line.line.start < heading.end]
    if marked:
        return following.line.start < marked[0].end
    return line.line.block == following.line.block


def _pitch(lines: Sequence[PageLine]) -> float:
    """Return the distance from line to line in paragraphs: the lower quartile of all; 0 without any."""
    steps = [
        below.line.rect.y1 - above.line.rect.y1
        for above, below in pairwise(lines)
        if 0 < below.line.rect.y1 - above.line.rect.y2 < MAX_GAP * above.line.rect.height
        and below.line.rect.x1 < above.line.rect.x2
    ]
    return sorted(steps)[len(steps) // 4] if steps else 0.0


def _goes_on(line: PageLine, following: PageLine, right_end: float, pitch: float) -> bool:
    """Return whether a paragraph goes on in the next line."""
    above, below = line.line.rect, following.line.rect
    if _begins_entry(following.text) or LEADERS.search(line.text) or line.line.angle != following.line.angle:
        return False
    if line.line.angle:
        return line.line.block == following.line.block
    if not 0 < below.y1 - above.y1 <= PITCH * pitch or below.x1 > above.x2:
        return False
    if above.width < NARROW and not following.text[0].islower() and line.text[-1] not in ",-–(&":
        return False
    first_word = below.width / len(following.text) * (len(following.text.split(maxsplit=1)[0]) + 1)
    return above.x2 + first_word > right_end


def _begins_entry(text: str) -> bool:
    return bool(BULLET.match(text) or NUMBER.match(text)) or text.startswith((CROSSED, CHECKED, NOT_CHECKED))


def _right_ends(lines: Sequence[PageLine]) -> list[float]:
    """Return the right ends of the columns of lines.

    It is the outermost place at which several lines end, of those that begin about as far left.
    """
    left = np.asarray([line.line.rect.x1 for line in lines])
    right = np.asarray([line.right for line in lines])
    found: list[float] = []
    for each in left:
        ends = np.sort(right[(left >= each - INDENT) & (left <= each + INDENT / 4)])
        support = np.arange(len(ends)) - np.searchsorted(ends, ends - END_TOLERANCE) + 1
        common = ends[support >= max(MIN_SUPPORT, SUPPORT_SHARE * len(ends))]
        found.append(float(common[-1] if len(common) else ends[-1]))
    return found


def join_blocks(blocks: Sequence[MarkdownBlock]) -> Iterator[str]:
    """Yield blocks; entries of one list are one text."""
    entries: list[str] = []
    for block in blocks:
        if block.is_entry:
            entries.append(block.text)
            continue
        if entries:
            yield "\n".join(entries)
            entries = []
        yield block.text
    if entries:
        yield "\n".join(entries)
