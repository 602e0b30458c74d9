"""Rollouts: independent, bounded, with deadlines; what fails is data."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TYPE_CHECKING

import pytest
from chat_server import Asked, ChatServer, Hang, Raw, Refuse, Reply, Say
from rolling_scripts import (
    IDS,
    LOGPROBS,
    PROMPT_IDS,
    SCRIPT,
    agent_of,
    all_of,
    attempts,
    case,
    graph_scripted,
    number_of,
    raising,
    rolled,
    said,
    scripted,
)

import vrag.rollouts.rollout
from vrag.agent.agent import Agent
from vrag.agent.events import AnswerGiven, ImageShown, ModelCalled, RunStarted, SearchReturned, StopReason
from vrag.agent.policies.chat import ChatPolicy
from vrag.chat import ChatOptions, ChatRetries, OpenAIChat
from vrag.errors import ContextTooLong, ModelError
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.testing import ScriptedPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence

    from vrag.agent.events import Event
    from vrag.agent.policy import Delta, Message
    from vrag.agent.policy import Reply as PolicyReply


def keys(rollouts: Iterable[Rollout]) -> list[tuple[str, int]]:
    return sorted((one.attempt.case.uid, one.attempt.sample) for one in rollouts)


@dataclass
class Sleeping:
    """A policy that sleeps before each reply, and counts who sleeps."""

    seconds: Callable[[int], float]
    replies: tuple[str, ...] = SCRIPT
    name: str = "sleeping"
    asleep: int = 0
    peak: int = 0
    begun: int = 0
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | PolicyReply, None]:
        self.begun += turn == 1
        number = number_of(history[0].text)
        self.asleep += 1
        self.peak = max(self.peak, self.asleep)
        try:
            await asyncio.sleep(self.seconds(number))
        finally:
            self.asleep -= 1
        async for part in ScriptedPolicy(self.replies).reply(history, turn):
            yield part

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("made", [scripted, graph_scripted])
def test_every_attempt_comes_back_once_with_its_run_and_the_files_that_it_names(
    made: Callable[[], Agent],
) -> None:
    agent = made()
    rollouts = rolled(attempts(3, samples=2), lambda _: agent)
    assert keys(rollouts) == [(f"c{number}", sample) for number in range(3) for sample in range(2)]
    for one in rollouts:
        assert (one.failure, one.reason, one.trajectory.answer) == (None, None, "48,200")
        assert one.trajectory.question == one.attempt.case.query
        calls = [event for event in one.events if isinstance(event, ModelCalled)]
        messages = {sha256 for event in calls for sha256 in event.messages}
        shown = {event.sha256 for event in one.events if isinstance(event, ImageShown)}
        assert shown
        assert {f"{name}.json" for name in messages} | {f"{name}.jpg" for name in shown} <= set(one.files)
        assert one.seconds > 0
    assert len({one.trajectory.run_id for one in rollouts}) == 6


def test_rollouts_that_show_the_same_page_hold_one_copy_of_it() -> None:
    first, second = rolled(attempts(2), lambda _: scripted())
    pictures = [name for name in first.files if name.endswith(".jpg")]
    assert pictures
    assert all(first.files[name] is second.files[name] for name in pictures)


def test_a_fast_one_does_not_wait_for_a_slow_one() -> None:
    policy = Sleeping(lambda number: 1.0 if number == 0 else 0.0)
    agent = agent_of(policy)
    rollouts = rolled(attempts(6), lambda _: agent, concurrency=2)
    assert rollouts[-1].attempt.case.uid == "c0"
    assert policy.peak <= 2


def test_the_iterable_is_drawn_from_as_there_is_room_and_no_faster() -> None:
    drawn: list[int] = []

    def endless() -> Iterator[RolloutAttempt]:
        for number in count():
            drawn.append(number)
            yield RolloutAttempt(case=case(number), sample=0)

    async def some() -> None:
        async with aclosing(roll_out(endless(), lambda _: scripted(), concurrency=4)) as rolling:
            taken = 0
            async for _ in rolling:
                taken += 1
                await asyncio.sleep(0.05)  # longer than a rollout takes: those finished pile up to the bound
                assert len(drawn) <= taken + 2 * 4
                if taken == 5:
                    break

    asyncio.run(some())


def test_rollouts_go_on_while_their_taker_is_busy() -> None:
    policy = Sleeping(lambda _: 0.01)
    agent = agent_of(policy)

    async def busy() -> None:
        async with aclosing(roll_out(attempts(9), lambda _: agent, concurrency=3)) as rolling:
            await anext(rolling)
            async with asyncio.timeout(60):
                # The one taken, those waiting, and others beyond.
                while policy.begun < 1 + 3 + 2:  # noqa: ASYNC110 - a policy counts, and tells nobody
                    await asyncio.sleep(0.01)

    asyncio.run(busy())


def test_late_ones_keep_their_events_and_say_so() -> None:
    policy = Sleeping(lambda number: 30.0 if number == 1 else 0.0)
    agent = agent_of(policy)
    good, late = sorted(rolled(attempts(2), lambda _: agent, seconds=2), key=lambda one: one.attempt.case.uid)
    assert good.failure is None
    assert late.failure == "Deadline: It took longer than 2 seconds."
    assert late.reason == "Deadline"
    assert isinstance(late.events[0], RunStarted)
    assert late.trajectory.stop_reason is StopReason.CANCELLED
    assert late.trajectory.failure == late.failure
    assert 2 <= late.seconds < 30


def test_one_that_does_not_end_when_it_is_told_to_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Deaf:
        async def astream(self, *arguments: object, **named: object) -> AsyncGenerator[Event, None]:
            del named["cancel"]
            async for event in scripted().astream(*arguments, **named):  # pyright: ignore[reportArgumentType]
                yield event
                if isinstance(event, SearchReturned):
                    await asyncio.sleep(60)

    monkeypatch.setattr(vrag.rollouts.rollout, "GRACE_SECONDS", 0.1)
    (one,) = rolled(attempts(1), lambda _: Deaf(), seconds=1)  # pyright: ignore[reportArgumentType, reportReturnType]
    assert one.reason == "Deadline"
    assert isinstance(one.events[-1], SearchReturned)
    assert one.seconds < 30


def test_the_deadline_runs_from_the_start_of_a_rollout_and_not_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[float] = []
    timeout = asyncio.timeout

    def watched(seconds: float | None) -> asyncio.Timeout:
        assert seconds == 3600 + vrag.rollouts.rollout.GRACE_SECONDS
        starts.append(asyncio.get_running_loop().time())
        return timeout(seconds)

    monkeypatch.setattr(asyncio, "timeout", watched)
    agent = agent_of(Sleeping(lambda _: 0.05))
    rollouts = rolled(attempts(4), lambda _: agent, concurrency=1, seconds=3600)
    assert [one.failure for one in rollouts] == [None] * 4
    assert all(later - start >= 0.05 for start, later in pairwise(starts))
    assert len(starts) == 4


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("odd\nvalue"), "ValueError: odd value (rolling_scripts.py:"),
        (KeyError(), "KeyError: no message (rolling_scripts.py:"),
        (TimeoutError("its own"), "TimeoutError: its own ("),
        (asyncio.CancelledError(), "CancelledError: no message ("),
        (ModelError("The model is gone.", "Start it."), "ModelError: The model is gone. Start it."),
    ],
)
def test_a_fault_in_the_code_of_an_agent_is_a_failure_of_its_rollout_alone(
    error: BaseException, failure: str
) -> None:
    def agent(attempt: RolloutAttempt) -> Agent:
        return raising(error) if attempt.sample == 1 else scripted()

    good, bad, other = sorted(
        rolled(attempts(1, samples=3), agent, seconds=60), key=lambda one: one.attempt.sample
    )
    assert (good.failure, other.failure) == (None, None)
    assert bad.failure is not None
    assert bad.failure.startswith(failure)
    assert len(bad.events) == 2
    assert bad.trajectory.failure == bad.failure


def test_an_agent_that_cannot_be_made_is_a_failure_without_events() -> None:
    def agent(attempt: RolloutAttempt) -> Agent:
        raise RuntimeError(attempt.case.uid)

    (one,) = rolled(attempts(1), agent)
    assert one.events == ()
    assert one.reason == "RuntimeError"
    assert (one.trajectory.question, one.trajectory.failure) == (one.attempt.case.query, one.failure)


def test_a_run_that_stops_without_an_end_is_a_failure() -> None:
    @dataclass(frozen=True)
    class Short:
        async def astream(self, *arguments: object, **named: object) -> AsyncGenerator[Event, None]:
            async for event in islice_async(scripted().astream(*arguments, **named), 3):  # pyright: ignore[reportArgumentType]
                yield event

    (one,) = rolled(attempts(1), lambda _: Short())  # pyright: ignore[reportArgumentType, reportReturnType]
    assert one.failure == "RunError: The run stopped without an end."


async def islice_async(events: AsyncGenerator[Event, None], most: int) -> AsyncGenerator[Event, None]:
    async with aclosing(events):
        async for event in events:
            yield event
            most -= 1
            if not most:
                return


def test_failures_of_model_and_search_are_told_by_their_boundary() -> None:
    (one,) = rolled(attempts(1), lambda _: scripted(ModelError("It is gone.")))
    assert (one.reason, one.failure) == ("ModelError", "ModelError: It is gone.")


def test_running_out_of_steps_is_no_failure() -> None:
    (one,) = rolled(attempts(1), lambda _: scripted(*["<search>ferry</search>"] * 10))
    assert one.failure is None
    assert one.trajectory.stop_reason is StopReason.OUT_OF_STEPS


def test_running_out_of_context_is_no_failure() -> None:
    (one,) = rolled(attempts(1), lambda _: scripted(SCRIPT[0], ContextTooLong("Too long.")))
    assert one.failure is None
    assert one.trajectory.stop_reason is StopReason.OUT_OF_TOKENS


def test_closing_gives_up_what_is_in_flight() -> None:
    policy = Sleeping(lambda number: 0.0 if number == 0 else 30.0)
    agent = agent_of(policy)

    async def first() -> None:
        async with aclosing(roll_out(attempts(20), lambda _: agent, concurrency=4)) as rolling:
            await anext(rolling)
        assert policy.asleep == 0
        assert policy.begun <= 6

    began = time.perf_counter()
    asyncio.run(first())
    assert time.perf_counter() - began < 5


def test_cancelling_the_taker_gives_up_what_is_in_flight() -> None:
    policy = Sleeping(lambda _: 30.0)
    agent = agent_of(policy)

    async def cancelled() -> None:
        task = asyncio.create_task(all_of(attempts(20), lambda _: agent, concurrency=4))
        await asyncio.sleep(0.3)
        assert policy.asleep == 4
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert policy.asleep == 0

    asyncio.run(cancelled())


def test_an_iterable_that_fails_ends_the_job_after_what_had_begun() -> None:
    def broken() -> Iterator[RolloutAttempt]:
        yield from attempts(2)
        raise OSError("the file of cases is gone")

    taken: list[Rollout] = []

    async def take() -> None:
        async with aclosing(roll_out(broken(), lambda _: scripted())) as rolling:
            while True:
                taken.append(await anext(rolling))

    with pytest.raises(OSError, match="the file of cases is gone"):
        asyncio.run(take())
    assert keys(taken) == [("c0", 0), ("c1", 0)]


def test_nothing_to_do_is_nothing_done() -> None:
    assert rolled([], lambda _: scripted()) == []


@pytest.mark.parametrize(("concurrency", "seconds"), [(0, None), (4, 0), (4, -1.0)])
def test_bounds_that_are_none_are_refused(concurrency: int, seconds: float | None) -> None:
    with pytest.raises(ValueError, match="positive"):
        rolled([], lambda _: scripted(), concurrency, seconds)


def served(server: ChatServer) -> Agent:
    chat = OpenAIChat(server.url, "scripted", retries=ChatRetries(times=2, first_pause=0.01))
    return agent_of(ChatPolicy(chat, ChatOptions(temperature=1.0, token_ids=True, logprobs=True)))


def from_server(
    script: Callable[[Asked], Reply],
    made: list[RolloutAttempt],
    concurrency: int = 64,
    seconds: float | None = 20.0,
) -> tuple[list[Rollout], ChatServer]:
    """Rollouts of a real server, by the order of their attempts."""
    with ChatServer(script) as server:
        agent = served(server)

        async def all_then_close() -> list[Rollout]:
            try:
                return await all_of(made, lambda _: agent, concurrency, seconds)
            finally:
                await agent.aclose()

        rollouts = asyncio.run(all_then_close())
    return sorted(rollouts, key=lambda one: one.attempt.case.uid), server


def test_ids_and_log_probabilities_of_a_server_are_in_the_events() -> None:
    rollouts, _ = from_server(said, attempts(2))
    calls = [event for one in rollouts for event in one.events if isinstance(event, ModelCalled)]
    assert len(calls) == 4
    assert {(call.prompt_ids, call.ids, call.logprobs) for call in calls} == {(PROMPT_IDS, IDS, LOGPROBS)}


def test_the_server_sees_no_more_at_once_than_the_bound_and_all_of_that() -> None:
    """The first five answers take long enough for all five questions to arrive on a busy machine."""

    def script(asked: Asked) -> Reply:
        return said(asked, first=3.0 if asked.index < 5 else 0.02)

    rollouts, server = from_server(script, attempts(24), concurrency=5)
    assert {one.failure for one in rollouts} == {None}
    assert server.peak == 5


def test_faults_of_the_server_fail_only_the_rollouts_that_they_hit() -> None:
    """0 is told to come again, 1 gets garbage, 2 is cut off, 3 is refused for good, 4 is fine."""
    told: set[str] = set()

    def script(asked: Asked) -> Reply:
        kind = str(number_of(asked.question))
        again, _ = kind in told, told.add(kind)
        match kind:
            case "0" if not again:
                return Refuse(429, "slow down", {"Retry-After": "0"})
            case "1":
                return Raw((b"data: {]\n\n",))
            case "2":
                return Say("<think>half", cut=2)
            case "3":
                return Refuse(400, "no pictures, please")
            case _:
                return said(asked)

    rollouts, _ = from_server(script, attempts(5), seconds=300.0)
    reasons = [one.reason for one in rollouts]
    assert reasons == [None, "ModelError", "ModelError", "ModelError", None]
    assert "no pictures, please" in str(rollouts[3].failure)
    assert all(isinstance(one.events[0], RunStarted) for one in rollouts)
    ends = [one.events[-1] for one in rollouts if one.failure is None]
    assert all(isinstance(end, AnswerGiven) for end in ends)


def test_a_rollout_ends_at_its_deadline_where_the_server_hangs() -> None:
    rollouts, _ = from_server(lambda _: Hang(), attempts(1), seconds=0.5)
    assert [one.reason for one in rollouts] == ["Deadline"]
