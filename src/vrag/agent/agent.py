"""An agent: a policy, an environment and a method, and the functions that start its runs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field

from vrag.agent.actions import end_tags
from vrag.agent.answers.claim_judge import ClaimJudge
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits, Prices
from vrag.agent.environment import Environment
from vrag.agent.events import DraftMode, Event, RunSettings
from vrag.agent.loop import Run
from vrag.agent.method import Method
from vrag.agent.policy import Policy
from vrag.agent.question import Question
from vrag.agent.replies.tool_calls import CALL_END_TAG
from vrag.agent.runs.event_log import EventLog, SaveFile
from vrag.agent.runs.recorder import RunLog
from vrag.agent.runs.run_result import RunResult
from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES
from vrag.search.searcher import ItemStore


@dataclass(frozen=True, slots=True)
class Agent:
    """A policy, an environment and a method, which together answer questions.

    It keeps no state of any run: one agent serves many questions at once.

    Raises `SettingsError` if the cost of a run is limited, and no prices are given.
    """

    policy: Policy
    environment: Environment
    method: Method
    limits: Limits | None = None
    """The limits of a run; None for the steps of the method and no other limit."""
    prices: Prices = field(default_factory=Prices)
    notices: tuple[str, ...] = ()
    """Sentences that people must know about the setup of the agent."""
    judge: ClaimJudge | None = None
    """The model that judges claims on the pictures of their evidence; None for rules alone."""
    explain_absence: Callable[[], str] | None = None
    """Returns why nothing may have been found, for people; None where nobody can tell."""
    draft: DraftMode = DraftMode.OFF
    """The events of an answer while the model writes it, for those who follow a run; they take some time."""
    drawn: ItemStore | None = None
    """The items whose pictures the second reading draws; None for those of the environment."""
    conflicts: bool = False
    """Whether what an answer rests on is compared with the other documents."""
    locate: bool = True
    """Whether the words of an answer are looked for on the pages of its evidence, which are opened again.
    Off in training: no reward depends on it, and it takes most of a rollout's time."""

    def __post_init__(self) -> None:
        if self.bounds.cost is not None and None in {self.prices.prompt, self.prices.completion}:
            raise SettingsError(
                "The cost of a run is limited, but the price of a token is not known.",
                "Set VRAG_PRICE_PROMPT and VRAG_PRICE_COMPLETION, or leave out VRAG_BUDGET_COST.",
            )

    @property
    def bounds(self) -> Limits:
        """The limits in force."""
        return self.limits or Limits(steps=self.method.steps)

    @property
    def end_tags(self) -> tuple[str, ...]:
        """The tags that end an action: a sampler may stop with them, since what follows is dropped."""
        if self.method.uses_graph:
            return (CALL_END_TAG,)
        return end_tags(self.environment.action_names, selecting=self.method.reselect)

    @property
    def locates(self) -> bool:
        """True if evidence is located: also where claims are checked or documents compared."""
        return self.locate or self.conflicts or self.method.verify is not VerifyMode.OFF

    @property
    def settings(self) -> RunSettings:
        """The settings that a replay needs besides the replies."""
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
            actions=tuple(self.environment.tools),
            instruction=self.method.instruction,
            reselect=self.method.reselect,
            repair=self.method.repair,
            own_ids=self.method.own_ids,
            verify=self.method.verify,
            second_reading=self.method.second_reading,
            conflicts=self.conflicts,
            locate=self.locates,
            draft=self.draft,
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
        """Run one question and yield its events as they happen.

        Every run ends with an `AnswerGiven` or a `RunFailed`: failures of model, search and collection
        are events and do not raise, as are faults of the program. Only where memory or a disk fails, an
        error is raised. Closing the generator closes the policy's, so that no connection is left open.

        Args:
            question: The question; a `Question` where there is more than its words.
            run_id: The name of the run; a new name when empty.
            save: Saves the files that events name by hash; without it they are not kept.
            cancel: Stops the run at the next opportunity once it is set.

        Raises:
            ValueError: If the question is empty.
        """
        run = Run(
            policy=self.policy,
            environment=self.environment,
            method=self.method,
            settings=self.settings,
            notices=self.notices,
            judge=self.judge,
            explain_absence=self.explain_absence,
            drawn=self.drawn,
            question=Question.of(question),
            log=EventLog(run_id or uuid.uuid4().hex, save),
            cancel=cancel or asyncio.Event(),
        )
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
        interrupt: KeyboardInterrupt | None = None
        with ThreadPoolExecutor(1, "vrag-run") as thread:
            runner = thread.submit(asyncio.Runner).result()
            loop = thread.submit(runner.get_loop).result()
            events = self.astream(question, run_id=run_id, save=save, cancel=cancel)
            try:
                while True:
                    pending_event = thread.submit(runner.run, _next(events))
                    try:
                        event = pending_event.result()
                    except KeyboardInterrupt as error:
                        interrupt = error
                        loop.call_soon_threadsafe(cancel.set)
                        event = pending_event.result()
                    if event is None:
                        break
                    yield event
            finally:
                loop.call_soon_threadsafe(cancel.set)  # a call of a model that still waits ends now
                thread.submit(runner.run, self._close(events)).result()
                thread.submit(runner.close).result()
        if interrupt is not None:
            raise interrupt

    async def arecord(
        self, question: str | Question, log: RunLog, *, cancel: asyncio.Event | None = None
    ) -> AsyncGenerator[Event, None]:
        """Like `astream`; each event is on disk before it is yielded. `log` comes from `RunStore.record`.

        Raises `RunError` if the run cannot be written.
        """
        async with aclosing(self.astream(question, run_id=log.id, save=log.save, cancel=cancel)) as events:
            async for event in events:
                await log.awrite(event)
                yield event

    def record(self, question: str | Question, log: RunLog) -> Iterator[Event]:
        """Like `arecord`, for code that is not asynchronous; see `stream`."""
        for event in self.stream(question, run_id=log.id, save=log.save):
            log.write(event)
            yield event

    async def arun(self, question: str | Question, *, cancel: asyncio.Event | None = None) -> RunResult:
        """Run one question to its end."""
        return RunResult.of([event async for event in self.astream(question, cancel=cancel)])

    def run(self, question: str | Question) -> RunResult:
        """Like `arun`, for code that is not asynchronous."""
        return RunResult.of(self.stream(question))

    async def aclose(self) -> None:
        """Release the resources of its models in the running event loop; the agent can be used again."""
        await self.policy.aclose()
        if self.judge is not None:
            await self.judge.aclose()

    async def _close(self, events: AsyncGenerator[Event, None]) -> None:
        await events.aclose()
        await self.aclose()


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)
