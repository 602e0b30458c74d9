"""Two runs of one benchmark, compared question by question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.errors import CaseError
from vrag.evaluation.statistics.groups import GROUPS, grouped
from vrag.evaluation.statistics.intervals import RESAMPLES
from vrag.evaluation.statistics.metric_comparison import MetricComparison, ScoredPair, contrast, scored
from vrag.evaluation.statistics.pairs import ACCURACY, Key, Pair, Pairing, pair, value
from vrag.evaluation.statistics.significance import holm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vrag.evaluation.record import CaseRecord, Subject

__all__ = ["Bracket", "Cells", "ComparedGroup", "Comparison", "compare"]


@dataclass(frozen=True, slots=True)
class Cells:
    """Who answers what rightly, of the questions on which both have a verdict."""

    both: tuple[Key, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    neither: tuple[Key, ...]

    def as_dict(self) -> dict[str, list[list[str | int]]]:
        """For JSON: keys as lists."""
        return {
            "both": _listed(self.both),
            "only_a": _listed(self.only_a),
            "only_b": _listed(self.only_b),
            "neither": _listed(self.neither),
        }


@dataclass(frozen=True, slots=True)
class Bracket:
    """Between what the missing verdicts could move the comparison of accuracies."""

    worst_for_a: MetricComparison
    """Accuracies, had every missing verdict on A been wrong, on B right."""
    worst_for_b: MetricComparison

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """For JSON."""
        return {"worst_for_a": self.worst_for_a.as_dict(), "worst_for_b": self.worst_for_b.as_dict()}


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """The questions that share a label."""

    kind: str
    """What is told apart: `benchmark`, `source_type`, `query_type`, `document_type`."""
    label: str
    contrasts: tuple[MetricComparison, ...]
    """p is corrected for the labels of this kind in the same measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs have in common, and in what they differ."""

    a: str
    """What the first run is called."""
    b: str
    pairing: Pairing
    contrasts: tuple[MetricComparison, ...]
    """The headline first; p of the others is corrected for their number (`significance.holm`)."""
    cells: Cells
    groups: tuple[ComparedGroup, ...]
    bracket: Bracket | None
    """None where no verdict is missing."""
    resamples: int
    seed: int

    @property
    def headline(self) -> MetricComparison:
        """What the comparison is about, named before anybody looked: its p needs no correction."""
        return self.contrasts[0]

    @property
    def identical(self) -> bool:
        """Whether no measure differs on any question."""
        return not any(one.wins or one.losses for one in self.contrasts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; keys of questions are `[benchmark, uid, sample]`."""
        groups: dict[str, dict[str, Any]] = {}
        for group in self.groups:
            groups.setdefault(group.kind, {})[group.label] = _by_name(group.contrasts)
        return {
            "a": self.a,
            "b": self.b,
            "pairs": len(self.pairing.pairs),
            "only_a": _listed(self.pairing.only_a),
            "only_b": _listed(self.pairing.only_b),
            "unjudged": _listed(both.key for both in self.pairing.unjudged),
            "bracket": self.bracket.as_dict() if self.bracket else None,
            "headline": self.headline.measure,
            "identical": self.identical,
            "measures": _by_name(self.contrasts),
            "cells": self.cells.as_dict(),
            "groups": groups,
            "resamples": self.resamples,
            "seed": self.seed,
        }


