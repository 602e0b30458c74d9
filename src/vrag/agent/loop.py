"""The loop of a run, the same for every method.

`Run.events` turns failures into events, `Run._run` is the loop, and `Run._step` one round of it: ask the
model, parse the reply, carry out its action. Events are added to the log and yielded as soon as they are
there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from vrag.agent.actions import Answer, Invalid, Turn
from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.answers.claim_judge import ClaimJudge, judge_claims
from vrag.agent.answers.conflicts import MAX_CONFLICTS, ConflictJudgement, FoundConflict
from vrag.agent.answers.draft import AnswerDraft
from vrag.agent.answers.draft_citations import DraftCitations
from vrag.agent.answers.review import AnswerReview, ReviewOptions, read_claims_again, review_answer
from vrag.agent.answers.verification import (
    VerifyMode,
    claims_in_doubt,
    describe_doubts,
    hide_judgements,
    read_judgements,
)
from vrag.agent.budget import Spending
from vrag.agent.environment import Environment
from vrag.agent.events import (
    AnswerCited,
    AnswerDelta,
    AnswerDoubted,
    AnswerGiven,
    ConflictFound,
    ContextShortened,
    DocumentChoice,
    DraftMode,
    Event,
    ModelCalled,
    ModelFailed,
    ModelRetried,
    RunFailed,
    RunSettings,
    RunStarted,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.method import ActionOutcome, Context, Episode, Method
from vrag.agent.policy import (
    WITHOUT_MODEL,
    Delta,
    EnclosedImage,
    FinishReason,
    Picture,
    Policy,
    Reply,
    Retry,
)
from vrag.agent.prompts import encodable
from vrag.agent.question import Question
from vrag.agent.replies.reply_text import Thinking
from vrag.agent.replies.tool_calls import AnswerNode
from vrag.agent.runs.event_log import EventLog
from vrag.background import run_in_thread
from vrag.errors import (
    CollectionError,
    ContextTooLong,
    CorpusError,
    MissingExtra,
    ModelError,
    RunError,
    SearchError,
    VragError,
)
from vrag.reading.page_faults import collect_page_faults, describe_fault
from vrag.search.searcher import ItemStore

T = TypeVar("T")
log = logging.getLogger("vrag.agent")
GRACE_SECONDS = 5.0
"""Time to check the evidence of an answer, once the seconds of a run are used up."""
MAX_OFFERED = 2
"""Conflicts that a model is asked to judge."""
_ANSWER_EXPECTED = "Another answer was asked for; the first one stands."
_MAX_SHORTENED_STEPS = 3
"""Steps in which the context may be too long; in the last of them the model is asked to answer."""
_TOO_LONG_ALONE = "It is too long even without pictures."


class _Cancelled(Exception):
    """The run was cancelled."""


class _OutOfTime(Exception):
    """The run has used up its seconds."""


@dataclass(slots=True)
class ModelCall:
    """One call of the model: its context, and the reply piece by piece."""

    context: Context
    may_continue: bool
    """True if the model may be asked again after it."""
    began: float = field(default_factory=time.perf_counter)
    parts: AsyncGenerator[Delta | Retry | Reply, None] | None = None
    """The parts of the reply as the policy writes them; None before an attempt."""
    chunks: list[str] = field(default_factory=list[str])
    thinking: Thinking = field(default_factory=Thinking)
    draft: AnswerDraft | None = None
    """The answer in the reply so far; None where it is not followed."""
    citing: DraftCitations | None = None
    """The search for what it rests on; None before its first words, and where nobody asks."""
    reply: Reply | None = None
    """The whole reply; None until it has come."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the pieces, in characters."""
        return tuple(map(len, self.chunks))

    def add(self, text: str) -> str:
        """Add a piece, and return what it adds to the thought."""
        self.chunks.append(text)
        return self.thinking.add(text)

    def restart(self) -> None:
        """Forget the pieces: the call is made again."""
        self.chunks, self.thinking, self.draft = [], Thinking(), None
        self.cancel_citing()

    def cancel_citing(self) -> None:
        """Look no more for what the draft rests on."""
        if self.citing is not None:
            self.citing.cancel()
            self.citing = None

    async def aclose(self) -> None:
        """Close the attempt, so that no connection is left open."""
        self.cancel_citing()
        if self.parts is not None:
            await self.parts.aclose()
            self.parts = None


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
    outcome: ActionOutcome = field(default_factory=ActionOutcome)
    """The outcome of the last action."""
    spent: Spending = field(default_factory=Spending)
    started: float = field(default_factory=time.perf_counter)
    cancelling: asyncio.Future[Any] | None = None
    judge: ClaimJudge | None = None
    """The model that judges on the pictures of the evidence; None for rules alone."""
    explain_absence: Callable[[], str] | None = None
    """Returns why nothing may have been found; None where nobody can tell."""
    drawn: ItemStore | None = None
    """The items whose pictures the second reading draws; None for those of the environment."""
    answer: Answer | AnswerNode | None = None
    """The answer that stands; None while there is none."""
    is_reopened: bool = False
    """True once the model was told that its answer is in doubt."""
    is_last_turn: bool = False
    """True if nothing but another answer is expected: the model was shown conflicts, and nothing else is in
    doubt."""
    offered: tuple[FoundConflict, ...] = ()
    """The conflicts that it was shown, with its judgements."""
    too_long: set[int] = field(default_factory=set[int])
    """Steps in which the context was too long."""
    choices: tuple[DocumentChoice, ...] | None = None
    """The documents that the question may be about; None before the first search."""
    page_faults: dict[str, None] = field(default_factory=dict[str, None])
    """Sentences about what of the pages could not be read, by a fault of the program."""

    @property
    def is_without_model(self) -> bool:
        """True without a model: then nothing is repaired, withdrawn or judged."""
        return self.settings.policy == WITHOUT_MODEL

    @property
    def follows_draft(self) -> bool:
        """True if there are events of an answer while it is written.

        None that may be withdrawn is shown, nor one with judgements of conflicts around it.
        """
        may_follow = self.settings.verify is not VerifyMode.WITHDRAW and not self.offered
        return self.settings.draft is not DraftMode.OFF and may_follow

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events from the start to the end; failures are events too."""
        self.cancelling = asyncio.ensure_future(self.cancel.wait())
        try:
            async with aclosing(self._run()) as events:
                async for event in events:
                    yield event
        except _Cancelled:
            self.log = self.log.detached()
            self.log.add(AnswerGiven, text=None, evidence=(), stop_reason=StopReason.CANCELLED)
        except _OutOfTime:
            self.log.add(AnswerGiven, text=None, evidence=(), stop_reason=StopReason.OUT_OF_BUDGET)
        except ContextTooLong as error:
            self._fail(error, StopReason.OUT_OF_TOKENS)
        except ModelError as error:
            self._fail(error, StopReason.MODEL_ERROR)
        except (SearchError, CollectionError, CorpusError, MissingExtra) as error:
            self._fail(error, StopReason.SEARCH_ERROR)
        except (RunError, MemoryError):  # of the machine; the run cannot be written, or nothing can
            raise
        except Exception as error:  # noqa: BLE001 - a bug in the program ends the run as failed, too
            log.error("The run %s failed.", self.log.run_id, extra={"fault": error})  # noqa: TRY400
            self._fail(error, StopReason.FAULT)
        finally:
            self.cancelling.cancel()
            await asyncio.gather(self.cancelling, return_exceptions=True)
        for event in self.log.drain():
            yield event

    def _fail(self, error: Exception, reason: StopReason) -> None:
        """Add the last event. Messages of faults are left out, since they may hold anything."""
        is_fault = not isinstance(error, VragError)
        message = (
            f"This is a fault of vrag: {describe_fault(error)}. Please report it." if is_fault else str(error)
        )
        self.log.add(
            RunFailed,
            boundary=type(error).__name__,
            message=message,
            stop_reason=reason,
        )

    async def _run(self) -> AsyncGenerator[Event, None]:
        """Begin an episode, take steps until something stops them, and give the answer with its evidence."""
        await self._start()
        for event in self.log.drain():
            yield event
        self.environment = self.environment.about(self.question)
        episode = await self._in_thread(lambda: self.method.begin(self.environment, self.question))

        async with aclosing(self._take_steps(episode)) as events:
            async for event in events:
                yield event
        review = await self._review(episode)
        doubts, conflicts = self._find_doubts(review), self._find_offered(episode, review)
        if doubts or conflicts:
            first, stop = review, self.stop
            await self._reopen(episode, review, doubts, conflicts)
            async with aclosing(self._take_steps(episode)) as events:
                async for event in events:
                    yield event
            review = first if self.answer is None else await self._review(episode)
            review = self._add_judgements(review)
            self.stop = stop if self.answer is None else self.stop
        self._give(review, await self._find_absence(review))

    async def _find_absence(self, review: AnswerReview) -> str:
        """Return why a run without a model has found nothing; empty where it has."""
        is_nothing = review.text is None and not review.evidence and self.is_without_model
        if self.explain_absence is None or not is_nothing:
            return ""
        try:
            return await self._in_thread(self.explain_absence, grace=GRACE_SECONDS)
        except _OutOfTime:
            return ""

    async def _take_steps(self, episode: Episode) -> AsyncGenerator[Event, None]:
        """Take steps until there is an answer or a limit is reached; sets `answer`."""
        self.answer = None
        try:
            while self.stop is None:
                async with aclosing(self._step(episode)) as events:
                    async for event in events:
                        yield event
                if self.is_last_turn:
                    break
            self.answer = self.outcome.answer
        except _OutOfTime:
            self.log = self.log.detached()
            self.stop = StopReason.OUT_OF_BUDGET
        except (ModelError, SearchError, CollectionError):
            self.answer = episode.conclude(self.log).answer
            if self.answer is None and not self.is_reopened:
                raise
        except (CorpusError, MissingExtra):
            if not self.is_reopened:
                raise
        if self.answer is None:
            self.answer = episode.conclude(self.log).answer

    async def _review(self, episode: Episode) -> AnswerReview:
        """Return the answer with its evidence, citations and verdicts, as far as there is time for them."""
        answer = self.answer
        said = None if answer is None else answer.text
        text = None if answer is None or answer.abstains else said
        review_in_thread = partial(
            review_answer,
            self.question,
            said,
            episode,
            self.environment,
            given=text,
            options=ReviewOptions(
                locate=self.settings.locate,
                verify=self.settings.verify is not VerifyMode.OFF,
                conflicts=self.settings.conflicts,
                places=self.is_without_model,
            ),
        )
        try:
            review = await self._in_thread(review_in_thread, grace=GRACE_SECONDS)
        except _OutOfTime:
            review = AnswerReview(text, faults=("There was no time left to check the evidence.",))
        if review.checks and self.settings.second_reading:
            read_in_thread = partial(
                read_claims_again,
                self.question,
                review,
                self.environment,
                self.drawn or self.environment.searcher,
                places=self.is_without_model,
            )
            with suppress(_OutOfTime):  # what the text says stays stated
                review = await self._in_thread(read_in_thread, grace=GRACE_SECONDS)
        if self.judge is not None and review.to_judge is not None and not self.is_without_model:
            judging = judge_claims(self.judge, review.to_judge)
            try:
                claims = await self._interruptible(judging, grace=GRACE_SECONDS)
                review = replace(review, claims=claims)
            except _OutOfTime:
                pass  # the verdicts of the rules stand
        for picture in review.pictures:
            self.log.save_file(f"{picture.sha256}.jpg", picture.jpeg)
        is_retracted = text is not None and review.text is None
        reason = StopReason.ABSTAINED if is_retracted else _answer_reason(answer)
        return replace(review, stop_reason=reason or self.stop)

    def _may_answer_anew(self, review: AnswerReview) -> bool:
        """Return whether the model may answer anew: it gave an answer, and steps are left."""
        return (
            not self.is_without_model
            and review.stop_reason is StopReason.ANSWERED
            and self.log.step < self.settings.limits.steps
        )

    def _find_doubts(self, review: AnswerReview) -> tuple[CheckedClaim, ...]:
        """Return the claims in doubt that the model is told about."""
        is_repairing = self.settings.verify is VerifyMode.REPAIR and self._may_answer_anew(review)
        return claims_in_doubt(review.claims) if is_repairing else ()

    def _find_offered(self, episode: Episode, review: AnswerReview) -> tuple[FoundConflict, ...]:
        """Return the conflicts that the model is asked to judge: it was shown the items of both sides."""
        if self.settings.verify is VerifyMode.OFF or not self._may_answer_anew(review):
            return ()
        shown = frozenset(episode.seen)
        offered = (one for one in review.conflicts if all(side.item in shown for side in one.sides))
        return tuple(offered)[:MAX_OFFERED]

    async def _reopen(
        self,
        episode: Episode,
        review: AnswerReview,
        doubts: Sequence[CheckedClaim],
        conflicts: tuple[FoundConflict, ...],
    ) -> None:
        """Tell the model what of its answer is in doubt, and show it the conflicts."""
        assert review.text is not None
        self.log.add(AnswerDoubted, text=review.text, claims=review.claims, conflicts=conflicts)
        described = describe_doubts(review.text, doubts) if doubts else ""
        self.outcome, self.is_reopened = ActionOutcome(), True
        self.offered, self.is_last_turn = conflicts, not doubts
        try:
            await self._in_thread(lambda: episode.reopen(described, conflicts, self.log), grace=GRACE_SECONDS)
            self.stop = None
        except _OutOfTime:
            self.log, self.stop = self.log.detached(), StopReason.OUT_OF_BUDGET

    def _add_judgements(self, review: AnswerReview) -> AnswerReview:
        """Return a review with the conflicts that the model was shown, and its judgements on them."""
        judged = {one.places for one in self.offered}
        others = (one for one in review.conflicts if one.places not in judged)
        return replace(review, conflicts=(*self.offered, *others)[:MAX_CONFLICTS])

    def _give(self, review: AnswerReview, absence: str) -> None:
        """Add the last event: the answer, unless it is in doubt and to be withdrawn."""
        may_withdraw = self.settings.verify is VerifyMode.WITHDRAW and not self.is_without_model
        withdrawn = may_withdraw and bool(claims_in_doubt(review.claims))
        for conflict in review.conflicts:
            self.log.add(ConflictFound, conflict=conflict)
        self.log.add(
            AnswerGiven,
            text=None if withdrawn else review.text,
            evidence=review.evidence,
            reading=review.reading,
            citations=review.citations,
            claims=review.claims,
            named=review.named,
            withdrawn=review.text if withdrawn else None,
            unsupported=(*review.faults, *self.page_faults),
            absence=absence,
            choices=self.choices or (),
            stop_reason=StopReason.ABSTAINED if withdrawn else review.stop_reason,
        )

    async def _start(self) -> None:
        """Save the pictures of the question, and add the first event: also when the collection is gone."""
        version = ""

        def read_version() -> str:
            for image in self.question.images:
                self.log.save_file(f"{image.sha256}.jpg", image.jpeg)
            return self.environment.searcher.version

        try:
            version = await self._in_thread(read_version)
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

    async def _step(self, episode: Episode) -> AsyncGenerator[Event, None]:
        """Call the model once and carry out its action; sets `stop` when it was the last call."""
        began = time.perf_counter()
        if not self.log.step:  # these events belong to step 1, also where no budget is left for the call
            self.log.step = 1
            await self._in_thread(lambda: self._find_choices(episode.prepare(self.log)))
            self.log.step = 0
        may_continue = self.log.step + 1 < self.settings.limits.steps and not self.is_last_turn
        call = ModelCall(episode.context(last=not may_continue), may_continue)
        if not self.spent.allows(self.settings.limits, self._visual_tokens(call.context.pictures)):
            self.stop = StopReason.OUT_OF_BUDGET
            return
        self.log.step += 1

        async with aclosing(self._receive(episode, call)) as events:
            async for event in events:
                yield event
        model_seconds = time.perf_counter() - call.began
        reply = call.reply
        assert reply is not None
        was_cut = reply.finish is FinishReason.LENGTH
        turn = self._parse(episode, reply.text, last=not call.may_continue, cut=was_cut)

        try:
            await self._add_call(call, reply, turn)
            if turn.thought:
                self.log.add(ThoughtGiven, text=turn.thought)
            episode.announce(turn, self.log)
            for event in self.log.drain():
                yield event
            self.outcome = await self._in_thread(
                lambda: self._find_choices(episode.step(turn, self.log, more=call.may_continue))
            )
        finally:  # the call has a cost even if its action fails
            self._add_usage(call, reply, time.perf_counter() - began, model_seconds)
        for event in self.log.drain():
            yield event

        self.stop = _answer_reason(self.outcome.answer)
        if self.stop is None and was_cut and isinstance(turn.action, Invalid):
            self.stop = StopReason.OUT_OF_TOKENS  # it was cut off before it came to an action
        elif self.stop is None and not call.may_continue:
            self.stop = StopReason.OUT_OF_STEPS

    def _parse(self, episode: Episode, reply: str, *, last: bool, cut: bool) -> Turn[Any]:
        """Parse a reply, and take the judgements on conflicts out of it.

        Where an answer is to be given once more, nothing else is carried out or read as one.
        """
        if not self.offered:
            return episode.parse(reply, last=last, cut=cut)
        judgements = read_judgements(reply, len(self.offered))
        self.offered = tuple(map(_judge, self.offered, judgements))
        turn = episode.parse(hide_judgements(reply), last=last and not self.is_last_turn, cut=cut)
        is_expected = not self.is_last_turn or isinstance(turn.action, Answer | AnswerNode | Invalid)
        return turn if is_expected else replace(turn, action=Invalid(_ANSWER_EXPECTED))

    def _find_choices(self, outcome: T) -> T:
        """Find the documents that the question may be about, after the first search; returns its outcome."""
        searches = (event for event in self.log.waiting if isinstance(event, SearchReturned))
        if self.choices is None and (first := next(searches, None)) is not None:
            items = self.environment.list_choices(self.question.text, first.hits)
            self.choices = tuple(DocumentChoice(document=item.document, name=item.title) for item in items)
        return outcome

    async def _receive(self, episode: Episode, call: ModelCall) -> AsyncGenerator[Event, None]:
        """Receive the reply of a call, and yield its events; raises `ModelError` if there is none."""
        try:
            while call.reply is None:
                for event in self.log.drain():
                    yield event
                await self._read_part(episode, call)
        except ModelError:
            if call.chunks and self.settings.draft is not DraftMode.OFF:
                self.log.add(ModelFailed, partial="".join(call.chunks), chunks=call.lengths)
            raise
        finally:
            await call.aclose()

    async def _read_part(self, episode: Episode, call: ModelCall) -> None:
        """Read the next part of the reply; ask with fewer pictures where the context is too long.

        Raises `ModelError` if there is no reply.
        """
        if call.parts is None:
            call.parts = self.policy.reply(call.context.messages, self.log.step)
        try:
            part = await self._interruptible(_next(call.parts))
        except ContextTooLong as error:
            await call.aclose()
            self._shorten(episode, call, error)
            call.restart()
            return
        match part:
            case None:
                raise ModelError(f"The policy {self.policy.name} ended without a reply.")
            case Reply():
                call.reply = replace(part, text=encodable(part.text))
            case Retry(reason, seconds):
                partial = "".join(call.chunks)
                self.log.add(
                    ModelRetried, reason=reason, seconds=seconds, partial=partial, chunks=call.lengths
                )
                call.restart()
            case Delta(text):
                await self._add_piece(episode, call, encodable(text))

    async def _add_piece(self, episode: Episode, call: ModelCall, text: str) -> None:
        """Add a piece of a reply, with what it adds to the thought or to the answer."""
        if call.draft is None and not call.chunks and self.follows_draft:
            call.draft = episode.begin_draft(last=not call.may_continue)
        if thought := call.add(text):
            self.log.add(ThoughtDelta, text=thought)
        if call.draft is None:
            return
        pieces = call.draft.add(text)
        for piece in pieces:
            self.log.add(AnswerDelta, text=piece.text, follows_marker=piece.follows_marker)
        if pieces and self.settings.draft is DraftMode.CITED:
            await self._cite_draft(episode, call, call.draft)

    async def _cite_draft(self, episode: Episode, call: ModelCall, draft: AnswerDraft) -> None:
        """Look for what the draft rests on after each of its sentences, and add it when it is due."""
        if call.citing is None:
            verify = self.settings.verify is not VerifyMode.OFF
            call.citing = DraftCitations.of(self.question, episode, verify=verify)
        if (due := call.citing.take_due(draft)) is not None:
            cited = await self._interruptible(due)
            for picture in cited.pictures:
                self.log.save_file(f"{picture.sha256}.jpg", picture.jpeg)
            if cited.citations:
                length = len(cited.text)
                self.log.add(AnswerCited, length=length, citations=cited.citations, evidence=cited.evidence)
        call.citing.follow(draft)

    def _shorten(self, episode: Episode, call: ModelCall, error: ContextTooLong) -> None:
        """Remove pictures from the context of a call, which is too long.

        Raises `ContextTooLong` if no pictures are left to remove.
        """
        if not self.method.repair:
            raise error
        self.too_long.add(self.log.step)
        call.may_continue = call.may_continue and len(self.too_long) < _MAX_SHORTENED_STEPS
        dropped = episode.shorten(last=not call.may_continue)
        if dropped:
            chunks = call.chunks if self.settings.draft is not DraftMode.OFF else []
            self.log.add(
                ContextShortened,
                reason=error.message,
                dropped=dropped,
                partial="".join(chunks),
                chunks=tuple(map(len, chunks)),
            )
            call.context = episode.context(last=not call.may_continue)
        elif _TOO_LONG_ALONE in error.message:  # as a recorded one says already
            raise error
        else:
            raise ContextTooLong(f"{error.message} {_TOO_LONG_ALONE}", error.hint)

    async def _in_thread(self, work: Callable[[], T], *, grace: float = 0.0) -> T:
        return await self._interruptible(run_in_thread(work), grace=grace)

    async def _interruptible(self, work: Awaitable[T], *, grace: float = 0.0) -> T:
        """Await `work` until it is done, the run is cancelled, or its time is up.

        It is cancelled when it is no longer waited for; work in a thread is left behind. Raises `_Cancelled`
        as soon as the run is cancelled, and `_OutOfTime` as soon as it has used up its seconds; `grace` are
        seconds that the work gets at least.
        """
        assert self.cancelling is not None
        limit = self.settings.limits.seconds
        left = None if limit is None else max(grace, limit - (time.perf_counter() - self.started))
        task = asyncio.ensure_future(self._collect_faults(work))
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

    async def _collect_faults(self, work: Awaitable[T]) -> T:
        with collect_page_faults(self.page_faults):
            return await work

    async def _add_call(self, call: ModelCall, reply: Reply, turn: Turn[Any]) -> None:
        messages = [message for message in call.context.messages if message not in self.log.hashes]
        if messages and self.log.save is not None:
            await self._in_thread(lambda: [self.log.save_message(message) for message in messages])
        self.log.add(
            ModelCalled,
            messages=tuple(self.log.save_message(message) for message in call.context.messages),
            reply=reply.text,
            executed=len(turn.executed),
            chunks=call.lengths,
            finish=reply.finish,
            flags=tuple(sorted(turn.flags)),
            repairs=turn.repairs,
            prompt_ids=reply.sampled.prompt_ids,
            ids=reply.sampled.ids,
            logprobs=reply.sampled.logprobs,
            sampling=dict(self.policy.sampling),
        )

    def _add_usage(self, call: ModelCall, reply: Reply, seconds: float, model_seconds: float) -> None:
        """Add the cost of a call; without token counts, at least visual tokens and pieces of text count."""
        tokens, context = reply.tokens, call.context
        cost = self.settings.prices.cost(tokens.prompt, tokens.completion, tokens.cached)
        visual_tokens = self._visual_tokens(context.pictures)
        pieces = len(call.chunks)
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


async def _next(parts: AsyncGenerator[T, None]) -> T | None:
    try:
        return await anext(parts, None)
    except MissingExtra as error:
        raise ModelError(error.message, error.hint) from error


def _judge(conflict: FoundConflict, judgement: ConflictJudgement | None) -> FoundConflict:
    """Return a conflict with a judgement; the one before stays where there is none."""
    return conflict if judgement is None else conflict.model_copy(update={"judgement": judgement})


def _answer_reason(answer: Answer | AnswerNode | None) -> StopReason | None:
    if answer is None:
        return None
    return StopReason.ABSTAINED if answer.abstains else StopReason.ANSWERED
