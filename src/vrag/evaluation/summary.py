"""The results of an evaluation: means over its records, of all and of groups, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.agent.events import StopReason
from vrag.evaluation.groups import ANSWERABLE, GROUPS, grouped
from vrag.evaluation.interval import RESAMPLES, SHARE, interval, mean_interval
from vrag.evaluation.measures.conduct import COUNTS
from vrag.evaluation.pairing import document_of
from vrag.evaluation.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vrag.evaluation.interval import Interval
    from vrag.evaluation.record import Record, Subject

__all__ = ["PERCENTILES", "Estimate", "Figures", "Summary", "mmlongbench_f1", "percentiles", "summarise"]

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
class Figures:
    """The results of some records."""

    records: int
    questions: int
    """Different ones: each may have been asked several times."""
    documents: int
    """Different ones that were asked about; a question that names none counts as one."""
    outcomes: Mapping[Outcome, int]
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
class Summary:
    """The results of an evaluation."""

    overall: Figures
    groups: Mapping[str, Mapping[str, Figures]]
    """By kind of group and label: `benchmark`, `source_type`, `query_type`, `document_type`, `answerable`."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the figures of all, and `groups` with those of each."""
        return {
            **self.overall.as_dict(),
            "groups": {
                kind: {label: figures.as_dict() for label, figures in those.items()}
                for kind, those in self.groups.items()
            },
        }


