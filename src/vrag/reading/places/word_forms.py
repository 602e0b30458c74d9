"""The words of a text in a form in which those of an answer and those of a page can be compared.

What differs between two copies of the same text is left out: letters are folded, the mark of a footnote
behind a word or number and the separators of thousands do not count. Digits are never
guessed: two numbers are the same only if they are written for the same value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from vrag.text.folding import DIGIT_SEPARATORS, INVISIBLE, MARKS, fold
from vrag.text.numerals import parse_digits
from vrag.text.signs import SUPERSCRIPT_DIGITS
from vrag.text.terms import CJK, STOP_WORDS, stem

_LETTER = rf"[^\W_{SUPERSCRIPT_DIGITS}{CJK}]"
_TOKEN = re.compile(
    rf"""(?P<number>\d+(?:[.,'’{DIGIT_SEPARATORS}]\d+)*)(?P<unit>{_LETTER}+)?
    | (?P<word>{_LETTER}(?:{_LETTER}|[{INVISIBLE}{MARKS}]|['’](?={_LETTER}))*)
    | (?P<character>[{CJK}])""",
    re.VERBOSE,
)
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_FOOTNOTE_IN_GROUPS = re.compile(r"(\d{1,3}(?:,\d{3})*,\d{3})\d")
_FOOTNOTE_BEHIND_WORD = re.compile(r"([^\W\d_]{3,})\d{1,2}")
_POWERS = tuple("⁰²³⁴⁵⁶⁷⁸⁹")
"""Raised digits that behind a number of two digits may be a power of ten rather than a footnote."""
_LONG_NUMBER = 3
"""Characters of a number that is known by itself, whatever unit is written behind it."""
_MINUS = "-−–﹣－"


class WordForm(NamedTuple):
    """A word, number or ideograph of a text: `text[start:end]`."""

    key: str
    """The form that equal words share; empty for none."""
    others: tuple[str, ...]
    """Further keys: the word without what may be a footnote's digit, a number by other separators."""
    start: int
    end: int
    is_number: bool = False
    is_negative: bool = False
    """A minus sign stands before the number, and nothing before the sign."""
    is_name: bool = False
    """It begins with a capital letter."""

    @property
    def is_stop_word(self) -> bool:
        """True if it says nothing about what a text is about."""
        return self.key in STOP_WORDS

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, the likeliest first."""
        return (self.key, *self.others)

    def matches(self, other: WordForm) -> bool:
        """Return whether both are the same word, or numbers of the same value and sign."""
        if self.is_negative != other.is_negative:
            return False
        return self.key == other.key or self.key in other.others or other.key in self.others


def list_forms(text: str) -> list[WordForm]:
    """Return the words of a text in order.

    >>> [form.key for form in list_forms("The eﬃcient Caf\u00e9 earned 84,210*")]
    ['the', 'efficient', 'cafe', 'earned', '84210']
    """
    return [_read_form(text, match) for match in _TOKEN.finditer(text)]


def _read_form(text: str, match: re.Match[str]) -> WordForm:
    start, end = match.span()
    if not (number := match["number"]):
        key, *others = _fold_word(match.group())
        return WordForm(key, tuple(others), start, end, is_name=match.group()[0].isupper())
    key, *others = _fold_number(number)
    is_negative = _has_minus(text, start)
    if unit := match["unit"]:
        unit = _fold_word(unit)[0]
        if unit not in _ORDINALS:  # 5G is not the number 5, but 45.2m may stand for 45.2 million
            others = [key, *others] if len(key) >= _LONG_NUMBER else []
            return WordForm(key + unit, tuple(others), start, end, True, is_negative)
    elif text[end : end + 1] in _POWERS and len(number) == len("10"):
        key = f"{key}^{text[end]}"
    return WordForm(key, tuple(others), start, end, True, is_negative)


def root(form: WordForm) -> str:
    """Return the stem of a word, by which words of different endings are one; numbers as they are."""
    return form.key if form.is_number else stem(form.key) or form.key


def _has_minus(text: str, start: int) -> bool:
    """Return whether a minus sign stands before a number, rather than a hyphen or the dash of a range."""
    if not start or text[start - 1] not in _MINUS:
        return False
    return start == 1 or text[start - 2].isspace() or text[start - 2] in "(["


@lru_cache(maxsize=65_536)
def _fold_word(word: str) -> tuple[str, ...]:
    plain = fold(word).replace("’", "'")
    plain = plain.removesuffix("'s") or plain
    footnote = _FOOTNOTE_BEHIND_WORD.fullmatch(plain)
    return (plain, footnote[1]) if footnote else (plain,)


@lru_cache(maxsize=65_536)
def _fold_number(number: str) -> tuple[str, ...]:
    """Return the value of a number in plain digits, and other values that the same digits may stand for.

    >>> [_fold_number(number) for number in ("1,234.5", "84.210", "3,5", "84,2101", "1.234.567,8")]
    [('1234.5',), ('84.210', '84210'), ('3.5',), ('84,2101', '84210'), ('1234567.8',)]
    """
    plain = fold(number)
    if footnote := _FOOTNOTE_IN_GROUPS.fullmatch(plain):
        return plain, footnote[1].replace(",", "")
    numeral = parse_digits(plain)
    return (numeral.digits, *filter(None, [numeral.grouped])) if numeral else (plain,)
