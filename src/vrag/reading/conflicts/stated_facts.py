"""The facts that an assertion states: each value, name or predicate, with the words that say what it is of.

They are read in the same way from sentences, labels, cells of tables and answers to questions, so that a
fact of one form can be compared with that of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from vrag.reading.conflicts.assertions import Assertion, Slot, terms_of
from vrag.reading.conflicts.fact_words import (
    AFTER_NAME,
    ANSWER,
    BAN,
    BEFORE_NAME,
    BELONGING,
    CAPTION,
    CLAUSE,
    CONDITION,
    DATING,
    DENIED,
    ENDS,
    EXTREMES,
    IN_SENTENCE,
    LEADING,
    LIGHT,
    LIMITS,
    LIMITS_OF_QUESTION,
    MAX_NAME_CORE,
    NAME,
    NEGATION,
    NEVER,
    NO_NAMES,
    OWN_DATE,
    PARTITIVE,
    PEOPLE,
    PLACE,
    QUALIFIERS,
    QUOTED,
    RATE,
    ROLES,
    SOFT,
    STOPS,
    TIMES,
    TITLE_AT_END,
    TITLE_OF_PERSON,
    TITLES,
    TO_END,
    TO_START,
    Span,
    denies,
    mark_predicate,
    read_predicate,
    root,
)
from vrag.reading.verification.text_values import find_values
from vrag.text.terms import stem, tokens

MAX_LABEL_WORDS = 8
MIN_CLAUSE_TERMS = 2
MAX_CLAUSE_TERMS = 9
MAX_NAME_WORDS = 6
MAX_BESIDE_NAME = 5
"""Words beside a name in a cell, or behind a label."""
MAX_ACRONYM = 4
"""Letters of an abbreviation that is taken for a unit or a term, and for no name."""


class FactKind(StrEnum):
    """The kind of what is stated."""

    NUMBER = "number"
    DATE = "date"
    CLOCK = "clock"
    NAME = "name"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A value, a name or a predicate of an assertion."""

    assertion: Assertion
    kind: FactKind
    span: Span
    """Its place in the text of the assertion."""
    core: frozenset[str]
    """The roots of the words of its clause, its label or its question: the attribute."""
    around: frozenset[str]
    """The roots of the other words of its sentence."""
    limits: frozenset[str]
    """What limits it to a part, a time or a plan."""
    adjunct: frozenset[str]
    """The roots of what begins the sentence, "In winter," and of conditions."""
    years: frozenset[int] = frozenset()
    """The years of its clause, without those of dates: the time that it is of."""
    places: frozenset[str] = frozenset()
    """The roots of its clause behind a word such as "in", which may name a place or a part."""
    owners: frozenset[str] = frozenset()
    """The roots that begin names behind a word such as "of", in its clause, its label or its question."""
    slot: Slot | None = None
    rate: str = ""
    """The time of a rate, as month in "per month"."""
    asked: frozenset[str] = frozenset()
    """The roots of its label, its heads, or its question."""
    is_labelled: bool = False
    """True for a cell, behind a label, and for the answer to a question."""
    is_positive: bool = True
    """False for a predicate that is denied."""

    @property
    def label(self) -> str:
        """The label before it, or the heads of its cell."""
        return self.assertion.text[: self.span[0]].rsplit(":", 1)[0].split(" · ", 1)[0].strip(" •*–-")

    @property
    def text(self) -> str:
        """The words of the value."""
        return self.assertion.text[slice(*self.span)].strip()


@dataclass(frozen=True, slots=True)
class _Word:
    root: str
    term: str
    start: int
    end: int


def find_facts(assertion: Assertion) -> list[StatedFact]:
    """Return the facts that an assertion states; none of a question."""
    text = assertion.text
    if text.rstrip().endswith("?") and assertion.cell is None:
        return []
    return _FactReader(assertion).read()


