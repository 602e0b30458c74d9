"""Types of spans, told from their characters: a year, an amount, a name, a clause."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from vrag.reading.questions.answer_types import AnswerKind


class SpanType(IntEnum):
    """The type of a span."""

    OTHER = 0
    PERCENT = 1
    MONEY = 2
    YEAR = 3
    DATE = 4
    TIME = 5
    DURATION = 6
    NUMBER = 7
    QUANTITY = 8
    """A number with a unit or a thing counted."""
    ACRONYM = 9
    NAME = 10
    """Several capitalised words or katakana."""
    CAPITAL = 11
    """One capitalised word."""
    PLACE = 12
    ORGANISATION = 13
    PERSON = 14
    QUOTED = 15
    CLAUSE = 16
    WORD = 17
    """One or two words in lower case."""
    PHRASE = 18
    LINK = 19
    COLOR = 20
    LIST = 21


VALUE_TYPES = frozenset(
    {
        SpanType.PERCENT,
        SpanType.MONEY,
        SpanType.YEAR,
        SpanType.DATE,
        SpanType.TIME,
        SpanType.DURATION,
        SpanType.NUMBER,
        SpanType.QUANTITY,
    }
)
"""The types of amounts and dates."""


def _compile(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


MONTHS = r"""(?:january|february|march|april|may|june|july|august|september|october|november
    |december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|januar|februar|märz|mai|juni|juli|oktober
    |dezember|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre
    |января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря|ianuarie
    |februarie|martie|aprilie|iunie|iulie|septembrie|octombrie|noiembrie|decembrie|ocak|şubat|mart|nisan
    |mayıs|haziran|temmuz|ağustos|eylül|ekim|kasım|aralık|ιανουαρίου|φεβρουαρίου|μαρτίου|απριλίου|μαΐου
    |ιουνίου|ιουλίου|αυγούστου|σεπτεμβρίου|οκτωβρίου|νοεμβρίου|δεκεμβρίου)"""
_N = r"""(?:\d[\d.,]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty
    |thirty|forty|fifty|sixty|eighty|ninety|hundreds?|thousands?|millions?|billions?|half|dozens?|zwei
    |drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf|hundert|dos|tres|cuatro|cinco|seis|siete|ocho
    |nueve|diez|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять|doi|două|trei|patru|cinci|iki|üç
    |dört|beş|altı|yedi|sekiz|dokuz|on|hai|ba|bốn|năm|sáu|bảy|tám|chín|mười|δύο|τρεις|τρία|τέσσερις?
    |πέντε|έξι|[一二三四五六七八九十百千万億两]+)"""
_LEAD = r"""^(?:(?:about|around|over|nearly|almost|more\ than|less\ than|up\ to|approximately|some
    |at\ least|only|just|the|a|in|on|by|since|from|until|etwa|rund|über|circa|unos|около|более|约|約
    |大约|超过|近|共|第|全|お?よそ)\s*)*"""

_PATTERNS: tuple[tuple[SpanType, re.Pattern[str]], ...] = (
    (SpanType.LINK, _compile(r"^\S+@\S+\.\w+$ | ^(?:https?://|www\.)\S+$")),
    (
        SpanType.PERCENT,
        _compile(
            rf"""{_LEAD}{_N}[\d\s.,–-]*\s*(?:%|％|percent\b|per\ cent|prozent|por\ ciento|процент
                |パーセント|割|yüzde|τοις)|^%\s?\d|^百分之|^yüzde\s\d|^(?:one|two|three)[\s-](?:third
                |quarter|fifth)s?$"""
        ),
    ),
    (
        SpanType.MONEY,
        _compile(
            rf"""{_LEAD}(?:us)?[$€£¥₤]\s?\d | {_LEAD}{_N}[\d\s.,]*\s*(?:million|billion|trillion|万
                |億|亿|千)?\s*(?:dollars?|euros?|pounds?|usd|eur|€|\$|£|yen|円|元|美元|日元|ドル|ユーロ
                |ポンド|доллар|dólares|dolari|lei|cents?)"""
        ),
    ),
    (
        SpanType.DATE,
        _compile(
            rf"""{_LEAD}\d{{1,2}}(?:st|nd|rd|th|\.)?\s*(?:of\s|de\s)?{MONTHS}\b
                | {_LEAD}{MONTHS}\s(?:\d|of) | {_LEAD}{MONTHS}$ | ^\d{{2,4}}年\d
                | ^\d{{1,2}}月(?:\d{{1,2}}日)? | ^\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}$
                | ^(?:昭和|平成|明治|大正|令和|民国|公元前?)\d"""
        ),
    ),
    (
        SpanType.YEAR,
        _compile(
            r"""^(?:in\ |im\ jahr\ |early\ |late\ |mid-?\s?|the\ |years?\ |año\ |năm\ |в\ )?
                (?:1[0-9]|20)\d\ds?(?:\s?[-–]\s?\d{2,4})?$ | ^\d{1,4}年(?:代|度)?$
                | ^\d{1,2}世紀|^\d{1,2}世纪 | \bcentur(?:y|ies)$
                | ^(?:the\ )?\d{1,2}(?:st|nd|rd|th)\ centur | \b\d+\s?(?:bc|ad|bce|ce)$"""
        ),
    ),
    (
        SpanType.TIME,
        _compile(
            r"^\d{1,2}[:.]\d\d(?:\s?[ap]\.?m)?$ | ^\d{1,2}\s?[ap]\.?m\.?$ | \d時(?:\d+分)?頃?$ | ^[上下]午\d"
        ),
    ),
    (
        SpanType.DURATION,
        _compile(
            rf"""{_LEAD}{_N}[\s\d.,-]*\s*(?:years?|months?|weeks?|days?|hours?|minutes?|seconds?
                |decades?|jahren?|monate?n?|tagen?|stunden?|minuten|años?|meses|días?|horas|лет|года?
                |месяц\w*|дн\w+|ani|luni|zile|yıl|ay|gün|saat|χρόνια|年間|か月|ヶ月|日間|時間|分間?|週間
                |天|小时|个月|分钟)$"""
        ),
    ),
    (SpanType.NUMBER, _compile(rf"{_LEAD}{_N}(?:[\s-](?:and\s)?{_N})*(?:st|nd|rd|th|\.)?$")),
    (SpanType.QUANTITY, _compile(rf"{_LEAD}{_N}(?:[\s-]{_N})*[\s-]?(?:\S+\s?){{1,3}}$")),
    (
        SpanType.COLOR,
        _compile(
            r"""^(?:(?:dark|light|bright)\s)?(?:red|green|blue|yellow|orange|purple|pink|brown|black
                |white|gr[ae]y|gold|silver|[红绿蓝黄黑白紫]色|[赤青緑黄黒白]色?)$"""
        ),
    ),
)
_MAY_BE_PATTERN = _compile(
    rf"""\d | [@%％$€£¥₤] | :// | ^www | ^百分 | centur | {_LEAD}(?:{_N}|{MONTHS}|世[紀纪])
        | ^(?:dark|light|bright|red|green|blue|yellow|orange|purple|pink|brown|black|white|gr[ae]y
        |gold|silver|[红绿蓝黄黑白紫赤青緑])"""
)
"""Spans without a match match none of the patterns, which would take longer to see."""
_ACRONYM = re.compile(r"^(?:[A-Z]\.?){2,}[\dA-Z-]*s?$")
_PLACE_ENDS = tuple(
    """省 市 县 州 国 區 区 镇 村 岛 山 河 湖 县城 地区 地方 洲 県 都 府 道 町 島 川 駅 城 谷 半島 海
    港""".split()
)
_PLACE_WORDS = frozenset(
    """City County River Island Islands Lake Mountain Mountains Street Avenue Park Valley Bay Ocean Sea
    Beach Province State Republic Kingdom Hall Stadium Square Bridge Coast""".split()
)
_ORGANISATION_ENDS = tuple(
    """公司 大学 大學 集团 学院 学校 中学 协会 俱乐部 银行 政府 委员会 党 队 軍 军 社 会社 会 団 局 省庁
    銀行 研究所 部 院 新聞 テレビ""".split()
)
_ORGANISATION_WORDS = frozenset(
    """Company Corporation Inc Ltd University College School Institute Association Party Society Church
    Club Agency Committee Council Department Ministry Foundation Group Union Bank Network Records Army
    Court Commission Office Board Museum Library""".split()
)
_PERSON_ENDS = tuple("先生 教授 氏 さん 王 帝 夫人 博士 天皇 皇帝 公 妃".split())
_PERSON = re.compile(
    r"""(?:Mr|Mrs|Dr|Sir|King|Queen|President|Lord|Lady|Pope|Prince|Emperor|General|St)\b\.?\s?[A-Z]
        |[\u30a1-\u30faー]+[・·][\u30a1-\u30faー・·]+$|[\u4e00-\u9fff]{1,5}·[\u4e00-\u9fff·]+$""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_LIST = re.compile(r",\s.*\b(?:and|or|und|y|и|și|ve|και)\b|、.*(?:、|と|和)|，.*和")
