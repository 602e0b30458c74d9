"""The analysis of a question: the words worth searching, the kind of its answer, the things that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.pointers import PAGE_ABBREVIATIONS, find_page_mentions, named_pages
from vrag.text.terms import STOP_WORDS, Token, is_cjk, is_number, stem, tokens


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
    | list\ all | (?:the|your)\ (?:answer|response|reply))\b
    | (?:bitte\s+)?(?:antworten? | runden? | geben? | gib | schreiben? | formatieren? | die\ antwort)\b
    | (?:veuillez\s+)?(?:répon(?:ds|dez|dre) | arrondi(?:s|ssez) | la\ réponse)\b
    | (?:por\ favor,?\s+)?(?:responder? | responda | redonde[ae] | la\ respuesta)\b
    | [请請](?:用|以|按|保留|只|简|簡|直接|四|[将將]) | 答案 | 回答
    | [结結]果保留 | 保留 | [用以].{1,6}格式""",
    re.IGNORECASE | re.VERBOSE,
)
_CONDITION = re.compile(
    r"""(?:please\s+)?(?:keep | express | output | provide | use | do\ not | don't | no | only
    | if\ (?:there\ is\ no | no | the\ (?:answer|question) | you\ (?:cannot|can't|do)) | falls | wenn | si)\b
    | 只需 | 如果 | 若""",
    re.IGNORECASE | re.VERBOSE,
)
"""Beginnings of sentences that may be about the answer, or about anything else."""
_FORM = re.compile(
    r"""\b(?:format(?:ted)? | list\ format | int(?:eger)?\b | float | decimals? | round(?:ed)?
    | percent(?:age)?\ terms? | alphabetical | ascending | descending | directly\ answer | answer\ in
    | answer\ with | in\ million | in\ billion | yes'?\ or\ '?no | for\ example)
    | \b(?:answers? | respond | response | reply | it | be)\b[^.]*\b(?:concise | brief | short)(?:ly)?\b
    | \b(?:not\ |un)answerable\b | \bcannot\ be\ answered\b | \b(?:json | markdown | bullet\ points)\b
    | \bcomma[- ]separated\b | \bsignificant\ (?:digits|figures)\b | \b(?:with|without)\ units?\b
    | \bin\ einem\ (?:wort|satz)\b
    | \b(?:nach)?kommastellen?\b | \bganze\ zahl\b | \bals\ liste\b | \bkurz\b
    | \bdécimales?\b | \b(?:en|sous\ forme\ de)\ liste\b | \bbrièvement\b | \bdecimales\b | \ben\ una\ lista\b
    | 格式 | 整[数數] | 小[数數] | 四[舍捨]五入
    | [简簡]短 | [简簡][洁潔] | [中英]文回答 | 是或否""",
    re.IGNORECASE | re.VERBOSE,
)
_ABOUT_ANSWER = re.compile(
    r"""\b(?:(?:answers? | response | reply | it)\b[^.]*\b(?:concise | brief | short)(?:ly)?
    | expla(?:in|nations?)
    | (?:not\ |un)answerable | cannot\ be\ answered | (?:one|single|few)\ (?:words?|sentences?)
    | short\ sentences? | nicht\ beantwortbar | keine\ antwort | sans\ réponse | sin\ respuesta)\b
    | (?:[无無]法|不能)回答 | [没沒]有答案""",
    re.IGNORECASE | re.VERBOSE,
)
_EXAMPLE = re.compile(
    r"""(?:,\s*)?(?:\be\.\s?g\.?|\bfor\ example\b|\bsuch\ as\b)\s*,?\s*\[[^\]]*\]?
    | (?<=format)\s*:?\s*\[[^\]]*\] | \[\s*['"‘“][^\]]*\]""",
    re.IGNORECASE | re.VERBOSE,
)
"""Examples of lists in instructions. Brackets stand in questions, too: `array[0]`, `[2019]`."""
_EASTERN_FORM = re.compile(
    r"[，,；;]\s*(?:[请請]|[结結]果|答案)*(?:保留[一二两兩三四\d]+位小[数數]|四[舍捨]五入[^。？！，]*"
    r"|[用以](?:列表|整[数數]|JSON)[^。？！，]*)(?=[。？！]|$)"
)
"""A clause about the form at the end of a question in Chinese."""
_SENTENCE_END = re.compile(
    r"""(?<=[a-z0-9)'"”][.?!])\s*(?=[A-Z]) | (?<=[.?!])\s+ | (?<=[?？。！])""", re.VERBOSE
)
_QUOTED = re.compile(r"[\"“]([^\"”]{2,})[\"”]|(?<!\w)[`'‘]([^`'’]{2,})[`'’](?!\w)|[《「『][^》」』]+[》」』]")
_POINTER = re.compile(
    r"\b(fig(?:ure)?s?|charts?|tables?)\.?\s*(\d+(?:[-.]\d+)*)|([图圖表])\s*(\d+(?:[-.]\d+)*)",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"""请问 | 是?(?:什么|多少|哪[些个里儿]|哪一[个年]?|谁|几[个点天次种]|怎么样|何时) | 怎么 | 怎样 | 如何
    | 为什么 | 是否 | 吗 | 呢 | 的 | 何ですか | ですか | はどこ | はいつ | は何 | いくら | いくつ | は誰
    | 무엇입니까 | 무엇 | 얼마 | 언제 | 어디 | 누구""",
    re.VERBOSE,
)
"""Question words in scripts that do not separate words."""
_PUNCTUATION = ".,;:?!()[]{}\"'“”‘’`？。，、：；！（）《》「」『』"
_PAGE_WORDS = frozenset({"page", "pages", "seite", "seiten", "página", "pagina"})
_CHINESE_BREAKS = re.compile(r"(?<=[\u4e00-\u9fff])[是在有和与由中为了](?=[\u4e00-\u9fff\s]|$)")
"""Single Chinese characters that usually separate words."""