class _FactReader:
    def __init__(self, assertion: Assertion) -> None:
        self._assertion = assertion
        self._text = assertion.text
        self._words = [
            _Word(root(word), word, *span)
            for word, span in zip(assertion.words, assertion.spans, strict=True)
            if not word.startswith("#") and word not in STOPS and word not in LIGHT and word not in NEVER
            and (word not in QUALIFIERS or word in SOFT)
        ]  # fmt: skip
        self._asked = frozenset(
            root(token.term)
            for token in tokens(assertion.asked)
            if token.term not in STOPS and token.term not in LIGHT and token.term not in NEVER
        )
        self._years_asked = frozenset(
            value.day.year
            for value in find_values(assertion.asked)
            if value.day is not None and value.day.year and not value.day.month
        )
        self._quoted = [match.span() for match in QUOTED.finditer(self._text)]
        self._label = self._find_label()
        self._is_labelled = bool(self._label or assertion.asked)
        is_clause = assertion.cell is None and IN_SENTENCE.search(self._text, 0, self._label)
        self._named = frozenset[str]() if is_clause else self._roots((0, self._label))
        self._clauses = self._split()
        entry = re.match(r"[(\[]?\w{1,3}[.)\]]\s+", self._text)
        leading = LEADING.match(self._text[entry.end() :] if entry else self._text)
        begin = entry.end() if entry else 0
        self._leading = (begin, begin + leading.end()) if leading else (0, 0)

    def _find_label(self) -> int:
        """Return where a label before a value ends; 0 without one."""
        if self._assertion.cell is not None:
            return self._text.rfind(": ") + 1
        match = re.match(r"[^:.!?]{2,80}:(?=\s)", self._text)
        return match.end() if match and len(match[0].split()) <= MAX_LABEL_WORDS else 0

    def _split(self) -> list[Span]:
        values = [(slot.value.start, slot.value.end) for slot in self._assertion.slots]
        cuts = [0, self._label]
        cuts += [
            match.start()
            for match in CLAUSE.finditer(self._text, self._label)
            if not any(start < match.end() and match.start() < end for start, end in values)
        ]
        cuts += [end for _, end in values if re.match(r"(?:\s\([^)]*\))?\s+[A-ZÀ-Þ][a-z]", self._text[end:])]
        bounds = [*sorted(set(cuts)), len(self._text)]
        return [(a, b) for a, b in pairwise(bounds) if b > a]

    def read(self) -> list[StatedFact]:
        """Return the facts."""
        if self._assertion.is_listing or CAPTION.match(self._text):
            return []
        return [*self._read_values(), *self._read_names(), *self._read_predicates()]

    def _roots(self, span: Span, *, beside: Span = (0, 0)) -> frozenset[str]:
        return frozenset(
            word.root
            for word in self._words
            if span[0] <= word.start < span[1] and not beside[0] <= word.start < beside[1]
        )

    def _core(self, place: Span, kind: FactKind) -> tuple[frozenset[str], Span]:
        """Return the roots of the clause of a value, with its label and its question, and the clause.

        A clause that has no words of its own takes those before it, up to a value: its subject.
        """
        at = max(number for number, clause in enumerate(self._clauses) if clause[0] <= place[0])
        clause = self._clauses[at]
        core = self._roots(clause, beside=place) | self._asked
        if self._label:
            core |= self._roots((0, self._label), beside=place)
        if not core:
            is_before = kind is FactKind.NAME or place[0] == clause[0]
            near = [
                self._subject(number, place)
                for number in ((at + 1, at - 1) if is_before else (at - 1, at + 1))
            ]
            if kind is FactKind.NAME:
                near.sort(key=ROLES.isdisjoint)
            core = next(filter(None, near), core)
        return core, clause

    def _subject(self, number: int, place: Span) -> frozenset[str]:
        """Return the roots of a clause, up to its first value."""
        if not 0 <= number < len(self._clauses):
            return frozenset()
        start, end = self._clauses[number]
        values = [slot.value.start for slot in self._assertion.slots if start <= slot.value.start < end]
        return self._roots((start, min([end, *values])), beside=place)

    def _limits(self, clause: Span) -> frozenset[str]:
        texts = [self._text[slice(*clause)], self._text[: self._label]]
        if self._leading[1]:
            texts.append(self._text[slice(*self._leading)])
        found = {name for name, sign in LIMITS.items() if any(map(sign.search, texts))}
        found |= {name for name, sign in LIMITS_OF_QUESTION.items() if sign.search(self._assertion.asked)}
        if NEGATION.search(texts[0]) and "maximum" not in found:
            found.add("not")
        found |= {
            word
            for word, (start, _) in zip(self._assertion.words, self._assertion.spans, strict=True)
            if word in QUALIFIERS and word not in SOFT
            and (clause[0] <= start < clause[1] or start < self._label or start < self._leading[1])
        }  # fmt: skip
        return frozenset(found)

    def _years(self, clause: Span, place: Span) -> frozenset[int]:
        days = {
            slot.value.start: slot.value.day for slot in self._assertion.slots if slot.value.day is not None
        }
        return frozenset(
            day.year
            for start, day in days.items()
            if day.year and not day.month and start != place[0]
            and (clause[0] <= start < clause[1] or start < max(self._leading[1], self._label)
                 or re.fullmatch(r"[^,.;]{0,24}\(\D{0,12}", self._text[place[1] : start]))
        ) | self._years_asked  # fmt: skip

    def _places(self, clause: Span, place: Span) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for match in PLACE.finditer(self._text, *clause):
            found |= self._roots(match.span(1), beside=place)
        return found

    def _owners(self, clause: Span) -> frozenset[str]:
        asked = [terms_of(match[1]) for match in BELONGING.finditer(self._assertion.asked)]
        found = frozenset(root(term) for terms in asked for term in terms)
        for span in (clause, (0, self._label)):
            for match in BELONGING.finditer(self._text, *span):
                found |= self._roots(match.span(1))
        return found

    def _adjunct(self, clause: Span, place: Span) -> frozenset[str]:
        """Return the roots of what begins the sentence, and of a condition in the clause."""
        found: frozenset[str] = frozenset()
        if self._leading[1] and not self._leading[0] <= place[0] < self._leading[1]:
            found |= self._roots(self._leading)
        if match := CONDITION.search(self._text, *clause):
            found |= self._roots((match.start(), clause[1]), beside=place)
        return found

    def _fact(self, kind: FactKind, place: Span, **other: object) -> StatedFact:
        core, clause = self._core(place, kind)
        everything = self._roots((0, len(self._text)), beside=place)
        return StatedFact(
            self._assertion, kind, place, core, everything - core, self._limits(clause),
            self._adjunct(clause, place), self._years(clause, place),
            self._places(clause, place), self._owners(clause), asked=self._asked | self._named,
            is_labelled=self._is_labelled, **other,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip

    def _read_values(self) -> Iterator[StatedFact]:
        for slot in self._assertion.slots:
            start, end = slot.value.start, slot.value.end
            if any(a <= start < b for a, b in self._quoted) or self._is_head(start):
                continue
            if DENIED.search(self._text, 0, start):
                continue
            if re.match(r"\w|[:/-]\d", self._text[end:]) or re.search(r"[\w][:/]?$|-$", self._text[:start]):
                continue  # part of a code
            if slot.value.day is not None and self._label and OWN_DATE.match(self._text):
                continue
            day = slot.value.day
            if day is not None:
                kind = FactKind.DATE
                if not self._is_date_stated(start, is_year=not day.month):
                    continue
            else:
                kind = FactKind.NUMBER if slot.value.clock is None else FactKind.CLOCK
            fact = self._fact(kind, (start, end), slot=slot, rate=self._rate(end))
            yield self._with_ends(fact) if kind is not FactKind.NUMBER else self._with_unit(fact, slot)

    def _is_head(self, start: int) -> bool:
        return self._assertion.cell is not None and start < self._label

    def _with_unit(self, fact: StatedFact, slot: Slot) -> StatedFact:
        """Leave out the words for its unit, and add its limits."""
        core = (fact.core - EXTREMES) | {
            f"~{limit}" for limit in fact.limits & {"maximum", "minimum", "average"}
        }
        core |= {f"#{unit.dimension}{unit.factor}" for unit in slot.value.units}
        if any(unit.dimension in ("duration", "months") for unit in slot.value.units):
            core -= TIMES
        is_part = not slot.value.units and PARTITIVE.match(self._text, slot.value.end)
        return replace(fact, core=core, limits=fact.limits | {"part"} if is_part else fact.limits)

    def _rate(self, end: int) -> str:
        match = RATE.match(self._text, end)
        return root(stem(match["a"] or match["b"])) if match else ""

    def _is_date_stated(self, start: int, *, is_year: bool) -> bool:
        """Return whether a date is the value of an event or an attribute, not the time of something else."""
        around = f"{self._assertion.asked} {self._text[: self._label]}"
        clause = next(((a, b) for a, b in reversed(self._clauses) if a <= start), (0, len(self._text)))
        if not self._label and re.search(r"\bof\s+$", self._text[:start]):
            return False
        if is_year and not self._label and not self._assertion.asked:
            before = self._text[max(start - 70, 0) : start]
            return re.search(r"\b(?:in|since|from|until|came)\s+$", before) is not None and bool(
                DATING.search(self._text[slice(*clause)])
            )
        return bool(
            DATING.search(f"{around} {self._text[slice(*clause)]}") or self._label or self._assertion.asked
        )

    def _with_ends(self, fact: StatedFact) -> StatedFact:
        """Say of a date or a time whether something begins or ends then, in place of the words for it."""
        before = f"{self._assertion.asked} {self._text[: fact.span[0]]}"[-60:]
        is_end = TO_END.search(before) is not None or "end" in fact.core
        is_start = TO_START.search(before) is not None or "begin" in fact.core
        end = "~to" if is_end else "~from" if is_start else ""
        if not end:
            return fact
        return replace(
            fact, rate=end, core=(fact.core - ENDS) | {end}, limits=fact.limits - {"maximum"} - PEOPLE
        )

    def _read_names(self) -> Iterator[StatedFact]:
        """Yield the names that stand where the value of an attribute stands."""
        for match in NAME.finditer(self._text):
            place = match.span()
            if title := TITLE_OF_PERSON.match(match[0]):
                place = place[0] + title.end(), place[1]
            name = self._text[slice(*place)]
            if place[0] < self._label or not _is_name(name):
                continue
            if any(a <= place[0] < b for a, b in self._quoted):
                continue
            fact = self._fact(FactKind.NAME, place)
            if self._label or self._assertion.asked:
                label = self._roots((0, self._label)) | self._asked
                rest = self._text[self._label : place[0]].split() + self._text[place[1] :].split()
                if self._label and len(rest) > MAX_BESIDE_NAME:
                    continue
                if label and len(fact.core) <= MAX_NAME_CORE:
                    yield fact
            elif fact.core & ROLES and len(fact.core) <= MAX_NAME_CORE and self._stands_as_value(place):
                yield fact

    def _stands_as_value(self, place: Span) -> bool:
        after = AFTER_NAME.match(self._text, place[1])
        if after is not None and root(stem(after["role"])) in ROLES:
            return True
        before = BEFORE_NAME.search(TITLE_AT_END.sub("", self._text[: place[0]]))
        if before is None or re.match(r"-|\s[A-Za-z]+s\b(?=\s+(?:are|were|have))", self._text[place[1] :]):
            return False
        return before["role"] is None or root(stem(before["role"])) in ROLES

    def _read_predicates(self) -> Iterator[StatedFact]:
        """Yield a predicate for each clause, and one for a question that is answered by yes or no."""
        text = self._text
        answer = ANSWER.match(text, self._label)
        if answer and (asked := self._assertion.asked or text[: self._label]):
            words, sign = read_predicate(asked)
            if NEGATION.search(asked) is not None:
                sign = -sign
            if answer[1].lower() == "no":
                sign = -sign
            if words:
                yield StatedFact(
                    self._assertion, FactKind.PREDICATE, answer.span(1), words, frozenset(), frozenset(),
                    frozenset(), is_positive=sign > 0,
                )  # fmt: skip
        for clause in self._clauses:
            if fact := self._predicate(clause):
                yield fact

    def _is_plain(self, clause: Span, roots: frozenset[str]) -> bool:
        """Return whether a clause states one predicate: no list, no value, at most one negation."""
        text = self._text[slice(*clause)]
        has_class = any(name.startswith("=") for name in roots)
        negations = len(NEGATION.findall(text))
        if negations > 1 or (negations and LIMITS["maximum"].search(text)):
            return False
        if self._label:
            return has_class and self._label == clause[0]
        values = (slot.value for slot in self._assertion.slots)
        has_value = any(value.start < clause[1] and clause[0] < value.end for value in values)
        is_answer = negations > 0 and ANSWER.match(text) is not None
        return not text.rstrip().endswith(":") and (has_class or not (has_value or is_answer))

    def _predicate(self, clause: Span) -> StatedFact | None:
        text = self._text[slice(*clause)]
        roots, sign = read_predicate(text)
        negation = NEGATION.search(text)
        if negation is not None and not denies(text, negation):
            return None
        if negation is not None:
            sign = -sign
            roots = (roots - {"=duty"}) | {"=allow"} if BAN.search(text) else roots
        if not self._is_plain(clause, roots):
            return None
        if (negation is None or not self._assertion.asked) and not any(
            name.startswith("=") for name in roots
        ):
            return None
        if self._label:
            roots |= self._roots((0, self._label))
        if not MIN_CLAUSE_TERMS <= len(roots) <= MAX_CLAUSE_TERMS:
            return None
        place = mark_predicate(text, negation)
        place = clause[0] + place[0], clause[0] + place[1]
        everything = self._roots((0, len(self._text))) | self._asked
        return StatedFact(
            self._assertion, FactKind.PREDICATE, place, roots, everything - roots,
            self._limits(clause) - {"maximum", "minimum", "not"}, self._adjunct(clause, place),
            self._years(clause, place), asked=self._asked | self._named,
            is_labelled=self._is_labelled, is_positive=sign > 0,
        )  # fmt: skip


def _is_name(text: str) -> bool:
    """Return whether words with capital letters may be a name: no month, title or unit."""
    words = [word.strip(".’'") for word in text.casefold().split()]
    words = [word for word in words if word not in TITLES]
    if not words or words[0] in NO_NAMES or len(words) > MAX_NAME_WORDS:
        return False
    is_acronym = text.isupper() and len(text) <= MAX_ACRONYM
    return not is_acronym and any(word not in NO_NAMES and stem(word) not in STOPS for word in words)
