"""Values that are read whole: dates, amounts, addresses; and the units of quantities that are asked for."""

from __future__ import annotations

import re

from vrag.reading.answer_types import AnswerKind
from vrag.reading.spans.span_types import MONTHS, SpanType, type_of_span

_REACH = 60
"""Characters before and after a span that may belong to its value."""
_AMOUNT = r"""\d[\d.,\u00a0\u202f]*\d|\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve
    |thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b"""
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s<>\"'，。）)]+[^\s<>\"'，。）).,;:]"
)
_DATE = re.compile(
    rf"""(?<!\d)\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{MONTHS}\b\.?(?:,?\s\d{{4}})?
    | \b{MONTHS}\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}})? | \b{MONTHS}\b\.?,?\s\d{{4}}
    | \d{{4}}\s?年\s?\d{{1,2}}\s?月(?:\s?\d{{1,2}}\s?[日号])? | \d{{1,2}}\s?月\s?\d{{1,2}}\s?[日号]
    | \b\d{{4}}-\d\d-\d\d\b | \b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_SCALE = r"(?:thousand|million|billion|trillion|千|万|百万|亿|億)"
_UNIT = rf"""(?:{_SCALE}\s?)?(?:%|％|per\ cent|percent|€|£|¥|dollars?|euros?|pounds?|cents?|yen|[美日欧]?元|円
    |°\ ?[CF]|km/h|mph|knots?|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|kg|kilograms?|tons?|tonnes?
    |grams?|hectares?|acres?|litres?|liters?|kWh|MWh|GWh|MW|GW|kW|公里|米|吨|公斤)"""
_QUANTITY = re.compile(
    rf"(?:(?:US\$|[$€£¥])\s?)?(?:{_AMOUNT})(?:\s?{_UNIT}(?!\w)|\s{_SCALE}\b)?", re.IGNORECASE | re.VERBOSE
)
_PRICE = re.compile(rf"(?:{_AMOUNT})\s[^\W\d_]{{3,}}s\b", re.IGNORECASE | re.VERBOSE)
"""An amount in a currency of any name, such as 12 crowns."""


_NUMERIC = frozenset(
    {
        AnswerKind.COUNT,
        AnswerKind.COMPUTE,
        AnswerKind.MONEY,
        AnswerKind.NUMBER,
        AnswerKind.PERCENT,
        AnswerKind.YEAR,
    }
)
_ANY_NUMBER = re.compile(
    rf"(?:{_AMOUNT}) | [零〇一二三四五六七八九十百千万亿两半] | \bhalf\b | \bnone\b | \bno\b",
    re.IGNORECASE | re.VERBOSE,
)


_NUMBERED_HEADING = re.compile(r"(?:\d+(?:\.\d+)*\.?\s*|[A-Za-z]+\s+)[A-Z]\w*", re.ASCII)
"""The beginning of a heading, such as 10.1 Design, which is no amount."""
_TWO_NUMBERS = re.compile(r"\d[\d.,]*\s+(?=\d(?!\d\d(?!\d)))")
"""Numbers that only stand beside each other, such as 3 2015; 10 000 is one."""
_MEASURED = frozenset(
    {SpanType.PERCENT, SpanType.MONEY, SpanType.YEAR, SpanType.DATE, SpanType.TIME, SpanType.DURATION}
)


_LOOKS = {
    AnswerKind.COLOR: re.compile(
        r"""\b(?:black|blue|brown|cyan|gold|gr[ae]y|green|magenta|maroon|orange|pink|purple|red|silver|teal
        |turquoise|violet|white|yellow)\b | [红紅绿綠蓝藍黄黃黑白紫橙粉灰青緑]""",
        re.IGNORECASE | re.VERBOSE,
    ),
    AnswerKind.EMAIL: re.compile(r"\S@\S"),
    AnswerKind.LINK: re.compile(r"://|\w\.\w"),
    AnswerKind.PHONE: re.compile(r"(?:\d\D{0,3}){5}"),
}
"""Patterns that answers of some kinds have."""


def is_of_kind(text: str, kind: AnswerKind) -> bool:
    """Return whether an answer can be of a kind: a colour, an address, or an amount, which has a number.

    A numbered heading and numbers that are only neighbours are no amounts.

    >>> [is_of_kind(text, AnswerKind.NUMBER) for text in ("six knots", "1,498", "thousands", "10.1 Design")]
    [True, True, False, False]
    """
    if wanted := _LOOKS.get(kind):
        return wanted.search(text) is not None
    if kind not in _NUMERIC:
        return True
    if not _ANY_NUMBER.search(text):
        return False
    is_heading = _NUMBERED_HEADING.match(text) or _TWO_NUMBERS.search(text)
    return not is_heading or type_of_span(text) in _MEASURED


def skip_neighbour(text: str, start: int, end: int) -> int:
    """Return where a range begins without a number that only stands before another, such as a footnote mark.

    >>> text = "4 11.8 cents per kilowatt hour"
    >>> text[skip_neighbour(text, 0, 6) : 6]
    '11.8'
    """
    mark = _TWO_NUMBERS.match(text, start, end)
    return mark.end() if mark else start


def complete_value(text: str, start: int, end: int, kind: AnswerKind) -> tuple[int, int]:
    """Return the range of the whole value that a range of a text cuts; any other range as it is.

    A date is completed unless a year or a time is asked for.

    >>> text = "It sails on 3 May 2027 and costs 12 crowns."
    >>> [text[slice(*complete_value(text, text.index(cut), text.index(cut) + len(cut), kind))]
    ...  for cut, kind in (("2027", AnswerKind.DATE), ("2027", AnswerKind.YEAR), ("12", AnswerKind.MONEY))]
    ['3 May 2027', '2027', '12 crowns']
    """
    patterns = [_ADDRESS, _QUANTITY]
    if kind is AnswerKind.DATE:
        patterns.insert(0, _DATE)
    if kind is AnswerKind.MONEY:
        patterns.insert(0, _PRICE)
    begin = max(start - _REACH, 0)
    for pattern in patterns:
        for match in pattern.finditer(text, begin, end + _REACH):
            first, last = match.span()
            if first <= start and end <= last and last - first > end - start:
                return first, last
    return start, end


_DIMENSIONS = (
    (r"how\ fast\b | \bspeed\b | 多快 | 速度", r"\bknots?\b | km/h | \bkmh\b | \bmph\b | \d\s?kn\b | 节"),
    (
        r"""how\ (?:far|tall|high|deep|wide)\b | \b(?:distance|length|height|depth|width)\b
        | 多[远高深宽] | 距离 | 航程""",
        r"""\b(?:[ckm]?m | kilomet(?:er|re)s? | met(?:er|re)s? | miles? | feet | ft | inch(?:es)?
        | nautical)\b | 米 | 公里 | 海里""",
    ),
    (
        r"how\ heavy\b | \bweigh | \bmass\b | 多重 | 重量",
        r"\b(?:kg|g|t|tons?|tonnes?|grams?|lbs?|pounds?)\b | 吨 | 公斤 | 克",
    ),
    (r"how\ (?:hot|cold|warm)\b | \btemperature\b | 温度 | 多[热冷]", r"° | \bdegrees?\b | 度"),
    (
        r"\barea\b | how\ large\ is\b | 面积",
        r"\bsquare\b | \bacres?\b | \bhectares?\b | km² | m² | 平方 | 公顷",
    ),
    (
        r"\b(?:cost|price|fare|pay|paid|salary|fee)s?\b | 价格 | 票价 | 多少钱",
        r"[$€£¥] | \b(?:euros?|dollars?|cents?|pounds?|crowns?|eur|usd|yen)\b | 元 | 円",
    ),
    (
        r"how\ long\ does\b | \bduration\b | 多久 | 多长时间",
        r"""\b(?:years?|months?|weeks?|days?|hours?|min(?:utes?)?|seconds?)\b
        | 年 | 月 | 天 | 小时 | 分钟""",
    ),
    (r"\bpercent | \bproportion\b | \bshare\ of\b | 百分 | 占比", r"% | ％ | \bper\ ?cent\b"),
)
_UNITS = tuple(
    (re.compile(asked, re.IGNORECASE | re.VERBOSE), re.compile(unit, re.IGNORECASE | re.VERBOSE))
    for asked, unit in _DIMENSIONS
)
_MONEY = next(dimension for dimension in _UNITS if dimension[1].search("€"))


def is_measured_otherwise(question: str, answer: str, context: str) -> bool:
    """Return whether a question asks for a measure that neither an answer nor the text around it is in.

    >>> is_measured_otherwise("How fast may ferries go?", "400 metres", "At 400 metres: six knots")
    True
    >>> is_measured_otherwise("How fast may ferries go?", "15", "Maximum speed: 15")
    False
    """
    asked = [(words, unit) for words, unit in _UNITS if words.search(question)]
    if not asked or any(unit.search(answer) for _, unit in asked):
        return False
    if has_unit(answer):
        return True
    is_named = any(words.search(context) or unit.search(context) for words, unit in asked)
    return not is_named and _MONEY not in asked  # prices often stand without a currency


def has_unit(text: str) -> bool:
    """Return whether a text holds a unit of any of the dimensions that questions ask for.

    >>> has_unit("400 metres"), has_unit("the Guillemot")
    (True, False)
    """
    return any(unit.search(text) for _, unit in _UNITS)
