"""Parts, weights and the gate; what is missing is never 0."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reward_runs import ANSWER, SEARCH, ToldJudge, case, image, run_of, vrag_run

from vrag.agent.actions import Flag
from vrag.agent.events import StopReason
from vrag.errors import JudgeError, ModelError, SettingsError
from vrag.reward import CompositeReward, OutcomeReward, Reward, Verdict, Weights, score_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.agent.runs.run_result import RunResult
    from vrag.reward import Scorer
    from vrag.types import Case

WRONG = Verdict(correct=False)
BLAMELESS = [StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT, None]
USED_UP = [StopReason.OUT_OF_STEPS, StopReason.OUT_OF_TOKENS, StopReason.OUT_OF_BUDGET]


@dataclass
class Says:
    """A part of others that says a value, or raises it."""

    value: float | Exception | None

    async def score(self, case: Case, run: RunResult, verdict: Verdict | None) -> float | None:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def scored(scorer: Scorer, run: RunResult, *pages: int, answer: str = "48,200") -> Reward:
    return asyncio.run(scorer.score(case(*pages, answer=answer), run))


class TestComposite:
    @pytest.mark.parametrize(
        ("shown", "correct", "flags", "expected"),
        [
            # 0.2 · 1 + 0.7 · 1 + 0.1 · 1
            ((2,), True, (), 1.0),
            # r_Ret = (1/log2 3) / 1 = 0.63093: 0.2 · 0.63093 + 0.7 + 0.1
            ((1, 2), True, (), 0.926186),
            ((2,), False, (), 0.3),
            ((1,), False, (), 0.1),
            ((2,), True, ("trailing_text",), 0.9),
            ((1,), False, ("no_thought",), 0.0),
        ],
    )
    def test_by_hand(
        self, shown: tuple[int, ...], correct: bool, flags: tuple[str, ...], expected: float
    ) -> None:
        judge = ToldJudge(Verdict(correct))
        reward = scored(CompositeReward(judge), run_of(*map(image, shown), flags=flags), 2)
        assert reward.total == pytest.approx(expected, abs=1e-6)
        assert reward.correct is correct
        assert list(reward.parts) == ["retrieval", "answer", "pattern"]

    def test_of_a_real_run(self) -> None:
        judge = ToldJudge()
        reward = scored(CompositeReward(judge), vrag_run(SEARCH, ANSWER), 2, 3)
        # r_Ret = 1 / (1 + 1/log2 3) = 0.613147
        assert reward.total == pytest.approx(0.2 * 0.613147 + 0.8, abs=1e-6)
        assert judge.asked == [("How many passengers?", "48,200", "48,200")]

    @pytest.mark.parametrize("stop", USED_UP)
    def test_a_run_that_used_up_what_it_had_earns_0_and_nobody_is_asked(self, stop: StopReason) -> None:
        judge = ToldJudge()
        reward = scored(CompositeReward(judge), run_of(image(2), answer=None, stop=stop), 2)
        assert (reward.total, reward.correct) == (0, False)
        assert reward.parts == {"retrieval": 1.0, "answer": 0.0, "pattern": 0.0}
        assert stop in reward.why
        assert not judge.asked

    def test_an_answer_without_a_search_earns_0_and_nobody_is_asked(self) -> None:
        judge = ToldJudge()
        reward = scored(CompositeReward(judge), vrag_run(ANSWER), 2)
        assert (reward.total, reward.correct, reward.missing) == (0, False, False)
        assert reward.why == "The run searched nothing."
        assert not judge.asked

    def test_the_example_in_an_error_message_earns_nothing(self) -> None:
        reward = scored(CompositeReward(ToldJudge()), vrag_run(*["Beijing"] * 10), 2, answer="Beijing")
        assert reward.total == 0

    def test_without_the_gate_every_part_counts_for_itself(self) -> None:
        judge = ToldJudge()
        unsearched = run_of(image(2), query=None)
        assert scored(CompositeReward(judge, gate=False), unsearched, 2).total == pytest.approx(0.9)
        unanswered = run_of(image(2), answer=None, stop=StopReason.OUT_OF_STEPS)
        reward = scored(CompositeReward(judge, gate=False), unanswered, 2)
        assert (reward.total, reward.correct) == (pytest.approx(0.2), False)
        assert len(judge.asked) == 1

    @pytest.mark.parametrize("stop", BLAMELESS)
    def test_a_run_that_failed_by_no_fault_of_the_model_has_no_reward(self, stop: StopReason | None) -> None:
        for scorer in (CompositeReward(ToldJudge()), OutcomeReward(ToldJudge())):
            reward = scored(scorer, run_of(image(2), answer=None, stop=stop, failure="No route."), 2)
            assert (reward.total, reward.correct) == (None, None)
            assert reward.parts == {"retrieval": None, "answer": None, "pattern": None}
            assert "No route." in reward.why

    def test_a_real_failure_of_the_model_is_missing(self) -> None:
        reward = scored(CompositeReward(ToldJudge()), vrag_run(SEARCH, ModelError("It is away.")), 2)
        assert reward.missing
        assert reward.why == "The run ended without an answer (model_error): It is away."

    def test_no_verdict_is_a_missing_reward_and_the_other_parts_are_kept(self) -> None:
        judge = ToldJudge(JudgeError("No verdict.", "Wait."))
        reward = scored(CompositeReward(judge), run_of(image(2)), 2)
        assert reward == Reward(
            total=None,
            parts={"retrieval": 1.0, "answer": None, "pattern": 1.0},
            correct=None,
            why="No verdict. Wait.",
        )

    def test_what_is_missing_without_weight_costs_nothing(self) -> None:
        weights = Weights(retrieval=0.5, answer=0.0, pattern=0.5)
        judge = ToldJudge(JudgeError("No verdict."))
        reward = scored(CompositeReward(judge, weights), run_of(image(2)), 2)
        assert (reward.total, reward.parts["answer"]) == (1, None)

    def test_a_case_without_a_reference_has_no_verdict(self) -> None:
        judge = ToldJudge()
        reward = scored(CompositeReward(judge), run_of(image(2)), 2, answer=" ")
        assert reward.missing
        assert "no reference" in reward.why
        assert not judge.asked

    def test_an_abstention_is_judged_as_an_answer(self) -> None:
        judge = ToldJudge()
        scored(CompositeReward(judge), run_of(answer=None, stop=StopReason.ABSTAINED), 2)
        assert judge.asked[0][2] == "Not answerable"

    def test_scores_count_where_that_is_asked_for(self) -> None:
        judge = ToldJudge(Verdict(correct=True, score=0.5))
        assert scored(CompositeReward(judge), run_of(image(2)), 2).total == pytest.approx(1)
        graded = scored(CompositeReward(judge, graded=True), run_of(image(2)), 2)
        assert (graded.total, graded.correct) == (pytest.approx(0.65), True)

    def test_flags_may_be_tolerated(self) -> None:
        run = run_of(image(2), flags=("no_thought",))
        tolerant = CompositeReward(ToldJudge(), tolerated=frozenset({Flag.NO_THOUGHT}))
        assert scored(tolerant, run, 2).total == pytest.approx(1)

    @given(
        st.lists(st.integers(1, 5)),
        st.frozensets(st.integers(1, 5), max_size=4),
        st.booleans(),
        st.booleans(),
        st.sampled_from([*USED_UP, StopReason.ANSWERED, StopReason.ABSTAINED]),
        st.sampled_from([None, "ferry"]),
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)),
    )
    def test_rewards_lie_between_0_and_1(
        self,
        shown: list[int],
        gold: frozenset[int],
        correct: bool,
        gate: bool,
        stop: StopReason,
        query: str | None,
        parts: tuple[int, int, int],
    ) -> None:
        weights = Weights(**dict(zip(("retrieval", "answer", "pattern"), _shares(parts), strict=True)))
        answer = "x" if stop is StopReason.ANSWERED else None
        run = run_of(*map(image, shown), answer=answer, stop=stop, query=query)
        reward = scored(CompositeReward(ToldJudge(Verdict(correct)), weights, gate=gate), run, *gold)
        assert reward.total is not None
        assert 0 <= reward.total <= 1
        assert all(part is not None and 0 <= part <= 1 for part in reward.parts.values())


def _shares(parts: tuple[int, ...]) -> list[float]:
    return [part / sum(parts) for part in parts]


class TestOutcome:
    @pytest.mark.parametrize("correct", [True, False])
    def test_is_the_bit_of_the_judge(self, correct: bool) -> None:
        reward = scored(OutcomeReward(ToldJudge(Verdict(correct, 0.4))), run_of(image(1), query=None), 2)
        assert (reward.total, reward.correct) == (float(correct), correct)
        assert reward.parts == {"retrieval": 0.0, "answer": float(correct), "pattern": 0.0}

    def test_no_answer_is_wrong_and_nobody_is_asked(self) -> None:
        judge = ToldJudge()
        run = run_of(image(2), answer=None, stop=StopReason.OUT_OF_STEPS)
        reward = scored(OutcomeReward(judge), run, 2)
        assert (reward.total, reward.correct) == (0, False)
        assert not judge.asked

    def test_no_verdict_is_missing(self) -> None:
        assert scored(OutcomeReward(ToldJudge(JudgeError("None."))), run_of(image(2)), 2).missing

    def test_a_study_may_add_a_term_of_retrieval(self) -> None:
        weights = Weights(retrieval=0.3, answer=0.7, pattern=0.0)
        assert scored(OutcomeReward(ToldJudge(WRONG), weights), run_of(image(2)), 2).total == 0.3


class TestWeights:
    @pytest.mark.parametrize(
        "values",
        [
            {"retrieval": 0.3},
            {"retrieval": -0.1, "answer": 1.0},
            {"retrieval": float("nan")},
            {"extras": {"brevity": 0.1}},
            {"retrieval": 0.1, "extras": {"answer": 0.1}},
        ],
    )
    def test_that_cannot_be_are_refused(self, values: dict[str, float]) -> None:
        with pytest.raises(SettingsError):
            Weights(**values)  # pyright: ignore[reportArgumentType] - one of them is a mapping

    def test_without_pattern_are_those_after_supervised_training(self) -> None:
        assert Weights(retrieval=0.2, answer=0.8, pattern=0.0).by_part["answer"] == 0.8


class TestPartsOfOthers:
    WEIGHTS = Weights(retrieval=0.2, answer=0.6, pattern=0.1, extras={"brevity": 0.1})

    def score(self, value: float | Exception | None, weights: Weights = WEIGHTS) -> Reward:
        scorer = CompositeReward(ToldJudge(), weights, extras={"brevity": Says(value)})
        return scored(scorer, run_of(image(2)), 2)

    def test_count_by_their_weight(self) -> None:
        reward = self.score(0.5)
        assert (reward.total, reward.parts["brevity"]) == (pytest.approx(0.95), 0.5)

    def test_without_weight_are_measured(self) -> None:
        reward = self.score(0.5, Weights())
        assert (reward.total, reward.parts["brevity"]) == (pytest.approx(1), 0.5)

    @pytest.mark.parametrize("value", [None, 1.5, -0.1, float("nan"), ValueError("broken"), "much"])
    def test_that_fail_are_missing(self, value: float | Exception | None) -> None:
        reward = self.score(value)
        assert (reward.total, reward.correct, reward.parts["brevity"]) == (None, True, None)
        assert reward.parts["retrieval"] == 1
        assert "brevity" in reward.why

    def test_with_a_weight_must_be_there(self) -> None:
        with pytest.raises(SettingsError, match="brevity"):
            CompositeReward(ToldJudge(), self.WEIGHTS)

    def test_cannot_take_the_place_of_ours(self) -> None:
        with pytest.raises(SettingsError, match="answer"):
            CompositeReward(ToldJudge(), extras={"answer": Says(1.0)})


class TestMany:
    def test_are_scored_in_their_order_and_no_more_than_so_many_at_once(self) -> None:
        now, most, read = 0, 0, 0

        @dataclass
        class Slow:
            async def score(self, case: Case, run: RunResult) -> Reward:
                nonlocal now, most
                now += 1
                most = max(most, now)
                assert read - now <= 20
                await asyncio.sleep(0.001 * (int(run.run_id) % 3))
                now -= 1
                return Reward(total=float(run.run_id))

        def runs() -> Iterator[tuple[Case, RunResult]]:
            nonlocal read
            for number in range(20):
                read += 1
                yield case(2), run_of_number(number)

        rewards = asyncio.run(score_all(Slow(), runs(), concurrency=4))
        assert [reward.total for reward in rewards] == list(range(20))
        assert most == 4

    def test_nothing_at_a_time_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least 1, not 0"):
            asyncio.run(score_all(CompositeReward(ToldJudge()), [], concurrency=0))


def run_of_number(number: int) -> RunResult:
    from dataclasses import replace

    return replace(run_of(), run_id=str(number))


def test_a_reward_is_json() -> None:
    import json

    judge = ToldJudge(Verdict(correct=True, why="told"))
    reward = scored(CompositeReward(judge), run_of(image(2)), 2)
    assert json.loads(json.dumps(reward.as_dict())) == {
        "total": pytest.approx(1),
        "parts": {"retrieval": 1, "answer": 1, "pattern": 1},
        "correct": True,
        "why": "",
        "said": "told",
    }


@dataclass(frozen=True)
class OneAnswer:
    """Takes one reference for right, and keeps which it was asked about."""

    right: str
    asked: list[str] = field(default_factory=list[str])
    identity: str = "one"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        self.asked.append(reference)
        return Verdict(correct=reference == self.right, why=reference)

    async def aclose(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize(
    ("right", "asked", "said"),
    [("a", ["a"], "a"), ("c", ["a", "b", "c"], "c"), ("x", ["a", "b", "c"], "a")],
)
def test_any_right_answer_counts_and_no_more_is_asked_than_it_takes(
    right: str, asked: list[str], said: str
) -> None:
    judge = OneAnswer(right)
    of = replace(case(2), reference_answer="a", alternatives=("b", "c", "b"))
    reward = asyncio.run(CompositeReward(judge).score(of, vrag_run(SEARCH, ANSWER)))
    assert (judge.asked, reward.said, reward.correct) == (asked, said, right != "x")


class TestCosts:
    WEIGHTS = Weights(turn_cost=0.05, repeat_cost=0.1)

    def test_turns_beyond_two_and_repeated_searches_cost_what_is_set(self) -> None:
        free = scored(CompositeReward(ToldJudge()), vrag_run(SEARCH, ANSWER), 2)
        shortest = scored(CompositeReward(ToldJudge(), self.WEIGHTS), vrag_run(SEARCH, ANSWER), 2)
        assert (shortest.total, shortest.parts) == (free.total, {**free.parts, "cost": 0})
        again = SEARCH.replace("ferry passengers 2024", "2024 Passengers, ferry")
        longer = vrag_run(SEARCH, again, ANSWER)
        reward = scored(CompositeReward(ToldJudge(), self.WEIGHTS), longer, 2)
        assert reward.parts["cost"] == pytest.approx(0.05 + 0.1)
        unpriced = scored(CompositeReward(ToldJudge()), longer, 2)
        assert unpriced.total is not None
        assert reward.total == pytest.approx(unpriced.total - 0.15)
        assert "cost" not in unpriced.parts

    def test_a_run_without_a_reward_has_the_same_parts(self) -> None:
        failed = run_of(image(2), answer=None, stop=StopReason.FAULT)
        reward = scored(CompositeReward(ToldJudge(), self.WEIGHTS), failed, 2)
        assert reward.parts == {"retrieval": None, "answer": None, "pattern": None, "cost": None}

    def test_another_query_is_no_repetition(self) -> None:
        other = SEARCH.replace("2024", "2023")
        reward = scored(CompositeReward(ToldJudge(), self.WEIGHTS), vrag_run(SEARCH, other, ANSWER), 2)
        assert reward.parts["cost"] == pytest.approx(0.05)

    def test_the_total_is_never_below_0(self) -> None:
        dear = Weights(turn_cost=1.0)
        reward = scored(CompositeReward(ToldJudge(WRONG), dear), vrag_run(SEARCH, SEARCH, ANSWER), 2)
        assert (reward.total, reward.parts["cost"]) == (0, 1)

    def test_an_outcome_can_have_costs_and_keeps_its_bit(self) -> None:
        weights = Weights(retrieval=0, answer=1, pattern=0, turn_cost=0.1)
        reward = scored(OutcomeReward(ToldJudge(), weights), vrag_run(SEARCH, SEARCH, ANSWER), 2)
        assert (reward.total, reward.correct) == (pytest.approx(0.9), True)

    def test_a_cost_is_no_part(self) -> None:
        with pytest.raises(SettingsError, match="cannot be called 'turn_cost'"):
            Weights(extras={"turn_cost": 0.0})
        with pytest.raises(SettingsError, match="0 or more"):
            Weights(turn_cost=-0.1)
