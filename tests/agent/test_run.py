"""What a run spends is told, what it may spend holds, and nobody waits for what hangs."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from agent_scripts import WAYS, Way, environment, of, searches, way_name

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.events import AnswerGiven, RunFailed, StopReason, UsageReported
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, FinishReason, Reply, Tokens
from vrag.errors import SearchError, SettingsError
from vrag.testing import MemorySearcher, ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator, Sequence

    from PIL.Image import Image

    from vrag.agent.events import Event
    from vrag.agent.policy import Message
    from vrag.geometry import Size
    from vrag.types import Hit, Query

both = pytest.mark.parametrize("way", WAYS, ids=way_name)


@dataclass(frozen=True, slots=True)
class Hanging(MemorySearcher):
    """Searches nothing until it is let go."""

    go: threading.Event = field(default_factory=threading.Event)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        if "hang" in queries[0].text:
            self.go.wait(60)
        return super(Hanging, self).search(queries, top_k)


@pytest.fixture
def hanging() -> Generator[Hanging]:
    searcher = Hanging(tiny_corpus().items)
    yield searcher
    searcher.go.set()


@both
def test_a_run_out_of_time_returns_while_its_search_still_hangs(way: Way, hanging: Hanging) -> None:
    agent = Agent(
        ScriptedPolicy((way.search("hang on"),)),
        environment(hanging),
        way.method,
        Limits(steps=3, seconds=0.3),
    )
    run = agent.run("?")
    assert run.stop_reason is StopReason.OUT_OF_BUDGET
    assert not hanging.go.is_set()


@both
def test_searches_that_hang_hold_up_no_other_run(way: Way, hanging: Hanging) -> None:
    where = environment(hanging)
    stuck = Agent(ScriptedPolicy((way.search("hang on"),)), where, way.method)
    well = Agent(ScriptedPolicy(way.script()), where, way.method)

    async def all_of_them() -> StopReason | None:
        cancel = asyncio.Event()
        waiting = [asyncio.ensure_future(stuck.arun("?", cancel=cancel)) for _ in range(40)]
        await asyncio.sleep(0.2)
        run = await asyncio.wait_for(well.arun("?"), 20)
        cancel.set()
        ends = await asyncio.wait_for(asyncio.gather(*waiting), 20)
        assert {end.stop_reason for end in ends} == {StopReason.CANCELLED}
        return run.stop_reason

    assert asyncio.run(all_of_them()) is StopReason.ANSWERED
    assert not hanging.go.is_set()


@both
def test_evidence_that_cannot_be_checked_in_time_is_left_out_and_cancelling_still_works(way: Way) -> None:
    released = threading.Event()

    class Slow(MemorySearcher):
        def image(self, id: str, *, least: Size | None = None) -> Image:
            if ended.is_set():
                released.wait(30)
            return super().image(id, least=least)

    ended = threading.Event()

    class Ending:
        name = "ending"
        sampling: dict[str, float | int | str | bool] = {}  # noqa: RUF012

        async def reply(
            self, history: Sequence[Message], turn: int = 1
        ) -> AsyncGenerator[Delta | Reply, None]:
            said = way.script()[turn - 1]
            if turn == len(way.script()):
                ended.set()
            yield Reply(said)

        async def aclose(self) -> None:
            """Holds nothing."""

    agent = Agent(Ending(), environment(Slow(tiny_corpus().items)), way.method)

    async def cancelled() -> StopReason | None:
        cancel = asyncio.Event()
        running = asyncio.ensure_future(agent.arun("?", cancel=cancel))
        await asyncio.to_thread(ended.wait, 10)
        await asyncio.sleep(0.2)
        cancel.set()
        return (await asyncio.wait_for(running, 10)).stop_reason

    assert asyncio.run(cancelled()) is StopReason.CANCELLED
    released.set()


@both
def test_a_call_is_accounted_also_when_what_it_asked_for_fails(way: Way) -> None:
    class Failing(MemorySearcher):
        def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
            raise SearchError("The index is gone.")

    where = environment(Failing(tiny_corpus().items))
    events = list(Agent(Telling((way.search("ferry"),)), where, way.method).stream("?"))
    assert isinstance(events[-1], RunFailed)
    (used,) = of(UsageReported, events)
    assert (used.prompt_tokens, used.completion_tokens) == (100, 20)


@dataclass(frozen=True)
class Telling:
    """A script whose replies cost 100 and 20 tokens."""

    replies: Sequence[str]
    finish: FinishReason = FinishReason.STOP
    name: str = "telling"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        yield Reply(self.replies[turn - 1], self.finish, Tokens(prompt=100, completion=20))

    async def aclose(self) -> None:
        """Holds nothing."""


def test_a_limit_to_what_a_run_costs_needs_prices() -> None:
    with pytest.raises(SettingsError, match="VRAG_PRICE_PROMPT"):
        Agent(ScriptedPolicy(()), environment(), VragMethod(), Limits(cost=1.0))


@both
def test_where_tokens_are_not_told_visual_tokens_and_pieces_count_as_the_least(way: Way) -> None:
    script = [way.search(f"ferry {word}") for word in ("passengers", "prices", "children", "report")]
    agent = Agent(ScriptedPolicy(tuple(script)), environment(), way.method, Limits(steps=9, tokens=30))
    run = agent.run("?")
    assert run.stop_reason is StopReason.OUT_OF_BUDGET
    assert len(run.steps) < 5


@both
def test_a_whole_action_that_is_refused_ends_no_run_whatever_follows_it(way: Way) -> None:
    """The reply ran out of tokens in the chatter after its action, not before."""
    early = "<think>.</think><bbox>[0, 0, 99, 99]</bbox>"
    refused = (early if way.method.name == "vrag" else searches("x", parents=["nowhere"])) + " and so on"
    agent = Agent(Telling((refused, *way.script()), FinishReason.LENGTH), environment(), way.method)
    assert agent.run("?").stop_reason is StopReason.ANSWERED


@both
def test_a_reply_cut_off_before_its_action_ends_the_run(way: Way) -> None:
    events = list(
        Agent(Telling(("<think>on and on",), FinishReason.LENGTH), environment(), way.method).stream("?")
    )
    assert of(AnswerGiven, events)[0].stop_reason is StopReason.OUT_OF_TOKENS


class Waiting:
    """A model that never answers."""

    name = "waiting"

    def __init__(self) -> None:
        self.sampling: dict[str, float | int | str | bool] = {}
        self.asked = threading.Event()
        self.left = threading.Event()

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        try:
            self.asked.set()
            yield Delta("<think>")
            await asyncio.sleep(60)
        finally:
            self.left.set()

    async def aclose(self) -> None:
        """Holds nothing."""


@both
def test_an_interrupt_cancels_the_run_whose_last_events_still_come(way: Way) -> None:
    policy = Waiting()
    events: list[Event] = []

    def interrupt() -> None:
        policy.asked.wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        collect(Agent(policy, environment(), way.method).stream("?"), events)
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].stop_reason is StopReason.CANCELLED
    assert policy.left.is_set()


def collect(stream: Iterator[Event], events: list[Event]) -> None:
    """Adds events one by one, so that those before an interrupt are not lost."""
    for event in stream:
        events.append(event)  # noqa: PERF402 - see above


@both
def test_whoever_stops_listening_does_not_wait_for_the_model(way: Way) -> None:
    policy = Waiting()
    listening = Agent(policy, environment(), way.method).stream("?")
    assert next(iter(listening)).seq == 0
    del listening
    assert not policy.asked.is_set() or policy.left.wait(60)
