"""r_Pat: what was carried out counts, for both agents."""

from __future__ import annotations

import pytest
from reward_runs import ANSWER, SEARCH, call, run_of, vimrag_run, vrag_run

from vrag.agent.actions import Flag
from vrag.agent.events import StopReason
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.reward.parts import answer_of, pattern_reward, searched

FOUND = call("add_search_node", id="a", parent_ids=["root"], query="passengers 2024")
ENDS = call("add_answer_node", parent_ids=["a"], answer="48,200")


class TestOfVrag:
    def test_a_search_and_an_answer_earn_it(self) -> None:
        assert pattern_reward(vrag_run(SEARCH, ANSWER)) == 1

    @pytest.mark.parametrize(
        "replies",
        [
            (ANSWER,),
            (SEARCH, "I give up.", ANSWER),
            (SEARCH, SEARCH + " and more", ANSWER),
            (SEARCH, ANSWER + "<answer>or 3,100</answer>"),
            (SEARCH, "<answer>48,200</answer>"),
            ("<think>.</think><bbox>[1, 2, 3, 4]</bbox>", SEARCH, ANSWER),
            (SEARCH, "<think>never closed", ANSWER),
        ],
        ids=["no search", "no action", "trailing", "two answers", "no thought", "early box", "open thought"],
    )
    def test_what_departs_from_the_grammar_does_not(self, replies: tuple[str, ...]) -> None:
        run = vrag_run(*replies)
        assert run.answer == "48,200"
        assert pattern_reward(run) == 0

    def test_flags_may_be_tolerated(self) -> None:
        run = vrag_run("<search>ferry</search>", "<answer>48,200</answer>")
        assert pattern_reward(run) == 0
        assert pattern_reward(run, tolerated={Flag.NO_THOUGHT}) == 1
        assert pattern_reward(run, tolerated={Flag.TRAILING_TEXT}) == 0

    def test_a_repaired_reply_costs_it_unless_it_is_tolerated(self) -> None:
        damaged = '<think>.</think><tool_call>{"name": "search", "arguments": {"query": "ferry"}}</tool_call>'
        run = vrag_run(damaged, ANSWER)
        assert searched(run)
        assert pattern_reward(run) == 0
        assert pattern_reward(run, tolerated={Flag.REPAIRED}) == 1

    def test_the_example_in_an_error_message_earns_nothing(self) -> None:
        """The reference finds its own words there, and takes "Beijing" for the answer."""
        run = vrag_run(*["<think>What is the capital?</think>"] * 10)
        assert run.stop_reason is StopReason.OUT_OF_STEPS
        assert all(step.invalid for step in run.steps)
        assert (searched(run), answer_of(run), pattern_reward(run)) == (False, None, 0)

    def test_tags_inside_a_thought_are_no_actions(self) -> None:
        run = vrag_run("<think>First <search>ferry</search>?</think><answer>48,200</answer>")
        assert not searched(run)


class TestOfVimrag:
    def test_a_search_and_an_answer_earn_it(self) -> None:
        assert pattern_reward(vimrag_run(FOUND, ENDS)) == 1

    @pytest.mark.parametrize(
        "replies",
        [
            (call("add_answer_node", parent_ids=["root"], answer="48,200"),),
            (FOUND, "no call", ENDS),
            (FOUND, FOUND, ENDS),
            (FOUND, ENDS + ENDS),
        ],
        ids=["no search", "no action", "twice", "two answers"],
    )
    def test_what_departs_from_the_grammar_does_not(self, replies: tuple[str, ...]) -> None:
        run = vimrag_run(*replies)
        assert run.answer == "48,200"
        assert pattern_reward(run) == 0

    def test_a_search_that_the_graph_refuses_is_none(self) -> None:
        lost = call("add_search_node", id="a", parent_ids=["root"])
        run = vimrag_run(lost, call("add_answer_node", parent_ids=["root"], answer="48,200"))
        assert not searched(run)


def test_a_search_that_finds_nothing_is_one() -> None:
    run = vrag_run("<think>.</think><search>zeppelin</search>", ANSWER)
    assert not run.steps[0].hits
    assert searched(run)


def test_an_action_of_others_is_no_search() -> None:
    steps = (RunStep(number=1, query="2", action="next_page"), RunStep(number=2))
    run = RunResult(run_id="r", steps=steps, answer="48,200", stop_reason=StopReason.ANSWERED)
    assert not searched(run)


def test_an_abstention_is_an_answer() -> None:
    run = vrag_run(SEARCH, "<think>.</think><answer>not answerable.</answer>")
    assert run.answer is None
    assert answer_of(run) == "Not answerable"
    assert pattern_reward(run) == 1


def test_no_answer_is_none() -> None:
    assert pattern_reward(run_of(answer=None, stop=StopReason.OUT_OF_STEPS)) == 0
