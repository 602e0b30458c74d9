"""The text of a page without the breaks of its lines, so that sentences, values and names are whole."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from vrag.text.terms import CJK

_BREAK = re.compile(r"[ \t\r\u00a0\u3000]*\n\s*")
_NEW_LINE = re.compile(r"\n\s*(?:\n|[-*+•▪●◦–|#>]\s?|\d{1,3}[.)]\s|$)")
"""A break that ends a paragraph, an entry of a list or a row of a table."""
_HYPHEN = re.compile(r"(?:[^\W\d_A-Z]{2}[-‐]|\u00ad)$")
_WIDE_END = re.compile(rf"[{CJK}、。，：；！？（）「」『』《》]$")
_WIDE_START = re.compile(rf"[{CJK}、。，：；！？（）「」『』《》]")
SEPARATOR = "\n\n"
"""The text between two ranges that do not belong together."""


@dataclass(frozen=True, slots=True)
class FlatText:
    """A text in which lines are joined, with the places of its characters in the original."""

    text: str
    starts: tuple[int, ...]
    """Where each piece begins in `text`."""
    origins: tuple[int, ...]
    """Where each piece begins in the original."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the original for a range that is not empty."""
        return self._place(start), self._place(end - 1) + 1

    def offset_of(self, place: int) -> int:
        """Return where a place of the original stands in `text`."""
        piece = max(bisect_right(self.origins, place) - 1, 0)
        return self.starts[piece] + place - self.origins[piece] if self.starts else 0

    def _place(self, offset: int) -> int:
        piece = bisect_right(self.starts, offset) - 1
        return self.origins[piece] + offset - self.starts[piece]


def flatten(
    text: str, segments: Sequence[tuple[int, int]], *, keep_paragraphs: bool | None = None
) -> FlatText:
    r"""Join the lines of each segment of a text; of the whole text if there are no segments.

    Paragraphs and entries of lists stay apart where there are no segments, or `keep_paragraphs` says so.

    Words that a hyphen parts at the end of a line are joined where the next line begins with a small letter;
    lines of Chinese and Japanese are joined without a space.

    >>> flatten("The govern-\nment met\nin Oslo.", ()).text
    'The government met in Oslo.'
    """
    pieces = _Pieces()
    keep = not segments if keep_paragraphs is None else keep_paragraphs
    last = 0
    for start, end in sorted(segments) or [(0, len(text))]:
        first = max(start, last)
        if first < end:
            if last:
                pieces.add(SEPARATOR, first)
            _join_lines(text, first, end, pieces, keep_paragraphs=keep)
            last = end
    return pieces.flat()


class _Pieces:
    """The pieces of a flat text so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.origins: list[int] = []
        self.length = 0

    def add(self, text: str, origin: int) -> None:
        if text:
            self.texts.append(text)
            self.starts.append(self.length)
            self.origins.append(origin)
            self.length += len(text)

    def flat(self) -> FlatText:
        return FlatText("".join(self.texts), tuple(self.starts), tuple(self.origins))


def _join_lines(text: str, start: int, end: int, pieces: _Pieces, *, keep_paragraphs: bool) -> None:
    at = start
    for match in _BREAK.finditer(text, start, end):
        line = text[at : match.start()]
        following = text[match.end() : match.end() + 1]
        if keep_paragraphs and _NEW_LINE.match(text, match.start() + match.group().index("\n")):
            pieces.add(line, at)
            pieces.add(SEPARATOR, match.start())
        elif following.islower() and _HYPHEN.search(line[-3:]):
            pieces.add(line[:-1], at)
        elif _WIDE_END.search(line) or _WIDE_START.match(following) or line.endswith(("-", "‐")):
            pieces.add(line, at)
        else:
            pieces.add(line, at)
            pieces.add(" ", match.start())
        at = match.end()
    pieces.add(text[at:end], at)
