"""The words and colours that synthetic documents are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.synthesis.canvas import Colour

__all__ = ["COLOURS", "WORDS", "Words", "check_vocabulary"]


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
"""Colours by the word that names them; any two are at least 110 apart in one of red, green and blue."""


def check_vocabulary(words: Words, colours: Mapping[str, Colour]) -> None:
    """Refuses words that would make a question ambiguous or give its answer away.

    Raises:
        CaseError: If a list is empty, or a word is not one lower-case ASCII word, occurs twice, or holds the
            name of a colour.
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
        if told := next((colour for colour in colours if colour in word), None):
            raise CaseError(f"The word {word!r} holds the name of the colour {told!r}.")
    for name, colour in colours.items():
        if len(colour) != 3 or not all(0 <= part <= 255 for part in colour):
            raise CaseError(f"The colour {name!r} is not red, green and blue from 0 to 255.")
