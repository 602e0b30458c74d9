"""How far a measure may be off, had other documents been asked about: 95 % intervals.

Questions about one document are not independent, so documents are drawn, each with all its questions, and
the measure is taken anew of every draw (the cluster bootstrap). Drawing questions instead covers the truth in
some 80 % of cases where documents differ in how hard they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from vrag.evaluation.statistics.bootstrap import draws

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "DIFFERENCE",
    "FEW",
    "LEVEL",
    "RESAMPLES",
    "SHARE",
    "ClusteredSample",
    "Interval",
    "IntervalMethod",
    "intervals",
    "mean_interval",
    "sample_of",
    "student",
    "wilson",
]

LEVEL = 0.95
"""How sure an interval is."""
_NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)

RESAMPLES = 2_000
"""Draws that an interval is made of."""
SHARE = (0.0, 1.0)
"""Limits of a measure between 0 and 1."""
DIFFERENCE = (-1.0, 1.0)
"""Limits of a difference of two such measures."""
FEW = 6
"""Documents below which an interval, or a test by document, says little."""


class IntervalMethod(StrEnum):
    """How an interval was made."""

    BOOTSTRAP = "bootstrap"
    """Documents were drawn."""
    WILSON = "wilson"
    """One document, or nothing that varies: Wilson's interval over the questions, whatever the documents."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a measure lies, at 95 %."""

    low: float
    high: float
    method: IntervalMethod
    documents: int
    """How many were there to be drawn; fewer than `FEW` say little."""

    @property
    def few(self) -> bool:
        """Whether there were too few documents to say much about others."""
        return self.documents < FEW

    def as_dict(self) -> dict[str, float | str | int | bool]:
        """For JSON."""
        return {
            "low": self.low,
            "high": self.high,
            "method": self.method.value,
            "documents": self.documents,
            "few": self.few,
        }


@dataclass(frozen=True, slots=True, eq=False)
class ClusteredSample:
    """What an interval is taken of: a mean over questions, or another ratio of sums over documents."""

    parts: NDArray[np.float64]
    """Numerator and denominator of each document, shape (documents, 2); for a mean, sum and count."""
    cases: int
    """Different questions, for where drawing documents tells nothing."""
    limits: tuple[float, float] | None
    """The least and the greatest it can be; None where there are no limits."""
    only: float | None = None
    """What all values are, where they are all the same."""

    @property
    def estimate(self) -> float:
        """The ratio; 0 without a denominator."""
        above, below = (math.fsum(column) for column in self.parts.T)
        return above / below if below else 0.0


def sample_of(
    values: NDArray[np.float64],
    documents: NDArray[np.intp],
    *,
    questions: int | None = None,
    limits: tuple[float, float] | None = SHARE,
) -> ClusteredSample:
    """The sample of a mean.

    Args:
        values: One for each question, finite and within the limits, shape (n,).
        documents: What each is about, by number, shape (n,).
        questions: As of `mean_interval`.
        limits: As of `mean_interval`.
    """
    order = np.argsort(values, kind="stable")  # rounding must not depend on the order of the questions
    counts = np.bincount(documents)
    sums = np.zeros(len(counts))
    np.add.at(sums, documents[order], values[order])
    same = len(values) > 0 and bool(values[order[0]] == values[order[-1]])
    return ClusteredSample(
        np.stack([sums, counts.astype(np.float64)], axis=1)[counts > 0],
        len(values) if questions is None else questions,
        limits,
        float(values[0]) if same else None,
    )


def intervals(
    samples: Sequence[ClusteredSample], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval | None]:
    """The intervals of many samples, as `mean_interval` takes each: they share the draws, which is quick.

    Args:
        samples: Each of at least one document.
        resamples: How many draws.
        seed: Of the draws.
    """
    varied = [at for at, one in enumerate(samples) if one.only is None and len(one.parts) > 1]
    drawn = draws([samples[at].parts for at in varied], resamples=resamples, seed=seed)
    found = {
        at: _expanded(those, len(samples[at].parts), samples[at].limits)
        for at, those in zip(varied, drawn, strict=True)
    }
    return [found.get(at) or _undrawn(one) for at, one in enumerate(samples)]


