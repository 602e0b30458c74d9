"""The words and signs by which facts are read: related words, limits, roles and predicates."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vrag.text.terms import STOP_WORDS, stem, tokens

Span = tuple[int, int]
STOPS = (STOP_WORDS | {stem(word) for word in STOP_WORDS}) - {"include", "includ", "included", "includes"}
"""Stop words, also as the terms that they become."""
LIGHT = frozenset(
    token.term
    for token in tokens(
        """according accord amount approximately around circa roughly nearly almost exactly precisely equal
        stand stood come came reach have has had having make made give gave given take took hold held keep
        kept contain comprise consist count number figure value recorded report reported state
        stated statement note noted list listed indicate indicated confirm confirmed describe described
        mention mentioned specify specified show shown shows put currently now presently today still
        already also altogether overall however therefore moreover furthermore thus hence indeed
        respectively namely thereby as-is respective certain particular same given set fixed place held hold
        carry carries take takes taking
        document source information detail details fact facts
        correct know known see seen say said says tell told read reads one there being been get got become
        became remain remained go went lie lay sit amounts totals totalled totaled sum
        possess need please mr mrs ms dr the of and for with
        sets gives states reports notes lists indicates confirms puts it as memo memorandum update"""
    )
)
"""Words that say little of what a value belongs to."""
SYNONYMS = {
    token.term: first
    for row in (
        "end expire expires expired finish finishes finished conclude concludes terminate terminates",
        "begin begins began start starts started commence commences",
        "cost costs price prices pay pays paid charge charges fee",
        "long length",
        "wide width",
        "high height",
        "deep depth",
        "old age aged",
        "heavy weigh weighs weight",
        "buy buys bought purchase purchases purchased",
        "build built construct constructed",
        "employ employs employed employee employees",
        "found founded establish established",
        "produce produces produced production",
        "capacity capacities",
        "serve serves served",
        "consume consumes consumed consumption",
        "attend attended attendance",
        "visit visited visitor visitors",
        "increase increases increased rise rises rose risen grow grows grew grown growth",
        "decrease decreases decreased fall falls fell fallen decline declines declined drop drops dropped",
    )
    for first in [tokens(row)[0].term]
    for token in tokens(row)
}
"""Terms that stand for others: verbs and nouns of one attribute. Both kinds of change stay apart."""
QUALIFIERS = frozenset(
    token.term
    for token in tokens(
        """forecast expect expected target plan planned budget budgeted projection estimate estimated
        goal aim prediction predicted would could may might should if unless assume hypothetical example
        instance e.g. i.e. including excluding without average mean median maximum minimum max min least most
        per each every half quarter quarterly monthly annual annually yearly weekly daily first second third
        fourth fifth last next previous previously former formerly prior old original originally initial
        initially until instead rather changed change difference additional further another
        other others part share percentage percent gross net adjusted male female men women boys girls adult
        adults children child youth senior north south east west northern southern eastern western upper lower
        domestic international foreign local internal external direct indirect fixed variable basic diluted
        current noncurrent fiscal interim total subtotal only remaining rest over below under above
        before after beginning end opening closing during since earlier later early late spring summer autumn
        winter morning afternoon evening night weekend weekday weekdays weekends sunday monday tuesday
        wednesday thursday friday saturday jan feb mar apr jun jul aug sep oct nov dec january february march
        april june july august september october november december q1 q2 q3 q4 h1 h2 single double triple
        left right front rear back inner outer primary secondary public private urban rural left-hand"""
    )
)
"""Words that limit a value to a part, a period or a point of view: two assertions with others are of two
things."""


_WORD = re.compile(r"\d(?:[\w.,:/’']*\w)?|[^\W\d]+(?:[’'&.-]\w+)*|[%€$£°]")
"""A word, a number, or a sign that is a unit."""


def split_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words and numbers of a text, with their places; both apostrophes are one."""
    return [(match[0], *match.span()) for match in _WORD.finditer(text.replace("’", "'"))]


def _roots(rows: str) -> dict[str, str]:
    """Return the words of each row, each with the first of its row."""
    return {
        cut_ending(token.term): cut_ending(tokens(row)[0].term)
        for row in filter(None, map(str.strip, rows.splitlines()))
        for token in tokens(row)
    }


ENDING = re.compile(
    r"""(?: ational|ation|ition|ution|ition|at(?:ion|or)|ment|ance|anc|ence|enc|ness|ability|ibility|ity|abl
    |ibl|ing|ers?|ors?|ee|ant|ent|ist|al|iv|ion|ary|at|it|y|e )$""",
    re.VERBOSE,
)


