"""Words of one line that a file draws in another order: signs of a second font, values of filled-in forms.

PDFium keeps the order of the file. Within a line, words are put into the order of their places; a short text
that is drawn later, on the baseline of an earlier line, goes to that line where it fits in a space of it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdf_text.line_orders.column_order import HYPHENS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from vrag.corpus.formats.pdf_text.raised_words import LayerWord

SAME_BASELINE = 0.3
"""Difference of the baselines of words of one line, in heights."""
MAX_OVERLAP = 0.3
"""Part of two words beside each other that may take the same place, likewise."""
MAX_SPACE = 2.0
"""Space between two words of a line that is put into order, likewise: beside more may lie columns."""
MAX_SIZE = 2.0
"""Height of a word by that of the words that it is put among."""
MAX_WORDS = 8
"""Words of a text that is put into an earlier line: those of a value."""
ROW = 3.0
"""Height of the rows in which lines with one baseline are looked for, in points."""
NEAR = 1.2
"""Space between a text and the words before or behind it, in heights, if it belongs to their sentence."""
REACH = 16.0
"""Space between a label and its value, likewise."""
PITCH = 2.5
"""Distance of two lines of a stack, likewise."""
_End = tuple[float, int]
"""Right side of a word, and the number of its line."""
_LABEL_END = re.compile(r":$|_{3,}$|\.{4,}$")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")


class _RowEnds:
    """The ends of the words at one height: which of them comes last before a place."""

    def __init__(self, lines: Sequence[_Line], numbers: Sequence[int]) -> None:
        """Take all lines, and the numbers of those at this height."""
        words = [(word.upright[0], word.upright[2], at) for at in numbers for word in lines[at].words]
        words.sort()
        self._lefts = [left for left, _, _ in words]
        self._last: list[tuple[_End, _End | None]] = []
        """For each word: the last end of those up to it, and the last one of another line."""
        last, other = (-math.inf, -1), None
        for _, right, line in words:
            end = (right, line)
            if line == last[1]:
                last = max(last, end)
            elif end > last:
                last, other = end, last
            elif other is None or end > other:
                other = end
            self._last.append((last, other))

    def find(self, left: float, line: int) -> _End | None:
        """Return the last end of the words that begin left of a place and are of another line."""
        at = bisect_left(self._lefts, left)
        if not at:
            return None
        last, other = self._last[at - 1]
        return last if last[1] != line else other


@dataclass(slots=True)
class _Line:
    """Words between two line breaks of a layer."""

    words: list[LayerWord]
    baseline: float
    height: float
    is_fixed: bool = False
    """True if its words are left as they are: it is divided, or not written from left to right."""

    @property
    def left(self) -> float:
        return self.words[0].upright[0]


def order_lines(words: Sequence[LayerWord], characters: str) -> list[LayerWord]:
    """Return words with those of one line in the order of their places.

    Args:
        words: The words of a layer, upright, in its order.
        characters: The characters of the layer.
    """
    lines = _list_lines(words, characters)
    starts = {id(line.words[0]) for line in lines if not line.is_fixed}
    is_changed = [_sort_line(line) for line in lines]
    is_changed.append(_move_values(lines))
    return _with_glue(words, lines, starts) if any(is_changed) else list(words)


def _list_lines(words: Sequence[LayerWord], characters: str) -> list[_Line]:
    lines: list[_Line] = []
    line = [words[0]]
    is_divided = False
    is_mixed = _RIGHT_TO_LEFT.search(characters) is not None
    for before, word in pairwise(words):
        between = word.glue if word.glue is not None else characters[before.end : word.start]
        if between == " ":
            line.append(word)
            continue
        has_hyphen = not HYPHENS.isdisjoint(between)
        if has_hyphen or "\n" in between or "\r" in between:
            is_fixed = is_divided or has_hyphen or (is_mixed and _has_right_to_left(line))
            lines.append(_to_line(line, is_fixed=is_fixed))
            line, is_divided = [], has_hyphen
        line.append(word)
    return [*lines, _to_line(line, is_fixed=is_divided or (is_mixed and _has_right_to_left(line)))]


def _to_line(words: list[LayerWord], *, is_fixed: bool) -> _Line:
    sides = [word.upright if word.base is None else word.line for word in words]
    if len(sides) == 1:
        [(_, foot, _, head)] = sides
        return _Line(words, foot, head - foot, is_fixed)
    feet = [side[1] for word, side in zip(words, sides, strict=True) if word.text[0].isalnum()]
    height = max([side[3] - side[1] for side in sides])
    return _Line(words, median(feet or [side[1] for side in sides]), height, is_fixed)


def _has_right_to_left(words: Sequence[LayerWord]) -> bool:
    return any(_RIGHT_TO_LEFT.search(word.text) for word in words)


def _sort_line(line: _Line) -> bool:
    """Put the words of a line into the order of their places, if it steps back. Returns whether it did."""
    if line.is_fixed or len(line.words) == 1:
        return False
    step = line.height / 2
    lefts = [word.upright[0] for word in line.words]
    if all(a - b < step for a, b in pairwise(lefts)):
        return False
    ordered = sorted(line.words, key=_left)
    if any(b.upright[0] - a.upright[2] > MAX_SPACE * line.height for a, b in pairwise(ordered)):
        return False
    if not _is_one_line(ordered, line.baseline, line.height):
        return False
    line.words = ordered
    return True


def _left(word: LayerWord) -> float:
    return word.upright[0]


def _is_one_line(words: Sequence[LayerWord], baseline: float, height: float) -> bool:
    """Return whether words, from left to right, stand on one baseline and beside each other."""
    if any(a.upright[2] - b.upright[0] > MAX_OVERLAP * height for a, b in pairwise(words)):
        return False
    return all(
        abs(word.line[1] - baseline) < SAME_BASELINE * height for word in words if word.text[0].isalnum()
    )


def _move_values(lines: list[_Line]) -> bool:
    """Move short texts into earlier lines on their baseline. Returns whether there are any."""
    targets = {index: earlier for index, earlier in _list_pairs(lines) if _fits(lines[index], earlier)}
    kept = [index for index in targets if not _is_in_column(lines, index, targets)]
    for index in kept:
        if targets[index].words and _fits(lines[index], targets[index]):
            targets[index].words = sorted([*targets[index].words, *lines[index].words], key=_left)
            lines[index].words = []
    return any(not line.words for line in lines)


def _list_pairs(lines: Sequence[_Line]) -> Iterator[tuple[int, _Line]]:
    """Yield the numbers of short lines that stand right behind a word of an earlier line, and this one."""
    rows: defaultdict[int, list[int]] = defaultdict(list)
    numbers = [round(line.baseline / ROW) for line in lines]
    for index, row in enumerate(numbers):
        rows[row].append(index)
    known: dict[int, _RowEnds] = {}
    for index, line in enumerate(lines):
        if len(line.words) > MAX_WORDS:
            continue
        around = [row for row in range(numbers[index] - 1, numbers[index] + 2) if row in rows]
        # The lines of a row are in the order of the layer.
        if all(rows[row][0] >= index for row in around):
            continue
        for row in around:
            if row not in known:
                known[row] = _RowEnds(lines, rows[row])
        ends = [end for row in around if (end := known[row].find(line.left, index))]
        if ends and (nearest := max(ends)[1]) < index:
            yield index, lines[nearest]


def _fits(line: _Line, earlier: _Line) -> bool:
    """Return whether a text belongs between or behind the words of an earlier line."""
    low, high = sorted((line.height, earlier.height))
    if line.is_fixed or earlier.is_fixed or high > MAX_SIZE * low or line.left <= earlier.left:
        return False
    if abs(line.baseline - earlier.baseline) >= SAME_BASELINE * low:
        return False
    if not _may_belong(line, earlier):
        return False
    own = set(map(id, line.words))
    ordered = sorted([*earlier.words, *line.words], key=_left)
    if not _is_one_line(ordered, earlier.baseline, high):
        return False
    runs = [list(run) for _, run in groupby(ordered, key=lambda word: id(word) in own)]
    return all(
        _belongs(runs[at - 1][-1], run, runs[at + 1][0] if at + 1 < len(runs) else None, low)
        for at, run in enumerate(runs)
        if id(run[0]) in own
    )


def _may_belong(line: _Line, earlier: _Line) -> bool:
    """Return whether a text stands behind a label or before a word of an earlier line, in little time."""
    left = min(map(_left, line.words))
    before = [word for word in earlier.words if _left(word) <= left]
    if len(before) < len(earlier.words) or not before:
        return True
    return _LABEL_END.search(max(reversed(before), key=_left).text) is not None


def _belongs(before: LayerWord, run: Sequence[LayerWord], behind: LayerWord | None, height: float) -> bool:
    """Return whether words are the value of the label before them, or a part of the sentence around them."""
    space = run[0].upright[0] - before.upright[2]
    if _LABEL_END.search(before.text):
        return space < REACH * height
    is_within = behind is not None and behind.upright[0] - run[-1].upright[2] < NEAR * height
    return is_within and space < NEAR * height


def _is_in_column(lines: Sequence[_Line], index: int, targets: dict[int, _Line]) -> bool:
    """Return whether a line has another one right above or below it that stays: it is a part of a column."""
    line = lines[index]
    for other_index in (index - 1, index + 1):
        if other_index in targets or not 0 <= other_index < len(lines):
            continue
        other = lines[other_index]
        if (
            other is not targets[index]
            and abs(other.left - line.left) < line.height
            and abs(other.baseline - line.baseline) < PITCH * line.height
        ):
            return True
    return False


def _with_glue(words: Sequence[LayerWord], lines: Sequence[_Line], starts: Container[int]) -> list[LayerWord]:
    """Return the words of lines, with what stands before those that follow another word than in the layer.

    Args:
        words: The words in the order of the layer.
        lines: Their lines, in the new order.
        starts: Identities of the words that began a line.
    """
    before_of = {id(word): before for before, word in pairwise(words)}
    ordered: list[LayerWord] = []
    last: LayerWord | None = None
    for line in lines:
        for at, word in enumerate(line.words):
            follows = before_of.get(id(word)) is last and not (at and id(word) in starts)
            ordered.append(word if follows or last is None else replace(word, glue=" " if at else "\n"))
            last = word
    return ordered
