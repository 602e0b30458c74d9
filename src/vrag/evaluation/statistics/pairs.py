"""Pairs of records: two runs of one benchmark, question by question."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.errors import CaseError
from vrag.evaluation.record import CaseOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vrag.evaluation.record import CaseRecord, Subject

Key = tuple[str, str, int]
"""Benchmark, uid, sample."""

ACCURACY = "accuracy"
"""The measure of outcomes: 1 for right, else 0, and none without a verdict."""

_MAX_VALUE = 1e15
"""Bound that no measure reaches; NaN is not below it either."""
_SAME = ("question", "references", "answerable", "document", "gold")
"""Fields that scores depend on, and in which two revisions of a data set may differ."""
_RULES = frozenset({"", "rules"})


@dataclass(frozen=True, slots=True)
class Pair:
    """One question in both runs."""

    a: CaseRecord
    b: CaseRecord

    @property
    def key(self) -> Key:
        """Of both."""
        return self.a.key

    @property
    def subject(self) -> Subject:
        """The question."""
        return self.a.subject

    @property
    def question(self) -> tuple[str, str]:
        """Benchmark and uid: what its samples have in common."""
        return self.subject.benchmark, self.subject.uid

    @property
    def judged(self) -> bool:
        """True if both have a verdict."""
        return CaseOutcome.UNJUDGED not in {self.a.outcome, self.b.outcome}


@dataclass(frozen=True, slots=True)
class Pairing:
    """The questions that two runs have in common, and the others."""

    pairs: tuple[Pair, ...]
    """In the order of their keys."""
    only_a: tuple[Key, ...]
    """Questions that only the first run has."""
    only_b: tuple[Key, ...]

    @property
    def unjudged(self) -> tuple[Pair, ...]:
        """Pairs of which at least one has no verdict: they say nothing about accuracy."""
        return tuple(pair for pair in self.pairs if not pair.judged)


def pair(a: Iterable[CaseRecord], b: Iterable[CaseRecord], *, judges: tuple[str, str] = ("", "")) -> Pairing:
    """Pair two runs by benchmark, uid and sample.

    Args:
        a: The first run.
        b: The second.
        judges: Identities of the judges (`Conditions.judge_identity`); where empty, only their names in the
            records are compared.

    Raises:
        CaseError: If a run has a key twice; a key means another question, answer or gold page in one run
            than in the other; the answers of a benchmark were judged by another model, or by the same under
            another prompt; or the runs have no question in common.
    """
    first, second = _by_key(a, "first"), _by_key(b, "second")
    pairs = tuple(Pair(first[key], second[key]) for key in sorted(first.keys() & second.keys()))
    if not pairs:
        raise CaseError(
            "The two runs have no question in common.", "Compare runs of the same benchmark and split."
        )
    for both in pairs:
        _check_question(both)
    _check_judges(pairs)
    _check_identities(pairs, *judges)
    return Pairing(
        pairs,
        only_a=tuple(sorted(first.keys() - second.keys())),
        only_b=tuple(sorted(second.keys() - first.keys())),
    )


def value(record: CaseRecord, measure: str) -> float | None:
    """Return the value of a question in a measure; None if it was not measured, or is not a number.

    `accuracy` is that of its outcome: 1 for right, none if unjudged, else 0. A run that broke off has 0 in
    the measures of rules, and in the measures of pages those that it had seen by then.
    """
    if measure == ACCURACY:
        return None if record.outcome is CaseOutcome.UNJUDGED else float(record.outcome is CaseOutcome.RIGHT)
    found = record.measures.get(measure)
    return found if found is not None and abs(found) < _MAX_VALUE else None


def document_of(subject: Subject) -> tuple[str, str, str]:
    """Return the unit that a question is drawn with: its document; itself where it names none."""
    return subject.benchmark, subject.document, "" if subject.document else subject.uid


def _by_key(records: Iterable[CaseRecord], which: str) -> Mapping[Key, CaseRecord]:
    found: dict[Key, CaseRecord] = {}
    for record in records:
        if record.key in found:
            raise CaseError(
                f"The {which} run has {_key_text(record.key)} twice.",
                "Are two runs in one file? Compare files that each hold one run.",
            )
        found[record.key] = record
    return found


def _check_question(both: Pair) -> None:
    differing = [name for name in _SAME if getattr(both.a.subject, name) != getattr(both.b.subject, name)]
    if differing:
        raise CaseError(
            f"{_key_text(both.key)} is not the same in both runs: {', '.join(differing)} differ.",
            "The data set has changed in between, or another one was meant; run one of both again.",
        )


def _check_judges(pairs: Iterable[Pair]) -> None:
    """Check the judges of answers that both runs have a verdict on; rules decide on abstentions."""
    models: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for both in pairs:
        if _answer_judged(both.a) and _answer_judged(both.b):
            for record, found in zip((both.a, both.b), models[both.subject.benchmark], strict=True):
                found.update({record.judge} - _RULES)
    for benchmark, (first, second) in models.items():
        if first != second:
            raise CaseError(
                f"Answers to {benchmark or 'the questions'} were judged by {_listed(first)} in the first run"
                f" and by {_listed(second)} in the second.",
                "Judge the answers of one of them again, with the judge of the other.",
            )


def _check_identities(pairs: Iterable[Pair], first: str, second: str) -> None:
    """Check that judges of one name have the same prompt, sampling and rules."""
    if not first or not second or first == second:
        return
    judged = ((record.judge and _answer_judged(record) for record in (both.a, both.b)) for both in pairs)
    if any(map(all, judged)):
        raise CaseError(
            f"Answers were judged by {first} in the first run and by {second} in the second: under the same"
            " name, but with another prompt, other sampling or other rules.",
            "Judge the answers of one of them again: vrag eval run with its folder uses the current judge.",
        )


def _answer_judged(record: CaseRecord) -> bool:
    return record.answer is not None and record.outcome in {CaseOutcome.RIGHT, CaseOutcome.WRONG}


def _listed(models: Iterable[str]) -> str:
    return ", ".join(sorted(models)) or "rules"


def _key_text(key: Key) -> str:
    benchmark, uid, sample = key
    return f"{uid!r}" + (f" of {benchmark}" if benchmark else "") + (f", sample {sample}" if sample else "")