def summarise(records: Iterable[Record], *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """The results of all records and of each group.

    Beside the means of what the records have measured, under the same names:

    - `accuracy`: share of right ones among those that are not unjudged; what failed, abstained or never
      answered is wrong.
    - `abstention_precision`: of those that abstained, the share without an answer to be found.
      `abstention_recall`: of those without an answer, the share that abstained. `false_abstention`: of those
      with an answer, the share that abstained all the same. A share of nothing is not there, rather than 0.
    - `mmlongbench/f1`: see `mmlongbench_f1`; the mean `mmlongbench` is what that benchmark calls accuracy.

    Args:
        records: In any order; samples of one question count each.
        resamples: How many draws an interval is made of.
        seed: Of the draws.
    """
    given = list(records)
    kinds: dict[str, Callable[[Record], Iterable[str]]] = {
        **{kind: _of_subject(labels) for kind, labels in GROUPS.items()},
        "answerable": lambda record: [ANSWERABLE[record.subject.answerable]],
    }
    overall = _figures(given, resamples, seed)
    return Summary(
        overall,
        {
            kind: {
                label: overall if len(held) == len(given) else _figures(held, resamples, seed)
                for label, held in those.items()
            }
            for kind, those in grouped(given, kinds).items()
        },
    )


def mmlongbench_f1(records: Sequence[Record]) -> float | None:
    """The F1 of MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523; `eval_acc_and_f1` of its scorer).

    With A the sum of the scores of answerable questions: recall is A over the number of answerable questions,
    precision A over the number of answers other than an abstention, to whatever question. Their harmonic mean
    is 2 A over the sum of both numbers; 0 where both are 0, as there. A run that failed or never answered did
    not abstain: its answer counts and earns nothing, as the published "Fail to answer" does.

    Args:
        records: Those with the measure `mmlongbench` count.

    Returns:
        None where no record has it.
    """
    parts = _f1_parts(records)
    return _ratio(list(parts.values())) if parts else None


def _f1_parts(records: Iterable[Record]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Of each document 2 A, and the number of answerable questions and of attempts."""
    parts: dict[tuple[str, str, str], tuple[float, float]] = {}
    for record in records:
        if "mmlongbench" in record.measures:
            document, answerable = document_of(record.subject), record.subject.answerable
            earned, counted = parts.get(document, (0.0, 0.0))
            parts[document] = (
                earned + 2 * record.measures["mmlongbench"] * answerable,
                counted + answerable + (not _abstained(record)),
            )
    return parts


def _ratio(parts: Sequence[tuple[float, float]]) -> float:
    counted = math.fsum(part[1] for part in parts)
    return math.fsum(part[0] for part in parts) / counted if counted else 0.0


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The `PERCENTILES` of some values, by `p50` …, with linear interpolation; empty without values.

    >>> percentiles([1.0, 3.0])["p50"]
    2.0
    """
    if not values:
        return {}
    found = np.percentile(np.asarray(values, np.float64), PERCENTILES)
    return {f"p{rank}": float(value) for rank, value in zip(PERCENTILES, found, strict=True)}


def _figures(records: Sequence[Record], resamples: int, seed: int) -> Figures:
    subjects = [record.subject for record in records]
    outcomes = Counter(record.outcome for record in records)
    return Figures(
        records=len(records),
        questions=len({(one.benchmark, one.uid) for one in subjects}),
        documents=len(set(map(document_of, subjects))),
        outcomes={outcome: outcomes[outcome] for outcome in Outcome},
        measures=_measures(records, resamples, seed),
        seconds=percentiles([value for _, value in _values(records, "seconds")]),
    )


def _measures(records: Sequence[Record], resamples: int, seed: int) -> dict[str, Estimate]:
    names = sorted({name for record in records for name in record.measures})
    samples = {**_shares(records), **{name: _values(records, name) for name in names}}
    estimates = {name: _mean(pairs, name, resamples, seed) for name, pairs in samples.items() if pairs}
    f1 = _f1(records, resamples, seed)
    return estimates if f1 is None else {**estimates, "mmlongbench/f1": f1}


def _shares(records: Sequence[Record]) -> dict[str, list[tuple[Record, float]]]:
    """What of the outcomes is a share, as values of the records that it is a share of."""
    judged = [record for record in records if record.outcome is not Outcome.UNJUDGED]
    abstained = [record for record in records if _abstained(record)]
    answerable, not_answerable = (
        [record for record in records if record.subject.answerable is which] for which in (True, False)
    )
    return {
        "accuracy": [(record, float(record.outcome is Outcome.RIGHT)) for record in judged],
        "abstention_precision": [(record, float(not record.subject.answerable)) for record in abstained],
        "abstention_recall": [(record, float(_abstained(record))) for record in not_answerable],
        "false_abstention": [(record, float(_abstained(record))) for record in answerable],
    }


def _values(records: Sequence[Record], name: str) -> list[tuple[Record, float]]:
    """The values of a measure that are numbers."""
    given = [(record, record.measures[name]) for record in records if name in record.measures]
    return [(record, value) for record, value in given if math.isfinite(value)]


def _mean(pairs: Sequence[tuple[Record, float]], name: str, resamples: int, seed: int) -> Estimate:
    values = [value for _, value in pairs]
    inside = name not in COUNTS and SHARE[0] <= min(values) <= max(values) <= SHARE[1]
    found = mean_interval(
        values,
        [document_of(record.subject) for record, _ in pairs],
        questions=len({(record.subject.benchmark, record.subject.uid) for record, _ in pairs}),
        limits=SHARE if inside else None,
        resamples=resamples,
        seed=seed,
    )
    return _estimate(math.fsum(values) / len(values), len(values), found)


def _f1(records: Sequence[Record], resamples: int, seed: int) -> Estimate | None:
    """With an interval where documents are several; their sums are drawn, which is the same and quick."""
    parts = _f1_parts(records)
    if not parts:
        return None
    drawn = list(parts.items())
    found = None
    if len(drawn) > 1:
        found = interval(
            drawn,
            lambda those: _ratio([part for _, part in those]),
            lambda one: one[0],
            resamples=resamples,
            seed=seed,
        )
    measured = sum("mmlongbench" in record.measures for record in records)
    return _estimate(_ratio(list(parts.values())), measured, found)


def _estimate(mean: float, n: int, found: Interval | None) -> Estimate:
    return Estimate(mean, n) if found is None else Estimate(mean, n, found.low, found.high, found.few)


def _abstained(record: Record) -> bool:
    return record.stop == StopReason.ABSTAINED.value


def _of_subject(labels: Callable[[Subject], Iterable[str]]) -> Callable[[Record], Iterable[str]]:
    return lambda record: labels(record.subject)
