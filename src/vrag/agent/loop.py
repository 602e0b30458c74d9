"""The loop around a model: what it is told, what it says, what comes of it; the same for every method."""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.actions import thought_so_far
from vrag.agent.events import (
    AnswerGiven,
    Event,
    ModelCalled,
    ModelRetried,
    RunFailed,
    RunSettings,
    RunStarted,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import checked
from vrag.agent.limits import Limits, Prices, Spent
from vrag.agent.method import Outcome
from vrag.agent.policy import FinishReason, Reply, Retry
from vrag.agent.record import Record
from vrag.agent.trajectory import Trajectory
from vrag.errors import CollectionError, ContextTooLong, CorpusError, MissingExtra, ModelError, SearchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Sequence

    from vrag.agent.actions import Answer, Turn
    from vrag.agent.environment import Environment
    from vrag.agent.evidence import Evidence
    from vrag.agent.method import Context, Episode, Method
    from vrag.agent.policy import Picture, Policy
    from vrag.agent.record import SaveFile
    from vrag.agent.toolcalls import AnswerNode
    from vrag.errors import VragError

__all__ = ["Agent"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Agent:
    """Answers questions by searching and looking.

    It keeps nothing of any run: one agent serves many questions at once.
    """

    policy: Policy
    environment: Environment
    method: Method
    limits: Limits | None = None
    """Where a run ends at the latest; None for the steps of the method and nothing else."""
    prices: Prices = field(default_factory=Prices)

    @property
    def settings(self) -> RunSettings:
        """What a replay needs to know beside the replies."""
        return RunSettings(
            agent=self.method.name,
            policy=self.policy.name,
            profile=self.environment.profile.name,
            limits=self.limits or Limits(steps=self.method.steps),
            prices=self.prices,
            environment=self.environment.options,
            memory=self.method.memory,
            actions=tuple(self.environment.extensions),
            instruction=self.method.instruction,
            reselect=self.method.reselect,
            sampling=dict(self.policy.sampling),
        )

    async def astream(
        self,
        question: str,
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
            question: What to answer.
            run_id: How the run is called; a new name when empty.
            save: Keeps the files that events name by hash; without it they are not kept.
            cancel: Stops the run at the next opportunity once it is set.

        Raises:
            ValueError: If the question is empty.
        """
        if not question.strip():
            raise ValueError("the question is empty")
        record = Record(run_id or uuid.uuid4().hex, save)
        run = _Run(self, _encodable(question.strip()), record, cancel or asyncio.Event())
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    def stream(self, question: str, *, run_id: str = "", save: SaveFile | None = None) -> Iterator[Event]:
        """Like `astream`, for code that is not asynchronous; works inside a running event loop too."""
        with ThreadPoolExecutor(1, "vrag-run") as thread:
            runner = thread.submit(asyncio.Runner).result()
            events = self.astream(question, run_id=run_id, save=save)
            try:
                while (event := thread.submit(runner.run, _next(events)).result()) is not None:
                    yield event
            finally:
                thread.submit(runner.run, self._close(events)).result()
                thread.submit(runner.close).result()

    async def arun(self, question: str, *, cancel: asyncio.Event | None = None) -> Trajectory:
        """Runs one question to its end."""
        return Trajectory.of([event async for event in self.astream(question, cancel=cancel)])

    def run(self, question: str) -> Trajectory:
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


class _Cancelled(Exception):
    """The run is to end now."""


class _OutOfTime(Exception):
    """The run has used up its seconds."""


@dataclass(slots=True)
class _Run:
    """The state of one run."""

    agent: Agent
    question: str
    record: Record
    cancel: asyncio.Event
    stop: StopReason | None = None
    spent: Spent = field(default_factory=Spent)
    started: float = field(default_factory=time.perf_counter)
    cancelling: asyncio.Future[Any] | None = None

    @property
    def limits(self) -> Limits:
        return self.agent.limits or Limits(steps=self.agent.method.steps)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything from the start to the end."""
        self.cancelling = asyncio.ensure_future(self.cancel.wait())
        try:
            async with aclosing(self._guarded()) as events:
                async for event in events:
                    yield event
        finally:
            self.cancelling.cancel()
            await asyncio.gather(self.cancelling, return_exceptions=True)

    async def _guarded(self) -> AsyncGenerator[Event, None]:
        """The same, with failures as events."""
        try:
            searcher = self.agent.environment.searcher
            version = await asyncio.to_thread(lambda: searcher.version)
            self.record.tell(
                RunStarted, question=self.question, settings=self.agent.settings, collection=version
            )
            for event in self.record.take():
                yield event
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except _Cancelled:
            self.record = self.record.alone()
            self._ended(None, (), (), StopReason.CANCELLED)
        except ContextTooLong as error:
            self._failed(error, StopReason.OUT_OF_TOKENS)
        except ModelError as error:
            self._failed(error, StopReason.MODEL_ERROR)
        except (SearchError, CollectionError, CorpusError, MissingExtra) as error:
            self._failed(error, StopReason.SEARCH_ERROR)
        for event in self.record.take():
            yield event

    async def _steps(self) -> AsyncGenerator[Event, None]:
        episode = self.agent.method.begin(self.agent.environment, self.question)
        outcome: Outcome | None = None
        try:
            while self.stop is None:
                async with aclosing(self._turn(episode)) as parts:
                    async for part in parts:
                        if isinstance(part, Outcome):
                            outcome = part
                        else:
                            yield part
        except _OutOfTime:
            self.record = self.record.alone()
            self.stop = StopReason.OUT_OF_BUDGET
        except ModelError:
            outcome = episode.conclude(self.record)
            if outcome.answer is None:
                raise
        if outcome is None or outcome.answer is None:
            outcome = episode.conclude(self.record)
        answer = outcome.answer
        self.stop = _reason(answer) or self.stop
        assert self.stop is not None
        text = None if answer is None or answer.abstains else answer.text
        seen = await asyncio.to_thread(episode.evidence, answer and answer.text)
        evidence, faults = await asyncio.to_thread(checked, seen, self.agent.environment)
        self._ended(text, evidence, faults, self.stop)

    async def _turn(self, episode: Episode) -> AsyncGenerator[Event | Outcome, None]:
        """One model call and what comes of it; sets `stop` when it was the last."""
        began = time.perf_counter()
        more = self.record.step + 1 < self.limits.steps
        context = await self._meanwhile(asyncio.to_thread(episode.context, last=not more))
        if not self.spent.allows(self.limits, self._tokens(context.pictures)):
            self.stop = StopReason.OUT_OF_BUDGET
            return
        self.record.step += 1
        for event in self.record.take():
            yield event
        call = _Call(time.perf_counter())
        try:
            async with aclosing(self._reply(context, call)) as events:
                async for event in events:
                    yield event
        except MissingExtra as error:
            raise ModelError(error.message, error.hint) from error
        reply, waited = call.done(self.agent.policy.name), time.perf_counter() - call.began
        turn = episode.parse(reply.text)
        self._called(context, reply, turn, call.chunks)
        if turn.thought:
            self.record.tell(ThoughtGiven, text=turn.thought)
        episode.announce(turn, self.record)
        for event in self.record.take():
            yield event
        outcome = await self._meanwhile(asyncio.to_thread(episode.step, turn, self.record, more=more))
        self._used(context, reply, time.perf_counter() - began, waited)
        for event in self.record.take():
            yield event
        yield outcome
        self.stop = _stop_after(outcome, reply, more)

    async def _reply(self, context: Context, call: _Call) -> AsyncGenerator[Event, None]:
        """Asks the policy; what it says is added to `call`."""
        parts = self.agent.policy.reply(context.messages, self.record.step)
        async with aclosing(parts):
            while (part := await self._meanwhile(anext(parts, None))) is not None:
                match part:
                    case Reply():
                        call.reply = replace(part, text=_encodable(part.text))
                        return
                    case Retry(reason, seconds):
                        self.record.tell(
                            ModelRetried,
                            reason=reason,
                            seconds=seconds,
                            partial="".join(call.chunks),
                            chunks=tuple(map(len, call.chunks)),
                        )
                        call.again()
                    case _ if new := call.add(_encodable(part.text)):
                        self.record.tell(ThoughtDelta, text=new)
                    case _:
                        continue
                for event in self.record.take():
                    yield event

    async def _meanwhile(self, work: Awaitable[T]) -> T:
        """The result of some work.

        Raises:
            _Cancelled: As soon as the run is cancelled. Work in a thread goes on, and is not looked at.
            _OutOfTime: As soon as the run has used up its seconds.
        """
        assert self.cancelling is not None
        doing = asyncio.ensure_future(work)
        left = None if self.limits.seconds is None else self.limits.seconds - self._elapsed()
        try:
            await asyncio.wait(
                {doing, self.cancelling}, timeout=left and max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
            if self.cancelling.done():
                raise _Cancelled
            if not doing.done():
                raise _OutOfTime
            return doing.result()
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.gather(doing, return_exceptions=True)

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started

    def _called(self, context: Context, reply: Reply, turn: Turn[Any], chunks: list[str]) -> None:
        self.record.tell(
            ModelCalled,
            messages=tuple(self.record.message(message) for message in context.messages),
            reply=reply.text,
            executed=len(turn.executed),
            chunks=tuple(map(len, chunks)),
            finish=reply.finish,
            flags=tuple(sorted(turn.flags)),
            prompt_ids=reply.sampled.prompt_ids,
            ids=reply.sampled.ids,
            logprobs=reply.sampled.logprobs,
            sampling=dict(self.agent.policy.sampling),
        )

    def _used(self, context: Context, reply: Reply, seconds: float, waited: float) -> None:
        tokens = reply.tokens
        cost = self.agent.prices.cost(tokens.prompt, tokens.completion, tokens.cached)
        visual = self._tokens(context.pictures)
        self.spent.add(
            tokens=(tokens.prompt or 0) + (tokens.completion or 0), visual_tokens=visual, cost=cost or 0.0
        )
        self.record.tell(
            UsageReported,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            visual_tokens=visual,
            memory_tokens=self._tokens(context.remembered),
            fresh_tokens=self._tokens(context.fresh),
            pixels=sum(picture.view.canvas.area for picture in context.pictures),
            seconds=seconds,
            model_seconds=waited,
            cost=cost,
        )

    def _tokens(self, pictures: Sequence[Picture]) -> int:
        profile = self.agent.environment.profile
        return sum(profile.visual_tokens(picture.view.canvas) for picture in pictures)

    def _ended(
        self, text: str | None, evidence: tuple[Evidence, ...], faults: tuple[str, ...], reason: StopReason
    ) -> None:
        self.record.tell(AnswerGiven, text=text, evidence=evidence, unsupported=faults, stop_reason=reason)

    def _failed(self, error: VragError, reason: StopReason) -> None:
        self.record.tell(RunFailed, boundary=type(error).__name__, message=str(error), stop_reason=reason)


@dataclass(slots=True)
class _Call:
    """A reply as it comes in."""

    began: float
    chunks: list[str] = field(default_factory=list[str])
    thought: str = ""
    reply: Reply | None = None

    def add(self, text: str) -> str:
        """Adds a piece; what it adds to the thought."""
        self.chunks.append(text)
        now = thought_so_far("".join(self.chunks))
        new = now[len(self.thought) :]
        self.thought = now if new else self.thought
        return new

    def again(self) -> None:
        """Forgets what came: the call is made again."""
        self.chunks, self.thought = [], ""

    def done(self, policy: str) -> Reply:
        """The whole reply.

        Raises:
            ModelError: If it never came.
        """
        if self.reply is None:
            raise ModelError(f"The policy {policy} ended without a reply.")
        return self.reply


def _reason(answer: Answer | AnswerNode | None) -> StopReason | None:
    if answer is None:
        return None
    return StopReason.ABSTAINED if answer.abstains else StopReason.ANSWERED


def _stop_after(outcome: Outcome, reply: Reply, more: bool) -> StopReason | None:
    if (reason := _reason(outcome.answer)) is not None:
        return reason
    if outcome.refused and reply.finish is FinishReason.LENGTH:
        return StopReason.OUT_OF_TOKENS
    return None if more else StopReason.OUT_OF_STEPS


def _encodable(text: str) -> str:
    """The text with lone surrogates replaced, which no file and no connection can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
