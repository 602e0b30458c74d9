"""An agent: a policy, an environment and a method, and what starts their runs."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.budget import Limits, Prices
from vrag.agent.events import Event, RunSettings
from vrag.agent.loop import Run
from vrag.agent.question import Question
from vrag.agent.runs.event_log import EventLog
from vrag.agent.runs.trajectory import Trajectory
from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from vrag.agent.environment import Environment
    from vrag.agent.method import Method
    from vrag.agent.policy import Policy
    from vrag.agent.runs.event_log import SaveFile

__all__ = ["Agent"]


@dataclass(frozen=True, slots=True)
class Agent:
    """Answers questions by searching and looking.

    It keeps nothing of any run: one agent serves many questions at once.

    Raises:
        SettingsError: If there is a limit to what a run costs, and no prices.
    """

    policy: Policy
    environment: Environment
    method: Method
    limits: Limits | None = None
    """Where a run ends at the latest; None for the steps of the method and nothing else."""
    prices: Prices = field(default_factory=Prices)
    notices: tuple[str, ...] = ()
    """What people must know about how the agent was set up, in sentences."""

    def __post_init__(self) -> None:
        if self.bounds.cost is not None and None in {self.prices.prompt, self.prices.completion}:
            raise SettingsError(
                "What a run costs is limited, and what a token costs is not known.",
                "Set VRAG_PRICE_PROMPT and VRAG_PRICE_COMPLETION, or leave out VRAG_BUDGET_COST.",
            )

    @property
    def bounds(self) -> Limits:
        """The limits in force."""
        return self.limits or Limits(steps=self.method.steps)

    @property
    def settings(self) -> RunSettings:
        """What a replay needs to know beside the replies."""
        profile = self.environment.profile
        return RunSettings(
            agent=self.method.name,
            policy=self.policy.name,
            profile=profile.name,
            own_profile=None if profile == PROFILES.get(profile.name) else profile,
            limits=self.bounds,
            prices=self.prices,
            environment=self.environment.options,
            memory=self.method.memory,
            actions=tuple(self.environment.extensions),
            instruction=self.method.instruction,
            reselect=self.method.reselect,
            repair=self.method.repair,
            sampling=dict(self.policy.sampling),
        )

    async def astream(
        self,
        question: str | Question,
        *,
        run_id: str = "",
        save: SaveFile | None = None,
        cancel: asyncio.Event | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Runs one question and yields its events as they happen.

        Every run ends with an `AnswerGiven` or a `RunFailed`: failures of model, search and collection
        are events and do not raise. What else raises is a fault of the program. Closing the generator
        closes the policy's, so that no connection is left open.

        Args:
            question: What to answer; a `Question` where there is more than its words.
            run_id: How the run is called; a new name when empty.
            save: Keeps the files that events name by hash; without it they are not kept.
            cancel: Stops the run at the next opportunity once it is set.

        Raises:
            ValueError: If the question is empty.
        """
        asked = Question.of(question)
        record = EventLog(run_id or uuid.uuid4().hex, save)
        run = Run(self, asked, record, cancel or asyncio.Event())
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    def stream(
        self, question: str | Question, *, run_id: str = "", save: SaveFile | None = None
    ) -> Iterator[Event]:
        """Like `astream`, for code that is not asynchronous; works inside a running event loop too.

        Ctrl-C cancels the run: its last events still come, then `KeyboardInterrupt` is raised.
        """
        cancel = asyncio.Event()
        stopped: KeyboardInterrupt | None = None
        with ThreadPoolExecutor(1, "vrag-run") as thread:
            runner = thread.submit(asyncio.Runner).result()
            loop = thread.submit(runner.get_loop).result()
            events = self.astream(question, run_id=run_id, save=save, cancel=cancel)
            try:
                while True:
                    coming = thread.submit(runner.run, _next(events))
                    try:
                        event = coming.result()
                    except KeyboardInterrupt as interrupt:
                        stopped = interrupt
                        loop.call_soon_threadsafe(cancel.set)
                        event = coming.result()
                    if event is None:
                        break
                    yield event
            finally:
                loop.call_soon_threadsafe(cancel.set)  # what still waits for a model ends now
                thread.submit(runner.run, self._close(events)).result()
                thread.submit(runner.close).result()
        if stopped is not None:
            raise stopped

    async def arun(self, question: str | Question, *, cancel: asyncio.Event | None = None) -> Trajectory:
        """Runs one question to its end."""
        return Trajectory.of([event async for event in self.astream(question, cancel=cancel)])

    def run(self, question: str | Question) -> Trajectory:
        """Like `arun`, for code that is not asynchronous."""
        return Trajectory.of(self.stream(question))

    async def aclose(self) -> None:
        """Gives back what the policy holds in the running event loop; the agent can be used again."""
        await self.policy.aclose()

    async def _close(self, events: AsyncGenerator[Event, None]) -> None:
        await events.aclose()
        await self.aclose()


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)
