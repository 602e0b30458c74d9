"""Values of cells and of questions: numbers with unit and scale, money, dates, times, Chinese numerals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from vrag.text.numerals import (
    DIGITS,
    UNKNOWN_STYLE,
    Numeral,
    NumberStyle,
    multiply,
    parse_digits,
    write_figures,
)

MAX_TEXT = 400
"""Characters of a cell that are parsed."""
_MAX_NUMBER = Decimal("1e100")
_MAX_NUMERAL_CHARS = 30
"""Larger numbers, and longer numerals, are texts: sums and ratios of smaller ones are finite."""

_MONTHS: Sequence[str] = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DATE_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})\s*年(?:\s*(?P<m>\d{1,2})\s*月(?:\s*(?P<d>\d{1,2})\s*[日号])?)?",
        r"(?<!\d)(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})\s*[日号]",
        r"(?<!\d)(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})(?!\d)",
        r"(?<!\d)(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})(?!\d)",
        _MONTH.format("n") + r"\s*(?P<d>\d{1,2})(?:st|nd|rd|th)?\b(?:\s*,?\s*(?P<y>\d{4})\b)?",
        r"\b(?P<d>\d{1,2})(?:st|nd|rd|th)?(?:\s+of)?\s+" + _MONTH.format("n") + r"(?:,?\s*(?P<y>\d{4})\b)?",
        _MONTH.format("n") + r",?\s*(?P<y>\d{4})\b",
    )
)
_NUMBER = re.compile(
    rf"""(?P<open>\()? (?P<sign>[-+−–](?=[\s$€£¥]?[\d.]))? \s* (?P<money>US\$|[$€£¥]|CHF\s|EUR\s)? \s*
    (?P<inner>\()? (?P<minus>[-−](?=\d))?
    (?P<digits>{DIGITS})
    (?P<close>\s*\))? \s* (?P<percent>[%％٪]|per\ ?cent\b|个百分点)?
    (?:[\s-]*(?P<scale>thousand|million|billion|trillion|bn|mn|m(?=\s|$)|k(?=\s|$)|千|百万|万|亿))?
    (?P<ordinal>st\b|nd\b|rd\b|th\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_SPACED = re.compile(
    r"(?:[-+−–(]|US\$|[$€£¥]|\s)*\d{1,3}(?: \d{3})+(?:[.,]\d+)?(?:[-−)%€$£¥]|EUR|USD|kr|\s)*"
)
"""A cell with nothing but a number whose thousands are parted by spaces."""
_GROUP_SPACE = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
_FIGURES = re.compile(DIGITS)
_TRAILING_MINUS = re.compile(rf"((?:US\$|[$€£¥])?\s?(?=\d+[.,’'\s])(?:{DIGITS})\s?[%€]?)\s?[-−]")
"""A negative amount of a report by SAP and others. Whole numbers such as 2019 may begin a range."""
_DEVIATION = re.compile(
    r"(?P<value>[-+−]?[$€£¥]?\d[\d.,]*\s?%?)\s*(?:\(\s?\d[\d.,]*\s?%?\s?\)|(?:±|\+/-)\s?\d[\d.,]*\s?%?)"
)
_CLOCK = re.compile(r"(?<![\d:.])(?:(?P<h>\d{1,3}):)?(?P<m>\d{1,3}):(?P<s>\d{2}(?:\.\d+)?)(?![\d:])")
_POWERS = {
    "thousand": 3, "k": 3, "千": 3, "万": 4, "million": 6, "mn": 6, "m": 6, "百万": 6,
    "亿": 8, "billion": 9, "bn": 9, "trillion": 12,
}  # fmt: skip
_ONE = Decimal(1)
SCALES = {name: Decimal(10**power) for name, power in _POWERS.items()}
"""The factors of words of scale."""
_WORDS = {
    word: number
    for number, words in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty".split()
    )
    for word in words.split()
} | {"dozen": 12, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100, "twice": 2, "once": 1}
ORDINALS = {
    word: number
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), 1
    )
}
"""English words of ranks."""
_DIGITS = {digit: number for number, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_NUMERAL = re.compile("[零〇一二两三四五六七八九十百千万亿]+")


class Day(NamedTuple):
    """A date; 0 stands for a part that is not given."""

    year: int
    month: int
    day: int

    @property
    def position(self) -> float:
        """A number that grows with time; a date without a year lies in year 0."""
        return self.year + max(self.month - 1, 0) / 12 + max(self.day - 1, 0) / 372


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a text: `text[start:end]`."""

    amount: Decimal
    start: int
    end: int
    unit: str = ""
    """"%", or the sign of a currency."""
    scale: Decimal = _ONE
    """Factor of a word such as "thousand" behind the number; `amount` is without it."""
    ordinal: bool = False
    decimals: int = 0
    """Number of figures behind the decimal sign."""
    other: Decimal | None = None
    """The amount if the only separator stands for what it is not taken for: 84,210 may be 84.21."""

    @property
    def value(self) -> Decimal:
        """The amount with its scale."""
        return multiply(self.amount, self.scale)


@dataclass(frozen=True, slots=True)
class CellValue:
    """The values that the text of a cell may stand for."""

    number: Decimal | None = None
    """The number that the text begins with, or its only number."""
    whole: bool = False
    """True if the text is nothing but this number with its unit."""
    second: Decimal | None = None
    """The second number, as in "3–2" and "1998–2003"."""
    day: Day | None = None
    clock: Decimal | None = None
    """Seconds of a time or a duration such as 21:15 or 2:04:37.5."""
    unit: str = ""

    @property
    def position(self) -> float:
        """A number that orders cells of one column: of the date, the time or the number; nan without any."""
        if self.day is not None:
            return self.day.position
        number = self.number if self.clock is None else self.clock
        return math.nan if number is None else float(number)


@lru_cache(maxsize=65_536)
def parse_cell(text: str, style: NumberStyle = UNKNOWN_STYLE) -> CellValue:
    """Parse the text of a cell of a document that writes numbers in a style.

    >>> parse_cell("$ (1,452.4)").number, parse_cell("3 May 2027").day, parse_cell("五十米").number
    (Decimal('-1452.4'), Day(year=2027, month=5, day=3), Decimal('50'))
    >>> parse_cell("1.452,40-").number, parse_cell("12,5 %").number, parse_cell("1.452", NumberStyle(",")).number
    (Decimal('-1452.40'), Decimal('12.5'), Decimal('1452'))
    >>> parse_cell("12 480").number, parse_cell("(1 204,50)").number
    (Decimal('12480'), Decimal('-1204.50'))
    """
    text = strip_deviation(text[:MAX_TEXT].strip())
    if _SPACED.fullmatch(text):
        text = _GROUP_SPACE.sub("\u00a0", text)
    if negative := _TRAILING_MINUS.fullmatch(text):
        text = f"-{negative[1]}"
    day = find_day(text)
    clock = _find_clock(text)
    found = find_quantities(text, words=False, style=style)
    if not found:
        return CellValue(day=day, clock=clock)
    first = found[0]
    before = text[: first.start].strip(" ~≈<>()$€£¥-–−+:#'\"")
    after = text[first.end :].strip(" .*†‡%()$€£¥'\"")
    leads = not before or len(found) == 1
    return CellValue(
        number=first.value if leads and clock is None else None,
        whole=not before and not after and clock is None,
        second=found[1].value if len(found) > 1 else None,
        day=day,
        clock=clock,
        unit=first.unit,
    )


def strip_deviation(text: str) -> str:
    """Return a number without the deviation behind it; any other text as it is.

    >>> strip_deviation("73.2% (1.9%)"), strip_deviation("0.81 ± 0.02"), strip_deviation("(1,234)")
    ('73.2%', '0.81', '(1,234)')
    """
    match = _DEVIATION.fullmatch(text)
    return match["value"].strip() if match else text


_SEASON = re.compile(r"(?<![\d-])((?:19|20)(\d\d))\s?[-–/]\s?(\d\d)(?![\d/.–-])")


def expand_season(text: str) -> str:
    """Write both years of a season or a financial year in full.

    >>> expand_season("1999-00"), expand_season("2004/05"), expand_season("2009-07-12")
    ('1999 2000', '2004 2005', '2009-07-12')
    """
    return _SEASON.sub(_write_years, text)


def _write_years(season: re.Match[str]) -> str:
    first, second = int(season[1]), int(season[1]) + 1
    return f"{first} {second}" if second % 100 == int(season[3]) else season[0]


def find_day(text: str) -> Day | None:
    """Return the first date of a text that has a month or a year written as such.

    >>> find_day("June 4, 1998"), find_day("2024年3月"), find_day("12 angry men")
    (Day(year=1998, month=6, day=4), Day(year=2024, month=3, day=0), None)
    """
    return next((day for day, _, _ in _match_days(text)), None)


def find_days(text: str) -> list[tuple[Day, int, int]]:
    """Return all dates of a text with their ranges, in order; none overlaps another.

    >>> [day for day, _, _ in find_days("from June 4, 1998 to 2009-07-12")]
    [Day(year=1998, month=6, day=4), Day(year=2009, month=7, day=12)]
    """
    found: list[tuple[Day, int, int]] = []
    for day, start, end in _match_days(text):
        if all(end <= first or last <= start for _, first, last in found):
            found.append((day, start, end))
    return sorted(found, key=lambda match: match[1])


def _match_days(text: str) -> Iterator[tuple[Day, int, int]]:
    """Yield the dates of each pattern in turn, the most specific pattern first."""
    for pattern in _DATE_PATTERNS:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            name = parts.get("n")
            month = _MONTHS.index(name[:3].lower()) + 1 if name else int(parts.get("m") or 0)
            day = int(parts.get("d") or 0)
            if month <= 12 and day <= 31:
                yield Day(int(parts.get("y") or 0), month, day), *match.span()


def _find_clock(text: str) -> Decimal | None:
    match = _CLOCK.search(text)
    if match is None:
        return None
    return int(match["h"] or 0) * 3600 + int(match["m"]) * 60 + Decimal(match["s"])


def find_quantities(text: str, *, words: bool = True, style: NumberStyle = UNKNOWN_STYLE) -> list[Quantity]:
    """Return the numbers of a text up to 1e100 in order, those in words too if `words`.

    >>> [int(quantity.value) for quantity in find_quantities("between 1.5 million and two dozen")]
    [1500000, 2, 12]
    """
    found = [_quantity(match, style) for match in _NUMBER.finditer(text)]
    found += _find_numerals(text, {quantity.start for quantity in found})
    if words:
        for match in re.finditer(r"[A-Za-z]+", text):
            word = match.group().lower()
            number = _WORDS.get(word, ORDINALS.get(word))
            if number is not None:
                found.append(Quantity(Decimal(number), *match.span(), ordinal=word in ORDINALS))
    found = [quantity for quantity in found if abs(quantity.value) <= _MAX_NUMBER]
    return sorted(found, key=lambda quantity: quantity.start)


def _quantity(match: re.Match[str], style: NumberStyle) -> Quantity:
    numeral = parse_digits(match["digits"], style) or Numeral("0")
    amount = numeral.value
    before = match.string[match.start() - 1 : match.start()]
    of_range = before.isalnum() or before == ")"
    minus = bool(match["minus"]) or ((match["sign"] or "+") != "+" and not of_range)
    minus = minus or bool(match["close"] and (match["open"] or match["inner"]))
    unit = "%" if match["percent"] else (match["money"] or "").strip()
    name = (match["scale"] or "").lower()
    metres = name in {"m", "k"} and not match["money"]
    scale = _ONE if metres else SCALES.get(name, _ONE)
    end = match.start("scale") if metres else match.end()
    ordinal = match["ordinal"] is not None
    return Quantity(
        amount.copy_negate() if minus else amount,
        match.start(),
        end,
        unit=unit,
        scale=scale,
        ordinal=ordinal,
        decimals=numeral.decimals,
        other=Decimal(numeral.other) if numeral.other else None,
    )


def _find_numerals(text: str, taken: set[int]) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _NUMERAL.finditer(text):
        rank = text[match.start() - 1 : match.start()] == "第"
        if match.start() - 1 in taken or (len(match.group()) == 1 and not (rank or match.group() in "十百")):
            following = text[match.end() : match.end() + 1]
            if match.group() in "万亿千百" or following in "些样般定起种":
                continue
        amount = parse_numeral(match.group())
        if amount is not None:
            found.append(Quantity(Decimal(amount), *match.span(), ordinal=rank))
    return found


def parse_numeral(text: str) -> int | None:
    """Parse a Chinese numeral; None if it is none, or too long.

    >>> parse_numeral("三百二十"), parse_numeral("十五"), parse_numeral("二〇二四"), parse_numeral("两万")
    (320, 15, 2024, 20000)
    """
    if not 0 < len(text) <= _MAX_NUMERAL_CHARS or _NUMERAL.fullmatch(text) is None:
        return None
    if all(digit in _DIGITS for digit in text):
        return int("".join(str(_DIGITS[digit]) for digit in text))
    total = section = digit = 0
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _PLACES:
            section += (digit or 1) * _PLACES[character]
            digit = 0
        else:
            total = (total + section + digit) * (10_000 if character == "万" else 100_000_000)
            section = digit = 0
    return total + section + digit


def format_number(value: Decimal, like: Sequence[str], style: NumberStyle = UNKNOWN_STYLE) -> str:
    """Write a computed number the way the texts write theirs: separators, decimals, currency, percent.

    >>> format_number(Decimal("-1500.26"), ["$1,000.5", "$2,000.4"]), format_number(Decimal("0.3333"), ["1", "2"])
    ('-$1,500.3', '0.33')
    >>> format_number(Decimal("-1500.26"), ["1.000,5", "2.000,4"])
    '-1.500,3'
    """
    numerals = [
        found for text in like for match in _FIGURES.findall(text) if (found := parse_digits(match, style))
    ]
    decimals = max((numeral.decimals for numeral in numerals), default=0)
    if value != round(value) and decimals == 0:
        decimals = 1 if abs(value) >= 100 else 2
    comma = style.decimal_sign == "," or any(numeral.decimal_sign == "," for numeral in numerals)
    sign, separator = (",", ".") if comma else (".", ",")
    thousands = separator if not like or any(separator in text for text in like) else ""
    currency = next((match[0] for text in like for match in [re.search(r"US\$|[$€£¥]", text)] if match), "")
    percent = "%" if like and all("%" in text for text in like) else ""
    figures = write_figures(value, min(decimals, 6), thousands, sign)
    minus = "-" if value < 0 and any(digit in "123456789" for digit in figures) else ""
    return f"{minus}{currency}{figures}{percent}"
