"""One run: the loop around a model, the same for every method.

What it is told, what it says, what comes of that, until something stops it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.actions import Invalid
from vrag.agent.background import run_in_thread
from vrag.agent.budget import Spending
from vrag.agent.events import (
    AnswerGiven,
    ContextShortened,
    Event,
    ModelCalled,
    ModelRetried,
    RunFailed,
    RunStarted,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import checked
from vrag.agent.method import ActionOutcome
from vrag.agent.policy import FinishReason, Reply, Retry
from vrag.agent.replies.reply_stream import ReplyStream
from vrag.agent.replies.sanitize import encodable
from vrag.errors import CollectionError, ContextTooLong, CorpusError, MissingExtra, ModelError, SearchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence

    from vrag.agent.actions import Answer, Turn
    from vrag.agent.agent import Agent
    from vrag.agent.evidence import Evidence
    from vrag.agent.method import Context, Episode
    from vrag.agent.policy import EnclosedImage, Picture
    from vrag.agent.question import Question
    from vrag.agent.replies.tool_calls import AnswerNode
    from vrag.agent.runs.event_log import EventLog
    from vrag.errors import VragError

__all__ = ["Run"]

T = TypeVar("T")
GRACE_SECONDS = 5.0
"""For checking the evidence of an answer, once the seconds of a run are used up."""
_MAX_SHORTENED = 3
"""Steps in which the context may turn out too long; in the last of them the model is asked to answer."""
_TOO_LONG_ALONE = "It is too long even without pictures."


class _Cancelled(Exception):
    """The run is to end now."""


class _OutOfTime(Exception):
    """The run has used up its seconds."""


@dataclass(slots=True)
class _TurnRequest:
    """What the model is asked in a turn."""

    context: Context
    more: bool
    """Whether it may be asked once more."""


@dataclass(slots=True)
class Run:
    """The state of one run."""

    agent: Agent
    question: Question
    record: EventLog
    cancel: asyncio.Event
    stop: StopReason | None = None
    spent: Spending = field(default_factory=Spending)
    started: float = field(default_factory=time.perf_counter)
    cancelling: asyncio.Future[Any] | None = None
    too_long: set[int] = field(default_factory=set[int])
    """Steps in which the context was too long."""

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
            await self._start()
            for event in self.record.take():
                yield event
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except _Cancelled:
            self.record = self.record.alone()
            self._ended(None, (), (), StopReason.CANCELLED)
        except _OutOfTime:
            self._ended(None, (), (), StopReason.OUT_OF_BUDGET)
        except ContextTooLong as error:
            self._failed(error, StopReason.OUT_OF_TOKENS)
        except ModelError as error:
            self._failed(error, StopReason.MODEL_ERROR)
        except (SearchError, CollectionError, CorpusError, MissingExtra) as error:
            self._failed(error, StopReason.SEARCH_ERROR)
        for event in self.record.take():
            yield event

    async def _start(self) -> None:
        """Says that the run begins, also when what it searches cannot be reached."""
        version = ""
        try:
            version = await self._meanwhile(run_in_thread(self._opened))
        finally:
            self.record.tell(
                RunStarted,
                question=self.question.text,
                settings=self.agent.settings,
                collection=version,
                history=self.question.history,
                attached=tuple(image.sha256 for image in self.question.images),
                session=self.question.session,
                notices=self.agent.notices,
            )

    def _opened(self) -> str:
        """The version of the collection, once the pictures of the question are kept."""
        for image in self.question.images:
            self.record.keep(f"{image.sha256}.jpg", image.jpeg)
        return self.agent.environment.searcher.version

    async def _steps(self) -> AsyncGenerator[Event, None]:
        method, environment = self.agent.method, self.agent.environment
        episode = await self._meanwhile(run_in_thread(lambda: method.begin(environment, self.question)))
        outcome: ActionOutcome | None = None
        try:
            while self.stop is None:
                async with aclosing(self._turn(episode)) as parts:
                    async for part in parts:
                        if isinstance(part, ActionOutcome):
                            outcome = part
                        else:
                            yield part
        except _OutOfTime:
            self.record = self.record.alone()
            self.stop = StopReason.OUT_OF_BUDGET
        except (ModelError, SearchError, CollectionError):
            outcome = episode.conclude(self.record)
            if outcome.answer is None:
                raise
        if outcome is None or outcome.answer is None:
            outcome = episode.conclude(self.record)
        await self._conclude(episode, outcome.answer)

    async def _conclude(self, episode: Episode, answer: Answer | AnswerNode | None) -> None:
        """Says the answer with its evidence, as far as that can be checked in the time there is."""
        self.stop = _reason(answer) or self.stop
        assert self.stop is not None
        text = None if answer is None or answer.abstains else answer.text
        environment = self.agent.environment
        seeing = run_in_thread(lambda: checked(episode.evidence(answer and answer.text), environment))
        try:
            evidence, faults = await self._meanwhile(seeing, grace=GRACE_SECONDS)
        except _OutOfTime:
            evidence, faults = (), ("There was no time left to check the evidence.",)
        self._ended(text, evidence, faults, self.stop)

    async def _turn(self, episode: Episode) -> AsyncGenerator[Event | ActionOutcome, None]:
        """One model call and what comes of it; sets `stop` when it was the last."""
        began = time.perf_counter()
        if not self.record.step:
            await self._prepare(episode)
        more = self.record.step + 1 < self.agent.bounds.steps
        context = episode.context(last=not more)
        if not self.spent.allows(self.agent.bounds, self._tokens(context.pictures)):
            self.stop = StopReason.OUT_OF_BUDGET
            return
        self.record.step += 1
        for event in self.record.take():
            yield event
        call = ReplyStream()
        asked = _TurnRequest(context, more)
        async with aclosing(self._replied(episode, asked, call)) as events:
            async for event in events:
                yield event
        context, more = asked.context, asked.more
        reply, waited = call.done(self.agent.policy.name), call.seconds
        turn = episode.parse(reply.text, last=not more, cut=reply.finish is FinishReason.LENGTH)
        try:
            await self._called(context, reply, turn, call.lengths)
            if turn.thought:
                self.record.tell(ThoughtGiven, text=turn.thought)
            episode.announce(turn, self.record)
            for event in self.record.take():
                yield event
            outcome = await self._meanwhile(run_in_thread(lambda: episode.step(turn, self.record, more=more)))
        finally:  # it was paid for, whatever comes of it
            self._used(context, reply, time.perf_counter() - began, waited, len(call.chunks))
        for event in self.record.take():
            yield event
        yield outcome
        self.stop = _stop_after(outcome, turn, reply, more)

    async def _replied(
        self, episode: Episode, asked: _TurnRequest, call: ReplyStream
    ) -> AsyncGenerator[Event, None]:
        """Asks the policy, with a shorter context as long as it is too long; `asked` says with which.

        Raises:
            ModelError: If no reply can be had.
        """
        while True:
            try:
                async with aclosing(self._reply(asked.context, call)) as events:
                    async for event in events:
                        yield event
            except ContextTooLong as error:
                self._shorten(episode, asked, error)
                call.again()
                for event in self.record.take():
                    yield event
            else:
                return

    def _shorten(self, episode: Episode, asked: _TurnRequest, error: ContextTooLong) -> None:
        """Takes pictures out of what the model is told, since it is too long.

        Raises:
            ContextTooLong: If there is nothing left to take out.
        """
        if not self.agent.method.repair:
            raise error
        self.too_long.add(self.record.step)
        asked.more = asked.more and len(self.too_long) < _MAX_SHORTENED
        dropped = episode.shorten(last=not asked.more)
        if not dropped:
            raise _too_long_alone(error)
        self.record.tell(ContextShortened, reason=error.message, dropped=dropped)
        asked.context = episode.context(last=not asked.more)

    async def _prepare(self, episode: Episode) -> None:
        """What comes before the first call is told as a part of it, also where no budget is left for that."""
        self.record.step = 1
        await self._meanwhile(run_in_thread(lambda: episode.prepare(self.record)))
        self.record.step = 0

    async def _reply(self, context: Context, call: ReplyStream) -> AsyncGenerator[Event, None]:
        """Asks the policy; what it says is added to `call`.

        Raises:
            ModelError: If no reply can be had.
        """
        parts = self.agent.policy.reply(context.messages, self.record.step)
        async with aclosing(parts):
            while (part := await self._meanwhile(_next(parts))) is not None:
                match part:
                    case Reply():
                        call.reply = replace(part, text=encodable(part.text))
                        return
                    case Retry(reason, seconds):
                        self.record.tell(
                            ModelRetried,
                            reason=reason,
                            seconds=seconds,
                            partial="".join(call.chunks),
                            chunks=call.lengths,
                        )
                        call.again()
                    case _ if new := call.add(encodable(part.text)):
                        self.record.tell(ThoughtDelta, text=new)
                    case _:
                        continue
                for event in self.record.take():
                    yield event

    async def _meanwhile(self, work: Awaitable[T], *, grace: float = 0.0) -> T:
        """The result of some work.

        Args:
            work: Cancelled when it is not waited for any longer; work in a thread is left behind.
            grace: Seconds that it gets at least.

        Raises:
            _Cancelled: As soon as the run is cancelled.
            _OutOfTime: As soon as the run has used up its seconds.
        """
        assert self.cancelling is not None
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait(
                {doing, self.cancelling}, timeout=self._left(grace), return_when=asyncio.FIRST_COMPLETED
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

    def _left(self, grace: float) -> float | None:
        """Seconds that the run has left, but at least so many; None without a limit."""
        seconds = self.agent.bounds.seconds
        return None if seconds is None else max(grace, seconds - (time.perf_counter() - self.started))

    async def _called(self, context: Context, reply: Reply, turn: Turn[Any], chunks: tuple[int, ...]) -> None:
        messages = [message for message in context.messages if message not in self.record.hashes]
        if messages and self.record.save is not None:
            await self._meanwhile(
                run_in_thread(lambda: [self.record.message(message) for message in messages])
            )
        self.record.tell(
            ModelCalled,
            messages=tuple(self.record.message(message) for message in context.messages),
            reply=reply.text,
            executed=len(turn.executed),
            chunks=chunks,
            finish=reply.finish,
            flags=tuple(sorted(turn.flags)),
            repairs=turn.repairs,
            prompt_ids=reply.sampled.prompt_ids,
            ids=reply.sampled.ids,
            logprobs=reply.sampled.logprobs,
            sampling=dict(self.agent.policy.sampling),
        )

    def _used(self, context: Context, reply: Reply, seconds: float, waited: float, pieces: int) -> None:
        """Says what a call cost; where tokens are not told, at least its visual tokens and pieces count."""
        tokens = reply.tokens
        cost = self.agent.prices.cost(tokens.prompt, tokens.completion, tokens.cached)
        visual = self._tokens(context.pictures)
        self.spent.add(
            tokens=(visual if tokens.prompt is None else tokens.prompt)
            + (pieces if tokens.completion is None else tokens.completion),
            visual_tokens=visual,
            cost=cost or 0.0,
        )
        self.record.tell(
            UsageReported,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            visual_tokens=visual,
            memory_tokens=self._tokens(context.remembered),
            fresh_tokens=self._tokens(context.fresh),
            pixels=sum(picture.canvas.area for picture in context.pictures),
            seconds=seconds,
            model_seconds=waited,
            cost=cost,
        )

    def _tokens(self, pictures: Sequence[Picture | EnclosedImage]) -> int:
        profile = self.agent.environment.profile
        return sum(profile.visual_tokens(picture.canvas) for picture in pictures)

    def _ended(
        self, text: str | None, evidence: tuple[Evidence, ...], faults: tuple[str, ...], reason: StopReason
    ) -> None:
        self.record.tell(AnswerGiven, text=text, evidence=evidence, unsupported=faults, stop_reason=reason)

    def _failed(self, error: VragError, reason: StopReason) -> None:
        self.record.tell(RunFailed, boundary=type(error).__name__, message=str(error), stop_reason=reason)


async def _next(parts: AsyncGenerator[T, None]) -> T | None:
    try:
        return await anext(parts, None)
    except MissingExtra as error:
        raise ModelError(error.message, error.hint) from error


def _too_long_alone(error: ContextTooLong) -> ContextTooLong:
    """The error of a context that nothing more can be taken out of."""
    if _TOO_LONG_ALONE in error.message:  # as a recorded one says already
        return error
    return ContextTooLong(f"{error.message} {_TOO_LONG_ALONE}", error.hint)


def _reason(answer: Answer | AnswerNode | None) -> StopReason | None:
    if answer is None:
        return None
    return StopReason.ABSTAINED if answer.abstains else StopReason.ANSWERED


def _stop_after(outcome: ActionOutcome, turn: Turn[Any], reply: Reply, more: bool) -> StopReason | None:
    if (reason := _reason(outcome.answer)) is not None:
        return reason
    if reply.finish is FinishReason.LENGTH and isinstance(turn.action, Invalid):
        return StopReason.OUT_OF_TOKENS  # it was cut off before it came to an action
    return None if more else StopReason.OUT_OF_STEPS
