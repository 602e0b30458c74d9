"""Masks and advantages of segments: by hand, and against a plain loop."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.errors import SettingsError
from vrag.rl.advantages import (
    GgpoOptions,
    Segment,
    TrajectoryCredit,
    batch_credit,
    group_advantages,
    leading,
    maskable,
    masks,
    permuted_masks,
    segment_advantages,
)

Batch: TypeAlias = list[tuple[float, TrajectoryCredit, bool | None]]
NODES = ("a", "b", "c", "d")
SEGMENTS = st.builds(
    Segment,
    node=st.none() | st.sampled_from(NODES),
    answers=st.booleans(),
    found=st.booleans(),
    invalid=st.booleans(),
)
CREDITS = st.builds(
    TrajectoryCredit,
    st.lists(SEGMENTS, max_size=5).map(tuple),
    st.frozensets(st.sampled_from(NODES)),
)
OPTIONS = st.builds(
    GgpoOptions,
    penalty=st.sampled_from([0.0, 0.5, 2.0]),
    dead_ends=st.booleans(),
    evidence=st.booleans(),
)
BATCHES = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5]), CREDITS, st.sampled_from([True, False, None])), max_size=5
)

# root ─ a ─ c ─ answer; b is a dead end; the evidence was found by b and c
PARENTS = {"root": [], "a": ["root"], "b": ["root"], "c": ["a"], "answer": ["c"]}
CREDIT = TrajectoryCredit(
    (
        Segment(node="a"),
        Segment(node="b", found=True),
        Segment(node="c", found=True),
        Segment(answers=True),
    ),
    leading(PARENTS, "answer"),
)


def mu(credit: TrajectoryCredit, **how: object) -> list[bool]:
    right = how.pop("correct")
    assert right is None or isinstance(right, bool)
    return masks(credit, correct=right, options=GgpoOptions(**how)).tolist()  # pyright: ignore[reportArgumentType]


def columns(batch: Batch) -> tuple[list[float], list[TrajectoryCredit], list[bool | None]]:
    return [one for one, _, _ in batch], [one for _, one, _ in batch], [one for _, _, one in batch]


class TestLeading:
    def test_goes_backwards_from_the_answer(self) -> None:
        assert leading(PARENTS, "answer") == {"answer", "c", "a", "root"}

    def test_a_node_reached_in_two_ways_is_one(self) -> None:
        diamond = {"a": ["root"], "b": ["a"], "c": ["a"], "answer": ["b", "c"]}
        assert leading(diamond, "answer") == {"root", "a", "b", "c", "answer"}

    def test_nothing_leads_nowhere(self) -> None:
        assert leading(PARENTS, None) == frozenset()


class TestMasksByHand:
    def test_dead_ends_of_a_correct_trajectory_are_masked(self) -> None:
        assert mu(CREDIT, correct=True) == [False, True, False, False]

    def test_evidence_found_in_a_wrong_one_is_masked(self) -> None:
        assert mu(CREDIT, correct=False) == [False, True, True, False]

    def test_without_a_verdict_nothing_is(self) -> None:
        assert mu(CREDIT, correct=None) == [False] * 4

    def test_each_rule_can_be_left_out(self) -> None:
        assert mu(CREDIT, correct=True, dead_ends=False) == [False] * 4
        assert mu(CREDIT, correct=True, evidence=False) == [False, True, False, False]
        assert mu(CREDIT, correct=False, evidence=False) == [False] * 4
        assert mu(CREDIT, correct=False, dead_ends=False) == [False, True, True, False]

    @pytest.mark.parametrize("correct", [True, False])
    def test_the_answer_segment_is_never_masked(self, correct: bool) -> None:
        straight = Segment(node="z", answers=True, found=True)  # answers from fresh results: a node as well
        assert mu(TrajectoryCredit((straight,)), correct=correct) == [False]
        assert mu(TrajectoryCredit((Segment(answers=True, found=True),)), correct=correct) == [False]

    @pytest.mark.parametrize("correct", [True, False])
    def test_an_invalid_one_never_is_even_if_it_made_a_node(self, correct: bool) -> None:
        wrong = (Segment(invalid=True, found=True), Segment(node="b", invalid=True, found=True))
        assert mu(TrajectoryCredit(wrong), correct=correct) == [False, False]

    @pytest.mark.parametrize("correct", [True, False])
    def test_nor_one_that_made_nothing(self, correct: bool) -> None:
        assert mu(TrajectoryCredit((Segment(found=True),)), correct=correct) == [False]

    def test_no_segments_no_masks(self) -> None:
        assert mu(TrajectoryCredit(()), correct=True) == []
        assert maskable(()).tolist() == []


class TestAdvantages:
    def test_by_hand(self) -> None:
        found = segment_advantages(-0.7, [False, True, False], [False, False, True])
        assert found.tolist() == pytest.approx([-0.7, 0.0, -1.2])

    def test_of_each_segment(self) -> None:
        assert segment_advantages([1.0, 2.0], [True, False], [False, False]).tolist() == [0.0, 2.0]

    def test_an_invalid_action_costs_where_the_group_says_nothing(self) -> None:
        assert segment_advantages(0.0, [False] * 2, [True, False]).tolist() == [-0.5, 0.0]

    def test_a_group_by_hand(self) -> None:
        """Two right, two wrong, one without a verdict: each trajectory counts once, however long it is."""
        outcome = group_advantages([1, 1, 0, 0, np.nan], ["q"] * 5)
        unit = 0.5 / (1 / 3) ** 0.5  # mean 0.5, unbiased deviation sqrt(4 · 0.25 / 3)
        clumsy = TrajectoryCredit((Segment(invalid=True), Segment(answers=True)))
        those = [CREDIT, clumsy, CREDIT, clumsy, clumsy]
        right = [True, True, False, False, None]
        found = batch_credit(outcome, those, right)
        expected = [
            [unit, 0, unit, unit],
            [unit - 0.5, unit],
            [-unit, 0, 0, -unit],
            [-unit - 0.5, -unit],
            [-0.5, 0],
        ]
        for one, by_hand in zip(found, expected, strict=True):
            assert one.advantages.tolist() == pytest.approx(by_hand, abs=1e-5)
        assert [int(one.masked.sum()) for one in found] == [1, 0, 2, 0, 0]

    def test_nothing_is_masked_where_another_part_of_the_reward_outweighs_the_bit(self) -> None:
        """Nobody is right, rewards are .4 and .1 by what was found: the search that found it is rewarded."""
        found = TrajectoryCredit((Segment(node="a", found=True), Segment(answers=True)))
        missed = TrajectoryCredit((Segment(node="a"), Segment(answers=True)))
        better, worse = batch_credit([0.7, -0.7], [found, missed], [False, False])
        assert better.advantages.tolist() == [0.7, 0.7]
        assert worse.advantages.tolist() == [-0.7, -0.7]
        dead = TrajectoryCredit(
            (Segment(node="a"), Segment(node="b"), Segment(answers=True)), frozenset({"b"})
        )
        (punished,) = batch_credit([-0.3], [dead], [True])
        assert not punished.masked.any()

    @given(batch=BATCHES, options=OPTIONS)
    def test_against_a_loop(self, batch: Batch, options: GgpoOptions) -> None:
        outcomes, those, right = (
            [one[0] for one in batch],
            [one[1] for one in batch],
            [one[2] for one in batch],
        )
        found = batch_credit(outcomes, those, right, options=options)
        for (outcome, credit, correct), one in zip(batch, found, strict=True):
            for at, segment in enumerate(credit.segments):
                advantage, hidden = outcome, False
                if segment.node is not None and not segment.answers and not segment.invalid:
                    if correct is True and options.dead_ends and segment.node not in credit.leads:
                        hidden = outcome >= 0
                    if correct is False and options.evidence and segment.found:
                        hidden = outcome <= 0
                if hidden:
                    advantage = 0.0
                if segment.invalid:
                    advantage -= options.penalty
                assert one.masked[at] == hidden
                assert one.advantages[at] == advantage
                assert not (hidden and (segment.answers or segment.invalid))


class TestThePage:
    """docs/credit.md."""

    PAGE = Path(__file__).parents[2] / "docs" / "credit.md"

    def test_its_python_gives_what_it_says(self) -> None:
        assert doctest.testfile(str(self.PAGE), module_relative=False) == (0, 6)

    def test_the_wrong_run_of_its_example(self) -> None:
        wrong = TrajectoryCredit(
            (
                Segment(node="boats"),
                Segment(node="prices", found=True),
                Segment(node="fares", invalid=True),
                Segment(answers=True),
            ),
            frozenset({"root", "boats", "answer"}),
        )
        outcome = group_advantages([1, 0, np.nan, 0], ["q"] * 4)
        (found,) = batch_credit(outcome[1:2], [wrong], [False])
        assert found.advantages.round(2).tolist() == [-0.58, 0.0, -1.08, -0.58]
        assert found.masked.tolist() == [False, True, False, False]


class TestPermuted:
    def test_keeps_the_number_in_each_layer_and_touches_nothing_else(self) -> None:
        given_, free = [True, True, False, False, False, True, False], [True] * 4 + [False] + [True] * 2
        strata = [1, 1, 1, 1, 1, 0, 0]
        seen: set[tuple[bool, ...]] = set()
        for seed in range(200):
            dealt = permuted_masks(given_, free, np.random.default_rng(seed), strata)
            assert (dealt[:4].sum(), dealt[4], dealt[5:].sum()) == (2, False, 1)
            seen.add(tuple(dealt.tolist()))
        assert len(seen) == 6 * 2  # all ways to choose 2 of 4 and 1 of 2

    def test_the_same_generator_deals_the_same(self) -> None:
        dealt = [
            permuted_masks([True] * 9 + [False] * 9, [True] * 18, np.random.default_rng(5)) for _ in "ab"
        ]
        assert dealt[0].tolist() == dealt[1].tolist()
        assert dealt[0].tolist() != [True] * 9 + [False] * 9

    def test_a_mask_where_none_may_be_is_refused(self) -> None:
        with pytest.raises(ValueError, match="cannot be"):
            permuted_masks([True], [False], np.random.default_rng())

    @given(batch=BATCHES, seed=st.integers(0, 9))
    def test_a_batch_keeps_its_numbers_and_its_penalties(self, batch: Batch, seed: int) -> None:
        outcomes, those, right = (
            [one[0] for one in batch],
            [one[1] for one in batch],
            [one[2] for one in batch],
        )
        both = [
            batch_credit(
                outcomes,
                those,
                right,
                options=GgpoOptions(permute=permute),
                random=np.random.default_rng(seed),
            )
            for permute in (False, True)
        ]
        for correct in (True, False, None):
            plain, dealt = (
                sum(int(one.masked.sum()) for one, bit in zip(found, right, strict=True) if bit is correct)
                for found in both
            )
            assert plain == dealt
        for one, credit in zip(both[1], those, strict=True):
            assert not (one.masked & ~maskable(credit.segments)).any()
            assert len(one.masked) == len(one.advantages) == len(credit.segments)

    def test_something_must_deal(self) -> None:
        with pytest.raises(ValueError, match="random generator"):
            batch_credit([1.0], [CREDIT], [True], options=GgpoOptions(permute=True))


@pytest.mark.parametrize("penalty", [-0.1, float("nan"), float("inf")])
def test_a_penalty_is_a_number(penalty: float) -> None:
    with pytest.raises(SettingsError, match="penalty"):
        GgpoOptions(penalty=penalty)
