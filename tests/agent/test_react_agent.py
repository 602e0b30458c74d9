"""ReAct: VRAG's loop without the crop; a box is refused, and what may be done is named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from agent_scripts import PROFILE, QUESTION, VRAG, Watching, environment, of
from chat_server import ChatServer, Say
from hypothesis import given
from hypothesis import strategies as st

from vrag.agent.actions import Answer, Crop, Invalid, Search, UseTool
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    ImageShown,
    InvalidAction,
    SearchReturned,
    StopReason,
    UsageReported,
)
from vrag.agent.methods.baselines import React
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policies.extractive import ExtractivePolicy
from vrag.agent.prompts import prompt
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.agent.tool_plugins import ToolResult
from vrag.chat import OpenAIChat
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.environment import Environment
    from vrag.agent.events import Event
    from vrag.agent.policy import Policy
    from vrag.agent.runs.run_store import StoredRun
    from vrag.agent.tool_plugins import ToolContext

SEARCH, AGAIN = VRAG.search("ferry passengers"), VRAG.search("return ticket")
ANSWER = VRAG.answer("48,200")
METHOD = React()
PIECES = st.text() | st.sampled_from(["<think>", "</think>", "<bbox>", "</bbox>", "[1, 2, 3, 4]", "</BBOX >"])
"""Of replies."""
BOX = "<think>Closer.</think><bbox>[0, 0, 400, 60]</bbox>"


def ran(
    *replies: str, where: Environment | None = None, steps: int = 10, method: React | VragMethod = METHOD
) -> tuple[list[Event], Watching]:
    policy = Watching(replies)
    agent = Agent(policy, where or environment(), method, Limits(steps=steps))
    return list(agent.stream(QUESTION)), policy


def end_of(events: list[Event]) -> AnswerGiven:
    last = events[-1]
    assert isinstance(last, AnswerGiven)
    return last


def told_apart(events: list[Event]) -> list[dict[str, object]]:
    """What was said in a run beside its settings and what hangs on instruction and clock."""
    left_out = {"run_id", "ts", "settings", "messages", "seconds", "model_seconds"}
    return [event.model_dump(exclude=left_out) for event in events]


class TestTheLoop:
    def test_without_boxes_is_that_of_vrag(self) -> None:
        script = (SEARCH, "no action", SEARCH, AGAIN, ANSWER)
        ours, theirs = (ran(*script, method=method)[0] for method in (React(), VragMethod()))
        assert told_apart(ours) == told_apart(theirs)

    def test_ends_as_that_of_vrag(self) -> None:
        for script in ((SEARCH,) * 3, ("<answer>Not answerable</answer>",), (SEARCH, SEARCH, "x")):
            ours, theirs = (end_of(ran(*script, method=one, steps=3)[0]) for one in (React(), VragMethod()))
            assert (ours.stop_reason, ours.text, ours.evidence) == (
                theirs.stop_reason, theirs.text, theirs.evidence,
            )  # fmt: skip

    def test_has_as_many_steps_as_vrag(self) -> None:
        assert React().steps == VragMethod().steps

    def test_says_nothing_of_boxes(self) -> None:
        _, policy = ran("nonsense", SEARCH, SEARCH, SEARCH, SEARCH, SEARCH, ANSWER)
        assert "bbox" not in policy.text(6)
        assert "closer" not in policy.text(6)
        assert prompt("react_nothing_new.md") in policy.text(6)

    def test_follows_the_users_own_instruction_and_not_that_of_a_checkpoint(self) -> None:
        profile = replace(PROFILE, name="own", instruction="Crop before you answer.")
        assert (
            ran(ANSWER, where=environment(profile=profile))[1]
            .text(0)
            .startswith(prompt("react.md", actions=""))
        )
        assert ran(ANSWER, method=React(instruction="Be brief."))[1].text(0).startswith("Be brief.")

    def test_asks_which_evidence_counts_where_that_is_set(self) -> None:
        events, _ = ran(SEARCH, AGAIN, ANSWER, "<evidence>2</evidence>", method=React(reselect=True))
        assert [one.page for one in end_of(events).evidence] == [3]


class TestABox:
    @pytest.mark.parametrize(
        "box", ["[0, 0, 400, 60]", "[1, 2, 3]", "nonsense", "", "[nan, 1, 2, 3]"], ids=repr
    )
    @pytest.mark.parametrize("before", [(), (SEARCH,)], ids=["first", "after a search"])
    def test_is_refused_and_what_may_be_done_is_named(self, box: str, before: tuple[str, ...]) -> None:
        events, policy = ran(*before, f"<think>Closer.</think><bbox>{box}</bbox>", SEARCH, ANSWER)
        (refused,) = of(InvalidAction, events)
        assert refused.reason == "There is no bbox here, only: search, answer."
        assert not of(CropRequested, events)
        assert not [image for image in of(ImageShown, events) if image.crop]
        told = policy.told[len(before) + 1][-1].text
        assert refused.reason in told
        assert "<search>" in told
        assert "<answer>" in told
        assert end_of(events).text == "48,200"

    def test_costs_a_step(self) -> None:
        events, _ = ran(SEARCH, BOX, BOX, steps=3)
        assert end_of(events).stop_reason is StopReason.OUT_OF_STEPS
        assert len(of(UsageReported, events)) == 3

    def test_within_a_thought_or_never_closed_is_none(self) -> None:
        episode = React().begin(environment(), QUESTION)
        reply = f"<think>{BOX.removeprefix('<think>Closer.</think>')}</think>{ANSWER}"
        assert episode.parse(reply).action == Answer("48,200")
        assert episode.parse(f"<bbox> {ANSWER}").action == Answer("48,200")

    @given(st.lists(PIECES).map("".join))
    def test_is_never_carried_out(self, reply: str) -> None:
        episode = React().begin(environment(), QUESTION)
        assert not isinstance(episode.parse(reply).action, Crop)


class Neighbour:
    """Shows one page by its number."""

    name = "neighbour"
    usage = "Shows another page."

    def run(self, text: str, context: ToolContext) -> ToolResult:
        return ToolResult((next(item.id for item in tiny_corpus().items if str(item.ordinal) == text),))


def test_actions_of_others_may_be_taken() -> None:
    where = replace(environment(), tools={"neighbour": Neighbour()})
    events, policy = ran("<neighbour>3</neighbour>", BOX, ANSWER, where=where)
    assert [image.page for image in of(ImageShown, events)] == [3]
    assert "<neighbour>text</neighbour>" in policy.text(0)
    (refused,) = of(InvalidAction, events)
    assert refused.reason == "There is no bbox here, only: search, answer, neighbour."
    parsed = React().begin(where, QUESTION).parse("<neighbour>3</neighbour>").action
    assert parsed == UseTool("neighbour", "3")


def kept(folder: Path, policy: Policy, question: str = QUESTION, steps: int = 10) -> StoredRun:
    store = RunStore(folder)
    with store.record() as recording:
        agent = Agent(policy, environment(), React(), Limits(steps=steps))
        for event in agent.stream(question, run_id=recording.id, save=recording.save):
            recording.write(event)
    return store.read(recording.id)


@pytest.mark.parametrize(
    "script",
    [
        (SEARCH, AGAIN, ANSWER),
        (SEARCH, BOX, "nonsense", SEARCH, ANSWER),
        (VRAG.search("zebra"), "<answer>Not answerable</answer>"),
        (SEARCH, BOX),
    ],
    ids=["answered", "refused", "abstained", "out of steps"],
)
def test_a_replay_gives_the_same_events(tmp_path: Path, script: tuple[str, ...]) -> None:
    run = kept(tmp_path, Watching(script), steps=len(script))
    assert differences(run.events, list(replay(run, tiny_corpus()))) == []


def test_pictures_beyond_a_budget_are_never_sent() -> None:
    policy = Watching((SEARCH, ANSWER))
    agent = Agent(policy, environment(), React(), Limits(steps=10, visual_tokens=100))
    end = end_of(list(agent.stream(QUESTION)))
    assert (end.stop_reason, len(policy.told)) == (StopReason.OUT_OF_BUDGET, 1)


class TestWithoutAModel:
    def policy(self) -> ExtractivePolicy:
        return ExtractivePolicy(tiny_corpus(), PROFILE, crops=False, certain=False)

    def test_it_searches_and_answers_and_never_crops(self, tmp_path: Path) -> None:
        run = kept(tmp_path, self.policy(), "What does a return ticket cost?")
        assert run.result.answer == "12 crowns"
        assert run.result.evidence[0].page == 3
        assert of(SearchReturned, run.events)
        assert not of(CropRequested, run.events)
        assert not of(InvalidAction, run.events)
        assert differences(run.events, list(replay(run, tiny_corpus()))) == []

    def test_it_abstains_where_it_cannot_stand_behind_an_answer(self) -> None:
        events = list(Agent(self.policy(), environment(), React()).stream("Who painted the zebra?"))
        assert end_of(events).stop_reason is StopReason.ABSTAINED


def test_a_served_model_is_told_of_the_refused_box(tmp_path: Path) -> None:
    with ChatServer([Say(SEARCH), Say(BOX), Say(ANSWER, thought="Hm.")]) as server:
        run = kept(tmp_path, ChatPolicy(OpenAIChat(server.url, "scripted")))
        first, second, third = server.requests
    assert [len(one.images) for one in (first, second, third)] == [0, 1, 1]
    assert "There is no bbox here" in third.text
    assert run.result.answer == "48,200"
    assert differences(run.events, list(replay(run, tiny_corpus()))) == []


def test_a_search_is_a_search() -> None:
    episode = React().begin(environment(), QUESTION)
    assert episode.parse(SEARCH).action == Search("ferry passengers")
    assert isinstance(episode.parse("<bbox>[0, 0, 1, 1]</bbox>").action, Invalid)
