"""What few paired runs can tell: waiting times some of which were cut short, and differences between arms.

Every function is pure and exact: with few seeds all resamples and all assignments of signs can be counted,
so that no result depends on a draw.

Mind what five seeds allow. The two-sided permutation test and the sign test of n pairs have no p below
2 / 2ⁿ: .0625 for five. The percentile bootstrap of five values is too narrow: its 95 % interval of a mean
covers the truth of normal data in about 84 % of the cases (counted by simulation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Interval",
    "Wait",
    "bootstrap_mean",
    "kaplan_meier",
    "mean",
    "median_wait",
    "permutation_test",
    "restricted_mean",
    "sign_test",
    "steps_to",
]

_MOST = 10
"""Values of which every resample is counted: 92,378 of ten."""
_NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a run took to the threshold, or how long it was watched without reaching it."""

    steps: int
    reached: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where it would lie with other seeds."""

    value: float
    low: float
    high: float


def steps_to(points: Sequence[tuple[int, float]], threshold: float, budget: int) -> Wait:
    """The first evaluation within the budget that is at the threshold or above.

    Args:
        points: Steps and accuracies, by step.
        threshold: What is to be reached.
        budget: Steps of a whole run; what was measured later does not count.

    >>> steps_to([(0, 0.1), (10, 0.7), (20, 0.5)], 0.6, 20), steps_to([(0, 0.1), (10, 0.5)], 0.6, 20)
    (Wait(steps=10, reached=True), Wait(steps=10, reached=False))
    """
    within = [(step, value) for step, value in points if step <= budget]
    for step, value in within:
        if value >= threshold - _NEAR:
            return Wait(step, reached=True)
    return Wait(within[-1][0] if within else 0, reached=False)


def kaplan_meier(waits: Sequence[Wait]) -> tuple[tuple[int, float], ...]:
    """The share of runs that has not reached the threshold after so many steps.

    Kaplan and Meier (1958): the product over the steps at which runs reached it of 1 − reached / watched.
    A run that was cut short counts as watched up to and with its last step.

    Returns:
        Steps at which the share falls, and the share from there on.

    >>> kaplan_meier([Wait(10, True), Wait(20, False), Wait(30, True), Wait(40, False)])
    ((10, 0.75), (30, 0.375))
    """
    share = 1.0
    curve: list[tuple[int, float]] = []
    for step in sorted({wait.steps for wait in waits if wait.reached}):
        watched = sum(wait.steps >= step for wait in waits)
        share *= 1 - sum(wait.reached and wait.steps == step for wait in waits) / watched
        curve.append((step, share))
    return tuple(curve)


def median_wait(waits: Sequence[Wait]) -> int | None:
    """The first step by which half of the runs have reached the threshold; None when fewer did.

    >>> median_wait([Wait(10, True), Wait(20, True), Wait(40, False)])
    20
    """
    return next((step for step, share in kaplan_meier(waits) if share <= 0.5 + _NEAR), None)


def restricted_mean(waits: Sequence[Wait], budget: int) -> float:
    """Mean steps to the threshold, a run that does not reach it counting as the whole budget.

    The area under `kaplan_meier` up to the budget (Irwin 1949). Beyond the last step at which a run was
    watched the curve goes on as it is there.

    Raises:
        ValueError: Without a run.

    >>> restricted_mean([Wait(10, True), Wait(40, False)], 40)
    25.0
    """
    if not waits:
        raise ValueError("there is no run")
    area, at, share = 0.0, 0, 1.0
    for step, after in kaplan_meier(waits):
        area += share * (min(step, budget) - at)
        at, share = min(step, budget), after
    return area + share * (budget - at)


def mean(values: Sequence[float]) -> float:
    """The mean.

    Raises:
        ValueError: Of nothing.
    """
    if not values:
        raise ValueError("there is no value")
    return math.fsum(values) / len(values)


def bootstrap_mean(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean over seeds and its percentile bootstrap interval (Efron 1979).

    Seeds are drawn with replacement; every draw is counted with its probability, none is sampled. For
    the difference of two arms give the differences of their paired seeds.

    Args:
        values: One of each seed, ten at most.
        confidence: Of the interval.

    Raises:
        ValueError: If there is no value, or more than ten.

    >>> bootstrap_mean([0.0, 1.0])
    Interval(value=0.5, low=0.0, high=1.0)
    """
    if len(values) > _MOST:
        raise ValueError(f"resamples of more than {_MOST} values are too many to count")
    value, count = mean(values), len(values)
    weights = _draws(count)
    means = sorted(
        (math.fsum(values[index] for index in drawn) / count, weight) for drawn, weight in weights.items()
    )
    tail = (1 - confidence) / 2 * count**count
    low = _quantile(means, tail)
    high = _quantile([(value, weight) for value, weight in reversed(means)], tail)
    return Interval(value, low, high)


def sign_test(differences: Sequence[float]) -> float:
    """Two-sided p of as many or more differences of one sign, were both as likely; zeros are left out.

    >>> sign_test([1.0, 2.0, 0.5, 3.0, 1.0]), sign_test([1.0, -1.0]), sign_test([0.0])
    (0.0625, 1.0, 1.0)
    """
    signs = [value > 0 for value in differences if abs(value) > _NEAR]
    fewer = min(sum(signs), len(signs) - sum(signs))
    tail = sum(math.comb(len(signs), count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / 2 ** len(signs))


def permutation_test(differences: Sequence[float]) -> float:
    """Two-sided p of a mean so far from 0, were each difference as likely of the other sign (Fisher 1935).

    All 2ⁿ assignments of signs are counted.

    Raises:
        ValueError: If there is no difference, or there are more than sixteen.

    >>> permutation_test([1.0, 2.0, 3.0]), permutation_test([1.0, -1.0])
    (0.25, 1.0)
    """
    if not 0 < len(differences) <= 16:
        raise ValueError("between one and sixteen pairs can be counted")
    size = math.fsum(map(abs, differences))
    seen = abs(math.fsum(differences)) - _NEAR * max(size, 1.0)
    totals = (
        math.fsum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    )
    return sum(abs(total) >= seen for total in totals) / 2 ** len(differences)


@cache
def _draws(count: int) -> dict[tuple[int, ...], int]:
    """Draws with replacement without their order, and in how many orders each comes."""
    drawn = combinations_with_replacement(range(count), count)
    return {one: _orders(one) for one in drawn}


def _orders(drawn: tuple[int, ...]) -> int:
    orders = math.factorial(len(drawn))
    for index in set(drawn):
        orders //= math.factorial(drawn.count(index))
    return orders


def _quantile(means: Sequence[tuple[float, int]], tail: float) -> float:
    """The value at which more than the tail has been passed."""
    passed = 0
    for value, weight in means:
        passed += weight
        if passed > tail:
            return value
    return means[-1][0]
