"""The claims of an answer: its sentences, and the numbers and dates in them.

Names are no claims of their own: a sentence is checked by them. Code, mathematics, headings and the marks of
Markdown assert nothing, and neither does a single word, unless it is the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vrag.reading.verification.claim import Claim, ClaimKind
from vrag.reading.verification.text_values import CODE, TextValue, find_values
from vrag.text.terms import STOP_WORDS, is_cjk

MAX_ANSWER = 20_000
"""Characters of an answer that are read."""
SHORT = 60
"""Characters up to which an answer without other words may be a name alone."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_NO_TEXT = re.compile(
    r"""^[ ]{0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^[ ]{0,3}(?P=fence)|.*\Z)
    | (?P<ticks>`+)(?!`)[^\n]{1,400}?(?<!`)(?P=ticks)(?!`)
    | \$\$.{1,2000}?\$\$ | \\\[.{1,2000}?\\\] | \\\([^\n]{1,400}?\\\)
    | (?<![\w\\$])\$(?=[^\s$])(?=[^\n$]{0,400}[\\^_={}])[^\n$]{0,400}(?<=\S)\$(?![\w$])
    | ^[ ]{0,3}\#{1,6}[ ][^\n]*""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
"""Blocks and spans of code, mathematics and headings."""
_MARKUP = re.compile(
    r"""^[ \t>]*(?:\#{1,6}[ ]+ | [-*+•▪●◦–][ \t]+ | \d{1,3}[.)][ \t]+)(?=\S)
    | ^[ \t]*(?:\|.*\n[ \t]*)?(?=[^\n]{0,400}---)[ \t:|-]+$
    | \[\d{1,3}\](?!\() | \]\([^)\s]*\) | !\[ | [\[\]]
    | \*\*|__|`+|~~|\$\$ | (?<=\s)\*(?=\S)|(?<=\S)\*(?=\s|$)""",
    re.MULTILINE | re.VERBOSE,
)
"""Marks of Markdown, heads of tables, and the numbers of lists and citations, which state nothing."""
_ABBREVIATIONS = (
    "Dr Mr St No ca vs Mrs Inc Gen Rev Col Fig Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec Prof Sept e.g i.e"
).split()
_NO_END = "".join(rf"(?<!\b{re.escape(word)})" for word in _ABBREVIATIONS)
_SENTENCE_END = re.compile(
    rf"""[。！？]+["”’」』)）]* | \n+ | ;(?=\s)
    | (?<![A-Z]){_NO_END}[.!?]+["”’)\]]*(?=\s+[^a-z\s]|\s*$)""",
    re.VERBOSE,
)
_UPPER = "[A-ZÀ-ÖØ-ÞĂĆČĎĐĞİŁŃŇŐŘŚŞŠŤŮŰŹŻŽȘȚΑ-ΩΆ-ΏА-ЯЁІЇЄ]"
_LETTER = rf"[^\W_{_CJK}]"
_WORD = rf"(?:[A-Z]\.){{2,}}|{_UPPER}(?:{_LETTER}|['’.&-](?={_LETTER}))*"
_LINK = r"""[ \u00a0] | \s?&\s?
    | [ ](?:of|de|la|le|du|del|der|den|van|von|the|al|bin|y)[ ](?:(?:the|la|der)[ ])?"""
"""The text between the words of a name."""
_NAME = re.compile(rf"(?<![\w])(?:{_WORD})(?:(?:{_LINK})(?:{_WORD}))*", re.VERBOSE)
_QUOTED = re.compile(
    r"[“\"]([^\s“”\",.;，。；]{1,40}(?:\s[^\s“”\",.;，。；]{1,40}){0,5})[”\"]|[《「『]([^《》「」『』\n，。]{1,16})[》」』]"
)
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|wird|wurde|dem|den|nicht|ein|eine|mit|für|im|auf)\b")
"""Words of German, which writes all nouns with a capital letter."""
_NO_PART = "的是在由於于被为為了和与與者到从從把對对將将及或个個位名叫有個就给給"
_PART = rf"(?:(?![{_NO_PART}])[\u4e00-\u9fff])"
_CJK_NAME = re.compile(
    rf"""[\u30a1-\u30faー]{{3,}}(?:[・·][\u30a1-\u30faー]+)*|{_PART}{{1,5}}(?:·{_PART}{{1,6}})+
    | (?<![A-Za-z])[A-Z][A-Za-z0-9.-]+(?=[{_CJK}]) | (?<=[{_CJK}])[A-Z][A-Za-z0-9.-]+""",
    re.VERBOSE,
)
_LABEL = re.compile(r"[^:：.。\n]{1,60}[:：](?!\d|//)")
_NO_NAMES = frozenset(
    """i yes no not answer note total figure table page source it's the this that however therefore thus
    overall additionally moreover furthermore according based both each all none there here these those
    january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday mr mrs ms dr""".split()
)
_FRAME = re.compile(
    r"""\W*(?:according\ to\ (?:the|this)\ \w+ | as\ (?:the|stated\ in\ the)\ \w+\ ?(?:says|states|shows)?
    | the\ (?:answer|page|document|text|report|table|figure)\ (?:is|states|says|shows|reports)(?:\ that)?
    | (?:根据|根據|据)[^，,]{1,8} | 文中提到 | 答案是 | 文中)[,，:：]?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a sentence that only says where something stands."""
_JOINS = re.compile("[和与與及至到年月日约約から]+|to|and|or|und|bis")
"""Words between the entries of a list or the ends of a range."""


class SentenceName(NamedTuple):
    """A name in a sentence of an answer."""

    start: int
    end: int
    text: str


class ReadSentence(NamedTuple):
    """A sentence of an answer with the claims and names in it."""

    start: int
    end: int
    claims: tuple[Claim, ...]
    """Numbers and dates, in order."""
    names: tuple[SentenceName, ...]
    """The names that it is checked by, in order."""
    values: tuple[TextValue, ...]
    """The values of the numbers and dates, with offsets in the answer."""
    content: int
    """Where the words begin that state something."""
    is_alone: bool
    """True if there is nothing else in it than these claims."""
    is_named: bool
    """True if there is nothing else in it than claims and names."""

    def as_claim(self, answer: str) -> Claim:
        """Return the sentence as a claim."""
        return Claim(ClaimKind.SENTENCE, self.start, self.end, answer[self.start : self.end])


def extract_claims(answer: str) -> tuple[Claim, ...]:
    """Return the claims of an answer: those in a sentence, in order, and then the sentence itself.

    A sentence that is nothing but a number, a date or names is no further claim.

    >>> [(claim.kind.value, claim.text) for claim in extract_claims("In Oslo it fell by 4 %.")]
    [('number', '4 %'), ('sentence', 'In Oslo it fell by 4 %.')]
    """
    found: list[Claim] = []
    for sentence in read_statements(answer):
        found += sentence.claims
        if not sentence.is_alone:
            found.append(sentence.as_claim(answer))
    return tuple(found)


def read_statements(answer: str) -> list[ReadSentence]:
    """Return the sentences of an answer that assert something.

    A single word asserts nothing beside sentences, and neither does a line that only leads to what follows,
    such as "These are:".
    """
    plain = _MARKUP.sub(_blank, _NO_TEXT.sub(_blank, answer[:MAX_ANSWER]))
    sentences = [
        sentence
        for sentence in _read_plain(answer, plain)
        if sentence.claims or not plain[: sentence.end].rstrip().endswith((":", "："))
    ]
    words = [_count_words(plain[sentence.content : sentence.end]) for sentence in sentences]
    are_words = all(count < 2 for count in words)
    return [
        sentence
        for count, sentence in zip(words, sentences, strict=True)
        if count > 1 or are_words or sentence.claims
    ]


def _count_words(text: str) -> int:
    """Return the number of words of a text; ideographs count as words."""
    return len(re.findall(rf"[{_CJK}]|[^\W{_CJK}]+(?:['’-]\w+)*", text))


def read_sentences(answer: str) -> list[ReadSentence]:
    """Return the sentences of an answer, lines of lists and cells of tables included, with their claims."""
    return _read_plain(answer, _MARKUP.sub(_blank, answer[:MAX_ANSWER]))


def _read_plain(answer: str, plain: str) -> list[ReadSentence]:
    """Return the sentences of an answer without the marks that `plain` has blanks for."""
    ranges = list(_split(plain))
    words = re.findall(r"[^\W\d_]+", plain)
    small = sum(word.islower() and word not in STOP_WORDS for word in words)
    alone = len(ranges) == 1 and len(plain.strip()) <= SHORT and small == 0
    return [_read_sentence(answer, plain, start, end, alone) for start, end in ranges]


def _blank(match: re.Match[str]) -> str:
    """Return as many blanks, with the line breaks kept."""
    return re.sub(r"[^\n]", " ", match.group())


def _split(plain: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the sentences without blanks around."""
    at = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(plain)), len(plain)]:
        piece = plain[at:end].strip(" \t\r\n|\u00a0\u3000")
        if any(sign.isalnum() for sign in piece):
            start = plain.index(piece, at)
            yield start, start + len(piece)
        at = end


def _read_sentence(answer: str, plain: str, start: int, end: int, short: bool) -> ReadSentence:
    text = plain[start:end]
    values = [value for value in find_values(text) if not (value.spelled and value.ordinal)]
    claims = tuple(
        Claim(
            ClaimKind.DATE if value.is_date else ClaimKind.NUMBER,
            start + value.start,
            start + value.end,
            answer[start + value.start : start + value.end],
        )
        for value in values
    )
    taken = [(value.start, value.end) for value in values]
    names: list[SentenceName] = []
    for first, last in _find_names(text, short):
        if all(last <= one or other <= first for one, other in taken):
            taken.append((first, last))
            names.append(SentenceName(start + first, start + last, answer[start + first : start + last]))
    frame = _FRAME.match(text)
    content = frame.end() if frame and frame.end() < len(text) else 0
    rest = list(" " * content + text[content:])
    for first, last in taken:
        rest[first:last] = " " * (last - first)
    words = re.findall(r"\w+", "".join(rest))
    is_named = bool(taken) and all(word.lower() in STOP_WORDS or _JOINS.fullmatch(word) for word in words)
    return ReadSentence(
        start,
        end,
        claims,
        tuple(sorted(names)),
        tuple(value.moved(start) for value in values),
        start + content,
        is_named and not names,
        is_named,
    )


def _find_names(text: str, short: bool) -> Iterator[tuple[int, int]]:
    """Yield the ranges of names; those that are quoted and codes come first."""
    for pattern in (_QUOTED, CODE):
        for match in pattern.finditer(text):
            yield match.span(match.lastindex or 0)
    label = _LABEL.match(text)
    begin = label.end() if label else 0
    is_german = len(_GERMAN.findall(text)) > 1
    for match in _NAME.finditer(text):
        for start, end in _trim(text, match.start(), match.end(), begin, short):
            if not is_german or _is_acronym(text[start:end]) or _TWO_CAPITALS.search(text[start:end]):
                yield start, end
    for match in _CJK_NAME.finditer(text):
        yield match.span()
    if short and is_cjk(text) and len(text) <= 14 and not re.search("[，。；：、]", text):
        yield 0, len(text)


def _trim(text: str, start: int, end: int, begin: int, short: bool) -> Iterator[tuple[int, int]]:
    """Yield the range of a name without common words at its beginning; nothing if it is no name."""
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", text[start:end])]
    while (
        words
        and text[start + words[0][0] : start + words[0][1]].lower().strip("'’.,") in STOP_WORDS | _NO_NAMES
    ):
        words = words[1:]
    if not words or start < begin:
        return
    first, last = start + words[0][0], end
    name = text[first:last]
    leads = not text[:first].strip(" \"“'(*")
    is_single = len(words) == 1
    if leads and is_single and not short and not _is_acronym(name):
        return
    if len(name) < 2:
        return
    if name.endswith(("'s", "’s")):
        last -= 2
    yield first, last


_TWO_CAPITALS = re.compile(rf"{_UPPER}\S* {_UPPER}")


def _is_acronym(name: str) -> bool:
    """Return whether a word has several capital letters."""
    return " " not in name and sum(letter.isupper() for letter in name) >= 2
