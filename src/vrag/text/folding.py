"""Letters in the form in which words are compared, whoever typed them.

Compatibility forms, case, accents, the points of Hebrew and Arabic, and what is not seen, such as soft
hyphens, do not count; letters that keyboards of several languages write differently are one (Arabic and
Persian kaf and yeh, ł and l); digits of every script are 0 to 9. Search, the reader, the find of the viewer
and the places of evidence compare this form, so that a word that one of them finds is found by all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_POINTS = (
    "\u0300-\u036f\u0483-\u0487"  # of Latin, Greek and Cyrillic
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # of Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # of Arabic
    "\u1ab0-\u1aff\u1dc0-\u1dff"
)
INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
"""Soft hyphens, spaces and joiners without width, and directions: for a class of a regular expression."""
MARKS = f"{_POINTS}\u0900-\u0963\u0981-\u0dff"
"""Points and vowel signs that belong to the letter before; of Indic scripts the whole blocks.

For a class of a regular expression.
"""
DIGIT_SEPARATORS = "٫٬"
"""The point and the comma of Arabic numbers."""
_DROPPED = re.compile(f"[{_POINTS}{INVISIBLE}\u0640]+")
"""Accents, points, unseen characters and tatweel, in which a text and a question may differ."""
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
    | dict.fromkeys("ىیېے", "ي")
    | dict.fromkeys("کڪ", "ك")
    | dict.fromkeys("ةہھەۀ", "ه")
    | {"ٱ": "ا", "٬": ",", "٫": "."}
)
"""Letters that are typed as others, in compatibility form."""


class _Folds(dict[int, str]):
    """The folds of single characters, by their code; those asked for once are kept."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        digit = unicodedata.decimal(letter, None)
        folded = self[code] = _fold_letter(letter) if digit is None else str(digit)
        return folded


def _fold_letter(letter: str) -> str:
    bare = _DROPPED.sub("", unicodedata.normalize("NFKD", letter.casefold()))
    return unicodedata.normalize("NFC", bare).casefold().translate(_LETTERS)


FOLDS = _Folds()
"""The folds of characters by their code, for `str.translate`: empty for a mark, longer for a ligature."""


def fold(text: str) -> str:
    """Return a text in the form in which words are compared.

    >>> fold("Ｃａｆé ﬁne"), fold("כָּתַב"), fold("مُحَمَّد كتابی ۱۲٫۵") == "محمد كتابي 12.5"
    ('cafe fine', 'כתב', True)
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text.translate(FOLDS))


def fold_case(text: str) -> str:
    """Return a text in compatibility form and without case, with its accents and points.

    >>> fold_case("Ｃａｆé ﬁne")
    'café fine'
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def fold_with_places(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as `fold` does, and the place in the original of each of its characters."""
    if text.isascii():
        return text.lower(), range(len(text))
    folds = [FOLDS[ord(letter)] for letter in text]
    return "".join(folds), [place for place, folded in enumerate(folds) for _ in folded]
