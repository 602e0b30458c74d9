"""An answer stands while the model is asked which evidence counts, whatever becomes of that question."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from agent_scripts import (
    WAYS,
    Watching,
    Way,
    answers,
    environment,
    memorizes,
    note,
    of,
    searches,
    way_name,
)

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import (
    AnswerGiven,
    GraphChanged,
    InvalidAction,
    ModelCalled,
    RunFailed,
    StopReason,
    UsageReported,
)
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, FinishReason, Reply, Tokens
from vrag.agent.runs.event_log import EventLog
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.errors import ContextTooLong, ModelError
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from vrag.agent.events import Event
    from vrag.agent.policy import Message, Retry

both = pytest.mark.parametrize("way", WAYS, ids=way_name)


@dataclass
class Asked:
    """Answers after its searches; the call that asks for evidence ends as the test wants.

    Every call takes 100 tokens.
    """

    replies: Sequence[str]
    end: str | Exception | None
    """What is said then, or raised; None hangs."""
    finish: FinishReason = FinishReason.STOP
    name: str = "asked"
    calls: int = 0

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        return {}

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        self.calls = turn
        if turn <= len(self.replies):
            yield Reply(self.replies[turn - 1], tokens=Tokens(prompt=90, completion=10))
            return
        if isinstance(self.end, str):
            yield Delta(self.end)
            yield Reply(self.end, self.finish, Tokens(prompt=90, completion=10))
            return
        yield Delta("<think>Which")
        yield Delta(" one <")
        if self.end is None:
            await asyncio.sleep(3600)
        else:
            raise self.end

    async def aclose(self) -> None:
        pass


def script(way: Way) -> tuple[str, ...]:
    """Two things are seen, and the answer is given."""
    if isinstance(way.method, Vimrag):
        return searches("found"), answers("found")
    return way.search("ferry passengers"), way.search("ferry passengers"), way.answer("48,200")


def agent(way: Way, policy: Asked, **limits: Any) -> Agent:  # noqa: ANN401
    method = Vimrag(reselect=True) if isinstance(way.method, Vimrag) else VragMethod(reselect=True)
    return Agent(policy, environment(), method, Limits(**limits))


def stands(events: Sequence[Event]) -> None:
    """The answer was given, with all its evidence, and once."""
    end = events[-1]
    assert isinstance(end, AnswerGiven), end
    assert (end.text, end.stop_reason) == ("48,200", StopReason.ANSWERED)
    assert {2, 1} <= {evidence.page for evidence in end.evidence}
    graphs = of(GraphChanged, events)
    assert not graphs or graphs[-1].graph.answered


@both
@pytest.mark.parametrize("error", [ModelError("It is down."), ContextTooLong("40,000 tokens.")])
def test_it_stands_when_the_model_fails(way: Way, error: ModelError) -> None:
    events = list(agent(way, Asked(script(way), error)).stream("?"))
    stands(events)
    assert not of(RunFailed, events)


@both
def test_it_stands_when_the_time_is_up(way: Way) -> None:
    policy = Asked(script(way), None)
    stands(list(agent(way, policy, seconds=2).stream("?")))
    assert policy.calls == len(script(way)) + 1


@both
@pytest.mark.parametrize("limit", ["tokens", "visual_tokens"])
def test_it_stands_when_a_budget_does_not_allow_the_question(way: Way, limit: str) -> None:
    policy = Asked(script(way), "<evidence>1</evidence>")
    whole = of(UsageReported, agent(way, policy).stream("?"))[: len(script(way))]
    most = 100 * len(whole) if limit == "tokens" else 1 + sum(usage.visual_tokens for usage in whole)
    events = list(agent(way, policy, **{limit: most}).stream("?"))
    assert len(of(ModelCalled, events)) == len(script(way))
    stands(events)


@both
def test_it_stands_when_the_reply_is_cut_off(way: Way) -> None:
    stands(list(agent(way, Asked(script(way), "<think>Which", FinishReason.LENGTH)).stream("?")))


@both
def test_a_better_answer_takes_its_place(way: Way) -> None:
    better = answers("found", text="9") if isinstance(way.method, Vimrag) else way.answer("9")
    (*_, end) = agent(way, Asked(script(way), better)).stream("?")
    assert isinstance(end, AnswerGiven)
    assert (end.text, end.stop_reason) == ("9", StopReason.ANSWERED)


@both
def test_a_run_that_is_cancelled_then_gives_no_answer(way: Way) -> None:
    async def cancelled() -> list[Event]:
        cancel = asyncio.Event()
        seen: list[Event] = []
        policy = Asked(script(way), None)
        async with asyncio.timeout(30):
            async for event in agent(way, policy).astream("?", cancel=cancel):
                seen.append(event)
                if event.step > len(script(way)):
                    cancel.set()
        return seen

    end = asyncio.run(cancelled())[-1]
    assert isinstance(end, AnswerGiven)
    assert (end.text, end.stop_reason) == (None, StopReason.CANCELLED)


@both
def test_the_question_is_not_mixed_with_the_urge_to_answer(way: Way) -> None:
    files: dict[str, bytes] = {}
    policy = Asked(script(way), "<evidence>1</evidence>")
    list(agent(way, policy, steps=len(script(way)) + 1).stream("?", save=files.__setitem__))
    asked = [data for data in files.values() if b"<evidence>1, 3</evidence>" in data]
    assert len(asked) == 1
    assert b"This is the last turn" not in asked[0]


@both
@pytest.mark.parametrize("end", ["<evidence>1</evidence>", ModelError("It is down."), "hm"])
def test_such_a_run_is_replayed(way: Way, end: str | Exception, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with store.record() as recording:
        for event in agent(way, Asked(script(way), end)).stream("?", run_id=recording.id):
            recording.write(event)
    stored = store.read("last")
    assert differences(stored.events, list(replay(stored, tiny_corpus()))) == []


def test_a_node_whose_results_are_in_sight_holds_the_answer_even_if_it_is_not_named() -> None:
    policy = Asked((searches("found"), answers("root")), "unused")
    (*_, end) = Agent(policy, environment(), Vimrag()).stream("?")
    assert isinstance(end, AnswerGiven)
    assert [evidence.node for evidence in end.evidence] == ["found"] * 3


def test_an_answer_with_a_fault_in_place_of_evidence_is_refused_and_the_first_one_stands() -> None:
    way = WAYS[1]
    events = list(
        agent(way, Asked((*script(way), answers("nowhere")), ModelError("It is down."))).stream("?")
    )
    assert len(of(InvalidAction, events)) == 1
    stands(events)


def test_an_answer_that_was_given_at_the_last_moment_is_not_given_twice() -> None:
    """The thread of a step that is cut off may have come to its end."""
    episode = Vimrag(reselect=True).begin(environment(), "?")
    record = EventLog("run")
    for reply in (*script(WAYS[1]), "<evidence>1</evidence>"):
        episode.step(episode.parse(reply), record, more=True)
    assert episode.graph.answered
    outcome = episode.conclude(record)
    assert outcome.answer is not None
    assert outcome.answer.text == "48,200"


def search_on(way: Way) -> str:
    """In place of saying which evidence counts, where the first answer rested on `found`."""
    return searches("more", "prices tickets", ["root"]) if isinstance(way.method, Vimrag) else way.search("?")


def keep_all() -> str:
    return memorizes(note("Text 1"), note("Picture 1"), note("Picture 2"))


def settled(way: Way) -> tuple[str, ...]:
    """Like `script`, with nothing left to be summarised."""
    if isinstance(way.method, Vimrag):
        return searches("found"), keep_all(), answers("found")
    return script(way)


@both
@pytest.mark.parametrize("extra", [1, 2])
def test_it_stands_when_the_model_searches_on_until_its_steps_are_used_up(way: Way, extra: int) -> None:
    policy = Asked((*settled(way), *[search_on(way)] * extra), ModelError("never asked"))
    events = list(agent(way, policy, steps=len(settled(way)) + extra).stream("?"))
    assert policy.calls == len(settled(way)) + extra
    stands(events)


@both
def test_it_stands_when_the_model_searches_on_until_the_time_is_up(way: Way) -> None:
    policy = Asked((*settled(way), search_on(way)), None)
    stands(list(agent(way, policy, seconds=2).stream("?")))
    assert policy.calls == len(settled(way)) + 2


@both
def test_its_evidence_is_what_was_seen_before_it_was_given(way: Way) -> None:
    """What the model looked at afterwards is not what the answer rests on."""
    more = searches("more", "prices", ["root"]) if isinstance(way.method, Vimrag) else way.search("January")
    (*_, end) = agent(way, Asked((*settled(way), more), ModelError("It is down."))).stream("?")
    (*_, before) = agent(way, Asked(settled(way), ModelError("It is down."))).stream("?")
    assert isinstance(end, AnswerGiven)
    assert isinstance(before, AnswerGiven)
    assert (end.text, end.evidence) == ("48,200", before.evidence)


@both
def test_an_action_that_is_refused_in_place_of_evidence_loses_no_answer(way: Way) -> None:
    wrong = (
        searches("found", "x")
        if isinstance(way.method, Vimrag)
        else "<think>x</think><bbox>[5, 5, 1, 1]</bbox>"
    )
    policy = Asked((*settled(way), wrong), ModelError("It is down."))
    events = list(agent(way, policy).stream("?"))
    assert len(of(InvalidAction, events)) == 1
    stands(events)


@both
def test_a_reply_without_an_action_after_searching_on_is_refused_and_ends_nothing(way: Way) -> None:
    better = answers("found", text="9") if isinstance(way.method, Vimrag) else way.answer("9")
    policy = Asked((*settled(way), search_on(way), "hm", better), "<evidence></evidence>")
    events = list(agent(way, policy).stream("?"))
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    assert (end.text, len(of(InvalidAction, events))) == ("9", 1)


def told_last(way: Way, policy: Watching, steps: int) -> list[str]:
    method = Vimrag(reselect=True) if isinstance(way.method, Vimrag) else VragMethod(reselect=True)
    list(Agent(policy, environment(), method, Limits(steps=steps)).stream("?"))
    return [told[-1].text for told in policy.told]


@both
def test_whoever_has_no_turn_left_is_not_invited_to_go_on(way: Way) -> None:
    replies = (*settled(way), "<evidence>1</evidence>")
    last = told_last(way, Watching(replies), len(replies))[-1]
    early = told_last(way, Watching(replies), len(replies) + 1)[-1]
    assert "<evidence>1, 3</evidence>" in last
    assert "If you are no longer sure" not in last
    assert "If you are no longer sure" in early


@both
def test_whoever_searched_on_is_urged_to_answer_in_the_last_turn(way: Way) -> None:
    replies = (*settled(way), search_on(way), "hm")
    *before, last = told_last(way, Watching(replies), len(replies))
    assert "This is the last turn" in last
    assert not any("This is the last turn" in told for told in before)
