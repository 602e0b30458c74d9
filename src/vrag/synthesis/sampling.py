"""What is dealt out to documents: names that occur once, and values that recur."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from vrag.errors import CaseError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from vrag.synthesis.vocabulary import Words

__all__ = ["BalancedSampler", "Name", "deal_names"]

T = TypeVar("T")


class Name(NamedTuple):
    """What a page is about: two lower-case words."""

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
    """Values dealt in equal shares, in an order of chance.

    After `keep_to_dealt`, only those that were dealt before come: held-out cases then ask for nothing
    that training has not shown.
    """

    values: Sequence[T]
    chance: random.Random
    _left: list[T] = field(default_factory=list[T])
    _dealt: list[T] = field(default_factory=list[T])

    def deal(self) -> T:
        """The next value."""
        if not self._left:
            self._left = self.chance.sample(self.values, len(self.values))
        value = self._left.pop()
        if value not in self._dealt:
            self._dealt.append(value)
        return value

    def keep_to_dealt(self) -> None:
        """From here on, only values that were dealt already."""
        if self._dealt:
            self.values = tuple(self._dealt)
        self._left = []


def deal_names(
    words: Words, train: int, held_out: int, chance: random.Random
) -> tuple[list[Name], list[Name]]:
    """Names for the pages of both parts, each name once.

    Names are taken along the diagonals of the square first × second word, back and forth, so that each
    shares one word with another: for every page there is one that a search may confuse with it. Those held
    out are made of words that occur in training.

    Args:
        words: To make names of.
        train: Pages to train on.
        held_out: Pages held out.
        chance: Decides which words meet.

    Raises:
        CaseError: If there are too few words for so many pages, or too few pages to train on.
    """
    most = min(len(words.first), len(words.second))
    if train + held_out > most * most:
        raise CaseError(
            f"{train + held_out} pages need as many names, and {most} × {most} words make {most * most}.",
            "Ask for fewer documents or pages.",
        )
    side = min(most, max(ceil(sqrt(train + held_out)), (train + 1) // 2))
    firsts, seconds = (chance.sample(part, side) for part in (words.first, words.second))
    names = [Name(firsts[i], seconds[j]) for i, j in _diagonals(side)]
    shown, rest = names[:train], names[train:]
    known = [name for name in rest if _known(name, shown)][:held_out]
    if len(known) < held_out:
        raise CaseError(
            f"{train} pages to train on have too few words for {held_out} pages held out.",
            "Ask for more documents, or hold out fewer.",
        )
    return chance.sample(shown, len(shown)), chance.sample(known, len(known))


def _known(name: Name, shown: Sequence[Name]) -> bool:
    """Whether both words occur in names shown."""
    return any(name.first == other.first for other in shown) and any(
        name.second == other.second for other in shown
    )


def _diagonals(side: int) -> Iterator[tuple[int, int]]:
    """Every cell of a square once; two diagonals at a time, so that neighbours share a row or a column."""
    for base in range(0, side, 2):
        for at in range(side):
            yield at, (at + base) % side
            if base + 1 < side:
                yield at, (at + base + 1) % side
