from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist, fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.evaluation.intervals import DIFFERENCE, IntervalMethod, mean_interval, student, wilson

SHARES = st.sampled_from([0.0, 0.25, 0.5, 2 / 3, 1.0])
QUESTIONS = st.lists(st.tuples(SHARES, st.sampled_from("abcdefgh")), min_size=1, max_size=40)


# Wilson


def test_wilson_by_hand() -> None:
    # z = 1.959964, z² = 3.841459. 3 of 20: (0.15 + 0.0960365) / 1.1920730 = 0.206394,
    # 1.959964 · √(0.1275 / 20 + 3.841459 / 1600) / 1.1920730 = 0.154025.
    low, high = wilson(0.15, 20)
    assert (low, high) == pytest.approx((0.052369, 0.360419), abs=1e-6)
    # None of 20: z² / (20 + z²).
    assert wilson(0, 20) == (0.0, pytest.approx(3.841459 / 23.841459, abs=1e-6))
    assert wilson(1, 20) == (pytest.approx(20 / 23.841459, abs=1e-6), 1.0)


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_wilson_holds_the_share_and_stays_within_0_and_1(share: float, cases: int) -> None:
    low, high = wilson(share, cases)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1


@pytest.mark.parametrize(("share", "cases"), [(0.5, 0), (-0.1, 3), (1.1, 3), (math.nan, 3)])
def test_what_is_no_share_has_no_wilson_interval(share: float, cases: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        wilson(share, cases)


# Student


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    # Published tables of the 97.5 % quantile.
    [(1, 12.70620), (2, 4.302653), (3, 3.182446), (4, 2.776445), (5, 2.570582), (7, 2.364624), (14, 2.144787),
     (19, 2.093024), (39, 2.022691), (120, 1.979930)],
)  # fmt: skip
def test_students_quantile_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=1e-5)


def test_students_quantile_falls_to_the_normal_one() -> None:
    found = [student(freedom) for freedom in range(1, 60)]
    assert found == sorted(found, reverse=True)
    assert student(20_000) == pytest.approx(NormalDist().inv_cdf(0.975), abs=2e-4)
    with pytest.raises(ValueError, match="freedom"):
        student(0)


# Bootstrap


def test_the_interval_of_two_documents_is_from_one_to_the_other() -> None:
    # Draws are (a, a), (a, b), (b, b); the expanded quantiles of two documents are the outermost draws.
    found = mean_interval([1, 0, 0, 0, 1, 1], ["a", "a", "a", "a", "b", "b"])
    assert found is not None
    assert (found.low, found.high, found.method, found.documents) == (0.25, 1.0, IntervalMethod.BOOTSTRAP, 2)
    assert found.few


def test_the_quantiles_are_those_of_the_whole_distribution_of_draws() -> None:
    # Three documents of one question each: 27 draws, the tail is Φ(-√1.5 · 4.3027) = 6.8e-8.
    values = [0.2, 0.4, 0.9]
    every = [fmean(draw) for draw in product(values, repeat=3)]
    found = mean_interval(values, "abc")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((min(every), max(every)))


def test_the_quantiles_are_expanded_as_documents_are_few() -> None:
    # Six documents: Φ(-√1.2 · 2.570582) = 0.00243, where 2.5 % would be too narrow.
    values = [0.0, 0.1, 0.2, 0.4, 0.7, 1.0]
    every = np.stack(np.meshgrid(*[values] * 6)).reshape(6, -1).mean(axis=0)
    found = mean_interval(values, range(6), resamples=100_000)
    assert found is not None
    expected = np.quantile(every, [0.00243, 1 - 0.00243])
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.004)
    assert np.quantile(every, 0.00508) - expected[0] > 0.01  # that of Student's distribution alone


def test_many_documents_give_the_interval_of_the_normal_distribution() -> None:
    values = [float(at % 2) for at in range(400)]
    found = mean_interval(values, range(400), resamples=20_000)
    assert found is not None
    # Standard error 0.025; the expansion of 400 documents is 0.4 %.
    assert (found.low, found.high) == pytest.approx((0.5 - 1.968 * 0.025, 0.5 + 1.968 * 0.025), abs=0.002)
    assert not found.few


