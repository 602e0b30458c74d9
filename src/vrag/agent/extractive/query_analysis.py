"""The analysis of a question: the words worth searching, the type of its answer, the things that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from vrag.agent.extractive.tokens import STOP_WORDS, Token, is_cjk, is_number, stem, tokens


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
    """Return the first answer type whose pattern matches the question.

    >>> ask_of("How many pages contain tables?"), ask_of("How many stores were open in 2023?")
    (<AnswerType.COUNT: 'count'>, <AnswerType.NUMBER: 'number'>)
    """
    return next((ask for ask, pattern in _PATTERNS.items() if pattern.search(question)), AnswerType.TEXT)


def _compile(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_PATTERNS: dict[AnswerType, re.Pattern[str]] = {
    AnswerType.COLOR: _compile(r"\b colou?r (?:s|ed|ful)? \b | 颜色 | 何色"),
    AnswerType.COMPUTE: _compile(
        r"""\b (?:sum|difference|combined|ratio|average) \b
        | \b how\ (?:much|many)\ (?:\w+\ )? (?:higher|lower|larger|more|less|fewer) \b
        | \b how\ large\ is \b | \b decimal\ places? \b | \b round(?:ed)?\ (?:your|the|to) \b
        | \b total\ (?:percentage|number) \b | 之和 | 相差 | 平均"""
    ),
    AnswerType.COUNT: _compile(
        r"""\b how\ many\ (?:[\w-]+\ ){0,3}? (?:pages?|slides?|sections?|chapters?|figures?|subfigures?
            |tables?|charts?|bars?|images?|pictures?|photos?|icons?|lines?|columns?|rows?|steps?|times) \b
        | \b how\ many \b .* \b are\ (?:there|in|listed|mentioned|included|shown|contained) \b
        | 几[个张页幅]"""
    ),
    AnswerType.EMAIL: _compile(r"\b e-?mail \b | 邮箱 | 邮件地址"),
    AnswerType.LINK: _compile(r"\b (?:url|web\ ?site|web\ address|link) \b | 网址 | 网站"),
    AnswerType.DATE: _compile(
        r"""\b when\ (?:is|are|was|were|do|does|did|has|can|will) \b | \b (?:date|deadline) \b
        | \b (?:what|which)\ (?:year|month|day|time) \b | 何时 | 日期 | 哪一?年 | いつ | 언제"""
    ),
    AnswerType.NUMBER: _compile(
        r"""\b how\ (?:much|many|long|old|far|large|big|high) \b
        | \b (?:percent(?:age)?|number|population|proportion) \b | 多少 | いくら | 얼마"""
    ),
    AnswerType.NAME: _compile(r"\b (?:who|whom|whose) \b | 谁 | 誰 | 누구"),
}
"""In order of precedence."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word of the question that a page may hold."""

    text: str
    """Normalised by `tokens.tokens`."""
    key: bool
    """True if it is a name, a number, a colour or quoted: pages without it hardly answer the question."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A numbered thing that the question names, such as Table 1-1, Figure 3 or page 50."""

    kind: str
    """`figure`, `table` or `page`."""
    number: str

    @property
    def caption(self) -> re.Pattern[str]:
        """The pattern of the beginning of its caption."""
        name = r"(?:tab(?:le)?\.?|表)" if self.kind == "table" else r"(?:fig(?:ure)?\.?|chart|graph|[图圖])"
        return re.compile(rf"\s*{name}\s*{re.escape(self.number)}(?![\d-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuestionAnalysis:
    """A question in parts."""

    core: str
    """The question without instructions for the form of the answer."""
    terms: tuple[Term, ...]
    """Distinct words worth finding, in their order."""
    ask: AnswerType
    pointers: tuple[Pointer, ...] = ()


GENERIC_WORDS = frozenset(
    stem(word)
    for word in """according answer appear chart compare consider document figure image list page paper
    photo photograph picture presentation question refer regard report section slide table text thing
    want""".split()
)
"""Words that name the kind of thing looked at rather than what it is about."""

_COLORS = frozenset("black blue brown gray green grey orange pink purple red white yellow".split())
_NAMES_LIKE_STOP_WORDS = frozenset({"US", "IT", "WHO", "CAN", "MAY"})
_INSTRUCTION = re.compile(
    r"""(?:please\s+)?(?:write | return | give | answer | format | round | directly | respond | reply
    | list\ all | the\ answer | your\ answer)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_FORM = re.compile(
    r"""\b(?:format(?:ted)? | list\ format | int(?:eger)?\b | float | decimals? | round(?:ed)?
    | percent(?:age)?\ terms? | alphabetical | ascending | descending | directly\ answer | answer\ in
    | answer\ with | in\ million | in\ billion | yes'?\ or\ '?no | for\ example)""",
    re.IGNORECASE | re.VERBOSE,
)
_EXAMPLE = re.compile(
    r"(?:,\s*)?(?:\be\.\s?g\.?|\bfor example\b|\bsuch as\b)\s*,?\s*\[[^\]]*\]?|\[[^\]]*\]", re.IGNORECASE
)
_SENTENCE_END = re.compile(
    r"""(?<=[a-z0-9)'"”][.?!])\s*(?=[A-Z]) | (?<=[.?!])\s+ | (?<=[?？。！])""", re.VERBOSE
)
_QUOTED = re.compile(r"[\"“]([^\"”]{2,})[\"”]|(?<!\w)[`'‘]([^`'’]{2,})[`'’](?!\w)|[《「『][^》」』]+[》」』]")
_POINTER = re.compile(
    r"\b(fig(?:ure)?s?|charts?|tables?|pages?)\.?\s*(\d+(?:[-.]\d+)*)|([图圖表])\s*(\d+(?:[-.]\d+)*)|第\s*(\d+)\s*[页頁]",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"""请问 | 是?(?:什么|多少|哪[些个里儿]|哪一[个年]?|谁|几[个点天次种]|怎么样|何时) | 怎么 | 怎样 | 如何
    | 为什么 | 是否 | 吗 | 呢 | 的 | 何ですか | ですか | はどこ | はいつ | は何 | いくら | いくつ | は誰
    | 무엇입니까 | 무엇 | 얼마 | 언제 | 어디 | 누구""",
    re.VERBOSE,
)
"""Question words in scripts that do not separate words."""
_CHINESE_BREAKS = re.compile(r"(?<=[\u4e00-\u9fff])[是在有和与由中为了](?=[\u4e00-\u9fff\s]|$)")
"""Single Chinese characters that usually separate words."""


def parse(question: str) -> QuestionAnalysis:
    """Take a question apart."""
    core = _without_form(question)
    return QuestionAnalysis(core=core, terms=_terms(core), ask=ask_of(question), pointers=_pointers(core))


def search_query(question: str) -> str:
    """Return the words of a question worth searching, in their order.

    Instructions about the form of the answer and question words are dropped; names, numbers and
    quoted strings stay. Where nothing would remain, the question itself is returned.

    >>> search_query("What is the USCA case number? Answer in int format.")
    'USCA case number'
    """
    return " ".join(_content_words(_without_form(question))) or question.strip()


def _without_form(question: str) -> str:
    """Return the question without its instructions for the form of the answer."""
    parts = [part.strip() for part in _SENTENCE_END.split(_EXAMPLE.sub(" ", question)) if part.strip()]
    kept = [part for part in parts if not (_INSTRUCTION.match(part) and _FORM.search(part))]
    return " ".join(kept or parts)


def _content_words(core: str) -> list[str]:
    """Return the words that say something about the thing looked for, without the punctuation around them."""
    words = (
        raw.strip(".,;:?!()[]{}\"'“”‘’`？。，、：；！（）《》「」『』")
        for raw in _ASKING.sub(" ", core).split()
    )
    return [word for word in words if any(not _is_stop(word, token) for token in tokens(word))]


def _is_stop(text: str, token: Token) -> bool:
    """Return whether a token of a text is a question word."""
    word = text[token.start : token.end]
    empty = word.casefold() in STOP_WORDS or token.term in STOP_WORDS
    return empty and word not in _NAMES_LIKE_STOP_WORDS


def _terms(core: str) -> tuple[Term, ...]:
    """Return the distinct terms of the core; a term that is a key anywhere is one."""
    plain = core
    for pattern in (_POINTER, _ASKING, _CHINESE_BREAKS):
        plain = pattern.sub(_blank, plain)
    quoted = [match.span() for match in _QUOTED.finditer(core)]
    found: dict[str, bool] = {}
    for position, token in enumerate(tokens(plain)):
        if not _is_stop(plain, token) and token.term not in GENERIC_WORDS:
            inside = any(start <= token.start and token.end <= end for start, end in quoted)
            named = position > 0 and not core.isupper() and core[token.start].isupper()
            found[token.term] = found.get(token.term, False) or _is_key(token.term, named=named or inside)
    return tuple(Term(text, key) for text, key in found.items())


def _is_key(term: str, *, named: bool) -> bool:
    """Return whether a page without the term hardly answers; never for pairs of Chinese characters."""
    if is_cjk(term):
        return False
    return named or term in _COLORS or is_number(term) or any(c.isdigit() for c in term)


def _blank(match: re.Match[str]) -> str:
    """Spaces in place of a match, so that positions stay."""
    return " " * len(match.group())


def _pointers(core: str) -> tuple[Pointer, ...]:
    """Return the numbered figures, tables and pages that the question names."""
    return tuple(dict.fromkeys(_pointer(match) for match in _POINTER.finditer(core)))


def _pointer(match: re.Match[str]) -> Pointer:
    latin, number, chinese, chinese_number, page = match.groups()
    if page:
        return Pointer("page", page)
    if latin:
        return Pointer({"t": "table", "p": "page"}.get(latin[0].lower(), "figure"), number)
    return Pointer("table" if chinese == "表" else "figure", chinese_number)
