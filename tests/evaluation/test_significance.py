from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from evaluated import mcnemar
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.evaluation.significance import MIN_UNITS, Significance, detectable, holm, sign_flip

WHOLE = st.lists(st.integers(-3, 3).map(float), max_size=9)
GRADED = st.lists(st.floats(-1, 1, allow_subnormal=False), max_size=9)


def brute(differences: list[float]) -> float:
    """The definition: every choice of signs, the sums farther than the one found and half of those as far."""
    if not any(differences):
        return 1.0
    found = abs(math.fsum(differences))
    sums = [
        abs(math.fsum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    rounding = 1e-9 * math.fsum(map(abs, differences))
    as_far = sum(abs(one - found) <= rounding for one in sums)
    return (sum(one > found + rounding for one in sums) + as_far / 2) / len(sums)


def random_differences(seed: int, size: int, *, shift: float = 0.0) -> list[float]:
    source = np.random.default_rng(seed)
    return (source.normal(shift, 1, size) * (source.random(size) < 0.6)).tolist()


# What p is


@given(st.one_of(WHOLE, GRADED))
def test_p_is_that_of_going_through_all_signs(differences: list[float]) -> None:
    greatest = max(map(abs, differences), default=0.0)
    told = [one for one in differences if abs(one) > 1e-6 * greatest]  # less is rounding: it counts as 0
    assert sign_flip(told).p == pytest.approx(brute(told), abs=1e-12)
    assert sign_flip(told).exact


@pytest.mark.parametrize("step", [1.0, 0.1, 1 / 3, 1e9])
def test_whole_multiples_are_told_exactly_whatever_they_are_multiples_of(step: float) -> None:
    differences = [step * multiple for multiple in (1, -1, 2, 2, 3, -2, 1, 1, 4, 2)]
    found = sign_flip(differences)
    assert found.p == pytest.approx(brute(differences), abs=1e-12)
    assert found.exact


def test_sums_of_documents_are_told_exactly_though_no_document_differs_by_one() -> None:
    sums = [2.0, 3.0, -2.0, 3.0, 5.0, 2.0, -3.0, 2.0, 3.0, 2.0, -2.0, 3.0, 5.0, 3.0, 2.0, -3.0]
    documents = [document for document, total in enumerate(sums) for _ in range(int(abs(total)))]
    rights = [math.copysign(1.0, sums[document]) for document in documents]
    found = sign_flip(rights, documents)
    assert (found.p, found.exact) == (pytest.approx(brute(sums), abs=1e-12), True)


def test_of_right_and_wrong_it_is_mcnemars_test() -> None:
    # 9 against 2: 2 · (1 + 11 + 55) / 2048 less 55 / 2048.
    assert mcnemar(9, 2) == pytest.approx(79 / 2048, abs=1e-15)
    assert sign_flip([1.0] * 9 + [0.0] * 40 + [-1.0] * 2).p == mcnemar(9, 2) == mcnemar(2, 9)
    assert sign_flip([0.25] * 9 + [-0.25] * 2).p == mcnemar(9, 2)
    # 2 against 2: all but half of the 6 of 16 sums that are 0.
    assert mcnemar(2, 2) == 1 - 3 / 16
    assert mcnemar(1, 0) == 0.5
    assert sign_flip([1.0, 1.0, -1.0, -1.0]).p == mcnemar(2, 2)


def test_closed_form_and_count_of_sums_agree_at_any_size() -> None:
    rights = [1.0] * 60 + [-1.0] * 40
    counted = sign_flip([*rights, 2.0, -2.0, 2.0, -2.0])
    # The same as an average over the signs of the four: they sum to -8, -4, 0, 4, 8 in 1, 4, 6, 4, 1 of 16.
    farther = sum(
        ways
        / 16
        * (math.comb(100, up) / 2**100)
        * (1.0 if abs(total) > 20 else 0.5 if abs(total) == 20 else 0)
        for ways, four in ((1, -8), (4, -4), (6, 0), (4, 4), (1, 8))
        for up in range(101)
        for total in (2 * up - 100 + four,)
    )
    assert counted.p == pytest.approx(farther, abs=1e-12)


def test_no_number_of_differences_is_too_great() -> None:
    assert sign_flip([1.0] * 2_000).p == 0.0  # 2 ** -2000
    assert sign_flip([1.0, -1.0] * 2_000).p == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_signs_of_many_come_near_the_normal_distribution(seed: int) -> None:
    differences = random_differences(seed, 300, shift=0.1)
    found = sign_flip(differences)
    assert not found.exact
    square = math.sqrt(math.fsum(one * one for one in differences))
    normal = math.erfc(abs(math.fsum(differences)) / square / math.sqrt(2))
    assert found.p == pytest.approx(normal, abs=0.02)


def test_drawn_signs_come_near_the_count_of_all() -> None:
    # Whole but for one: too many to go through, and all but those that can be counted.
    counted = [float(one) for one in (1, 1, -1, 2, 2, -1, 3, 1, 2, -3, 1, 1, 2, 2, -1, 1, 1, -2, 3, 1)]
    drawn = [*counted[:-1], 1 + 1e-6]
    assert sign_flip(counted).exact
    found = sign_flip(drawn)
    assert not found.exact
    assert found.p == pytest.approx(sign_flip(counted).p, abs=0.01)
    assert sign_flip(drawn, seed=1).p != found.p


def test_the_signs_found_count_half_as_one_of_those_drawn() -> None:
    differences = [1 + at / 100 for at in range(60)]
    assert sign_flip(differences, draws=99) == Significance(0.5 / 100, 60, exact=False)


# What does not change it


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 40), st.permutations(range(40)))
def test_neither_order_nor_which_run_is_the_first_changes_p(seed: int, size: int, order: list[int]) -> None:
    differences = random_differences(seed, size)
    documents = [at % 17 for at in range(size)]
    turned = [at for at in order if at < size]
    for units in (None, documents):
        other = None if units is None else [units[at] for at in turned]
        found = sign_flip(differences, units, draws=200)
        assert sign_flip([-one for one in differences], units, draws=200) == found
        assert sign_flip([differences[at] for at in turned], other, draws=200) == found


