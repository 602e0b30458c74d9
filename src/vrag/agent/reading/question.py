"""Takes a question apart: the words worth searching, what kind of answer it wants, where it points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from vrag.agent.reading.terms import STOP_WORDS, is_cjk, is_number, stem, tokens

__all__ = ["Ask", "Pointer", "Question", "Term", "parse", "rephrasings", "search_query"]


class Ask(StrEnum):
    """What the answer has to look like, or what it would take to answer."""

    NAME = "name"
    """A person, company or place."""
    DATE = "date"
    """A date, a year or a time."""
    NUMBER = "number"
    """An amount that stands on the page."""
    EMAIL = "email"
    """An e-mail address."""
    LINK = "link"
    """A web address."""
    TEXT = "text"
    """Anything else that can be quoted."""
    COUNT = "count"
    """The number of things on a page or in a document: to be counted, not quoted."""
    COLOR = "color"
    """Something about colours: to be seen, not read."""
    COMPUTE = "compute"
    """A sum, a difference, a ratio: to be computed from several numbers."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word of the question that a page may hold."""

    text: str
    """Folded as `terms.tokens` folds it."""
    key: bool
    """Whether it is a name, a number or quoted: a page without it hardly answers the question."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A numbered thing that the question names, such as Table 1-1, Figure 3 or page 50."""

    kind: str
    """`figure`, `table` or `page`."""
    number: str

    @property
    def caption(self) -> re.Pattern[str]:
        """What a line begins with that captions this thing."""
        name = r"(?:tab(?:le)?\.?|表)" if self.kind == "table" else r"(?:fig(?:ure)?\.?|chart|graph|[图圖])"
        return re.compile(rf"\s*{name}\s*{re.escape(self.number)}(?![\d-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A question in parts."""

    core: str
    """The question without instructions for the form of the answer."""
    terms: tuple[Term, ...]
    """Distinct words worth finding, in their order."""
    ask: Ask
    pointers: tuple[Pointer, ...] = ()


_FORMAT = re.compile(
    r"""\b(?:format(?:ted)?|list\ format|int(?:eger)?\b|float|decimals?|round(?:ed)?|percent(?:age)?\ terms?
    |alphabetical|ascending|descending|directly\ answer|answer\ in|answer\ with|in\ million|in\ billion
    |yes'?\ or\ '?no|for\ example)""",
    re.IGNORECASE | re.VERBOSE,
)
_IMPERATIVE = re.compile(
    r"(?:please\s+)?(?:write|return|give|answer|format|round|directly|respond|reply|list all|the answer|your answer)\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"(?:,\s*)?(?:\be\.\s?g\.?|\bfor example\b|\bsuch as\b)\s*,?\s*\[[^\]]*\]?|\[[^\]]*\]", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)'\"”][.?!])\s*(?=[A-Z])|(?<=[.?!])\s+|(?<=[?？。！])")
_CJK_QUESTION = re.compile(
    r"请问|请|什么|多少|哪些|哪个|哪一|哪里|哪|几个|谁|怎么样|怎么|怎样|如何|为什么|何时|是否|吗|呢|的|了|是|在|有|"
    r"何ですか|ですか|はどこ|はいつ|は何|いくら|いくつ|무엇입니까|무엇|얼마|언제|어디"
)
_QUOTED = re.compile(r"[\"“]([^\"”]{2,})[\"”]|(?<!\w)[`'‘]([^`'’]{2,})[`'’](?!\w)|[《「『][^》」』]+[》」』]")
_POINTER = re.compile(
    r"\b(fig(?:ure)?s?|charts?|tables?|pages?)\.?\s*(\d+(?:[-.]\d+)*)|([图圖表])\s*(\d+(?:[-.]\d+)*)|第\s*(\d+)\s*[页頁]",
    re.IGNORECASE,
)
_ASKS: tuple[tuple[Ask, re.Pattern[str]], ...] = tuple(
    (ask, re.compile(pattern, re.IGNORECASE))
    for ask, pattern in (
        (Ask.COLOR, r"\bcolou?r(?:s|ed|ful)?\b|颜色|何色"),
        (
            Ask.COMPUTE,
            r"\b(?:sum|difference|combined|ratio|average|on average)\b|\bhow (?:much|many) (?:\w+ )?(?:higher|lower|larger"
            r"|more|less|fewer)\b|\bhow large is\b|\bdecimal places?\b|\bround(?:ed)? (?:your|the|to)\b|\btotal (?:percentage|number)\b"
            r"|之和|相差|平均",
        ),
        (
            Ask.COUNT,
            r"\bhow many (?:[\w-]+ ){0,3}?(?:pages?|figures?|subfigures?|tables?|charts?|bars?|images?|pictures?|photos?"
            r"|sections?|chapters?|steps?|lines?|times|objects?|subjects?|columns?|rows?|slides?|examples?|questions?"
            r"|icons?|people|persons?|children|types?|kinds?|areas?)\b|\bhow many\b.*\b(?:are there|are in|are listed"
            r"|are (?:mentioned|included|shown|contained))\b|几[个张页幅]",
        ),
        (Ask.EMAIL, r"\be-?mail\b|邮箱|邮件地址"),
        (Ask.LINK, r"\b(?:url|website|web ?site|web address|link)\b|网址|网站"),
        (Ask.DATE, r"\b(?:when (?:is|are|was|were|do|does|did|has|can|will)|date|deadline|what (?:year|month|day|time)|which (?:year|month|day))\b|何时|日期|哪一?年|いつ|언제"),
        (Ask.NUMBER, r"\b(?:how (?:much|many|long|old|far|large|big|high)|percent(?:age)?|number|population|proportion)\b|多少|いくら|얼마"),
        (Ask.NAME, r"\b(?:who|whom|whose)\b|谁|誰|누구"),
    )
)