def cut_ending(term: str) -> str:
    """Return what a term shares with those derived from it: of insurance, insured and insurer the same."""
    while (match := ENDING.search(term)) and match.start() >= 4:
        term = term[: match.start()]
    if len(term) > 4 and term[-1] == term[-2] and term[-1] != "s":
        term = term[:-1]
    return term.rstrip("e") if len(term) > 4 else term


RELATED = _roots(
    """long length far distance
    wide width breadth
    high height tall
    deep depth
    heavy weigh weight mass
    old age aged
    hot temperature
    fast speed
    big large size area cover
    cost price charge fee rate pay paid payment worth value tariff
    wage salary earn
    last duration
    travel trip journey drive driv
    begin began start commence launch
    end finish expire conclude terminate terminat
    live inhabitant population people resident
    work employ staff workforce worker personnel
    holiday leave vacation
    pupil student
    chair chairman chairwoman chairperson
    lead led head leader
    boss manage manager
    found establish founder
    build built construct builder
    buy bought purchase
    sell sold sale
    hold held host
    locate place situate site venue based headquarter seat
    supply supplier deliver provider provide
    own owner
    produce product manufacture manufacturer made maker
    write wrote written author
    born birth
    die died death
    earn revenue turnover
    day daily dai
    week weekly
    month monthly
    year annual annually yearly
    hour hourly
    night nightly
    car vehicle automobile
    bike bicycle
    flat apartment
    maximum max limit
    apply application applicant
    deliver delivery
    arrive arrival
    depart departure
    choose choice
    grow growth grew grown
    lose loss lost
    send sent
    keep kept retain retention storage store
    meet met meeting
    submit submission hand
    report notify notification
    grant fund award
    member membership
    notice announce
    borrow loan lend"""
)


def root(term: str) -> str:
    """Return what stands for a term and its relatives, as verb and noun of one attribute."""
    cut = cut_ending(term)
    return RELATED.get(cut, cut)


