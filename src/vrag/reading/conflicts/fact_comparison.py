"""Two facts of two documents: whether they can be compared, and what they disagree on."""

from __future__ import annotations

import math

from vrag.reading.conflicts.alignment import ConflictKind, Disagreement, Outcome, compare_slots, names_differ
from vrag.reading.conflicts.fact_words import COMMON, RATES, root
from vrag.reading.conflicts.stated_facts import FactKind, StatedFact
from vrag.reading.verification.text_values import TextValue
from vrag.text.terms import stem, tokens

FROM_DATES, FROM_NOTHING, FROM_UNITS = 0.3, 1.4, 1.0
"""Logarithm of the ratio of two times of a day, of two values of which one is zero, and of a small number in
two units."""
LARGE = 10
"""Numbers from which two are seldom the same by chance."""
_RANKS = frozenset(
    token.term
    for token in tokens(
        "first second third fourth fifth last left right front rear early late upper lower single double"
    )
)
"""Words of which two facts about the same do not have different ones."""
_OPPOSITES = [
    {root(stem(word)) for word in row.split()}
    for row in (
        "short long",
        "primary secondary",
        "buyer seller",
        "arrival departure",
        "adult child",
        "gross net",
    )
]
"""Words of which each says of two values of one kind which it is."""
BOUNDS = {"maximum", "minimum"}
_QUANTITIES = {"months": "duration"}
"""Dimensions of units by what they measure, where the name of the dimension is another."""
_MONEY = frozenset("USD EUR GBP JPY CNY CHF INR KRW RUB".split())


def are_of_other_rates(one: StatedFact, other: StatedFact) -> bool:
    """Return whether two facts say for what time they are, or of what rank, and not the same.

    One number for two times is a conflict itself.
    """
    rates = [fact.rate or next(iter(sorted(fact.core & RATES)), "") for fact in (one, other)]
    ranks = one.assertion.qualifiers & _RANKS, other.assertion.qualifiers & _RANKS
    is_one_number = one.slot is not None and compare_facts(one, other) is Outcome.UNIT
    return (all(rates) and rates[0] != rates[1] and not is_one_number) or (
        all(ranks) and ranks[0].isdisjoint(ranks[1])
    )


def are_of_opposites(one: StatedFact, other: StatedFact) -> bool:
    """Return whether two facts have the two words of a pair such as short and long, each only one."""
    found = [(pair & one.core, pair & other.core) for pair in _OPPOSITES]
    return any(len(a) == 1 and len(b) == 1 and a != b for a, b in found)


def are_bounds_apart(one: StatedFact, other: StatedFact) -> bool:
    """Return whether one value is a maximum and the other a minimum."""
    bounds = one.limits & BOUNDS, other.limits & BOUNDS
    return all(bounds) and bounds[0].isdisjoint(bounds[1])


def years_of(one: StatedFact, other: StatedFact) -> tuple[frozenset[int], frozenset[int]]:
    """Return the years of two facts; for both those of a sentence that the clause of the other has."""
    first, second = one.years, other.years
    if first != second:
        if first and first <= other.assertion.years:
            second = first
        elif second and second <= one.assertion.years:
            first = second
    return first, second


def compare_facts(one: StatedFact, other: StatedFact) -> Outcome | None:
    """Return whether two facts say the same; None where they cannot be compared."""
    if one.kind is FactKind.PREDICATE:
        return _compare_predicates(one, other)
    if one.kind is FactKind.NAME:
        if is_said(one, other.core | other.around) or is_said(other, one.core | one.around):
            return None
        return Outcome.OTHER if names_differ(one.text, other.text) else Outcome.SAME
    if one.kind is FactKind.NUMBER:
        return _compare_numbers(one, other)
    if one.rate and other.rate and one.rate != other.rate:
        return None
    outcome = _compare_slots(one, other)
    return None if outcome is Outcome.UNLIKE else outcome


def _compare_slots(one: StatedFact, other: StatedFact) -> Outcome:
    assert one.slot is not None
    assert other.slot is not None
    return compare_slots(one.assertion, one.slot, other.assertion, other.slot)


def _compare_numbers(one: StatedFact, other: StatedFact) -> Outcome | None:
    """Compare two numbers; both have units, or none."""
    assert one.slot is not None
    assert other.slot is not None
    outcome = _compare_slots(one, other)
    a, b = one.slot.value, other.slot.value
    is_like = outcome is not Outcome.UNLIKE
    if _are_of_two_units(a, b):
        outcome, is_like = Outcome.UNIT, True
    elif outcome is Outcome.SAME and _are_of_two_rates(one, other):
        outcome = Outcome.UNIT
    elif outcome is Outcome.UNIT:
        is_like = _are_of_one_quantity(a, b)
    elif outcome is Outcome.OTHER:
        counted = bool(a.units) or (_counts_known(one, other) and _counts_known(other, one))
        is_like = bool(a.units) == bool(b.units) and counted
    return outcome if is_like else None


def _are_of_two_units(a: TextValue, b: TextValue) -> bool:
    """Return whether two values are one number in two units of time or money, as 12 weeks and 12 months."""
    quantities = [
        {_QUANTITIES.get(unit.dimension, unit.dimension) for unit in value.units} for value in (a, b)
    ]
    is_same = a.amount is not None and a.amount == b.amount and a.scale == b.scale
    return is_same and bool(quantities[0] & quantities[1]) and set(a.units).isdisjoint(b.units)