def parse(question: str) -> Question:
    """Takes a question apart."""
    core = _without_format(question)
    return Question(core=core, terms=_terms(core), ask=_ask(question), pointers=_pointers(core))


def search_query(question: str) -> str:
    """The words of a question worth searching, in their order.

    Instructions about the form of the answer and words of asking are dropped; names, numbers and
    quoted strings stay. Where nothing would remain, the question itself is returned.

    >>> search_query("What is the USCA case number? Answer in int format.")
    'USCA case number'
    """
    core = _without_format(question)
    kept = [word for word in _words(core) if not _is_idle(word)]
    return " ".join(kept) or question.strip()


def rephrasings(question: str) -> tuple[str, ...]:
    """Other queries worth a try when the first finds nothing: names and numbers only, then the rest.

    >>> rephrasings("Which score did PaLM-2L achieve in MMLU Physics?")
    ('PaLM-2L MMLU Physics',)
    """
    core = _without_format(question)
    words = [word for word in _words(core) if not _is_idle(word)]
    keys = {term.text for term in _terms(core) if term.key}
    names = " ".join(word for word in words if any(token.term in keys for token in tokens(word)))
    return tuple(dict.fromkeys(query for query in (names,) if query and query != " ".join(words)))


def _without_format(question: str) -> str:
    """The question without its instructions for the form of the answer."""
    plain = _EXAMPLE.sub(" ", question)
    parts = [part.strip() for part in _SENTENCE_END.split(plain) if part.strip()]
    kept = [part for part in parts if not (_IMPERATIVE.match(part) and _FORMAT.search(part))]
    return " ".join(kept or parts)


def _words(core: str) -> list[str]:
    """The words of a question with the punctuation around them stripped, CJK words of asking dropped."""
    plain = _CJK_QUESTION.sub(" ", core)
    return [word for raw in plain.split() if (word := raw.strip(".,;:?!()[]{}\"'“”‘’`？。，、：；！（）《》「」"))]


def _is_idle(word: str) -> bool:
    """Whether a word says nothing about what is looked for."""
    found = tokens(word)
    return not found or all(_is_stop(word[token.start : token.end], token.term) for token in found)


_COLORS = frozenset("black blue brown gray green grey orange pink purple red white yellow".split())
"""Named colours are keys: where the words of a page do not name one, the page has to be seen."""
_NAMES_LIKE_WORDS = frozenset({"US", "IT", "WHO", "CAN", "MAY"})
"""Names in capitals that are words of asking otherwise."""


def _is_stop(word: str, term: str) -> bool:
    """Whether one term of a question is a word of asking."""
    return (word.casefold() in STOP_WORDS or term in STOP_WORDS) and word not in _NAMES_LIKE_WORDS


GENERIC_WORDS = frozenset(
    stem(word)
    for word in """according answer appear chart compare consider document figure image list page paper photo photograph
    picture presentation question refer regard report section slide table text thing want""".split()
)
"""Words that name the kind of thing looked at rather than what it is about."""


def _terms(core: str) -> tuple[Term, ...]:
    """The distinct terms of the core, each with whether it is a key."""
    plain = _CJK_QUESTION.sub(_blank, _POINTER.sub(_blank, core))
    shouting = core.isupper()
    quoted = [match.span() for match in _QUOTED.finditer(core)]
    found: dict[str, bool] = {}
    for position, token in enumerate(tokens(plain)):
        word = plain[token.start : token.end]
        if _is_stop(word, token.term) or token.term in GENERIC_WORDS:
            continue
        named = not shouting and word[0].isupper() and position > 0
        inside = any(start <= token.start and token.end <= end for start, end in quoted)
        key = named or inside or word.casefold() in _COLORS or is_number(token.term) or any(c.isdigit() for c in word)
        found[token.term] = found.get(token.term, False) or (key and not is_cjk(word))
    return tuple(Term(text, key) for text, key in found.items())


def _blank(match: re.Match[str]) -> str:
    """Spaces in place of a match, so that positions stay."""
    return " " * len(match.group())


def _ask(question: str) -> Ask:
    """What the question wants, by the first pattern that fits."""
    return next((ask for ask, pattern in _ASKS if pattern.search(question)), Ask.TEXT)


def _pointers(core: str) -> tuple[Pointer, ...]:
    """The numbered figures, tables and pages that the question names."""
    found: list[Pointer] = []
    for match in _POINTER.finditer(core):
        latin, latin_number, chinese, chinese_number, page = match.groups()
        if page:
            found.append(Pointer("page", page))
        elif latin:
            kind = {"t": "table", "p": "page"}.get(latin[0].lower(), "figure")
            found.append(Pointer(kind, latin_number))
        else:
            found.append(Pointer("table" if chinese == "表" else "figure", chinese_number))
    return tuple(dict.fromkeys(found))
