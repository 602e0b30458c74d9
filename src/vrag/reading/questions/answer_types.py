"""The kind of answer that a question asks for, and the words of the question that ask."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class AnswerKind(StrEnum):
    """A kind of answer."""

    COLOR = "color"
    EMAIL = "email"
    LINK = "link"
    PHONE = "phone"
    COMPUTE = "compute"
    """A number that has to be computed."""
    COUNT = "count"
    """A number of things on a page, which has to be counted."""
    PERCENT = "percent"
    MONEY = "money"
    DURATION = "duration"
    TIME = "time"
    YEAR = "year"
    DATE = "date"
    NUMBER = "number"
    PERSON = "person"
    PLACE = "place"
    ORGANISATION = "organisation"
    REASON = "reason"
    MANNER = "manner"
    """The way in which something is done."""
    YES_NO = "yes_no"
    LIST = "list"
    DEFINITION = "definition"
    NAME = "name"
    """The name or term for something."""
    THING = "thing"
    """Anything else that "what" or "which" asks for."""
    TEXT = "text"


class QuestionFocus(NamedTuple):
    """The kind of answer, and the words of the question that ask for it."""

    kind: AnswerKind
    start: int
    end: int
    """`question[start:end]` are the words that ask; empty at the end if there are none."""


def _compile(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_THINGS = r"""(?:pages?|slides?|sections?|chapters?|figures?|subfigures?|tables?|charts?|bars?
    |images?|pictures?|photos?|icons?|lines?|columns?|rows?|steps?)"""

_PATTERNS: tuple[tuple[AnswerKind, re.Pattern[str]], ...] = (
    (
        AnswerKind.COLOR,
        _compile(
            r"""\b (?:what|which) (?:'s|\ is|\ are|\ was|\ were)? (?:\ the)?
                (?:\ (?!with\b|in\b|of\b|do\b|does\b|did\b)[\w'’-]+){0,3} \s+ colou?rs? \b
                | 什么颜色 | 何色 | 颜色 | (?:die|welche)\ farbe"""
        ),
    ),
    (AnswerKind.EMAIL, _compile(r"\b e-?mail \b | 邮箱 | 邮件地址 | メールアドレス")),
    (
        AnswerKind.LINK,
        _compile(
            r"\b (?:url|web\ ?site|web\ address|hyperlink) \b | 网址 | 网站地址 | ホームページのアドレス"
        ),
    ),
    (AnswerKind.PHONE, _compile(r"\b (?:tele)?phone\ number \b | 电话号码 | 電話番号")),
    (
        AnswerKind.COMPUTE,
        _compile(
            r"""\b how\ (?:much|many)\ (?:\w+\ )? (?:higher|lower|larger|greater|less
                |fewer)\ .* \b (?:than|compared) \b | \b (?:what|how\ (?:large|big|great|wide|high|much))
                \ (?:is|was)\ the\ (?:\w+\ )? (?:sum|difference|ratio) \b
                (?! \s+ between \s+ [a-z]+ \s+ and) | \b decimal\ places? \b
                | \b round(?:ed)?\ (?:your|the|to) \b | 之和 | 相差多少 | 合計していくら"""
        ),
    ),
    (
        AnswerKind.COUNT,
        _compile(
            rf"""\b how\ many\ (?:[\w-]+\ ){{0,3}}? {_THINGS} \b
                | \b how\ many \b .* \b are\ (?:there\ (?:in|on)|listed|mentioned|shown|contained) \b
                | 几[张页幅] | 多少[张页幅]"""
        ),
    ),
    (
        AnswerKind.PERCENT,
        _compile(
            r"""\b (?:what|which|how\ (?:much|many)) .{0,20}? \b percent(?:age)? s? \b
                | \b what\ (?:proportion|fraction|share) \b | 百分之(?:几|多少) | 百分比
                | 占比(?:多少)? | 何(?:パーセント|%|％|割) | wie\ ?viel\ prozent | qué\ porcentaje
                | ce\ procent(?:aj)? | какой\ процент | сколько\ процентов | yüzde\ kaç | phần\ trăm
                | ποιο\ ποσοστό | τι\ ποσοστό"""
        ),
    ),
    (
        AnswerKind.MONEY,
        _compile(
            r"""\b how\ (?:much\ money | many\ (?:\w+\ )?(?:dollars|euros|pounds)) \b
                | \b how\ much .* \b (?:cost|pay|paid|earn|spend|spent|worth|charge|sell|fare|fee|toll
                |rent) \w* \b
                | \b what .* \b (?:price|salary|revenue|cost|budget|fare|fee|toll) s? \b
                | \b what\ (?:do|does|did|must|will)\ .* \b (?:pay|cost|charge|earn) \b
                | 多少(?:钱|元|美元|欧元)
                | いくら | 何(?:円|ドル) | wie\ ?viel\ geld | cuánto\ dinero | câți\ bani"""
        ),
    ),
    (
        AnswerKind.DURATION,
        _compile(
            r"""\b how\ long \b | \b how\ many\ (?:\w+\ )?(?:years|months|weeks|days|hours|minutes
                |seconds) \b | 多久 | 多长时间 | [几多]少?(?:年|天|个月|小时|分钟)(?!代)
                | 何(?:年間|日間|時間|か月|ヶ月|分間|週間) | wie\ lange | cuánto\ tiempo | cât\ timp
                | как\ долго | ne\ kadar\ süre | bao\ lâu | πόσο\ καιρό"""
        ),
    ),
    (AnswerKind.TIME, _compile(r"\b (?:at\ )? what\ time \b | 几点 | 何時(?!間|代) | 何時何分")),
    (
        AnswerKind.YEAR,
        _compile(
            r"""\b (?:in\ |on\ |by\ |during\ )? (?:what|which)\ (?:\w+\ )? (?:years?|decades?
                |century) \b | 哪一?年 | 几几年 | 何年 | (?:何|どの)世紀 | (?:in\ )? welche[mns]\ jahr
                | (?:en\ )? qué\ año | (?:în\ )? ce\ an \b | (?:в\ )? каком\ году | hangi\ yıl\w*
                | năm\ nào | ποι[αο]\ (?:έτος|χρονιά) | ποιο\ έτος | أي\ عام | किस\ (?:वर्ष|साल)
                | किस\ सन"""
        ),
    ),
    (
        AnswerKind.DATE,
        _compile(
            r"""\b (?:since\ )? when \b (?!\ (?:a|the)\ ) | \b (?:on\ )? (?:what
                |which)\ (?:\w+\ )? (?:date|day|month|days|season|period) \b | \b deadline \b | 何时
                | 何時候 | 什么时候 | 什么时间 | 哪[一]?[天日月] | 日期 | いつ | 何月(?:何日)? | 何日
                | 時期 | \b wann \b | \b cuándo \b | \b când \b | \b когда \b | ne\ zaman | khi\ nào
                | πότε | متى | कब | เมื่อไ(?:ห)?ร่ | 언제"""
        ),
    ),
    (
        AnswerKind.NUMBER,
        _compile(
            r"""\b how\ (?:many|much|old|far|large|big|high|tall|deep|wide|fast|heavy|often|hot|cold
                |dense) \b | \b (?:what|which) .{0,30}? \b (?:number|population|amount|size
                |temperature|height|length|(?<!which\ )area|speed|distance|rank) \b
                | 多少 | 第?几[个次位名种人座家部支岁届]?
                | 多[大高长远重深宽] | いくつ | どれ(?:くらい|ぐらい|ほど|だけ)
                | どの(?:くらい|ぐらい|程度) | 何(?:人|個|回|歳|本|番|位|台|枚|メートル|キロ|校|号|つ|名
                |曲|件|冊|度|代目?|試合|勝|km|m|隻|機|種類?|話|巻|社|票|級|便|両|頭|か国|カ国|ヶ国|箇所
                |か所|点) | \b wie\ ?(?:viele?|groß|hoch|alt|weit|oft) \b | \b cuánt[oa]s? \b
                | \b cât(?:e|ă)? \b | \b câți \b | \b сколько \b | \b kaç\w* \b | bao\ nhiêu | πόσ\w+
                | كم | कितन[ेीा] | กี่ | เท่าไ(?:ห)?ร่ | 얼마"""
        ),
    ),
    (
        AnswerKind.PERSON,
        _compile(
            r"""\b (?:who|whom|whose) \b | \b (?:what|which)\ (?:\w+\ ){0,2}? (?:person|man|woman
                |people|actor|actress|president|king|queen|emperor|singer|author|writer|scientist|player
                |director|composer|leader|ruler|politician|philosopher|mathematician|physicist|chemist
                |engineer|inventor)\b | \b (?:full|first|last)\ name \b | 谁 | 誰 | 何者 | だれ
                | 哪[一]?[位个]人? (?= [^\s]{0,4} (?:人|员|者|家)) | 何という(?:人|人物)
                | \b (?:wer|wem|wen|wessen) \b | \b quién(?:es)? \b | \b cine \b | \b cui \b
                | \b кто \b | \b (?:кого|кем|кому|чей) \b | \b kim(?:in|i|e|ler)? \b
                | \b ai \b (?!\ (?:system|model)) | \b ποι(?:ος|οι) \b | (?:^|\s)من(?=\s)
                | (?:किस(?:ने|के|का)|कौन) | ใคร | 누구"""
        ),
    ),
    (
        AnswerKind.PLACE,
        _compile(
            r"""\b where \b | \b (?:in\ |at\ |from\ |to\ |of\ )? (?:what
                |which)\ (?:[\w-]+\ ){0,2}? (?:city|cities|country|countries|state|states|province
                |region|continent|town|village|county|place|location|river|island|street|area|district
                |neighborhood|nation|territory|venue|stadium|mountain|ocean|sea|lake) \b | 哪里 | 哪儿
                | 何处 | 什么地方 | 哪[一]?[个座]?(?:国家|城市|省|市|县|地区|地方|国) | どこ | どちら
                | (?:何|どの)(?:県|市|国|都市|地方|地域|州|駅|町|村|都道府県|区|川|島)
                | \b (?:wo|woher|wohin) \b | \b (?:a|de)?dónde \b | \b unde \b | \b где \b
                | \b откуда \b | \b куда \b | nere\w* | ở\ đâu | đâu | πού | أين | कहाँ | कहां | ที่ไหน
                | 어디"""
        ),
    ),
    (
        AnswerKind.REASON,
        _compile(
            r"""\b why \b | \b what\ (?:is|was|were|are)?\ ?(?:the\ )?(?:\w+\ )?(?:reasons?|causes?
                |purpose) \b | \b what\ (?:caused|causes) \b | 为什么 | 为何 | 何以 | 原因 | 什么缘故
                | なぜ | 何故 | どうして | 理由 | 原因 | \b (?:warum|weshalb|wieso) \b | por\ qué
                | \b de\ ce \b | \b почему \b | \b neden \b | niçin | tại\ sao | vì\ sao | γιατί
                | لماذا | क्यों | ทำไม | 왜"""
        ),
    ),
    (
        AnswerKind.MANNER,
        _compile(
            r"""\b how \b (?!\ (?:about)) | \b in\ what\ way \b | 如何 | 怎么 | 怎样 | どのように
                | どう(?:やって|いう(?:風|ふう))? | どんなふうに | \b wie \b (?!\ (?:hei|nenn|laut))
                | \b cómo \b | \b cum \b | \b как \b (?!\ (?:называ|ой|ая)) | \b nasıl \b
                | như\ thế\ nào | πώς | كيف | कैसे | อย่างไร | 어떻게"""
        ),
    ),
    (
        AnswerKind.NAME,
        _compile(
            r"""\b (?:what|which) \b .{0,60}? \b (?:name[ds]?|called|known\ as|term(?:ed)?
                |nickname[d]?|titled?|refer(?:red|s)?\ to\ as) \b | 叫(?:做|作)?(?:什么|啥)
                | 什么名(?:字|称)? | 被?称(?:为|作)什么 | 何(?:と(?:いう|言う|呼|名づけ|称)|て(?:いう))
                | (?:の名前|名称|名)は(?:何|なん) | wie\ (?:heiß|nennt|wird|lautet)\w*
                | cómo\ se\ (?:llama|denomina)\w* | как\ называ\w+ | se\ numește"""
        ),
    ),
    (
        AnswerKind.ORGANISATION,
        _compile(
            r"""\b (?:what|which|whose)\ (?:[\w-]+\ ){0,2}? (?:company|companies|organi[sz]ation
                |university|college|school|team|agency|institution|group|party|corporation|studio
                |network|station|band|church|club|department|committee|league|newspaper|magazine
                |museum) \b | (?:哪|什么)[一]?[家所个支]?(?:公司|大学|学校|球队|机构|组织|队|党|集团
                |企业|电视台) | (?:何|どの|どこの)(?:会社|大学|チーム|学校|団体|企業|組織)"""
        ),
    ),
    (
        AnswerKind.LIST,
        _compile(
            r"""\b (?:what|which)\ (?:are|were) \b | \b (?:list|name)\ (?:all|the|two|three|four
                |some) \b | 哪些 | 哪[两二三四五]|有(?:什么|何)(?:分类|种类) | 何と何 | 誰と誰"""
        ),
    ),
    (
        AnswerKind.DEFINITION,
        _compile(
            r"""\b what\ (?:is|was)\ (?:an?\ )? [\w-]+ \s* \?? $ | \b what\ does\ .* \b mean
                | \b define \b | 是什么意思 | 什么是 | とは(?:何|なん|どんな|どういう)"""
        ),
    ),
    (
        AnswerKind.THING,
        _compile(
            r"""\b (?:what|which) \b | 什么样的? | 什么 | 哪[一]?[个种本部首款项场条件届类]? | 何の
                | (?:どの(?:ような)? | どんな | どういう) | どれ | 何 | なん | なに | \b welch\w+ \b
                | \b was \b (?= .* \b (?:ist|sind|war|wird|hat|haben|kann|tut|wurde) )
                | (?:^|\s|¿) (?:qué|cuál(?:es)?) \b | \b ce \b | \b care \b
                | \b (?:что|чем|чего|чему|како\w+|каки\w+) \b | \b (?:hangi\w*|ne|nedir|neydi|neyi) \b
                | (?:cái\ |điều\ |những\ )? gì | nào \b | \b τι \b | \b ποι[αοε]\w* \b
                | (?:ما|ماذا|أي|التي)(?=\s) | क्या | किस | कौन[-\s]?स[ाेी] | อะไร | ใด | 무엇 | 어떤"""
        ),
    ),
    (
        AnswerKind.YES_NO,
        _compile(
            r"""^\s* (?:is|are|was (?!\ (?:ist|sind|war|wird|hat|haben|kann|tut|wurde|f\w+r)\b)|were
                |do|does|did|has|have|had|can|could|will|would|should|may) \b | [吗嗎]\s*[？?]? $
                | 是否 | ですか\s*[？?]? $ | ますか\s*[？?]? $"""
        ),
    ),
)
"""The patterns in order of precedence; a word that asks for less comes later."""

_YES_NO_FIRST = _PATTERNS[-1][1]
_ASKS = _compile(
    r"""\b (?:who|whom|whose|what|which|when|where|why|how) \b | 什么 | 谁 | 哪 | 何 | 多 | 几 | 怎
        | 誰 | どこ | いつ | どの | なぜ"""
)


@lru_cache(maxsize=4096)
def find_focus(question: str) -> QuestionFocus:
    """Return the kind of answer that a question asks for.

    >>> find_focus("In what year did the line open?").kind, find_focus("谁建造了公园？").kind
    (<AnswerKind.YEAR: 'year'>, <AnswerKind.PERSON: 'person'>)
    """
    if _YES_NO_FIRST.match(question) and not _ASKS.search(question):
        return QuestionFocus(AnswerKind.YES_NO, 0, 0)
    for kind, pattern in _PATTERNS:
        match = pattern.search(question)
        if match and match.end() > match.start():
            return QuestionFocus(kind, match.start(), match.end())
    return QuestionFocus(AnswerKind.TEXT, len(question), len(question))
