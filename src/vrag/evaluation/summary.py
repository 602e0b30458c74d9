"""Summary of an evaluation: means over its records, of all and of groups, with intervals."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vrag.evaluation.intervals import LEVEL, RESAMPLES, SHARE, ClusteredSample, intervals, sample_of
from vrag.evaluation.measures.docscope import RATIOS
from vrag.evaluation.measures.run_measures import COUNTS
from vrag.evaluation.pairs import ACCURACY, MAX_VALUE, document_of, value
from vrag.evaluation.record import CaseOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.evaluation.record import CaseRecord, Subject
    from vrag.types import Case

T = TypeVar("T")

GROUPS: Mapping[str, Callable[[Case | Subject], Iterable[str]]] = {
    "benchmark": lambda question: [question.benchmark],
    "source_type": lambda question: question.source_type,
    "query_type": lambda question: [question.query_type],
    "document_type": lambda question: [question.document_type],
}
"""Labels of a question by kind. A question with several (`source_type`) is in the group of each."""
ANSWERABLE = {True: "answerable", False: "not answerable"}
"""Names of the groups that records have beside these."""
PERCENTILES = (50, 90, 95, 99)
"""Percentiles of the seconds of a question."""
MMLONGBENCH_F1 = "mmlongbench/f1"
"""A ratio of sums over questions, not a mean over them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, or a ratio, with its interval of 95 % over documents."""

    mean: float
    n: int
    """Records that have the measure."""
    low: float | None = None
    """Lower end; None without an interval."""
    high: float | None = None
    few: bool = False
    """True if the documents were too few for the interval to say much about others."""


@dataclass(frozen=True, slots=True)
class MeasureValues:
    """The results of some records."""

    records: int
    questions: int
    """Different questions: each may have been asked several times."""
    documents: int
    """Different documents that were asked about; a question that names none counts as one."""
    outcomes: Mapping[CaseOutcome, int]
    """Number of records with each outcome."""
    measures: Mapping[str, Estimate]
    """Estimates by name, of measures that some record has; see `summarise`."""
    seconds: Mapping[str, float]
    """Percentiles, by `p50` …; empty without seconds."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the results; outcomes are counted by their names."""
        outcomes = {outcome.value: count for outcome, count in self.outcomes.items()}
        return asdict(self) | {"outcomes": outcomes}


@dataclass(frozen=True, slots=True)
class Resampling:
    """The settings of the intervals, to make them again."""

    level: float
    """Confidence: 0.95."""
    resamples: int
    """Draws of documents."""
    seed: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of an evaluation."""

    overall: MeasureValues
    groups: Mapping[str, Mapping[str, MeasureValues]]
    """By kind of group and label: `benchmark`, `source_type`, `query_type`, `document_type`, `answerable`."""
    intervals: Resampling

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the summary: figures of all, `intervals`, and `groups` with theirs."""
        return {
            **self.overall.as_dict(),
            "intervals": asdict(self.intervals),
            "groups": {
                kind: {label: values.as_dict() for label, values in labels.items()}
                for kind, labels in self.groups.items()
            },
        }


