"""What a report tells of a whole evaluation: means with their intervals, and how many questions went how."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from vrag.evaluation.record import CaseOutcome
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "EstimateDifference",
    "Grouping",
    "Overview",
    "ReportEstimate",
    "ReportGroup",
    "benchmarks_of",
    "differences_of",
    "drawing_of",
    "grouped_differences_of",
    "overview_of",
    "own_measures",
]


@dataclass(frozen=True, slots=True)
class ReportEstimate:
    """A mean over questions, with an interval of 95 %."""

    mean: float
    low: float | None = None
    """Lower end; None where there is no interval."""
    high: float | None = None
    n: int = 0
    """Runs it was measured on."""
    few: bool = False
    """Whether the documents were too few for the interval to say much about others."""


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """Questions that have something in common."""

    name: str
    n: int
    """Runs of them, unjudged and failed ones among them."""
    outcomes: Mapping[str, int]
    """How many went how, by the values of `CaseOutcome`."""
    measures: Mapping[str, ReportEstimate]


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups by one property; a question may be in several."""

    name: str
    """Of the property: `source_type`, `benchmark` …"""
    groups: tuple[ReportGroup, ...]

    def parts(self, n: int) -> bool:
        """Whether it tells `n` runs apart: some group has fewer."""
        return any(group.n < n for group in self.groups)


@dataclass(frozen=True, slots=True)
class Overview:
    """An evaluation in numbers."""

    n: int
    """Runs."""
    outcomes: Mapping[str, int]
    measures: Mapping[str, ReportEstimate]
    questions: int = 0
    """Different ones; 0 where that is not known."""
    documents: int = 0
    """Different ones that were asked about; 0 where that is not known."""
    groupings: tuple[Grouping, ...] = ()
    more: Mapping[str, Mapping[str, float | None]] = field(
        default_factory=dict[str, Mapping[str, float | None]]
    )
    """Other numbers under a heading, such as percentiles; None where one is undefined."""

    @property
    def told(self) -> str:
        """How much it is, in words."""
        questions = self.questions or self.n
        told = count(questions, "question")
        if self.documents:
            told += f" about {count(self.documents, 'document')}"
        return told if self.n == questions else f"{told}, {count(self.n, 'run')}"


@dataclass(frozen=True, slots=True)
class EstimateDifference:
    """B − A in one measure, over questions that both have."""

    a: float
    b: float
    difference: float
    n: int
    low: float | None = None
    """Lower end of the interval of 95 % of the difference."""
    high: float | None = None
    p: float | None = None
    """Of the paired test; None where there was none."""
    adjusted: float | None = None
    """The same, corrected for all measures that were looked at; None where it need not be."""
    wins: int | None = None
    """Questions on which B has more."""
    losses: int | None = None
    left_out: int = 0
    """Questions that one of them has no value of."""
    remark: str = ""

    @property
    def sure(self) -> bool:
        """Whether it is significant at .05, corrected where it has to be."""
        p = self.p if self.adjusted is None else self.adjusted
        return p is not None and p < 0.05


def overview_of(summary: Mapping[str, Any]) -> Overview:
    """The numbers of a summary, from its JSON; what is missing or no number is left out.

    Args:
        summary: With `outcomes`, `measures` and `groups`, as the summary of an evaluation writes them.
    """
    outcomes = _counts(summary.get("outcomes"))
    groups = _mapping(summary.get("groups"))
    return Overview(
        n=_count(summary, sum(outcomes.values())),
        outcomes=outcomes,
        measures=_estimates(summary.get("measures")),
        questions=int(_number(summary, "questions") or 0),
        documents=int(_number(summary, "documents") or 0),
        groupings=tuple(Grouping(name, _groups(part)) for name, part in groups.items()),
        more={
            name: numbers
            for name, part in summary.items()
            if name not in {"outcomes", "measures", "groups", "intervals"} and (numbers := _numbers(part))
        },
    )


def differences_of(measures: object) -> dict[str, EstimateDifference]:
    """Differences by measure, from the JSON of a comparison: its `measures`, or those of a group."""
    found = {name: _difference(_mapping(row)) for name, row in _rows(measures)}
    return {name: row for name, row in found.items() if row is not None}