def parse(question: str) -> QuestionAnalysis:
    """Take a question apart."""
    core = without_form(question)
    pointers: dict[Pointer, None] = {}
    for match in _POINTER.finditer(core):
        latin, number, chinese, chinese_number = match.groups()
        if latin:
            pointer = Pointer("table" if latin[0].lower() == "t" else "figure", number)
        else:
            pointer = Pointer("table" if chinese == "表" else "figure", chinese_number)
        pointers[pointer] = None
    for mention in find_page_mentions(core):
        pointers |= dict.fromkeys(Pointer("page", number) for number in mention.numbers)
    return QuestionAnalysis(core, _terms(core), find_focus(question).kind, tuple(pointers))


def search_query(question: str) -> str:
    """Return the words of a question worth searching, in their order.

    Instructions about the form of the answer and question words are dropped; names, numbers and
    quoted strings stay. Where nothing would remain, the question itself is returned.

    >>> search_query("What is the USCA case number? Answer in int format.")
    'USCA case number'
    """
    words = (
        raw if raw.casefold() in PAGE_ABBREVIATIONS else raw.strip(_PUNCTUATION)
        for raw in _ASKING.sub(" ", without_form(question)).split()
    )
    content = [word for word in words if any(not _is_stop(word, token) for token in tokens(word))]
    if named_pages(" ".join(content)) - named_pages(question):  # "the page about 5 fees"
        content = [word for word in content if word.casefold() not in _PAGE_WORDS] or content
    return " ".join(content) or question.strip()


def without_form(question: str) -> str:
    """Return the question without its instructions for the form of the answer; all of it if none is left."""
    plain = _EASTERN_FORM.sub("", _EXAMPLE.sub(" ", question))
    parts = [part.strip() for part in _SENTENCE_END.split(plain) if part.strip()]
    kept = [part for part in parts if not _is_instruction(part)]
    return " ".join(kept or parts) or question.strip()


def _is_instruction(sentence: str) -> bool:
    """Return whether a sentence says how to write the answer: it asks nothing itself."""
    is_question = sentence.endswith(("?", "？"))
    if is_question:
        return False
    is_instruction = _INSTRUCTION.match(sentence) and (
        _FORM.search(sentence) or _ABOUT_ANSWER.search(sentence)
    )
    return bool(is_instruction or (_CONDITION.match(sentence) and _ABOUT_ANSWER.search(sentence)))


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
    for start, end, _ in find_page_mentions(core):
        plain = plain[:start] + " " * (end - start) + plain[end:]
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
