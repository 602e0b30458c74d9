"""The subjects of documents: which are about the same, and which facts are of other things."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import log

from vrag.reading.conflicts.assertions import Assertion, terms_of
from vrag.reading.conflicts.editions import GENERIC, REVISION_TERMS, DocumentRevision
from vrag.reading.conflicts.fact_words import CALENDAR, LIGHT, STOPS, Span, root, split_words
from vrag.reading.conflicts.stated_facts import StatedFact

MIN_MENTIONS = 2
"""Times that a name stands in a document that it is about."""
SHARED_TEMPLATE, MIN_TEMPLATE = 0.3, 3
"""Share of the sentences of the smaller document, and sentences, that two documents of one template share."""
REPEATED, MIN_REPEATED = 0.4, 3
"""Share of the statements of the smaller document, and statements, that two editions of a text share."""
MAX_EXTRACT, MOST_REPEATED, MIN_NEAR_WORDS, NEARLY = 40, 0.5, 5, 0.8
"""Statements of a short edition; the share of them that the text has in nearly the same words; the words of
such a statement, and the share of them that both have."""
REVISION = 0.8
"""Share of the sentences of the smaller document that two dated documents share which are editions of one."""
_GENDER = re.compile(r"^(?:she|he|her|his)\b", re.IGNORECASE)
_PRONOUN = re.compile(r"(?:it|they|this|these|its|their)\b", re.IGNORECASE)
_BEFORE_BEGINNING = ("·", "•", ".", "!", "?")
"""What stands before the first word of a sentence, and before that of the head of a column."""
_FIRST_NAME = re.compile(r"(?:The\s+)?(?:[A-ZÀ-Þ][\w’'-]*\s?){1,5}")
_NUMBERED = re.compile(
    r"""\b(?!(?:January|February|March|April|May|June|July|August|September|October|November|December|Version
      |Edition|Revision|Rev|Issue|Page|Chapter|Section|Article|Clause|Table|Figure|In|By|On|From|Until|Since
      |The)\b)
    ([A-Z][a-z]{2,}|flat|unit|room)\s(?!(?:19|20)\d\d\b)(\d+(?:\.\d+)*)\b(?!\s?%|[.,:]\d|\s?[a-z])""",
    re.VERBOSE,
)
"""A name with a number, as Flat 3 or Server 4.2."""
_CODED = re.compile(
    r"""\b(?!(?:Version|Edition|Revision|Rev|Issue|Page|Chapter|Section|Part|Q|FY)\b)([A-Z][A-Za-z]+)\s
    (?!(?:19|20)\d\d\b)([A-Z]?\d+[A-Z]?|[B-HJ-Z])\b(?!\s?%|[.,:]\d)
    | \b(\d+[a-z]?)\s([A-Z][a-z]+\s(?:Street|Road|Lane|Court|Avenue|Drive|Place|Way|Square|Close))\b""",
    re.VERBOSE,
)
"""A name with a number or a code in a title, as Pump R2 or Unit B, and the number of a house."""
BEGINNING, LETTER, SHORT = 10, 30, 80
"""Assertions at the beginning of a document, of a letter, and of a short document."""
SMALL_COLLECTION = 12
"""Documents of a collection in which one name of a title is enough to link two of them."""
MIN_SHARED_TITLE = 0.5
"""Share of the words of a title that a linked document has in its title, or at its beginning."""
MIN_COVERED, MOST_COVERED = 0.33, 0.75
"""Share of the words of a short document that one has that it is linked to, and of the largest such share."""
MIN_COMMON = 4
"""Words that a short document has in common with one that it is linked to."""
MIN_NAMES, MIN_SHARED_NAMES, MOST_NAMES = 3, 0.4, 0.8
"""Names that a short document has in common with one that it is linked to, the share of its names that they
are, and that share where they are fewer."""
MIN_COMMON_WORDS, SAME_WORDS = 3, 0.7
"""Words, and the share of the words of the longer one, that two sentences of nearly the same words share."""
MIN_OF_PART, SAME_OF_PART = 5, 0.9
"""The same where one sentence is a part of the other: words, and their share of those of the shorter one."""
MAX_RARE = 12
"""Documents with one name beyond which it links no two of them, in a small collection."""


@dataclass(slots=True)
class DocumentSubjects:
    """Which documents are about the same, or made of one template about something else."""

    editions: Mapping[str, DocumentRevision]
    _keys: dict[str, set[tuple[str, ...]]] = field(default_factory=dict[str, "set[tuple[str, ...]]"])
    _said: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """What each document states, word for word."""
    _terms: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _names: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    _vocabulary: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The roots of the words of each document."""
    _begin: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The roots of the first assertions of each document."""
    _documents: Counter[str] = field(default_factory=Counter[str])
    """The documents that have a root."""
    _covered: dict[str, dict[str, float]] = field(default_factory=dict[str, "dict[str, float]"])
    _sizes: Counter[str] = field(default_factory=Counter[str])
    """The assertions of each document."""
    _capital: Counter[str] = field(default_factory=Counter[str])
    _initial: Counter[str] = field(default_factory=Counter[str])
    _lower: Counter[str] = field(default_factory=Counter[str])
    _known: dict[tuple[str, frozenset[str]], frozenset[str]] = field(
        default_factory=dict[tuple[str, frozenset[str]], frozenset[str]]
    )
    _apart: dict[tuple[str, str], bool] = field(default_factory=dict["tuple[str, str]", bool])

    def add(self, document: str, assertions: Iterable[Assertion]) -> None:
        """Add the assertions of a page."""
        said = self._said.setdefault(document, set())
        keys = self._keys.setdefault(document, set())
        terms = self._terms.setdefault(document, set())
        names = self._names.setdefault(document, Counter())
        for assertion in assertions:
            terms.update(assertion.words, assertion.heading)
            names.update(assertion.names)
            said.add(assertion.said)
            if assertion.cell is None and len(assertion.terms) >= 2:
                keys.add(assertion.key)

    def find_editions(self) -> Iterator[tuple[str, str]]:
        """Yield the documents that are editions of one text: they share many statements and their subject."""
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for document, said in self._said.items():
            for one in said:
                holders[one].append(document)
        shared = Counter(
            pair for found in holders.values() if len(found) <= MAX_RARE for pair in combinations(found, 2)
        )
        for (one, other), count in shared.items():
            smaller = min(len(self._said[one]), len(self._said[other]))
            is_repeated = count >= max(MIN_REPEATED, REPEATED * smaller)
            if (is_repeated or self._is_rewritten(one, other)) and not self._are_titled_apart(one, other):
                yield one, other

    def _is_rewritten(self, one: str, other: str) -> bool:
        """Return whether most statements of a short document stand in another one, some with other words."""
        small, large = sorted((self._said[one], self._said[other]), key=len)
        if len(small) > MAX_EXTRACT:
            return False
        words = [said.split() for said in large]
        again = sum(said in large or _is_near(said.split(), words) for said in small)
        return again >= max(MIN_REPEATED, MOST_REPEATED * len(small))

    def _are_titled_apart(self, one: str, other: str) -> bool:
        """Return whether each title has words that the other document lacks, or another year."""
        first, second = self.editions[one], self.editions[other]
        own = self._own_title(one, other), self._own_title(other, one)
        are_revisions = first.is_revision and second.is_revision
        have_other_years = bool(first.years and second.years) and first.years != second.years
        return all(own) or (have_other_years and not are_revisions) or self.are_apart(one, other)

    def _own_title(self, one: str, other: str) -> frozenset[str]:
        """Return the words of a title that another document lacks."""
        beside = self.title_of(other) | self._terms.get(other, set())
        return terms_of(self.editions[one].head) - GENERIC - REVISION_TERMS - beside

    def says(self, document: str, assertion: Assertion) -> bool:
        """Return whether a document states the same, word for word."""
        return assertion.said in self._said[document]

    def are_apart(self, one: str, other: str) -> bool:
        """Return whether two documents are of one template and about something else: other names, years."""
        if one == other:
            return False
        pair = (one, other) if one < other else (other, one)
        if pair not in self._apart:
            self._apart[pair] = self._compare(*pair)
        return self._apart[pair]

    def _compare(self, one: str, other: str) -> bool:
        first, second = self.editions[one], self.editions[other]
        if (
            _are_numbered_apart(first, second)
            or _are_of_series(first, second)
            or self._have_other_titles(one, other)
        ):
            return True
        lines = [revision.head.strip().split("\n")[0] for revision in (first, second)]
        if lines[0] == lines[1] and self._own_title(one, other) and self._own_title(other, one):
            return True
        keys = self._keys.get(one, set()), self._keys.get(other, set())
        shared, smaller = len(keys[0] & keys[1]), min(map(len, keys))
        if shared < max(MIN_TEMPLATE, SHARED_TEMPLATE * smaller):
            return False
        have_dates = first.dated is not None and second.dated is not None and first.dated != second.dated
        if have_dates and shared < REVISION * smaller and not (first.is_revision or second.is_revision):
            return True
        return bool(self._own_names(one, other) and self._own_names(other, one))

    def _have_other_titles(self, one: str, other: str) -> bool:
        """Return whether two titles have names or numbers of their own, which the other document lacks."""
        first, second = (self.editions[id] for id in (one, other))
        a, b = _find_coded(first.head), _find_coded(second.head)
        if any(word in b and b[word].isdisjoint(numbers) for word, numbers in a.items()):
            return True
        if self._is_titled_otherwise(one, other) or self._is_titled_otherwise(other, one):
            return True
        names = [self._names_of_title(id) for id in (one, other)]
        if names[0] & names[1]:
            return False
        own = names[0] - self._vocabulary.get(other, set()), names[1] - self._vocabulary.get(one, set())
        return all(own)

    def _is_titled_otherwise(self, one: str, other: str) -> bool:
        """Return whether the first lines of a shorter document have names, none of them in the longer one."""
        if self._sizes[one] > self._sizes[other]:
            return False
        beside = self._vocabulary.get(other, set()) | set(map(root, self.title_of(other)))
        names = self._subject_of(one) & set(map(root, terms_of(self.editions[one].head)))
        return bool(names) and names.isdisjoint(beside)

    def _own_names(self, one: str, other: str) -> set[str]:
        """Return the names that one document is about and the other does not have."""
        revision, others = self.editions[one], self._terms.get(other, set()) | self.editions[other].title
        named = {name for name, count in self._names[one].items() if count >= MIN_MENTIONS}
        title = {term for term in revision.title if self.is_name(root(term))}
        return {term for term in (named | title) - others if len(term) > 2}

    def have_other_periods(
        self, one: Assertion, other: Assertion, years: tuple[frozenset[int], frozenset[int]]
    ) -> bool:
        """Return whether two assertions are of different years: of their own, or of their documents'."""
        if all(years):
            return years[0] != years[1]
        editions = self.editions[one.document], self.editions[other.document]
        if one.document == other.document:
            return bool(years[0] or years[1])
        if not any(years) and all(revision.is_revision for revision in editions):
            return False
        first, second = years[0] or editions[0].years, years[1] or editions[1].years
        if any(years):
            return not (first and second and not first.isdisjoint(second))
        return bool(first and second) and first.isdisjoint(second)

    def add_facts(self, document: str, assertion: Assertion) -> None:
        """Count the words of an assertion: which are written as names."""
        words = self._vocabulary.setdefault(document, set())
        said = {root(word) for word in assertion.words} | {root(term) for term in terms_of(assertion.asked)}
        self._documents.update(said - words)
        words |= said
        self._sizes[document] += 1
        if self._sizes[document] <= BEGINNING:
            self._begin.setdefault(document, set()).update(map(root, assertion.words))
        for number, (word, (start, _)) in enumerate(zip(assertion.words, assertion.spans, strict=True)):
            if assertion.text[start].isupper():
                begins = number == 0 or assertion.text[:start].rstrip()[-1:] in _BEFORE_BEGINNING
                (self._initial if begins else self._capital)[root(word)] += 1
            else:
                self._lower[root(word)] += 1
        for word, start, _ in split_words(assertion.asked)[1:]:
            counts = self._capital if assertion.asked[start].isupper() else self._lower
            counts.update(map(root, terms_of(word)))

    def add_title(self, document: str) -> None:
        """Count the words of a title that is not written in capital letters throughout."""
        for line in self.editions[document].head.splitlines():
            words = [word for word, _, _ in split_words(line)[1:]]
            if any(word.islower() and len(word) > 3 for word in words):
                for word in words:
                    counts = self._capital if word[0].isupper() else self._lower
                    counts.update(map(root, terms_of(word)))

    def is_name(self, term: str) -> bool:
        """Return whether a root is written with a capital letter more often than not."""
        return self._capital[term] > self._lower[term] and term not in CALENDAR

    def known_to(self, assertion: Assertion) -> frozenset[str]:
        """Return the roots that an assertion need not state: of its headings, caption and document."""
        key = assertion.document, assertion.heading
        if key not in self._known:
            words = assertion.heading | self.title_of(assertion.document)
            if assertion.cell is not None:
                words |= assertion.cell.caption
            self._known[key] = frozenset(map(root, words))
        return self._known[key]

    def are_linked(self, one: str, other: str) -> bool:
        """Return whether two documents may be about the same.

        Their titles share a name or two other words, or one begins with a name of the title of the other, or
        is short and most of its words, or some of its names, stand in the other.
        """
        titles = [{root(term) for term in self.editions[id].title if len(term) > 2} for id in (one, other)]
        for title, beside in (
            (titles[0], titles[1]),
            *zip(titles, (self._begin[other], self._begin[one]), strict=True),
        ):
            shared = {term for term in title & beside if self._is_rare(term)}
            names = sum(map(self.is_name, shared))
            least = min(len(title), len(titles[1])) if beside is titles[1] else len(title)
            is_small = len(self._vocabulary) <= SMALL_COLLECTION
            if (names or (beside is titles[1] and len(shared) > 1)) and (
                (names and is_small) or len(shared) >= MIN_SHARED_TITLE * least
            ):
                return True
        for document, beside in ((one, other), (other, one)):
            if self._sizes[document] <= SHORT:
                if self._has_source(document, beside):
                    return True
                names = {
                    term for term in self._vocabulary[document] if self.is_name(term) and self._is_rare(term)
                }
                common = names & self._vocabulary[beside]
                share = MIN_SHARED_NAMES if len(common) >= MIN_NAMES else MOST_NAMES
                if common and len(common) >= share * len(names):
                    return True
        return False

    def _has_source(self, document: str, beside: str) -> bool:
        """Return whether most of the words of a document stand in another one, and in few others as many."""
        if document not in self._covered:
            self._covered[document] = {
                id: self._cover(document, id) for id in self._vocabulary if id != document
            }
        covered = self._covered[document]
        if len(self._content(document) & self._content(beside)) < MIN_COMMON:
            return False
        most = max(
            share for id, share in covered.items() if id == beside or self._sizes[id] > self._sizes[document]
        )
        return covered[beside] >= max(MIN_COVERED, MOST_COVERED * most)

    def _cover(self, document: str, beside: str) -> float:
        """Return the share of the weight of the words of a document that another one has."""
        own = self._content(document)
        weights = {term: log(1 + len(self._vocabulary) / self._documents[term]) for term in own}
        return sum(weights[term] for term in own & self._vocabulary[beside]) / max(sum(weights.values()), 1)

    def _content(self, document: str) -> set[str]:
        return {term for term in self._vocabulary[document] if term[0] != "#"} - STOPS - LIGHT

    def _is_rare(self, term: str) -> bool:
        return self._documents[term] <= max(MAX_RARE, len(self._vocabulary) / 2)

    def are_of_other_things(self, one: StatedFact, other: StatedFact) -> bool:
        """Return whether two facts have names, and none in common with the other or its document."""
        if self.have_other_numbers(one.assertion, other.assertion):
            return True
        if self.begin_with_other_names(one.assertion, one.span, other.assertion, other.span):
            return True
        for a, b in ((one, other), (other, one)):
            named = {term for term in a.core if a.assertion.cell is not None and self.is_name(term)}
            first = self._first_names(a.assertion, a.span)
            vocabulary = self._vocabulary[b.assertion.document]
            if named and named.isdisjoint(self._context(b.assertion)) and not named <= vocabulary:
                return True
            beside = vocabulary | self._context(b.assertion)
            if (first and first.isdisjoint(beside)) or self._first_modifier(a.assertion, a.span) - beside:
                return True
        foreign = [self._foreign_names(a, b) for a, b in ((one, other), (other, one))]
        if all(foreign):
            return True
        said = [self._first_names(fact.assertion, fact.span) for fact in (one, other)]
        return not any(said) and self._have_other_subjects(one.assertion.document, other.assertion.document)

    def name_others(self, one: StatedFact, other: StatedFact) -> bool:
        """Return whether one of two facts has a name that the document of the other never mentions."""
        for a, b in ((one, other), (other, one)):
            vocabulary = self._vocabulary[b.assertion.document]
            if not self._foreign_names(a, b) <= vocabulary | self.known_to(b.assertion):
                return True
            title = {root(term) for term in self.title_of(a.assertion.document)}
            if (
                not a.assertion.asked
                and _PRONOUN.match(a.assertion.text)
                and 2 * len(title - vocabulary) >= max(len(title), 1)
            ):
                return True
        return False

    def are_one_sentence(self, one: StatedFact, other: StatedFact) -> bool:
        """Return whether two facts stand in sentences of nearly the same words, as in two editions."""
        own, beside = (fact.assertion.terms | fact.assertion.qualifiers for fact in (one, other))
        shared, small, large = len(own & beside), *sorted((len(own), len(beside)))
        is_part = shared >= MIN_OF_PART and shared >= SAME_OF_PART * small
        return is_part or shared >= max(MIN_COMMON_WORDS, SAME_WORDS * large)

    def belong_to_others(self, one: StatedFact, other: StatedFact) -> bool:
        """Return whether one of two values belongs to a name that the other document never mentions."""
        return any(
            self.is_name(term)
            and term not in self._vocabulary[b.assertion.document] | self.known_to(b.assertion)
            for a, b in ((one, other), (other, one))
            for term in a.owners
        )

    def _foreign_names(self, fact: StatedFact, other: StatedFact) -> set[str]:
        """Return the names beside a value that the other sentence, its headings and its title do not have."""
        return {term for term in fact.core - self._context(other.assertion) if self.is_name(term)}

    def _have_other_subjects(self, one: str, other: str) -> bool:
        """Return whether two titles have names, none in common, and one is not in the other document."""
        first, second = self._subject_of(one), self._subject_of(other)
        are_short = max(self._sizes[one], self._sizes[other]) <= SHORT
        if not first or not second or first & second or not are_short:
            return False
        return first.isdisjoint(self._vocabulary[other]) or second.isdisjoint(self._vocabulary[one])

    def begin_with_other_names(self, one: Assertion, span: Span, other: Assertion, beside: Span) -> bool:
        """Return whether two assertions begin with names, apart from their values, that the other lacks."""
        first, second = self._first_names(one, span), self._first_names(other, beside)
        return bool(first - self._context(other)) and bool(second - self._context(one))

    def _context(self, assertion: Assertion) -> frozenset[str]:
        return self.known_to(assertion) | frozenset(map(root, assertion.words))

    def share_subject(self, one: str, other: str) -> bool:
        """Return whether the titles of two documents have a name in common."""
        return not self._names_of_title(one).isdisjoint(self._names_of_title(other))

    def are_long(self, one: str, other: str) -> bool:
        """Return whether both of two documents are longer than a letter or a table."""
        return min(self._sizes[one], self._sizes[other]) > LETTER

    def _subject_of(self, document: str) -> set[str]:
        """Return the words of a title that are names, or begin sentences and are never written small."""
        title = map(root, self.editions[document].title)
        return {
            term for term in title if self.is_name(term) or (self._initial[term] and not self._lower[term])
        }

    def _names_of_title(self, document: str) -> set[str]:
        return {term for term in map(root, self.editions[document].title) if self.is_name(term)}

    def _first_names(self, assertion: Assertion, span: Span) -> set[str]:
        """Return the name that a sentence begins with, if not its value; that of the title for he and she."""
        text = assertion.text
        begins = _FIRST_NAME.match(text)
        if _GENDER.match(text):
            return self._subject_of(assertion.document)
        if begins is None or (span[0] < begins.end() and begins.start() < span[1]):
            return set()
        is_long = len(begins[0].split()) > 1 and not begins[0].startswith("The ")
        return {term for term in map(root, terms_of(begins[0]) - GENERIC) if is_long or self.is_name(term)}

    def _first_modifier(self, assertion: Assertion, span: Span) -> frozenset[str]:
        """Return the first word of a name of several words at the beginning: Mill of Mill Bridge."""
        begins = _FIRST_NAME.match(assertion.text)
        if begins is None or (span[0] < begins.end() and begins.start() < span[1]):
            return frozenset()
        words = [word for word in begins[0].removeprefix("The ").split() if word.lower() not in STOPS]
        return frozenset(map(root, terms_of(words[0]))) if len(words) > 1 else frozenset()

    def have_other_numbers(self, one: Assertion, other: Assertion) -> bool:
        """Return whether two assertions, or the titles of their documents, have other numbers of one name."""
        said = [_find_numbered(assertion.text) for assertion in (one, other)]
        titles = [_find_numbered(self.editions[assertion.document].head) for assertion in (one, other)]
        pairs = ((said[0], said[1]), (said[0], titles[1]), (titles[0], said[1]), (titles[0], titles[1]))
        genders = [
            match[0].lower() in ("she", "her") for one in (one, other) if (match := _GENDER.match(one.text))
        ]
        if len(set(genders)) > 1:
            return True
        return any(word in b and b[word].isdisjoint(numbers) for a, b in pairs for word, numbers in a.items())

    def title_of(self, document: str) -> frozenset[str]:
        """Return the terms that name the subject of a document."""
        return self.editions[document].title


