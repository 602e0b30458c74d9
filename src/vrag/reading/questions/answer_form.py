"""The form that a question asks for: "answer in int format", "round to two decimals", "as YYYY-MM-DD"."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import NamedTuple, cast

from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.table_answers.scales import CellMeasure, name_currency
from vrag.reading.table_answers.values import find_day, parse_cell
from vrag.text.numerals import DIGITS, UNKNOWN_STYLE, NumberStyle, parse_digits, strip_zeros, write_figures

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
_MEASURE = re.compile(
    r"""\bin\s(?:(?:(?P<scale>thousand|million|billion)s?\s(?:of\s)?)?
    (?P<currency>euros?|EUR|(?:US\s)?dollars?|USD|US\$|pounds?|GBP|[$€£])(?!\w)|(?P<alone>thousand|million|billion)s\b)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The scale or the currency that an amount is asked for in; the plural alone is one: "in thousands"."""
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
POWERS = {"thousand": 3, "million": 6, "billion": 9}
"""The powers of ten of the scales."""


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
    measure: CellMeasure | None = None
    """The scale and the currency of "in million euros"; None without any such words."""


def read_form(question: str) -> AnswerForm:
    """Read the instructions for the form of the answer.

    >>> read_form("What did it cost? Answer in million, round to two decimals.").scale
    'million'
    """
    decimals = _DECIMALS.search(question)
    integer = _INTEGER.search(question) is not None
    scale = _SCALE.search(question)
    wanted_date, measure = _DATE.search(question), _MEASURE.search(question)
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
        measure=_read_measure(measure) if measure else None,
    )


def _read_measure(match: re.Match[str]) -> CellMeasure:
    return CellMeasure((match["scale"] or match["alone"] or "").lower(), match["currency"] or "")


class MeasuredAnswer(NamedTuple):
    """An answer with its scale and unit."""

    text: str
    measure: str = ""
    """What is to be said behind it, such as "(in thousands of euros)"."""
    arithmetic: str = ""
    """How it was brought to another scale; empty where it was not."""


def measure_answer(
    text: str,
    form: AnswerForm,
    measure: CellMeasure,
    *,
    number: Decimal | None = None,
    style: NumberStyle = UNKNOWN_STYLE,
) -> MeasuredAnswer:
    """Return a number in the scale that a question asks for, or as it is, with its own.

    It is brought to another scale only where the document states its own, and never to another currency.

    >>> asked = read_form("What were the sales in euros?")
    >>> measure_answer("9,180", asked, CellMeasure("thousand", "EUR"))
    MeasuredAnswer(text='9,180,000 euros', measure='', arithmetic='9,180 × 1,000 = 9,180,000 euros')
    >>> measure_answer("9,180", read_form("What were the sales?"), CellMeasure("thousand", "EUR")).measure
    '(in thousands of EUR)'
    """
    if form.plain or form.decimals is not None or form.date or form.items:
        return MeasuredAnswer(text)
    asked = form.measure
    if asked is None or not _can_convert(asked, measure):
        return MeasuredAnswer(text, measure.text)
    wanted = " ".join(filter(None, (asked.scale, asked.unit or measure.unit)))
    step = POWERS.get(measure.scale, 0) - POWERS.get(asked.scale, 0)
    if not step:
        return MeasuredAnswer(f"{text} {wanted}")
    exact = parse_cell(text, style).number if number is None else number
    if exact is None:
        return MeasuredAnswer(text, measure.text)
    written = _write_exactly(exact.scaleb(step), style)
    factor = f"{'×' if step > 0 else '÷'} {10 ** abs(step):,}"
    return MeasuredAnswer(f"{written} {wanted}", arithmetic=f"{text} {factor} = {written} {wanted}")


def _can_convert(asked: CellMeasure, measure: CellMeasure) -> bool:
    """Return whether an answer can be written in a scale: the document states its own, in that currency."""
    if not measure.scale:
        return False
    return not (asked.unit and measure.unit) or name_currency(asked.unit) == name_currency(measure.unit)


def _write_exactly(number: Decimal, style: NumberStyle) -> str:
    """Write a number with all its decimals."""
    decimals = -cast("int", strip_zeros(number).as_tuple().exponent)
    sign, thousands = (",", ".") if style.decimal_sign == "," else (".", ",")
    return ("-" if number < 0 else "") + write_figures(number, max(decimals, 0), thousands, sign)


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
    is_amount = number is not None or type_of_span(text.strip("()+-−~ ")) in _AMOUNTS
    if numeral is None or not is_amount:
        return text
    if named := _SCALE_WORD.search(text):
        scale = named[1].casefold()
    value = numeral.value if number is None else number.copy_abs()
    places = form.decimals
    if form.scale and scale in POWERS and scale != form.scale:
        value = value.scaleb(POWERS[scale] - POWERS[form.scale])
    elif places is None:
        places = numeral.decimals
    sign = "-" if found[0]["sign"] else ""
    written = f"{strip_zeros(value):f}" if places is None else write_figures(value, places, "")
    percent = "%" if "%" in text and not form.plain else ""
    return f"{sign}{written}{percent}"