def mean_interval(
    values: Sequence[float],
    documents: Sequence[Hashable],
    *,
    questions: int | None = None,
    limits: tuple[float, float] | None = SHARE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """The interval of a mean over questions.

    Documents are drawn with replacement, and the mean is taken over the questions of the draw. Its quantiles
    are not those at 2.5 % and 97.5 % but at Φ(∓√(G/(G-1))·t), with the 97.5 % quantile t of Student's
    distribution with G-1 degrees of freedom: the expanded percentile interval (Hesterberg 2015, "What
    teachers should know about the bootstrap", The American Statistician 69:371), which is not too narrow
    when the G documents are few. It stays within the range of what was measured.

    Where drawing cannot tell anything, questions take the place of documents: of one document, Wilson's
    interval; of values that are all the same, see `_unseen`.

    Args:
        values: One for each question, shape (n,).
        documents: What each is about, shape (n,); any values that can be told apart.
        questions: How many different questions the values are of; None where each is of another. Several
            samples of a question tell no more about other questions than one.
        limits: The least and the greatest a value can be; None where there are no limits.
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        None without a value; and where drawing cannot tell anything of values without limits.

    Raises:
        ValueError: If the two are not equally long, or a value is not finite or beyond the limits.

    >>> found = mean_interval([0.0] * 20, ["a", "b"] * 10)
    >>> found.low, round(found.high, 2), found.method.value
    (0.0, 0.16, 'wilson')
    """
    _check(values, documents, limits)
    places = {name: at for at, name in enumerate(dict.fromkeys(documents))}
    sample = sample_of(
        np.asarray(values, np.float64),
        np.asarray([places[name] for name in documents], np.intp),
        questions=questions,
        limits=limits,
    )
    return intervals([sample], resamples=resamples, seed=seed)[0] if values else None


def wilson(share: float, cases: int) -> tuple[float, float]:
    """Wilson's score interval of a share, at 95 %.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22:209. For
    values between 0 and 1 with that mean it is too wide rather than too narrow.

    Args:
        share: 0 to 1.
        cases: That it is of, at least 1.

    Raises:
        ValueError: If there are no cases, or the share is none.

    >>> [round(side, 4) for side in wilson(0.5, 10)]
    [0.2366, 0.7634]
    """
    if cases < 1 or not 0 <= share <= 1:
        raise ValueError(f"{share} of {cases} is not a share")
    square = _NORMAL**2
    middle = share + square / (2 * cases)
    half = _NORMAL * math.sqrt(share * (1 - share) / cases + square / (4 * cases**2))
    # The sides are 0 and 1 exactly at a share of 0 and 1; rounding must not say otherwise.
    low = 0.0 if share == 0 else (middle - half) / (1 + square / cases)
    high = 1.0 if share == 1 else (middle + half) / (1 + square / cases)
    return max(0.0, low), min(1.0, high)


@lru_cache(maxsize=1024)
def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution, to 1e-9.

    By halving, from the distribution's closed form for whole degrees of freedom (Abramowitz and Stegun
    1964, 26.7.3 and 26.7.4).

    Args:
        freedom: Degrees of freedom, at least 1.

    Raises:
        ValueError: If there are none.

    >>> round(student(10), 3)
    2.228
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    low, high = 1.9, 13.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if _central(middle, freedom) > LEVEL else (middle, high)
    return (low + high) / 2


def _central(t: float, freedom: int) -> float:
    """How probable -t to t is."""
    angle = math.atan2(t, math.sqrt(freedom))
    square = math.cos(angle) ** 2
    steps = np.arange(1, (freedom - 2) // 2 + 1, dtype=np.float64)
    if freedom % 2 == 0:
        return math.sin(angle) * float(1 + np.cumprod((2 * steps - 1) / (2 * steps) * square).sum())
    series = float(1 + np.cumprod(2 * steps / (2 * steps + 1) * square).sum()) if freedom > 1 else 0.0
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * series)


def _expanded(
    drawn: NDArray[np.float64], documents: int, limits: tuple[float, float] | None
) -> Interval | None:
    """The expanded percentile interval; None where the draws do not differ."""
    if len(drawn) < 2 or np.ptp(drawn) <= 1e-12 * max(1.0, float(np.abs(drawn).max())):
        return None
    tail = NormalDist().cdf(-math.sqrt(documents / (documents - 1)) * student(documents - 1))
    low, high = (float(side) for side in np.quantile(drawn, [tail, 1 - tail]))
    least, most = limits or (-math.inf, math.inf)
    return Interval(max(least, low), min(most, high), IntervalMethod.BOOTSTRAP, documents)


def _undrawn(sample: ClusteredSample) -> Interval | None:
    """Where drawing documents tells nothing."""
    documents = len(sample.parts)
    if sample.only is not None:
        return _unseen(sample.only, sample.cases, documents, sample.limits)
    return _scaled_wilson(sample.estimate, sample.cases, documents, sample.limits)


def _scaled_wilson(
    estimate: float, cases: int, documents: int, limits: tuple[float, float] | None
) -> Interval | None:
    """Wilson's interval, stretched over the limits; None without limits."""
    if limits is None:
        return None
    least, most = limits
    share = min(1.0, max(0.0, (estimate - least) / (most - least)))
    low, high = (least + side * (most - least) for side in wilson(share, cases))
    return Interval(low, high, IntervalMethod.WILSON, documents)


def _unseen(value: float, cases: int, documents: int, limits: tuple[float, float] | None) -> Interval | None:
    """Of values that are all the same: some share of others may have gone unseen, and be anything.

    That share is at most what Wilson's interval says of none among the cases. At 0 and at 1 this is
    Wilson's interval itself; of differences that are all 0 it is the share of questions that may differ.
    """
    if limits is None:
        return None
    least, most = limits
    unseen = wilson(0, cases)[1]
    low, high = (value + unseen * (side - value) for side in (least, most))
    return Interval(low, high, IntervalMethod.WILSON, documents)


def _check(
    values: Sequence[float], documents: Sequence[Hashable], limits: tuple[float, float] | None
) -> None:
    if len(values) != len(documents):
        raise ValueError(f"{len(values)} values, and documents of {len(documents)}")
    least, most = limits or (-math.inf, math.inf)
    for value in values:
        if not math.isfinite(value) or not least <= value <= most:
            raise ValueError(f"{value} is no value between {least} and {most}")
