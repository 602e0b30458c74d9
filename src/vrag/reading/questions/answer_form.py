"""The form that a question asks for: "answer in int format", "round to two decimals", "as YYYY-MM-DD"."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.table_answers.values import find_day
from vrag.text.numerals import DIGITS, parse_digits, write_figures

_COUNT_WORDS = {"no": 0, "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_DECIMALS = re.compile(
    rf"\b(?P<count>\d|{'|'.join(_COUNT_WORDS)})\s+(?:decimals?|digits? after)\b", re.IGNORECASE
)
_INTEGER = re.compile(
    r"""\b(?:int(?:eger)?\ format | (?:an?|as|the)\ (?:\w+\ )?integer | integer\ (?:answer|value|number)
    | whole\ number)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_SCALE = re.compile(
    r"\b(?:answer|express\w*|give|write|return|report\w*)\b[^.?!]*\bin (thousand|million|billion)s?\b",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"\b(?:list format|(?:as|in|with) a (?:python )?list\b(?! of)|formatted as a list|format of a list)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b(?:Y{4}[-/.]M{2}(?:[-/.]D{2})?|[DM]{2}[-/.][DM]{2}[-/.]Y{4})\b", re.IGNORECASE)
_SCALE_WORD = re.compile(r"\b(thousand|million|billion)s?\b", re.IGNORECASE)
_NUMBER = re.compile(rf"(?P<sign>[-−(]?)\s?(?P<digits>{DIGITS})")
_SEPARATOR = re.compile(r"\s*(?:,\s(?:and|or)\s|,\s|;\s|、|，|\s(?:and|or|&)\s|和)\s*")
_AMOUNTS = frozenset(
    {SpanType.NUMBER, SpanType.QUANTITY, SpanType.MONEY, SpanType.PERCENT, SpanType.DURATION, SpanType.YEAR}
)
_POWERS = {"thousand": 3, "million": 6, "billion": 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The form in which an answer is wanted. Without any instruction, as the document writes it."""

    decimals: int | None = None
    """Digits after the point; 0 for an integer."""
    plain: bool = False
    """True if a bare number is wanted, without currency and thousands separators."""
    scale: str = ""
    """"thousand", "million" or "billion"."""
    date: str = ""
    """A pattern such as `YYYY-MM-DD`."""
    items: bool = False
    """True if a JSON list is wanted."""


def read_form(question: str) -> AnswerForm:
    """Read the instructions for the form of the answer.

    >>> read_form("What did it cost? Answer in million, round to two decimals.").scale
    'million'
    """
    decimals = _DECIMALS.search(question)
    integer = _INTEGER.search(question) is not None
    scale = _SCALE.search(question)
    wanted_date = _DATE.search(question)
    digits = None
    if decimals:
        count = decimals["count"].casefold()
        digits = _COUNT_WORDS[count] if count in _COUNT_WORDS else int(count)
    return AnswerForm(
        decimals=0 if integer else digits,
        plain=integer or scale is not None,
        scale=scale[1].casefold() if scale else "",
        date=wanted_date[0].upper() if wanted_date else "",
        items=_LIST.search(question) is not None,
    )


def write_answer(text: str, form: AnswerForm, *, number: Decimal | None = None, scale: str = "") -> str:
    """Write an answer in the form that is wanted; as it is where it cannot be.

    `number` is the unrounded value of a computed answer; `scale` is that of the table, "thousand", "million",
    "billion" or empty where it is not known.

    >>> write_answer("$ 1,874", AnswerForm(plain=True))
    '1874'
    >>> write_answer("14 March 2020", AnswerForm(date="YYYY-MM"))
    '2020-03'
    """
    if form.date:
        return _write_date(text, form.date)
    if form.items and not text.startswith("["):
        items = [item for item in _SEPARATOR.split(text) if item]
        return json.dumps(items, ensure_ascii=False)
    if form.plain or form.decimals is not None:
        return _write_number(text, form, number, scale)
    return text


def _write_date(text: str, pattern: str) -> str:
    day = find_day(text)
    if day is None or not day.year or not day.month or ("DD" in pattern and not day.day):
        return text
    try:
        whole = date(day.year, day.month, day.day or 1)
    except ValueError:
        return text
    parts = {"YYYY": f"{whole.year:04}", "MM": f"{whole.month:02}", "DD": f"{whole.day:02}"}
    for name, digits in parts.items():
        pattern = pattern.replace(name, digits)
    return pattern


def _write_number(text: str, form: AnswerForm, number: Decimal | None, scale: str) -> str:
    """Write an amount; a text with words around it stays as it is."""
    found = list(_NUMBER.finditer(text))
    numeral = parse_digits(found[0]["digits"]) if len(found) == 1 else None
    if numeral is None or type_of_span(text.strip("()+-−~ ")) not in _AMOUNTS:
        return text
    if named := _SCALE_WORD.search(text):
        scale = named[1].casefold()
    value = numeral.value if number is None else number.copy_abs()
    places = form.decimals
    if form.scale and scale in _POWERS and scale != form.scale:
        value = value.scaleb(_POWERS[scale] - _POWERS[form.scale])
    elif places is None:
        places = numeral.decimals
    sign = "-" if found[0]["sign"] else ""
    written = f"{value.normalize():f}" if places is None else write_figures(value, places, "")
    percent = "%" if "%" in text and not form.plain else ""
    return f"{sign}{written}{percent}"
