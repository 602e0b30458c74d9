"""Values that are read whole: dates, amounts, powers, codes, telephone numbers, addresses."""

from __future__ import annotations

import re

from vrag.reading.questions.answer_types import AnswerKind
from vrag.reading.spans.span_types import MONTHS
from vrag.text.signs import SUPERSCRIPTS

_REACH = 60
"""Characters before and after a span that may belong to its value."""
AMOUNT = r"""\d[\d.,\u00a0\u202f]*\d|\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve
    |thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b"""
"""An amount in figures or words."""
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s<>\"'，。）)]+[^\s<>\"'，。）).,;:]"
)
_DATE = re.compile(
    rf"""(?<!\d)\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{MONTHS}\b\.?(?:,?\s\d{{4}})?
    | \b{MONTHS}\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}})? | \b{MONTHS}\b\.?,?\s\d{{4}}
    | \d{{4}}\s?年\s?\d{{1,2}}\s?月(?:\s?\d{{1,2}}\s?[日号])? | \d{{1,2}}\s?月\s?\d{{1,2}}\s?[日号]
    | \b\d{{4}}-\d\d-\d\d\b | \b(?:19|20)\d\d-(?:0[1-9]|1[0-2])\b(?!-)
    | \b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_POWER = re.compile(
    rf"""(?:\d[\d.,]*\s?[×x·∙⋅*]\s?)?(?<![\d.,])10\s?[{SUPERSCRIPTS}]+
    | (?<![\w.,])\d+[{SUPERSCRIPTS}]+ (?!\w) | (?<![\w.,])2\s[{SUPERSCRIPTS}]{{2,}} (?!\w)""",
    re.VERBOSE,
)
"""A power, with or without a factor: 3.2 × 10 ⁶, 2 ¹⁶; one figure behind 2 may be the mark of a note."""
_CODE_GROUP = r"(?:[A-Z]{1,5}|[A-Z]{0,3}\d[A-Z\d]*)"
_CODE = re.compile(
    rf"(?<![\w/-]) (?=[\w/.-]*\d) {_CODE_GROUP} (?:[-/.]{_CODE_GROUP})+ (?![\w-]|[/.]\w)",
    re.VERBOSE | re.ASCII,
)
"""Groups of capitals and figures, as in numbers of policies, berths and parts: HM-552-9071, 17-C."""
_PHONE = re.compile(
    r"(?<![\w.,:+-])(?:\+\d{1,3}|\(?0\d{1,5}\)?)(?:[ /.-]{1,2}\d{2,})+(?:-\d)?(?![\w]|[.,:]\d)", re.ASCII
)
"""A telephone number: groups of figures behind a plus sign or a zero; the last may be an extension."""
_LETTERED = re.compile(r"(?<![\w.,])\d{1,4}[ \u00a0][A-Za-z](?=[.,;)\n]|$)", re.MULTILINE)
"""A number with a letter at the end of a clause: house 14 b."""
_SCALE = r"(?:thousand|million|billion|trillion|千|万|百万|亿|億)"
_UNIT = rf"""(?:{_SCALE}\s?)?(?:%|％|per\ cent|percent|€|£|¥|dollars?|euros?|pounds?|cents?|yen|[美日欧]?元|円
    |°\ ?[CF]|km/h|mph|knots?|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|kg|kilograms?|tons?|tonnes?
    |grams?|hectares?|acres?|litres?|liters?|kWh|MWh|GWh|MW|GW|kW|公里|米|吨|公斤)"""
_QUANTITY = re.compile(
    rf"(?:(?:US\$|[$€£¥])\s?)?(?:{AMOUNT})(?:\s?{_UNIT}(?!\w)|\s{_SCALE}\b)?", re.IGNORECASE | re.VERBOSE
)
_FRACTION = r"(?:\d{1,2}[/⁄]\d{1,2}(?![\w/])|[½⅓⅔¼¾⅛⅜⅝⅞])"
_WHOLE_BEFORE = re.compile(r"(?<![\w.,/])\d{1,4}\s?\Z")
_BEGIN_OF_FRACTION = re.compile(_FRACTION)
_MIXED = re.compile(
    rf"(?<![\w.,/])\d{{1,4}}\s?{_FRACTION}(?:\s?(?:inch(?:es)?|{_UNIT})(?!\w))?", re.IGNORECASE | re.VERBOSE
)
"""A whole number with a fraction: 5 3/8 inches."""
_PRICE = re.compile(rf"(?:{AMOUNT})\s[^\W\d_]{{3,}}s\b", re.IGNORECASE | re.VERBOSE)
"""An amount in a currency of any name, such as 12 crowns."""


TWO_NUMBERS = re.compile(r"\d[\d.,]*\s+(?=\d(?!\d\d(?!\d)))(?!\d{1,2}[/⁄]\d)")
"""Numbers that only stand beside each other, such as 3 2015; 10 000 and 5 3/8 are one."""


def skip_neighbour(text: str, start: int, end: int) -> int:
    """Return where a range begins without a number that only stands before another, such as a footnote mark.

    >>> text = "4 11.8 cents per kilowatt hour"
    >>> text[skip_neighbour(text, 0, 6) : 6]
    '11.8'
    """
    mark = TWO_NUMBERS.match(text, start, end)
    return mark.end() if mark else start


def complete_value(text: str, start: int, end: int, kind: AnswerKind) -> tuple[int, int]:
    """Return the range of the whole value that a range of a text cuts; any other range as it is.

    A date is completed unless a year or a time is asked for.

    >>> text = "It sails on 3 May 2027 and costs 12 crowns."
    >>> [text[slice(*complete_value(text, text.index(cut), text.index(cut) + len(cut), kind))]
    ...  for cut, kind in (("2027", AnswerKind.DATE), ("2027", AnswerKind.YEAR), ("12", AnswerKind.MONEY))]
    ['3 May 2027', '2027', '12 crowns']
    """
    patterns = [_ADDRESS, _POWER, _MIXED, _QUANTITY]
    if kind is not AnswerKind.YEAR:
        patterns[2:2] = [_PHONE, _CODE, _LETTERED]
    if kind is AnswerKind.DATE:
        patterns.insert(0, _DATE)
    if kind is AnswerKind.MONEY:
        patterns.insert(0, _PRICE)
    begin = max(start - _REACH, 0)
    if _BEGIN_OF_FRACTION.match(text, start) and (whole := _WHOLE_BEFORE.search(text, begin, start)):
        start = whole.start()
    for pattern in patterns:
        for match in pattern.finditer(text, begin, end + _REACH):
            first, last = match.span()
            if pattern is _CODE and not _is_code(match[0]):
                continue
            if first <= start and end <= last and last - first > end - start:
                return first, last
    return start, end


def _is_code(text: str) -> bool:
    """Return whether groups are a code: with letters, or three groups of figures and more.

    Two groups of figures are a range, a day or a fraction; behind points, figures are a number.
    """
    has_letters = any(letter.isalpha() for letter in text)
    return has_letters or len(re.split("[-/]", text)) > 2
