"""How wide text is, near enough, where no browser breaks its lines: in a drawing."""

from __future__ import annotations

import unicodedata

__all__ = ["text_width", "wrapped"]

_NARROW = frozenset("iIjl|.,:;'!()[]{}/\\`· ")
_BROAD = frozenset("mwMW@%—…")


def text_width(text: str) -> float:
    """Width of a line in ems, a little more than common sans-serif fonts need."""
    return sum(map(_advance, text))


def wrapped(text: str, ems: float, lines: int) -> list[str]:
    """Text broken into lines; what does not fit ends in an ellipsis.

    Args:
        text: Any text; white space of any length is one space.
        ems: Width of a line.
        lines: Most lines.

    >>> wrapped("one two three four", 5.0, 2)
    ['one two', 'three…']
    """
    broken: list[str] = []
    line = ""
    for word in _pieces(" ".join(text.split())[: 1 + int(8 * ems * lines)], ems):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer) > ems:
            broken.append(line)
            line = word
        else:
            line = longer
        if len(broken) >= lines:
            return [*broken[:-1], _cut(broken[-1], ems)]
    return [*broken, line] if line else broken


def _advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.02
    if character in _NARROW:
        return 0.32
    return 0.92 if character in _BROAD else 0.7 if character.isupper() else 0.57


def _pieces(text: str, ems: float) -> list[str]:
    """The words, those that are longer than a line broken where they reach its end."""
    pieces: list[str] = []
    for word in text.split(" "):
        piece = ""
        for character in word:
            if piece and text_width(piece) + _advance(character) > ems:
                pieces.append(piece)
                piece = ""
            piece += character
        pieces += [piece] if piece else []
    return pieces


def _cut(line: str, ems: float) -> str:
    while line and text_width(line) + _advance("…") > ems:
        line = line[:-1]
    return line.rstrip() + "…"
