"""Comparison of two runs of one benchmark, question by question."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.errors import CaseError
from vrag.evaluation.intervals import DIFFERENCE, FEW, RESAMPLES, Interval, mean_interval
from vrag.evaluation.measures.run_measures import COUNTS
from vrag.evaluation.pairs import ACCURACY, Key, Pair, Pairing, document_of, pair, value
from vrag.evaluation.significance import Significance, detectable, holm, sign_flip
from vrag.evaluation.summary import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vrag.evaluation.record import CaseRecord

    Make = Callable[[Sequence[Pair], str], "MetricComparison | None"]


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A question with its values in both runs."""

    pair: Pair
    a: float
    b: float

    @property
    def difference(self) -> float:
        """B less A; 0 if it is rounding."""
        return 0.0 if math.isclose(self.a, self.b, rel_tol=1e-9, abs_tol=1e-12) else self.b - self.a


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """Two runs in one measure, over the questions that have it in both."""

    measure: str
    questions: int
    """Number of pairs; a question with several samples is several."""
    documents: int
    a: float
    """Mean of the first run."""
    b: float
    """Mean of the second."""
    difference: float
    """B less A: above 0, the second is higher."""
    interval: Interval | None
    """Interval of the difference, over documents; over questions where there is one document. None where a
    measure without a greatest value differs nowhere."""
    by_question: Significance
    """Test whether the two are the same setting: each question flips on its own, its samples together."""
    by_document: Significance | None
    """Test whether they are equally good on other documents: documents flip. None with fewer than 6
    documents, and where each question has its own."""
    wins: int
    """Pairs in which B is higher, also for costs."""
    ties: int
    losses: int
    left_out: int
    """Pairs of which at least one run does not have the measure."""
    detectable: float | None
    """The difference that would have been found in 80 % of cases (`significance.detectable`)."""
    adjusted: float | None = None
    """`p`, corrected for all that were tested with it; None for the headline, which needs no correction."""

    @property
    def decisive(self) -> Significance:
        """The test by document where there are enough, else by question."""
        return self.by_document or self.by_question

    @property
    def p(self) -> float:
        """The p that decides, uncorrected."""
        return self.decisive.p

    @property
    def final_p(self) -> float:
        """The p that decides, corrected where it has to be."""
        return self.p if self.adjusted is None else self.adjusted

    @property
    def significant(self) -> bool:
        """True if the difference is significant at .05."""
        return self.final_p < 0.05

    @property
    def remark(self) -> str:
        """Caution for readers of p; empty without one."""
        if not self.wins and not self.losses:
            return "identical on every question"
        if self.decisive.too_few:
            return "too few differ to tell"
        if self.documents == 1:
            return "one document: says nothing about others"
        return "few documents: says little about others" if self.documents < FEW else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the comparison of a measure.

        `low` and `high` are the sides of the interval, and `p` is the one that decides, uncorrected.
        """
        return {
            "n": self.questions,
            "documents": self.documents,
            "a": self.a,
            "b": self.b,
            "difference": self.difference,
            "low": self.interval.low if self.interval else None,
            "high": self.interval.high if self.interval else None,
            "interval": self.interval.as_dict() if self.interval else None,
            "p": self.p,
            "adjusted": self.adjusted,
            "by": "document" if self.by_document else "question",
            "by_question": self.by_question.as_dict(),
            "by_document": self.by_document.as_dict() if self.by_document else None,
            "wins": self.wins,
            "ties": self.ties,
            "losses": self.losses,
            "left_out": self.left_out,
            "detectable": self.detectable,
            "remark": self.remark,
        }


@dataclass(frozen=True, slots=True)
class Cells:
    """Questions by the outcome in both runs, where both have a verdict."""

    both: tuple[Key, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    neither: tuple[Key, ...]

    def as_dict(self) -> dict[str, list[list[str | int]]]:
        """Return the keys of the questions by outcome, for JSON: each key is a list."""
        names = ("both", "only_a", "only_b", "neither")
        return {name: [list(key) for key in getattr(self, name)] for name in names}


@dataclass(frozen=True, slots=True)
class Bracket:
    """The range of the comparison of accuracies, whatever the missing verdicts are."""

    worst_for_a: MetricComparison
    """Accuracies, had every missing verdict on A been wrong, on B right."""
    worst_for_b: MetricComparison

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Return the JSON objects of both comparisons by name."""
        return {"worst_for_a": self.worst_for_a.as_dict(), "worst_for_b": self.worst_for_b.as_dict()}


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """The questions that share a label."""

    kind: str
    """`benchmark`, `source_type`, `query_type` or `document_type`."""
    label: str
    contrasts: tuple[MetricComparison, ...]
    """p is corrected for the labels of this kind in the same measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The common questions of two runs, and their differences."""

    a: str
    """Name of the first run."""
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
        """The measure that was chosen before the comparison: its p needs no correction."""
        return self.contrasts[0]

    @property
    def identical(self) -> bool:
        """True if no measure differs on any question."""
        return not any(contrast.wins or contrast.losses for contrast in self.contrasts)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the comparison; keys of questions are `[benchmark, uid, sample]`."""
        groups: dict[str, dict[str, Any]] = {}
        for group in self.groups:
            groups.setdefault(group.kind, {})[group.label] = {
                contrast.measure: contrast.as_dict() for contrast in group.contrasts
            }
        return {
            "a": self.a,
            "b": self.b,
            "pairs": len(self.pairing.pairs),
            "only_a": [list(key) for key in self.pairing.only_a],
            "only_b": [list(key) for key in self.pairing.only_b],
            "unjudged": [list(both.key) for both in self.pairing.unjudged],
            "bracket": self.bracket.as_dict() if self.bracket else None,
            "headline": self.headline.measure,
            "identical": self.identical,
            "measures": {contrast.measure: contrast.as_dict() for contrast in self.contrasts},
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
    """Compare two runs over the questions that both have; the questions of only one are listed.

    A run that broke off counts as wrong. A question without a verdict in either run is left out of accuracy,
    counted, and bracketed. The verdict is p, not whether two intervals overlap. Raises `CaseError` if the
    runs cannot be paired (see `pairs.pair`, also about the identities of judges), or have no measure in
    common.

    The headline is the first of the measures; those that no question has in both runs are left out. None
    stands for accuracy, and all others in alphabetical order. `by_group` are compared by group too. Each
    interval is made of `resamples` draws with this `seed`.
    """
    pairing = pair(a, b, judges=judges)
    pairs = pairing.pairs
    make = partial(_compare_measure, resamples=resamples, seed=seed)
    measured = sorted({name for both in pairs for name in both.a.measures.keys() | both.b.measures.keys()})
    wanted = dict.fromkeys(measures if measures is not None else (ACCURACY, *measured))
    contrasts = [contrast for contrast in (make(pairs, measure) for measure in wanted) if contrast]
    if not contrasts:
        hint = "Judge their answers, or name measures that both have."
        raise CaseError("The two runs have no measure in common.", hint)
    cells: dict[tuple[float | None, float | None], list[Key]] = {}
    for both in pairs:
        cells.setdefault((value(both.a, ACCURACY), value(both.b, ACCURACY)), []).append(both.key)
    outcomes = ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    return Comparison(
        a=names[0],
        b=names[1],
        pairing=pairing,
        contrasts=(contrasts[0], *_adjust(contrasts[1:])),
        cells=Cells(*(tuple(cells.get(outcome, ())) for outcome in outcomes)),
        groups=_groups(pairs, by_group, make),
        bracket=_bracket(pairing, resamples=resamples, seed=seed),
        resamples=resamples,
        seed=seed,
    )


def _compare_measure(
    pairs: Sequence[Pair], measure: str, *, resamples: int, seed: int
) -> MetricComparison | None:
    """Compare the pairs that have the measure in both runs; None without any."""
    values = ((both, value(both.a, measure), value(both.b, measure)) for both in pairs)
    scored = [ScoredPair(both, a, b) for both, a, b in values if a is not None and b is not None]
    if not scored:
        return None
    return contrast(measure, scored, left_out=len(pairs) - len(scored), resamples=resamples, seed=seed)


def contrast(
    measure: str,
    scored: Sequence[ScoredPair],
    *,
    left_out: int = 0,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> MetricComparison:
    """Compare two runs in one measure by the values of each question, at least one.

    In the other order the result is the same with the signs turned. `COUNTS` have no limits, all else is
    between 0 and 1 unless its differences say otherwise. The seed is that of the draws of documents, and of
    signs where they are drawn.
    """
    differences = [pair.difference for pair in scored]
    documents = [document_of(pair.pair.subject) for pair in scored]
    questions = [pair.pair.question for pair in scored]
    count = len(set(documents))
    by_document = FEW <= count < len(set(questions))
    bounded = measure not in COUNTS and max(map(abs, differences)) <= 1
    draw = partial(
        mean_interval,
        documents=documents if count > 1 else questions,
        questions=len(set(questions)),
        limits=DIFFERENCE if bounded else None,
        resamples=resamples,
        seed=seed,
    )
    interval = draw(differences)
    opposite = draw([-difference for difference in differences])
    if interval is not None and opposite is not None:  # halfway, so that the order of the runs has no effect
        low, high = (interval.low - opposite.high) / 2, (interval.high - opposite.low) / 2
        interval = replace(interval, low=low, high=high, documents=count)
    return MetricComparison(
        measure=measure,
        questions=len(scored),
        documents=count,
        a=math.fsum(pair.a for pair in scored) / len(scored),
        b=math.fsum(pair.b for pair in scored) / len(scored),
        difference=math.fsum(differences) / len(scored),
        interval=interval,
        by_question=sign_flip(differences, questions, seed=seed),
        by_document=sign_flip(differences, documents, seed=seed) if by_document else None,
        wins=sum(difference > 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        left_out=left_out,
        detectable=detectable(differences, documents if by_document else questions),
    )


def _adjust(contrasts: Sequence[MetricComparison]) -> tuple[MetricComparison, ...]:
    """Correct p for the number of contrasts in which anything differs.

    What is equal on every question could not have been significant, and is not a test: leaving it out loses
    nothing (Tarone 1990, "A modified Bonferroni method for discrete data", Biometrics 46:515). Such are all
    measures of the search where two agents are given the same one.
    """
    tested = {
        str(at): contrast.p for at, contrast in enumerate(contrasts) if contrast.wins or contrast.losses
    }
    corrected = holm(tested)
    return tuple(
        replace(contrast, adjusted=corrected.get(str(at), 1.0)) for at, contrast in enumerate(contrasts)
    )


def _groups(pairs: Sequence[Pair], measures: Sequence[str], make: Make) -> tuple[ComparedGroup, ...]:
    """Compare the groups of each kind of label, except kinds with one label for all; p corrected by kind."""
    found: list[ComparedGroup] = []
    for kind, groups in grouped(pairs, lambda both: both.subject).items():
        if all(len(group) == len(pairs) for group in groups.values()):
            continue
        contrasts: dict[str, list[MetricComparison]] = {label: [] for label in groups}
        for measure in measures:
            made = {label: make(group, measure) for label, group in groups.items()}
            known = {label: contrast for label, contrast in made.items() if contrast}
            for label, contrast in zip(known, _adjust(list(known.values())), strict=True):
                contrasts[label].append(contrast)
        found += [ComparedGroup(kind, label, tuple(each)) for label, each in contrasts.items() if each]
    return tuple(found)


def _bracket(pairing: Pairing, *, resamples: int, seed: int) -> Bracket | None:
    """Compare accuracies with all missing verdicts against A, and with all against B."""
    if not pairing.unjudged:
        return None

    def compare_filled(missing_a: float) -> MetricComparison:
        filled: list[ScoredPair] = []
        for both in pairing.pairs:
            a, b = value(both.a, ACCURACY), value(both.b, ACCURACY)
            filled.append(ScoredPair(both, missing_a if a is None else a, 1 - missing_a if b is None else b))
        return contrast(ACCURACY, filled, resamples=resamples, seed=seed)

    return Bracket(compare_filled(0.0), compare_filled(1.0))
