"""The analysis of a question: the words worth searching, the kind of its answer, the things that it names.

`completed` rewrites follow-up questions into questions that stand alone. Two kinds of English questions lean
on the one before: *And in 2023?* or *What about Saltby?*, which puts something else into it, and *Who built
it?*, which names nothing itself. Every other question stands alone and is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vrag.reading.answer_types import AnswerKind, find_focus
from vrag.reading.text_layout import STOP_WORDS, Token, is_cjk, is_number, stem, tokens


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
    ask: AnswerKind
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
    pointers: dict[Pointer, None] = {}
    for match in _POINTER.finditer(core):
        latin, number, chinese, chinese_number, page = match.groups()
        if page:
            pointer = Pointer("page", page)
        elif latin:
            pointer = Pointer({"t": "table", "p": "page"}.get(latin[0].lower(), "figure"), number)
        else:
            pointer = Pointer("table" if chinese == "表" else "figure", chinese_number)
        pointers[pointer] = None
    return QuestionAnalysis(core, _terms(core), find_focus(question).kind, tuple(pointers))


def search_query(question: str) -> str:
    """Return the words of a question worth searching, in their order.

    Instructions about the form of the answer and question words are dropped; names, numbers and
    quoted strings stay. Where nothing would remain, the question itself is returned.

    >>> search_query("What is the USCA case number? Answer in int format.")
    'USCA case number'
    """
    words = (
        raw.strip(".,;:?!()[]{}\"'“”‘’`？。，、：；！（）《》「」『』")
        for raw in _ASKING.sub(" ", _without_form(question)).split()
    )
    content = [word for word in words if any(not _is_stop(word, token) for token in tokens(word))]
    return " ".join(content) or question.strip()


def _without_form(question: str) -> str:
    """Return the question without its instructions for the form of the answer."""
    parts = [part.strip() for part in _SENTENCE_END.split(_EXAMPLE.sub(" ", question)) if part.strip()]
    kept = [part for part in parts if not (_INSTRUCTION.match(part) and _FORM.search(part))]
    return " ".join(kept or parts)


def _is_stop(text: str, token: Token) -> bool:
    """Return whether a token of a text is a question word."""
    word = text[token.start : token.end]
    empty = word.casefold() in STOP_WORDS or token.term in STOP_WORDS
    return empty and word not in _NAMES_LIKE_STOP_WORDS


def _terms(core: str) -> tuple[Term, ...]:
    """Return the distinct terms of the core; a term that is a key anywhere is one.

    Pairs of Chinese characters are never keys.
    """
    plain = core
    for pattern in (_POINTER, _ASKING, _CHINESE_BREAKS):
        plain = pattern.sub(lambda match: " " * len(match.group()), plain)  # positions stay
    quoted = [match.span() for match in _QUOTED.finditer(core)]
    keys: dict[str, bool] = {}
    for position, token in enumerate(tokens(plain)):
        term = token.term
        if _is_stop(plain, token) or term in GENERIC_WORDS:
            continue
        is_quoted = any(start <= token.start and token.end <= end for start, end in quoted)
        is_name = position > 0 and not core.isupper() and core[token.start].isupper()
        is_value = term in _COLORS or is_number(term) or any(letter.isdigit() for letter in term)
        is_key = (is_quoted or is_name or is_value) and not is_cjk(term)
        keys[term] = keys.get(term, False) or is_key
    return tuple(Term(text, key) for text, key in keys.items())


_PREPOSITIONS = (
    "after|at|before|between|by|during|for|from|in|near|of|on|over|per|since|to|under|until|via|with|within"
)
_LEAD = re.compile(
    r"(?:(?:and|but|or|also|then)\b[\s,]*(?:(?:what|how)\s+about\b)?|(?:what|how)\s+about\b)[\s,]*",
    re.IGNORECASE,
)
"""Beginnings of questions that continue the previous one."""
_ASKS = re.compile(
    r"""\b(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can|could
    |will|would|should|may|must|list|name|give|tell|show|find|explain|describe|compare)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that make a question one of its own."""
_BACK_REFERENCE = re.compile(
    r"""\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|these|those)\b
    | \b(?:did|does|is|was)\s+that\b | \bthat(?=\s*(?:[?.!,;]|$))
    | \bthe\ (?:same|latter|former)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that stand for something said before."""
_PARTS = re.compile(rf"\b({_PREPOSITIONS})\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.IGNORECASE)
_NUMBER = r"\d+(?:[.,-]\d+)*"
_NAME = r"[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*"
_WORD = r"[a-z][\w'’-]*"
_WORD_ALONE = re.compile(rf"(?:(?:the|an|a)\s+)?{_WORD}")
_END = rf"(?=\s*(?:[?.!,;]|$|\b(?:{_PREPOSITIONS})\b))"


def completed(question: str, earlier: Sequence[str]) -> str:
    """Complete a question with words of the ones before it; one that stands alone stays as it is.

    `earlier` are the questions before it, the oldest first. Each may lean on the one before it.

    >>> completed("And in 2023?", ["How many passengers travelled from Orla to Saltby in 2024?"])
    'How many passengers travelled from Orla to Saltby in 2023?'
    >>> completed("What about the line to Little Skerra?", ["How long is the line to Saltby?"])
    'How long is the line to Little Skerra?'
    >>> completed("Who built it?", ["When was the Fulmar launched?"])
    'Who built it? Fulmar launched'
    >>> completed("What does a bicycle cost?", ["When was the Fulmar launched?"])
    'What does a bicycle cost?'
    """
    whole = ""
    for asked in (*earlier, question):
        whole = _complete_from(whole, asked.strip()) if whole else asked.strip()
    return whole


def _complete_from(previous: str, question: str) -> str:
    """Complete a question from the previous one.

    >>> _complete_from("When was the Fulmar launched?", "And the Little Auk?")
    'When was the Little Auk launched?'
    >>> _complete_from("When was the Fulmar launched?", "Who built it?")
    'Who built it? Fulmar launched'
    """
    lead = _LEAD.match(question)
    rest = question[lead.end() if lead else 0 :].strip(" \t\n?!.,;")
    if not rest:
        return previous
    if not _ASKS.search(rest):
        is_fragment = lead or _PARTS.match(rest) or re.fullmatch(_NUMBER, rest)
        return _substitute_parts(previous, rest) if is_fragment else question
    named = any(term.key and not is_number(term.text) for term in parse(question).terms)
    if named or not _BACK_REFERENCE.search(rest):
        return question

    # The question names nothing: add the words of the previous one that do not change the kind of answer.
    own = {token.term for token in tokens(question)}
    ask, before = find_focus(question).kind, find_focus(previous)
    asked_before = previous[before.start : before.end].split()
    words = [
        word
        for word in search_query(previous).split()
        if word not in asked_before and find_focus(f"{question} {word}").kind is ask
    ]
    new = [word for word in words if own.isdisjoint(token.term for token in tokens(word))]
    return " ".join([question, *new])


def _substitute_parts(previous: str, rest: str) -> str:
    """Return the previous question with its names, numbers or words replaced by those of the follow-up.

    >>> _substitute_parts("How many sailed to Saltby in 2024?", "to Orla in 2023")
    'How many sailed to Orla in 2023?'
    >>> _substitute_parts("How many sailed in 2024?", "on Sundays")
    'How many sailed in 2024 on Sundays?'
    """
    head, *phrases = _PARTS.split(rest)
    whole = _substitute_head(previous, head.strip()) if head.strip() else previous
    for preposition, thing in zip(phrases[::2], phrases[1::2], strict=True):
        pattern = _same_kind_pattern(thing.strip(), rf"\b(?i:{preposition})\s+")
        match = pattern.search(whole) if pattern else None
        if match:
            whole = whole[: match.start("thing")] + thing.strip() + whole[match.end("thing") :]
        else:
            whole = _append_words(whole, f"{preposition.lower()} {thing.strip()}")
    return whole


def _substitute_head(previous: str, head: str) -> str:
    """Return the previous question with its only name or number replaced by words without a preposition.

    >>> _substitute_head("When was the Fulmar launched?", "the Little Auk")
    'When was the Little Auk launched?'
    >>> _substitute_head("When was the Fulmar launched?", "bicycles")
    'When was the Fulmar launched bicycles?'
    """
    terms = {token.term for token in tokens(previous)}
    if terms.issuperset(token.term for token in tokens(head)):
        return previous
    pattern = _same_kind_pattern(head, "")
    matches = [match for match in pattern.finditer(previous) if match.start("thing")] if pattern else []
    if len(matches) != 1 or _WORD_ALONE.fullmatch(head):
        return _append_words(previous, head)
    return previous[: matches[0].start("thing")] + head + previous[matches[0].end("thing") :]


def _same_kind_pattern(thing: str, prefix: str) -> re.Pattern[str] | None:
    """Compile a pattern of things of the same kind, a number, a name or a word; None for no kind.

    >>> pattern = _same_kind_pattern("2023", "in ")
    >>> pattern.search("How many sailed to Saltby in 2024?")["thing"]
    '2024'
    """
    bare = _ARTICLE.sub("", thing, count=1) if _ARTICLE.match(thing) else thing
    for kind, end in ((_NUMBER, ""), (_NAME, ""), (_WORD, _END)):
        if re.fullmatch(kind, bare):
            return re.compile(rf"{prefix}(?P<thing>(?:(?:the|an|a)\s+)?\b{kind}){end}")
    return None


def _append_words(question: str, words: str) -> str:
    """Append words to a question, before its question mark.

    >>> _append_words("How many sailed in 2024?", "on Sundays")
    'How many sailed in 2024 on Sundays?'
    """
    body = question.rstrip(" ?!.")
    return f"{body} {words}{question[len(body) :].strip()}"
