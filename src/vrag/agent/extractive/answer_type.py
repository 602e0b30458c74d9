"""The type of answer that a question asks for, recognised by its question words."""

from __future__ import annotations

import re
from enum import StrEnum


class AnswerType(StrEnum):
    """The form of the answer, or what it would take to answer."""

    COLOR = "color"
    """Something about colours: to be seen, not read."""
    COMPUTE = "compute"
    """A sum, a difference, a ratio: to be computed from several numbers."""
    COUNT = "count"
    """The number of things on a page or in a document: to be counted, not quoted."""
    EMAIL = "email"
    """An e-mail address."""
    LINK = "link"
    """A web address."""
    DATE = "date"
    """A date, a year or a time."""
    NUMBER = "number"
    """An amount that stands on the page."""
    NAME = "name"
    """A person."""
    TEXT = "text"
    """Anything else that can be quoted."""


def ask_of(question: str) -> AnswerType:
    """Return the first kind of answer whose words of asking stand in the question.

    >>> ask_of("How many pages contain tables?"), ask_of("How many stores were open in 2023?")
    (<AnswerType.COUNT: 'count'>, <AnswerType.NUMBER: 'number'>)
    """
    return next((ask for ask, pattern in _PATTERNS.items() if pattern.search(question)), AnswerType.TEXT)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_PATTERNS: dict[AnswerType, re.Pattern[str]] = {
    AnswerType.COLOR: _pattern(r"\b colou?r (?:s|ed|ful)? \b | 颜色 | 何色"),
    AnswerType.COMPUTE: _pattern(
        r"""\b (?:sum|difference|combined|ratio|average) \b
        | \b how\ (?:much|many)\ (?:\w+\ )? (?:higher|lower|larger|more|less|fewer) \b
        | \b how\ large\ is \b | \b decimal\ places? \b | \b round(?:ed)?\ (?:your|the|to) \b
        | \b total\ (?:percentage|number) \b | 之和 | 相差 | 平均"""
    ),
    AnswerType.COUNT: _pattern(
        r"""\b how\ many\ (?:[\w-]+\ ){0,3}? (?:pages?|slides?|sections?|chapters?|figures?|subfigures?
            |tables?|charts?|bars?|images?|pictures?|photos?|icons?|lines?|columns?|rows?|steps?|times) \b
        | \b how\ many \b .* \b are\ (?:there|in|listed|mentioned|included|shown|contained) \b
        | 几[个张页幅]"""
    ),
    AnswerType.EMAIL: _pattern(r"\b e-?mail \b | 邮箱 | 邮件地址"),
    AnswerType.LINK: _pattern(r"\b (?:url|web\ ?site|web\ address|link) \b | 网址 | 网站"),
    AnswerType.DATE: _pattern(
        r"""\b when\ (?:is|are|was|were|do|does|did|has|can|will) \b | \b (?:date|deadline) \b
        | \b (?:what|which)\ (?:year|month|day|time) \b | 何时 | 日期 | 哪一?年 | いつ | 언제"""
    ),
    AnswerType.NUMBER: _pattern(
        r"""\b how\ (?:much|many|long|old|far|large|big|high) \b
        | \b (?:percent(?:age)?|number|population|proportion) \b | 多少 | いくら | 얼마"""
    ),
    AnswerType.NAME: _pattern(r"\b (?:who|whom|whose) \b | 谁 | 誰 | 누구"),
}
"""In order of precedence."""