def test_questions_that_do_not_differ_change_nothing() -> None:
    differences = random_differences(3, 30)
    assert sign_flip(differences) == sign_flip([*differences, *[0.0] * 100])
    assert sign_flip([0.1, 0.2, -0.3], "aaa").units == 0  # they sum to rounding


def test_identical_runs_have_p_of_1() -> None:
    found = sign_flip([0.0] * 50)
    assert (found.p, found.units, found.exact) == (1.0, 0, True)
    assert found.too_few
    assert sign_flip([]) == found


# Documents


def test_documents_keep_their_signs_together() -> None:
    differences = [1.0, 1.0, 1.0, -1.0, 0.5, 0.5, 1.0]
    found = sign_flip(differences, "aabbccd")
    # Sums 2, 0, 1, 1: the greatest of 8 and as far as any, 1/4 - 1/8.
    assert found == sign_flip([2.0, 1.0, 1.0])
    assert (found.p, found.units) == (0.125, 3)


def test_few_units_cannot_be_significant() -> None:
    for units in range(1, MIN_UNITS):
        found = sign_flip([1.0] * units)
        assert found.too_few
        assert found.p > 0.05
    assert not sign_flip([1.0] * MIN_UNITS).too_few
    assert sign_flip([1.0] * MIN_UNITS).p < 0.05


# False alarms, and what is found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_false_alarms_at_05_are_between_2_and_8_percent_for_every_number_of_differences(block: int) -> None:
    for differing in range(8 + block, 201, 4):
        alarms = sum(
            math.comb(differing, first)
            for first in range(differing + 1)
            if mcnemar(first, differing - first) <= 0.05
        )
        assert 0.02 <= alarms / 2**differing <= 0.08, differing


def test_a_document_effect_fools_the_test_by_question_and_not_that_by_document() -> None:
    source = np.random.default_rng(2)
    documents = [document for document in range(20) for _ in range(8)]
    alarms = {"question": 0, "document": 0}
    for _ in range(120):
        differences = (np.repeat(source.normal(0, 0.25, 20), 8) + source.normal(0, 0.4, 160)).tolist()
        alarms["question"] += sign_flip(differences, draws=299).p <= 0.05
        alarms["document"] += sign_flip(differences, documents, draws=299).p <= 0.05
    assert alarms["question"] > 0.15 * 120
    assert alarms["document"] <= 0.09 * 120


# Several at once


def test_holm_by_hand() -> None:
    # Sorted .01 .02 .03 .04: .04, .06, .06, .06 (4 · .01, 3 · .02, 2 · .03, then never less).
    found = holm({"d": 0.04, "a": 0.01, "c": 0.03, "b": 0.02})
    assert found == {
        "d": pytest.approx(0.06),
        "a": pytest.approx(0.04),
        "c": pytest.approx(0.06),
        "b": pytest.approx(0.06),
    }
    assert list(found) == ["d", "a", "c", "b"]
    assert holm({}) == {}
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_corrects_upwards_keeps_the_order_and_leaves_one_alone(values: dict[str, float]) -> None:
    found = holm(values)
    assert list(found) == list(values)
    assert all(values[name] <= found[name] <= 1 for name in values)
    ranked = sorted(values, key=lambda name: values[name])
    assert [found[name] for name in ranked] == sorted(found.values())
    if len(values) == 1:
        assert found == values


# What could have been found


def test_the_detectable_difference_by_hand() -> None:
    # Mean 0.25; deviations .75, -.25, -.25, -.25: √(4/3 · 0.75) / 4 = 0.25, times 1.959964 + 0.841621.
    assert detectable([1.0, 0.0, 0.0, 0.0], "abcd") == pytest.approx(0.25 * 2.801585, abs=1e-6)
    # Two documents with sums 1 and 0: √(2 · (0.5² + 0.5²)) / 4, the same here.
    assert detectable([1.0, 0.0, 0.0, 0.0], "aabb") == pytest.approx(0.25 * 2.801585, abs=1e-6)


def test_the_detectable_difference_is_found_in_four_of_five_cases() -> None:
    source, found = np.random.default_rng(1), 0
    reach = detectable([1.0, -1.0] * 30, range(60))  # with a deviation of 1
    assert reach is not None
    for _ in range(200):
        found += sign_flip(source.normal(reach, 1, 60).tolist(), draws=299).p <= 0.05
    assert 0.72 <= found / 200 <= 0.88


def test_without_noise_nothing_is_said_of_what_could_be_found() -> None:
    assert detectable([0.0, 0.0], "ab") is None
    assert detectable([0.1] * 7, range(7)) is None
    assert detectable([1.0, 0.0], "aa") is None
    assert detectable([], []) is None


@pytest.mark.parametrize("call", [sign_flip, detectable])
def test_differences_that_cannot_be_are_refused(call: object) -> None:
    assert call in {sign_flip, detectable}
    for differences, units in (([1.0, math.nan], "ab"), ([1.0, math.inf], "ab"), ([1.0], "ab")):
        with pytest.raises(ValueError, match="difference"):
            (sign_flip if call is sign_flip else detectable)(differences, units)


def test_significance_tells_all_of_itself_as_json() -> None:
    assert sign_flip([1.0, 1.0]).as_dict() == {"p": 0.25, "units": 2, "exact": True, "too_few": True}
