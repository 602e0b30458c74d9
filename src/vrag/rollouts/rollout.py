"""Rollouts: many questions in flight at once, each advancing as fast as its own model calls and searches.

Nothing waits for the slowest of a batch. A failure is recorded with its reason and ends only its own rollout,
also when the code of the agent raises.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from cachetools import LRUCache

from vrag.agent.agent import Agent
from vrag.agent.events import AnswerGiven, Event, RunFailed, StopReason
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import new_run_id
from vrag.errors import VragError
from vrag.reward.reward import Reward, Scorer
from vrag.types import Case

log = logging.getLogger("vrag.rollouts")
DEADLINE = "Deadline"
"""Kind of the failure of a rollout that took too long."""
GRACE_SECONDS = 5.0
"""Time for a rollout past its deadline to end by itself; after that it is cancelled."""
MAX_SHARED_BYTES = 64 * 1024 * 1024
"""Maximum total size of the latest files: rollouts that show the same page share one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAttempt:
    """One attempt at a case."""

    case: Case
    sample: int
    """Number of the rollout in its group, from 0."""

    @property
    def key(self) -> tuple[str, int]:
        """Case and sample, which identify it."""
        return self.case.uid, self.sample


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rollout:
    """The result of an attempt."""

    attempt: RolloutAttempt
    events: tuple[Event, ...]
    """Events of the run, in order; of a failed run those before it failed, at worst none."""
    files: Mapping[str, bytes]
    """The files that the events name: `<sha256>.jpg` and `<sha256>.json`."""
    failure: str | None
    """The reason it says nothing about the model, as `kind: what happened`; None where it came to its end.

    The kind is the class of the error, or `Deadline`. Running out of steps, of tokens
    or of the model's context is not a failure: it is what the policy did.
    """
    seconds: float
    """Time from its start to its end, without waiting for a slot."""

    @property
    def trajectory(self) -> RunResult:
        """The fold of its events; without any, the question and the failure."""
        if not self.events:
            return RunResult(question=self.attempt.case.query, failure=self.failure)
        folded = RunResult.of(self.events)
        return replace(folded, failure=folded.failure or self.failure)

    @property
    def reason(self) -> str | None:
        """The kind of its failure, to count by."""
        return None if self.failure is None else self.failure.partition(":")[0]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRollout:
    """A rollout and its reward."""

    rollout: Rollout
    reward: Reward
    """Missing for a rollout that failed."""


def attempts_of(cases: Iterable[Case], samples: int) -> list[RolloutAttempt]:
    """List so many attempts at each case: those of a case open the same pages, and share their prompt."""
    return [RolloutAttempt(case=case, sample=sample) for case in cases for sample in range(samples)]


