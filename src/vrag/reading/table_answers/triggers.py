"""Words that name operations and kinds of columns, in English and Chinese."""

from __future__ import annotations

TRIGGERS: dict[str, str] = {
    "how many": r"how many|number of|the amount of \w+s\b|多少[个次名人条艘座家]|几[个次名位条艘座家]",
    "how much": r"how much|多少",
    "how long": r"how long|多长|多久",
    "how old": r"how (?:old|tall|high|far|large|big|fast|heavy|wide|deep)|多[大高远快宽深重]",
    "who": r"\bwho(?:m|se)?\b|谁|哪[位名]",
    "where": r"\bwhere\b|哪里|哪儿|何处|什么地方",
    "when": r"\bwhen\b|what (?:date|time|day)|何时|什么时候|几点|哪天|几时",
    "which year": r"(?:what|which) (?:\w+ )?(?:years?|seasons?)|哪一?年|什么年",
    "which": r"\bwhich\b|哪[个一种条艘座家]?",
    "what": r"\bwhat\b|什么|何",
    "name": r"\b(?:name|list|tell me|identify)\b|列出|名称|名字",
    "yes no": (
        r"^(?:is|are|was|were|did|does|do|has|have|had|can)\b|[吗么]\s*[?？]?\s*$|是否|是不是"
        r"|有没有"
    ),
    "most": r"\bmost\b(?! recent)|最多",
    "least": r"\b(?:least|fewest)\b(?<!at least)|最少",
    "highest": (
        r"\b(?:highest|largest|greatest|biggest|longest|tallest|best|top|max(?:imum)?|heaviest"
        r"|fastest|strongest|oldest|widest|deepest|busiest|dearest|most expensive)\b"
        r"|最[高大长好快重贵宽深远]"
    ),
    "lowest": (
        r"\b(?:lowest|smallest|shortest|worst|min(?:imum)?|lightest|slowest|youngest|cheapest"
        r"|bottom|closest|nearest|narrowest)\b|最[低小短差慢轻便近]"
    ),
    "superlative": (
        r"\b(?!(?:west|east|rest|test|guest|forest|contest|request|quest|arrest|interest|best"
        r"|latest)\b)[a-z]{3,}est\b|最"
    ),
    "comparative": (
        r"\b(?:more|less|fewer|better|worse|[a-z]{3,}er)\b(?= (?:\w+ ){0,5}than)|\b(?:which"
        r"|who|what)\b.*,.*\bor\b|更|还是"
    ),
    "first": (
        r"\b(?:first|earliest|begin(?:ning)?|initial|start(?:ed)?|original)\b|第一|首|最早"
        r"|最先|头班"
    ),
    "last": (
        r"\b(?:last|latest|final|most recent|recently|end(?:ed)?)\b|最后|最近|最晚|末班|末"
        r"|最新"
    ),
    "next": (
        r"\b(?:next|following|immediately after|directly after|right after|comes? after"
        r"|came after)\b|下一"
    ),
    "after": (
        r"\b(?:after|since|later than|follow(?:s|ed)?|below|beneath|under)\b|之后|以后|后面"
        r"|下面"
    ),
    "before": (
        r"\b(?:before|prior|preced\w+|previous(?:ly)?|above|earlier than|until|ahead of)\b"
        r"|之前|以前|前面|上一|上面"
    ),
    "greater": (
        r"\b(?:more than|over|greater than|higher than|above|larger than|exceed(?:s|ed)?"
        r"|longer than|bigger than|taller than|older than|better than)\b|超过|多于|大于|高于"
        r"|以上"
    ),
    "at least": r"\bat least|or more\b|or higher|or greater|\bminimum of|至少|不少于|不低于",
    "less": (
        r"\b(?:less than|under|fewer than|below|smaller than|lower than|shorter than"
        r"|younger than)\b|少于|小于|低于|不足|以下"
    ),
    "at most": r"\b(?:at most|up to|no more than|or less|or fewer)\b|至多|最多不|不超过",
    "between": r"\b(?:between|from .{1,30} (?:to|through|until))\b|之间|从.{1,20}到",
    "difference": (
        r"\b(?:difference|differ|margin|gap|how (?:many|much) (?:more|less|fewer|longer|higher"
        r"|larger|taller|older|better|additional)|(?:more|less|fewer|longer|higher"
        r"|larger) \w* ?.*than)\b|相差|差[多距额异]|之差|比.{1,20}[多少高低大长](?:了|出)?(?:多少|几)"
    ),
    "change": (
        r"\b(?:change|increase|decrease|growth|decline|rise|rose|grew|fell|drop|gain"
        r"|improve\w*|reduc\w+)\b|变化|增长|增加|减少|下降|上升|增幅|降幅"
    ),
    "percent": r"\b(?:percent(?:age)?|rate|proportion|share|fraction)\b|%|百分|比例|占比|率",
    "ratio": r"\b(?:ratio|times (?:as|more|larger|higher)|divided|relative to|per)\b|比率|倍",
    "total": (
        r"\b(?:total|combined|altogether|sum|overall|in all|together|aggregate|cumulative)\b"
        r"|总共|一共|合计|总和|之和|总|共"
    ),
    "average": r"\b(?:average|mean|typical(?:ly)?)\b|平均|均",
    "times": r"\btimes\b|\boften\b|次",
    "same": r"\b(?:same|equal|also|identical|tied?)\b|相同|同样|一样|同",
    "other": (
        r"\b(?:other|besides|except|else|another|apart|aside|excluding|not including)\b|除了"
        r"|其他|其它|另外|除"
    ),
    "not": r"\b(?:not|no|never|without|none|n't|didn't|wasn't|failed?|non)\b|没有|不|未|无",
    "only": r"\b(?:only|sole|single|just)\b|只|唯一|仅",
    "all": r"\b(?:all|every|each|any)\b|所有|每|全部|各",
    "both": r"\bboth\b|都|均",
    "and": r"\band\b|和|与|及|跟",
    "or": r"\bor\b|或|还是",
    "than": r"\bthan\b|比.{1,20}[更多少高低大长](?:了|出)?(?:多少|几|吗)",
    "there": r"\b(?:there|listed|shown|table|chart|list|are)\b|表中|表里|列表",
    "consecutive": r"\b(?:consecutive|in a row|straight|successive)\b|连续",
    "different": r"\b(?:different|unique|distinct|various|separate)\b|不同|种",
    "only once": r"\bonce\b|one time\b|一次",
    "win": (
        r"\b(?:w[io]n\w*|champion\w*|victor\w*|lose|lost|loss\w*|beat|defeat\w*)\b|赢|胜|冠军"
        r"|输"
    ),
    "long words": r"\b(?:long|duration|length|last(?:ed)?)\b|长|久",
    "day words": r"\b(?:year|month|day|date|season|century|decade|week)s?\b|年|月|日|天|季",
    "place words": (
        r"\b(?:city|country|state|nation(?:ality)?|place|venue|location|stadium|town|county"
        r"|region)\b|城市|国|地|港|站|岛"
    ),
    "person words": (
        r"\b(?:player|person|man|woman|driver|rider|actor|swimmer|athlete|artist|director"
        r"|president|author)s?\b|人|选手|球员|员"
    ),
    "team words": (
        r"\b(?:team|club|nation|school|company|party|opponent|league|station|band)s?\b|队|公司"
        r"|学校|党|组织"
    ),
    "title words": (
        r"\b(?:title|song|album|film|movie|show|book|game|episode|event|race|model|ship"
        r"|building)s?\b|片|歌|书|船|车|项目|节目"
    ),
}
"""Names of the triggers and their patterns. They stand for operations, never for topics."""