_CLAUSE_ENDS = "ため", "から", "こと", "ので"
_CLAUSE = re.compile(
    r"""(?:to|because|by|due|for|that|as|so|through|in\ order|when|if|weil|um|durch|porque|para
        |因为|由于|为了|чтобы|потому)\b""",
    re.IGNORECASE | re.VERBOSE,
)


@lru_cache(maxsize=65_536)
def type_of_span(span: str, quoted: bool = False) -> SpanType:
    """Return the type of a span.

    >>> type_of_span("3.5 %").name, type_of_span("12 March 1998").name, type_of_span("Ada Lovelace").name
    ('PERCENT', 'DATE', 'NAME')
    """
    short = span[:200]
    if _MAY_BE_PATTERN.search(short):
        for kind, pattern in _PATTERNS:
            if pattern.search(short):
                return kind
    if _ACRONYM.match(short):
        return SpanType.ACRONYM
    words: list[str] = _WORD.findall(short)
    return (_kind_of_name(short, words) if len(short) < 60 else None) or _look_of_words(span, words, quoted)


def _kind_of_name(span: str, words: list[str]) -> SpanType | None:
    """Return whether a span names a person, an organisation or a place, by its title or last word."""
    if span.endswith(_PERSON_ENDS) or _PERSON.match(span):
        return SpanType.PERSON
    if span.endswith(_ORGANISATION_ENDS) or not _ORGANISATION_WORDS.isdisjoint(words):
        return SpanType.ORGANISATION
    if span.endswith(_PLACE_ENDS) or (words and words[-1] in _PLACE_WORDS):
        return SpanType.PLACE
    return None


