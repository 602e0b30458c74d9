"""The runs of a server as one user may see them: every request reaches runs through here.

Each method that takes the id of a run checks first that the user may see it, by `RunHistory.check`. So an
interface cannot forget to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from starlette.requests import Request

from vrag.agent.events import Event
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_meta import Via
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.errors import VragError
from vrag.server.http.errors import Refusal
from vrag.server.http.users import User
from vrag.server.runs.history import is_owner
from vrag.server.runs.run_manager import Requester, RunManager, broken_off
from vrag.server.runs.run_queue import QueuePosition
from vrag.server.runs.schema import RunChanges, RunDetail, RunList, RunQuery, RunRequest, RunSummary


def requester_of(request: Request, via: Via) -> Requester:
    """Return who sent a request, as `AuthMiddleware` noted it."""
    state = request.state
    return Requester(state.user, state.client, via, state.session)


@dataclass(frozen=True, slots=True)
class UserRuns:
    """The runs that a user may see, and new ones. For one event loop."""

    manager: RunManager
    requester: Requester

    @property
    def user(self) -> User:
        """The user."""
        return self.requester.user

    async def start(
        self, request: RunRequest, *, history: Sequence[PreviousTurn] | None = None
    ) -> RunSummary:
        """Start a run; see `RunManager.start`."""
        return await self.manager.start(request, self.requester, history=history)

    async def summaries(self, query: RunQuery | None = None) -> RunList:
        """List the user's runs, or those of a conversation that is shared; see `RunHistory.summaries`."""
        manager, wanted = self.manager, query or RunQuery()
        live = {
            run: live.summarize(live.outline)
            for run, live in manager.live.items()
            if live.outline is not None
        }
        return await manager.in_thread(lambda: manager.history.summaries(live, self.user, wanted))

    async def detail(self, run: str) -> RunDetail:
        """Summarize a run with its evidence. Raises `Refusal` if there is no such run (404)."""
        await self._check(run)
        history = self.manager.history
        if (live := self.manager.live.get(run)) is not None:
            detail = RunDetail.of(run, await live.begun(), live.state, live.position)
            return await self.manager.in_thread(lambda: history.label(detail))
        return await self.manager.in_thread(lambda: history.detail(run))

    def active(self) -> list[RunSummary]:
        """List the user's runs that wait or are in progress, the newest first."""
        runs = [live for live in self.manager.live.values() if is_owner(self.user, live.meta.owner)]
        return [
            live.summarize(live.outline).model_copy(update={"owner": live.meta.owner})
            for live in reversed(runs)
            if live.outline is not None
        ]

    async def stored(self, run: str) -> StoredRun:
        """Read a run from disk. Raises `Refusal` if there is no such run (404)."""
        await self._check(run)
        return await self.manager.in_thread(lambda: self.manager.history.read(run))

    async def picture(self, run: str, sha256: str) -> bytes | None:
        """Return a picture of a run as a JPEG file; None if the run has no such picture.

        Raises `Refusal` if there is no such run (404), or the picture is damaged (503).
        """
        await self._check(run)
        store = self.manager.history.store
        try:
            return await self.manager.in_thread(lambda: store.read_file(run, sha256))
        except FileNotFoundError:
            return None
        except OSError as error:
            hint = "The administrator of this server can look for damage: vrag index verify"
            raise Refusal(503, "The picture is damaged.", hint) from error

    async def follow(self, run: str, after: int = -1) -> AsyncGenerator[Event | QueuePosition, None]:
        """Yield the events of a run: those on disk, then future ones, until it is over.

        Before them come the positions of a run that waits.
        `after` is the `seq` of the last event that is known already. Unknown runs are refused (404).
        """
        await self._check(run)
        if (live := self.manager.live.get(run)) is not None:
            async with aclosing(live.follow(after)) as events:
                async for event in events:
                    yield event
            return
        history, in_thread = self.manager.history, self.manager.in_thread
        running = True
        while running:
            running = await in_thread(lambda: history.is_running(run))
            stored = await in_thread(lambda: history.read(run))
            for event in stored.events[after + 1 :]:
                yield event
            after = max(after, len(stored.events) - 1)
            if running:
                await asyncio.sleep(0.5)  # another process writes it

    async def follow_to_end(
        self,
        run: str,
        on_event: Callable[[Event, RunResult], Awaitable[None]],
        on_wait: Callable[[QueuePosition], Awaitable[None]] | None = None,
    ) -> RunResult:
        """Follow a run from its start to its end; stop it if the caller gives up first.

        `on_event` is given each event, and the run as it is after it; `on_wait` the positions before that.
        """
        outline: RunResult | None = None
        try:
            async with aclosing(self.follow(run)) as events:
                async for event in events:
                    if isinstance(event, QueuePosition):
                        if on_wait is not None:
                            await on_wait(event)
                        continue
                    outline = RunResult.of([event]) if outline is None else outline.plus(event)
                    await on_event(event, outline)
        finally:
            if outline is None or outline.end is None:
                await self.stop(run)
        if outline is None:
            raise broken_off()
        return outline

    async def cancel(self, run: str) -> tuple[RunSummary, bool]:
        """Stop a run at the next opportunity; a finished run is not changed.

        Returns its summary, and whether it was waiting or running.

        Raises `Refusal` if there is no such run (404), it is another user's (403), or another process runs it
        (409).
        """
        await self._check(run, to_change=True)
        if (live := self.manager.live.get(run)) is not None:
            live.stop()
            return await self._summary(run), True
        summary = await self._summary(run)
        if summary.state is RunState.RUNNING:
            raise Refusal(409, "Another process executes this run.", "Stop it there.")
        return summary, False

    async def stop(self, run: str) -> None:
        """Stop a run that nobody waits for any more; leave a finished or missing one as it is."""
        with suppress(VragError):
            await self.cancel(run)

    async def change(self, run: str, changes: RunChanges) -> RunSummary:
        """Change title, pin and sharing of a run's conversation; return the summary of the run.

        Raises `Refusal` if there is no such run (404), or it is another user's (403).
        """
        await self._check(run, to_change=True)
        await self.manager.in_thread(lambda: self.manager.history.change(run, changes))
        return await self._summary(run)

    async def delete(self, run: str, *, conversation: bool) -> RunSummary:
        """Delete a run, or the whole conversation that it belongs to; what is running is stopped first.

        Returns the summary of the run as it was.

        Raises `Refusal` if there is no such run (404), it is another user's (403), later questions follow on
        it, another process executes it, or it does not stop in time (409).
        """
        await self._check(run, to_change=True)
        manager, history = self.manager, self.manager.history
        summary = await self._summary(run)
        runs = (run,)
        if conversation:
            runs = await manager.in_thread(lambda: history.conversation(run))
        for each in runs:
            await manager.end(each)
        await manager.in_thread(lambda: history.delete(runs))
        return summary

    async def _summary(self, run: str) -> RunSummary:
        detail = await self.detail(run)
        return RunSummary(**{name: getattr(detail, name) for name in RunSummary.model_fields})

    async def _check(self, run: str, *, to_change: bool = False) -> None:
        live = self.manager.live.get(run)
        if live is not None and is_owner(self.user, live.meta.owner):
            return
        history = self.manager.history
        await self.manager.in_thread(lambda: history.check(run, self.user, to_change=to_change))
