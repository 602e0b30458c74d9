"""Contexts that are longer than the model takes: pictures go, words stay, and the run goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from agent_scripts import answers, environment, memorizes, note, of, searches
from stored_events import read_events, write_events
from vimrag_runs import end_of

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import AnswerGiven, ContextShortened, ImageShown, MemoryUpdated, RunFailed, StopReason
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, EnclosedImage, Picture, Reply
from vrag.agent.prompts import prompt
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.errors import ContextTooLong
from vrag.testing import MemorySearcher, page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from vrag.agent.environment import Environment
    from vrag.agent.events import Event
    from vrag.agent.method import Method
    from vrag.agent.policy import Message

REASON = "The conversation is longer than the model takes."


@dataclass
class Narrow:
    """Takes so many pictures at once, and no more."""

    replies: tuple[str, ...]
    most: int
    name: str = "narrow"
    begun: str = ""
    """Written before the conversation turns out to be too long."""
    sampling: dict[str, Any] = field(default_factory=dict[str, Any])
    told: list[list[Message]] = field(default_factory=list["list[Message]"])

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        self.told.append(list(history))
        if self.pictures(-1) > self.most:
            if self.begun:
                yield Delta(self.begun)
            raise ContextTooLong(REASON, "Give it a longer one.")
        text = self.replies[turn - 1]
        yield Delta(text)
        yield Reply(text)

    async def aclose(self) -> None:
        pass

    def pictures(self, call: int) -> int:
        parts = [part for message in self.told[call] for part in message.parts]
        return sum(isinstance(part, Picture | EnclosedImage) for part in parts)

    def text(self, call: int) -> str:
        return "\n".join(message.text for message in self.told[call])


def pages(count: int) -> MemorySearcher:
    return MemorySearcher(tuple(page("Ferry", number, f"ferry w{number}") for number in range(1, count + 1)))


def ran(method: Method, policy: Narrow, where: Environment | None = None, **limits: int) -> list[Event]:
    agent = Agent(policy, where or environment(pages(8)), method, Limits(**{"steps": 10, **limits}))
    return list(agent.stream("How many?"))


LOOKS = tuple(f"<think>So.</think><search>ferry w{number}</search>" for number in range(1, 6))
DAMAGED = "<tool_call>{'name': 'add_search_node', 'arguments': {'id': 'A b', 'query': 'ferry',}}"
ANSWER = "<think>So.</think><answer>48,200</answer>"


class TestVrag:
    def test_the_older_half_goes_and_the_run_goes_on(self) -> None:
        policy = Narrow((*LOOKS, ANSWER), most=3)
        events = ran(VragMethod(), policy)
        assert end_of(events).text == "48,200"
        first, *_ = of(ContextShortened, events)
        assert (first.dropped, first.reason, first.step) == (("Image 1", "Image 2"), REASON, 5)
        assert policy.pictures(5) == 2
        assert policy.text(5).count(prompt("out_of_sight.md")) == 2
        assert prompt("shortened.md") in policy.told[5][-1].text
        assert len(of(ImageShown, events)) == 5

    def test_nothing_is_taken_out_that_fits(self) -> None:
        policy = Narrow((*LOOKS, ANSWER), most=5)
        assert not of(ContextShortened, ran(VragMethod(), policy))

    def test_it_is_asked_for_an_answer_when_that_happens_for_the_third_time(self) -> None:
        policy = Narrow((*LOOKS[:4], "It is 48,200."), most=1)
        events = ran(VragMethod(), policy)
        assert [event.step for event in of(ContextShortened, events)] == [3, 4, 5]
        assert prompt("answer_now.md") in policy.told[-1][-1].text
        assert (end_of(events).text, end_of(events).stop_reason) == ("It is 48,200.", StopReason.ANSWERED)

    def test_a_crop_of_a_picture_that_is_out_of_sight_works(self) -> None:
        crop = '<think>So.</think><bbox image="1">[0, 0, 200, 200]</bbox>'
        events = ran(VragMethod(), Narrow((*LOOKS[:2], crop, ANSWER), most=1))
        assert [event.crop for event in of(ImageShown, events)] == [False, False, True]

    def test_where_even_the_words_are_too_long_it_fails_with_what_to_do(self) -> None:
        policy = Narrow((*LOOKS[:2], ANSWER), most=-1)
        (failed,) = of(RunFailed, ran(VragMethod(), policy))
        assert failed.stop_reason is StopReason.OUT_OF_TOKENS
        assert failed.message == f"{REASON} It is too long even without pictures. Give it a longer one."
        assert len(policy.told) == 1

    def test_without_repairs_the_run_ends_as_before(self) -> None:
        (failed,) = of(RunFailed, ran(VragMethod(repair=False), Narrow((*LOOKS, ANSWER), most=3)))
        assert failed.message == f"{REASON} Give it a longer one."


class TestVimrag:
    def test_memory_shows_no_more_than_what_was_left(self) -> None:
        keep = memorizes(*(note(f"Picture {number}", number) for number in (1, 2, 3)))
        more = searches("more", "ferry w4 w5", ["report"])
        policy = Narrow((searches("report", "ferry w1 w2"), keep, more, keep, answers("more")), most=3)
        method = Vimrag(memory=MemoryOptions(tokens=4096))
        events = ran(method, policy, environment(pages(8)))
        shortened = of(ContextShortened, events)
        assert shortened
        assert shortened[0].dropped == ("Picture 1 of report", "Picture 2 of report")
        assert [entry.label for entry in of(MemoryUpdated, events)[0].kept] == [
            "Picture 3",
            "Picture 2",
            "Picture 1",
        ]
        assert len(of(MemoryUpdated, events)[-1].kept) == 1
        assert end_of(events).text == "48,200"

    def test_results_go_where_memory_is_empty_the_last_first(self) -> None:
        policy = Narrow((searches("report", "ferry w1 w2"), answers("report")), most=1)
        (shortened,) = of(ContextShortened, ran(Vimrag(), policy))
        assert shortened.dropped == ("Picture 3", "Picture 2")
        assert policy.pictures(-1) == 1


@pytest.mark.parametrize(
    ("method", "replies", "most"),
    [
        (VragMethod(), (*LOOKS, ANSWER), 3),
        (VragMethod(), (*LOOKS[:4], "It is 48,200."), 1),
        (VragMethod(), LOOKS[:2], -1),
        (Vimrag(), (searches("report", "ferry w1"), answers("report")), 1),
        (Vimrag(), (DAMAGED, answers("A b")), 1),
    ],
)  # fmt: skip
def test_a_replay_gives_the_same_events(
    method: Method, replies: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    store, searcher = RunStore(tmp_path), pages(8)
    agent = Agent(Narrow(replies, most), environment(searcher), method, Limits(steps=10))
    with store.record() as recording:
        for event in agent.stream("How many?", run_id=recording.id, save=recording.save):
            recording.write(event)
    stored = store.read(recording.id)
    assert any(isinstance(event, ContextShortened | RunFailed) for event in stored.events)
    assert differences(stored.events, list(replay(stored, searcher))) == []


def test_a_replay_gives_two_reductions_within_a_step_and_the_words_before_them(tmp_path: Path) -> None:
    """The limit shrinks while the conversation goes on, so that one reduction is not enough."""
    store, searcher = RunStore(tmp_path), pages(8)
    policy = Narrow((*LOOKS[:4], ANSWER), most=3, begun="<think>Begun")
    agent = Agent(policy, environment(searcher), VragMethod(), Limits(steps=10))
    with store.record() as recording:
        for event in agent.stream("How many?", run_id=recording.id, save=recording.save):
            recording.write(event)
            if isinstance(event, ImageShown) and len(of(ImageShown, store.read(recording.id).events)) == 4:
                policy.most = 1
    stored = store.read(recording.id)
    assert [event.step for event in of(ContextShortened, stored.events)] == [5, 5]
    assert differences(stored.events, list(replay(stored, searcher))) == []


def test_a_run_that_says_nothing_of_repairs_is_replayed_without(tmp_path: Path) -> None:
    """As those were recorded that were made before there were any."""
    store, searcher = RunStore(tmp_path), pages(2)
    agent = Agent(
        Narrow(("<bbox image='1'>[[0, 0, 9, 9]]</bbox>", "48,200"), 9),
        environment(searcher),
        VragMethod(repair=False),
        Limits(steps=2),
    )
    with store.record() as recording:
        for event in agent.stream("How many?", run_id=recording.id, save=recording.save):
            recording.write(event)
    old = [
        data.replace(b'"repair":false,', b"").replace(b',"repairs":[]', b"")
        for data in read_events(store, recording.id)
    ]
    assert b"repair" not in b"".join(old)
    write_events(store, recording.id, old)
    stored = store.read(recording.id)
    assert isinstance(stored.events[-1], AnswerGiven)
    assert differences(stored.events, list(replay(stored, searcher))) == []
