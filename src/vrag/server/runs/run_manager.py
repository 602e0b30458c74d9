"""The runs of a server: each goes on by itself, whoever watches or leaves.

A run belongs to no connection. It is written to disk event by event, so that a server which is killed
leaves every finished run whole, and every other one without an end, by which it is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.events import RunFailed, StopReason
from vrag.agent.question import Question, QuestionImage
from vrag.agent.runs.run_store import RunState
from vrag.errors import RunError, SettingsError, VragError
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal
from vrag.server.runs.agent_provider import AgentSelection
from vrag.server.runs.history import RunHistory, unanswered
from vrag.server.runs.live_run import LiveRun
from vrag.server.runs.schema import RunDetail, RunSummary

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from vrag.agent.agent import Agent
    from vrag.agent.events import Event
    from vrag.agent.question import PreviousTurn
    from vrag.agent.runs.run_store import RunLog, StoredRun
    from vrag.server.runs.agent_provider import AgentProvider
    from vrag.server.runs.schema import RunRequest

__all__ = ["RunManager", "RunManagerOptions"]

log = logging.getLogger("vrag.server.runs")
T = TypeVar("T")
_TAIL_SECONDS = 0.5
"""How often the file of a run is looked at that another process writes."""
_BEGIN_SECONDS = 10.0
"""Until a run has begun: it asks the search for its version first, which may be another server."""
_GRACE_SECONDS, _LEAST_GRACE = 5.0, 0.2
"""For runs that were told to stop: to say so."""
_BUSY_SECONDS = 5.0
"""After which to ask again when there are enough runs: a few calls of a model."""
_AWAY_SECONDS = 15.0
"""After which to ask again when the server is being stopped: it may start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManagerOptions:
    """How many runs there may be."""

    runs: int = 256
    """At one time."""
    client_runs: int = 8
    """Of one client, at one time."""
    threads: int = 4
    """That read stored runs and open agents."""


