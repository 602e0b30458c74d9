"""Headings of a page: titles that the outline of a file names, found as lines of the page's text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from vrag.types import MarkedHeading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_TITLE_LETTERS = 300
"""Letters and digits of a title beyond which it is no heading."""
MAX_TITLES = 200
"""Titles of one page that are sought."""
MAX_PLACES = 50
"""Places of a title on its page that are looked at."""
MAX_PREFIX_LETTERS = 16
"""Characters of a number before a title: "Chapter 12", "A.3.1"."""
_LETTER, _LETTERS = re.compile(r"[^\W_]"), re.compile(r"[^\W_]+")
_NUMBER = re.compile(
    r"(?:[^\W\d_]{3,9}\s+)?(?:\d{1,3}|[A-Z]\.\d{1,3}|(?:[A-Za-z]|[IVX]{1,5})(?=[.):]))(?:\.\d{1,3})*[.):]?"
)
"""A number before a title: "1.2", "Chapter 3.", "A.1", "IV."."""


def locate_headings(text: str, titles: Iterable[tuple[str, int]]) -> tuple[MarkedHeading, ...]:
    """Find titles in the text of their page; those that are not whole lines of it are left out.

    White space, signs and case do not count, a title may run over several lines, and a number may stand
    before it. Titles are sought in order; one that stands twice is the first one that is free.

    Args:
        text: Text of the page.
        titles: Titles with their levels, from 1.
    """
    found: list[MarkedHeading] = []
    page: _PageLines | None = None
    for title, level in islice(titles, MAX_TITLES):
        page = page or _PageLines(text)
        after = found[-1].end if found else 0
        span = page.find(title, after) or page.find(title, 0)
        if span and not any(span[0] < each.end and each.start < span[1] for each in found):
            found.append(MarkedHeading(*span, level))
    return tuple(sorted(found, key=lambda heading: heading.start))


class _PageLines:
    """The letters and digits of a page, and the lines in which they stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        folded = _fold_text(text)
        spans = [run.span() for run in _LETTERS.finditer(text)]
        self._letters = "".join(folded[start:end] for start, end in spans)
        self._run_starts = [start for start, _ in spans]
        self._run_offsets = [0, *accumulate(end - start for start, end in spans)]
        """Number of letters before each run of them."""
        lengths = [len(line) + 1 for line in text.split("\n")]
        self._starts: Sequence[int] = [0, *accumulate(lengths)]

    def find(self, title: str, after: int) -> tuple[int, int] | None:
        """Return the range of the lines that are a title, from a place in the text on; None if none are."""
        letters = _fold_text("".join(_LETTERS.findall(title)))
        if not 0 < len(letters) <= MAX_TITLE_LETTERS:
            return None
        at = self._count_letters(after) - 1
        for _ in range(MAX_PLACES):
            at = self._letters.find(letters, at + 1)
            if at < 0:
                return None
            if span := self._lines_of(self._place(at), self._place(at + len(letters) - 1) + 1):
                return span
        return None

    def _place(self, letter: int) -> int:
        """Return where a letter stands in the text, by its number."""
        run = bisect_right(self._run_offsets, letter) - 1
        return self._run_starts[run] + letter - self._run_offsets[run]

    def _count_letters(self, end: int) -> int:
        """Return the number of letters before a place in the text."""
        run = bisect_left(self._run_starts, end)
        if not run:
            return 0
        inside = self._run_offsets[run - 1] + end - self._run_starts[run - 1]
        return min(inside, self._run_offsets[run])

    def _lines_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the whole lines of a range, if they have nothing else but a number before it."""
        first = self._starts[bisect_left(self._starts, start + 1) - 1]
        if start - first > MAX_PREFIX_LETTERS:
            return None
        last = self._text.find("\n", end)
        last = len(self._text) if last < 0 else last
        before = self._text[first:start].strip()
        if _LETTER.search(self._text, end, last):
            return None
        if _LETTER.search(before) and not _NUMBER.fullmatch(before):
            return None
        line = self._text[first:last]
        return first + len(line) - len(line.lstrip()), first + len(line.rstrip())


def _fold_text(text: str) -> str:
    """Return a text without case, its letters one for one."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(map(_fold, text))


def _fold(letter: str) -> str:
    """Return a letter without case, one for one."""
    folded = letter.casefold()
    return folded if len(folded) == 1 else letter
