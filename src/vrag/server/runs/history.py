"""Recorded runs, as lists and conversations. Reads the disk: for threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunState, RunStore, StoredRun
from vrag.errors import RunError
from vrag.server.http.errors import Refusal
from vrag.server.runs.schema import RunDetail, RunSummary

T = TypeVar("T")
_MAX_OUTLINES, _MAX_SESSIONS = 4096, 65536
"""Sizes of the caches: outlines of runs, and the conversation of each run, which never changes."""


class RunHistory:
    """The runs of a store."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

        @lru_cache(_MAX_SESSIONS)
        def session(run: str) -> str:
            return store.started(run).session

        @lru_cache(_MAX_OUTLINES)
        def outline(run: str, _length: int) -> RunResult:  # read again if the file of the run has grown
            return store.outline(run)

        self._session, self._outline = session, outline

    def read(self, run: str) -> StoredRun:
        """Read a run. Raises `Refusal` if there is no such run (404)."""
        return self._find(self.store.read, run)

    def detail(self, run: str) -> RunDetail:
        """Summarize a run with its evidence. Raises `Refusal` if there is no such run (404)."""
        return RunDetail.of(run, *self._read_outline(run))

    def is_running(self, run: str) -> bool:
        """Return whether some process writes it now."""
        return self.store.state(run, ended=False) is RunState.RUNNING

    def summaries(
        self, live: Mapping[str, RunResult], *, limit: int, before: str, session: str
    ) -> tuple[list[RunSummary], bool]:
        """List runs, the newest first, and whether there are older ones; unreadable ones are left out.

        `live` are the outlines of runs that this process writes. With `before`, the id of a run, only older
        ones are listed; with `session` those of one conversation.
        """
        found: list[RunSummary] = []
        for run in self.store.ids():
            if (before and run >= before) or (session and not self._belongs_to(run, session)):
                continue
            if len(found) == limit:
                return found, True
            with suppress(Refusal):
                outline = live.get(run)
                state = (outline, RunState.RUNNING) if outline else self._read_outline(run)
                found.append(RunSummary.of(run, *state))
        return found, False

    def first_of(self, run: str) -> str:
        """Return the id of the first run of a run's conversation; refuse an unknown run (404)."""
        self.store.check_place()
        try:
            return self._session(run) or run
        except (RunError, OSError) as error:
            raise _no_conversation(run) from error

    def history(self, session: str) -> tuple[PreviousTurn, ...]:
        """Return the turns of a conversation, the oldest first; `session` is the id of its first run.

        Raises `Refusal` if there is none (404), or its last question is not answered yet (409).
        """
        candidates = (run for run in self.store.ids() if run >= session and self._belongs_to(run, session))
        newest = next(candidates, None)
        if newest is None:
            raise _no_conversation(session)
        if self._read_outline(newest)[1] is RunState.RUNNING:
            raise unanswered()
        return self.read(newest).conversation

    def _belongs_to(self, run: str, session: str) -> bool:
        if run == session:
            return True
        with suppress(RunError, OSError):
            return self._session(run) == session
        return False

    def _read_outline(self, run: str) -> tuple[RunResult, RunState]:
        def read(run: str) -> RunResult:
            return self._outline(run, self.store.length(run))

        outline = self._find(read, run)
        if outline.end is None:
            if self.is_running(run):
                return outline, RunState.RUNNING
            outline = self._find(read, run)  # it may have ended just then
        return outline, RunState.INTERRUPTED if outline.end is None else RunState.FINISHED

    def _find(self, read: Callable[[str], T], run: str) -> T:
        self.store.check_place()
        try:
            self.store.length(run)  # by its whole id: a part of one is for people at a terminal
            return read(run)
        except RunError as error:
            raise Refusal(404, error.message, error.hint) from error
        except OSError as error:
            raise Refusal(404, f"There is no run {run}.", "GET /runs lists the runs.") from error


def _no_conversation(run: str) -> Refusal:
    return Refusal(404, f"There is no conversation {run}.", "Ask without one.")


def unanswered() -> Refusal:
    """Build the refusal of a follow-up that comes too early."""
    return Refusal(409, "The previous question is not answered yet.", "Wait for the answer, or stop the run.")
