"""The VRAG loop: thought, action, observation (VRAG-RL, arXiv 2505.22019)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.actions import Answer, Crop, Search, Turn, parse, thought_so_far
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    Event,
    EventBase,
    ImageShown,
    InvalidAction,
    ModelCalled,
    PassageShown,
    RunFailed,
    RunSettings,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import evidence_of
from vrag.agent.policy import FinishReason, Message, Picture, Reply, Role, Text
from vrag.agent.prompts import prompt
from vrag.agent.trajectory import Trajectory
from vrag.errors import CollectionError, CorpusError, ModelError, SearchError, VragError
from vrag.geometry import Space

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from vrag.agent.environment import Environment, Episode, Observation
    from vrag.agent.policy import Delta, Policy

__all__ = ["SaveFile", "VragAgent"]

SaveFile = Callable[[str, bytes], None]
"""Keeps a file that events name by hash: `<sha256>.png` or `<sha256>.json`, and its bytes."""

E = TypeVar("E", bound=EventBase)


@dataclass(frozen=True, slots=True)
class VragAgent:
    """Answers questions by searching, cropping and looking.

    It keeps nothing of any run: one agent serves many questions at once.
    """

    policy: Policy
    environment: Environment
    max_steps: int = 10
    """Model calls, invalid ones included."""

    @property
    def settings(self) -> RunSettings:
        """What a replay needs to know beside the replies."""
        return RunSettings(
            agent="vrag",
            policy=self.policy.name,
            profile=self.environment.profile.name,
            max_steps=self.max_steps,
            environment=self.environment.options,
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
        run = _Run(
            self, _encodable(question.strip()), run_id or uuid.uuid4().hex, save, cancel or asyncio.Event()
        )
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
                thread.submit(runner.run, events.aclose()).result()
                thread.submit(runner.close).result()

    async def arun(self, question: str, *, cancel: asyncio.Event | None = None) -> Trajectory:
        """Runs one question to its end."""
        return Trajectory.of([event async for event in self.astream(question, cancel=cancel)])

    def run(self, question: str) -> Trajectory:
        """Like `arun`, for code that is not asynchronous."""
        return Trajectory.of(self.stream(question))


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


@dataclass(slots=True)
class _Run:
    """The state of one run."""

    agent: VragAgent
    question: str
    run_id: str
    save: SaveFile | None
    cancel: asyncio.Event
    seq: int = 0
    step: int = 0
    history: list[Message] = field(default_factory=list[Message])
    message_hashes: list[str] = field(default_factory=list[str])

    async def events(self) -> AsyncGenerator[Event, None]:
        yield self._event(
            RunStarted,
            question=self.question,
            settings=self.agent.settings,
            collection=self.agent.environment.searcher.version,
        )
        try:
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except ModelError as error:
            yield self._failed(error, StopReason.MODEL_ERROR)
        except (SearchError, CollectionError, CorpusError) as error:
            yield self._failed(error, StopReason.SEARCH_ERROR)

    async def _steps(self) -> AsyncGenerator[Event, None]:
        episode = self.agent.environment.start()
        self._tell(Role.USER, Text(prompt("vrag.md")), *self._urge(), Text(self.question))
        while self.step < self.agent.max_steps:
            self.step += 1
            started = time.perf_counter()
            reply: Reply | None = None
            chunks: list[str] = []
            async with aclosing(self._reply(chunks)) as parts:
                async for part in parts:
                    if isinstance(part, Reply):
                        reply = part
                    else:
                        yield part
            if reply is None:
                yield self._stopped(StopReason.CANCELLED)
                return
            turn = parse(reply.text)
            yield self._called(reply, turn, chunks)
            self._tell(Role.ASSISTANT, Text(turn.executed))
            for event in self._said(turn):
                yield event
            if isinstance(turn.action, Answer):
                yield self._used(reply, (), started)
                yield await asyncio.to_thread(self._answered, turn.action, episode)
                return
            observation = await asyncio.to_thread(episode.step, turn.action)
            for event in self._observed(turn, observation):
                yield event
            yield self._used(reply, observation.pictures, started)
            if reply.finish is FinishReason.LENGTH and observation.invalid:
                yield self._stopped(StopReason.OUT_OF_TOKENS)
                return
            self._tell(Role.USER, *observation.parts, *self._urge())
        yield self._stopped(StopReason.OUT_OF_STEPS)

    async def _reply(self, chunks: list[str]) -> AsyncGenerator[ThoughtDelta | Reply, None]:
        """Asks the policy; the last part is the reply, and absent when the run was cancelled.

        The pieces in which the reply comes are added to `chunks`.
        """
        thought = ""
        async with aclosing(self.agent.policy.reply(tuple(self.history))) as parts:
            while (part := await self._next(parts)) is not None:
                if isinstance(part, Reply):
                    yield replace(part, text=_encodable(part.text))
                    return
                chunks.append(_encodable(part.text))
                now = thought_so_far("".join(chunks))
                if len(now) > len(thought):
                    yield self._event(ThoughtDelta, text=now[len(thought) :])
                    thought = now
        if not self.cancel.is_set():
            raise ModelError(f"The policy {self.agent.policy.name} ended without a reply.")

    async def _next(self, parts: AsyncGenerator[Delta | Reply, None]) -> Delta | Reply | None:
        """The next part of a reply; None when there is none, or as soon as the run is cancelled."""
        part = asyncio.ensure_future(anext(parts, None))
        cancelled = asyncio.ensure_future(self.cancel.wait())
        try:
            await asyncio.wait({part, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            return None if cancelled.done() else part.result()
        finally:
            part.cancel()
            cancelled.cancel()
            await asyncio.gather(part, cancelled, return_exceptions=True)

    def _called(self, reply: Reply, turn: Turn, chunks: list[str]) -> ModelCalled:
        return self._event(
            ModelCalled,
            messages=tuple(self.message_hashes),
            reply=reply.text,
            executed=len(turn.executed),
            chunks=tuple(map(len, chunks)),
            finish=reply.finish,
            flags=tuple(sorted(turn.flags)),
        )

    def _said(self, turn: Turn) -> Iterator[Event]:
        if turn.thought:
            yield self._event(ThoughtGiven, text=turn.thought)
        match turn.action:
            case Search(query):
                yield self._event(SearchRequested, query=query)
            case Crop(box, image):
                yield self._event(CropRequested, image=image, box=box)
            case _:
                pass

    def _observed(self, turn: Turn, observation: Observation) -> Iterator[Event]:
        if observation.invalid is not None:
            yield self._event(InvalidAction, reason=observation.invalid)
        if isinstance(turn.action, Search):
            yield self._event(SearchReturned, hits=observation.hits, damaged=observation.damaged)
        for part in observation.parts:
            if isinstance(part, Picture):
                yield self._pictured(part)
            elif part.item is not None:
                item = self.agent.environment.searcher.item(part.item)
                yield self._event(PassageShown, item=item.id, document=item.document_name, page=item.ordinal)

    def _pictured(self, picture: Picture) -> ImageShown:
        self._keep(f"{picture.sha256}.png", picture.png)
        item = self.agent.environment.searcher.item(picture.item)
        return self._event(
            ImageShown,
            number=picture.number,
            item=item.id,
            document=item.document_name,
            page=item.ordinal,
            region=picture.view.region.as_tuple(),
            box=picture.view.convert(picture.view.region, Space.UNIT).as_tuple(),
            width=picture.view.shown.width,
            height=picture.view.shown.height,
            visual_tokens=self.agent.environment.profile.visual_tokens(picture.view.shown),
            sha256=picture.sha256,
            crop=picture.crop,
        )

    def _used(self, reply: Reply, pictures: tuple[Picture, ...], started: float) -> UsageReported:
        tokens = self.agent.environment.profile.visual_tokens
        return self._event(
            UsageReported,
            prompt_tokens=reply.tokens.prompt,
            completion_tokens=reply.tokens.completion,
            visual_tokens=sum(tokens(picture.view.shown) for picture in pictures),
            seconds=time.perf_counter() - started,
        )

    def _answered(self, answer: Answer, episode: Episode) -> AnswerGiven:
        return self._event(
            AnswerGiven,
            text=None if answer.abstains else answer.text,
            evidence=evidence_of(episode, answer.text),
            stop_reason=StopReason.ABSTAINED if answer.abstains else StopReason.ANSWERED,
        )

    def _stopped(self, reason: StopReason) -> AnswerGiven:
        return self._event(AnswerGiven, text=None, evidence=(), stop_reason=reason)

    def _failed(self, error: VragError, reason: StopReason) -> RunFailed:
        return self._event(RunFailed, boundary=type(error).__name__, message=str(error), stop_reason=reason)

    def _urge(self) -> tuple[Text, ...]:
        last = self.step == self.agent.max_steps - 1
        return (Text(prompt("answer_now.md")),) if last else ()

    def _tell(self, role: Role, *parts: Text | Picture) -> None:
        message = Message(role, parts)
        data = json.dumps(_message_record(message), ensure_ascii=False).encode()
        digest = hashlib.sha256(data).hexdigest()
        self._keep(f"{digest}.json", data)
        self.history.append(message)
        self.message_hashes.append(digest)

    def _keep(self, name: str, data: bytes) -> None:
        if self.save is not None:
            self.save(name, data)

    def _event(self, kind: type[E], **values: Any) -> E:  # noqa: ANN401 - validated by the event itself
        event = kind(run_id=self.run_id, seq=self.seq, ts=time.time(), step=self.step, **values)
        self.seq += 1
        return event


def _encodable(text: str) -> str:
    """The text with lone surrogates replaced, which no file and no connection can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _message_record(message: Message) -> dict[str, Any]:
    """A message as JSON; pictures by the hash of their file."""
    parts = [
        {"text": part.text, "item": part.item}
        if isinstance(part, Text)
        else {"picture": part.sha256, "number": part.number, "item": part.item}
        for part in message.parts
    ]
    return {"role": message.role, "parts": parts}
