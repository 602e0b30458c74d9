"""What a run does about an answer that its evidence does not support: nothing, tell, repair, withdraw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agent_scripts import PROFILE, QUESTION, VRAG, Watching, answers, memorizes, note, searches

from vrag.agent.agent import Agent
from vrag.agent.answers.verification import VerifyMode, claims_in_doubt, describe_doubts
from vrag.agent.budget import Limits, StopReason
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerDoubted, AnswerGiven, Event
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunStore
from vrag.errors import ModelError
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.testing import tiny_corpus

WRONG = "The ferry carried 48,900 passengers in 2024."
RIGHT = "The ferry carried 48,200 passengers in 2024."
LOOK = VRAG.search("ferry passengers 2024")


def run_of(
    mode: VerifyMode, *replies: str | Exception, steps: int = 10
) -> tuple[RunResult, list[Event], Watching]:
    policy = Watching(replies)
    agent = Agent(policy, Environment(tiny_corpus(), PROFILE), VragMethod(verify=mode), Limits(steps=steps))
    events = list(agent.stream(QUESTION))
    assert isinstance(events[-1], AnswerGiven)
    return RunResult.of(events), events, policy


def verdicts(run: RunResult) -> dict[str, ClaimVerdict]:
    said = run.answer or run.withdrawn or ""
    return {said[claim.start : claim.end]: claim.verdict for claim in run.claims}


def test_claims_are_not_checked_when_it_is_off() -> None:
    run, *_ = run_of(VerifyMode.OFF, LOOK, VRAG.answer(WRONG))
    assert run.answer == WRONG
    assert run.claims == ()


def test_the_verdicts_are_told_with_the_answer() -> None:
    run, *_ = run_of(VerifyMode.TELL, LOOK, VRAG.answer(WRONG))
    assert run.answer == WRONG
    assert verdicts(run)["48,900"] is ClaimVerdict.DOUBTED
    (claim,) = (claim for claim in run.claims if claim.kind is ClaimKind.NUMBER)
    assert "48,200" in claim.found
    assert [run.evidence[number - 1].page for number in claim.numbers] == [2]


def test_a_right_answer_is_not_in_doubt() -> None:
    run, *_ = run_of(VerifyMode.TELL, LOOK, VRAG.answer(RIGHT))
    assert set(verdicts(run).values()) == {ClaimVerdict.STATED}
    assert claims_in_doubt(run.claims) == ()


def test_an_answer_in_doubt_is_withdrawn() -> None:
    run, *_ = run_of(VerifyMode.WITHDRAW, LOOK, VRAG.answer(WRONG))
    assert (run.answer, run.withdrawn) == (None, WRONG)
    assert run.stop_reason is StopReason.ABSTAINED
    assert verdicts(run)["48,900"] is ClaimVerdict.DOUBTED
    right, *_ = run_of(VerifyMode.WITHDRAW, LOOK, VRAG.answer(RIGHT))
    assert (right.answer, right.withdrawn) == (RIGHT, None)


class TestRepair:
    def test_the_model_is_told_once_and_its_new_answer_counts(self) -> None:
        run, events, policy = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), VRAG.answer(RIGHT))
        assert run.answer == RIGHT
        assert set(verdicts(run).values()) == {ClaimVerdict.STATED}
        (doubt,) = (event for event in events if isinstance(event, AnswerDoubted))
        assert doubt.text == WRONG
        assert '"48,900"' in policy.text(2)
        assert "48,200" in policy.text(2)

    def test_it_may_look_again_first(self) -> None:
        run, *_ = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), VRAG.search("cars"), VRAG.answer(RIGHT))
        assert run.answer == RIGHT
        assert len(run.steps) == 4

    def test_an_answer_that_is_repeated_stands(self) -> None:
        run, events, policy = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), VRAG.answer(WRONG))
        assert run.answer == WRONG
        assert run.stop_reason is StopReason.ANSWERED
        assert sum(isinstance(event, AnswerDoubted) for event in events) == 1
        assert len(policy.told) == 3

    @pytest.mark.parametrize("end", [ModelError("It is gone."), "<think>Hm.</think><search>ice</search>"])
    def test_the_first_answer_stands_where_no_other_comes(self, end: str | Exception) -> None:
        run, *_ = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), end, steps=3)
        assert run.answer == WRONG
        assert run.stop_reason is StopReason.ANSWERED
        assert verdicts(run)["48,900"] is ClaimVerdict.DOUBTED

    def test_the_model_may_abstain(self) -> None:
        run, *_ = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), VRAG.answer("Not answerable"))
        assert run.answer is None
        assert run.stop_reason is StopReason.ABSTAINED

    def test_there_is_none_where_no_step_is_left(self) -> None:
        run, _, policy = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(WRONG), steps=2)
        assert run.answer == WRONG
        assert len(policy.told) == 2

    def test_a_right_answer_is_not_asked_about(self) -> None:
        _, _, policy = run_of(VerifyMode.REPAIR, LOOK, VRAG.answer(RIGHT), VRAG.answer(WRONG))
        assert len(policy.told) == 2

    def test_the_answer_of_a_graph_is_taken_back(self) -> None:
        policy = Watching(
            (
                searches("report", "ferry passengers 2024"),
                memorizes(note("Picture 1"), note("Picture 2"), note("Text 1")),
                answers("report", text=WRONG),
                searches("again", "cars passengers", ["report"]),
                answers("again", text=RIGHT),
            )
        )
        agent = Agent(policy, Environment(tiny_corpus(), PROFILE), Vimrag(verify=VerifyMode.REPAIR))
        run = agent.run(QUESTION)
        assert run.answer == RIGHT
        assert run.graph is not None
        assert [node.query for node in run.graph.nodes if node.kind == "answer"] == [RIGHT]

    def test_a_replay_gives_the_same_events(self, tmp_path: Path) -> None:
        searcher = tiny_corpus()
        policy = Watching((LOOK, VRAG.answer(WRONG), VRAG.answer(RIGHT)))
        agent = Agent(policy, Environment(searcher, PROFILE), VragMethod(verify=VerifyMode.REPAIR))
        store = RunStore(tmp_path)
        with store.record() as log:
            list(agent.record(QUESTION, log))
        stored = store.read(log.id)
        assert differences(stored.events, list(replay(stored, searcher))) == []


def test_doubts_are_told_by_the_narrowest_claim() -> None:
    run, *_ = run_of(VerifyMode.TELL, LOOK, VRAG.answer(WRONG))
    lines = describe_doubts(WRONG, claims_in_doubt(run.claims)).splitlines()
    assert len(lines) == 1
    assert "48,900" in lines[0]
    long = replace(run, answer=WRONG)
    assert "does not say" in describe_doubts(
        WRONG,
        [
            claim.model_copy(update={"verdict": ClaimVerdict.UNVERIFIED})
            for claim in claims_in_doubt(long.claims)
        ],
    )
