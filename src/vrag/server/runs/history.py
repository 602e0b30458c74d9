"""Recorded runs, as lists and conversations, and who may see them. Reads the disk: for threads.

`check` is the one place that decides who sees a run. A run that a user may not see is refused in the words
for one that does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from vrag.agent.question import PreviousTurn
from vrag.agent.runs.retention import RunPurge, RunSelection, delete_runs, select_runs
from vrag.agent.runs.run_meta import PROGRAMS, clean_title
from vrag.agent.runs.run_store import RunRow, RunState, RunStore, StoredRun
from vrag.errors import RunError
from vrag.server.http.errors import Refusal
from vrag.server.http.users import User
from vrag.server.runs.schema import RunChanges, RunDetail, RunList, RunQuery, RunSummary

T = TypeVar("T")
S = TypeVar("S", bound=RunSummary)
_MAX_SUMMARIES = 16_384
"""Summaries of runs that are kept in memory."""
_PART = 500
"""Runs that a list reads at once."""
_MAX_TITLE_CHARS = 300
"""Characters of a question that stands in place of a title."""


class RunHistory:
    """The runs of a store."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

        @lru_cache(_MAX_SUMMARIES)
        def summary(run: str, _events: int) -> RunSummary:  # read again if the run has more events
            outline = store.outline(run)
            state = RunState.INTERRUPTED if outline.end is None else RunState.FINISHED
            return RunSummary.of(run, outline, state)

        self._cached_summary = summary

    def check(self, run: str, user: User, *, to_change: bool = False) -> None:
        """Check that a user may see a run, or change it as well.

        Raises `Refusal` if there is no such run, or the user may not see it (404, in the same words), or may
        see it and not change it (403).
        """
        own = self._row(run)
        if is_owner(user, own.owner):
            return
        if not self._first(own).shared:
            raise _no_run(run)
        if to_change:
            raise Refusal(403, "This run belongs to another user.", "Ask a question of your own.")

    def read(self, run: str) -> StoredRun:
        """Read a run. Raises `Refusal` if there is no such run (404)."""
        return self._find(self.store.read, run)

    def detail(self, run: str) -> RunDetail:
        """Summarize a run with its evidence. Raises `Refusal` if there is no such run (404)."""
        outline = self._find(self.store.outline, run)
        state = RunState.FINISHED
        if outline.end is None:
            if self.is_running(run):
                return self.label(RunDetail.of(run, outline, RunState.RUNNING))
            outline = self._find(self.store.outline, run)  # it may have ended just then
            state = RunState.INTERRUPTED if outline.end is None else RunState.FINISHED
        return self.label(RunDetail.of(run, outline, state))

    def label(self, summary: S) -> S:
        """Add the metadata to the summary of a run."""
        row = self.store.row(summary.id)
        return summary if row is None else _label(summary, row, self._first(row))

    def is_running(self, run: str) -> bool:
        """Return whether some process writes it now."""
        return self.store.state(run, ended=False) is RunState.RUNNING

    def summaries(self, live: Mapping[str, RunSummary], user: User, query: RunQuery) -> RunList:
        """List runs of a user, or of a shared conversation, the newest first; unreadable ones are left out.

        `live` are the runs that this process writes.
        """
        counts = [count for count in self.store.counts() if is_owner(user, count.owner)]
        found: list[RunSummary] = []
        previous = following = ""
        for row, first in self._list(user, query):
            if not query.has(row, first):
                continue
            if len(found) == query.limit:
                following = previous
                break
            previous = row.id
            with suppress(Refusal):
                found.append(_label(live.get(row.id) or self._summary(row), row, first))
        programs = sum(count.runs for count in counts if count.via in PROGRAMS)
        return RunList(
            runs=tuple(found),
            more=bool(following),
            next=following,
            people=sum(count.runs for count in counts) - programs,
            programs=programs,
            pinned=sum(count.pinned for count in counts if query.has_asker(count.via)),
            owners=tuple(sorted({count.owner for count in counts})) if user.is_admin else (),
        )

    def _list(self, user: User, query: RunQuery) -> Generator[tuple[RunRow, RunRow]]:
        """Yield the runs of a user, or of a shared conversation, with the first of each one's conversation.

        They come the newest first and are read in parts, since most lists need few of thousands.
        """
        shared = query.session and (first := self.store.row(query.session)) is not None and first.shared
        before = query.before
        while True:
            conditions, parameters = (["id < ?"], [before]) if before else (["TRUE"], [])
            if query.session:
                conditions.append("? IN (id, session)")
                parameters.append(query.session)
            if not shared and not user.is_admin:
                conditions.append("owner = ? AND owner != ''")
                parameters.append(user.name)
            rows = self.store.rows(" AND ".join(conditions), parameters, limit=_PART)
            sessions = json.dumps(sorted({row.session for row in rows if row.session}))
            firsts = self.store.rows("id IN (SELECT value FROM json_each(?))", [sessions])
            by_id = {first.id: first for first in firsts}
            for row in rows:
                yield row, by_id.get(row.session, row)
            if len(rows) < _PART:
                return
            before = rows[-1].id

    def first_of(self, run: str) -> str:
        """Return the id of the first run of a run's conversation; refuse an unknown run (404)."""
        row = self.store.row(run)
        if row is None or not row.events:
            raise no_conversation(run)
        return row.session or run

    def conversation(self, run: str) -> tuple[str, ...]:
        """Return the ids of the runs of a run's conversation, the first one first."""
        try:
            return self.store.conversation(run)
        except RunError:  # it cannot be read, and is alone
            return (run,)

    def history(self, session: str) -> tuple[PreviousTurn, ...]:
        """Return the turns of a conversation, the oldest first; `session` is the id of its first run.

        Raises `Refusal` if there is none (404), or its last question is not answered yet (409).
        """
        rows = self.store.rows("(id = ?1 OR session = ?1) AND events > 0", [session], limit=1)
        if not rows:
            raise no_conversation(session)
        if self._summary(rows[0]).state is RunState.RUNNING:
            raise unanswered()
        return self.read(rows[0].id).conversation

    def change(self, run: str, changes: RunChanges) -> None:
        """Change title, pin and sharing of a run's conversation.

        Raises `RunError` if there is no such run, or that cannot be written.
        """
        values = changes.model_dump(exclude_none=True)
        if "title" in values:
            values["title"] = clean_title(values["title"])
        row = self.store.row(run)
        self.store.change_meta(self._first(row).id if row else run, **values)

    def delete(self, runs: Sequence[str]) -> None:
        """Delete runs, with their events and pictures; the first of a conversation is the last to go.

        Raises `Refusal` if later questions follow on one of them that are to stay (409), or another process
        writes one, or it is gone (409).
        """
        for run in runs:
            following = self.store.rows("session = ?", [run])
            left = {row.id for row in following if row.events or self.store.is_starting(row.id)}
            if left - set(runs):
                message = "Later questions follow on this one."
                raise Refusal(409, message, "Delete the whole conversation, or those questions first.")
        try:
            for run in runs:
                if not self.store.has_run(run):
                    raise _gone(run)
            with self.store.changing() as connection:
                self.store.delete_all(connection, runs)
            self.store.erase()
        except RunError as error:
            raise Refusal(409, error.message, error.hint) from error
        finally:
            self._cached_summary.cache_clear()

    def purge(self, selection: RunSelection) -> RunPurge:
        """Delete the runs of a selection; return those that were deleted.

        Raises `RunError` if the collection with the runs is gone, or the disk refuses.
        """
        try:
            return delete_runs(self.store, select_runs(self.store, selection), selection)
        finally:
            self._cached_summary.cache_clear()

    def _first(self, row: RunRow) -> RunRow:
        """Return the first run of a run's conversation; if that is gone, the run itself."""
        return (self.store.row(row.session) if row.session else None) or row

    def _summary(self, row: RunRow) -> RunSummary:
        """Summarize a run without its metadata. Raises `Refusal` if there is no such run (404)."""

        def read(run: str) -> RunSummary:
            return self._cached_summary(run, self._row(run).events)

        summary = self._find(lambda run: self._cached_summary(run, row.events), row.id)
        if summary.state is RunState.FINISHED:
            return summary
        if self.is_running(row.id):
            return summary.model_copy(update={"state": RunState.RUNNING})
        return self._find(read, row.id)  # it may have ended just then

    def _row(self, run: str) -> RunRow:
        """Return what lists show of a run. Raises `Refusal` if there is no such run (404)."""
        try:
            row = self.store.row(run)
        except RunError as error:
            raise Refusal(404, error.message, error.hint) from error
        if row is None:
            raise _no_run(run)
        return row

    def _find(self, read: Callable[[str], T], run: str) -> T:
        self._row(run)  # by its whole id: a part of one is for people at a terminal
        try:
            return read(run)
        except RunError as error:
            raise Refusal(404, error.message, error.hint) from error


def _label(summary: S, own: RunRow, first: RunRow) -> S:
    return summary.with_meta(own.meta, first.meta, (first.question or summary.question)[:_MAX_TITLE_CHARS])


def is_owner(user: User, owner: str) -> bool:
    """Return whether a user is the owner of a run, or administrates all."""
    return user.is_admin or (bool(user.name) and owner == user.name)


def _no_run(run: str) -> Refusal:
    return Refusal(404, f"There is no run {run}.", "It may have been deleted. Reload the list of questions.")


def _gone(run: str) -> RunError:
    return RunError(f"No run has an id that begins with {run!r}.", "See `vrag runs list`.")


def no_conversation(run: str) -> Refusal:
    """Build the refusal of a question that follows on a run that there is not, for its user."""
    return Refusal(404, f"There is no conversation {run}.", "Ask without one.")


def unanswered() -> Refusal:
    """Build the refusal of a follow-up that comes too early."""
    return Refusal(409, "The previous question is not answered yet.", "Wait for the answer, or stop the run.")