class RunManager:
    """Starts runs, lets them be followed, stops them. One event loop per host."""

    def __init__(
        self,
        answering: AgentProvider,
        options: RunManagerOptions | None = None,
        observers: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        """Opens nothing.

        Args:
            answering: Makes the agents, and knows where runs are recorded.
            options: How many runs there may be.
            observers: Each is told every event of every run, in order. They must not block.
        """
        self._archive = RunHistory(answering.store)
        self._options = options or RunManagerOptions()
        self._observers = tuple(observers)
        self._threads = Threads(self._options.threads, "vrag-runs")
        self._answering = answering
        self._live: dict[str, LiveRun] = {}
        self._tasks: dict[asyncio.Task[None], LiveRun] = {}
        self._busy: Counter[str] = Counter()
        """Runs under way by client, with those that are being prepared."""
        self._sessions: set[str] = set()
        """Conversations in which a further question is being answered."""
        self._closing = False

    @property
    def running(self) -> int:
        """Runs under way."""
        return self._busy.total()

    async def start(
        self, asked: RunRequest, *, client: str = "", history: Sequence[PreviousTurn] | None = None
    ) -> RunSummary:
        """Starts a run; it is on disk when this returns.

        Args:
            asked: What to answer, and how.
            client: Who asks.
            history: The conversation so far, where the caller knows it; else that of the session.

        Raises:
            Refusal: If the server is full or stopping (503), the client has enough runs (429), or the
                request asks for what cannot be (422, 404, 409).
            VragError: If the agent cannot be opened, or the run not be written.
        """
        self._admit(client)
        live = LiveRun(client)
        self._busy[client] += 1
        try:
            if asked.session and history is None:
                live.session = await self._joined(asked.session)
            agent, question = await self.look(lambda: self._prepared(asked, live.session, history))
            self._check_open()  # it may have been told to stop meanwhile
        except BaseException:
            self._leave(live)
            raise
        task = asyncio.create_task(self._recorded(agent, question, live))
        self._tasks[task] = live
        task.add_done_callback(self._over)
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                outline = await live.begun()
        except TimeoutError:
            live.cancel.set()
            raise Refusal(504, "The search did not answer in time.", "Come back later.") from None
        except asyncio.CancelledError:  # nobody is told its id
            live.cancel.set()
            raise
        return RunSummary.of(live.id, outline, RunState.RUNNING)

    async def follow(self, run: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """The events of a run after one of them: those on disk, then those to come, until it is over.

        Args:
            run: Its id.
            after: `seq` of the last event that is known already; -1 for none.

        Raises:
            Refusal: If there is no such run (404).
        """
        if (live := self._live.get(run)) is not None:
            async with aclosing(live.follow(after)) as events:
                async for event in events:
                    yield event
            return
        written = True
        while written:
            written = await self.look(lambda: self._archive.is_written(run))
            stored = await self.stored(run)
            for event in stored.events[after + 1 :]:
                yield event
            after = max(after, len(stored.events) - 1)
            if written:
                await asyncio.sleep(_TAIL_SECONDS)

    async def cancel(self, run: str) -> tuple[RunSummary, bool]:
        """Stops a run at the next opportunity; one that is over is left as it is.

        Returns:
            The run, and whether it was running.

        Raises:
            Refusal: If there is no such run (404), or another process runs it (409).
        """
        if (live := self._live.get(run)) is not None:
            live.cancel.set()
            return RunSummary.of(run, await live.begun(), RunState.RUNNING), True
        detail = await self.detail(run)
        if detail.state is RunState.RUNNING:
            raise Refusal(409, "Another program runs it.", "Stop it there.")
        return RunSummary(**{name: getattr(detail, name) for name in RunSummary.model_fields}), False

    async def detail(self, run: str) -> RunDetail:
        """What is known of a run.

        Raises:
            Refusal: If there is no such run (404).
        """
        if (live := self._live.get(run)) is not None:
            return RunDetail.of(run, await live.begun(), RunState.RUNNING)
        return await self.look(lambda: self._archive.detail(run))

    async def summaries(
        self, *, limit: int, before: str = "", session: str = ""
    ) -> tuple[list[RunSummary], bool]:
        """Runs, the newest first, and whether there are older ones; see `RunHistory.summaries`."""
        live = {run: live.outline for run, live in self._live.items() if live.outline is not None}
        return await self.look(
            lambda: self._archive.summaries(live, limit=limit, before=before, session=session)
        )

    async def stored(self, run: str) -> StoredRun:
        """A run as it lies on disk.

        Raises:
            Refusal: If there is no such run (404).
        """
        return await self.look(lambda: self._archive.read(run))

    def file(self, run: str, sha256: str) -> Path:
        """Where the picture of this hash lies, if the run has it. Both names as patterns allow."""
        return self._archive.store.file(run, sha256)

    async def look(self, work: Callable[[], T]) -> T:
        """What some work gives that may block, in a thread."""
        return await self._threads.run(work)

    async def run_in_thread(self, work: Callable[[StoredRun], T], run: str) -> T:
        """What some work makes of a stored run, in a thread.

        Raises:
            Refusal: If there is no such run (404).
        """
        return await self.look(lambda: work(self._archive.read(run)))

    async def finish(self, seconds: float) -> None:
        """Takes no more runs, lets those under way end, and stops what is left then. Still tells of all.

        Args:
            seconds: How long it takes at most. A run that is stopped says so in its last event; for that is
                the end of this time.
        """
        self._closing = True
        grace = max(_LEAST_GRACE, min(_GRACE_SECONDS, seconds / 3))
        await self._ending(max(0.0, seconds - grace))
        for live in self._tasks.values():
            live.cancel.set()
        await self._ending(grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self, seconds: float) -> None:
        """As `finish`, and tells of nothing any more."""
        await self.finish(seconds)
        await self._threads.close(1.0)

    async def _ending(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            await asyncio.sleep(0)  # for what is called when they are done

    def _check_open(self) -> None:
        if self._closing:
            raise Refusal(503, "The server is being stopped.", "Come back later.", _AWAY_SECONDS)

    def _admit(self, client: str) -> None:
        self._check_open()
        if self.running >= self._options.runs:
            hint = "Come back when some are over."
            raise Refusal(503, f"{self.running} runs are under way.", hint, _BUSY_SECONDS)
        if (number := self._busy[client]) >= self._options.client_runs:
            hint = "Wait for one of them, or stop it."
            raise Refusal(429, f"{number} of your runs are under way.", hint, _BUSY_SECONDS)

    async def _joined(self, run: str) -> str:
        """The conversation of a run, in which nobody else asks until it is left.

        Raises:
            Refusal: If there is none (404), or somebody asks in it already (409).
        """
        session = await self.look(lambda: self._archive.first_of(run))
        if session in self._sessions:
            raise unanswered()
        self._sessions.add(session)
        return session

    def _leave(self, live: LiveRun) -> None:
        self._sessions.discard(live.session)
        self._busy[live.client] -= 1
        if not self._busy[live.client]:
            del self._busy[live.client]

    def _prepared(
        self, asked: RunRequest, session: str, history: Sequence[PreviousTurn] | None
    ) -> tuple[Agent, Question]:
        """The agent for a request, and the question with all that belongs to it. In a thread."""
        images = tuple(_attached(number, data) for number, data in enumerate(asked.pictures, 1))
        if history is None:
            history = self._archive.history(session) if session else ()
        question = Question(asked.question, tuple(history), images, session)
        try:
            return self._answering.agent(AgentSelection.of(asked)), question
        except SettingsError as error:
            raise Refusal(422, error.message, error.hint) from error

    async def _recorded(self, agent: Agent, question: Question, live: LiveRun) -> None:
        """One run, from its first event to its last, on disk and for its followers."""
        with self._archive.store.record() as recording:
            live.id = recording.id
            self._live[live.id] = live
            try:
                await self._told(agent, question, live, recording)
            except RunError as error:
                log.error("The run %s cannot be written: %s", live.id, error)  # noqa: TRY400 - said whole
                reason = getattr(error.__cause__, "strerror", None) or "the disk refused"
                self._fail(live, recording, error, f"The run could not be recorded: {reason}.")
            except Exception as error:
                log.exception("The run %s ended by a fault of the program.", live.id)
                self._fail(live, recording, error, "The server failed.")

    async def _told(self, agent: Agent, question: Question, live: LiveRun, recording: RunLog) -> None:
        async with aclosing(agent.arecord(question, recording, cancel=live.cancel)) as events:
            async for event in events:
                self._tell(live, event)

    def _tell(self, live: LiveRun, event: Event) -> None:
        live.tell(event)
        for observe in self._observers:
            try:
                observe(event)
            except Exception:
                log.exception("An observer of runs failed.")

    def _fail(self, live: LiveRun, recording: RunLog, error: Exception, message: str) -> None:
        """Ends the run with what clients may know; where the disk refuses, for its followers alone.

        Raises:
            Exception: The error, where nobody follows yet: the run has not begun.
        """
        if live.outline is None:
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
            recording.write(end)
        self._tell(live, end)

    def _over(self, task: asyncio.Task[None]) -> None:
        live = self._tasks.pop(task)
        with suppress(KeyError):
            del self._live[live.id]
        live.end(asyncio.CancelledError() if task.cancelled() else task.exception())
        self._leave(live)


def _attached(number: int, data: bytes) -> QuestionImage:
    try:
        return QuestionImage.of(data)
    except VragError as error:
        raise Refusal(422, f"Picture {number} cannot be used: {error.message}", error.hint) from error
