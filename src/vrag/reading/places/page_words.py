"""The words of a page in the form in which they are compared, with their lines and boxes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from vrag.reading.places.word_forms import WordForm, list_forms, root
from vrag.reading.text_layout import PageLayout, layout
from vrag.reading.views.text_lines import CELL_GAP, Rect, around
from vrag.reading.views.turned_text import turn_upright
from vrag.types import Item

CACHE_SIZE = 64
"""Items whose words are kept."""
_NARROW, _NARROW_LETTERS = 0.5, frozenset(".,:;'’!|()[]{}ijlI1tfr-")
"""Width of narrow characters, in widths of others."""


@dataclass(frozen=True, slots=True)
class PageWords:
    """The words of a page. A word has no box where the item has no picture."""

    page: PageLayout
    forms: tuple[WordForm, ...]
    lines: tuple[int, ...]
    """The number of the line of each word; -1 for one without a line."""
    blocks: NDArray[np.int64]
    """The number of the block of each line."""
    places: dict[str, list[int]]
    """The numbers of the words with each key."""
    roots: dict[str, list[int]]
    """The numbers of the words with each stem."""
    initials: dict[str, list[int]]
    """The numbers of the words with each first character."""

    @property
    def text(self) -> str:
        """The text of the page."""
        return self.page.item.text

    def rects(self, first: int, last: int) -> list[Rect]:
        """Return a rectangle for each line that a run of words stands on, the last word included."""
        found: list[Rect] = []
        line = None
        for number in range(first, last + 1):
            angle = self._angle(number)
            for rect in self._rects_of(number):
                if found and line == self.lines[number] and _is_beside(found[-1], rect, angle):
                    found[-1] = around((found[-1], rect)) or rect
                else:
                    found.append(rect)
            line = self.lines[number]
        return found

    def run_on(self, number: int) -> bool:
        """Return whether the word behind this one belongs to the same run of text.

        It does on the same line without a wide gap, or in the next line of the same block.
        """
        line, next_line = self.lines[number], self.lines[number + 1]
        if line < 0 or next_line < 0:
            return False
        lines = self.page.lines
        if line != next_line:
            has_boxes = bool(self.page.words)
            return has_boxes and lines[line].block == lines[next_line].block and next_line == line + 1
        before, after = self._rects_of(number), self._rects_of(number + 1)
        if not before or not after:
            return True
        angle = self._angle(number)
        left, right = (Rect(*turn_upright(rect, angle)) for rect in (before[-1], after[0]))
        gap = (right.x1 - left.x2) * (1 / self.page.aspect if angle % 180 else self.page.aspect)
        return gap <= CELL_GAP * max(left.height, right.height)

    def gap(self, number: int) -> str:
        """Return the text between a word and the one behind it."""
        return self.text[self.forms[number].end : self.forms[number + 1].start]

    def _angle(self, number: int) -> int:
        """Return the degrees clockwise by which the line of a word is turned."""
        line = self.lines[number]
        return self.page.lines[line].angle if line >= 0 else 0

    def _rects_of(self, number: int) -> list[Rect]:
        """Return the boxes of a word: several where it is divided, cut where others share its box."""
        form, words = self.forms[number], self.page.words
        at = bisect_left(words, form.start, key=lambda word: word[1])
        while at < len(words) and words[at][1] <= form.start:
            at += 1
        found: list[Rect] = []
        while at < len(words) and words[at][0] < form.end:
            found.append(_cut(words[at], form.start, form.end, self.text, self._angle(number)))
            at += 1
        return found


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


def _identify(item: Item) -> Hashable:
    return item.id, item.text, item.text_source, item.size, item.words[-1:], item.facts.turned


@cached(LRUCache[Hashable, "PageWords"](CACHE_SIZE), key=_identify, lock=Lock())
def read_words(item: Item) -> PageWords:
    """Return the words of an item; those of the items read last are kept."""
    page = layout(item)
    forms = tuple(list_forms(page.item.text))
    starts = [line.start for line in page.lines]
    lines = tuple(_find_line(page, starts, form) for form in forms)
    return PageWords(
        page=page,
        forms=forms,
        lines=lines,
        blocks=np.asarray([line.block for line in page.lines], dtype=np.int64),
        places=_index((key, number) for number, form in enumerate(forms) for key in form.keys),
        roots=_index((root(form), number) for number, form in enumerate(forms)),
        initials=_index((form.key[0], number) for number, form in enumerate(forms)),
    )


def _find_line(page: PageLayout, starts: Sequence[int], form: WordForm) -> int:
    number = bisect_right(starts, form.start) - 1
    return number if number >= 0 and form.start < page.lines[number].end else -1


def _index(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, number in pairs:
        found[key].append(number)
    return dict(found)
