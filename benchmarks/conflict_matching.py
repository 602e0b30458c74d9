"""Whether a text states a value, whatever the form of its numbers and dates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache

from benchmarks.conflict_documents import plain

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
_TENS = "thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = "first second third fourth fifth sixth seventh".split()
_MONTHS = "january february march april may june july august september october november december".split()
_SCALES = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "hundred": 2}
_WORDS = {
    **{word: number for number, word in enumerate(_SMALL)},
    **{word: 10 * number for number, word in enumerate(_TENS, 3)},
    **{word: number for number, word in enumerate(_ORDINALS, 1)},
    **{name: number for number, name in enumerate(_MONTHS, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTHS, 1)},
    "sept": 9,
}
_TOKEN = re.compile(r"\d[\d.,]*\d|\d|[a-z]+")
LEAST_OVERLAP = 0.8
"""Share of the words of a rule that a text must have to state it."""


def is_stated(value: str, told: str, quote: str, kind: str, other: str) -> bool:
    """Whether what is told as a value is the one that is known; `other` is that of the other side.

    >>> is_stated("20 June 2026", "2026-06-20", "", "date", "27 June 2026")
    True
    >>> is_stated("5 years", "5", "after 5 months", "unit", "5 months")
    False
    """
    wanted, text = fold(value), fold(told)
    if kind == "negation" or (not numbers(value) and len(value.split()) > 3):
        return contains_words(value, f"{told} {quote}")
    if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text):
        return True
    if known := numbers(value):
        if known & numbers(other) == known:
            return wanted in fold(quote) and bool(known & numbers(told))
        return known <= numbers(told)
    return bool(text) and text in wanted and len(text) * 2 >= len(wanted)


def fold(text: str) -> str:
    """Return a text in small letters, with plain signs and single spaces."""
    return plain(text).casefold()


@cache
def numbers(text: str) -> frozenset[Decimal]:
    """Return the numbers of a text: in digits, in words, of months, and with their scale applied.

    >>> sorted(map(int, numbers("3 May 2027")))
    [3, 5, 2027]
    >>> numbers("1.234,5") == numbers("1,234.5")
    True
    """
    found: set[Decimal] = set()
    tokens = _TOKEN.findall(fold(text))
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        number = _parse(token)
        if number is not None and token not in _SCALES:
            found.add(number.scaleb(_SCALES[after]) if after in _SCALES else number)
    return frozenset(number.normalize() for number in found)


def _parse(token: str) -> Decimal | None:
    if token in _WORDS:
        return Decimal(_WORDS[token])
    if not token[0].isdigit():
        return None
    last = max(token.rfind("."), token.rfind(","))
    decimals = len(token) - last - 1
    whole = re.sub(r"[.,]", "", token)
    mixed = "." in token and "," in token
    if last < 0 or (decimals == 3 and not mixed and token[0] != "0") or token.count(token[last]) > 1:
        return Decimal(whole)
    return Decimal(whole).scaleb(-decimals)


def contains_words(statement: str, text: str) -> bool:
    """Whether a text has nearly all words of a statement, and denies or allows as it does."""
    wanted, found = _words(statement), _words(text)
    return len(wanted & found) >= LEAST_OVERLAP * len(wanted)


def share_words(one: str, other: str) -> float:
    """Return the share of the longer words of the shorter statement that the other has too."""
    sets = [{word[:5] for word in _words(text) if len(word) > 3} for text in (one, other)]
    return len(sets[0] & sets[1]) / max(min(map(len, sets)), 1)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", fold(text)))


def find_run(needle: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where a value stands among words: from the first to behind the last.

    >>> list(find_run("12 weeks", ["up", "to", "12", "weeks,", "then"]))
    [(2, 4)]
    """
    wanted = _squeeze(needle)
    texts = [_squeeze(word) for word in words]
    for start in range(len(texts)):
        joined = ""
        for end in range(start, len(texts)):
            joined += texts[end]
            if wanted in joined:
                if wanted not in joined[len(texts[start]) :] and _is_whole(wanted, joined):
                    yield start, end + 1
                break
            if len(joined) > len(texts[start]) + len(wanted):
                break


def _squeeze(text: str) -> str:
    return re.sub(r"(?<!\d)[.,]|[.,](?!\d)|[^\w$€£%.,]", "", fold(text))


def _is_whole(wanted: str, joined: str) -> bool:
    """Whether a value is not the part of a longer number."""
    at = joined.find(wanted)
    before, after = joined[:at][-1:], joined[at + len(wanted) :][:1]
    return not (_are_digits(before, wanted[:1]) or _are_digits(wanted[-1:], after))


def _are_digits(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit()
