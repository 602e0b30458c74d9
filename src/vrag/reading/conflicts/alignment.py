"""The comparison of two assertions: whether they are about the same, and what they disagree on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from enum import StrEnum

from vrag.reading.conflicts.assertions import LIGHT, NUMBER, STOPS, YEAR, Assertion, Slot, terms_of
from vrag.reading.conflicts.editions import GENERIC
from vrag.reading.conflicts.fact_words import OWN_DATE
from vrag.reading.conflicts.subjects import DocumentSubjects
from vrag.reading.verification.comparison import Agreement, Rounding, compare
from vrag.reading.verification.text_values import TextValue
from vrag.text.folding import fold

_ZERO = Decimal()
ALIKE = 0.75
"""Share of equal words from which two sentences are the same but for a part."""
MAX_NAME_WORDS = 6


class ConflictKind(StrEnum):
    """The kind of value in which the sides of a conflict differ."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    UNIT = "unit"
    NEGATION = "negation"


Span = tuple[int, int]
_MIN_SHARED = {
    ConflictKind.NUMBER: 2,
    ConflictKind.DATE: 2,
    ConflictKind.UNIT: 2,
    ConflictKind.NAME: 1,
    ConflictKind.NEGATION: 3,
}
"""Terms that two statements share at least, of documents with words of their titles in common."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The values on which two assertions disagree: their places in the texts."""

    kind: ConflictKind
    spans: tuple[Span, Span]
    attribute: str = ""
    """What the values are of, in words of one side; empty where only the sentences tell."""


class Outcome(StrEnum):
    """The result of the comparison of two values."""

    SAME = "same"
    OTHER = "other"
    UNIT = "unit"
    UNLIKE = "unlike"


_ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|circa|some|(?:more|less) than|over)"
    r"|[~≈])\s*$",
    re.IGNORECASE,
)
_IN_YEAR = re.compile(r"(?<!\bfiscal )(?<!\byear )\b(?:in|since|by|from|until|on|of)\s+$", re.IGNORECASE)
_ROLES = terms_of(
    """chair chairman chairwoman chairperson director manager president vice ceo cfo cto coo secretary
        treasurer author editor owner supplier contractor contact coordinator leader lead head captain founder
        architect designer publisher manufacturer auditor venue location headquarters seat capital place
        address landlord tenant lessor lessee buyer seller client customer sponsor host organiser organizer
        moderator speaker principal minister mayor governor commissioner inspector engineer responsible
        officer representative curator instructor teacher lecturer investigator supervisor bank insurer
        provider vendor operator partner department agency institution currency language colour color
        led headed chaired written signed designed built located held based born founded owned managed
        produced manufactured supplied approved prepared edited published appointed named called named
        headquartered situated painted composed invented discovered directed hosted sponsored operated
        administered audited maintained delivered developed"""
)
"""Words beside which a name is the value of an attribute."""
_BEFORE_NAME = re.compile(
    r"""(?: :\s* | \b(?:is|was|be|been|by|named|called|appointed|elected|as|becomes?|became)\s+
    | \b(?:located|held|based|born|place|situated|headquartered|produced|manufactured|built|office|offices
      |headquarters|seat|plant|registered|signed|founded)\s+(?:in|at)\s+ )(?:the\s+|an?\s+)?
    (?:mr|mrs|ms|dr|prof|professor)?\.?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_AFTER_NAME = re.compile(
    r"\s*,?\s*(?:is|was|serves as|acts as|has been|remains|became)\s+(?:the|our|its)\s+"
    r"(?P<role>[\w-]+(?:\s+[\w-]+)?)"
)
_NAME = re.compile(
    r"(?:[A-ZÀ-Þ][\w’'&.-]*|[A-Z]\.)(?:\s+(?:of|de|van|von|der|la|le|and|&)\s+(?=[A-ZÀ-Þ])|\s+(?=[A-ZÀ-Þ]))?"
)
_OPPOSITES = [
    tuple(terms_of(side) for side in pair.split("/"))
    for pair in (
        "allowed permitted authorised authorized admitted / prohibited forbidden banned disallowed",
        "included covered covers / excluded excludes",
        "open / closed",
        "mandatory required compulsory obligatory / optional voluntary",
        "approved accepted granted adopted passed / rejected refused denied declined",
        "available / unavailable",
        "active enabled / inactive disabled",
        "possible / impossible",
        "valid / invalid",
        "successful succeeded / unsuccessful failed",
        "safe / unsafe dangerous",
        "increased rose grew risen climbed increase growth / decreased fell declined dropped decline",
        "higher / lower",
        "won / lost",
        "profit / loss",
        "legal lawful / illegal unlawful",
        "renewable / nonrenewable",
        "refundable / nonrefundable",
        "public / confidential",
        "begins starts / ends",
        "always / never",
        "with / without",
        "largest highest biggest most / smallest lowest fewest least",
    )
]
_FROM_TO = re.compile(
    r"\bfrom\s+(?:the\s+)?([\w-]+)[^.;]*?\s(?:to|towards)\s+(?:the\s+)?([\w-]+)", re.IGNORECASE
)
_DATED = re.compile(
    r"""\b(?:found|establish|open|clos|sign|expir|due|begin|began|start|end|complet|launch|elect|born|died|since
    |effective|deadline|adopt|publish|introduc|inaugurat|built|construct|join|appoint|incorporat
    |invent|discover|releas|valid|schedul|held|takes?\ place|took\ place|submit|submission|deliver
    |commission|creat|acquir|merg|retir|issu|renew|return|arriv|depart|meet|met\b|approv|enter|terminat|last|ratif|award|built|issue|review
    |by\ \d|hand|pay)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of which a date may be the value, not the time for which something else holds."""


def find_disagreement(one: Assertion, other: Assertion, subjects: DocumentSubjects) -> Disagreement | None:
    """Return what two assertions about the same disagree on; None where they agree or are of other things."""
    if OWN_DATE.match(one.text) and OWN_DATE.match(other.text):
        return None
    if one.is_distant or other.is_distant or have_other_ways(one.text, other.text):
        return None
    found = _compare_words(one, other)
    if found is None or _is_vague(one, other, found, subjects) or subjects.have_other_numbers(one, other):
        return None
    if subjects.begin_with_other_names(one, found.spans[0], other, found.spans[1]):
        return None
    if subjects.have_other_periods(one, other, _years_beside(one, other, found)):
        return None
    return None if subjects.are_apart(one.document, other.document) else found


def have_other_ways(one: str, other: str) -> bool:
    """Return whether two texts go from one place to another, and not from the same one."""
    first, second = _FROM_TO.search(one), _FROM_TO.search(other)
    return first is not None and second is not None and first[1].lower() == second[2].lower()


def agree(one: Assertion, other: Assertion) -> bool:
    """Return whether two assertions of the same words have the same values."""
    pairs = list(zip(one.slots, other.slots, strict=False))
    return bool(pairs) and all(compare_slots(one, a, other, b) is Outcome.SAME for a, b in pairs)


def _compare_words(one: Assertion, other: Assertion) -> Disagreement | None:
    is_text = one.cell is None and other.cell is None
    if (
        is_text
        and (parts := _match_words(one, other)) is not None
        and (found := _compare_alike(one, other, parts)) is not None
    ):
        return found
    return None


def _match_words(one: Assertion, other: Assertion) -> list[tuple[Span, Span]] | None:
    """Return the words that two sentences do not share, as ranges; None where they share fewer than most."""
    matcher = SequenceMatcher(None, one.words, other.words, autojunk=False)
    if matcher.real_quick_ratio() < ALIKE or matcher.ratio() < ALIKE:
        return None
    return [((a1, a2), (b1, b2)) for tag, a1, a2, b1, b2 in matcher.get_opcodes() if tag != "equal"]


def _compare_alike(one: Assertion, other: Assertion, matched: list[tuple[Span, Span]]) -> Disagreement | None:
    """Compare two sentences of nearly the same words: at most one part of them differs, or one value."""
    parts = [part for part in matched if _has_content(one, part[0]) or _has_content(other, part[1])]
    differing = _differing(one, other)
    if len(parts) > 1 or differing is None:
        return None
    if not parts and one.is_negated == other.is_negated:
        return _compare_in_order(one, other, differing) if one.qualifiers == other.qualifiers else None
    if differing:
        return None
    if not parts:
        is_turned = one.qualifiers == other.qualifiers
        return Disagreement(ConflictKind.NEGATION, (_whole(one), _whole(other))) if is_turned else None
    return None if one.is_negated != other.is_negated else _compare_part(one, other, parts[0])


def _compare_part(one: Assertion, other: Assertion, part: tuple[Span, Span]) -> Disagreement | None:
    """Compare the only part in which two sentences differ."""
    first, second = part
    if _are_antonyms(one, first, other, second):
        kind = ConflictKind.NEGATION
    elif one.qualifiers == other.qualifiers and _are_names(one, first, other, second):
        kind = ConflictKind.NAME
    else:
        return None
    return Disagreement(kind, (_span(one, first), _span(other, second)))


def _has_content(assertion: Assertion, part: Span) -> bool:
    return any(word not in STOPS and word not in LIGHT for word in assertion.words[part[0] : part[1]])


def _differing(one: Assertion, other: Assertion) -> list[int] | None:
    """Return the numbers of the values that are not the same, in order; None where they cannot be paired."""
    if [slot.mark == NUMBER for slot in one.slots] != [slot.mark == NUMBER for slot in other.slots]:
        return None
    return [
        number
        for number, (a, b) in enumerate(zip(one.slots, other.slots, strict=True))
        if compare_slots(one, a, other, b) is not Outcome.SAME
    ]


def _compare_in_order(one: Assertion, other: Assertion, differing: list[int]) -> Disagreement | None:
    if len(differing) != 1:
        return None
    number = differing[0]
    return _dispute(one, one.slots[number], other, other.slots[number], is_alike=True)


def _dispute(
    one: Assertion, slot: Slot, other: Assertion, beside: Slot, *, is_alike: bool
) -> Disagreement | None:
    """Return the disagreement of two values, if they are of one kind and no times of something else."""
    outcome = compare_slots(one, slot, other, beside)
    spans = (slot.value.start, slot.value.end), (beside.value.start, beside.value.end)
    if outcome is Outcome.UNIT:
        return Disagreement(ConflictKind.UNIT, spans) if is_alike else None
    if outcome is not Outcome.OTHER:
        return None
    if slot.mark == NUMBER:
        return Disagreement(ConflictKind.NUMBER, spans)
    if YEAR in (slot.mark, beside.mark) and not (
        _is_date_of_event(one, slot) and _is_date_of_event(other, beside)
        if len(one.slots) > 1 or len(other.slots) > 1
        else _is_dated(one, other)
    ):
        return None
    if slot.value.clock is None and not is_alike and not _is_dated(one, other):
        return None
    return Disagreement(ConflictKind.DATE, spans)


def _is_dated(one: Assertion, other: Assertion) -> bool:
    return _DATED.search(one.text) is not None and _DATED.search(other.text) is not None


def _is_date_of_event(assertion: Assertion, slot: Slot) -> bool:
    """Return whether a year among other values is that of an event: "was appointed director in 2019 and"."""
    before = assertion.text[max(slot.value.start - 60, 0) : slot.value.start]
    return _IN_YEAR.search(before) is not None and _DATED.search(before) is not None


def _whole(assertion: Assertion) -> Span:
    return 0, len(assertion.text)


def _span(assertion: Assertion, part: Span) -> Span:
    spans = assertion.spans[part[0] : part[1]]
    return spans[0][0], spans[-1][1]


def _are_antonyms(one: Assertion, first: Span, other: Assertion, second: Span) -> bool:
    words = _content(one, first), _content(other, second)
    if not all(len(found) == 1 for found in words):
        return False
    a, b = words[0][0], words[1][0]
    return any((a in x and b in y) or (a in y and b in x) for x, y in _OPPOSITES)


def _content(assertion: Assertion, part: Span) -> list[str]:
    return [word for word in assertion.words[part[0] : part[1]] if word not in STOPS and word not in LIGHT]


def _are_names(one: Assertion, first: Span, other: Assertion, second: Span) -> bool:
    """Return whether two parts are names that stand as the value of an attribute."""
    for assertion, part in ((one, first), (other, second)):
        words = assertion.words[part[0] : part[1]]
        if not 0 < len(words) <= MAX_NAME_WORDS or any(word.startswith("#") for word in words):
            return False
        start, end = _span(assertion, part)
        named = assertion.text[start:end]
        if _NAME.match(named) is None or not _is_name(named):
            return False
        if not _stands_as_value(assertion.text, start, end):
            return False
    return names_differ(one.text[slice(*_span(one, first))], other.text[slice(*_span(other, second))])


def _is_name(text: str) -> bool:
    words = re.findall(r"[^\W\d_][\w’'&.-]*", text)
    capital = [word for word in words if word[0].isupper()]
    return bool(capital) and all(
        word[0].isupper() or word.lower() in {"of", "de", "van", "von", "der", "la", "le", "and", "the"}
        for word in words
    )


def _stands_as_value(text: str, start: int, end: int) -> bool:
    before = re.sub(r"(?:[A-ZÀ-Þ][\w’'.-]*\s+)+$", "", text[:start])
    after = re.sub(r"^(?:\s+[A-ZÀ-Þ][\w’'.-]*)+", "", text[end:])
    if not before.strip():
        match = _AFTER_NAME.match(after)
        return match is not None and not _ROLES.isdisjoint(terms_of(match["role"]))
    return _BEFORE_NAME.search(before) is not None and not _ROLES.isdisjoint(terms_of(before))


def names_differ(one: str, other: str) -> bool:
    """Return whether two names share no word, and none is made of the initials of the other."""
    first, second = re.findall(r"\w+", fold(one)), re.findall(r"\w+", fold(other))
    if set(first) & set(second):
        return False
    initials = ["".join(word[0] for word in words) for words in (first, second)]
    whole = ["".join(words) for words in (first, second)]
    are_short = initials[0] == whole[1] or initials[1] == whole[0]
    return not (are_short or whole[0].startswith(whole[1]) or whole[1].startswith(whole[0]))


def _context(assertion: Assertion, subjects: DocumentSubjects) -> frozenset[str]:
    """Return the terms that an assertion need not state: of the headings, the caption and the title."""
    caption = assertion.cell.caption if assertion.cell is not None else frozenset[str]()
    return assertion.heading | caption | subjects.title_of(assertion.document)


def compare_slots(one: Assertion, slot: Slot, other: Assertion, beside: Slot) -> Outcome:
    """Compare two values, each with the text and the heads around it."""
    a, b = slot.value, beside.value
    if (a.clock is None) != (b.clock is None) or (a.day is None) != (b.day is None):
        return Outcome.UNLIKE
    if a.day is not None:
        return _compare_days(one, a, other, b)
    if a.clock is not None:
        return Outcome.SAME if a.clock == b.clock else Outcome.OTHER
    return _compare_numbers(one, a, other, b)


def _compare_days(one: Assertion, a: TextValue, other: Assertion, b: TextValue) -> Outcome:
    if Agreement.SAME in (compare(a, b), compare(b, a)) or _are_swapped(one, a, other, b):
        return Outcome.SAME
    return Outcome.OTHER if _are_dates_apart(a, b) else Outcome.UNLIKE


def _compare_numbers(one: Assertion, a: TextValue, other: Assertion, b: TextValue) -> Outcome:
    """Compare two numbers in both directions: either may be the other, rounded or in another unit."""
    about = any(_ABOUT.search(text) for text in (one.text[: a.start], other.text[: b.start]))
    rounding = Rounding(asked=True)
    results = {
        compare(a, b, claimed=one.context, around=other.context, rounding=rounding),
        compare(b, a, claimed=other.context, around=one.context, rounding=rounding),
    }
    if min(results) <= Agreement.LOOSE or _are_near(a, b, about=about):
        return Outcome.SAME
    if Agreement.OTHER_FORM in results:
        return Outcome.UNIT if a.units and b.units else Outcome.UNLIKE
    is_other = results == {Agreement.OTHER_VALUE}
    if not is_other or _are_of_unlike_units(a, b) or _differ_by_scale(one, a, other, b):
        return Outcome.UNLIKE
    return Outcome.OTHER


def _are_dates_apart(a: TextValue, b: TextValue) -> bool:
    """Return whether two dates have a part in common that they give otherwise."""
    assert a.day is not None
    assert b.day is not None
    return any(x and y and x != y for x, y in zip(a.day, b.day, strict=True))


def _are_swapped(one: Assertion, a: TextValue, other: Assertion, b: TextValue) -> bool:
    """Return whether two dates are the same if that with slashes has its day first."""
    assert a.day is not None
    assert b.day is not None
    slashed = any(
        "/" in assertion.text[value.start : value.end] for assertion, value in ((one, a), (other, b))
    )
    return slashed and a.day.year == b.day.year and (a.day.month, a.day.day) == (b.day.day, b.day.month)


def _are_near(a: TextValue, b: TextValue, *, about: bool) -> bool:
    """Return whether one number may be the other, rounded: to its zeros, or loosely beside "about"."""
    x, y = abs(a.amount or _ZERO), abs(b.amount or _ZERO)
    if about and abs(x - y) <= max(x, y) / 10:
        return True
    if a.units != b.units:
        return False
    steps = sorted((_worth(x, a.step), _worth(y, b.step)))
    return steps[1] > steps[0] and abs(x - y) < steps[1] and max(x, y) >= 10 * steps[1]


def _worth(number: Decimal, step: Decimal) -> Decimal:
    """Return what the last digit of a number is worth, or its zeros if there are two or more."""
    digits = f"{round(number / step):d}" if step else "0"
    zeros = len(digits) - len(digits.rstrip("0"))
    return step * 10**zeros if zeros >= 2 else step


def _are_of_unlike_units(a: TextValue, b: TextValue) -> bool:
    """Return whether both have units, and none of one quantity: amounts in two currencies say nothing."""
    return bool(a.units and b.units) and {unit.dimension for unit in a.units}.isdisjoint(
        unit.dimension for unit in b.units
    )


def _differ_by_scale(one: Assertion, a: TextValue, other: Assertion, b: TextValue) -> bool:
    """Return whether the number of a cell may be the other in thousands or millions."""
    if one.cell is None and other.cell is None:
        return False
    x, y = sorted((abs(a.amount or _ZERO), abs(b.amount or _ZERO)))
    if x == 0:
        return False
    return any(abs(y / factor - x) <= x / 50 for factor in (10**2, 10**3, 10**6, 10**9))


def _years_beside(
    one: Assertion, other: Assertion, found: Disagreement
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the years of two assertions without those of the values in dispute."""
    first, second = (
        frozenset(
            slot.value.day.year
            for slot in assertion.slots
            if slot.value.day is not None and slot.value.day.year and slot.value.start != span[0]
        )
        for assertion, span in zip((one, other), found.spans, strict=True)
    )
    return first, second


def _is_vague(one: Assertion, other: Assertion, found: Disagreement, subjects: DocumentSubjects) -> bool:
    """Return whether the words that two assertions share do not tell that they are about one thing."""
    shared = _shared_terms(one, other, subjects)
    names = {name for name in (one.names | other.names) & shared if len(name) > 2}
    years = _years_beside(one, other, found)
    enough = 2 if years[0] and years[0] == years[1] else 3
    is_specific = len(shared) >= 6 or (bool(names) and len(shared) >= enough)
    headings = (
        one.heading - other.heading - set(other.words) - GENERIC,
        other.heading - one.heading - set(one.words) - GENERIC,
    )
    titles = subjects.title_of(one.document), subjects.title_of(other.document)
    if all(headings) and not is_specific and not (headings[0] <= titles[1] or headings[1] <= titles[0]):
        return True
    if one.document == other.document:
        return not is_specific
    if titles[0] & titles[1]:
        return len(shared) < _MIN_SHARED[found.kind]
    return not is_specific and len(shared) < 5


def _shared_terms(one: Assertion, other: Assertion, subjects: DocumentSubjects) -> frozenset[str]:
    common = (one.terms & other.terms) | (one.qualifiers & other.qualifiers)
    beside = (one.terms & _context(other, subjects)) | (other.terms & _context(one, subjects))
    return common | beside
