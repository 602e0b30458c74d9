"""Short answers as words and numbers, so that ways to write the same are the same.

"Six knots." and "6 knots" are read alike, as are "$1,000" and "1000 dollars", "5 million" and "5,000,000",
"isn't" and "is not". Signs that change what is said stay: "A+" is not "A", "10:30" not "10 30", "≠5" not "5".
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

MAX_DIGITS = 60
"""Digits of a number; a longer one is a word."""
_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * tens
    for tens, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
SCALES = {
    "thousand": 10**3,
    "million": 10**6,
    "mn": 10**6,
    "billion": 10**9,
    "bn": 10**9,
    "trillion": 10**12,
}
_ORDINALS: dict[str, str] = dict(
    zip(
        "first second third fourth fifth sixth seventh eighth ninth tenth".split(),
        "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th".split(),
        strict=True,
    )
)
_CURRENCIES = {
    **dict.fromkeys(("$", "dollar", "dollars", "usd"), "dollar"),
    **dict.fromkeys(("€", "euro", "euros", "eur"), "euro"),
    **dict.fromkeys(("£", "pound", "pounds", "gbp"), "pound"),
    **dict.fromkeys(("¥", "yen", "jpy"), "yen"),
}
_UNITS = "kg|mg|km|cm|mm|kwh|mwh|gwh|twh|kw|mw|gw|ml|gb|mb|kb|tb|hz|khz|mhz|ghz|min|bn|mn|pm|am|m|g|t|l|h|s"
_DIGITS = r"(?:\d{1,3}(?:[,\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_TOKEN = re.compile(
    rf"(?P<number>(?:(?<![\w.)])(?P<sign>[-+\u2212])\s?)?(?:(?P<currency>[$€£¥])\s?)?(?<![\w.])(?P<digits>{_DIGITS})"
    rf"(?:\s?(?P<percent>%))?(?=(?:{_UNITS})?(?!\w)(?!\.\d)))"
    r"|(?P<initials>(?<![\w.])(?:[^\W\d_]\.){2,}(?:[^\W\d_](?!\w))?)"
    r"|(?P<dotted>\d+(?:\.\d+){2,})"
    r"|(?P<word>\w+(?:['’]\w+)*)"
    r"|(?P<range>(?<=\d)\s?[-\u2013\u2014]\s?(?=[$€£¥]?\d))"
    r"|(?P<grade>(?<=\w)[-\u2212](?!\w))"
    r"|(?P<star>(?<=(?<![\w*])[A-Z])\*(?![\w*]))"
    r"|(?P<mark>[\^#/&%‰‱]|(?<=\d):(?=\d))"
    r"|(?P<symbol>[^\w\s])"
)
_NEGATED = re.compile(r"n['’]t\b")
_DOLLARS_OF_THE_US = re.compile(r"(?i)\bUS\s?\$")
_SHORT_SCALE = re.compile(r"(?i)([$€£¥]\s?[\d.,]*\d)\s?(k|mm|mn|m|bn|b|tn|t)\b")
"""An amount with an abbreviated scale: "$12.5M"."""
_SCALE_NAMES = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}
"""By the first letter of the abbreviation."""
_MARKS = {"&": "and", "%": "percent", "°": "degrees"}
_SYMBOLS = frozenset({"Sm", "Sc", "So"})
"""Unicode categories of characters that say something: mathematics, currencies, others."""
_WITHOUT_MEANING = frozenset("|®™©")


@dataclass(frozen=True, slots=True)
class NumberToken:
    """A number as an answer says it."""

    value: Decimal
    decimals: int = 0
    """Digits after the decimal point, as written."""
    percent: bool = False
    currency: str = ""


Token: TypeAlias = NumberToken | str


def read_tokens(text: str) -> list[Token]:
    """Read a short text as words and numbers.

    >>> read_tokens("The six knots, 5 million!")
    [NumberToken(value=Decimal('6'), decimals=0, percent=False, currency=''), 'knots', \
NumberToken(value=Decimal('5000000'), decimals=0, percent=False, currency='')]
    """
    plain = _DOLLARS_OF_THE_US.sub("$", unicodedata.normalize("NFC", text))
    plain = _SHORT_SCALE.sub(lambda match: f"{match[1]} {_SCALE_NAMES[match[2][0].lower()]}", plain)
    plain = re.sub(r"(?i)\bcan(?:not|n['’]t)\b", "can not", plain)
    plain = re.sub(r"(?i)\bwon['’]t\b", "will not", plain)
    plain = re.sub(r"(?i)\bper cent\b", "percent", _NEGATED.sub(" not", plain))
    found = [_token_of(match) for match in _TOKEN.finditer(plain) if _has_meaning(match)]
    return _join_numbers(_without_articles(found))


def _has_meaning(match: re.Match[str]) -> bool:
    """Return whether a match is more than punctuation."""
    if match.lastgroup != "symbol":
        return True
    return unicodedata.category(match[0]) in _SYMBOLS and match[0] not in _WITHOUT_MEANING


def _token_of(match: re.Match[str]) -> Token:
    text = match[0]
    match match.lastgroup:
        case "number":
            return _number_of(match)
        case "initials":
            return text.replace(".", "").lower()
        case "range":
            return "to"
        case "grade":
            return "-"
        case "mark" | "symbol" | "star":
            return _MARKS.get(text, text)
        case _:
            return re.sub("['’]", "", text)  # in the case as written: of a single A it matters


def _number_of(match: re.Match[str]) -> Token:
    digits = re.sub(r"[,\u2009\u202f]", "", match["digits"])
    if len(digits) > MAX_DIGITS:
        return digits
    try:
        value = Decimal(digits)
    except InvalidOperation:  # digits of other scripts, such as ²
        return digits
    signed = -value if match["sign"] in {"-", "\u2212"} else value
    decimals = len(digits.partition(".")[2])
    currency = _CURRENCIES.get(match["currency"] or "", "")
    return NumberToken(signed, decimals, bool(match["percent"]), currency)


def _without_articles(tokens: list[Token]) -> list[Token]:
    """Drop articles before other words, and the case of words. A single capital A within a text is a name."""
    kept: list[Token] = []
    for at, token in enumerate(tokens):
        if not isinstance(token, str):
            kept.append(token)
            continue
        is_last = at + 1 == len(tokens) or (
            isinstance(following := tokens[at + 1], str) and not following.isalnum()
        )
        is_name = at > 0 and token.isupper()
        is_article = token.lower() in {"a", "an", "the"} and not is_name
        if is_last or not is_article:
            kept.append(_ORDINALS.get(token.lower(), token.lower()))
    return kept


def _join_numbers(tokens: list[Token]) -> list[Token]:
    """Read numbers in words, and join numbers with the scale, percent, sign and currency beside them."""
    joined: list[Token] = []
    at = 0
    while at < len(tokens):
        number, end = _number_at(tokens, at)
        if number is None:
            joined.append(tokens[at])
            at += 1
            continue
        number, at = _with_attributes(number, tokens, end)
        if joined and joined[-1] in {"minus", "negative"}:
            joined.pop()
            number = replace(number, value=-number.value)
        if joined and isinstance(joined[-1], str) and (currency := _CURRENCIES.get(joined[-1])):
            joined.pop()
            number = replace(number, currency=currency)
        joined.append(number)
    return joined


def _with_attributes(number: NumberToken, tokens: list[Token], at: int) -> tuple[NumberToken, int]:
    """Return a number with the scale, percent sign and currency that follow, and where they end."""
    while at < len(tokens) and isinstance(word := tokens[at], str):
        if (scale := SCALES.get(word)) is not None:
            shift = len(str(scale)) - 1
            number = replace(number, value=number.value * scale, decimals=max(0, number.decimals - shift))
        elif word == "percent":
            number = replace(number, percent=True)
        elif word in _CURRENCIES:
            number = replace(number, currency=_CURRENCIES[word])
        else:
            break
        at += 1
    return number, at


def _number_at(tokens: list[Token], at: int) -> tuple[NumberToken | None, int]:
    """Return the number that begins at a place, in digits or words, and where it ends."""
    if isinstance(token := tokens[at], NumberToken):
        return token, at + 1
    total, end = 0, at
    found = False
    while (group := _group_at(tokens, end)) is not None:
        value, after = group
        scale = tokens[after] if after < len(tokens) else ""
        scaled = isinstance(scale, str) and scale in SCALES
        if found and not 0 < value < 1000:
            break
        found = True
        if not scaled:
            return NumberToken(Decimal(total + value)), after
        total, end = total + value * SCALES[str(scale)], after + 1
    return (NumberToken(Decimal(total)), end) if found else (None, at)


def _group_at(tokens: list[Token], at: int) -> tuple[int, int] | None:
    """Return the number under a thousand in words at a place, and where it ends; None without one."""

    def word(place: int) -> str:
        token = tokens[place] if place < len(tokens) else ""
        return token if isinstance(token, str) else ""

    def small(place: int) -> tuple[int, int] | None:
        if word(place) in _SMALL:
            return _SMALL[word(place)], place + 1
        if word(place) not in _TENS:
            return None
        unit = _SMALL.get(word(place + 1), 0)
        return (_TENS[word(place)] + unit, place + 2) if 0 < unit < 10 else (_TENS[word(place)], place + 1)

    first = small(at)
    if first is None and word(at) != "hundred":
        return None
    value, end = first or (1, at)
    if word(end) != "hundred":
        return value, end
    hundreds, end = value * 100, end + 1
    rest = small(end + 1) if word(end) == "and" else small(end)
    return (hundreds + rest[0], rest[1]) if rest is not None else (hundreds, end)
