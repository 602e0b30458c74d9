"""The search for words in the text of items: in folded letters, without regard to hyphens and line ends.

A folded text has the characters that are compared, and leads back to the places of its characters in the
original.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from vrag.agent.evidence import BoxSides
from vrag.corpus.ocr import CJK
from vrag.server.viewer.page_lines import SIDEWAYS, overlap
from vrag.text.folding import FOLDS
from vrag.types import Item, Word

_UNSPACED = f"(?![０-９Ａ-Ｚａ-ｚ])[{CJK}]"
"""A Chinese or Japanese character, beside which white space divides nothing."""
_CJK = re.compile(_UNSPACED)
_MATCH_GAP = 3.0
"""Width of a gap between words of one rectangle, in heights of the words."""


class TextMatch(NamedTuple):
    """A place where words were found."""

    start: int
    end: int
    """`text[start:end]`."""
    boxes: tuple[BoxSides, ...] = ()
    """In fractions of the picture, one for each line; empty without words that have boxes."""


class FoldedText:
    """A text as it is searched, and where its characters are in the original."""

    __slots__ = ("_origins", "_starts", "text")

    def __init__(self, original: str) -> None:
        self._starts, self._origins = array("I"), array("I")
        parts: list[str] = []
        length = last = 0

        def add(text: str, origin: int) -> None:
            nonlocal length
            if text:
                self._starts.append(length)
                self._origins.append(origin)
                parts.append(text)
                length += len(text)

        for match in _irregular(original).finditer(original):
            add(_fold_regular(original[last : match.start()]), last)
            for letter in _fold_irregular(match):
                add(letter, match.start())
            last = match.end()
        add(_fold_regular(original[last:]), last)
        self.text = "".join(parts)

    def matches(self, query: str) -> Iterator[TextMatch]:
        """Yield the places of a folded query that is not empty, one after the other, without boxes."""
        at = self.text.find(query)
        while at >= 0:
            yield TextMatch(self._origin(at), self._origin(at + len(query) - 1) + 1)
            at = self.text.find(query, at + len(query))

    def _origin(self, offset: int) -> int:
        piece = bisect_right(self._starts, offset) - 1
        return self._origins[piece] + offset - self._starts[piece]


def fold_query(query: str) -> str:
    """Return the characters of a query that are compared; empty if there are none."""
    return FoldedText(query).text.strip()


_HYPHENS = "-\u00ad\u05be\u2010\u2011\u2012\u2013\u2212"
_DASHES = "\u2014\u2015"
_IRREGULAR = re.compile(
    rf"[{_HYPHENS}][^\S\n]*(?:\n\s*)?|(?<={_UNSPACED})\s+|\s+(?={_UNSPACED})|[^\S ]\s*| \s+|[{_DASHES}]"
)
"""The text that is not folded character by character: a hyphen, with the line break after it; white space
that is no single space, or stands beside a Chinese or Japanese character; a dash."""
_QUOTES = str.maketrans(dict.fromkeys("‘’‚‛´׳", "'") | dict.fromkeys("“”„‟«»״", '"'))
"""Quotation marks and how they are typed."""


def _fold_regular(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_QUOTES).translate(FOLDS)


def _irregular(text: str) -> re.Pattern[str]:
    """Return a pattern of the parts of a text whose folds may have another length."""
    if text.isascii():
        return _IRREGULAR
    letters = {letter for letter in set(text) if len(_fold_regular(letter)) != 1 and not letter.isspace()}
    return _pattern("".join(sorted(letters.difference(_HYPHENS, _DASHES))))


@lru_cache(256)
def _pattern(letters: str) -> re.Pattern[str]:
    return re.compile(f"{_IRREGULAR.pattern}|[{re.escape(letters)}]") if letters else _IRREGULAR


def _fold_irregular(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] in _HYPHENS:
        return ""
    if text.isspace():
        beside = match.string[max(0, match.start() - 1) : match.end() + 1]
        return "" if _CJK.search(beside) else " "
    return " " if text in _DASHES else _fold_regular(text)


def find_matches(item: Item, query: str) -> list[TextMatch]:
    """Return where a folded query stands in an item, with boxes if its words have some."""
    words = sorted(item.words, key=lambda word: word.start)
    ends = [word.end for word in words]
    aspect = item.size.width / max(1, item.size.height) if item.size else 1.0
    return [
        match._replace(boxes=_boxes(match, words[bisect_right(ends, match.start) :], aspect))
        for match in FoldedText(item.text).matches(query)
    ]


def _boxes(match: TextMatch, words: Sequence[Word], aspect: float) -> tuple[BoxSides, ...]:
    """Return the rectangles of a match by the words from its first one on."""
    boxes: list[BoxSides] = []
    for word in words:
        if word.start >= match.end:
            break
        box = _cut(word, match, aspect)
        if boxes and _is_beside(boxes[-1], box, aspect):
            x1, y1, x2, y2 = boxes.pop()
            box = min(x1, box[0]), min(y1, box[1]), max(x2, box[2]), max(y2, box[3])
        boxes.append(box)
    return tuple(boxes)


def _cut(word: Word, match: TextMatch, aspect: float) -> BoxSides:
    """Return the part of a word's box that a match covers, as if its letters were equally wide."""
    x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in word.box.as_tuple())
    length = word.end - word.start
    start, end = (max(match.start - word.start, 0), min(match.end - word.start, length))
    if (y2 - y1) > SIDEWAYS * (x2 - x1) * aspect:
        return x1, y1, x2, y2
    return x1 + (x2 - x1) * start / length, y1, x1 + (x2 - x1) * end / length, y2


def _is_beside(a: BoxSides, b: BoxSides, aspect: float) -> bool:
    """Return whether a box stands on the line of another, near it. The line may be written sideways."""
    (width, height), (wide, high) = _shape(a, aspect), _shape(b, aspect)
    if height > width and high > wide:
        gap = max(a[1], b[1]) - min(a[3], b[3])
        if overlap(a[0], a[2], b[0], b[2]) and gap < _MATCH_GAP * max(width, wide):
            return True
    gap = (max(a[0], b[0]) - min(a[2], b[2])) * aspect
    return overlap(a[1], a[3], b[1], b[3]) and gap < _MATCH_GAP * max(height, high)


def _shape(box: BoxSides, aspect: float) -> tuple[float, float]:
    """Return width and height of a box in units of the page's height."""
    return (box[2] - box[0]) * aspect, box[3] - box[1]
