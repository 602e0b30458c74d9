"""Statistics of few paired runs, against values counted by hand."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.credit.statistics import (
    Wait,
    bootstrap_mean,
    kaplan_meier,
    mean,
    median_wait,
    permutation_test,
    restricted_mean,
    sign_test,
    steps_to,
)

small = st.lists(st.integers(-8, 8).map(float), min_size=1, max_size=5)


def reached(*steps: int) -> list[Wait]:
    return [Wait(step, reached=True) for step in steps]


def cut(*steps: int) -> list[Wait]:
    return [Wait(step, reached=False) for step in steps]


def test_the_threshold_is_reached_at_the_first_evaluation_that_has_it_within_the_budget() -> None:
    points = [(0, 0.1), (10, 0.6), (20, 0.3), (30, 0.9)]
    assert steps_to(points, 0.6, 30) == Wait(10, reached=True)
    assert steps_to(points, 0.7, 30) == Wait(30, reached=True)
    assert steps_to(points, 0.7, 29) == Wait(20, reached=False)
    assert steps_to([], 0.7, 29) == Wait(0, reached=False)
    assert steps_to([(1, 0.1 + 0.2)], 0.3, 1) == steps_to([(1, 0.3)], 0.1 + 0.2, 1) == Wait(1, reached=True)


def test_kaplan_and_meier_on_six_runs_counted_by_hand() -> None:
    """Six watched at 10 (one of six), four at 30 (two of four; one was cut at 20), one at 40 after a cut."""
    waits = reached(10, 30, 30, 40) + cut(20, 30)
    shares = [Fraction(5, 6), Fraction(5, 6) * Fraction(2, 4), Fraction(0)]
    assert kaplan_meier(waits) == tuple(zip((10, 30, 40), map(float, shares), strict=True))
    assert median_wait(waits) == 30
    area = 10 + Fraction(5, 6) * 20 + Fraction(5, 12) * 10
    assert restricted_mean(waits, 40) == pytest.approx(float(area))


def test_runs_that_never_reach_it_count_as_the_budget_in_means_and_as_never_in_medians() -> None:
    two_of_five = reached(100, 200) + cut(300, 300, 300)
    assert restricted_mean(two_of_five, 300) == pytest.approx((100 + 200 + 3 * 300) / 5)
    assert median_wait(two_of_five) is None
    assert median_wait(reached(100, 150, 200) + cut(300, 300)) == 200
    assert median_wait(reached(100) + cut(300)) == 100  # half of them
    assert (median_wait(cut(300)), restricted_mean(cut(300), 300)) == (None, 300)


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=8))
def test_runs_watched_to_the_budget_have_the_plain_mean(found: list[tuple[int, bool]]) -> None:
    waits = [Wait(step, reached=True) if hit else Wait(50, reached=False) for step, hit in found]
    plain = mean([float(wait.steps) for wait in waits])
    assert restricted_mean(waits, 50) == pytest.approx(plain)


def test_nothing_has_no_mean() -> None:
    for call in (lambda: mean([]), lambda: restricted_mean([], 5), lambda: bootstrap_mean([])):
        with pytest.raises(ValueError, match="there is no"):
            call()


def test_the_bootstrap_of_two_and_of_three_values_counted_by_hand() -> None:
    """Of 0 and 1 the means are 0, ½, ½, 1, a quarter each; of 0, 0, 3 their sum is 3 times binomial(3, ⅓)."""
    assert bootstrap_mean([0.0, 1.0], 0.6) == bootstrap_mean([1.0, 0.0], 0.6)
    assert (bootstrap_mean([0.0, 1.0], 0.6).low, bootstrap_mean([0.0, 1.0], 0.4).low) == (0.0, 0.5)
    assert bootstrap_mean([0.0, 1.0], 0.5).low == 0.5  # a quarter of the means lies below: none is beyond it
    found = bootstrap_mean([0.0, 0.0, 3.0], 0.9)  # tails of 1/20: 8, 12, 6 and 1 of 27 have 0, 1, 2, 3
    assert (found.value, found.low, found.high) == (1.0, 0.0, 2.0)
    assert bootstrap_mean([0.0, 0.0, 3.0], 0.95).high == 3.0  # 1/40 is less than 1/27


@given(small, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_bootstrap_counts_every_resample(values: list[float], confidence: float) -> None:
    means = sorted(sum(drawn) / len(values) for drawn in product(values, repeat=len(values)))
    found = bootstrap_mean(values, confidence)
    tail = math.floor((1 - confidence) / 2 * len(means) + 1e-9)
    slack = 1 if abs((1 - confidence) / 2 * len(means) - tail) < 1e-6 else 0
    assert means[max(tail - slack, 0)] - 1e-9 <= found.low <= means[tail] + 1e-9
    assert means[-1 - tail] - 1e-9 <= found.high <= means[-1 - max(tail - slack, 0)] + 1e-9


def test_the_bootstrap_of_five_values_is_as_narrow_as_the_report_says() -> None:
    chance = random.Random(0)
    held = 0
    for _ in range(400):
        found = bootstrap_mean([chance.gauss(0, 1) for _ in range(5)])
        held += found.low <= 0 <= found.high
    assert 0.79 < held / 400 < 0.89


def test_too_many_values_are_refused_rather_than_sampled() -> None:
    assert bootstrap_mean([1.0] * 5).low == 1.0
    with pytest.raises(ValueError, match="too many"):
        bootstrap_mean([1.0] * 11)
    with pytest.raises(ValueError, match="between one and sixteen"):
        permutation_test([1.0] * 17)


def test_sign_tests_counted_by_hand() -> None:
    assert sign_test([3, 1, 2, 5, 4]) == 2 / 32
    assert sign_test([-3, 1, 2, 5, 4]) == 2 * (1 + 5) / 32
    assert sign_test([0, 0, 1, 1, 1]) == 2 / 8
    assert sign_test([]) == sign_test([0, 0]) == 1


def test_permutation_tests_counted_by_hand() -> None:
    """Of 1, 2, 4 all eight sums differ in size but for their sign: 7, 5, 3, 1."""
    assert permutation_test([1, 2, 4]) == 2 / 8
    assert permutation_test([-1, 2, 4]) == 4 / 8
    assert permutation_test([1, -2, 4]) == 6 / 8
    assert permutation_test([1, 2, -4]) == 1
    assert permutation_test([0, 0]) == 1
    assert permutation_test([0.1, 0.2, 0.3, 0.4, 0.5]) == 2 / 32


@given(small)
def test_p_is_the_same_for_the_other_arm_and_at_any_scale(values: list[float]) -> None:
    for test in (sign_test, permutation_test):
        assert 2 / 2 ** len(values) <= test(values) <= 1
        assert test(values) == test([-value for value in values]) == test([0.1 * value for value in values])
