"""Numbers as they are written in figures, with the separators of several countries.

Thousands are parted by a comma, a point, an apostrophe or a narrow or fixed space, decimals by a point or a
comma: 1,234.5 and 1.234,5 and 1 234,5 and 1'234.50 and 12,34,567. A common space parts thousands where
decimals with a comma follow, else only in a cell of its own. Where one sign could be either, the way in
which the document writes its other numbers decides (`find_number_style`); without any, the figures after it:
1,234 is one thousand two hundred and 3,5 is three and a half; 84.210 is read as a decimal, and tells what it
is otherwise. Signs, units and words of scale stand outside of the figures. Numbers of documents are decimal:
the sum of 0.1 and 0.2 is 0.3, and a written number has as many decimals as are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from vrag.text.folding import fold

_COMMA, _POINT, _BLANK = "[,٬]", "[.٫]", "['’\u00a0\u2009\u202f]"
_LEADING = "(?![0٠۰])\\d"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_ADDRESS = rf"(?:{_BYTE}\.){{3}}{_BYTE}(?![\d,])"
"""An address of the internet."""
_YEAR = r"(?:1[5-9]|20)\d\d(?!\d)"
_ALONE = r"(?<![\d,.\[])(?<!\w\()"
"""Before a number with a decimal comma: it is no part of a list or a call, nor a reference in brackets."""
_END = r"(?!\d|[.,]\d|\])"
DIGITS = "|".join(
    (
        r"(?:\d{1,2}(?:,\d\d)+,\d{3}(?!\d)(?:\.\d+)?",  # 12,34,567.8
        rf"{_LEADING}\d{{0,2}}(?:{_COMMA}\d{{3}})+(?!\d)(?:{_POINT}\d+)?",
        rf"(?!{_ADDRESS}){_LEADING}\d{{0,2}}(?:\.\d{{3}})+(?:,\d+|(?<=\.\d{{3}}\.\d{{3}})){_END}",
        rf"\d{{1,3}}(?:{_BLANK}\d{{3}})+(?!\d)(?:[.,]\d+)?",
        r"(?<![\d.,])(?<!\d[ ])\d{1,3}(?:[ ]\d{3})+,\d{1,2}(?![\d.,])",  # 12 480,75
        rf"{_ALONE}(?:\d+,\d{{1,2}}|\d{{4,}},\d{{3}}|0,\d{{3}}|\d+,(?!{_YEAR})\d{{4,}}){_END}",
        rf"\d+(?:{_POINT}\d+)?",
        r"(?<!\w)\.\d+)",
    )
)
"""The figures of a number with its separators, for a regular expression, one that is verbose too."""
_DIGITS = re.compile(DIGITS)
_BLANKS = re.compile(f"{_BLANK}| ")
_ONE_GROUP = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_FREE_DIGITS = re.compile(rf"(?<![\w.,])(?:{DIGITS})(?!\w|[.,]\d)")
"""Figures that are no part of a date, an address or a code."""
SURE_VOTES = 3
"""Votes of a number that can be read in one way only, such as 1.234,50."""
MIN_VOTES = 2
"""Votes for a decimal sign without which a document does not tell which one it uses."""
MIN_SHARE = 3
"""How many times more votes the decimal sign has than the other: sections and times have points too."""
MIN_GROUPS = 3
"""Different numbers such as 1.204 that part thousands by points, where no other number has a point."""
_EXACT = Context(prec=600, rounding=ROUND_HALF_UP)
"""Enough digits for sums of all numbers that are read."""
_QUOTIENT = Context(prec=50, rounding=ROUND_HALF_UP)


class NumberStyle(NamedTuple):
    """The way in which a document writes numbers."""

    decimal_sign: str = ""
    """The sign before decimals, a point or a comma; empty where its numbers do not tell."""


UNKNOWN_STYLE = NumberStyle()
"""That of a text without any number that tells."""


class Numeral(NamedTuple):
    """The figures of a number without its separators."""

    digits: str
    """The figures as written, with a point before decimals: "1234.50"."""
    grouped: str = ""
    """The figures if the only point is a separator of thousands; empty where it cannot be one."""
    decimal_sign: str = ""
    """The sign before the decimals, a point or a comma; empty without decimals."""
    other: str = ""
    """The figures if the only sign stands for what it is not taken for; empty where the document tells."""

    @property
    def value(self) -> Decimal:
        """The number."""
        return Decimal(self.digits)

    @property
    def decimals(self) -> int:
        """Number of figures behind the decimal sign."""
        return len(self.digits.partition(".")[2])


def parse_digits(text: str, style: NumberStyle = UNKNOWN_STYLE) -> Numeral | None:
    r"""Parse the figures of a number, without sign and unit; None for any other text.

    `style` decides where a sign may stand before decimals or part thousands.

    >>> [parse_digits(text).digits for text in ("1,234.50", "1.234,50", "1\u202f234,5", "3,5", "12,34,567")]
    ['1234.50', '1234.50', '1234.5', '3.5', '1234567']
    >>> parse_digits("84.210"), parse_digits("2.18.0")
    (Numeral(digits='84.210', grouped='84210', decimal_sign='.', other='84210'), None)
    >>> [parse_digits(text, NumberStyle(",")).digits for text in ("84.210", "1,234", "1.234.567")]
    ['84210', '1.234', '1234567']
    """
    if _DIGITS.fullmatch(text) is None:
        return None
    plain = fold(_BLANKS.sub("", text))
    sign = _find_decimal_sign(plain, style)
    whole, _, decimals = plain.rpartition(sign) if sign else (plain, "", "")
    whole = whole.replace(",", "").replace(".", "")
    grouped = whole + decimals if sign == "." and _ONE_GROUP.fullmatch(plain) else ""
    other = plain.replace(",", "" if sign == "," else ".").replace(".", "" if sign == "." else ".")
    is_open = not style.decimal_sign and _ONE_GROUP.fullmatch(plain) is not None
    return Numeral(f"{whole}.{decimals}" if sign else whole, grouped, sign, other if is_open else "")


def _find_decimal_sign(plain: str, style: NumberStyle) -> str:
    """Return the sign before the decimals of figures that are parted by points and commas; empty for none."""
    commas, points = plain.count(","), plain.count(".")
    if commas and points:
        return max(",.", key=plain.rfind)
    if commas + points != 1:
        return ""
    sign = "," if commas else "."
    if style.decimal_sign and _ONE_GROUP.fullmatch(plain):
        return sign if sign == style.decimal_sign else ""
    is_group = commas and _ONE_GROUP.fullmatch(plain)
    return "" if is_group else sign


def find_number_style(texts: Iterable[str]) -> NumberStyle:
    """Return how some texts of one document write numbers, by the numbers that can be read in one way only.

    >>> find_number_style(["1.204,50 and 84.210"]), find_number_style(["1.5 of 84,210 in 2.2"])
    (NumberStyle(decimal_sign=','), NumberStyle(decimal_sign='.'))
    >>> find_number_style(["1.204, 12.480, 987 and 1.050"]), find_number_style(["84.210 in 2023"])
    (NumberStyle(decimal_sign=','), NumberStyle(decimal_sign=''))
    """
    votes: Counter[str] = Counter()
    for text in texts:
        votes.update(_count_votes(text))
    for sign, other in ((",", "."), (".", ",")):
        if votes[sign] >= max(MIN_VOTES, MIN_SHARE * votes[other]):
            return NumberStyle(sign)
    has_groups = votes["groups"] >= MIN_GROUPS and votes["hundreds"] and not votes["thousands"]
    return NumberStyle("," if has_groups and not votes["."] else "")


def is_ambiguous(text: str) -> bool:
    """Return whether a text has a number that `NumberStyle` decides about.

    >>> is_ambiguous("84.210 tonnes"), is_ambiguous("84,210.5 and 12.5")
    (True, False)
    """
    return any(_ONE_GROUP.fullmatch(match[0]) for match in _FREE_DIGITS.finditer(text))


@lru_cache(maxsize=1024)
def _count_votes(text: str) -> Counter[str]:
    """Count for each sign the numbers in which it stands before decimals, and numbers without such a sign."""
    votes: Counter[str] = Counter()
    groups: set[str] = set()
    for match in _FREE_DIGITS.finditer(text):
        figures = match[0]
        commas, points = figures.count(","), figures.count(".")
        if commas and points:
            votes[max(",.", key=figures.rfind)] += SURE_VOTES
        elif max(commas, points) > 1:
            votes["." if commas else ","] += SURE_VOTES
        elif _ONE_GROUP.fullmatch(figures):
            groups.update([figures] if points else [])
            votes["."] += commas
        elif commas or points:
            votes["," if commas else "."] += 1
        elif figures.isascii() and figures.isdecimal():
            votes["hundreds"] += len(figures) == 3
            votes["thousands"] += len(figures) > 3 and not 1900 <= int(figures[:8]) <= 2100
    votes["groups"] = len(groups)
    return votes


def add(numbers: Iterable[Decimal]) -> Decimal:
    """Return an exact sum.

    >>> add([Decimal("0.1"), Decimal("0.2"), Decimal("1204.50")])
    Decimal('1204.80')
    """
    total = Decimal(0)
    for number in numbers:
        total = _EXACT.add(total, number)
    return total


def subtract(number: Decimal, other: Decimal) -> Decimal:
    """Return an exact difference."""
    return _EXACT.subtract(number, other)


def multiply(number: Decimal, by: Decimal) -> Decimal:
    """Return an exact product."""
    return _EXACT.multiply(number, by)


def divide(number: Decimal, by: Decimal) -> Decimal:
    """Return a quotient with 50 digits. `by` is not 0."""
    return _QUOTIENT.divide(number, by)


def strip_zeros(number: Decimal) -> Decimal:
    """Return a number without the zeros at its end.

    >>> strip_zeros(Decimal("12.50")), strip_zeros(Decimal(1200))
    (Decimal('12.5'), Decimal('1.2E+3'))
    """
    return _EXACT.normalize(number)


def is_rounding_of(written: Decimal, exact: Decimal, step: Decimal) -> bool:
    """Return whether a number is another one rounded, up or down where both are as near, to a step.

    >>> is_rounding_of(Decimal("46.3e9"), Decimal("46298e6"), Decimal("0.1e9"))
    True
    >>> is_rounding_of(Decimal("46.4e9"), Decimal("46298e6"), Decimal("0.1e9"))
    False
    """
    difference = subtract(written, exact).copy_abs()
    return add([difference, difference]) <= step


def write_figures(number: Decimal, decimals: int, thousands: str = ",", decimal_sign: str = ".") -> str:
    """Write a number without its sign, rounded half away from zero, with its separators.

    >>> write_figures(Decimal("-1204.505"), 2), write_figures(Decimal("1204.5"), 2, ".", ",")
    ('1,204.51', '1.204,50')
    """
    rounded = number.copy_abs().quantize(Decimal(1).scaleb(-decimals), context=_EXACT)
    return f"{rounded:,f}".translate(str.maketrans({",": thousands, ".": decimal_sign}))


def count(value: int, noun: str) -> str:
    """Format a count with its noun.

    >>> count(1, "step"), count(2, "search")
    ('1 step', '2 searches')
    """
    plural = "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{value:,} {noun}{'' if value == 1 else plural}"
