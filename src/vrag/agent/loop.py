"""The loop of a run, the same for every method.

It asks the model, carries out the action of the reply, and repeats that until something stops it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from vrag.agent.actions import Answer, Invalid, Turn
from vrag.agent.background import run_in_thread
from vrag.agent.budget import Spending
from vrag.agent.environment import Environment
from vrag.agent.events import (
    AnswerGiven,
    ContextShortened,
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
from vrag.agent.evidence import Evidence, check_evidence
from vrag.agent.method import ActionOutcome, Context, Episode, Method
from vrag.agent.policy import EnclosedImage, FinishReason, Picture, Policy, Reply, Retry
from vrag.agent.question import Question
from vrag.agent.replies.reply_stream import ReplyStream
from vrag.agent.replies.sanitize import encodable
from vrag.agent.replies.tool_calls import AnswerNode
from vrag.agent.runs.event_log import EventLog
from vrag.errors import (
    CollectionError,
    ContextTooLong,
    CorpusError,
    MissingExtra,
    ModelError,
    SearchError,
    VragError,
)

T = TypeVar("T")
GRACE_SECONDS = 5.0
"""Time to check the evidence of an answer, once the seconds of a run are used up."""
_MAX_SHORTENED_STEPS = 3
"""Steps in which the context may be too long; in the last of them the model is asked to answer."""
_TOO_LONG_ALONE = "It is too long even without pictures."


class _Cancelled(Exception):
    """The run was cancelled."""


class _OutOfTime(Exception):
    """The run has used up its seconds."""


@dataclass(slots=True)
class _ModelCall:
    """One call of the model: its context and the reply."""

    context: Context
    may_continue: bool
    """True if the model may be asked again after it."""
    stream: ReplyStream = field(default_factory=ReplyStream)


@dataclass(slots=True, kw_only=True)
class Run:
    """The state of one run."""

    policy: Policy
    environment: Environment
    method: Method
    settings: RunSettings
    notices: tuple[str, ...]
    question: Question
    log: EventLog
    cancel: asyncio.Event
    stop: StopReason | None = None
    spent: Spending = field(default_factory=Spending)
    started: float = field(default_factory=time.perf_counter)
    cancelling: asyncio.Future[Any] | None = None
    too_long: set[int] = field(default_factory=set[int])
    """Steps in which the context was too long."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events from the start to the end; failures are events too."""
        self.cancelling = asyncio.ensure_future(self.cancel.wait())
        try:
            async with aclosing(self._with_failures_as_events()) as events:
                async for event in events:
                    yield event
        finally:
            self.cancelling.cancel()
            await asyncio.gather(self.cancelling, return_exceptions=True)

    async def _with_failures_as_events(self) -> AsyncGenerator[Event, None]:
        try:
            await self._start()
            for event in self.log.drain():
                yield event
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except _Cancelled:
            self.log = self.log.detached()
            self._end(StopReason.CANCELLED)
        except _OutOfTime:
            self._end(StopReason.OUT_OF_BUDGET)
        except ContextTooLong as error:
            self._fail(error, StopReason.OUT_OF_TOKENS)
        except ModelError as error:
            self._fail(error, StopReason.MODEL_ERROR)
        except (SearchError, CollectionError, CorpusError, MissingExtra) as error:
            self._fail(error, StopReason.SEARCH_ERROR)
        for event in self.log.drain():
            yield event

    async def _start(self) -> None:
        """Add the first event, also when the collection cannot be reached."""
        version = ""
        try:
            version = await self._interruptible(run_in_thread(self._collection_version))
        finally:
            self.log.add(
                RunStarted,
                question=self.question.text,
                settings=self.settings,
                collection=version,
                history=self.question.history,
                attached=tuple(image.sha256 for image in self.question.images),
                session=self.question.session,
                notices=self.notices,
            )

    def _collection_version(self) -> str:
        """Save the pictures of the question and return the version of the collection."""
        for image in self.question.images:
            self.log.save_file(f"{image.sha256}.jpg", image.jpeg)
        return self.environment.searcher.version

    async def _steps(self) -> AsyncGenerator[Event, None]:
        method, environment = self.method, self.environment
        episode = await self._interruptible(run_in_thread(lambda: method.begin(environment, self.question)))
        outcome: ActionOutcome | None = None
        try:
            while self.stop is None:
                async with aclosing(self._step(episode)) as parts:
                    async for part in parts:
                        if isinstance(part, ActionOutcome):
                            outcome = part
                        else:
                            yield part
        except _OutOfTime:
            self.log = self.log.detached()
            self.stop = StopReason.OUT_OF_BUDGET
        except (ModelError, SearchError, CollectionError):
            outcome = episode.conclude(self.log)
            if outcome.answer is None:
                raise
        if outcome is None or outcome.answer is None:
            outcome = episode.conclude(self.log)
        await self._give_answer(episode, outcome.answer)

    async def _give_answer(self, episode: Episode, answer: Answer | AnswerNode | None) -> None:
        """End the run with an answer and its evidence, as far as there is time to check that."""
        self.stop = _answer_reason(answer) or self.stop
        assert self.stop is not None
        text = None if answer is None or answer.abstains else answer.text
        environment = self.environment
        checking = run_in_thread(
            lambda: check_evidence(episode.evidence(answer and answer.text), environment)
        )
        try:
            evidence, faults = await self._interruptible(checking, grace=GRACE_SECONDS)
        except _OutOfTime:
            evidence, faults = (), ("There was no time left to check the evidence.",)
        self._end(self.stop, text, evidence, faults)

    async def _step(self, episode: Episode) -> AsyncGenerator[Event | ActionOutcome, None]:
        """Call the model once and carry out its action; sets `stop` when it was the last call."""
        began = time.perf_counter()
        if not self.log.step:
            await self._prepare(episode)
        may_continue = self.log.step + 1 < self.settings.limits.steps
        call = _ModelCall(episode.context(last=not may_continue), may_continue)
        if not self.spent.allows(self.settings.limits, self._visual_tokens(call.context.pictures)):
            self.stop = StopReason.OUT_OF_BUDGET
            return
        self.log.step += 1
        for event in self.log.drain():
            yield event
        async with aclosing(self._ask(episode, call)) as events:
            async for event in events:
                yield event
        reply, model_seconds = call.stream.done(self.policy.name), call.stream.seconds
        turn = episode.parse(reply.text, last=not call.may_continue, cut=reply.finish is FinishReason.LENGTH)
        try:
            await self._add_call(call, reply, turn)
            if turn.thought:
                self.log.add(ThoughtGiven, text=turn.thought)
            episode.announce(turn, self.log)
            for event in self.log.drain():
                yield event
            acting = run_in_thread(lambda: episode.step(turn, self.log, more=call.may_continue))
            outcome = await self._interruptible(acting)
        finally:  # the call has a cost even if its action fails
            self._add_usage(call, reply, time.perf_counter() - began, model_seconds)
        for event in self.log.drain():
            yield event
        yield outcome
        self.stop = _stop_after(outcome, turn, reply, call.may_continue)

    async def _prepare(self, episode: Episode) -> None:
        """Prepare the first call; its events belong to step 1, also where no budget is left for the call."""
        self.log.step = 1
        await self._interruptible(run_in_thread(lambda: episode.prepare(self.log)))
        self.log.step = 0

    async def _ask(self, episode: Episode, call: _ModelCall) -> AsyncGenerator[Event, None]:
        """Ask the policy, with fewer pictures as long as the context is too long.

        Raises:
            ModelError: If there is no reply.
        """
        while True:
            try:
                async with aclosing(self._read_reply(call)) as events:
                    async for event in events:
                        yield event
            except ContextTooLong as error:
                self._shorten(episode, call, error)
                call.stream.restart()
                for event in self.log.drain():
                    yield event
            else:
                return

    def _shorten(self, episode: Episode, call: _ModelCall, error: ContextTooLong) -> None:
        """Remove pictures from the context of a call, which is too long.

        Raises:
            ContextTooLong: If no pictures are left to remove.
        """
        if not self.method.repair:
            raise error
        self.too_long.add(self.log.step)
        call.may_continue = call.may_continue and len(self.too_long) < _MAX_SHORTENED_STEPS
        dropped = episode.shorten(last=not call.may_continue)
        if dropped:
            self.log.add(ContextShortened, reason=error.message, dropped=dropped)
            call.context = episode.context(last=not call.may_continue)
        elif _TOO_LONG_ALONE in error.message:  # as a recorded one says already
            raise error
        else:
            raise ContextTooLong(f"{error.message} {_TOO_LONG_ALONE}", error.hint)

    async def _read_reply(self, call: _ModelCall) -> AsyncGenerator[Event, None]:
        """Ask the policy once and collect the reply in the stream of the call."""
        stream = call.stream
        parts = self.policy.reply(call.context.messages, self.log.step)
        async with aclosing(parts):
            while (part := await self._interruptible(_next(parts))) is not None:
                match part:
                    case Reply():
                        stream.reply = replace(part, text=encodable(part.text))
                        return
                    case Retry(reason, seconds):
                        self.log.add(
                            ModelRetried,
                            reason=reason,
                            seconds=seconds,
                            partial="".join(stream.chunks),
                            chunks=stream.lengths,
                        )
                        stream.restart()
                    case _ if thought := stream.add(encodable(part.text)):
                        self.log.add(ThoughtDelta, text=thought)
                    case _:
                        continue
                for event in self.log.drain():
                    yield event

    async def _interruptible(self, work: Awaitable[T], *, grace: float = 0.0) -> T:
        """Await `work` until it is done, the run is cancelled, or its time is up.

        Args:
            work: Cancelled when it is no longer waited for; work in a thread is left behind.
            grace: Seconds that it gets at least.

        Raises:
            _Cancelled: As soon as the run is cancelled.
            _OutOfTime: As soon as the run has used up its seconds.
        """
        assert self.cancelling is not None
        limit = self.settings.limits.seconds
        left = None if limit is None else max(grace, limit - (time.perf_counter() - self.started))
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self.cancelling}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self.cancelling.done():
                raise _Cancelled
            if not task.done():
                raise _OutOfTime
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _add_call(self, call: _ModelCall, reply: Reply, turn: Turn[Any]) -> None:
        messages = [message for message in call.context.messages if message not in self.log.hashes]
        if messages and self.log.save is not None:
            saving = run_in_thread(lambda: [self.log.save_message(message) for message in messages])
            await self._interruptible(saving)
        self.log.add(
            ModelCalled,
            messages=tuple(self.log.save_message(message) for message in call.context.messages),
            reply=reply.text,
            executed=len(turn.executed),
            chunks=call.stream.lengths,
            finish=reply.finish,
            flags=tuple(sorted(turn.flags)),
            repairs=turn.repairs,
            prompt_ids=reply.sampled.prompt_ids,
            ids=reply.sampled.ids,
            logprobs=reply.sampled.logprobs,
            sampling=dict(self.policy.sampling),
        )

    def _add_usage(self, call: _ModelCall, reply: Reply, seconds: float, model_seconds: float) -> None:
        """Add the cost of a call; without token counts, at least visual tokens and pieces of text count."""
        tokens, context = reply.tokens, call.context
        cost = self.settings.prices.cost(tokens.prompt, tokens.completion, tokens.cached)
        visual_tokens = self._visual_tokens(context.pictures)
        pieces = len(call.stream.chunks)
        self.spent.add(
            tokens=(visual_tokens if tokens.prompt is None else tokens.prompt)
            + (pieces if tokens.completion is None else tokens.completion),
            visual_tokens=visual_tokens,
            cost=cost or 0.0,
        )
        self.log.add(
            UsageReported,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            visual_tokens=visual_tokens,
            memory_tokens=self._visual_tokens(context.remembered),
            fresh_tokens=self._visual_tokens(context.fresh),
            pixels=sum(picture.canvas.area for picture in context.pictures),
            seconds=seconds,
            model_seconds=model_seconds,
            cost=cost,
        )

    def _visual_tokens(self, pictures: Sequence[Picture | EnclosedImage]) -> int:
        return sum(self.environment.profile.visual_tokens(picture.canvas) for picture in pictures)

    def _end(
        self,
        reason: StopReason,
        text: str | None = None,
        evidence: tuple[Evidence, ...] = (),
        faults: tuple[str, ...] = (),
    ) -> None:
        self.log.add(AnswerGiven, text=text, evidence=evidence, unsupported=faults, stop_reason=reason)

    def _fail(self, error: VragError, reason: StopReason) -> None:
        self.log.add(RunFailed, boundary=type(error).__name__, message=str(error), stop_reason=reason)


async def _next(parts: AsyncGenerator[T, None]) -> T | None:
    try:
        return await anext(parts, None)
    except MissingExtra as error:
        raise ModelError(error.message, error.hint) from error


def _answer_reason(answer: Answer | AnswerNode | None) -> StopReason | None:
    if answer is None:
        return None
    return StopReason.ABSTAINED if answer.abstains else StopReason.ANSWERED


def _stop_after(
    outcome: ActionOutcome, turn: Turn[Any], reply: Reply, may_continue: bool
) -> StopReason | None:
    if (reason := _answer_reason(outcome.answer)) is not None:
        return reason
    if reply.finish is FinishReason.LENGTH and isinstance(turn.action, Invalid):
        return StopReason.OUT_OF_TOKENS  # it was cut off before it came to an action
    return None if may_continue else StopReason.OUT_OF_STEPS
