"""Kinds of text in cells: numbers, years, entries of lists and contents pages.

They say how a cell looks, whatever its value is: a cell of its own may hold a dash, marks of footnotes, units
and a space between thousands, of which the values of `table_answers` and of running text know less.
"""

from __future__ import annotations

import re

from vrag.text.numerals import DIGITS

CJK_NUMERALS = "一二三四五六七八九十百千万亿"
_NOTE = r"(?:\s?(?:\*{1,3}|[†‡§]+|\([a-z0-9]\)|\[[a-z0-9]{1,2}\]|[¹²³⁴-⁹]+))*"
_CURRENCY = r"€|\$|£|¥|EUR|USD|GBP|CHF|NOK|SEK|DKK|PLN|CZK|[kK]r|zł|Kč"
"""What stands behind an amount in much of Europe."""
_UNIT = (
    rf"(?:{_CURRENCY}|%|‰|x|×|bps?|pts?|pp|[kKmMbBgGtT]n?|[kMGT]B|[mck]?m|kg|°C|ms|s|h"
    r"|万|亿|元|年|月|日|个|人|倍)?"
)
_SIGN = r"[-+–—−±~≈<>≤≥]?\s?"
_MONEY = r"(?:(?:US|C|A|HK|NZ|R)?[$€£¥₹]|RMB|USD|EUR|GBP|￥)?\s?"
_FIGURE = rf"(?:\d{{1,3}}(?: \d{{3}})+(?:[.,]\d+)?|{DIGITS})"
"""Figures; in a cell of its own, a space may part thousands."""
_NUMBER = re.compile(
    rf"\(?{_SIGN}{_MONEY}{_SIGN}\(?{_FIGURE}\s?{_UNIT}\)?\s?{_UNIT}(?:\s?[-–/:±]\s?{_FIGURE}\s?{_UNIT})?\)?"
    rf"(?:\s\({_FIGURE}\s?{_UNIT}\))?{_NOTE}"
)
_BLANK = re.compile(r"[$€£¥\s]*(?:[-–—−]+|n/?a\.?|N/?A|NM|nm|[Nn]il|\*|[†‡]|·|\.\.\.?|…)\s?%?\)?|\$")
_YEAR = re.compile(
    r"(?:FY|CY|H[12]|Q[1-4])?\s?(?:19|20)\d\d(?:[-–/]\d\d(?:\d\d)?)?[AEFP年]?|(?:FY|')\d\d|[1-4]Q\d\d"
)
_RANGE = re.compile(rf"{_MONEY}{_FIGURE}{_UNIT}\s?[-–—]\s?{_MONEY}{_FIGURE}\s?{_UNIT}")
_MARKER = re.compile(
    r"[•‣▪◦●○■□➢➤✓·–—\-*o»>§]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z][.)]|\(?[ivxIVX]{1,4}[.)]|[0-9]+(?:[.][0-9]+)+|步骤\d+"
)
_CODE = re.compile(
    r"^[•‣▪◦●○■□➢➤▸►–]\s?\w|^>>>|^\.\.\.$|\w\(\w*[=(\[)]|^[\])}]+,?$|\w+_\w+|^(?:import|from|def|class|return)\s\w|"
    r"\w\[\w+|[\[{(]\s?['\"]|[a-z]\.[a-z]+\.[a-z]|^#\s|=\s?\w+\(|[;{}]$"
)
_MONTH = r"[^\W\d_]{3,9}\.?"
_DATE = re.compile(
    rf"\d{{1,2}}[.\s-]\s?(?:\d{{1,2}}|{_MONTH})[.\s-]\s?\d{{2,4}}|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}|\d{{4}}-\d\d-\d\d"
    rf"|{_MONTH}\s\d{{1,2}},\s\d{{4}}"
)
_WORDS = re.compile(r"[^\W\d_]{2,}")


def is_number(text: str) -> bool:
    """Return whether a cell holds one number, with its sign, unit and footnote marks, or a dash for none.

    >>> [is_number(text) for text in ("(1,234)", "$ 12.5 %", "84,210¹", "–", "12,50 €", "Q3", "1 of 2")]
    [True, True, True, True, True, False, False]
    """
    text = text.strip()
    return len(text) < 40 and bool(_NUMBER.fullmatch(text) or _BLANK.fullmatch(text))


def is_date(text: str) -> bool:
    """Return whether a cell holds one date of a day.

    >>> [is_date(text) for text in ("14 March 2019", "3.6.2023", "2024-05-01", "May 2, 2025", "2019")]
    [True, True, True, True, False]
    """
    text = text.strip()
    return len(text) < 24 and _DATE.fullmatch(text) is not None


def begins_with_number(text: str) -> bool:
    """Return whether a text is a number, or a number and a remark.

    >>> [begins_with_number(text) for text in ("66.4% (0.8%)", "$ 12", "Table 3")]
    [True, True, False]
    """
    return is_number(text) or _NUMBER.match(text.strip()) is not None


def is_year(text: str) -> bool:
    """Return whether a text is a year or a period of one.

    >>> [is_year(text) for text in ("2023", "FY 2019", "2019/20", "Q3 2021", "1850", "20,230")]
    [True, True, True, True, False, False]
    """
    return len(text) < 16 and _YEAR.fullmatch(text.strip()) is not None


def is_range(text: str) -> bool:
    """Return whether a text is a range of numbers, as heads of rows are.

    >>> [is_range(text) for text in ("1 – 5000", "20-29", "$30,000-$49,999", "-5", "5")]
    [True, True, True, False, False]
    """
    return _RANGE.fullmatch(text.strip()) is not None


def is_list_marker(text: str) -> bool:
    """Return whether a text is what stands before an entry of a list.

    >>> [is_list_marker(text) for text in ("•", "1.", "(a)", "iv)", "2.1.3", "Item", "12")]
    [True, True, True, True, True, False, False]
    """
    return len(text) < 12 and _MARKER.fullmatch(text.strip()) is not None


def is_code(text: str) -> bool:
    """Return whether a text looks like a line of program code, or begins with a bullet.

    >>> [is_code(text) for text in ("x = f(1)", ">>> import os", "• Fill the tank", "Net (loss)", "p = 0.05")]
    [True, True, True, False, False]
    """
    return _CODE.search(text) is not None


def count_words(text: str) -> int:
    """Return the number of words of letters; a script without spaces counts two characters as one."""
    return sum(1 if match[0].isascii() else max(1, len(match[0]) // 2) for match in _WORDS.finditer(text))
