"""The facts of linked documents that are about the same: each the best partner of the other.

Two facts are compared by the weight of the words that they share. What makes a pair doubtful is left out:
a second partner that is nearly as good, another time, part or thing, and a value that both documents state.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vrag.reading.conflicts.alignment import (
    Disagreement,
    Outcome,
    have_other_ways,
)
from vrag.reading.conflicts.assertions import Assertion
from vrag.reading.conflicts.fact_comparison import (
    BOUNDS,
    are_bounds_apart,
    are_of_opposites,
    are_of_other_rates,
    compare_facts,
    content_words,
    counts_same,
    disagreement_of,
    is_said,
    kind_of,
    log_ratio,
    predicate_classes,
    shared_words,
    years_of,
)
from vrag.reading.conflicts.fact_words import (
    CALENDAR,
    COMMON,
    CONDITION,
    ENDS,
    EXTREMES,
    PLANS,
    ROLES,
    TIMES,
    root,
)
from vrag.reading.conflicts.stated_facts import FactKind, StatedFact
from vrag.reading.conflicts.subjects import DocumentSubjects
from vrag.text.terms import tokens

MIN_SCORE = 0.6
"""Share of the weight of their words that two facts have in common."""
MIN_PREDICATE_SCORE = 0.7
MIN_LONG_TERMS = 3
"""Words that the facts of two long texts share, and a sentence and its denial without a known predicate."""
MARGIN = 0.1
"""What the best partner of a fact has more than the second."""
MIN_AGREEING, MIN_AGREEING_PREDICATE = 0.7, 0.85
"""Share of the best score from which a fact with the same value shows that the documents agree."""
MAX_POSTINGS = 120
"""Facts of one document with one word beyond which it is too common to find others by."""
MIN_LARGE, MIN_DENIED, MOST_LARGE = 0.5, 0.6, 0.75
"""Share of the words of the longer of two sentences that both have, if that is only one word."""
MAX_RARE = 4
"""Facts of each of two documents with one word that alone tells what two of them are of."""
MOST_MISSING, MOST_UNASKED = 0.4, 0.5
"""Shares of the weight of a label, and of a question, that the other fact may lack."""
HALF = 0.5
"""Worth of a word that stands in the clause of one fact, and elsewhere in the sentence of the other."""
IN_SENTENCE, IN_CONTEXT = 0.6, 0.3
"""The same of two values; and of a word that stands in a heading, or in the sentence before."""
OF_TITLE, OF_COMMON = 0.3, 0.35
"""Worth of a word of a title, of which the whole document is, and of a common word."""
MOST_SHARED, MOST_RATIO = 3.0, 1.4
"""Weight of shared words from which more says nothing, and logarithm of the ratio of two values from which
they are of two things."""
MIN_WORDS = 2
"""Words that two sentences with numbers without a unit share at least if they are about the same."""
BY_SHARED, BY_LABEL, BY_RATIO, BY_UNIT, BY_COUNTED = 1.9, 1.0, -0.65, 0.55, 0.7
"""Weights of what shows that two values are of the same, fitted to the values of 43 pairs of documents."""
MIN_LIKENESS, MIN_LIKENESS_LONG = 1.9, 2.6
"""The least sum, and that of two sentences of nearly the same words in two long texts."""
MIN_OF_LABEL = 0.6
"""The share of a label, or of a question, that another label or question has at least."""
MARGIN_OF_LIKENESS, MARGIN_OF_RIVAL = 0.5, 0.3
"""What the best partner of a value has more than a second one; and what that one has more with another value,
if it is no rival."""
MAX_UNCONFIRMED = 4
"""Conflicts of two documents, with fewer facts that agree, from which they are about two things."""
_SOFT_LIMITS = BOUNDS | set(
    """fiscal percentag percent monthli annual chang only children child under over if not per adult first
    second back instanc""".split()
)
"""Limits that one of two facts about the same may leave unsaid."""
_MORE = {"extra", "additional", "addit", "further", "another"}
_PAST = {"past", "previous", "prior", "earlier"}
_RESTRICTS = re.compile(
    r"(?:for|with|without|among|within|outside|unlike)\b(?! (?:the (?:first|second|last) time|example))",
    re.IGNORECASE,
)
"""The beginning of a sentence that holds for some only."""
_COMMON = COMMON | TIMES | CALENDAR


@dataclass(frozen=True, slots=True)
class _Partner:
    fact: StatedFact
    score: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _ValuePair:
    one: StatedFact
    other: StatedFact
    outcome: Outcome
    score: float

    def sides(self) -> tuple[tuple[int, StatedFact], tuple[int, StatedFact]]:
        """Return both facts, each with its identity."""
        return (id(self.one), self.one), (id(self.other), self.other)


@dataclass(slots=True)
class FactMatcher:
    """The facts of documents, by their words."""

    subjects: DocumentSubjects
    _facts: defaultdict[str, list[StatedFact]] = field(
        default_factory=lambda: defaultdict[str, list[StatedFact]](list)
    )
    """By document."""
    _counts: Counter[str] = field(default_factory=Counter[str])
    _postings: dict[tuple[str, str, str], list[StatedFact]] = field(
        default_factory=dict[tuple[str, str, str], list[StatedFact]]
    )
    _total: int = 0
    _said: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict[str, Counter[str]](Counter)
    )
    """The assertions of each document that have a root, and its facts that have a unit."""
    _contexts: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """The roots of the headings of a fact and of the sentence before it, by its identity."""
    _before: tuple[str, frozenset[str]] = ("", frozenset())
    """The item and the roots of the last assertion."""

    def add(self, assertion: Assertion, facts: Iterable[StatedFact]) -> None:
        """Add the facts of an assertion."""
        words: set[str] = set()
        said = self._said[assertion.document]
        before = self._before[1] if self._before[0] == assertion.item else frozenset[str]()
        context = content_words(self.subjects.known_to(assertion) | before)
        for fact in facts:
            self._facts[assertion.document].append(fact)
            self._contexts[id(fact)] = context
            words |= fact.core | fact.around | fact.asked
            said.update(term for term in fact.core if term[0] == "#")
            terms = fact.core | fact.around
            if fact.slot is not None:
                terms |= fact.asked | context
            for term in terms:
                if term[0] == "#":
                    continue
                self._postings.setdefault((assertion.document, kind_of(fact), term), []).append(fact)
        self._before = assertion.item, frozenset(map(root, assertion.terms))
        said.update(term for term in words if term[0] != "#")
        self._counts.update(words)
        self._total += 1

    def find(
        self, among: Callable[[Assertion], bool] | None = None
    ) -> Iterator[tuple[StatedFact, StatedFact, Disagreement]]:
        """Yield the facts that disagree, with their values; only of assertions that `among` accepts."""
        documents = list(self._facts)
        for number, one in enumerate(documents):
            for other in documents[number + 1 :]:
                if self.subjects.are_linked(one, other) and not self.subjects.are_apart(one, other):
                    yield from self._compare(one, other, among)

    def _compare(
        self, one: str, other: str, among: Callable[[Assertion], bool] | None
    ) -> Iterator[tuple[StatedFact, StatedFact, Disagreement]]:
        found: list[tuple[StatedFact, StatedFact, Disagreement]] = []
        agreed = self._find_agreed(one, other)
        for pair in self._pair_values(one, other, agreed):
            if pair.outcome is Outcome.SAME:
                agreed |= {id(pair.one), id(pair.other)}
            else:
                found.append((pair.one, pair.other, disagreement_of(pair.one, pair.other, pair.outcome)))
        for fact in self._facts[one]:
            if id(fact) in agreed or fact.slot is not None:
                continue
            best = self._choose(self._partners(fact, other), agreed)
            if best is None:
                continue
            back = self._choose(self._partners(best.fact, one), agreed)
            if back is None or (back.fact is not fact and back.fact.text.casefold() != fact.text.casefold()):
                continue
            if not self._is_doubtful(fact, best.fact):
                found.append((fact, best.fact, disagreement_of(fact, best.fact, best.outcome)))
        found = list(
            {(a.text.casefold(), b.text.casefold(), d.kind): (a, b, d) for a, b, d in found}.values()
        )
        confirmed = (
            len(agreed) + self._count_same_predicates(one, other) if len(found) >= MAX_UNCONFIRMED else 1
        )
        if len(found) < MAX_UNCONFIRMED or (confirmed and 4 * confirmed >= len(found)):
            yield from (
                entry
                for entry in found
                if among is None or among(entry[0].assertion) or among(entry[1].assertion)
            )

    def _pair_values(self, one: str, other: str, agreed: set[int]) -> Iterator[_ValuePair]:
        """Yield the values of two documents that are of the same, those most alike first.

        Each value has one partner at most. A pair with a second partner that is nearly as good, and that has
        no better one itself, is left out.
        """
        pairs = sorted(self._rate_values(one, other), key=lambda pair: -pair.score)
        by_fact: defaultdict[int, list[_ValuePair]] = defaultdict(list)
        for pair in pairs:
            for side, _ in pair.sides():
                by_fact[side].append(pair)
        taken = set(agreed)
        for pair in pairs:
            if not taken.isdisjoint(side for side, _ in pair.sides()):
                continue
            if pair.outcome is Outcome.SAME:
                if pair.score >= MIN_LIKENESS:
                    taken.update(side for side, _ in pair.sides())
                    yield pair
            elif (
                pair.score >= self._least_likeness(pair)
                and not self._has_rival(pair, by_fact, taken)
                and not self._is_doubtful(pair.one, pair.other)
            ):
                taken.update(side for side, _ in pair.sides())
                yield pair

    def _least_likeness(self, pair: _ValuePair) -> float:
        are_sentences = not (pair.one.is_labelled or pair.other.is_labelled)
        documents = pair.one.assertion.document, pair.other.assertion.document
        if not (are_sentences and self.subjects.are_long(*documents)):
            return MIN_LIKENESS
        return MIN_LIKENESS_LONG if self.subjects.are_one_sentence(pair.one, pair.other) else math.inf

    def _has_rival(self, pair: _ValuePair, by_fact: Mapping[int, list[_ValuePair]], taken: set[int]) -> bool:
        """Return whether a side of a pair has another partner that is nearly as good."""
        for number, (side, _) in enumerate(pair.sides()):
            for rival in by_fact[side]:
                if rival.score <= pair.score - MARGIN_OF_LIKENESS:
                    break
                partner, fact = rival.sides()[1 - number]
                says_same = fact.text.casefold() == pair.sides()[1 - number][1].text.casefold()
                if partner in taken or (says_same and (rival.outcome is pair.outcome)):
                    continue
                if rival.outcome is not Outcome.SAME and self._are_of_other_times(rival.one, rival.other):
                    continue
                others = [
                    third.score
                    for third in by_fact[partner]
                    if third.sides()[number][0] != side and third.sides()[number][0] not in taken
                ]
                if max(others, default=-math.inf) < rival.score + MARGIN_OF_RIVAL:
                    return True
        return False

    def _rate_values(self, one: str, other: str) -> Iterator[_ValuePair]:
        """Yield the values of two documents that can be compared and have words in common."""
        titles = frozenset(map(root, self.subjects.title_of(one) | self.subjects.title_of(other)))
        weigh = self._weigher(one, other, titles)
        for fact in self._facts[one]:
            if fact.slot is None:
                continue
            for beside in self._list_near(fact, other):
                outcome = compare_facts(fact, beside)
                ratio = log_ratio(fact, beside)
                if outcome is None or (
                    ratio > MOST_RATIO and content_words(fact.core) != content_words(beside.core)
                ):
                    continue
                score = self._rate_likeness(fact, beside, weigh, titles)
                score += BY_RATIO * min(ratio, MOST_RATIO)
                if score >= MIN_LIKENESS - MARGIN_OF_LIKENESS:
                    yield _ValuePair(fact, beside, outcome, score)

    def _list_near(self, fact: StatedFact, document: str) -> list[StatedFact]:
        """Return the values of a document, not of other years, with a word that stands near a value."""
        terms = content_words(fact.core)
        if not self.subjects.are_long(fact.assertion.document, document):
            terms |= content_words(fact.around | fact.asked) | self._contexts[id(fact)]
        near: dict[int, StatedFact] = {}
        for term in terms:
            candidates = self._postings.get((document, kind_of(fact), term), ())
            if len(candidates) <= MAX_POSTINGS:
                near.update((id(beside), beside) for beside in candidates)
        return [
            beside
            for beside in near.values()
            if not (fact.years and beside.years and fact.years.isdisjoint(beside.years))
        ]

    def _weigher(self, one: str, other: str, titles: frozenset[str]) -> Callable[[Iterable[str]], float]:
        """Return a function that weighs words: less if they are common in two documents, or in all."""
        said = self._said[one], self._said[other]
        most = math.log((self._total + 20) / 2)
        weights: dict[str, float] = {}

        def weigh_one(term: str) -> float:
            worth = min(1.0, math.log((self._total + 20) / (self._counts[term] + 1)) / most)
            worth *= OF_TITLE if term in titles else 1
            worth *= OF_COMMON if term in _COMMON else 1
            return worth / math.sqrt(math.sqrt(max(1, said[0][term]) * max(1, said[1][term])))

        def weigh(terms: Iterable[str]) -> float:
            total = 0.0
            for term in terms:
                if term not in weights:
                    weights[term] = weigh_one(term)
                total += weights[term]
            return total

        return weigh

    def _rate_likeness(
        self,
        one: StatedFact,
        other: StatedFact,
        weigh: Callable[[Iterable[str]], float],
        titles: frozenset[str],
    ) -> float:
        """Return how likely two values are of the same by the words around them, apart from their ratio."""
        cores = content_words(one.core) - {one.rate}, content_words(other.core) - {other.rate}
        context = self._contexts[id(one)] - titles, self._contexts[id(other)] - titles
        beside = content_words(one.around | one.asked), content_words(other.around | other.asked)
        shared = cores[0] & cores[1]
        half = ((cores[0] & beside[1]) | (beside[0] & cores[1])) - shared
        rest = (
            (
                (beside[0] & beside[1])
                | ((cores[0] | beside[0]) & context[1])
                | (context[0] & (cores[1] | beside[1]))
            )
            - shared
            - half
        )
        is_same_sentence = self.subjects.are_one_sentence(one, other)
        if not is_same_sentence:  # what limits both values says nothing of what they are of
            limiting = (one.adjunct & other.adjunct) | PLANS
            shared, half, rest = shared - limiting, half - limiting, rest - limiting
        is_count = one.kind is FactKind.NUMBER and not any(term[0] == "#" for term in one.core)
        is_sentence = not (one.is_labelled or other.is_labelled)
        if (not is_same_sentence and all(map(self.subjects.is_name, shared - COMMON))) or (
            is_count and is_sentence and len(shared_words(one, other)) < MIN_WORDS
        ):
            return -math.inf
        mass = weigh(shared) + IN_SENTENCE * weigh(half) + IN_CONTEXT * weigh(rest)
        labels: list[float] = []
        for a, b in ((one, other), (other, one)):
            asked = content_words(a.asked) - TIMES - EXTREMES - COMMON - ENDS
            if asked:
                said = b.core | b.around | b.asked | self.subjects.known_to(b.assertion)
                labels.append(weigh(asked & said) / max(weigh(asked), 0.1))
        if len(labels) > 1 and max(labels) < MIN_OF_LABEL:
            return -math.inf
        return (
            BY_SHARED * math.sqrt(min(mass, MOST_SHARED))
            + BY_LABEL * min(labels, default=1.0)
            + BY_UNIT * self._rate_unit(one, other)
            + BY_COUNTED * (counts_same(one, other) + counts_same(other, one))
        )

    def _rate_unit(self, one: StatedFact, other: StatedFact) -> float:
        """Return how telling it is that two values have one unit: more if few of their documents have it."""
        units = [{term for term in fact.core if term[0] == "#"} for fact in (one, other)]
        if units[0] & units[1]:
            documents = {fact.assertion.document for fact in (one, other)}
            most = max(
                sum(self._said[document][unit] for document in documents) for unit in units[0] & units[1]
            )
            return 1 / math.sqrt(max(most, 1))
        return -0.3 if one.kind is FactKind.NUMBER and not any(units) else 0.0

    def _count_same_predicates(self, one: str, other: str) -> int:
        same = 0
        for fact in self._facts[one]:
            if fact.kind is FactKind.PREDICATE:
                partners = self._partners(fact, other)[:1]
                same += sum(p.outcome is Outcome.SAME and p.score >= MIN_PREDICATE_SCORE for p in partners)
        return same

    def _find_agreed(self, one: str, other: str) -> set[int]:
        """Return the facts of two documents, by identity, that say the same: no side of a conflict."""
        agreed = {
            id(fact)
            for document, beside in ((one, other), (other, one))
            for fact in self._facts[document]
            if self.subjects.says(beside, fact.assertion)
        }
        for fact in self._facts[one]:
            if fact.kind is not FactKind.NAME:
                continue
            same = [partner for partner in self._partners(fact, other) if partner.outcome is Outcome.SAME]
            if same and same[0].score >= MIN_SCORE:
                agreed |= {id(fact), *(id(partner.fact) for partner in same if partner.score >= MIN_SCORE)}
        return agreed

    def _partners(self, fact: StatedFact, document: str) -> list[_Partner]:
        """Return the facts of a document that may be about the same, the best first."""
        near: dict[int, StatedFact] = {}
        for term in fact.core:
            candidates = self._postings.get((document, kind_of(fact), term), ())
            if len(candidates) <= MAX_POSTINGS:
                near.update((id(one), one) for one in candidates)
        found = (self._rate(fact, one) for one in near.values())
        return sorted(filter(None, found), key=lambda partner: -partner.score)

    def _choose(self, partners: list[_Partner], agreed: set[int]) -> _Partner | None:
        """Return the best partner, if it says something else and no other one comes near it."""
        partners = [one for one in partners if one.outcome is Outcome.SAME or id(one.fact) not in agreed]
        if not partners or partners[0].outcome is Outcome.SAME:
            return None
        best = partners[0]
        least = MIN_PREDICATE_SCORE if best.fact.kind is FactKind.PREDICATE else MIN_SCORE
        if best.score < least:
            return None
        for partner in partners[1:]:
            share = MIN_AGREEING_PREDICATE if best.fact.kind is FactKind.PREDICATE else MIN_AGREEING
            if partner.outcome is Outcome.SAME and partner.score >= share * best.score:
                return None
            is_same = partner.fact.text.casefold() == best.fact.text.casefold() or (
                best.fact.kind is FactKind.PREDICATE and partner.outcome is best.outcome
            )
            if partner.score > best.score - MARGIN and not is_same:
                return None
        return best

    def _weight(self, term: str) -> float:
        if self.subjects.is_name(term):
            return 0.5
        if term[0] in "#~":
            return 1.0
        return math.log((self._total + 20) / (self._counts[term] + 1))

    def _mass(self, terms: Iterable[str]) -> float:
        return sum(map(self._weight, terms))

    def _rate(self, one: StatedFact, other: StatedFact) -> _Partner | None:
        """Compare two facts; None where they cannot be about the same."""
        outcome = compare_facts(one, other)
        if outcome is None or (one.years and other.years and one.years.isdisjoint(other.years)):
            return None
        known = self.subjects.known_to(one.assertion), self.subjects.known_to(other.assertion)
        if one.kind is FactKind.NAME and not (
            self._is_named(one, known[1]) and self._is_named(other, known[0])
        ):
            return None
        shared = one.core & other.core
        half = ((one.core & other.around) | (one.around & other.core)) - shared
        sizes = (
            self._mass(one.core - (known[1] - other.core - other.around)),
            self._mass(other.core - (known[0] - one.core - one.around)),
        )
        mass = self._mass(shared) + HALF * self._mass(half)
        small, large = (min(mass / max(size, 0.1), 1) for size in sorted(sizes))
        if not self._are_of_one_label(one, other, known):
            return None
        telling = {
            term for term in (shared | half) - (known[0] & known[1]) - TIMES - COMMON if term[0] not in "#~="
        }
        if len(telling) < self._least(one, other, large, telling):
            return None
        is_predicate = one.kind is FactKind.PREDICATE and not (one.is_labelled or other.is_labelled)
        weight = 0.4 if is_predicate else 0.7
        return _Partner(other, weight * small + (1 - weight) * large, outcome)

    def _are_of_one_label(
        self, one: StatedFact, other: StatedFact, known: tuple[frozenset[str], frozenset[str]]
    ) -> bool:
        """Return whether each fact has the words of the label or the question of the other."""
        for a, b, beside in ((one, other, known[1]), (other, one, known[0])):
            label = {
                term
                for term in a.asked - TIMES - EXTREMES - COMMON - ENDS
                if len(term) > 1 and not term.isdecimal()
            }
            most = MOST_UNASKED if a.assertion.asked else MOST_MISSING
            if self._mass(label - (b.core | b.around | beside)) > most * self._mass(label):
                return False
        return True

    def _is_rare(self, term: str, one: StatedFact, other: StatedFact) -> bool:
        """Return whether few facts of two documents have a word."""
        return all(
            len(self._postings.get((fact.assertion.document, kind_of(fact), term), ())) <= MAX_RARE
            for fact in (one, other)
        )

    def _least(self, one: StatedFact, other: StatedFact, large: float, telling: set[str]) -> float:
        """Return how many telling words two facts share at least, if `large` is that of the longer one.

        Two long texts state the same only in sentences of nearly the same words, or in labels and tables.
        """
        documents = one.assertion.document, other.assertion.document
        is_sentence = not (one.is_labelled or other.is_labelled)
        is_role_only = one.kind is FactKind.NAME and large < MOST_LARGE and telling <= ROLES
        if is_sentence and (is_role_only or self.subjects.are_long(*documents)):
            return math.inf
        if one.kind is FactKind.PREDICATE:
            if not is_sentence:
                return 1
            if large < (MIN_DENIED if predicate_classes(one) else MOST_LARGE):
                return math.inf
            if not predicate_classes(one):
                return MIN_LONG_TERMS
            is_short = min(len(one.core), len(other.core)) <= 2 and self.subjects.share_subject(*documents)
            return 1 if is_short and large >= MOST_LARGE else 2
        is_rare = any(self._is_rare(term, one, other) for term in telling)
        least = MIN_LARGE / 2 if self.subjects.share_subject(*documents) else MIN_LARGE
        return 1 if is_rare and (large >= least or not is_sentence) else 2

    def _is_named(self, fact: StatedFact, known: frozenset[str]) -> bool:
        """Return whether words are a name: not of the subject that is `known`, nor the only one to begin."""
        if is_said(fact, known):
            return False
        words = [root(token.term) for token in tokens(fact.text)]
        return any(map(self.subjects.is_name, words)) and not (len(words) == 1 and fact.span[0] == 0)

    def _is_doubtful(self, one: StatedFact, other: StatedFact) -> bool:
        """Return whether two facts may be of other times, parts or things."""
        years = years_of(one, other)
        for a, b in ((one, other), (other, one)):
            said = b.core | b.around | self.subjects.known_to(b.assertion)
            ignored = _SOFT_LIMITS | (_PAST if all(years) else set[str]())
            ignored |= _MORE if b.limits & _MORE else set[str]()
            if any(said.isdisjoint((limit, root(limit))) for limit in a.limits - b.limits - ignored):
                return True
            if a.adjunct - said and (
                _RESTRICTS.match(a.assertion.text) or CONDITION.search(a.assertion.text)
            ):
                return True
            places = {term for term in a.places if self.subjects.is_name(term)}
            if places and places.isdisjoint(said):
                return True
        return (
            are_bounds_apart(one, other)
            or are_of_opposites(one, other)
            or are_of_other_rates(one, other)
            or have_other_ways(one.assertion.text, other.assertion.text)
            or (one.slot is None and self.subjects.name_others(one, other))
            or self.subjects.belong_to_others(one, other)
            or self.subjects.are_of_other_things(one, other)
            or self._are_of_other_times(one, other)
        )

    def _are_of_other_times(self, one: StatedFact, other: StatedFact) -> bool:
        return self.subjects.have_other_periods(one.assertion, other.assertion, years_of(one, other))