def _is_near(words: Sequence[str], others: Iterable[Sequence[str]]) -> bool:
    """Return whether one of other statements has nearly the same words."""
    own = set(words)
    return len(words) >= MIN_NEAR_WORDS and any(
        len(own & set(other)) >= NEARLY * max(len(own), len(set(other))) for other in others
    )


def _find_numbered(text: str) -> dict[str, set[str]]:
    """Return the numbers that stand behind names in a text."""
    found: dict[str, set[str]] = {}
    for word, number in _NUMBERED.findall(text):
        found.setdefault(word.lower(), set()).add(number)
    return found


def _find_coded(title: str) -> dict[str, set[str]]:
    """Return the numbers and codes beside names in a title."""
    found = _find_numbered(title)
    for word, code, house, street in _CODED.findall(title):
        found.setdefault((word or street).lower(), set()).add(code or house)
    return found


def _are_numbered_apart(one: DocumentRevision, other: DocumentRevision) -> bool:
    """Return whether two documents have codes of one kind, and none in common."""
    kinds = {word for word, _ in one.codes} & {word for word, _ in other.codes}
    return bool(kinds) and one.codes.isdisjoint(other.codes)


def _are_of_series(one: DocumentRevision, other: DocumentRevision) -> bool:
    """Return whether two documents are of one series, with other dates."""
    return (
        one.is_serial
        and other.is_serial
        and bool(one.dated and other.dated)
        and one.dated != other.dated
        and not (one.is_revision or other.is_revision)
    )
