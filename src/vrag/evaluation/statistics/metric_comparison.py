"""Two runs in one measure: how far they are apart, and whether that can be chance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vrag.evaluation.measures.cost import COUNTS
from vrag.evaluation.statistics.intervals import DIFFERENCE, FEW, RESAMPLES, Interval, mean_interval
from vrag.evaluation.statistics.pairs import document_of, value
from vrag.evaluation.statistics.significance import Significance, detectable, sign_flip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.evaluation.statistics.pairs import Pair

__all__ = ["MetricComparison", "ScoredPair", "contrast", "scored"]


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A question with what it counts in both runs."""

    pair: Pair
    a: float
    b: float

    @property
    def difference(self) -> float:
        """B less A; 0 if it is rounding."""
        return 0.0 if math.isclose(self.a, self.b, rel_tol=1e-9, abs_tol=1e-12) else self.b - self.a


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """Two runs in one measure, over the questions that both have it of."""

    measure: str
    questions: int
    """Pairs it is of; a question with several samples is several."""
    documents: int
    a: float
    """Mean of the first run."""
    b: float
    """Mean of the second."""
    difference: float
    """B less A: above 0, the second is higher."""
    interval: Interval | None
    """Of the difference, documents drawn; questions where there is but one document. None where neither
    tells anything: what has no greatest value and differs nowhere."""
    by_question: Significance
    """Whether the two are the same setting: each question flips on its own, its samples together."""
    by_document: Significance | None
    """Whether they are equally good on other documents: documents flip. None of fewer than 6 documents, and
    where each question has its own."""
    wins: int
    """Pairs in which B is higher; for costs that is no win."""
    ties: int
    losses: int
    left_out: int
    """Pairs of which at least one run does not have the measure."""
    detectable: float | None
    """The difference that would have been found in 80 % of cases (`significance.detectable`)."""
    adjusted: float | None = None
    """`p`, corrected for all that were tested with it; None of what was named beforehand."""

    @property
    def decisive(self) -> Significance:
        """By document where there are enough, else by question."""
        return self.by_document or self.by_question

    @property
    def p(self) -> float:
        """The p that decides, uncorrected."""
        return self.decisive.p

    @property
    def remark(self) -> str:
        """What to know before reading p; empty where nothing is."""
        if not self.wins and not self.losses:
            return "identical on every question"
        if self.decisive.too_few:
            return "too few differ to tell"
        if self.documents == 1:
            return "one document: says nothing about others"
        return "few documents: says little about others" if self.documents < FEW else ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `low` and `high` are the interval's sides, `p` is the one that decides."""
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


def scored(pairs: Sequence[Pair], measure: str) -> list[ScoredPair]:
    """The pairs of which both runs have the measure."""
    both = ((pair, value(pair.a, measure), value(pair.b, measure)) for pair in pairs)
    return [ScoredPair(pair, a, b) for pair, a, b in both if a is not None and b is not None]


def contrast(
    measure: str, given: Sequence[ScoredPair], *, left_out: int = 0, resamples: int = RESAMPLES, seed: int = 0
) -> MetricComparison:
    """How two runs differ in one measure. The other way round it is the same with the signs turned.

    Args:
        measure: Its name; what `measures.conduct` counts has no limits, all else is between 0 and 1
            unless its differences say otherwise.
        given: What each question counts, at least one.
        left_out: How many questions could not be given.
        resamples: How many draws the interval is made of.
        seed: Of the draws, and of signs where they are drawn.

    Raises:
        ValueError: If nothing is given.
    """
    if not given:
        raise ValueError(f"nothing was measured by {measure}")
    differences = [one.difference for one in given]
    documents = [document_of(one.pair.subject) for one in given]
    questions = [one.pair.question for one in given]
    count = len(set(documents))
    by_document = FEW <= count < len(set(questions))
    return MetricComparison(
        measure=measure,
        questions=len(given),
        documents=count,
        a=math.fsum(one.a for one in given) / len(given),
        b=math.fsum(one.b for one in given) / len(given),
        difference=math.fsum(differences) / len(given),
        interval=_interval(
            differences,
            documents if count > 1 else questions,
            len(set(questions)),
            _limits(measure, differences),
            resamples=resamples,
            seed=seed,
            documents=count,
        ),
        by_question=sign_flip(differences, questions, seed=seed),
        by_document=sign_flip(differences, documents, seed=seed) if by_document else None,
        wins=sum(difference > 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        left_out=left_out,
        detectable=detectable(differences, documents if by_document else questions),
    )


def _limits(measure: str, differences: Sequence[float]) -> tuple[float, float] | None:
    bounded = measure not in COUNTS and max(map(abs, differences)) <= 1
    return DIFFERENCE if bounded else None


def _interval(
    differences: Sequence[float],
    units: Sequence[tuple[str, ...]],
    questions: int,
    limits: tuple[float, float] | None,
    *,
    resamples: int,
    seed: int,
    documents: int,
) -> Interval | None:
    """Drawn of the differences and of their opposites: halfway, neither run is the first by chance."""
    drawn = partial(
        mean_interval, documents=units, questions=questions, limits=limits, resamples=resamples, seed=seed
    )
    up, down = drawn(differences), drawn([-difference for difference in differences])
    if up is None or down is None:
        return None
    low, high = (up.low - down.high) / 2, (up.high - down.low) / 2
    return replace(up, low=low, high=high, documents=documents)
