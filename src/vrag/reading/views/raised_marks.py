"""Raised marks in a text: figures and letters that stand small above the line, behind a number or a word.

A text layer has them as superscript characters, with a space before them: "480 ¹ tonnes", "Revenue ²". Those
of units have none: "5,200 m²".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from vrag.item_facts import move_places
from vrag.text.signs import SUPERSCRIPTS

if TYPE_CHECKING:
    from vrag.types import Item

_RUN = rf"[*†‡§]*[{SUPERSCRIPTS}]+(?:[,*–][{SUPERSCRIPTS}]+)*"
_MARK = re.compile(rf"(?:(?<=\S)[ ]|(?<=[\d%)])){_RUN}(?![\w{SUPERSCRIPTS}])|^{_RUN}[ ]", re.MULTILINE)
_TEN = re.compile(r"(?<![\d.,])10\Z")


def find_marks(text: str) -> list[tuple[int, int]]:
    """Return the ranges of marks of footnotes in a text, in order, each with the space before it.

    Those of units are none, nor are powers of ten.

    >>> [find_marks(text) for text in ("480 ¹ tonnes", "84,210¹", "5 m²", "3 × 10 ⁶")]
    [[(3, 5)], [(6, 7)], [], []]
    """
    if text.isascii():
        return []
    return [match.span() for match in _MARK.finditer(text) if not _TEN.search(text, 0, match.start())]


def without_raised_marks(text: str) -> str:
    """Return a text without marks of footnotes.

    >>> without_raised_marks("51,934 ²"), without_raised_marks("The crane lifts 480 ¹ tonnes.")
    ('51,934', 'The crane lifts 480 tonnes.')
    """
    for start, end in reversed(find_marks(text)):
        text = text[:start] + text[end:]
    return text


def leave_out_marks(item: Item) -> Item:
    """Return an item without the marks of footnotes in its text, and without their words."""
    marks = find_marks(item.text)
    if not marks:
        return item
    ends = [end for _, end in marks]
    removed = [0, *accumulate(end - start for start, end in marks)]

    def moved(position: int) -> int:
        before = bisect_right(ends, position)
        inside = max(0, position - marks[before][0]) if before < len(marks) else 0
        return position - removed[before] - inside

    words = (replace(word, start=moved(word.start), end=moved(word.end)) for word in item.words)
    return replace(
        item,
        text=without_raised_marks(item.text),
        words=tuple(word for word in words if word.start < word.end),
        facts=move_places(item.facts, moved, moved),
    )
