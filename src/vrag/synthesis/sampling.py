"""The words, names and values that synthetic documents are made of, and how they are drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Generic, NamedTuple, TypeVar

from vrag.errors import CaseError
from vrag.synthesis.canvas import Colour

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Words:
    """Two lists of lower-case words; a name is a word of the first and one of the second."""

    first: tuple[str, ...]
    second: tuple[str, ...]


WORDS = Words(
    tuple(
        "amber brisk calm distant eager frosty gentle hollow jolly lucky misty noble proud quiet royal "
        "sturdy".split()
    ),
    tuple(
        "bridge castle forest garden harbour island lantern market meadow orchard river tower valley village "
        "window workshop".split()
    ),
)
"""Sixteen words each: 256 names."""

COLOURS: Mapping[str, Colour] = {
    "red": (220, 20, 20),
    "green": (0, 150, 40),
    "blue": (20, 40, 230),
    "yellow": (255, 225, 0),
    "cyan": (0, 215, 235),
    "magenta": (230, 0, 200),
    "black": (0, 0, 0),
    "grey": (130, 130, 130),
}
"""Colours by name; any two are at least 110 apart in one of red, green and blue."""


def check_vocabulary(words: Words, colours: Mapping[str, Colour]) -> None:
    """Refuse words that would make a question ambiguous or give its answer away.

    Raises `CaseError` if a list is empty, or a word is not one lower-case ASCII word, occurs twice, or holds
    the name of a colour.
    """
    every = (*words.first, *words.second, *colours)
    if not (words.first and words.second and colours):
        raise CaseError("There are no words or no colours to make documents of.")
    for word in every:
        if not (word.isascii() and word.isalpha() and word.islower()):
            raise CaseError(f"{word!r} is not one word of the letters a to z.")
        if every.count(word) > 1:
            raise CaseError(f"The word {word!r} occurs twice.")
    for word in (*words.first, *words.second):
        if contained := next((colour for colour in colours if colour in word), None):
            raise CaseError(f"The word {word!r} holds the name of the colour {contained!r}.")
    for name, colour in colours.items():
        if len(colour) != 3 or not all(0 <= part <= 255 for part in colour):
            raise CaseError(f"The colour {name!r} is not red, green and blue from 0 to 255.")


class Name(NamedTuple):
    """The subject of a page: two lower-case words."""

    first: str
    second: str

    @property
    def title(self) -> str:
        """As a heading: "Amber Harbour"."""
        return f"{self.first} {self.second}".title()

    def __str__(self) -> str:
        return f"{self.first} {self.second}"


@dataclass(slots=True)
class BalancedSampler(Generic[T]):
    """Values drawn in equal shares, in random order.

    After `keep_to_dealt`, only those that were drawn before come: held-out cases then ask for nothing
    that training has not shown.
    """

    values: Sequence[T]
    random: random.Random
    _left: list[T] = field(default_factory=list[T])
    _dealt: list[T] = field(default_factory=list[T])

    def deal(self) -> T:
        """Draw the next value."""
        if not self._left:
            self._left = self.random.sample(self.values, len(self.values))
        value = self._left.pop()
        if value not in self._dealt:
            self._dealt.append(value)
        return value

    def keep_to_dealt(self) -> None:
        """From here on, draw only values that were drawn before."""
        if self._dealt:
            self.values = tuple(self._dealt)
        self._left = []


def deal_names(
    words: Words, train: int, held_out: int, random: random.Random
) -> tuple[list[Name], list[Name]]:
    """Draw names for the pages of both parts, each name once.

    Names are taken along the diagonals of the square first × second word, back and forth, so that each
    shares one word with another: for every page there is one that a search may confuse with it. Those held
    out are made of words that occur in training. `train` and `held_out` are numbers of pages.

    Raises `CaseError` if there are too few words for so many pages, or too few pages to train on.
    """
    most = min(len(words.first), len(words.second))
    if train + held_out > most * most:
        raise CaseError(
            f"{train + held_out} pages need as many names, and {most} × {most} words make {most * most}.",
            "Ask for fewer documents or pages.",
        )
    side = min(most, max(ceil(sqrt(train + held_out)), (train + 1) // 2))
    firsts, seconds = (random.sample(part, side) for part in (words.first, words.second))
    names: list[Name] = []
    for base in range(0, side, 2):  # two diagonals at a time, so that neighbours share a row or a column
        for row in range(side):
            offsets = (base, base + 1) if base + 1 < side else (base,)
            names += (Name(firsts[row], seconds[(row + offset) % side]) for offset in offsets)
    shown = names[:train]
    shown_firsts, shown_seconds = {name.first for name in shown}, {name.second for name in shown}
    known = [name for name in names[train:] if name.first in shown_firsts and name.second in shown_seconds]
    known = known[:held_out]
    if len(known) < held_out:
        raise CaseError(
            f"{train} pages to train on have too few words for {held_out} pages held out.",
            "Ask for more documents, or hold out fewer.",
        )
    return random.sample(shown, len(shown)), random.sample(known, len(known))
