"""Numbers as they are written in figures, with the separators of several countries.

Thousands are parted by a comma, a point, an apostrophe or a narrow or fixed space, decimals by a point or a
comma: 1,234.5 and 1.234,5 and 1 234,5 and 1'234.50 and 12,34,567. Where one sign could be either, the
figures after it decide: 1,234 is one thousand two hundred and 3,5 is three and a half; 84.210 is read as a
decimal, and tells what it is otherwise. Signs, units and words of scale stand outside of the figures.
"""

from __future__ import annotations

import re
from decimal import Decimal
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
        rf"{_ALONE}(?:\d+,\d{{1,2}}|\d{{4,}},\d{{3}}|0,\d{{3}}|\d+,(?!{_YEAR})\d{{4,}}){_END}",
        rf"\d+(?:{_POINT}\d+)?",
        r"(?<!\w)\.\d+)",
    )
)
"""The figures of a number with its separators, for a regular expression, one that is verbose too."""
_DIGITS = re.compile(DIGITS)
_BLANKS = re.compile(_BLANK)
_ONE_GROUP = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")


class Numeral(NamedTuple):
    """The figures of a number without its separators."""

    digits: str
    """The figures as written, with a point before decimals: "1234.50"."""
    grouped: str = ""
    """The figures if the only point is a separator of thousands; empty where it cannot be one."""
    decimal_sign: str = ""
    """The sign before the decimals, a point or a comma; empty without decimals."""

    @property
    def value(self) -> Decimal:
        """The number."""
        return Decimal(self.digits)

    @property
    def decimals(self) -> int:
        """Number of figures behind the decimal sign."""
        return len(self.digits.partition(".")[2])


def parse_digits(text: str) -> Numeral | None:
    r"""Parse the figures of a number, without sign and unit; None for any other text.

    >>> [parse_digits(text).digits for text in ("1,234.50", "1.234,50", "1\u202f234,5", "3,5", "12,34,567")]
    ['1234.50', '1234.50', '1234.5', '3.5', '1234567']
    >>> parse_digits("84.210"), parse_digits("2.18.0")
    (Numeral(digits='84.210', grouped='84210', decimal_sign='.'), None)
    """
    if _DIGITS.fullmatch(text) is None:
        return None
    plain = fold(_BLANKS.sub("", text))
    sign = _find_decimal_sign(plain)
    whole, _, decimals = plain.rpartition(sign) if sign else (plain, "", "")
    whole = whole.replace(",", "").replace(".", "")
    grouped = whole + decimals if sign == "." and _ONE_GROUP.fullmatch(plain) else ""
    return Numeral(f"{whole}.{decimals}" if sign else whole, grouped, sign)


def _find_decimal_sign(plain: str) -> str:
    """Return the sign before the decimals of figures that are parted by points and commas; empty for none."""
    commas, points = plain.count(","), plain.count(".")
    if commas and points:
        return max(",.", key=plain.rfind)
    if commas + points != 1:
        return ""
    is_group = commas and _ONE_GROUP.fullmatch(plain)
    return "" if is_group else "," if commas else "."