def summarise(records: Iterable[CaseRecord], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Summarise all records and each group.

    Beside the means of what the records have measured, under the same names:

    - `accuracy`: share of right ones among those that are not unjudged; what failed, abstained or never
      answered is wrong.
    - `abstention_precision`: of those that abstained, the share without an answer to be found.
      `abstention_recall`: of those without an answer, the share that abstained. `false_abstention`: of those
      with an answer, the share that abstained all the same. A share of nothing is missing, rather than 0.
    - `RATIOS` of DocScope: ratios of the sums of counts.
    - `mmlongbench/f1`: the F1 of MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523; `eval_acc_and_f1` of its
      scorer). With A the sum of the scores of answerable questions: recall is A over their number, precision
      A over the number of answers other than an abstention, to whatever question; their harmonic mean is 2 A
      over the sum of both numbers, 0 where both are 0. A run that failed or never answered did not abstain:
      its answer counts and earns nothing, as the published "Fail to answer" does. The mean `mmlongbench` is
      what that benchmark calls accuracy.

    Records are in any order; samples of one question count each.
    """
    rows = list(records)
    everything = tuple(range(len(rows)))
    indices = grouped(everything, lambda at: rows[at].subject)
    groups = {
        kind: {label: tuple(found) for label, found in labels.items()} for kind, labels in indices.items()
    }
    for answerable, label in ANSWERABLE.items():
        if group := tuple(at for at in everything if rows[at].subject.answerable == answerable):
            groups.setdefault("answerable", {})[label] = group
    distinct = list(
        dict.fromkeys((everything, *(group for labels in groups.values() for group in labels.values())))
    )
    values = dict(zip(distinct, _measure(rows, distinct, resamples, seed), strict=True))
    return Summary(
        values[everything],
        {kind: {label: values[group] for label, group in labels.items()} for kind, labels in groups.items()},
        Resampling(LEVEL, resamples, seed),
    )


def grouped(things: Iterable[T], question_of: Callable[[T], Case | Subject]) -> dict[str, dict[str, list[T]]]:
    """Group things by the `GROUPS` of their questions: kind of label, and label in alphabetical order.

    Things without a label of a kind are in no group of that kind; kinds without any label are left out. The
    groups of a kind can overlap.
    """
    found: dict[str, defaultdict[str, list[T]]] = {kind: defaultdict(list) for kind in GROUPS}
    for thing in things:
        for kind, labels_of in GROUPS.items():
            for label in dict.fromkeys(filter(None, labels_of(question_of(thing)))):
                found[kind][label].append(thing)
    return {
        kind: {label: groups[label] for label in sorted(groups)} for kind, groups in found.items() if groups
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the `PERCENTILES` of values, by `p50` …, with linear interpolation; empty without values.

    >>> percentiles([1.0, 3.0])["p50"]
    2.0
    """
    if not values:
        return {}
    found = np.percentile(np.asarray(values, np.float64), PERCENTILES)
    return {f"p{rank}": float(value) for rank, value in zip(PERCENTILES, found, strict=True)}


