"""The comparison of statements: of two values, and of two editions of one sentence.

In editions of a text a sentence that was changed in one small part states something else; no other sign is
needed that both are about the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from enum import StrEnum

from vrag.reading.conflicts.assertions import Assertion, Slot
from vrag.reading.conflicts.fact_words import Span, split_words
from vrag.reading.verification.comparison import Agreement, Rounding, compare
from vrag.reading.verification.text_values import TextValue
from vrag.text.folding import fold

_ZERO = Decimal()
ALIKE = 0.6
"""Share of equal words from which two sentences may be editions of one."""
SHORT = 5
"""Words of a statement of which half must be equal."""
MAX_PART = 8
"""Words of the part that two editions of a sentence do not have in common."""
MAX_GAP = 1
"""Equal words between two differences that are taken for one."""
MAX_POSTINGS = 60
"""Statements of a document with one word beyond which it is too common to find others by."""
BESIDE = 0.1
"""What the same statement before or behind two others adds to their likeness."""
SPELT_ALIKE = 0.9
"""Share of equal letters from which two names are two spellings of one."""
MAX_RENAMED = 3
"""Sentences with one name in place of another from which it is another word for the same."""


class ConflictKind(StrEnum):
    """The kind of value in which the sides of a conflict differ."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    UNIT = "unit"
    NEGATION = "negation"


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
_FROM_TO = re.compile(
    r"\bfrom\s+(?:the\s+)?([\w-]+)[^.;]*?\s(?:to|towards)\s+(?:the\s+)?([\w-]+)", re.IGNORECASE
)
_NEGATIONS = frozenset("not never no cannot nor neither non n't".split())
_CALENDAR = frozenset(
    """january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    jan feb mar apr jun jul aug sep sept oct nov dec spring summer autumn winter""".split()
)
_ORDINAL = re.compile(
    r"\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
)
_OPPOSITES = [
    tuple(frozenset(side.split()) for side in row.split("/"))
    for row in """
        allowed permitted authorised authorized admitted welcome / prohibited forbidden banned disallowed
        included covered covers including include includes / excluded excludes excluding except exclude
        open opens / closed closes
        mandatory required compulsory obligatory must shall / optional voluntary may can should
        approved accepted granted adopted passed / rejected refused denied declined
        available / unavailable
        active enabled / inactive disabled
        possible / impossible
        valid / invalid void
        successful succeeded / unsuccessful failed
        safe / unsafe dangerous
        increased rose grew risen climbed increase growth / decreased fell declined dropped decline decrease
        higher more above over maximum most / lower less below under minimum least
        won / lost
        profit gain / loss
        legal lawful / illegal unlawful
        refundable / nonrefundable non-refundable
        public / confidential private
        always / never
        with / without
        before / after
        all any / no none
        paid / unpaid
        largest highest biggest / smallest lowest fewest
        daily / weekly / monthly / quarterly / yearly annually annual
        hour hours / day days / week weeks / month months / year years
    """.strip().splitlines()
]
"""Words of which an edition that has one in place of the other states the opposite, or another time."""


def find_edited(
    one: Sequence[Assertion], other: Sequence[Assertion]
) -> Iterator[tuple[Assertion, Assertion, Disagreement]]:
    """Yield the statements of two editions that were changed in one small part, with that part."""
    found: list[tuple[Assertion, Assertion, Disagreement]] = []
    for a, b in _pair(one, other):
        if disagreement := find_change(a, b):
            found.append((a, b, disagreement))
    seen: set[tuple[str, str]] = set()
    names = Counter(_values(entry) for entry in found if entry[2].kind is ConflictKind.NAME)
    for entry in found:
        values = _values(entry)
        if names[values] >= MAX_RENAMED or (entry[2].kind is ConflictKind.NAME and values in seen):
            continue
        seen.add(values)
        yield entry


def _values(entry: tuple[Assertion, Assertion, Disagreement]) -> tuple[str, str]:
    one, other, found = entry
    return one.text[slice(*found.spans[0])].casefold(), other.text[slice(*found.spans[1])].casefold()


