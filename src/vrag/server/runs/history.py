"""Recorded runs, as lists and conversations. Reads the disk: for threads."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from vrag.agent.methods.conversation import following
from vrag.agent.runs.run_store import RunState
from vrag.errors import RunError
from vrag.server.http.errors import Refusal
from vrag.server.runs.schema import RunDetail, RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vrag.agent.question import PreviousTurn
    from vrag.agent.runs.run_result import RunResult
    from vrag.agent.runs.run_store import RunStore, StoredRun

__all__ = ["RunHistory", "unanswered"]

T = TypeVar("T")
_KEPT, _SESSIONS = 4096, 65536
"""Outlines that are remembered, and runs of which the conversation is: that never changes."""


class RunHistory:
    """What a store of runs holds."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._outline = lru_cache(_KEPT)(self._fresh_outline)
        self._session = lru_cache(_SESSIONS)(self._fresh_session)

    def read(self, run: str) -> StoredRun:
        """A run as it lies on disk.

        Raises:
            Refusal: If there is no such run (404).
        """
        return self._found(self.store.read, run)

    def detail(self, run: str) -> RunDetail:
        """What is known of a run.

        Raises:
            Refusal: If there is no such run (404).
        """
        return RunDetail.of(run, *self._read_outline(run))

    def is_written(self, run: str) -> bool:
        """Whether some process writes it now."""
        return self.store.state(run, ended=False) is RunState.RUNNING

    def summaries(
        self, live: Mapping[str, RunResult], *, limit: int, before: str, session: str
    ) -> tuple[list[RunSummary], bool]:
        """Runs, the newest first, and whether there are older ones. What cannot be read is left out.

        Args:
            live: Outlines of runs that this process writes.
            limit: How many at most.
            before: Id of a run; those before it are meant. All when empty.
            session: The conversation that they belong to; any when empty.
        """
        found: list[RunSummary] = []
        for run in self.store.ids():
            if (before and run >= before) or (session and not self._is_of(run, session)):
                continue
            if len(found) == limit:
                return found, True
            with suppress(Refusal):
                outline = live.get(run)
                read = (outline, RunState.RUNNING) if outline else self._read_outline(run)
                found.append(RunSummary.of(run, *read))
        return found, False

    def first_of(self, run: str) -> str:
        """Id of the run that began the conversation to which a run belongs.

        Raises:
            Refusal: If there is no such run (404).
        """
        self.store.check_place()
        try:
            return self._session(run) or run
        except (RunError, OSError) as error:
            raise Refusal(404, f"There is no conversation {run}.", "Ask without one.") from error

    def history(self, session: str) -> tuple[PreviousTurn, ...]:
        """What was said in a conversation, the oldest first.

        Args:
            session: Id of the run that began it.

        Raises:
            Refusal: If there is none (404), or its last question is not answered yet (409).
        """
        newest = next((run for run in self.store.ids() if run >= session and self._is_of(run, session)), None)
        if newest is None:
            raise Refusal(404, f"There is no conversation {session}.", "Ask without one.")
        if self._read_outline(newest)[1] is RunState.RUNNING:
            raise unanswered()
        return following(self.read(newest))

    def _is_of(self, run: str, session: str) -> bool:
        if run == session:
            return True
        with suppress(RunError, OSError):
            return self._session(run) == session
        return False

    def _fresh_session(self, run: str) -> str:
        return self.store.started(run).session

    def _fresh_outline(self, run: str, _: int) -> RunResult:
        """The outline of a run, and the length of its file: a run that goes on is read again."""
        return self.store.outline(run)

    def _read_outline(self, run: str) -> tuple[RunResult, RunState]:
        outline = self._newest_outline(run)
        if outline.end is None:
            if self.is_written(run):
                return outline, RunState.RUNNING
            outline = self._newest_outline(run)  # it may have come to its end just then
        return outline, RunState.INTERRUPTED if outline.end is None else RunState.FINISHED

    def _newest_outline(self, run: str) -> RunResult:
        return self._found(lambda run: self._outline(run, self.store.length(run)), run)

    def _found(self, read: Callable[[str], T], run: str) -> T:
        self.store.check_place()
        try:
            self.store.length(run)  # by its whole id: a part of one is for people at a terminal
            return read(run)
        except RunError as error:
            raise Refusal(404, error.message, error.hint) from error
        except OSError as error:
            raise Refusal(404, f"There is no run {run}.", "GET /runs lists them.") from error


def unanswered() -> Refusal:
    """What is said of a follow-up that comes too early."""
    return Refusal(409, "The question before this one is not answered yet.", "Wait, or stop it.")