def compare(
    a: Iterable[CaseRecord],
    b: Iterable[CaseRecord],
    *,
    names: tuple[str, str] = ("A", "B"),
    judges: tuple[str, str] = ("", ""),
    measures: Sequence[str] | None = None,
    by_group: Sequence[str] = (ACCURACY,),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compares two runs over the questions that both have; what only one has is told.

    A run that broke off counts as wrong. A question without a verdict in either run is left out of accuracy,
    counted, and bracketed. The verdict is p, not whether two intervals overlap.

    Args:
        a: The first run, in any order.
        b: The second.
        names: What they are called.
        judges: Identities of who judged each; see `pairing.pair`.
        measures: Those to compare, the headline first; those that no question has in both runs are left out.
            None: accuracy, and all others in the order of the alphabet.
        by_group: Measures that are told by group too.
        resamples: How many draws an interval is made of.
        seed: Of the draws.

    Raises:
        CaseError: If the runs cannot be paired (see `pairing.pair`), or have no measure in common.
    """
    pairing = pair(a, b, judges=judges)
    make = partial(_contrasted, resamples=resamples, seed=seed)
    wanted = dict.fromkeys(measures if measures is not None else (ACCURACY, *_measured(pairing.pairs)))
    contrasts = [one for one in (make(pairing.pairs, measure) for measure in wanted) if one]
    if not contrasts:
        raise CaseError(
            "The two runs have no measure in common.",
            "Judge their answers, or name measures that both have.",
        )
    return Comparison(
        a=names[0],
        b=names[1],
        pairing=pairing,
        contrasts=(contrasts[0], *_adjusted(contrasts[1:])),
        cells=_cells(pairing.pairs),
        groups=_groups(pairing.pairs, by_group, make),
        bracket=_bracket(pairing, resamples=resamples, seed=seed),
        resamples=resamples,
        seed=seed,
    )


def _measured(pairs: Sequence[Pair]) -> list[str]:
    """Names of the measures that a run has of some question."""
    return sorted({name for both in pairs for name in both.a.measures.keys() | both.b.measures.keys()})


def _contrasted(pairs: Sequence[Pair], measure: str, *, resamples: int, seed: int) -> MetricComparison | None:
    given = scored(pairs, measure)
    if not given:
        return None
    return contrast(measure, given, left_out=len(pairs) - len(given), resamples=resamples, seed=seed)


def _adjusted(contrasts: Sequence[MetricComparison]) -> tuple[MetricComparison, ...]:
    """With p corrected for all of them in which anything differs.

    What is equal on every question could not have been significant, and is no test: leaving it out loses
    nothing (Tarone 1990, "A modified Bonferroni method for discrete data", Biometrics 46:515). Such are all
    measures of the search where two agents are given the same one.
    """
    corrected = holm({str(at): one.p for at, one in enumerate(contrasts) if one.wins or one.losses})
    return tuple(replace(one, adjusted=corrected.get(str(at), 1.0)) for at, one in enumerate(contrasts))


def _cells(pairs: Sequence[Pair]) -> Cells:
    cells: dict[tuple[float | None, float | None], list[Key]] = {}
    for both in pairs:
        cells.setdefault((value(both.a, ACCURACY), value(both.b, ACCURACY)), []).append(both.key)
    both, only_a, only_b, neither = (
        tuple(cells.get(cell, ())) for cell in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    )
    return Cells(both, only_a, only_b, neither)


def _groups(
    pairs: Sequence[Pair],
    measures: Sequence[str],
    make: Callable[[Sequence[Pair], str], MetricComparison | None],
) -> tuple[ComparedGroup, ...]:
    """By each kind of label that tells questions apart; a kind with one label for all does not."""
    found: list[ComparedGroup] = []
    for kind, labelled in grouped(pairs, _LABELS).items():
        if any(len(held) < len(pairs) for held in labelled.values()):
            found += _corrected(kind, labelled, measures, make)
    return tuple(found)


def _corrected(
    kind: str,
    labelled: Mapping[str, Sequence[Pair]],
    measures: Sequence[str],
    make: Callable[[Sequence[Pair], str], MetricComparison | None],
) -> list[ComparedGroup]:
    """One group for each label, p corrected over the labels."""
    contrasts: dict[str, list[MetricComparison]] = {label: [] for label in labelled}
    for measure in measures:
        made = {label: make(held, measure) for label, held in labelled.items()}
        told = {label: one for label, one in made.items() if one}
        for label, one in zip(told, _adjusted(list(told.values())), strict=True):
            contrasts[label].append(one)
    return [ComparedGroup(kind, label, tuple(ones)) for label, ones in contrasts.items() if ones]


def _of_subject(labels: Callable[[Subject], Iterable[str]]) -> Callable[[Pair], Iterable[str]]:
    return lambda both: labels(both.subject)


_LABELS = {kind: _of_subject(labels) for kind, labels in GROUPS.items()}


def _bracket(pairing: Pairing, *, resamples: int, seed: int) -> Bracket | None:
    if not pairing.unjudged:
        return None
    for_a, for_b = (
        contrast(ACCURACY, _filled(pairing.pairs, a=a, b=1 - a), resamples=resamples, seed=seed)
        for a in (0.0, 1.0)
    )
    return Bracket(for_a, for_b)


def _filled(pairs: Sequence[Pair], *, a: float, b: float) -> list[ScoredPair]:
    """Accuracies with missing verdicts of A and of B as given."""
    return [
        ScoredPair(both, _or(value(both.a, ACCURACY), a), _or(value(both.b, ACCURACY), b)) for both in pairs
    ]


def _or(given: float | None, missing: float) -> float:
    return missing if given is None else given


def _by_name(contrasts: Iterable[MetricComparison]) -> dict[str, dict[str, Any]]:
    return {one.measure: one.as_dict() for one in contrasts}


def _listed(keys: Iterable[Key]) -> list[list[str | int]]:
    return [list(key) for key in keys]
