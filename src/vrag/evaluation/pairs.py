"""Pairs of records: two runs of one benchmark, question by question; and what makes runs hard to compare."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.errors import CaseError
from vrag.evaluation.record import CaseOutcome
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.evaluation.record import CaseRecord, Subject
    from vrag.evaluation.result_store import Conditions, Evaluation

Key = tuple[str, str, int]
"""Benchmark, uid, sample."""

ACCURACY = "accuracy"
"""The measure of outcomes: 1 for right, else 0, and none without a verdict."""

MAX_VALUE = 1e15
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
        """The key of both records."""
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

    `judges` are identities of the judges (`Conditions.judge_identity`); where empty, only their names in the
    records are compared. Raises `CaseError` if a run has a key twice; a key means another question, answer or
    gold page in one run than in the other; the answers of a benchmark were judged by another model, or by the
    same under another prompt; or the runs have no question in common.
    """
    first, second = _by_key(a, "first"), _by_key(b, "second")
    pairs = tuple(Pair(first[key], second[key]) for key in sorted(first.keys() & second.keys()))
    if not pairs:
        raise CaseError(
            "The two runs have no question in common.", "Compare runs of the same benchmark and split."
        )
    for both in pairs:
        a_subject, b_subject = both.a.subject, both.b.subject
        if differing := [name for name in _SAME if getattr(a_subject, name) != getattr(b_subject, name)]:
            raise CaseError(
                f"{_key_text(both.key)} is not the same in both runs: {', '.join(differing)} differ.",
                "The data set has changed in between, or another one was meant; run one of both again.",
            )
    _check_judges(pairs, *judges)
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
    return found if found is not None and abs(found) < MAX_VALUE else None


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


def _check_judges(pairs: Sequence[Pair], first_identity: str, second_identity: str) -> None:
    """Check the judges of answers that both runs have a verdict on; rules decide on abstentions.

    Judges of one name are the same only with the same prompt, sampling and rules.
    """
    models_by_benchmark: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for both in pairs:
        if _answer_judged(both.a) and _answer_judged(both.b):
            for record, found in zip(
                (both.a, both.b), models_by_benchmark[both.subject.benchmark], strict=True
            ):
                found.update({record.judge} - _RULES)
    for benchmark, (first, second) in models_by_benchmark.items():
        if first != second:
            a, b = (", ".join(sorted(models)) or "rules" for models in (first, second))
            raise CaseError(
                f"Answers to {benchmark or 'the questions'} were judged by {a} in the first run and by {b} in"
                " the second.",
                "Judge the answers of one of them again, with the judge of the other.",
            )
    if not first_identity or not second_identity or first_identity == second_identity:
        return
    judged = ((record.judge and _answer_judged(record) for record in (both.a, both.b)) for both in pairs)
    if any(map(all, judged)):
        raise CaseError(
            f"Answers were judged by {first_identity} in the first run and by {second_identity} in the"
            " second: under the same name, but with another prompt, other sampling or other rules.",
            "Judge the answers of one of them again: vrag eval run with its folder uses the current judge.",
        )


def _answer_judged(record: CaseRecord) -> bool:
    return record.answer is not None and record.outcome in {CaseOutcome.RIGHT, CaseOutcome.WRONG}


def _key_text(key: Key) -> str:
    benchmark, uid, sample = key
    return f"{uid!r}" + (f" of {benchmark}" if benchmark else "") + (f", sample {sample}" if sample else "")


def differences(a: Conditions, b: Conditions) -> list[str]:
    """Return the differences of two runs in sentences; `pairs.pair` refuses runs that cannot be compared."""
    sentences: list[str] = []
    if a.cases != b.cases:
        sentences.append("The questions of the two were prepared apart; those with equal ids are compared.")
    if a.samples != b.samples:
        sentences.append(
            f"Questions were asked {a.samples} and {b.samples} times; the samples of both are compared."
        )
    if a.extractor != b.extractor:
        sentences.append(
            f"Rules compared {_compared(a)} in the first run, and {_compared(b)} in the second:"
            " the difference in what they measure (em, f1, anls, the benchmark's own) may be that alone."
        )
    if a.measures != b.measures:
        sentences.append(
            "The two were recorded by versions that measure differently;"
            " run `vrag eval run` on both folders again."
        )
    if a.stopped or b.stopped:
        sentences.append("One was stopped before all questions were asked.")
    return sentences


def row_differences(rows: Mapping[str, Sequence[Evaluation]]) -> list[str]:
    """Return the differences of the rows of a table in sentences; questions are compared, not files."""
    if len(rows) < 2:
        return []
    sentences: list[str] = []
    conditions = [run.conditions for runs in rows.values() for run in runs]
    judges: dict[str, str] = {}
    if len({condition.judge for condition in conditions}) > 1:
        judges = {name: judges_of(runs) for name, runs in rows.items()}
    elif len({condition.judge_identity for condition in conditions} - {""}) > 1:
        for name, runs in rows.items():
            judges[name] = _join_words(run.conditions.judge_identity or run.conditions.judge for run in runs)
    if judges:
        each = ", ".join(f"{name} by {judge}" for name, judge in judges.items())
        sentences.append(f"Judged by different judges: {each}. Their numbers cannot be compared.")
    if len({condition.extractor for condition in conditions}) > 1:
        compared = {
            name: _join_words(_compared(run.conditions) for run in runs) for name, runs in rows.items()
        }
        answers = ", ".join(f"of {name} {answers}" for name, answers in compared.items())
        may = "what they measure (em, f1, anls, the benchmark's own) may differ by that alone"
        sentences.append(f"Rules compared {answers}: {may}.")
    questions = {
        name: {record.key[:2] for run in runs for record in run.records} for name, runs in rows.items()
    }
    first, *others = questions.values()
    common = first.intersection(*others)
    files = {tuple(sorted(run.conditions.cases for run in runs)) for runs in rows.values()}
    if any(asked != common for asked in questions.values()):
        counts = ", ".join(f"{name} {count(len(asked), 'question')}" for name, asked in questions.items())
        sentences.append(f"Asked different questions: {counts}; {len(common):,} are the same.")
    elif len(files) > 1 and len({*map(len, files)}) == 1:
        sentences.append(
            "Asked questions of different preparations: those of one name may differ in their words."
        )
    if len({condition.measures for condition in conditions}) > 1:
        sentences.append(
            "Recorded by versions that measure differently; run `vrag eval run` on all these folders again."
        )
    return sentences


def judges_of(runs: Iterable[Evaluation]) -> str:
    """Return the judges of the runs of a row."""
    return _join_words(run.conditions.judge for run in runs)


def _join_words(words: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(words))


def _compared(conditions: Conditions) -> str:
    by = conditions.extractor
    return f"short answers that {by} extracted" if by else "answers as they were given"
