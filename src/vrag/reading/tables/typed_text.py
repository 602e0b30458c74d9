"""Text as typewriters set it: letters of one width, rows of dots that lead to a value, rules of dashes."""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DOTS = (".", "…", "·", "_")
"""Marks of which rows lead to a value."""
MIN_DOTS = 4
"""Dots of a row that leads to a value; three are left out words."""
MAX_PROBED = 1500
"""Words of a page that are looked at for the width of their letters."""
MIN_LETTERS = 4
"""Letters of a word that tells the width of letters."""
MIN_PAIRS = 8
"""Pairs of different words, one after the other, that must have letters of one width."""
MAX_SPREAD = 0.045
"""Difference between the widths of letters of two words, as a share, in text of one width."""
NARROW = 0.3
"""Space beside the first and last letter of a word, in widths of a letter."""
SPACE = 1.75
"""Space between two words with one blank between them, in widths of a letter."""
NO_SPACE = 0.9
"""The same between two parts of one figure."""
MIN_RULE = 8
"""Dashes of a rule."""
_RULE = re.compile(r"[-=_–—]+")
_LEADER = re.compile(r"\.{4,}|…{2,}|·{4,}|_{6,}")
_LEADER_END = re.compile(r"[\s.·…_]*(?:(?:\.\s?){4,}|…{2,}|(?:·\s?){4,}|_{6,})[\s.·…_]*$")


def is_typed_rule(text: str) -> bool:
    """Return whether a word is a rule of dashes or of underscores.

    >>> [is_typed_rule(text) for text in ("----------", "=========", "--", "well-known")]
    [True, True, False, False]
    """
    return len(text) >= MIN_RULE and _RULE.fullmatch(text) is not None


def without_leader(text: str) -> str:
    """Return a text without the row of dots at its end; one of dots alone stays.

    >>> [without_leader(text) for text in ("Male . . . . .", "Cod......", "n.a.", "......")]
    ['Male', 'Cod', 'n.a.', '......']
    """
    return _LEADER_END.sub("", text) or text if text.endswith(DOTS) else text


def find_leaders(texts: Sequence[str]) -> list[bool]:
    """Return for each word of a row whether it is part of a row of dots.

    >>> find_leaders(("Cod", ".", ".", ".", ".", "12")), find_leaders(("x,", "·", "·", "·", "z", "....."))
    ([False, True, True, True, True, False], [False, False, False, False, False, True])
    """
    if not any(text.startswith(DOTS) for text in texts):
        return [False] * len(texts)
    found: list[bool] = []
    for single, words in groupby(texts, lambda text: text in {".", "·"}):
        run = list(words)
        found += [len(run) >= MIN_DOTS if single else _LEADER.fullmatch(text) is not None for text in run]
    return found


def is_monospaced(texts: Sequence[str], boxes: NDArray[np.float64]) -> bool:
    """Return whether different words have letters of one width, and figures too.

    Args:
        texts: The words of a page, in reading order.
        boxes: Shape (words, 4): x1, y1, x2, y2.
    """
    probed = texts[:MAX_PROBED]
    chosen = [number for number, text in enumerate(probed) if len(text) >= MIN_LETTERS and text.isalpha()]
    differ = [texts[left] != texts[right] for left, right in pairwise(chosen)]
    if sum(differ) < MIN_PAIRS:
        return False
    letters = _letter_widths(texts, boxes, chosen)
    apart = np.abs(letters[1:] / np.maximum(letters[:-1], 1e-9) - 1)[differ]
    if float(np.median(apart)) > MAX_SPREAD:
        return False
    figures = [number for number, text in enumerate(probed) if len(text) >= MIN_LETTERS and text[0].isdigit()]
    if not figures:
        return True
    share = float(np.median(_letter_widths(texts, boxes, figures)) / max(float(np.median(letters)), 1e-9))
    return abs(share - 1) < 2 * MAX_SPREAD


def _letter_widths(
    texts: Sequence[str], boxes: NDArray[np.float64], chosen: Sequence[int]
) -> NDArray[np.float64]:
    sides = boxes[list(chosen)]
    return (sides[:, 2] - sides[:, 0]) / (np.array([len(texts[number]) for number in chosen]) - NARROW)


def measure_letter(texts: Sequence[str], boxes: NDArray[np.float64]) -> float:
    """Return the width of a letter in a row of words of one width; 0 if the words are too short to tell."""
    wide = [number for number, text in enumerate(texts) if len(text) > 1]
    if not wide:
        return 0.0
    return float(np.median(_letter_widths(texts, boxes, wide)))
