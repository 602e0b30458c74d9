"""Checks that leave out what can be no answer to a question, whatever else speaks for it."""

from __future__ import annotations

import re

from vrag.reading.answer import Reading
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.spans.whole_values import AMOUNT, TWO_NUMBERS
from vrag.text.terms import STOP_WORDS, tokens

_DIGIT = re.compile(r"\d")
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
    rf"(?:{AMOUNT}) | [零〇一二三四五六七八九十百千万亿两半] | \bhalf\b | \bnone\b | \bno\b",
    re.IGNORECASE | re.VERBOSE,
)


_NUMBERED_HEADING = re.compile(r"(?:\d+(?:\.\d+)*\.?\s*|[A-Za-z]+\s+)[A-Z]\w*", re.ASCII)
"""The beginning of a heading, such as 10.1 Design, which is no amount."""
_MEASURED = frozenset(
    {SpanType.PERCENT, SpanType.MONEY, SpanType.YEAR, SpanType.DATE, SpanType.TIME, SpanType.DURATION}
)


_HOW_MUCH = re.compile(r"\bhow (?:much|many)\b", re.IGNORECASE)
_NO_AMOUNT = re.compile(r"\d+(?:st|nd|rd|th)|0\d{2,}|(?:19|20)\d\d\s?[-–/]\s?\d\d", re.IGNORECASE)
"""Ordinal numbers, numbers of orders and accounts, and financial years."""
_NEVER_YEARS = frozenset({AnswerKind.MONEY, AnswerKind.PERCENT, AnswerKind.COMPUTE})


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
_DATE_ASKED = re.compile(r"\b(?:date|day|month|deadline)\b|日期|哪[一]?[天日月]", re.IGNORECASE)
"""Words that ask for a date, while "when" may ask for an event."""
_DATED = re.compile(
    r"""\d | \b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b | [年月日]
    | \b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b""",
    re.IGNORECASE | re.VERBOSE,
)
_COMPARED = re.compile(
    r"""\b(?:differ\w* | changes? | higher | lower | larger | smaller | greater | more | less | fewer | than
    | (?:in|de)creas\w* | total | sum | combined | together | ratio | average | mean)\b | [差和共均比]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words around a figure that is the result of a computation."""
_CHOICE = re.compile(
    r"""\b(?:or(?!\s(?:above|after|before|below|earlier|fewer|later|less|longer|more|older|over|under|younger)\b)
    |among|between|either|which\sof)\b|还是|哪[一个种条艘座家]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of a question that names its possible answers; "10 or more" names none."""


def can_answer(question: str, reading: Reading, caption: str = "") -> bool:
    """Return whether a reading may answer a question, by its kind, its words and its measure.

    `caption` is that of the table it is from.
    """
    kind = find_focus(question).kind
    if (_HOW_MUCH.search(question) or kind in _NEVER_YEARS) and _NO_AMOUNT.fullmatch(reading.text):
        return False
    if kind in _NEVER_YEARS and not reading.arithmetic and type_of_span(reading.text) is SpanType.YEAR:
        return False
    around = f"{reading.context} {caption}"
    if kind is AnswerKind.DATE and _DATE_ASKED.search(question) and not _DATED.search(reading.text):
        return False
    if kind is AnswerKind.COMPUTE and not reading.arithmetic and not _COMPARED.search(around):
        return False
    return (
        is_of_kind(reading.text, kind)
        and not repeats_question(reading.text, question)
        and not is_measured_otherwise(question, reading.text, around)
        and not is_whole_of_part(question, reading.text, reading.context)
    )


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
    is_heading = _NUMBERED_HEADING.match(text) or TWO_NUMBERS.search(text)
    return not is_heading or type_of_span(text) in _MEASURED


def repeats_question(text: str, question: str) -> bool:
    """Return whether an answer only has words of the question, which does not give a choice.

    >>> repeats_question("the black objects", "How many objects with black color are shown?")
    True
    >>> repeats_question("Orla", "Which is busier, Orla or Saltby?")
    False
    """
    if _DIGIT.search(text) or _CHOICE.search(question):
        return False
    words = {token.term for token in tokens(text)} - STOP_WORDS
    return bool(words) and words.issubset(token.term for token in tokens(question))


def repeats_number(text: str, question: str) -> bool:
    """Return whether an answer with figures only has words of the question, such as the number of a rule.

    "What do groups of 10 or more pay?" does not ask for the 10.
    """
    if not _DIGIT.search(text) or _CHOICE.search(question):
        return False
    words = {text[token.start : token.end].casefold() for token in tokens(text)}
    return words.issubset(question[token.start : token.end].casefold() for token in tokens(question))


_PART = rf"(?:{AMOUNT}|[一二三四五六七八九十百千万两]+)"
_LEADING_AMOUNT = re.compile(_PART, re.IGNORECASE | re.VERBOSE)


def is_whole_of_part(question: str, answer: str, context: str) -> bool:
    """Return whether an answer is the whole that a part is taken from, while a question asks for the part.

    >>> sentence = "Of 118 households on the island 97 have signed the list."
    >>> [is_whole_of_part("How many households signed?", answer, sentence) for answer in ("118", "97")]
    [True, False]
    >>> is_whole_of_part("How many households are on the island?", "118", sentence)
    False
    """
    whole = _LEADING_AMOUNT.match(answer)
    if whole is None:
        return False
    number, asked = re.escape(whole[0]), {token.term for token in tokens(question)} - STOP_WORDS
    for pattern in (
        rf"\bof\s+(?:the\s+|all\s+|these\s+)?{number}\b[^\d.;]*?\b{_PART}\b(?P<said>[^.;]*)",
        rf"\b{_PART}\s+(?:out\s+)?of\s+(?:the\s+|all\s+)?{number}\s+\w+(?P<said>[^.;]*)",
        rf"{number}[^\d，。]{{0,6}}[中里]，?(?:只?有)?{_PART}(?P<said>[^，。]*)",
    ):
        match = re.search(pattern, context, re.IGNORECASE | re.VERBOSE)
        if match and not asked.isdisjoint(token.term for token in tokens(match["said"])):
            return True
    return False


_SIZED = r"""(?!.{0,60}\b(?:amounts? | audiences? | budgets? | changes? | costs? | debts? | demand
    | differences? | dividends? | earnings | fares? | fees? | growth | incomes? | inflation | loss(?:es)?
    | numbers? | pay(?:ments?)? | percent\w* | populations? | prices? | profits? | proportions? | rates?
    | ratios? | rents? | revenues? | risks? | salar(?:y|ies) | sales | scores? | shares? | tax(?:es)?
    | temperatures? | turnover | unemployment | wages?)\b)"""
"""Behind "how high" and "how large": what has neither a length nor an area."""
_DIMENSIONS = (
    (r"how\ fast\b | \bspeed\b | 多快 | 速度", r"\bknots?\b | km/h | \bkmh\b | \bmph\b | \d\s?kn\b | 节"),
    (
        rf"""how\ (?:far|tall|high|deep|wide)\b{_SIZED} | \b(?:distance|length|height|depth|width)\b
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
        r"\b(?<!which\ )(?<!what\ )(?<!each\ )area\b | how\ large\ is\b" + _SIZED + r" | 面积",
        r"\bsquare\b | \bacres?\b | \bhectares?\b | km² | m² | 平方 | 公顷",
    ),
    (
        r"\b(?:cost|price|fare|pay|paid|salary|fee|wage)s?\b | 价格 | 票价 | 多少钱",
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
