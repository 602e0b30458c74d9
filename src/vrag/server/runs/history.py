"""Recorded runs, as lists and conversations, and who may see them. Reads the disk: for threads.

`check` is the one place that decides who sees a run. A run that a user may not see is refused in the words
for one that does not exist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from vrag.agent.question import PreviousTurn
from vrag.agent.runs.retention import RunPurge, RunSelection, delete_runs, select_runs
from vrag.agent.runs.run_meta import PROGRAMS, RunMeta, clean_title
from vrag.agent.runs.run_result import RunResult
from vrag.agent.runs.run_store import RunState, RunStore, StoredRun
from vrag.errors import RunError
from vrag.server.http.errors import Refusal
from vrag.server.http.users import User
from vrag.server.runs.schema import RunChanges, RunDetail, RunList, RunQuery, RunSummary

T = TypeVar("T")
S = TypeVar("S", bound=RunSummary)
_MAX_SUMMARIES, _MAX_STARTS = 16_384, 65_536
"""Sizes of the caches: summaries of runs, and how each began, which never changes."""
_MAX_SCANNED = 2000
"""Runs whose events one request reads from the disk to see whether they are among those that it lists."""
_MAX_TITLE_CHARS = 300
"""Characters of a question that stands in place of a title."""


class RunHistory:
    """The runs of a store."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._metas: dict[str, tuple[int, RunMeta]] = {}
        """The metadata of every run, with the time stamp of its directory."""
        self._lock = threading.Lock()

        @lru_cache(_MAX_STARTS)
        def start(run: str) -> tuple[str, str]:
            started = store.started(run)
            return started.session, started.question[:_MAX_TITLE_CHARS]

        @lru_cache(_MAX_SUMMARIES)
        def summary(run: str, _length: int) -> RunSummary:  # read again if the file of the run has grown
            outline = store.outline(run)
            state = RunState.INTERRUPTED if outline.end is None else RunState.FINISHED
            return RunSummary.of(run, outline, state)

        self._start, self._cached_summary = start, summary

        def forget() -> None:
            start.cache_clear()
            summary.cache_clear()

        self._forget = forget

    def check(self, run: str, user: User, *, to_change: bool = False) -> None:
        """Check that a user may see a run, or change it as well.

        Raises `Refusal` if there is no such run, or the user may not see it (404, in the same words), or may
        see it and not change it (403).
        """
        own = self._find(self.store.meta, run)
        if is_owner(user, own):
            return
        if not self.store.meta(self._first(run)).shared:
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
        first = self._first(summary.id)
        return self._label(summary, self.store.meta(summary.id), self.store.meta(first))

    def is_running(self, run: str) -> bool:
        """Return whether some process writes it now."""
        return self.store.state(run, ended=False) is RunState.RUNNING

    def summaries(self, live: Mapping[str, RunResult], user: User, query: RunQuery) -> RunList:
        """List runs of a user, or of a shared conversation, the newest first; unreadable ones are left out.

        `live` are the outlines of runs that this process writes. At most `_MAX_SCANNED` runs are read from
        the disk: the next request continues.
        """
        metas = self._read_metas()
        own = {run: meta for run, meta in metas.items() if is_owner(user, meta)}
        is_shared = query.session in metas and metas[query.session].shared
        found: list[RunSummary] = []
        previous = following = ""
        read_before = self._cached_summary.cache_info().misses
        for run in self._select(metas if is_shared else own, metas, query):
            scanned = self._cached_summary.cache_info().misses - read_before
            if len(found) == query.limit or (query.needs_events and scanned >= _MAX_SCANNED):
                following = previous
                break
            previous = run
            with suppress(Refusal):
                outline = live.get(run)
                plain = RunSummary.of(run, outline, RunState.RUNNING) if outline else self._summary(run)
                summary = self._label(plain, metas[run], metas.get(plain.session, metas[run]))
                if query.has(summary):
                    found.append(summary)
        programs = sum(meta.via in PROGRAMS for meta in own.values())
        return RunList(
            runs=tuple(found),
            more=bool(following),
            next=following,
            people=len(own) - programs,
            programs=programs,
            pinned=sum(meta.pinned and query.has_asker(meta) for meta in own.values()),
            owners=tuple(sorted({meta.owner for meta in own.values()})) if user.is_admin else (),
        )

    def first_of(self, run: str) -> str:
        """Return the id of the first run of a run's conversation; refuse an unknown run (404)."""
        self.store.check_place()
        try:
            return self._start(run)[0] or run
        except (RunError, OSError) as error:
            raise no_conversation(run) from error

    def conversation(self, run: str) -> tuple[str, ...]:
        """Return the ids of the runs of a run's conversation, the first one first."""
        try:
            return self.store.conversation(run)
        except (RunError, OSError):  # it cannot be read, and is alone
            return (run,)

    def history(self, session: str) -> tuple[PreviousTurn, ...]:
        """Return the turns of a conversation, the oldest first; `session` is the id of its first run.

        Raises `Refusal` if there is none (404), or its last question is not answered yet (409).
        """
        candidates = (run for run in self.store.ids() if run >= session and self._belongs_to(run, session))
        newest = next(candidates, None)
        if newest is None:
            raise no_conversation(session)
        if self._summary(newest).state is RunState.RUNNING:
            raise unanswered()
        return self.read(newest).conversation

    def change(self, run: str, changes: RunChanges) -> None:
        """Change title, pin and sharing of a run's conversation.

        Raises `RunError` if there is no such run, or that cannot be written.
        """
        values = changes.model_dump(exclude_none=True)
        if "title" in values:
            values["title"] = clean_title(values["title"])
        first = self._first(run)
        self.store.change_meta(first, **values)
        with self._lock:  # two changes at one tick of the file system's clock have one time stamp
            self._metas.pop(first, None)

    def delete(self, runs: Sequence[str]) -> None:
        """Delete runs, with their events and pictures; the first of a conversation is the last to go.

        Raises `Refusal` if later questions follow on one of them that are to stay (409), or another process
        writes one, or it is gone (409).
        """
        for run in runs:
            if self._first(run) == run and set(self.conversation(run)) - set(runs):
                message = "Later questions follow on this one."
                raise Refusal(409, message, "Delete the whole conversation, or those questions first.")
        for run in sorted(runs, reverse=True):
            try:
                self.store.delete(run)
            except RunError as error:
                raise Refusal(409, error.message, error.hint) from error
        self._forget()

    def purge(self, selection: RunSelection) -> RunPurge:
        """Delete the runs of a selection; return those that were deleted.

        Raises `RunError` if the collection with the runs is gone, or the disk refuses.
        """
        try:
            return delete_runs(self.store, select_runs(self.store, selection), selection)
        finally:
            self._forget()

    def _read_metas(self) -> dict[str, RunMeta]:
        """Return the metadata of every run; those of directories without a change are not read again."""
        stamps = self.store.stamps()
        with self._lock:
            known = self._metas
            if known.keys() - stamps.keys():  # another process deleted some: nothing of them stays in memory
                self._forget()
            self._metas = {run: known[run] for run in stamps.keys() & known.keys()}
            for run, stamp in stamps.items():
                if (entry := self._metas.get(run)) and entry[0] == stamp:
                    continue
                if self.store.has_events(run):
                    self._metas[run] = stamp, self.store.meta(run)
            return {run: meta for run, (_, meta) in self._metas.items()}

    def _select(
        self, listed: Mapping[str, RunMeta], metas: Mapping[str, RunMeta], query: RunQuery
    ) -> Iterator[str]:
        """Yield the ids of those runs, the newest first, that a query selects as far as metadata tells."""
        firsts = {query.session} if query.session else set[str]()
        if query.pinned:
            pinned = {run for run, meta in metas.items() if meta.pinned}
            firsts = firsts & pinned if firsts else pinned
        of_conversations = bool(query.session) or query.pinned
        for run in sorted(listed, reverse=True):
            meta = listed[run]
            if (
                (query.before and run >= query.before)
                or not query.has_asker(meta)
                or (query.owner is not None and query.owner != meta.owner)
                or (of_conversations and not any(self._belongs_to(run, first) for first in firsts))
            ):
                continue
            yield run

    def _first(self, run: str) -> str:
        """Return the id of the first run of a run's conversation; if that is gone, of the run itself."""
        with suppress(RunError, OSError):
            session = self._start(run)[0]
            return session if session and self.store.has_events(session) else run
        return run

    def _belongs_to(self, run: str, session: str) -> bool:
        if run == session:
            return True
        with suppress(RunError, OSError):
            return self._start(run)[0] == session
        return False

    def _label(self, summary: S, own: RunMeta, first: RunMeta) -> S:
        question = summary.question
        if summary.session != summary.id:
            with suppress(RunError, OSError):
                question = self._start(summary.session)[1]
        return summary.with_meta(own, first, question[:_MAX_TITLE_CHARS])

    def _summary(self, run: str) -> RunSummary:
        """Summarize a run without its metadata. Raises `Refusal` if there is no such run (404)."""

        def read(run: str) -> RunSummary:
            return self._cached_summary(run, self.store.length(run))

        summary = self._find(read, run)
        if summary.state is RunState.FINISHED:
            return summary
        if self.is_running(run):
            return summary.model_copy(update={"state": RunState.RUNNING})
        return self._find(read, run)  # it may have ended just then

    def _find(self, read: Callable[[str], T], run: str) -> T:
        self.store.check_place()
        try:
            self.store.length(run)  # by its whole id: a part of one is for people at a terminal
            return read(run)
        except RunError as error:
            raise Refusal(404, error.message, error.hint) from error
        except OSError as error:
            raise _no_run(run) from error


def is_owner(user: User, meta: RunMeta) -> bool:
    """Return whether a user owns a run, or administrates all."""
    return user.is_admin or (bool(user.name) and meta.owner == user.name)


def _no_run(run: str) -> Refusal:
    return Refusal(404, f"There is no run {run}.", "It may have been deleted. Reload the list of questions.")


def no_conversation(run: str) -> Refusal:
    """Build the refusal of a question that follows on a run that there is not, for its user."""
    return Refusal(404, f"There is no conversation {run}.", "Ask without one.")


def unanswered() -> Refusal:
    """Build the refusal of a follow-up that comes too early."""
    return Refusal(409, "The previous question is not answered yet.", "Wait for the answer, or stop the run.")
