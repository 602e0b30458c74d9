"""How far a measure may be off, had other documents been asked about: 95 % intervals.

Questions about one document are not independent, so documents are drawn, each with all its questions, and
the measure is taken anew of every draw (the cluster bootstrap). Drawing questions instead covers the truth in
some 80 % of cases where documents differ in how hard they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "DIFFERENCE",
    "FEW",
    "RESAMPLES",
    "SHARE",
    "Interval",
    "Method",
    "interval",
    "mean_interval",
    "student",
    "wilson",
]

_LEVEL = 0.95
_NORMAL = NormalDist().inv_cdf((1 + _LEVEL) / 2)
_AT_ONCE = 1 << 20
"""Numbers drawn at once, at most: a bound on memory."""

RESAMPLES = 2_000
"""Draws that an interval is made of."""
SHARE = (0.0, 1.0)
"""Limits of a measure between 0 and 1."""
DIFFERENCE = (-1.0, 1.0)
"""Limits of a difference of two such measures."""
FEW = 6
"""Documents below which an interval, or a test by document, says little."""

_T = TypeVar("_T")


class Method(StrEnum):
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
    method: Method
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


def interval(
    records: Iterable[_T],
    statistic: Callable[[Sequence[_T]], float | None],
    document: Callable[[_T], Hashable],
    *,
    limits: tuple[float, float] | None = SHARE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """The interval of any statistic, by taking it of every draw: a ratio, an F1, a percentile.

    The quantiles of the draws are expanded (see `mean_interval`). Draws of which the statistic is undefined
    are left out. For a mean, `mean_interval` is the same and quick.

    Args:
        records: What the statistic is of; their order does not matter if it does not to the statistic.
        statistic: Of a sample; None or NaN where it is undefined, such as a precision of nothing.
        document: What is drawn together.
        limits: The least and the greatest the statistic can be; None where it has no limits.
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        None where there is nothing to take the statistic of; and where drawing says nothing (one document, or
        every draw gives the same) of a statistic without limits.
    """
    given = list(records)
    estimate = _defined(statistic(given)) if given else None
    if estimate is None:
        return None
    clusters = _clusters(given, document)
    drawn: list[float] = []
    if len(clusters) > 1:
        for picks in np.random.default_rng(seed).integers(0, len(clusters), (resamples, len(clusters))):
            value = _defined(statistic([record for pick in picks for record in clusters[int(pick)]]))
            if value is not None:
                drawn.append(value)
    found = _expanded(np.asarray(drawn, np.float64), len(clusters), limits)
    return found or _scaled_wilson(estimate, len(given), len(clusters), limits)


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
    if not values:
        return None
    cases = len(values) if questions is None else questions
    clusters = _clusters(list(zip(documents, values, strict=True)), lambda one: one[0])
    if min(values) == max(values):
        return _unseen(values[0], cases, len(clusters), limits)
    pairs = np.array([(math.fsum(value for _, value in one), len(one)) for one in clusters], np.float64)
    drawn = _means(pairs, resamples, seed) if len(clusters) > 1 else np.empty(0)
    mean = math.fsum(values) / len(values)
    return _expanded(drawn, len(clusters), limits) or _scaled_wilson(mean, cases, len(clusters), limits)


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
        low, high = (low, middle) if _central(middle, freedom) > _LEVEL else (middle, high)
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


def _clusters(records: Sequence[_T], document: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Records of each document, the documents in an order that is theirs and not that of the records."""
    found: defaultdict[Hashable, list[_T]] = defaultdict(list)
    for record in records:
        found[document(record)].append(record)
    return [found[name] for name in sorted(found, key=repr)]


def _means(pairs: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """Means of draws; `pairs` has sum and count of each document, shape (G, 2).

    How often documents that are alike are drawn is drawn at once. The kinds stand in the order of their
    numbers, so that neither the order of the questions nor names of documents change the draws.
    """
    draws, documents = np.random.default_rng(seed), len(pairs)
    kinds, alike = np.unique(pairs, axis=0, return_counts=True)
    rows = max(1, _AT_ONCE // len(kinds))
    sums = np.concatenate(
        [
            draws.multinomial(documents, alike / documents, min(rows, resamples - at)) @ kinds
            for at in range(0, resamples, rows)
        ]
    )
    return sums[:, 0] / sums[:, 1]


def _expanded(
    drawn: NDArray[np.float64], documents: int, limits: tuple[float, float] | None
) -> Interval | None:
    """The expanded percentile interval; None where the draws do not differ."""
    if len(drawn) < 2 or np.ptp(drawn) <= 1e-12 * max(1.0, float(np.abs(drawn).max())):
        return None
    tail = NormalDist().cdf(-math.sqrt(documents / (documents - 1)) * student(documents - 1))
    low, high = (float(side) for side in np.quantile(drawn, [tail, 1 - tail]))
    least, most = limits or (-math.inf, math.inf)
    return Interval(max(least, low), min(most, high), Method.BOOTSTRAP, documents)


def _scaled_wilson(
    estimate: float, cases: int, documents: int, limits: tuple[float, float] | None
) -> Interval | None:
    """Wilson's interval, stretched over the limits; None without limits."""
    if limits is None:
        return None
    least, most = limits
    share = min(1.0, max(0.0, (estimate - least) / (most - least)))
    low, high = (least + side * (most - least) for side in wilson(share, cases))
    return Interval(low, high, Method.WILSON, documents)


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
    return Interval(low, high, Method.WILSON, documents)


def _check(
    values: Sequence[float], documents: Sequence[Hashable], limits: tuple[float, float] | None
) -> None:
    if len(values) != len(documents):
        raise ValueError(f"{len(values)} values, and documents of {len(documents)}")
    least, most = limits or (-math.inf, math.inf)
    for value in values:
        if not math.isfinite(value) or not least <= value <= most:
            raise ValueError(f"{value} is no value between {least} and {most}")


def _defined(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