def _look_of_words(span: str, words: list[str], quoted: bool) -> SpanType:
    """Return the type of a span by its words alone."""
    if quoted:
        return SpanType.QUOTED
    if len(words) > 9 or _CLAUSE.match(span) or span.endswith(_CLAUSE_ENDS):
        return SpanType.CLAUSE
    if ("," in span or "、" in span or "，" in span) and _LIST.search(span):
        return SpanType.LIST
    capitals = sum(word[0].isupper() for word in words)
    if words and capitals >= max(1, len(words) - 2) and words[0][0].isupper():
        return SpanType.CAPITAL if len(words) == 1 else SpanType.NAME
    return SpanType.WORD if len(words) <= 2 and len(span) < 25 else SpanType.PHRASE


_GROUPS: dict[AnswerKind, int] = {
    AnswerKind.PERCENT: 0,
    AnswerKind.MONEY: 1,
    AnswerKind.DURATION: 2,
    AnswerKind.TIME: 3,
    AnswerKind.YEAR: 3,
    AnswerKind.DATE: 3,
    AnswerKind.NUMBER: 4,
    AnswerKind.COUNT: 4,
    AnswerKind.COMPUTE: 4,
    AnswerKind.PHONE: 4,
    AnswerKind.PERSON: 5,
    AnswerKind.PLACE: 6,
    AnswerKind.ORGANISATION: 7,
    AnswerKind.REASON: 8,
    AnswerKind.MANNER: 8,
    AnswerKind.NAME: 9,
    AnswerKind.LIST: 10,
    AnswerKind.DEFINITION: 11,
}
GROUPS = 13
"""Groups of kinds of answers that are told apart for the agreement with spans."""


def group_of(kind: AnswerKind) -> int:
    """Return the group of a kind of answer."""
    return _GROUPS.get(kind, 12)


AGREES: dict[AnswerKind, frozenset[SpanType]] = {
    AnswerKind.PERCENT: frozenset({SpanType.PERCENT}),
    AnswerKind.MONEY: frozenset({SpanType.MONEY}),
    AnswerKind.DURATION: frozenset({SpanType.DURATION}),
    AnswerKind.TIME: frozenset({SpanType.TIME}),
    AnswerKind.YEAR: frozenset({SpanType.YEAR}),
    AnswerKind.DATE: frozenset({SpanType.DATE, SpanType.YEAR, SpanType.TIME}),
    AnswerKind.NUMBER: frozenset({SpanType.NUMBER, SpanType.QUANTITY, SpanType.PERCENT, SpanType.MONEY}),
    AnswerKind.COUNT: frozenset({SpanType.NUMBER, SpanType.QUANTITY}),
    AnswerKind.COMPUTE: frozenset({SpanType.NUMBER, SpanType.QUANTITY, SpanType.PERCENT, SpanType.MONEY}),
    AnswerKind.PERSON: frozenset({SpanType.NAME, SpanType.PERSON, SpanType.CAPITAL}),
    AnswerKind.PLACE: frozenset({SpanType.PLACE, SpanType.NAME, SpanType.CAPITAL}),
    AnswerKind.ORGANISATION: frozenset({SpanType.ORGANISATION, SpanType.NAME, SpanType.ACRONYM}),
    AnswerKind.REASON: frozenset({SpanType.CLAUSE, SpanType.PHRASE}),
    AnswerKind.MANNER: frozenset({SpanType.CLAUSE, SpanType.PHRASE}),
    AnswerKind.LIST: frozenset({SpanType.LIST}),
    AnswerKind.EMAIL: frozenset({SpanType.LINK}),
    AnswerKind.LINK: frozenset({SpanType.LINK}),
    AnswerKind.PHONE: frozenset({SpanType.NUMBER}),
    AnswerKind.COLOR: frozenset({SpanType.COLOR}),
}
"""Types of spans that answer each kind of question."""
