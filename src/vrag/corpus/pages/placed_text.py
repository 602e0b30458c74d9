"""Text of a page whose words have places on it."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.types import TurnedText, Word


_SIDES = attrgetter("box.x1", "box.y1", "box.x2", "box.y2")
SLANTED_SIDE = 0.04
"""Shorter side of the box of a slanted word, as a fraction of the page: smaller ones cover no other words."""
SLANTED_ASPECT = 0.4
"""Longer over shorter side of its box for each of its letters; the letters of level words are wider."""


@dataclass(frozen=True)
class PlacedText:
    """The text of a page, its words with their boxes, and the parts of it whose lines are turned."""

    text: str = ""
    words: tuple[Word, ...] = ()
    turned: tuple[TurnedText, ...] = ()

    @cached_property
    def boxes(self) -> NDArray[np.float64]:
        """Boxes of the words, a row for each: left, top, right, bottom as fractions of the page."""
        return unit_boxes(self.words)

    @cached_property
    def angles(self) -> NDArray[np.int64]:
        """Degrees clockwise by which the line of each word is turned."""
        starts = [word.start for word in self.words]
        angles = np.zeros(len(starts), np.int64)
        for part in self.turned:
            angles[bisect_left(starts, part.start) : bisect_left(starts, part.end)] = part.angle
        return angles


def unit_boxes(words: Sequence[Word]) -> NDArray[np.float64]:
    """Return the boxes of words, a row for each: left, top, right, bottom as fractions of the picture."""
    sides = chain.from_iterable(map(_SIDES, words))
    return np.fromiter(sides, np.float64, 4 * len(words)).reshape(-1, 4)


def find_slanted(page: PlacedText, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return for each word whether it is in a line that is large and slanted, as of a stamp or a watermark.

    Most of the box of such a word, which has upright sides, is none of its letters.

    Args:
        page: The text.
        size: Width and height of the page, in any unit.
    """
    sides = page.boxes[:, 2:] - page.boxes[:, :2]
    slanted: list[int] = []
    for index in np.flatnonzero(sides.min(axis=1, initial=1.0) > SLANTED_SIDE).tolist():
        shorter, longer = sorted((sides[index] * size).tolist())
        letters = page.words[index].end - page.words[index].start
        if longer < SLANTED_ASPECT * letters * shorter:
            slanted.append(index)
    if not slanted:
        return np.zeros(len(page.words), np.bool_)
    breaks = [match.start() for match in re.finditer("\n", page.text)]
    lines = np.searchsorted(breaks, [word.start for word in page.words])
    return np.isin(lines, lines[slanted])