def _pair(one: Sequence[Assertion], other: Sequence[Assertion]) -> Iterator[tuple[Assertion, Assertion]]:
    """Yield the statements of one edition only that are each the best counterpart of the other."""
    said = [{a.said for a in side} for side in (one, other)]
    own = [
        [n for n, a in enumerate(side) if a.said not in said[1 - k]] for k, side in enumerate((one, other))
    ]
    postings: defaultdict[str, list[int]] = defaultdict(list)
    for number in own[1]:
        for word in set(other[number].said.split()):
            postings[word].append(number)
    rated: list[tuple[float, int, int]] = []
    for number in own[0]:
        mine = one[number].said.split()
        near = Counter(n for word in set(mine) if len(postings[word]) <= MAX_POSTINGS for n in postings[word])
        for beside, shared in near.items():
            if (one[number].cell is None) == (other[beside].cell is None):
                likeness = _rate(mine, other[beside].said.split(), shared)
                if likeness:
                    rated.append((likeness + _stand_alike(one, number, other, beside), number, beside))
    taken: tuple[set[int], set[int]] = set(), set()
    for _, number, beside in sorted(rated, key=lambda entry: (-entry[0], abs(entry[1] - entry[2]))):
        if number not in taken[0] and beside not in taken[1]:
            taken[0].add(number)
            taken[1].add(beside)
            yield one[number], other[beside]


def _rate(one: Sequence[str], other: Sequence[str], shared: int) -> float:
    """Return how much of the shorter of two statements is in the longer one; 0 where it is too little."""
    small = min(len(one), len(other))
    if 2.5 * shared < small:
        return 0
    same = sum(
        block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    )
    ratio = 2 * same / (len(one) + len(other))
    return ratio if ratio >= (0.5 if small <= SHORT else ALIKE) or same >= max(SHORT, 0.8 * small) else 0


def _stand_alike(one: Sequence[Assertion], at: int, other: Sequence[Assertion], beside: int) -> float:
    """Return the weight of the same statement before and behind two others."""
    same = 0
    for step in (-1, 1):
        a, b = at + step, beside + step
        if 0 <= a < len(one) and 0 <= b < len(other):
            same += one[a].said == other[b].said
    return BESIDE * same


def find_change(one: Assertion, other: Assertion) -> Disagreement | None:
    """Return the only part in which two editions of a statement differ, if it changes what is stated."""
    if one.cell is not None and one.text.rpartition(": ")[0] != other.text.rpartition(": ")[0]:
        return None
    words = split_words(one.text), split_words(other.text)
    folded = [[fold(word) for word, _, _ in side] for side in words]
    blocks = [
        (a1, a2, b1, b2)
        for tag, a1, a2, b1, b2 in SequenceMatcher(None, *folded, autojunk=False).get_opcodes()
        if tag != "equal"
        and not _is_beside(one, words[0], (a1, a2))
        and not _is_beside(other, words[1], (b1, b2))
    ]
    if not blocks or blocks[-1][0] - blocks[0][1] > MAX_GAP + sum(a2 - a1 for a1, a2, _, _ in blocks[1:-1]):
        return None
    a1, a2, b1, b2 = blocks[0][0], blocks[-1][1], blocks[0][2], blocks[-1][3]
    if max(a2 - a1, b2 - b1) > MAX_PART:
        return None
    return _compare_values(one, words[0][a1:a2], other, words[1][b1:b2]) or _compare_parts(
        one, (words[0], a1, a2), other, (words[1], b1, b2)
    )


def _is_beside(assertion: Assertion, words: Sequence[tuple[str, int, int]], part: Span) -> bool:
    """Return whether words are a heading that stands before a sentence, or another sentence behind it."""
    start, end = part
    if start == end:
        return False
    if start == 0 and end < len(words) - 1:
        return words[end][0][0].isupper() and words[end - 1][0].lower() not in _NEGATIONS
    return end == len(words) and start > 1 and assertion.text[: words[start][1]].rstrip()[-1:] in {*".;:!?"}


def _compare_values(
    one: Assertion, part: list[tuple[str, int, int]], other: Assertion, beside: list[tuple[str, int, int]]
) -> Disagreement | None:
    """Compare the values that stand in the changed parts, if they are as many; one of them differs."""
    if not part or not beside:
        return None
    slots = [
        [slot for slot in assertion.slots if slot.value.start < span[-1][2] and span[0][1] < slot.value.end]
        for assertion, span in ((one, part), (other, beside))
    ]
    if not slots[0] or len(slots[0]) != len(slots[1]):
        return None
    for a, b in zip(*slots, strict=True):
        outcome = compare_slots(one, a, other, b)
        spans = (a.value.start, a.value.end), (b.value.start, b.value.end)
        if outcome is Outcome.SAME:
            continue
        if outcome is Outcome.UNIT:
            return Disagreement(ConflictKind.UNIT, spans)
        is_date = a.value.day is not None or a.value.clock is not None
        if outcome is Outcome.UNLIKE and (is_date or a.value.amount == b.value.amount):
            return None if is_date else Disagreement(ConflictKind.UNIT, spans)
        return Disagreement(ConflictKind.DATE if is_date else ConflictKind.NUMBER, spans)
    return None


