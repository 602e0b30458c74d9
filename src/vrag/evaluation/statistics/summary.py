"""The results of an evaluation: means over its records, of all and of groups, with intervals."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.statistics.columns import Columns
from vrag.evaluation.statistics.groups import ANSWERABLE, GROUPS, grouped
from vrag.evaluation.statistics.intervals import LEVEL, RESAMPLES, intervals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.evaluation.record import CaseRecord, Subject
    from vrag.evaluation.statistics.intervals import ClusteredSample, Interval

__all__ = [
    "PERCENTILES",
    "Estimate",
    "MeasureValues",
    "Resampling",
    "Summary",
    "percentiles",
    "summarise",
]

PERCENTILES = (50, 90, 95, 99)
"""Of the seconds that questions took, in per cent."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, or a ratio, and how far it may be off."""

    mean: float
    n: int
    """Records that it was measured on."""
    low: float | None = None
    """Lower end of the interval of 95 % over documents; None where there is none."""
    high: float | None = None
    few: bool = False
    """Whether the documents were too few for the interval to say much about others."""


@dataclass(frozen=True, slots=True)
class MeasureValues:
    """The results of some records."""

    records: int
    questions: int
    """Different ones: each may have been asked several times."""
    documents: int
    """Different ones that were asked about; a question that names none counts as one."""
    outcomes: Mapping[CaseOutcome, int]
    """How many records went how, for every outcome."""
    measures: Mapping[str, Estimate]
    """By name; what could not be measured on any record is not in it. See `summarise`."""
    seconds: Mapping[str, float]
    """Percentiles, by `p50` …; empty where none took any."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "records": self.records,
            "questions": self.questions,
            "documents": self.documents,
            "outcomes": {outcome.value: count for outcome, count in self.outcomes.items()},
            "measures": {name: asdict(estimate) for name, estimate in self.measures.items()},
            "seconds": dict(self.seconds),
        }


@dataclass(frozen=True, slots=True)
class Resampling:
    """How the intervals were made, so that others can make them again."""

    level: float
    """How sure they are: 0.95."""
    resamples: int
    """Draws of documents."""
    seed: int
    """Of the draws."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of an evaluation."""

    overall: MeasureValues
    groups: Mapping[str, Mapping[str, MeasureValues]]
    """By kind of group and label: `benchmark`, `source_type`, `query_type`, `document_type`, `answerable`."""
    intervals: Resampling

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the figures of all, `intervals`, and `groups` with the figures of each."""
        return {
            **self.overall.as_dict(),
            "intervals": asdict(self.intervals),
            "groups": {
                kind: {label: figures.as_dict() for label, figures in those.items()}
                for kind, those in self.groups.items()
            },
        }


def summarise(records: Iterable[CaseRecord], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """The results of all records and of each group.

    Beside the means of what the records have measured, under the same names:

    - `accuracy`: share of right ones among those that are not unjudged; what failed, abstained or never
      answered is wrong.
    - `abstention_precision`: of those that abstained, the share without an answer to be found.
      `abstention_recall`: of those without an answer, the share that abstained. `false_abstention`: of those
      with an answer, the share that abstained all the same. A share of nothing is not there, rather than 0.
    - `mmlongbench/f1`: the F1 of MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523; `eval_acc_and_f1` of its
      scorer). With A the sum of the scores of answerable questions: recall is A over their number, precision
      A over the number of answers other than an abstention, to whatever question; their harmonic mean is 2 A
      over the sum of both numbers, 0 where both are 0. A run that failed or never answered did not abstain:
      its answer counts and earns nothing, as the published "Fail to answer" does. The mean `mmlongbench` is
      what that benchmark calls accuracy.

    Args:
        records: In any order; samples of one question count each.
        resamples: How many draws an interval is made of.
        seed: Of the draws.
    """
    given = list(records)
    kinds: dict[str, Callable[[int], Iterable[str]]] = {
        **{kind: _of_subject(given, labels) for kind, labels in GROUPS.items()},
        "answerable": lambda at: [ANSWERABLE[given[at].subject.answerable]],
    }
    places = {
        kind: {label: tuple(held) for label, held in those.items()}
        for kind, those in grouped(range(len(given)), kinds).items()
    }
    everything = tuple(range(len(given)))
    different = dict.fromkeys((everything, *(held for those in places.values() for held in those.values())))
    figures = dict(zip(different, _figures(given, list(different), resamples, seed), strict=True))
    return Summary(
        figures[everything],
        {kind: {label: figures[held] for label, held in those.items()} for kind, those in places.items()},
        Resampling(LEVEL, resamples, seed),
    )


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The `PERCENTILES` of some values, by `p50` …, with linear interpolation; empty without values.

    >>> percentiles([1.0, 3.0])["p50"]
    2.0
    """
    if not values:
        return {}
    found = np.percentile(np.asarray(values, np.float64), PERCENTILES)
    return {f"p{rank}": float(value) for rank, value in zip(PERCENTILES, found, strict=True)}


def _figures(
    records: Sequence[CaseRecord], groups: Sequence[Sequence[int]], resamples: int, seed: int
) -> list[MeasureValues]:
    """Of each group, which is told by the places of its records. The intervals of all are drawn together."""
    columns = Columns.of(records)
    rows = [np.asarray(group, np.intp) for group in groups]
    measured = [columns.samples(those) for those in rows]
    samples = [sample for those in measured for _, sample in those.values()]
    found = iter(intervals(samples, resamples=resamples, seed=seed))
    estimates = [
        {name: _estimate(n, sample, next(found)) for name, (n, sample) in those.items()} for those in measured
    ]
    return [_figured(records, columns, *one) for one in zip(rows, estimates, strict=True)]


def _figured(
    records: Sequence[CaseRecord],
    columns: Columns,
    rows: NDArray[np.intp],
    measures: Mapping[str, Estimate],
) -> MeasureValues:
    outcomes = Counter(records[at].outcome for at in map(int, rows))
    return MeasureValues(
        records=len(rows),
        questions=len(np.unique(columns.questions[rows])),
        documents=len(np.unique(columns.documents[rows])),
        outcomes={outcome: outcomes[outcome] for outcome in CaseOutcome},
        measures=measures,
        seconds=percentiles(columns.known("seconds", rows).tolist()),
    )


def _estimate(n: int, sample: ClusteredSample, found: Interval | None) -> Estimate:
    ends = (None, None, False) if found is None else (found.low, found.high, found.few)
    return Estimate(sample.estimate, n, *ends)


def _of_subject(
    records: Sequence[CaseRecord], labels: Callable[[Subject], Iterable[str]]
) -> Callable[[int], Iterable[str]]:
    return lambda at: labels(records[at].subject)