def test_documents_are_drawn_and_not_questions() -> None:
    values, documents = [float(at // 10 % 2) for at in range(200)], [at // 10 for at in range(200)]
    together, apart = mean_interval(values, documents), mean_interval(values, range(200))
    assert together is not None
    assert apart is not None
    # 20 documents whose questions agree tell as much as 20 questions.
    assert together.high - together.low > 2.8 * (apart.high - apart.low)


def test_intervals_of_a_mean_cover_it_where_documents_differ() -> None:
    source = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        chances = source.beta(1, 1, 15)  # the mean is 1/2
        values = [float(source.random() < chance) for chance in chances for _ in range(8)]
        found = mean_interval(values, [document for document in range(15) for _ in range(8)], resamples=300)
        assert found is not None
        covered += found.low <= 0.5 <= found.high
    assert 180 <= covered <= 198


@settings(max_examples=40)
@given(QUESTIONS)
def test_neither_order_nor_names_of_documents_change_an_interval(questions: list[tuple[float, str]]) -> None:
    values, documents = zip(*questions, strict=True)
    found = mean_interval(values, documents, resamples=50)
    turned = list(reversed(questions))
    again = mean_interval(
        [value for value, _ in turned], [f"other {ord('z') - ord(name)}" for _, name in turned], resamples=50
    )
    assert found == again
    assert found is not None
    assert 0 <= found.low <= found.high <= 1


def test_the_seed_and_the_number_of_draws_are_what_was_asked() -> None:
    values, documents = [float(at % 3 == 0) for at in range(60)], [at % 13 for at in range(60)]
    first = mean_interval(values, documents, seed=1)
    assert first == mean_interval(values, documents, seed=1)
    assert first != mean_interval(values, documents, seed=2)
    assert first != mean_interval(values, documents, seed=1, resamples=40)


# Where drawing says nothing


def test_without_a_question_there_is_no_interval() -> None:
    assert mean_interval([], []) is None


def test_one_document_has_wilsons_interval_over_its_questions() -> None:
    found = mean_interval([1, 0, 1, 1], "aaaa")
    assert found is not None
    assert (found.low, found.high) == wilson(0.75, 4)
    assert (found.method, found.documents) == (IntervalMethod.WILSON, 1)


def test_documents_that_are_all_alike_have_wilsons_interval() -> None:
    found = mean_interval([1, 0, 1, 0], "aabb")
    assert found is not None
    assert (found.low, found.high) == wilson(0.5, 4)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_values_that_are_all_the_same_have_wilsons_interval(value: float) -> None:
    found = mean_interval([value] * 20, [at % 5 for at in range(20)])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(wilson(value, 20))
    assert found.method is IntervalMethod.WILSON


def test_differences_that_are_all_0_may_differ_on_a_share_that_went_unseen() -> None:
    found = mean_interval([0.0] * 20, range(20), limits=DIFFERENCE)
    assert found is not None
    unseen = 3.841459 / 23.841459
    assert (found.low, found.high) == pytest.approx((-unseen, unseen), abs=1e-6)


def test_what_has_no_limits_has_no_interval_where_drawing_says_nothing() -> None:
    assert mean_interval([7.0, 7.0], "ab", limits=None) is None
    assert mean_interval([7.0, 9.0], "aa", limits=None) is None
    found = mean_interval([7.0, 9.0], "ab", limits=None)
    assert found is not None
    assert (found.low, found.high) == (7.0, 9.0)


@pytest.mark.parametrize("values", [[math.nan, 0.5], [math.inf, 0.5], [1.5, 0.5], [-0.1, 0.5], [0.5]])
def test_values_that_cannot_be_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="value"):
        mean_interval(values, "ab")


def test_an_interval_tells_all_of_itself_as_json() -> None:
    found = mean_interval([1, 0, 0, 0, 1, 1], "aaaabb")
    assert found is not None
    assert found.as_dict() == {"low": 0.25, "high": 1.0, "method": "bootstrap", "documents": 2, "few": True}