def _are_of_two_rates(one: StatedFact, other: StatedFact) -> bool:
    """Return whether two values are one number for two times, as $25 per month and $25 per year."""
    return bool(one.rate and other.rate) and one.rate != other.rate and {one.rate, other.rate} <= RATES


def content_words(terms: frozenset[str]) -> frozenset[str]:
    """Return the roots that are words: no numbers, and no marks of units, limits and predicates."""
    return frozenset(
        term for term in terms if len(term) > 1 and term[0] not in "#~=" and not term.isdecimal()
    )


def shared_words(one: StatedFact, other: StatedFact) -> frozenset[str]:
    """Return the words beside one value that stand in the sentence of the other, also those of its rate."""
    both = (one.core & (other.core | other.around)) | (one.around & other.core)
    return content_words(both) - COMMON


def log_ratio(one: StatedFact, other: StatedFact) -> float:
    """Return the logarithm of the ratio of two values: those of one attribute are mostly of one size."""
    assert one.slot is not None
    assert other.slot is not None
    a, b = one.slot.value, other.slot.value
    if a.day is not None and b.day is not None:
        if not (a.day.year and b.day.year):
            return FROM_DATES
        months = abs(a.day.month - b.day.month) if a.day.month and b.day.month else 0
        return abs(a.day.year - b.day.year) / 10 + months / 12
    if a.amount is None or b.amount is None:
        return FROM_DATES
    if _are_of_two_units(a, b):
        return 0.0 if is_large(one) else FROM_UNITS
    factors = [{unit.dimension: unit.factor for unit in value.units} for value in (a, b)]
    x, y = abs(a.amount), abs(b.amount)
    for dimension in factors[0].keys() & factors[1].keys():
        x, y = x * factors[0][dimension], y * factors[1][dimension]
        break
    return abs(math.log(x / y)) if x and y else FROM_NOTHING


def is_large(fact: StatedFact) -> bool:
    """Return whether a number is so large that two seldom are the same by chance."""
    amount = fact.slot.value.amount if fact.slot is not None else None
    return amount is not None and abs(amount) >= LARGE


def _counts_known(one: StatedFact, other: StatedFact) -> bool:
    """Return whether nothing is counted by a number, or what stands beside another one."""
    assert one.slot is not None
    if not one.assertion.text[one.span[1] :].lstrip()[:1].isalpha():
        return True
    return root(one.slot.counted) in other.core | other.around | other.asked


def counts_same(one: StatedFact, other: StatedFact) -> bool:
    """Return whether what a number without a unit counts is a word beside another such number."""
    if one.kind is not FactKind.NUMBER or one.slot is None or other.slot is None:
        return False
    has_units = one.slot.value.units or other.slot.value.units
    return not has_units and root(one.slot.counted) in other.core | other.around


def kind_of(fact: StatedFact) -> str:
    """Return what facts have in common that can be compared: their kind, of predicates what they state."""
    if fact.kind is not FactKind.PREDICATE:
        return fact.kind
    return " ".join(sorted(predicate_classes(fact))).replace("=duty", "=allow")


def is_said(fact: StatedFact, words: frozenset[str]) -> bool:
    """Return whether a name stands among the words beside another one: it is no other value for it."""
    return {root(token.term) for token in tokens(fact.text)} <= words


def _compare_predicates(one: StatedFact, other: StatedFact) -> Outcome | None:
    """Return whether one predicate denies the other; what must be may not be forbidden."""
    classes = predicate_classes(one), predicate_classes(other)
    if classes[0] != classes[1]:
        duty, ban = sorted((one, other), key=lambda fact: "=duty" not in fact.core)
        is_banned = "=duty" in duty.core and "=allow" in ban.core and duty.is_positive and not ban.is_positive
        return Outcome.OTHER if is_banned else None
    return Outcome.SAME if one.is_positive == other.is_positive else Outcome.OTHER


def _are_of_one_quantity(a: TextValue, b: TextValue) -> bool:
    """Return whether two values with other units measure one thing."""
    first, second = ({"money" if u.dimension in _MONEY else u.dimension for u in v.units} for v in (a, b))
    return not first.isdisjoint(second) and set(a.units).isdisjoint(b.units)


def predicate_classes(fact: StatedFact) -> set[str]:
    """Return the marks of the known predicates of a fact."""
    return {term for term in fact.core if term.startswith("=")}


def disagreement_of(fact: StatedFact, other: StatedFact, outcome: Outcome) -> Disagreement:
    """Return what two facts disagree on."""
    kinds = {
        FactKind.NUMBER: ConflictKind.NUMBER,
        FactKind.DATE: ConflictKind.DATE,
        FactKind.CLOCK: ConflictKind.DATE,
        FactKind.NAME: ConflictKind.NAME,
        FactKind.PREDICATE: ConflictKind.NEGATION,
    }
    kind = ConflictKind.UNIT if outcome is Outcome.UNIT else kinds[fact.kind]
    return Disagreement(kind, (fact.span, other.span), _name_attribute(fact, other))


def _name_attribute(one: StatedFact, other: StatedFact) -> str:
    """Return the words for what two facts are of: a label, a question, or those of a sentence in order."""
    labelled = [fact for fact in (one, other) if fact.is_labelled]
    if labelled:
        label = labelled[0].assertion.asked or labelled[0].label
        return label[:1].lower() + label[1:].rstrip("?")
    shared = one.core & (other.core | other.around)
    pairs = zip(one.assertion.words, one.assertion.spans, strict=True)
    places = [
        span for word, span in pairs if root(word) in shared and not (one.span[0] <= span[0] < one.span[1])
    ]
    return " ".join(one.assertion.text[slice(*span)] for span in places)