NEVER = frozenset(
    map(
        stem,
        """answer question item property detail data description remark comment yes no note topic feature
        parameter specification criterion field attribute key hi hello dear thank thanks regard regards since
        because must may am cannot between against shall get receive receives received
        once several within""".split(),
    )
)
"""Words of heads and letters that say nothing."""
SOFT = frozenset(
    token.term
    for token in tokens(
        """next per each every monthly annual annually yearly weekly daily quarterly first second third last
        including would may might should i fixed public private primary secondary total only beginning end
        opening closing during since before after until over own basic overall initial additional
        left right single internal external part late early later earlier hand e.g. least most max maximum min
        minimum open
        current interim target goal budget budgeted plan"""
    )
)
_PLANS = (
    r"forecast\w*|expect\w*|projected|projection|estimat\w*|propos\w+|suggest\w*|predict\w*|aim\w*|hope\w*"
    r"|target\w*|(?:not|un)(?: yet| been)*\s?(?:decided|approved|agreed)"
)
LIMITS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "maximum": r"\b(?:until (?=\d)|max(?:imum|\.)?|at most|up to|as many as|no (?:more|longer|later) than"
        r"|(?:can)?not exceed\w*|limit\w*"
        r"|(?:not|never|n't)\b.{1,40}\b(?:more|longer|over|above|exceed\w*)|cap(?:ped)?|ceiling|largest|highest"
        r"|greatest|deepest|longest)\b",
        "minimum": r"\b(?:min(?:imum|\.)?|at least|no (?:less|fewer) than|not less than|smallest|lowest"
        r"|shortest)\b",
        "average": r"\b(?:average|mean|median|typical\w*)\b",
        "planned": rf"\b(?:{_PLANS}|would|could|might|consider\w*|thought)\b",
        "past": r"\b(?:previous\w*|former\w*|used to|originally|no longer|had been|once|prior|before 20\d\d"
        r"|earlier"
        r"|last year|until (?:the end of )?(?:19|20)\d\d|in the past|rumou?r\w*|den(?:y|ied|ies))\b",
        "part": r"\b(?:half|third of|quarter of|part of|share of|some of|among|of whom|of which|of these)\b",
        "extra": r"\b(?:additional|further|another|extra|more)\b(?! than)",
        "other": r"\b(?:other|others|rest|remaining|instead|unlike|compared|versus)\b",
    }.items()
}
"""Signs that a value is of a part, of a plan or of another time: both sides of a conflict have the same."""
LIMITS_OF_QUESTION: Mapping[str, re.Pattern[str]] = {
    **{name: LIMITS[name] for name in ("maximum", "minimum", "average", "past")},
    "planned": re.compile(rf"\b(?:{_PLANS})\b", re.IGNORECASE),
}
"""The same of the answer to a question, in which "would" and "might" are no plan."""
DENIED = re.compile(
    r"(?:(?:\b(?:not|never|no longer|nor|rather than|instead of)|n[’']t)\s+"
    r"(?:(?:be|been|to|on|at|in|from|for|the|an?|as|set|fixed|actually|really|cost|last|take|have|pay|get)\s+)"
    r"{0,3}|\b(?:not true|untrue|not the case|false|wrong|incorrect|a myth) that\b[^.;:]*)(?:[$€£¥]\s?)?$",
    re.IGNORECASE,
)
"""The text before a value that is said to be another one."""
TO_END = re.compile(
    r"\b(?:until|till|by|ends?|expir\w*|deadline|due|no later than|latest|before)\b\W*(?:\w+\W+){0,3}$"
    r"|\bto\s+$",
    re.IGNORECASE,
)
TO_START = re.compile(
    r"\b(?:from|since|begin\w*|began|starts?\w*|commenc\w*|effective|first\ day)\b\W*(?:\w+\W+){0,3}$",
    re.IGNORECASE,
)
DATING = re.compile(
    r"""\b(?:found|establish|open|clos|sign|expir|due|begin|began|start|end|complet|launch|elect|born|died?\b|death
    |birth|since|effective|deadline|adopt|publish|introduc|inaugurat|built|build|construct|join|appoint|incorporat|invent
    |discover|releas|valid|schedul|held|tak(?:es?|ing)\ place|took\ place|submit|submission|deliver|commission
    |creat|acquir|merg|retir|issu|renew|return|arriv|depart|meet|met\b|approv|enter|terminat|last|ratif|award|built|review|hand|pay
    |go(?:es)?\ live|doctorate|when|date|until|carri|appl|receiv|leav|accept|mov|year|written|wrote|won
    |mad|given|finish|first|paint|compos|in(?:to)?\ force|organi[sz]ed|reached|came\ to|postpon|conduct)""",
    re.IGNORECASE | re.VERBOSE,
)
RATE = re.compile(
    r"""\s*,?\s*(?:(?:per|an?|each|every|/|for\ (?:each|every)|in\ (?:a|one))\s?(?P<a>hour|day|night|week
    |month|quarter|year|km|kilomet\w+|person|head|page|kg|minute|second)s?\b
    | (?P<b>monthly|weekly|yearly|daily|annually|hourly|nightly)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
CONDITION = re.compile(r"\b(?:if|unless|except|only|provided)\b", re.IGNORECASE)
LEADING = re.compile(
    r"^(?:(?:in|at|for|with|without|under|during|among|within|on|after|before|from|outside|as|unlike|by|until"
    r"|till|through|prior)\b|(?:previous|former|original|initial|earli)\w*(?=,))"
    r"(?:[^,:;]{2,60},|,|(?:\s[a-z-]+){1,3}(?=\s(?:the|an?|our|its|your|we|you|they|it|he|she)\b))",
    re.IGNORECASE,
)
PARTITIVE = re.compile(r"(?:\s[\w-]+){0,2}\sof\s(?:the|our|these|those|them|its|all)\b")
PLACE = re.compile(r"\b(?:in|for|from|within|among|at)\s(?:the\s)?((?:[A-ZÀ-Þ][\w’'-]*\s?)+)")
BELONGING = re.compile(r"\b(?:in|for|from|within|among|at|to|of)\s(?:the\s)?([A-ZÀ-Þ][\w’'-]*)")
"""A name of a place, an organization or a part behind a word that says that something belongs to it."""
OWN_DATE = re.compile(
    r"\W*(?:\w+\s){0,2}(?:date|dated|updated|modified|version|published|issued|revised|created|submitted|filed)\b"
    r"[^:]{0,20}:",
    re.IGNORECASE,
)
"""The label of the date of a document itself."""
IN_SENTENCE = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|will|can|may|must|we|you|I|they|it|this|that|here|please|what)\b"
)
"""Words before a colon that are a clause, and no label."""
CAPTION = re.compile(r"(?:Table|Figure|Fig\.|Exhibit|Appendix|Chart|Page)\s\d", re.IGNORECASE)
QUOTED = re.compile(r"[“\"„«][^”\"“»]{2,200}[”\"“»]")
CLAUSE = re.compile(
    r"(?<=[^\W\d]{2})[.!?]\s+(?=[A-Z])|(?<!\d),(?!\d)|,\s|[;()]|:\s|\s[—–-]\s"
    r"|\b(?:and|but|while|whereas|which|who|because|so|since|as well as)\b"
)
NEGATION = re.compile(r"\b(?:not|never|cannot|no|none|nor|neither|hardly)\b|n['’]t\b", re.IGNORECASE)
BAN = re.compile(r"\b(?:must|may|shall|can) ?not\b|\bmustn|\bcan['’]t", re.IGNORECASE)
ANSWER = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
CLASSES: dict[str, tuple[str, int]] = {
    token.term: (name, sign)
    for name, positive, negative in (
        ("allow", "allowed permitted welcome authorised authorized admitted admissible may can",
         "prohibited forbidden banned disallowed"),
        ("cover", "covered insured", "uncovered uninsured"),
        ("include", "included", "excluded extra"),
        ("open", "open", "closed shut"),
        ("duty", "must required mandatory compulsory obligatory obliged necessary needed need shall",
         "optional voluntary"),
        ("available", "available", "unavailable"),
        ("eligible", "eligible entitled", "ineligible"),
        ("possible", "possible", "impossible"),
        ("valid", "valid", "invalid void"),
        ("enabled", "enabled active activated", "disabled inactive deactivated"),
        ("refund", "refundable refunded", "nonrefundable"),
        ("safe", "safe", "unsafe dangerous"),
        ("suitable", "suitable fit suited", "unsuitable unfit"),
        ("approve", "approved accepted adopted passed agreed", "rejected refused denied declined"),
        ("free", "free", ""),
        ("support", "supported supports", "unsupported"),
        ("paid", "paid", "unpaid"),
        ("public", "public", "confidential secret"),
    )
    for words, sign in ((positive, 1), (negative, -1))
    for token in tokens(words)
}  # fmt: skip
"""Terms of predicates: the name of what they state, and 1, or -1 where they deny it."""

ROLES = frozenset(
    root(token.term)
    for token in tokens(
        """chair director manager president vice ceo cfo cto coo secretary treasurer author editor owner
        supplier contractor contact coordinator lead captain founder architect designer publisher manufacturer
        auditor venue location headquarters seat capital place address landlord tenant buyer seller client
        customer sponsor host organiser organizer moderator speaker principal teacher minister mayor governor
        commissioner inspector engineer officer curator instructor lecturer
        investigator supervisor bank insurer provider vendor operator agency institution currency
        colour color written signed designed built held born founded owned managed produced
        manufactured supplied approved prepared edited published appointed headquartered situated painted
        composed invented discovered directed hosted sponsored operated administered audited maintained
        delivered developed repair pilot agent caretaker librarian keynote who where substance
        outflow inflow"""
    )
)
"""Roots of words beside which a name is the value of an attribute."""
TIMES = frozenset(
    root(stem(word)) for word in "second minute hour day night week month quarter year decade time".split()
)
COMMON = frozenset(
    root(stem(word))
    for word in """period office person people case part place year thing way kind type level area group team
    company business organization service information policy rule past future work use user access account
    new good need request process project plan program activity action member staff right term state
    president degree contact issue problem actual result quickly often high many much step list""".split()
)
"""Roots of words that alone do not tell what a value is of."""
RATES = frozenset(map(root, "day week month year".split()))
"""Roots of words such as monthly, which say for what time an amount is."""
EXTREMES = frozenset(
    root(stem(word))
    for word in "maximum max minimum min most least average mean highest lowest limit limited exceed".split()
)
PLANS = frozenset(
    root(stem(word))
    for word in """propose proposed proposal suggest suggested decide decided decision undecided forecast
    expect expected predict predicted plan planned""".split()
)
"""Roots of words that say of a value that it is a plan, and not what it is of."""
ENDS = frozenset(
    root(stem(word)) for word in "begin start end finish last expire deadline due run valid until".split()
)
PEOPLE = frozenset("adult child children youth senior men women boy girl mal femal".split())
CALENDAR = frozenset(
    root(stem(day))
    for word in """january february march april june july august september october november december monday
    tuesday wednesday thursday friday saturday sunday""".split()
    for day in (word, f"{word}s")
)
NO_NAMES = frozenset(
    """january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday dear hello hi yes no sincerely regards yours kind best please
    we i they he she it its this that these those there here our your their my his her if when while for to in
    at on by with from as after before since during under until all some most many each every both any what
    who where which how why and but or so also not only once today about up down
    section article chapter clause paragraph appendix annex exhibit schedule table figure part page""".split()
)
NAME = re.compile(
    r"""(?:(?:Mr|Mrs|Ms|Dr|Prof|Professor|Sir)\.?\s+)?
    [A-ZÀ-Þ][\w’'.-]*\w(?:(?:\s+(?:of|de|van|von|der|la|le|den|du)\s+|\s+&\s+|\s+)
    (?:[A-ZÀ-Þ][\w’'.-]*\w|[A-Z]\.))*""",
    re.VERBOSE,
)
TITLE_AT_END = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|Professor|Sir)\.?\s+$")
TITLES = frozenset("mr mrs ms dr prof professor sir".split())
TITLE_OF_PERSON = re.compile(r"^(?:Mr|Mrs|Ms|Dr|Prof|Professor|Sir|The|Our|Your|Its)\.?\s+")

BEFORE_NAME = re.compile(
    r"""(?: :\s* | \b(?:is|was|are|were|be|been|by|named|called|appointed|elected|as|becomes?|became|in|at
    |through|via|with|to|call|ring|ask)\s
    | \b(?P<role>[\w-]+)(?:\sof\s(?:the\s)?[\w-]+(?:\s[\w-]+)?)?,?\s )(?:the\s)?$""",
    re.IGNORECASE | re.VERBOSE,
)
AFTER_NAME = re.compile(
    r"\s*[,(]?\s*(?:(?:is|was|will|has|had|the|our|its|be|been|gives?|a|an|who|remains|as)\s)*(?P<role>[\w-]+)"
)
"""The text before a name that is a value: "chaired by Anna Berg", "the mayor, Anna Berg"."""
MAX_NAME_CORE = 7
"""Words of the clause of a name; in a longer one it is seldom the value of an attribute."""


_IN_PASSING = re.compile(r"\b(?:as|if|where|when|whenever)\s$", re.IGNORECASE)
"""The text before a word that is no predicate: "as necessary"."""


_WEAK = frozenset(("allow", "duty"))
"""Predicates that stand beside others: what may not be included is not included."""
MAX_APART = 3
"""Words between a negation and the predicate that it denies."""


def read_predicate(text: str) -> tuple[frozenset[str], int]:
    """Return the roots of a clause, with what its predicate states as "=name", and its sign."""
    found: set[str] = set()
    sign = 1
    classes: dict[str, int] = {}
    for word in tokens(text):
        term = word.term
        is_including = text[word.start : word.end].lower() == "including"
        if (
            term in CLASSES
            and not _IN_PASSING.search(text, 0, word.start)
            and not is_including
            and not (term == "may" and word.end > word.start and text[word.start] == "M" and word.start)
        ):
            name, own = CLASSES[term]
            classes.setdefault(f"={name}", own)
        elif term not in STOPS and term not in LIGHT and term not in NEVER:
            found.add(root(term))
    strong = [name for name in classes if name[1:] not in _WEAK] or list(classes)
    for name in strong[:1]:
        sign *= classes[name]
        found.add(name)
    return frozenset(found), sign


def denies(text: str, negation: re.Match[str]) -> bool:
    """Return whether a negation stands at the predicate of a clause, if that is a known one."""
    words = tokens(text)
    known = [number for number, word in enumerate(words) if word.term in CLASSES]
    places = [number for number in known if CLASSES[words[number].term][0] not in _WEAK] or known
    at = next((number for number, word in enumerate(words) if word.end >= negation.end()), len(words))
    return not places or any(-MAX_APART <= number - at <= MAX_APART for number in places)


def mark_predicate(text: str, negation: re.Match[str] | None) -> Span:
    """Return the words of the predicate: from the negation to what is denied."""
    words = tokens(text)
    places = [(word.start, word.end) for word in words if word.term in CLASSES]
    if negation is not None:
        behind = [word for word in words if word.start >= negation.end() and word.term not in STOPS]
        if not places and behind:
            places.append((behind[0].start, behind[0].end))
        places.append(negation.span())
    if not places:
        stripped = text.strip(" ,;:()")
        at = text.find(stripped)
        return at, at + len(stripped)
    return min(start for start, _ in places), max(end for _, end in places)