def grouped_differences_of(groups: object) -> dict[str, dict[str, dict[str, EstimateDifference]]]:
    """The same by kind of group and label, from the `groups` of a comparison."""
    return {
        kind: {label: differences_of(measures) for label, measures in _rows(labels)}
        for kind, labels in _rows(groups)
    }


def benchmarks_of(overview: Overview) -> tuple[ReportGroup, ...]:
    """Benchmarks that were asked together; none where there is but one."""
    found = next((one.groups for one in overview.groupings if one.name == "benchmark"), ())
    return found if len(found) > 1 else ()


def own_measures(group: ReportGroup, reported: Mapping[str, Sequence[str]]) -> dict[str, ReportEstimate]:
    """The measures of a benchmark that its authors report, of those that were measured; without accuracy.

    Args:
        group: The questions of the benchmark.
        reported: By benchmark, the names of its authors' measures, their main one first.
    """
    names = dict.fromkeys(reported.get(group.name, ()))
    return {name: group.measures[name] for name in names if name in group.measures and name != "accuracy"}


def drawing_of(intervals: object) -> str:
    """How intervals were made, in words, from their JSON; empty where that was not kept.

    >>> drawing_of({"level": 0.95, "resamples": 2000, "seed": 0})
    '95 %, by 2,000 draws of documents, seed 0'
    """
    part = _mapping(intervals)
    level, resamples, seed = (_number(part, name) for name in ("level", "resamples", "seed"))
    if level is None or resamples is None or seed is None:
        return ""
    return f"{100 * level:g} %, by {resamples:,.0f} draws of documents, seed {seed:.0f}"


def _difference(row: Mapping[str, Any]) -> EstimateDifference | None:
    a, b = _number(row, "a"), _number(row, "b")
    if a is None or b is None:
        return None
    difference = _number(row, "difference")
    wins, losses = _number(row, "wins"), _number(row, "losses")
    remark = row.get("remark")
    return EstimateDifference(
        a=a,
        b=b,
        difference=b - a if difference is None else difference,
        n=_count(row, 0),
        low=_number(row, "low"),
        high=_number(row, "high"),
        p=_number(row, "p"),
        adjusted=_number(row, "adjusted"),
        wins=None if wins is None else int(wins),
        losses=None if losses is None else int(losses),
        left_out=int(_number(row, "left_out") or 0),
        remark=remark if isinstance(remark, str) else "",
    )


def _groups(value: object) -> tuple[ReportGroup, ...]:
    return tuple(_group(name, _mapping(part)) for name, part in _rows(value))


def _group(name: str, part: Mapping[str, Any]) -> ReportGroup:
    outcomes = _counts(part.get("outcomes"))
    return ReportGroup(name, _count(part, sum(outcomes.values())), outcomes, _estimates(part.get("measures")))


def _estimates(value: object) -> dict[str, ReportEstimate]:
    found = {name: _estimate(part) for name, part in _rows(value)}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _estimate(value: object) -> ReportEstimate | None:
    part = _mapping(value) or {"mean": value}
    mean = _number(part, "mean", "value")
    if mean is None:
        return None
    few = part.get("few") is True
    return ReportEstimate(mean, _number(part, "low"), _number(part, "high"), _count(part, 0), few)


def _counts(value: object) -> dict[str, int]:
    """Of every outcome, none left out, in the order in which they are told."""
    given = {name: int(found) for name, found in _rows(value) if _is_number(found)}
    return {one.value: given.get(one.value, 0) for one in CaseOutcome}


def _count(part: Mapping[str, Any], usual: int) -> int:
    found = _number(part, "n", "records", "questions", "pairs")
    return usual if found is None else int(found)


def _numbers(value: object) -> dict[str, float | None]:
    part = _mapping(value)
    return {name: _number(part, name) for name, one in part.items() if one is None or _is_number(one)}


def _number(part: Mapping[str, Any], *names: str) -> float | None:
    """The first of these that is a number."""
    return next((float(part[name]) for name in names if _is_number(part.get(name))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[tuple[str, Any]]:
    return [(str(name), part) for name, part in _mapping(value).items()]