async def roll_out(
    attempts: Iterable[RolloutAttempt],
    agent: Callable[[RolloutAttempt], Agent],
    *,
    concurrency: int = 64,
    seconds: float | None = None,
) -> AsyncGenerator[Rollout, None]:
    """Make all attempts, several at once, and yield rollouts as they finish.

    A rollout that fails is yielded like the others. At most `concurrency` are in flight, and at most as many
    finished ones wait to be taken; beyond that no attempt is begun, so that `attempts` may be endless.
    Rollouts go on while their consumer is busy elsewhere in the event loop. Close the generator
    (`contextlib.aclosing`) to stop: what is in flight is cancelled then, with its connections.

    Args:
        attempts: Taken from the event loop, one at a time as there is room.
        agent: Returns the agent of an attempt; may be the same for all. The caller closes it.
        concurrency: Maximum of attempts in flight.
        seconds: Deadline of each, from its own start. A late one has `GRACE_SECONDS` to end, and keeps
            its events so far; its failure says `Deadline`.

    Raises:
        ValueError: If `concurrency` or `seconds` is not positive.
        Exception: What taking an attempt raised, once all that had begun are yielded.
    """
    if concurrency < 1 or (seconds is not None and seconds <= 0):
        raise ValueError("concurrency and seconds must be positive")
    waiting, shared = iter(attempts), _SharedFiles(MAX_SHARED_BYTES)
    running: set[asyncio.Task[Rollout]] = set()
    finished: asyncio.Queue[asyncio.Task[Rollout]] = asyncio.Queue()  # never more than slots and in flight
    fault: Exception | None = None
    closed = False

    def fill() -> None:
        """Begin attempts while there is room."""
        nonlocal closed, fault
        while not closed and max(len(running), finished.qsize()) < concurrency:
            try:
                attempt = next(waiting)
            except Exception as error:  # noqa: BLE001 - raised when all that had begun are yielded
                closed, fault = True, None if isinstance(error, StopIteration) else error
            else:
                task = asyncio.create_task(_RolloutTask(attempt, seconds, shared).run(agent))
                running.add(task)
                task.add_done_callback(finish)

    def finish(task: asyncio.Task[Rollout]) -> None:
        running.discard(task)
        finished.put_nowait(task)
        fill()

    try:
        fill()
        while running or not finished.empty():
            task = await finished.get()
            fill()
            yield task.result()
    finally:
        closed = True
        left = list(running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    if fault is not None:
        raise fault


async def play_attempt(
    attempt: RolloutAttempt,
    agent: Agent,
    scorer: Callable[[], Scorer],
    *,
    seconds: float | None = None,
) -> ScoredRollout:
    """Make one attempt and score it; after a fault of the run or of the scorer, the reward is missing.

    `scorer` opens the scorer, which a failed run does without; `seconds` is the deadline of the run.
    """
    async with aclosing(roll_out([attempt], lambda _: agent, concurrency=1, seconds=seconds)) as rollouts:
        rollout = await anext(rollouts)
    if rollout.failure is not None:
        return ScoredRollout(rollout, Reward(total=None, why=rollout.failure))
    try:
        reward = await scorer().score(attempt.case, rollout.trajectory)
    except Exception as error:  # scorers of others may raise anything
        log.exception("The reward of a rollout of %s failed.", attempt.case.uid)
        reward = Reward(total=None, why=_describe_failure(error))
    return ScoredRollout(rollout, reward)


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

    async def run(self, agent: Callable[[RolloutAttempt], Agent]) -> Rollout:
        """Make the attempt. Raises only when it is cancelled."""
        begun = time.perf_counter()
        failure = await self._follow(agent)
        return Rollout(
            attempt=self.attempt,
            events=tuple(self.events),
            files=dict(self.files),  # a thread that was left behind may still add to them
            failure=failure,
            seconds=time.perf_counter() - begun,
        )

    async def _follow(self, agent: Callable[[RolloutAttempt], Agent]) -> str | None:
        """Follow the run to its end; return why it failed, if it did."""
        loop = asyncio.get_running_loop()
        alarm = None if self.seconds is None else loop.call_later(self.seconds, self.cancel.set)
        timeout = asyncio.timeout(None if self.seconds is None else self.seconds + GRACE_SECONDS)
        late = f"{DEADLINE}: It took longer than {self.seconds or 0:g} seconds."

        def save(name: str, data: bytes) -> None:
            self.files[name] = self.shared.share(name, data)

        try:
            async with timeout:
                stream = agent(self.attempt).astream(
                    self.attempt.case.query, run_id=new_run_id(4), save=save, cancel=self.cancel
                )
                async with aclosing(stream) as events:
                    async for event in events:
                        self.events.append(event)
        except (Exception, asyncio.CancelledError) as error:  # code of agents may raise anything
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # somebody cancelled the task; otherwise code in it raised what says so
            log.debug("A rollout of %s failed.", self.attempt.case.uid, exc_info=True)
            return late if timeout.expired() else _describe_failure(error)
        finally:
            if alarm is not None:
                alarm.cancel()
        match self.events[-1] if self.events else None:
            case AnswerGiven(stop_reason=StopReason.CANCELLED) if self.cancel.is_set():
                return late
            case AnswerGiven() | RunFailed(stop_reason=StopReason.OUT_OF_TOKENS):
                return None
            case RunFailed() as failed:
                return f"{failed.boundary}: {failed.message}"
            case _:
                return "RunError: The run stopped without an end."


class _SharedFiles:
    """The latest files, so that equal ones are one object; one larger than `max_bytes` is not shared."""

    def __init__(self, max_bytes: int) -> None:
        self._files: LRUCache[str, bytes] = LRUCache(max_bytes, len)
        self._lock = threading.Lock()

    def share(self, name: str, data: bytes) -> bytes:
        """Return the bytes of this file that were seen first; the name is their hash."""
        with self._lock:
            if (known := self._files.get(name)) is not None:
                return known
            if len(data) <= self._files.maxsize:
                self._files[name] = data
            return data


def _describe_failure(error: BaseException) -> str:
    """Describe a failure in a line; for a fault of the program also where it was raised."""
    kind = type(error).__name__
    if isinstance(error, VragError):
        return f"{kind}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{kind}: {' '.join(str(error).split()) or 'no message'}{place}"
