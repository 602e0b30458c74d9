"""The runs of a server: each goes on by itself, whoever follows or leaves.

A run belongs to no connection. It is written to disk event by event, so that a server which is killed
leaves every finished run whole, and every other one without an end, by which it is recognised.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from vrag.agent.agent import Agent
from vrag.agent.events import Event, RunFailed, RunStarted, StopReason
from vrag.agent.question import PreviousTurn, Question, QuestionImage
from vrag.agent.runs.recorder import RunLog
from vrag.agent.runs.run_meta import RunMeta, Via
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.errors import FileTooLargeError, RunError, SettingsError, VragError
from vrag.render.exports import Download, evidence_document
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal
from vrag.server.http.users import EVERYBODY, SERVER_ADMIN, User
from vrag.server.options import ServerOptions
from vrag.server.runs import schema
from vrag.server.runs.history import RunHistory, no_conversation, unanswered
from vrag.server.runs.run_queue import QueuePlace, QueuePosition, RunQueue
from vrag.server.runs.schema import RunSummary
from vrag.server.setup.choices import ModelChoices

log = logging.getLogger("vrag.server.runs")
T = TypeVar("T")
_MAX_GRACE_SECONDS, _MIN_GRACE_SECONDS = 5.0, 0.2
"""Time for cancelled runs to write their last event."""
_STOP_SECONDS = 10.0
"""Time for a run to stop before it is deleted."""


@dataclass(frozen=True, slots=True)
class Requester:
    """The user who asks for a run, the client, and the interface."""

    user: User
    client: str = ""
    """The name of the client; see `vrag.server.http.limits`."""
    via: Via = Via.API
    session: bytes | None = None
    """The digest of the browser's session, whose model answers a question that names none."""

    @property
    def name(self) -> str:
        """The name by which runs are counted and wait: the user; where all share one, the client."""
        shared = self.user.name in {EVERYBODY.name, SERVER_ADMIN.name}
        return self.client if shared else f"user {self.user.name}"