HEAD_CLASSES = {
    "person": (
        r"player|name|driver|rider|actor|swimmer|athlete|artist|director|president|author"
        r"|candidate|winner|skipper|pilot|coach|manager|writer|king|member|leader|singer"
        r"|champion|人|姓名|选手|球员"
    ),
    "place": (
        r"city|country|state|nation|place|venue|location|stadium|town|county|region|station"
        r"|site|port|airport|address|district|province|城市|国|地|港|站|岛"
    ),
    "date": r"year|date|season|time|month|day|period|built|opened|founded|born|年|月|日|时",
    "count": (
        r"number|no\b|total|points|attendance|population|score|goals|wins|seats|votes|gold"
        r"|silver|bronze|rank|#|%|age|apps|caps|amount|数|量|人口|分"
    ),
    "size": (
        r"length|height|weight|area|size|distance|elevation|km|\bm\b|ft|capacity|长|高|重|面积"
        r"|距离"
    ),
    "length": r"duration|length|time|years|term|laps|时间|时长",
    "team": r"team|club|party|school|opponent|company|league|college|university|队|公司|学校|党",
    "title": (
        r"title|song|album|film|movie|show|book|game|episode|event|race|model|ship|名称|歌|船"
        r"|车|项目"
    ),
    "rank": r"rank|pos|position|place|finish|排名|名次",
    "result": r"result|score|outcome|status|结果|比分",
    "note": r"note|comment|remark|reference|备注",
}
"""Classes of heads: what kind of thing a column holds, beside the form of its cells."""
