"""Advantages within a group: by hand, and against a plain loop."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.rl.advantages import group_advantages

NAN = math.nan
REWARDS = st.one_of(
    st.just(NAN), st.sampled_from([0.0, 0.2, 1.0]), st.floats(-2, 2).map(lambda x: round(x, 4))
)
BATCHES = st.lists(st.tuples(REWARDS, st.sampled_from("abc")), max_size=24)


def told(rewards: list[float], groups: list[int] | None = None, *, scale: bool = True) -> list[float]:
    return group_advantages(rewards, groups or [0] * len(rewards), scale=scale).tolist()


def plainly(batch: list[tuple[float, str]], *, scale: bool) -> list[float]:
    """The same once more, one rollout at a time."""
    found: list[float] = []
    for reward, group in batch:
        own = [other for other, name in batch if name == group and not math.isnan(other)]
        if math.isnan(reward) or len(own) < 2 or max(own) - min(own) < 1e-6:
            found.append(0.0)
            continue
        centred = reward - statistics.fmean(own)
        found.append(centred / (statistics.stdev(own) + 1e-6) if scale else centred)
    return found


class TestByHand:
    def test_one_right_of_four(self) -> None:
        # mean 0.25, unbiased deviation sqrt((0.75² + 3 · 0.25²) / 3) = 0.5
        assert told([1, 0, 0, 0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)

    def test_two_groups_do_not_see_each_other(self) -> None:
        # 0.2 0.6 1.0: mean 0.6, deviation 0.4; 5 and 7: mean 6, deviation sqrt(2)
        found = told([0.2, 5, 0.6, 7, 1.0], [3, 1, 3, 1, 3])
        assert found == pytest.approx([-1, -(0.5**0.5), 0, 0.5**0.5, 1], abs=1e-5)

    def test_all_equal_says_nothing(self) -> None:
        assert told([0.7] * 5) == [0.0] * 5
        assert told([0.7, 0.7 + 9e-7]) == [0.0, 0.0]
        assert told([0.7, 0.7 + 2e-6]) != [0.0, 0.0]

    def test_a_group_of_one_says_nothing(self) -> None:
        assert told([1.0]) == [0.0]
        assert told([1.0, 0.0, 1.0], [0, 1, 2]) == [0.0] * 3

    def test_a_missing_reward_leaves_its_group(self) -> None:
        # without it: mean 0.5, deviation sqrt(0.5)
        assert told([1, NAN, 0]) == pytest.approx([0.5**0.5, 0, -(0.5**0.5)], abs=1e-5)
        assert told([1, NAN]) == [0.0, 0.0]
        assert told([NAN, NAN]) == [0.0, 0.0]

    def test_a_missing_reward_is_not_a_zero(self) -> None:
        assert told([1, 1, NAN]) == [0.0] * 3
        assert told([1, 1, 0]) != [0.0] * 3

    def test_without_scale_it_is_the_difference_from_the_mean(self) -> None:
        assert told([1, 0, 0, 0], scale=False) == [0.75, -0.25, -0.25, -0.25]

    def test_nothing(self) -> None:
        assert told([]) == []


class TestAgainstALoop:
    @given(batch=BATCHES, scale=st.booleans())
    def test_gives_the_same(self, batch: list[tuple[float, str]], scale: bool) -> None:
        found = group_advantages(
            [r for r, _ in batch], np.array([g for _, g in batch], dtype="U1"), scale=scale
        )
        np.testing.assert_allclose(found, plainly(batch, scale=scale), rtol=1e-5, atol=1e-7)

    @given(batch=BATCHES)
    def test_every_group_sums_to_nothing_and_order_does_not_matter(
        self, batch: list[tuple[float, str]]
    ) -> None:
        rewards, groups = [r for r, _ in batch], np.array([g for _, g in batch], dtype="U1")
        found = group_advantages(rewards, groups)
        assert all(abs(found[groups == name].sum()) < 1e-6 for name in "abc")
        turned = group_advantages(rewards[::-1], groups[::-1])
        np.testing.assert_allclose(turned[::-1], found, rtol=1e-6, atol=1e-9)


class TestRefused:
    @pytest.mark.parametrize(
        ("rewards", "groups"), [([1.0, 2.0], [0]), ([[1.0], [2.0]], [[0], [0]]), ([1.0, math.inf], [0, 0])]
    )
    def test_what_is_no_batch(self, rewards: list[float], groups: list[int]) -> None:
        with pytest.raises(ValueError, match=r"not one for each|infinite"):
            group_advantages(rewards, groups)