Part = tuple[list[tuple[str, int, int]], int, int]


def _compare_parts(one: Assertion, part: Part, other: Assertion, beside: Part) -> Disagreement | None:
    """Compare changed parts without values: a denial, an opposite, a month, or a name."""
    changed = [[word for word, _, _ in side[start:end]] for side, start, end in (part, beside)]
    folded = [[fold(word) for word in side] for side in changed]
    plain = [[re.sub(r"n[’']t$|(?<=can)not$", "", w) for w in side if w not in _NEGATIONS] for side in folded]
    spans = _span(part), _span(beside)
    if plain[0] == plain[1]:
        around = [
            (words, max(start - 1, 0), min(end + 1, len(words))) for words, start, end in (part, beside)
        ]
        spans = _span(around[0]), _span(around[1])
        return Disagreement(ConflictKind.NEGATION, spans) if folded[0] != folded[1] else None
    if not all(folded):
        return None
    if all(word in _CALENDAR or _ORDINAL.fullmatch(word) for side in folded for word in side):
        is_date = any(word in _CALENDAR for side in folded for word in side)
        return Disagreement(ConflictKind.DATE if is_date else ConflictKind.NUMBER, spans)
    if any(_are_opposite(*sorted(map(frozenset, folded), key=len)[::order]) for order in (1, -1)):
        return Disagreement(ConflictKind.NEGATION, spans)
    widened = _widen(part), _widen(beside)
    first, second = (
        assertion.text[slice(*_span(side))] for assertion, side in zip((one, other), widened, strict=True)
    )
    are_names = all(map(_are_capital, changed)) and names_differ(*(" ".join(side) for side in changed))
    if not are_names or SequenceMatcher(None, fold(first), fold(second)).ratio() >= SPELT_ALIKE:
        return None
    return Disagreement(ConflictKind.NAME, (_span(widened[0]), _span(widened[1])))


def _are_opposite(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether two parts of a word or two have opposite ones, and no other."""
    a, b = first - second - _NEGATIONS, second - first - _NEGATIONS
    if len(a) != 1 or len(b) != 1:
        return False
    (x,), (y,) = a, b
    return any(
        x in side and y in against
        for row in _OPPOSITES
        for side in row
        for against in row
        if side is not against
    )


def _are_capital(words: Sequence[str]) -> bool:
    """Return whether all words, but those as in "Bank of Norway", begin with a capital letter."""
    small = {"of", "de", "van", "von", "der", "la", "le", "and", "the", "&"}
    return any(word[0].isupper() for word in words) and all(
        word[0].isupper() or word in small for word in words
    )


def _widen(part: Part) -> Part:
    """Return a changed part with the words of the name around it."""
    words, start, end = part
    while start > 1 and words[start - 1][0][0].isupper() and words[start][1] - words[start - 1][2] == 1:
        start -= 1
    while end < len(words) and words[end][0][0].isupper() and words[end][1] - words[end - 1][2] == 1:
        end += 1
    return words, start, end


def _span(part: Part) -> Span:
    """Return the place of a changed part; of an empty one that of the words beside it."""
    words, start, end = part
    if start == end:
        start, end = max(start - 1, 0), min(end + 1, len(words))
    return words[start][1], words[end - 1][2]


def have_other_ways(one: str, other: str) -> bool:
    """Return whether two texts go from one place to another, and not from the same one."""
    first, second = _FROM_TO.search(one), _FROM_TO.search(other)
    return first is not None and second is not None and first[1].lower() == second[2].lower()


def names_differ(one: str, other: str) -> bool:
    """Return whether two names share no word, and none is made of the initials of the other."""
    first, second = re.findall(r"\w+", fold(one)), re.findall(r"\w+", fold(other))
    if set(first) & set(second):
        return False
    initials = ["".join(word[0] for word in words) for words in (first, second)]
    whole = ["".join(words) for words in (first, second)]
    are_short = initials[0] == whole[1] or initials[1] == whole[0]
    return not (are_short or whole[0].startswith(whole[1]) or whole[1].startswith(whole[0]))


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
