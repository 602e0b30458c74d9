"""The lines of words on the picture of an item, in the order in which people read them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vrag.corpus.ocr import CJK
from vrag.reading.views.turned_text import list_angles
from vrag.types import Item, TextSource, Word

MAX_SEPARATOR = 8
"""Characters between two words that are kept: more of them stand for nothing that can be seen."""
_MIN_SIDEWAYS_LETTERS = 3
"""Letters from which the shape of a word shows whether it is written sideways: `il` is high as well."""
SIDEWAYS = 1.6
"""Height of a word by its width, in pixels, from which its letters cannot stand side by side."""
_COLUMN_GAP = 1.2
"""Width of a gap that may lie between columns, in heights of the word at its right."""
_COLUMN_ROWS = 4
"""Rows with text on both sides of a gap from which the sides may be columns."""
_COLUMN_LETTERS = 16
"""Letters of the rows of a column of running text, on average; the cells of a table have fewer."""


class PlacedWord(NamedTuple):
    """A word on a picture. The sides are in fractions of it."""

    text: str
    separator: str
    """The text between this word and the next one: a space, a line break, nothing."""
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class WordLine:
    """Words that stand one after the other."""

    words: tuple[PlacedWord, ...]
    angle: int = 0
    """Degrees clockwise by which it is turned: 0, 90 (read downwards), 180 or 270 (read upwards)."""

    @property
    def leftwards(self) -> bool:
        """True if it begins at the right, as Arabic and Hebrew do: by most of its letters."""
        text = "".join(word.text for word in self.words)
        if text.isascii() or self.angle:
            return False
        kinds = [unicodedata.bidirectional(letter) for letter in text]
        return sum(kind in {"R", "AL"} for kind in kinds) > kinds.count("L")

    @property
    def x1(self) -> float:
        """The left side."""
        return min(word.x1 for word in self.words)

    @property
    def x2(self) -> float:
        """The right side."""
        return max(word.x2 for word in self.words)

    @property
    def letters(self) -> int:
        """Number of letters; a Chinese or Japanese one is as wide as two."""
        return sum(len(word.text) + len(_CJK.findall(word.text)) for word in self.words)


_CJK = re.compile(f"[{CJK}]")


def list_lines(item: Item) -> list[WordLine]:
    """Return the lines of an item that has a picture, in reading order."""
    aspect = item.size.width / max(1, item.size.height) if item.size else 1.0
    known = list_angles(item, [(word.start, word.end) for word in item.words]) if item.facts.turned else None
    groups: list[tuple[list[PlacedWord], int | None]] = []
    end = 0
    for number, word in enumerate(item.words):
        if not end <= word.start < word.end <= len(item.text):
            continue
        placed = _place(item, word)
        angle = known[number] if known else _guess_angle(placed, aspect)
        separator = item.text[end : word.start][:MAX_SEPARATOR]
        end = word.end
        if groups:
            words, turned = groups[-1]
            words[-1] = words[-1]._replace(separator=separator)
            fits = angle is None or angle == (turned or 0)
            if "\n" not in separator and fits and _is_beside(words[-1], placed, turned or 0):
                words.append(placed)
                continue
        groups.append(([placed], angle))
    lines = [WordLine(tuple(words), _choose_angle(words, angle, known is None)) for words, angle in groups]
    if item.text_source is TextSource.OCR:  # was read across the page; a text layer has its writer's order
        return _by_columns([_pieces(line, aspect) for line in lines])
    return lines


def _place(item: Item, word: Word) -> PlacedWord:
    x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in word.box.as_tuple())
    return PlacedWord(item.text[word.start : word.end], "", x1, y1, x2, y2)


def _guess_angle(word: PlacedWord, aspect: float) -> int | None:
    """Return 90 for a word whose shape shows that it is written sideways; None if the shape does not tell."""
    width, height = (word.x2 - word.x1) * aspect, word.y2 - word.y1
    if len(word.text) < _MIN_SIDEWAYS_LETTERS or width < height <= SIDEWAYS * width:
        return None
    return 90 if height > width else 0


def _choose_angle(words: Sequence[PlacedWord], angle: int | None, is_guess: bool) -> int:
    """Return the angle of a line: by the order of its words where only their shape is known."""
    if is_guess and angle:
        return 90 if words[-1].y1 > words[0].y1 else 270
    return angle or 0


def _is_beside(before: PlacedWord, word: PlacedWord, angle: int) -> bool:
    """Return whether a word can follow another on a line."""
    if angle % 180:
        return overlap(before.x1, before.x2, word.x1, word.x2)
    return overlap(before.y1, before.y2, word.y1, word.y2)


def overlap(a1: float, a2: float, b1: float, b2: float) -> bool:
    """Return whether two ranges share at least a quarter of the shorter one."""
    return min(a2, b2) - max(a1, b1) >= 0.25 * min(a2 - a1, b2 - b1)


def _pieces(line: WordLine, aspect: float) -> list[WordLine]:
    """Divide a line at gaps that are wider than those between words."""
    starts = [0]
    for at, (before, word) in enumerate(zip(line.words, line.words[1:], strict=False), 1):
        if (word.x1 - before.x2) * aspect > _COLUMN_GAP * (word.y2 - word.y1) and not line.angle:
            starts.append(at)
    ends = [*starts[1:], len(line.words)]
    return [WordLine(line.words[a:b], line.angle) for a, b in zip(starts, ends, strict=True)]


def _by_columns(rows: Sequence[list[WordLine]]) -> list[WordLine]:
    """Put rows, from top to bottom and each divided at wide gaps, into the order in which people read them.

    Rows with running text on both sides of a gap that they share are columns: the left one is read first.
    The rows of a table are left whole.
    """
    lines: list[WordLine] = []
    at = 0
    while at < len(rows):
        count, gap = _shared_gap(rows[at:])
        sides = [_divide(row, gap) for row in rows[at : at + count]]
        if _are_columns(sides):
            for side in (0, 1):
                lines += _by_columns([parts[side] for parts in sides if parts[side]])
            at += count
        else:
            words = tuple(word for piece in rows[at] for word in piece.words)
            lines.append(WordLine(words, rows[at][0].angle))
            at += 1
    return lines


def _shared_gap(rows: Sequence[list[WordLine]]) -> tuple[int, tuple[float, float]]:
    """Return how many rows have the widest gap of the first one in common, and the gap."""
    gaps = [(left.x2, right.x1) for left, right in zip(rows[0], rows[0][1:], strict=False)]
    gap = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0.0, 0.0))
    if gap[0] >= gap[1]:
        return 0, gap
    count = 0
    for row in rows:
        left, right = _divide(row, gap)
        narrowed = (
            max([gap[0], *(piece.x2 for piece in left)]),
            min([gap[1], *(piece.x1 for piece in right)]),
        )
        if narrowed[0] >= narrowed[1]:
            break
        gap, count = narrowed, count + 1
    return count, gap


def _divide(row: Sequence[WordLine], gap: tuple[float, float]) -> tuple[list[WordLine], list[WordLine]]:
    """Return the parts of a row at the left of a gap and at its right."""
    middle = gap[0] + gap[1]
    return (
        [piece for piece in row if piece.x1 + piece.x2 < middle],
        [piece for piece in row if piece.x1 + piece.x2 >= middle],
    )


def _are_columns(sides: Sequence[tuple[list[WordLine], list[WordLine]]]) -> bool:
    """Return whether rows that were divided are two columns of running text."""
    if sum(bool(left) and bool(right) for left, right in sides) < _COLUMN_ROWS:
        return False
    for side in (0, 1):
        letters = [sum(piece.letters for piece in parts[side]) for parts in sides if parts[side]]
        if sum(letters) < _COLUMN_LETTERS * len(letters):
            return False
    return True
