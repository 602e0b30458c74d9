"""The one loop of many rollouts: what a folder lacks is made several at a time, kept and counted.

`vrag train rollout`, `vrag eval run` and `vrag data demonstrate` are such jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrag.background import run_in_thread
from vrag.rollouts.rollout import roll_out

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from vrag.agent.agent import Agent
    from vrag.rollouts.rollout import Rollout, RolloutAttempt
    from vrag.rollouts.rollout_store import RolloutStore

MIN_FAILURES, FAILURES_PER_WORKER = 8, 2
"""Failures in a row after which a job gives up: at least so many, and so many times the concurrency."""


@dataclass(slots=True, kw_only=True)
class RolloutJob:
    """The missing rollouts of a folder, and how far they are."""

    store: RolloutStore
    attempts: Sequence[RolloutAttempt]
    """All that the folder is to hold."""
    concurrency: int = 64
    seconds: float | None = None
    """Deadline of each rollout."""
    retry_failed: bool = False
    """True if failed rollouts of the folder are made again."""
    missing: list[RolloutAttempt] = field(init=False)
    """Attempts to make."""
    failed_before: int = field(init=False)
    """Failed rollouts that were in the folder and are not repeated."""
    start: float = field(default_factory=time.monotonic)
    """Time at which the first rollout began, in seconds of `time.monotonic`."""
    made: int = 0
    steps: int = 0
    """Model calls of the rollouts that were made."""
    tokens: int = 0
    """Tokens that the model sampled for them."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Number of failures by kind."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """One failure of each kind."""
    failures_in_a_row: int = 0
    stopped: bool = False
    """True if Ctrl-C ended the job."""
    given_up: bool = False
    """True if so many rollouts failed in a row that the rest would fail too: the server is gone."""

    def __post_init__(self) -> None:
        self.missing = list(self.store.remaining(self.attempts, again=self.retry_failed))
        known = [entry for attempt in self.attempts if (entry := self.store.entries.get(attempt.key))]
        failed = sum(entry.failure is not None for entry in known)
        self.failed_before = 0 if self.retry_failed else failed

    @property
    def before(self) -> int:
        """The number of rollouts that were in the folder."""
        return len(self.attempts) - len(self.missing)

    @property
    def elapsed_seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.start

    async def rollouts(self, agent: Callable[[RolloutAttempt], Agent]) -> AsyncGenerator[Rollout, None]:
        """Make the missing rollouts as `roll_out` does, and yield each when it is safe on disk.

        Raises `RunError` if the disk refuses.
        """
        self.start = time.monotonic()
        made = roll_out(self.missing, agent, concurrency=self.concurrency, seconds=self.seconds)
        async with aclosing(made) as rollouts:
            async for rollout in rollouts:
                keeping = asyncio.ensure_future(run_in_thread(lambda kept=rollout: self.store.keep(kept)))
                try:
                    entry = await asyncio.shield(keeping)
                except asyncio.CancelledError:  # what is being written is written
                    await asyncio.gather(keeping, return_exceptions=True)
                    raise
                self.made += 1
                self.steps += entry.steps
                self.tokens += entry.tokens
                self.failures_in_a_row = self.failures_in_a_row + 1 if entry.failure else 0
                if entry.failure and entry.reason:
                    self.failures[entry.reason] += 1
                    self.examples[entry.reason] = entry.failure.partition(":")[2].strip()
                yield rollout
                if self.failures_in_a_row >= max(MIN_FAILURES, FAILURES_PER_WORKER * self.concurrency):
                    self.given_up = True
                    return

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what takes `rollouts` in an event loop; Ctrl-C ends it early, with what is finished."""

        async def run_until_stopped() -> None:
            try:
                await work
            except asyncio.CancelledError:
                self.stopped = True

        asyncio.run(run_until_stopped())

    async def make_all(self, agent: Callable[[RolloutAttempt], Agent], progress: Callable[[], None]) -> None:
        """Make the missing rollouts; call `progress` after each."""
        async with aclosing(self.rollouts(agent)) as rollouts:
            async for _ in rollouts:
                progress()
