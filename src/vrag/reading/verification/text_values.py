"""The values of a text: numbers with unit, sign and scale, dates, times and years, with their places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from vrag.reading.table_answers.records import is_year
from vrag.reading.table_answers.values import (
    SCALES,
    Day,
    Quantity,
    find_days,
    find_quantities,
    parse_numeral,
)
from vrag.reading.verification.units import Unit, read_unit, units_of
from vrag.text.numerals import UNKNOWN_STYLE, NumberStyle, multiply, parse_digits
from vrag.text.terms import is_cjk

_ONE = Decimal(1)
MAX_TEXT = 40_000
"""Characters of a text in which values are looked for."""


@dataclass(frozen=True, slots=True)
class TextValue:
    """A number, a date or a time: `text[start:end]`."""

    start: int
    end: int
    amount: Decimal | None = None
    """The number as written, with its sign and its scale; None for dates and times."""
    step: Decimal = _ONE
    """The worth of one unit of its last written digit."""
    units: tuple[Unit, ...] = ()
    """The units that its text may mean; empty if none is written."""
    other_scale: Decimal = _ONE
    """A scale that a letter behind it may also mean, as in `5 m`; 1 without one."""
    scale: Decimal = _ONE
    """The factor of a word such as million behind it, which `amount` includes; 1 without one."""
    other_size: Decimal | None = None
    """Its size if the only separator stands for what it is not taken for: 84,210 may be 84.21."""
    sure_sign: bool = True
    """False where the sign may also be a dash, or brackets around a number that is an aside."""
    ordinal: bool = False
    spelled: bool = False
    """True for a number in words."""
    day: Day | None = None
    clock: int | None = None
    """Minutes since midnight."""

    @property
    def is_date(self) -> bool:
        """True for dates, years and times."""
        return self.day is not None or self.clock is not None

    def moved(self, offset: int) -> TextValue:
        """Return the value with its place in a longer text."""
        return replace(self, start=self.start + offset, end=self.end + offset)


_CURRENCY_CODES = "USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|KRW|RUB|NT|HK|US|AU|CA|Rs"
CODE = re.compile(
    rf"""(?<![\w$€£¥])(?: (?!(?:{_CURRENCY_CODES})\.?\d)(?=[\w./-]{{0,64}}\d)[A-Z](?:[-./]?[A-Za-z0-9])*
    | (?:[Ss]ections?|[Cc]hapters?|[Ff]igures?|Figs?\.|[Tt]ables?|[Pp]ages?|[Aa]ppendix|[Ss]tep|[Uu]nit
      |[Aa]rticle|No\.)[ ]\d+(?:\.\d+)*[a-z]? )(?!\w)""",
    re.VERBOSE,
)
"""Codes with capital letters and digits, such as A-17 or CO2, and numbered parts, such as Section 4.1."""
_PREFIXED_YEAR = re.compile(r"(?:FY|CY|AD|Q[1-4]|H[12])[-'’ ]?((?:19|20)\d\d)(?!\d)")
_ADDRESS = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+|(?:https?://|www\.)\S+|\b\w[\w-]{0,64}\.(?:com|org|net|edu|gov|io)\b\S*"
)
_PHONE = re.compile(
    r"""(?<![\w.,+-])(?: \+(?=(?:[ /()-]{0,2}\d){9})\d{1,3}(?:[ /-]\(?\d{2,8}\)?){2,5}
    | (?:\+?\d{1,3}[-.])?(?:\d{3}[-.]|\(\d{3}\)[ ]?)\d{3}[-.]\d{4} )(?![\w]|[-.,]\d)""",
    re.ASCII | re.VERBOSE,
)
_SECTION = re.compile(r"(?<![\d.])\d+(?:\.\d+){2,}(?![\d.])")
_CLOCK = re.compile(
    r"""(?<![\d:.,])(?P<h>[01]?\d|2[0-4])(?:[:.h](?P<m>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?
    | (?<![\d:.,])(?P<h2>[01]?\d|2[0-4]):(?P<m2>[0-5]\d)(?![\d:]|\.\d)
    | (?P<part>上午|下午|晚上|午前|午後)?(?P<h3>[01]?\d|2[0-4])[点點时時]
        (?:(?P<m3>[0-5]?\d)分?|(?P<h_half>半))?(?![间間点代期])""",
    re.VERBOSE | re.IGNORECASE,
)
_SEASON = re.compile(r"(?<![\d-])((?:1[89]|20)\d\d)\s?[-–/]\s?(\d\d)(?![\d/.–-])")
_DECADE = re.compile(r"(?<!\d)((?:1\d|20)\d0)['’]?s\b")
_CURRENCY_BEFORE = re.compile(r"(US\$|[$€£¥₹₩₽]|\b(?:USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|KRW|RUB|Rs\.?))\s?$")
_PERCENT_OF = re.compile(r"百分之\s?([零〇一二两三四五六七八九十百]+|\d+(?:\.\d+)?)")
_YEAR = re.compile(r"\(?[1-9]\d{3}\)?")
_MINUS_BEFORE = re.compile(r"(?<![\w).])[-−]$")
_LETTER_BEFORE = re.compile(r"[A-Za-zÀ-ÿ_]$")
_RANGE = re.compile(r"\s?(?:[-–—~～]|to|and|or|至|到)\s?(?:US)?[$€£¥]?")
_MYRIADS = re.compile(r"(?<![\d.,])(\d{1,4})[万萬](\d,?\d{0,3})(?![\d,])")
_DASH = re.compile(r"[-–−]\s")
_LETTER_SCALE = re.compile(r"\s?(?P<scale>mn?|bn|k)(?![\w²³/])", re.IGNORECASE)
_UNITS_SPELLED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS_SPELLED = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SPELLED = (
    {word: number for number, word in enumerate(_UNITS_SPELLED)}
    | {word: 10 * number for number, word in enumerate(_TENS_SPELLED, 2)}
    | {"dozen": 12}
)
_SPELLED_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ANY_SPELLED = "|".join([*_SPELLED, *_SPELLED_SCALES])
_SPELLED_NUMBER = re.compile(
    rf"\b(?:(?:{_ANY_SPELLED})(?:[\s-]+(?:and\s+)?(?=(?:{_ANY_SPELLED})\b)|\b))+", re.IGNORECASE
)
_SPELLED_ORDINALS = {
    word: number
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), 1
    )
}
_SPELLED_ORDINAL = re.compile(rf"\b(?:{'|'.join(_SPELLED_ORDINALS)})\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def find_values(text: str, style: NumberStyle = UNKNOWN_STYLE) -> tuple[TextValue, ...]:
    """Return the values of a text in order; none overlaps another.

    Codes, addresses and telephone numbers hold none. `style` is that of the document.

    >>> [int(value.amount) for value in find_values("$3.2 million to (1,150) t, twenty-five")]
    [3200000, -1150, 25]
    """
    text = text[:MAX_TEXT]
    taken = _Ranges()
    for pattern in (_ADDRESS, _PHONE):
        for match in pattern.finditer(text):
            taken.add(*match.span())
    found = [value for find in (_find_days, _find_clocks, _find_years) for value in taken.keep(find(text))]
    for pattern in (CODE, _SECTION):
        for match in pattern.finditer(text):
            if pattern is CODE or parse_digits(match[0]) is None:  # 1.234.567 is a number
                taken.add(*match.span())
    for values in (
        _find_percents(text),
        _find_myriads(text),
        _find_numbers(text, style),
        _find_spelled(text),
    ):
        found += taken.keep(values)
    return tuple(_share_units(text, sorted(found, key=lambda value: value.start)))


class _Ranges:
    """Ranges of a text that do not overlap."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def add(self, start: int, end: int) -> bool:
        """Take a range; return False, and do nothing, where a part of it is taken."""
        places = range(start, end)
        if not self._taken.isdisjoint(places):
            return False
        self._taken.update(places)
        return True

    def keep(self, values: Iterable[TextValue]) -> list[TextValue]:
        """Take the ranges of values, and return those of which no part was taken."""
        return [value for value in values if self.add(value.start, value.end)]


def _find_days(text: str) -> Iterator[TextValue]:
    for day, start, end in find_days(text):
        yield TextValue(start, end, day=day)


def _find_clocks(text: str) -> Iterator[TextValue]:
    for match in _CLOCK.finditer(text):
        yield TextValue(*match.span(), clock=_minutes(match))


def _find_percents(text: str) -> Iterator[TextValue]:
    """Yield Chinese percentages."""
    for match in _PERCENT_OF.finditer(text):
        number = parse_numeral(match[1])
        amount = Decimal(match[1]) if number is None else Decimal(number)
        yield TextValue(*match.span(), amount, units=units_of("%"))


def _find_myriads(text: str) -> Iterator[TextValue]:
    """Yield Japanese numbers such as 4万2136."""
    for match in _MYRIADS.finditer(text):
        yield TextValue(*match.span(), Decimal(10_000 * int(match[1]) + int(match[2].replace(",", ""))))


def _minutes(match: re.Match[str]) -> int:
    hour = int(match["h"] or match["h2"] or match["h3"])
    minute = 30 if match["h_half"] else int(match["m"] or match["m2"] or match["m3"] or 0)
    afternoon = (match["half"] or "").lower() == "p" or match["part"] in ("下午", "晚上", "午後")
    if afternoon and hour < 12:
        hour += 12
    elif (match["half"] or "").lower() == "a" and hour == 12:
        hour = 0
    return 60 * hour + minute


def _find_years(text: str) -> Iterator[TextValue]:
    """Yield seasons, which are two years, decades, and years behind letters such as FY."""
    for match in _SEASON.finditer(text):
        first = int(match[1])
        if (first + 1) % 100 == int(match[2]):
            yield TextValue(*match.span(1), day=Day(first, 0, 0))
            yield TextValue(*match.span(2), day=Day(first + 1, 0, 0))
    for match in _DECADE.finditer(text):
        yield TextValue(*match.span(), day=Day(int(match[1]), 0, 0))
    for match in _PREFIXED_YEAR.finditer(text):
        yield TextValue(*match.span(1), day=Day(int(match[1]), 0, 0))


def _find_numbers(text: str, style: NumberStyle) -> list[TextValue]:
    quantities = find_quantities(text, words=False, style=style)
    return [value for quantity in quantities if (value := _read(text, quantity))]


def _read(text: str, quantity: Quantity) -> TextValue | None:
    """Return a number with the unit around it; None if its digits are part of a word."""
    amount, start, end = _read_sign(text, quantity)
    before, core = text[max(start - 6, 0) : start], text[start:end]
    if _LETTER_BEFORE.search(before) and not _CURRENCY_BEFORE.search(before):
        return None
    units = units_of(quantity.unit) if quantity.unit else ()
    if not units and (currency := _CURRENCY_BEFORE.search(before)):
        units, start = units_of(currency[1].rstrip(".")), start - len(currency[0])
    scale, other = quantity.scale, _ONE
    letter = _LETTER_SCALE.match(text, end) if scale == 1 else None
    if letter and units:
        scale, end = SCALES[letter["scale"].lower()], letter.end()
    elif letter:
        other = SCALES[letter["scale"].lower()]
        end = letter.end()
        units = read_unit(text, letter.start())[0]
    if not units:
        units, end = read_unit(text, end)
    is_plain = scale == 1 and not units and _YEAR.fullmatch(core) is not None
    if is_plain and is_year(amount.copy_abs()):
        return TextValue(start, end, day=Day(int(abs(amount)), 0, 0))
    return TextValue(
        start,
        end,
        multiply(amount, scale),
        scale.scaleb(-quantity.decimals),
        units,
        scale=scale,
        other_size=None if quantity.other is None else multiply(quantity.other, scale),
        other_scale=other,
        sure_sign=_has_sure_sign(before, core),
        ordinal=quantity.ordinal,
    )


def _read_sign(text: str, quantity: Quantity) -> tuple[Decimal, int, int]:
    """Return a number with its sign, and its range without blanks, single brackets and dashes."""
    written = text[quantity.start : quantity.end]
    start, end = quantity.end - len(written.lstrip()), quantity.start + len(written.rstrip())
    if text[start] == "(" and ")" not in written:
        start += 1
    if text[end - 1] == ")" and "(" not in written:
        end -= 1
    amount = quantity.amount
    dash = re.match(r"\s*[-−–]\s*", text[start:end]) if amount >= 0 else None
    if dash and not is_cjk(text[start - 1 : start]):
        start += dash.end()
    elif dash:  # no range, as behind a digit
        amount = amount.copy_negate()
    elif amount > 0 and _MINUS_BEFORE.search(text[max(start - 2, 0) : start]):
        amount, start = amount.copy_negate(), start - 1
    return amount, start, end


def _has_sure_sign(before: str, core: str) -> bool:
    """Return whether dashes and brackets of a number, if it has any, can be nothing but its sign."""
    if re.match(r"\(?\s*[-+−–]", core):
        return _DASH.search(core) is None and re.search(r"\d\s*$", before) is None
    return not core.startswith("(") or re.search(r"[.,%$€£¥]", core) is not None


def _find_spelled(text: str) -> list[TextValue]:
    """Return the numbers in words; "one" alone is none."""
    found: list[TextValue] = []
    for match in _SPELLED_NUMBER.finditer(text):
        words = [word for word in re.split(r"[\s-]+", match[0].lower()) if word != "and"]
        if all(word in _SPELLED_SCALES for word in words) or words == ["one"]:
            continue
        units, end = read_unit(text, match.end())
        found.append(TextValue(match.start(), end, Decimal(_compose(words)), _ONE, units, spelled=True))
    for match in _SPELLED_ORDINAL.finditer(text):
        number = _SPELLED_ORDINALS[match[0].lower()]
        found.append(TextValue(*match.span(), Decimal(number), ordinal=True, spelled=True))
    return found


def _compose(words: list[str]) -> int:
    total = group = 0
    for word in words:
        if word in _SPELLED:
            group = group * _SPELLED[word] if word == "dozen" and group else group + _SPELLED[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        else:
            total, group = total + max(group, 1) * _SPELLED_SCALES[word], 0
    return total + group


def _share_units(text: str, values: list[TextValue]) -> list[TextValue]:
    """Give the first number of a range the unit of the second, as in 3–5 %."""
    shared = list(values)
    for at, (one, other) in enumerate(pairwise(values)):
        joined = _RANGE.fullmatch(text, one.end, other.start)
        if joined and one.amount is not None and other.amount is not None:
            scale = one.other_scale if other.scale == 1 or one.scale != 1 else other.scale
            shared[at] = replace(one, units=one.units or other.units, other_scale=scale)
    return shared