@dataclass(slots=True)
class LiveRun:
    """The events of one run, for any number of followers. For one event loop.

    Followers read from the list that the run is appended to, each at its own pace: a slow one misses
    nothing and holds up nobody.
    """

    place: QueuePlace
    """Its place in the queue, and then its slot."""
    meta: RunMeta
    """Its metadata at the start."""
    session: str = ""
    """The conversation that it continues; empty if it begins one."""
    id: str = ""
    """Empty until it is on disk."""
    events: list[Event] = field(default_factory=list["Event"])
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    outline: RunResult | None = None
    """None before the first event; of a run that waits, its question and settings."""
    done: bool = False
    fault: BaseException | None = None
    """The error that prevented the first event."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def position(self) -> int | None:
        """Its position in the queue, from 1; None if it does not wait."""
        return self.place.position or None

    @property
    def state(self) -> RunState:
        """Waiting or running."""
        return RunState.RUNNING if self.position is None else RunState.WAITING

    def summarize(self, outline: RunResult) -> RunSummary:
        """Summarize the run as it is now, without its metadata."""
        return RunSummary.of(self.id, outline, self.state, self.position)

    def announce(self, started: RunStarted) -> None:
        """Make known what waits; the event itself comes when the run begins."""
        self.outline = replace(RunResult.of([started]), events=0)
        self.notify()

    def add(self, event: Event) -> None:
        """Add an event; its index in the list is its `seq`."""
        self.outline = self.outline.plus(event) if self.outline else RunResult.of([event])
        self.events.append(event)
        self.notify()

    def stop(self) -> None:
        """Stop the run at the next opportunity; one that waits leaves the queue."""
        self.cancel.set()
        self.notify()

    def end(self, fault: BaseException | None = None) -> None:
        """Mark the run as over."""
        self.done, self.fault = True, fault
        self.notify()

    async def admitted(self) -> None:
        """Wait until it has a slot, or is to stop."""
        while self.position is not None and not self.cancel.is_set():
            await self._changed.wait()

    async def begun(self) -> RunResult:
        """Wait until it waits in the queue, or for its first event; raise the error that prevented it."""
        while self.outline is None:
            if self.done:
                raise self.fault or RuntimeError("the run ended before its first event")
            await self._changed.wait()
        return self.outline

    async def ended(self) -> None:
        """Wait until it is over."""
        while not self.done:
            await self._changed.wait()

    async def follow(self, after: int) -> AsyncGenerator[Event | QueuePosition, None]:
        """Yield the events after one of them, future ones included, until the run is over.

        While it waits, its position is yielded whenever that has changed.
        """
        position, sent = after + 1, None
        while True:
            changed = self._changed
            if (place := self.position) is not None and place != sent:
                sent = place
                yield QueuePosition(place)
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.done:
                return
            await changed.wait()

    def notify(self) -> None:
        """Wake up who follows or waits."""
        self._changed.set()
        self._changed = asyncio.Event()


class RunManager:
    """Starts runs, and keeps those in progress. One event loop for each manager.

    Requests see runs by `UserRuns`, each those of its user. Each observer receives every event of every run,
    in order, and must not block.
    """

    def __init__(
        self,
        provider: schema.AgentProvider,
        options: ServerOptions | None = None,
        observers: Sequence[Callable[[Event], None]] = (),
        choices: ModelChoices | None = None,
    ) -> None:
        self.history = RunHistory(provider.store)
        self.history.store.sweep()
        self._options = options or ServerOptions()
        self._observers = tuple(observers)
        self._threads = Threads(4, "vrag-runs")  # to read stored runs and open agents
        self._provider = provider
        self._choices = choices
        self.live: dict[str, LiveRun] = {}
        """Runs in progress, by their ids."""
        self._tasks: dict[asyncio.Task[None], LiveRun] = {}
        self._queue = RunQueue(self._options)
        self._sessions: set[str] = set()
        """Conversations in which a further question is being answered."""
        self._closing = False

    @property
    def running(self) -> int:
        """The number of runs in progress, with those that are being prepared."""
        return self._queue.running.total()

    @property
    def waiting(self) -> int:
        """The number of runs that wait for others to end."""
        return self._queue.waiting

    @property
    def continued(self) -> frozenset[str]:
        """The conversations in which a question is being answered, by the ids of their first runs."""
        return frozenset(self._sessions)

    async def capabilities(self, browser: bytes | None = None) -> schema.Capabilities:
        """Return the agents, models and collections that can be requested at the moment.

        `browser` is the digest of the browser's session, whose model is the default there.
        """
        capabilities = await self.in_thread(lambda: self._provider.offer)
        if self._choices is None:
            return capabilities
        chosen = (self._choices.of_session(browser), self._choices.for_all)
        names = [each.model for each in chosen if each]
        return capabilities.with_models(names, setup=not self._choices.closed)

    async def start(
        self,
        request: schema.RunRequest,
        requester: Requester,
        *,
        history: Sequence[PreviousTurn] | None = None,
    ) -> RunSummary:
        """Start a run, or let it wait; it is on disk when this returns.

        It belongs to the owner of its conversation.

        Without `history`, the conversation so far is that of the request's session.

        Raises `Refusal` if the queue is full or the server shuts down (503), too many runs of the requester
        wait (429), or the request cannot be fulfilled (422, 404, 403, 409), and `VragError` if the agent
        cannot be opened or the run cannot be written.
        """
        self._check_open()
        live = LiveRun(
            self._queue.join(requester.name), RunMeta(owner=requester.user.name, via=requester.via)
        )
        live.place.on_move = live.notify
        try:
            if request.session and history is None:
                live.session = await self._join_session(request.session, requester.user)
                live.meta = live.meta.model_copy(update={"owner": await self._owner_of(request.session)})
            chosen = self._choices.find(request.model, requester.session) if self._choices else None
            selection = schema.AgentSelection.of(request, chosen, requester.user.name)
            agent, question = await self.in_thread(
                lambda: self._prepare(request, selection, live.session, history)
            )
            self._check_open()  # it may have been closed meanwhile
        except BaseException:
            self._release(live)
            raise
        task = asyncio.create_task(self._record(agent, question, live))
        self._tasks[task] = live
        task.add_done_callback(self._end)
        try:
            async with asyncio.timeout(self._options.search_seconds):  # it asks the search for its version
                outline = await live.begun()
            summary = live.summarize(outline)
            return await self.in_thread(lambda: self.history.label(summary))
        except TimeoutError:
            live.stop()
            raise Refusal(504, "The search did not answer in time.", "Try again later.") from None
        except BaseException:  # nobody learns its id
            live.stop()
            raise

    async def end(self, run: str) -> None:
        """Stop a run of this process and wait for its end; others are left alone.

        Raises `Refusal` if it does not end in time (409).
        """
        if (live := self.live.get(run)) is None:
            return
        live.stop()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await live.ended()
        except TimeoutError:
            raise Refusal(409, "The run has not stopped yet.", "Try again in a moment.") from None

    async def evidence(self, runs: Sequence[StoredRun], format: str, title: str = "") -> Download:
        """Export the evidence of runs in one of `schema.EVIDENCE_FORMATS`.

        Raises `Refusal` if they have none that can be exported (409), or it is too large (413).
        """

        def export() -> Download:
            try:
                return evidence_document(runs, self._provider.evidence_sources(runs), format, title)
            except FileTooLargeError as error:
                raise Refusal(413, error.message, "Export fewer answers at once.") from error
            except RunError as error:
                raise Refusal(409, error.message, error.hint) from error

        return await self.in_thread(export)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread."""
        return await self._threads.run(work)

    async def finish(self, seconds: float) -> None:
        """Accept no more runs, let those in progress end, and stop the rest. Can still be queried afterwards.

        Takes `seconds` at most. A cancelled run writes its last event in the last part of it. Those that wait
        are stopped at once.
        """
        self._closing = True
        for live in self._tasks.values():
            if live.state is RunState.WAITING:
                live.stop()
        grace = max(_MIN_GRACE_SECONDS, min(_MAX_GRACE_SECONDS, seconds / 3))
        await self._wait_for_tasks(max(0.0, seconds - grace))
        for live in self._tasks.values():
            live.stop()
        await self._wait_for_tasks(grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self, seconds: float) -> None:
        """Finish, and end the threads."""
        await self.finish(seconds)
        await self._provider.aclose()
        await self._threads.close(1.0)

    async def _wait_for_tasks(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            await asyncio.sleep(0)  # for their callbacks

    def _check_open(self) -> None:
        if self._closing:
            raise Refusal(503, "The server is shutting down.", "Try again later.", 15.0)  # it may restart

    async def _join_session(self, run: str, user: User) -> str:
        """Return the conversation of a run and reserve it until the run is released.

        Raises `Refusal` if there is none for the user (404), it is another user's (403), or another question
        is being answered in it (409).
        """
        live = self.live.get(run)
        has_begun = live is None or bool(live.events)

        def find() -> str:
            try:
                self.history.check(run, user, to_change=True)
            except Refusal as refusal:
                raise (no_conversation(run) if refusal.status == 404 else refusal) from None
            if not has_begun:
                raise unanswered()
            return self.history.first_of(run)

        session = await self.in_thread(find)
        if session in self._sessions:
            raise unanswered()
        self._sessions.add(session)
        return session

    async def _owner_of(self, run: str) -> str:
        return await self.in_thread(lambda: self.history.store.meta(run).owner)

    def _release(self, live: LiveRun) -> None:
        self._sessions.discard(live.session)
        self._queue.leave(live.place)

    def _prepare(
        self,
        request: schema.RunRequest,
        selection: schema.AgentSelection,
        session: str,
        history: Sequence[PreviousTurn] | None,
    ) -> tuple[Agent, Question]:
        """Build the agent and the question of a request, in a thread."""
        images: list[QuestionImage] = []
        for number, data in enumerate(request.pictures, 1):
            try:
                images.append(QuestionImage.of(data))
            except VragError as error:
                message = f"Picture {number} cannot be used: {error.message}"
                raise Refusal(422, message, error.hint) from error
        if history is None:
            history = self.history.history(session) if session else ()
        question = Question(request.question, tuple(history), tuple(images), session)
        try:
            return self._provider.agent(selection), question
        except SettingsError as error:
            raise Refusal(422, error.message, error.hint) from error

    async def _record(self, agent: Agent, question: Question, live: LiveRun) -> None:
        """Execute one run, from its first event to its last, on disk and for its followers."""
        async with self._recording(live.meta) as recording:
            live.id = recording.id
            self.live[live.id] = live
            try:
                if live.state is RunState.WAITING:
                    await self._wait_for_slot(agent, question, live, recording)
                async with aclosing(agent.arecord(question, recording, cancel=live.cancel)) as events:
                    async for event in events:
                        self._publish(live, event)
            except RunError as error:
                log.error("The run %s cannot be written: %s", live.id, error)  # noqa: TRY400 - says it all
                reason = getattr(error.__cause__, "strerror", None) or "the disk failed"
                await self._fail(live, recording, error, f"The run could not be recorded: {reason}.")
            except Exception as error:
                log.exception("The run %s ended by an internal error.", live.id)
                await self._fail(live, recording, error, "Internal server error.")

    async def _wait_for_slot(
        self, agent: Agent, question: Question, live: LiveRun, recording: RunLog
    ) -> None:
        """Wait until a run may begin, which lists and followers know meanwhile.

        One that is stopped gives up its place, and begins without a slot only to end.
        """
        started = RunStarted(
            run_id=live.id,
            seq=0,
            ts=time.time(),
            step=0,
            question=question.text,
            settings=agent.settings,
            collection="",
            history=question.history,
            session=question.session,
            notices=agent.notices,
        )
        await recording.announce(started)
        live.announce(started)
        await live.admitted()
        if live.cancel.is_set():
            self._queue.leave(live.place)
        limit = self._options.search_seconds  # as for a run that does not wait, see `start`
        asyncio.get_running_loop().call_later(limit, lambda: live.events or live.stop())

    @asynccontextmanager
    async def _recording(self, meta: RunMeta) -> AsyncGenerator[RunLog, None]:
        """Open a new run; it is begun and ended in a thread, since both wait for the disk."""
        recording = self.history.store.record(meta)
        run = await self.in_thread(recording.__enter__)
        try:
            yield run
        finally:
            await asyncio.shield(self.in_thread(lambda: recording.__exit__(None, None, None)))

    def _publish(self, live: LiveRun, event: Event) -> None:
        live.add(event)
        for observe in self._observers:
            try:
                observe(event)
            except Exception:
                log.exception("An observer of runs failed.")

    async def _fail(self, live: LiveRun, recording: RunLog, error: Exception, message: str) -> None:
        """End the run with what clients may know; if the disk fails, only for its followers.

        If nobody follows yet, the run has not begun, and the error is raised.
        """
        if live.outline is None or not live.events:
            raise error
        end = RunFailed(
            run_id=live.id,
            seq=len(live.events),
            ts=time.time(),
            step=live.outline.calls,
            boundary=type(error).__name__,
            message=message,
            stop_reason=StopReason.FAULT,
        )
        with suppress(RunError):
            await recording.awrite(end)
        self._publish(live, end)

    def _end(self, task: asyncio.Task[None]) -> None:
        live = self._tasks.pop(task)
        self.live.pop(live.id, None)
        live.end(asyncio.CancelledError() if task.cancelled() else task.exception())
        self._release(live)


def broken_off() -> Refusal:
    """Build the refusal for a run that ended without an end event."""
    return Refusal(500, "The run was interrupted.", "Ask again.")