def _measure(
    records: Sequence[CaseRecord], groups: Sequence[Sequence[int]], resamples: int, seed: int
) -> list[MeasureValues]:
    """Measure each group, given by the indices of its records. The intervals of all are drawn together."""
    columns = _Columns.of(records)
    rows = [np.asarray(group, np.intp) for group in groups]
    samples = [columns.samples(group) for group in rows]
    drawn = iter(
        intervals(
            [sample for group in samples for _, sample in group.values()], resamples=resamples, seed=seed
        )
    )
    values: list[MeasureValues] = []
    for group, measures in zip(rows, samples, strict=True):
        estimates: dict[str, Estimate] = {}
        for name, (n, sample) in measures.items():
            found = next(drawn)
            ends = (None, None, False) if found is None else (found.low, found.high, found.few)
            estimates[name] = Estimate(sample.estimate, n, *ends)
        outcomes = Counter(records[int(at)].outcome for at in group)
        values.append(
            MeasureValues(
                records=len(group),
                questions=len(np.unique(columns.questions[group])),
                documents=len(np.unique(columns.documents[group])),
                outcomes={outcome: outcomes[outcome] for outcome in CaseOutcome},
                measures=estimates,
                seconds=percentiles(columns.known("seconds", group).tolist()),
            )
        )
    return values


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Records as columns: a number for each record and measure, so that many groups are measured quickly."""

    documents: NDArray[np.intp]
    """Number of the document of each record's question."""
    questions: NDArray[np.intp]
    """Number of each record's question: samples of a question have the same."""
    values: Mapping[str, NDArray[np.float64]]
    """Values by measure and record; NaN where one is missing or not a number. Those of the outcomes first."""
    ratios: Mapping[str, NDArray[np.float64]]
    """Numerators and denominators of ratios by name, each of shape (records, 2); NaN where it is missing.

    Those of MMLongBench-Doc's F1 are twice the score of an answerable question; and the number of such
    questions and attempts. The others are `RATIOS`."""

    @classmethod
    def of(cls, records: Sequence[CaseRecord]) -> _Columns:
        names = sorted({name for record in records for name in record.measures})
        columns: dict[str, list[float | None]] = {
            "accuracy": [value(record, ACCURACY) for record in records],
            "abstention_precision": [
                float(not record.subject.answerable) if record.declined else None for record in records
            ],
            "abstention_recall": [
                None if record.subject.answerable else float(record.declined) for record in records
            ],
            "false_abstention": [
                float(record.declined) if record.subject.answerable else None for record in records
            ],
            **{name: [record.measures.get(name) for record in records] for name in names},
        }
        f1: list[tuple[float, float]] = []
        for record in records:
            score, answerable = record.measures.get("mmlongbench", math.nan), record.subject.answerable
            f1.append((2 * score * answerable, answerable + (not record.declined) + 0 * score))
        counts = [record.measures for record in records]
        ratios: dict[str, list[tuple[float, float]]] = {MMLONGBENCH_F1: f1}
        for name, (above, below, _) in RATIOS.items():
            ratios[name] = [
                (
                    math.fsum(factor * found.get(part, math.nan) for part, factor in above),
                    math.fsum(found.get(part, math.nan) for part in below),
                )
                for found in counts
            ]
        arrays = {name: np.array(column, np.float64) for name, column in columns.items()}
        return cls(
            documents=_numbered(document_of(record.subject) for record in records),
            questions=_numbered((record.subject.benchmark, record.subject.uid) for record in records),
            values={
                name: np.where(np.abs(column) < MAX_VALUE, column, np.nan) for name, column in arrays.items()
            },
            ratios={
                name: np.array(parts, np.float64).reshape(-1, 2)
                for name, parts in ratios.items()
                if name == MMLONGBENCH_F1 or not np.isnan(np.array(parts)).all()
            },
        )

    def samples(self, rows: NDArray[np.intp]) -> dict[str, tuple[int, ClusteredSample]]:
        """Return by measure the number of these records that have it, and the sample of its interval."""
        found = {name: self._mean(name, rows) for name in self.values}
        found |= {name: self._ratio(parts, rows) for name, parts in self.ratios.items()}
        return {name: sample for name, sample in found.items() if sample[0]}

    def known(self, name: str, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the values of a measure, of the records that have it."""
        found = self.values[name][rows] if name in self.values else np.empty(0)
        return found[~np.isnan(found)]

    def _mean(self, name: str, rows: NDArray[np.intp]) -> tuple[int, ClusteredSample]:
        measured = rows[~np.isnan(self.values[name][rows])]
        values = self.values[name][measured]
        is_share = name not in COUNTS and bool(np.all((values >= SHARE[0]) & (values <= SHARE[1])))
        return len(measured), sample_of(
            values,
            self.documents[measured],
            questions=len(np.unique(self.questions[measured])),
            limits=SHARE if is_share else None,
        )

    def _ratio(self, values: NDArray[np.float64], rows: NDArray[np.intp]) -> tuple[int, ClusteredSample]:
        """Return the sample of a ratio; as it is not a share of questions, one document has no interval."""
        measured = rows[~np.isnan(values[rows, 0])]
        measured = measured[np.lexsort(values[measured].T)]  # rounding must not depend on their order
        _, places = np.unique(self.documents[measured], return_inverse=True)
        parts = np.zeros((len(np.unique(places)), 2))
        np.add.at(parts, places, values[measured])
        return len(measured), ClusteredSample(parts, len(parts), SHARE if len(parts) > 1 else None)


def _numbered(names: Iterable[Hashable]) -> NDArray[np.intp]:
    """Number names; equal ones have the same number."""
    known: dict[Hashable, int] = {}
    return np.fromiter((known.setdefault(name, len(known)) for name in names), np.intp)
