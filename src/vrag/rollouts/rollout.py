"""Rollouts: many questions in flight at once, each advancing as fast as its own model calls and searches.

Nothing waits for the slowest of a batch. What fails is recorded with its reason and ends nothing but
itself, also when the code of the agent raises.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
import traceback
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from vrag.agent.events import AnswerGiven, Event, RunFailed, StopReason
from vrag.agent.runs.trajectory import Trajectory
from vrag.errors import VragError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from vrag.agent.agent import Agent
    from vrag.types import Case

__all__ = ["DEADLINE", "GRACE_SECONDS", "Rollout", "RolloutAttempt", "roll_out"]

log = logging.getLogger("vrag.rollouts")
DEADLINE = "Deadline"
"""What the failure of a rollout begins with that took too long."""
GRACE_SECONDS = 5.0
"""For a rollout that is past its deadline to end by itself; after that it is broken off."""
SHARED_BYTES = 64 * 1024 * 1024
"""Of the latest files, kept so that rollouts which show the same page hold one copy of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAttempt:
    """One try at a case."""

    case: Case
    sample: int
    """Which rollout of the group, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rollout:
    """What came of an attempt."""

    attempt: RolloutAttempt
    events: tuple[Event, ...]
    """Of the run, in order; of a failed one those before it failed, at worst none."""
    files: Mapping[str, bytes]
    """Those that the events name: `<sha256>.jpg` and `<sha256>.json`."""
    failure: str | None
    """Why it says nothing about the model, as `kind: what happened`; None where it came to its end.

    The kind is the class of the error, or `Deadline`. Running out of steps, of tokens
    or of the model's context is no failure: it is what the policy did.
    """
    seconds: float
    """From its start to its end; waiting for a place does not count."""

    @property
    def trajectory(self) -> Trajectory:
        """The fold of its events; without any, the question and the failure."""
        if not self.events:
            return Trajectory(question=self.attempt.case.query, failure=self.failure)
        folded = Trajectory.of(self.events)
        return replace(folded, failure=folded.failure or self.failure)

    @property
    def reason(self) -> str | None:
        """The kind of its failure, to count by."""
        return None if self.failure is None else self.failure.partition(":")[0]


async def roll_out(
    attempts: Iterable[RolloutAttempt],
    agent: Callable[[RolloutAttempt], Agent],
    *,
    concurrency: int = 64,
    seconds: float | None = None,
) -> AsyncGenerator[Rollout, None]:
    """Makes all attempts, several at once, and yields rollouts as they finish.

    A rollout that fails is yielded like the others. At most `concurrency` are in flight, and at most as many
    that are finished wait to be taken; beyond that no attempt is begun, so that `attempts` may be endless.
    While the one who takes them is busy elsewhere in the event loop, rollouts go on. Close the generator
    (`contextlib.aclosing`) to stop: what is in flight is given up then, with its connections.

    Args:
        attempts: Taken from the event loop, one at a time as there is room.
        agent: What makes an attempt; may be the same for all. Who made it closes it.
        concurrency: Attempts in flight at most.
        seconds: Deadline of each, from its own start. One that is late is told to end, has
            `GRACE_SECONDS` to do so, and keeps its events so far; its failure says `Deadline`.

    Raises:
        ValueError: If `concurrency` or `seconds` is not positive.
        Exception: What taking an attempt raised, once all that had begun are yielded.
    """
    if concurrency < 1 or (seconds is not None and seconds <= 0):
        raise ValueError("concurrency and seconds must be positive")
    in_flight = _InFlight(attempts, agent, concurrency, seconds)
    try:
        in_flight.fill()
        while in_flight.running or not in_flight.finished.empty():
            task = await in_flight.finished.get()
            in_flight.fill()
            yield task.result()
    finally:
        await in_flight.give_up()
    if in_flight.fault is not None:
        raise in_flight.fault


class _InFlight:
    """The attempts that are being made, and those finished that nobody has taken yet."""

    def __init__(
        self,
        attempts: Iterable[RolloutAttempt],
        agent: Callable[[RolloutAttempt], Agent],
        concurrency: int,
        seconds: float | None,
    ) -> None:
        self._attempts = iter(attempts)
        self._agent, self._places, self._seconds = agent, concurrency, seconds
        self._shared = _SharedFiles(SHARED_BYTES)
        self._over = False
        """Whether no further attempt is begun."""
        self.running: set[asyncio.Task[Rollout]] = set()
        self.finished: asyncio.Queue[asyncio.Task[Rollout]] = asyncio.Queue()
        """Never more than there are places, and those that were in flight when it filled up."""
        self.fault: Exception | None = None

    def fill(self) -> None:
        """Begins attempts while there is room."""
        while not self._over and len(self.running) < self._places and self.finished.qsize() < self._places:
            try:
                attempt = next(self._attempts)
            except StopIteration:
                self._over = True
            except Exception as error:  # noqa: BLE001 - raised where rollouts are taken
                self._over, self.fault = True, error
            else:
                course = _RolloutTask(attempt, self._seconds, self._shared)
                task = asyncio.create_task(course.rollout(self._agent))
                self.running.add(task)
                task.add_done_callback(self._done)

    async def give_up(self) -> None:
        """Ends what is in flight."""
        self._over = True
        running = list(self.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Rollout]) -> None:
        self.running.discard(task)
        self.finished.put_nowait(task)
        self.fill()


@dataclass(slots=True)
class _RolloutTask:
    """One attempt while it is made."""

    attempt: RolloutAttempt
    seconds: float | None
    shared: _SharedFiles
    events: list[Event] = field(default_factory=list[Event])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the deadline."""

    async def rollout(self, agent: Callable[[RolloutAttempt], Agent]) -> Rollout:
        """Makes it. Never raises but when it is cancelled."""
        begun = time.perf_counter()
        failure = await self._made(agent)
        return Rollout(
            attempt=self.attempt,
            events=tuple(self.events),
            files=dict(self.files),  # a thread that was left behind may still add to them
            failure=failure,
            seconds=time.perf_counter() - begun,
        )

    async def _made(self, agent: Callable[[RolloutAttempt], Agent]) -> str | None:
        """Follows the run to its end; why it failed, if it did."""
        loop = asyncio.get_running_loop()
        alarm = None if self.seconds is None else loop.call_later(self.seconds, self.cancel.set)
        end = asyncio.timeout(None if self.seconds is None else self.seconds + GRACE_SECONDS)
        try:
            async with end:
                await self._followed(agent(self.attempt))
        except (Exception, asyncio.CancelledError) as error:  # code of agents may raise anything
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            log.debug("A rollout of %s failed.", self.attempt.case.uid, exc_info=True)
            return self._late() if end.expired() else _told(error)
        finally:
            if alarm is not None:
                alarm.cancel()
        return self._ended()

    async def _followed(self, agent: Agent) -> None:
        stream = agent.astream(self.attempt.case.query, run_id=_run_id(), save=self._save, cancel=self.cancel)
        async with aclosing(stream) as events:
            async for event in events:
                self.events.append(event)

    def _save(self, name: str, data: bytes) -> None:
        self.files[name] = self.shared.of(name, data)

    def _ended(self) -> str | None:
        """Why a run failed that came to its end."""
        match self.events[-1] if self.events else None:
            case AnswerGiven(stop_reason=StopReason.CANCELLED) if self.cancel.is_set():
                return self._late()
            case AnswerGiven() | RunFailed(stop_reason=StopReason.OUT_OF_TOKENS):
                return None
            case RunFailed() as failed:
                return f"{failed.boundary}: {failed.message}"
            case _:
                return "RunError: The run stopped without an end."

    def _late(self) -> str:
        return f"{DEADLINE}: It took longer than {self.seconds:g} seconds."


class _SharedFiles:
    """The latest files, so that equal ones are one object in memory.

    Args:
        limit: Bytes to keep, at most.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: str, data: bytes) -> bytes:
        """The bytes of this file, as they were seen first; the name tells their hash."""
        with self._lock:
            if (known := self._kept.get(name)) is not None:
                self._kept.move_to_end(name)
                return known
            self._kept[name] = data
            self._left -= len(data)
            while self._left < 0:
                self._left += len(self._kept.popitem(last=False)[1])
            return data


def _run_id() -> str:
    """As a `RunStore` names runs, so that they list by the time they began."""
    now = time.time()
    begun = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{begun}-{int(now % 1 * 1e6):06d}-{secrets.token_hex(4)}"


def _is_cancelled() -> bool:
    """Whether somebody cancelled the task, rather than that code in it raised what says so."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _told(error: BaseException) -> str:
    """A failure in a line; of a fault of the program also where it was raised."""
    kind = type(error).__name__
    if isinstance(error, VragError):
        return f"{kind}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{kind}: {' '.join(str(error).split()) or 'no message'}{where}"
