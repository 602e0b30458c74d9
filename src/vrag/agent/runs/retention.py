"""Deletion of recorded runs by age, user and outcome.

By age, conversations are deleted as a whole, when their last question is old enough: each later question
records the questions and answers before it, so that deleting the first ones alone would delete nothing. By
user or outcome, single runs of a conversation are deleted; its first run stays while others follow on it.
Runs in progress stay, and pinned and shared conversations unless they are asked for.

A clock that is far ahead makes every run old: `check_clock` compares it with the runs.

A run whose metadata or beginning is damaged stays: whose it is, whether it is pinned and which conversation
it belongs to cannot be known. A conversation whose first run has damaged metadata stays as a whole.

Each run is renamed to a hidden name before its files are removed (`RunStore.delete`). A process that dies in
the middle leaves no half of a run: what it left is removed by the next deletion, or when a server starts.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, cast

from vrag.agent.events import RunFailed
from vrag.agent.runs.event_lines import END, unseal_lines
from vrag.agent.runs.run_meta import load_meta
from vrag.agent.runs.run_store import EVENTS, LOCK, RunStore, is_held
from vrag.errors import RunError
from vrag.index.integrity.sealed_json import Seal
from vrag.parsing import parse_json

DAY_SECONDS = 86_400.0
_MAX_SKEW_SECONDS = 3600.0
"""Time by which the newest run may be ahead of the clock: machines that share runs differ."""
_MAX_GAP_SECONDS = 30 * DAY_SECONDS
"""Time without runs after which a clock is trusted only if it has run for a day without a jump."""
_SESSION = re.compile(rb'"session":"([0-9a-f-]{1,40})"')
_ID_TIME = re.compile(r"(\d{8}-\d{6})-(\d{6})-[0-9a-f]+")
"""The beginning of the id of a run: the time at which it began (UTC), and microseconds."""


class RunOutcome(StrEnum):
    """The end of a run, by which runs are chosen."""

    ANSWERED = "answered"
    """With an answer, or with the statement that the documents hold none."""
    FAILED = "failed"
    """By an error, at a limit, or because somebody stopped it."""
    INTERRUPTED = "interrupted"
    """Its process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """The runs that are to be deleted."""

    before: float | None = None
    """Only conversations without a question since then, in seconds since 1970."""
    owner: str | None = None
    """Only runs of a user; empty for runs without an owner."""
    outcome: RunOutcome | None = None
    with_pinned: bool = False
    """True to select pinned and shared conversations too."""
    kept: Callable[[], Collection[str]] = frozenset
    """Returns conversations that stay, by the ids of their first runs: those that are being continued."""


@dataclass(frozen=True, slots=True)
class RunPurge:
    """Runs that are to be deleted."""

    runs: tuple[str, ...] = ()
    """Their ids, in the order in which they are deleted: the first run of a conversation is the last."""
    bytes: int = 0
    """Bytes of their files."""
    damaged: tuple[str, ...] = ()
    """Damaged runs that may belong to the selection and stay."""

    @property
    def oldest(self) -> float | None:
        """The time at which the first of them began, in seconds since 1970; None if there are none."""
        return min(map(begin_time, self.runs), default=None)

    @property
    def newest(self) -> float | None:
        """The time at which the last of them began."""
        return max(map(begin_time, self.runs), default=None)


def begin_time(run: str) -> float:
    """Return when a run began by its id, in seconds since 1970; infinity if that is the id of no run.

    >>> begin_time("19700102-000001-500000-abcd"), begin_time("notes")
    (86401.5, inf)
    """
    match = _ID_TIME.fullmatch(run)
    if match is None:
        return float("inf")
    try:
        begun = datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return float("inf")
    return begun.timestamp() + int(match[2]) / 1e6


def check_clock(runs: Collection[str], now: float, steady_seconds: float, gap_hint: str) -> None:
    """Check that the clock may be right, by the ids of all runs, before runs are deleted by age.

    Raises `RunError` if the newest run began in the future: the clock is wrong, or was. Raises it too, with
    the hint `gap_hint`, if the clock is more than 30 days after the newest run, unless it is known to have
    run for a day without a jump (`steady_seconds`). Runs of the last day do not count there: a wrong clock
    may have dated them.
    """
    times = [begun for run in runs if (begun := begin_time(run)) < float("inf")]
    if (newest := max(times, default=now)) > now + _MAX_SKEW_SECONDS:
        run = max(run for run in runs if begin_time(run) == newest)
        message = f"The clock says {format_minute(now)}, and the run {run} began later."
        raise RunError(message, "Set the clock; if it is right, delete that run: vrag runs delete.")
    last = max((begun for begun in times if begun < now - DAY_SECONDS), default=now)
    if steady_seconds < DAY_SECONDS and now - last > _MAX_GAP_SECONDS:
        newest_old = f"the newest run before today began {format_minute(last)}"
        raise RunError(f"The clock says {format_minute(now)}, and {newest_old}.", gap_hint)


def format_minute(seconds: float) -> str:
    """Return a time, in seconds since 1970, as users may write it.

    >>> format_minute(1.5e9)
    '2017-07-14T02:40Z'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"


def select_runs(store: RunStore, selection: RunSelection) -> RunPurge:
    """Find the runs of a selection. Raises `RunError` if the collection with the runs is gone."""
    store.check_place()
    conversations = _Conversations(store)
    found: list[str] = []
    damaged: list[str] = []
    for first in conversations.firsts():
        purge = conversations.select(first, selection)
        found += purge.runs
        damaged += purge.damaged
    size = sum(_directory_bytes(store.directory / run) for run in found)
    return RunPurge(_newest_first(found), size, _newest_first(damaged))


def delete_runs(store: RunStore, purge: RunPurge, selection: RunSelection) -> RunPurge:
    """Delete those of the runs found that a selection still has; return them.

    Each conversation is looked at again just before its deletion: one that was pinned, shared or continued
    since then stays, and nothing is deleted that was not found. Raises `RunError` if the disk refuses; those
    before are deleted then.
    """
    store.sweep()
    conversations = _Conversations(store)
    found = set(purge.runs)
    deleted: list[str] = []
    freed = 0
    for first in conversations.firsts(purge.runs):
        with store.lock_metas():
            conversations.refresh()
            for run in conversations.select(first, selection, found).runs:
                size = _directory_bytes(store.directory / run)
                try:
                    store.delete(run)
                except RunError as error:
                    if isinstance(error.__cause__, OSError):
                        raise
                    break  # in progress by now: the runs that it follows on stay
                deleted.append(run)
                freed += size
    return RunPurge(_newest_first(deleted), freed, purge.damaged)


class _RunStart(NamedTuple):
    """The beginning of a run, as far as it can be read."""

    session: str = ""
    """The first run of its conversation, also if the line is damaged elsewhere; empty for that run itself."""
    is_damaged: bool = False


class _Conversations:
    """The conversations of a store. The beginning of a run never changes, and is read once."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._starts: dict[str, _RunStart] = {}
        self._runs: dict[str, list[str]] = {}
        """The runs of each conversation, by its first run."""
        self.refresh()

    def refresh(self) -> None:
        """Read the beginnings of runs that are new."""
        names: Collection[str] = ()
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._store.directory) as entries:
            names = [entry.name for entry in entries]
        for run in names:
            if run not in self._starts and begin_time(run) < float("inf"):
                start = _read_start(self._store.directory / run)
                if start is not None:
                    self._starts[run] = start
                first = self._first(run, start)
                if run not in (runs := self._runs.setdefault(first, [])):
                    runs.append(run)

    def firsts(self, runs: Collection[str] | None = None) -> list[str]:
        """Return the first runs of all conversations, or of those of some runs."""
        if runs is None:
            return list(self._runs)
        return list(dict.fromkeys(self._first(run, self._starts.get(run)) for run in runs))

    def select(self, first: str, selection: RunSelection, among: Collection[str] | None = None) -> RunPurge:
        """Return the runs of a conversation that are selected, and among these; the first run is the last."""
        runs = [run for run in self._runs.get(first, ()) if (self._store.directory / run).is_dir()]
        meta = load_meta(self._store.directory / first)
        if not runs or first in selection.kept():
            return RunPurge()
        if meta is not None and (meta.pinned or meta.shared) and not selection.with_pinned:
            return RunPurge()
        if selection.before is not None and max(map(begin_time, runs)) >= selection.before:
            return RunPurge()
        own = [run for run in runs if self._may_be_of(run, selection.owner)]
        damaged = tuple(run for run in own if self._is_damaged(run))
        if meta is None and not selection.with_pinned:  # it may be pinned
            return RunPurge(damaged=damaged)
        found = [
            run
            for run in own
            if run not in damaged and (among is None or run in among) and self._is_selected(run, selection)
        ]
        if first in found and len(found) < len(runs):  # others follow on it
            found.remove(first)
        return RunPurge(_newest_first(found), damaged=damaged)

    def _first(self, run: str, start: _RunStart | None) -> str:
        """Return the first run of a run's conversation; the run itself if that is gone or not known."""
        session = start.session if start else ""
        return session if session and self._store.has_events(session) else run

    def _may_be_of(self, run: str, owner: str | None) -> bool:
        meta = load_meta(self._store.directory / run)
        return owner is None or meta is None or meta.owner == owner

    def _is_selected(self, run: str, selection: RunSelection) -> bool:
        if is_held(self._store.directory / run / LOCK):
            return False
        if run not in self._starts:  # a process died before the first event, or is about to write it
            return begin_time(run) < time.time() - DAY_SECONDS
        return selection.outcome is None or _outcome(self._store, run) is selection.outcome

    def _is_damaged(self, run: str) -> bool:
        start = self._starts.get(run)
        return bool(start and start.is_damaged) or load_meta(self._store.directory / run) is None


def _read_start(directory: Path) -> _RunStart | None:
    """Read the beginning of the run in a directory; None if it has not begun."""
    try:
        with (directory / EVENTS).open("rb") as file:
            lines = [line for line in (file.readline(), file.readline()) if line]
    except FileNotFoundError:
        return None
    except OSError:
        return _RunStart(is_damaged=True)
    if not lines:  # its process died before the first event; or the events of a finished run are lost
        return _RunStart(is_damaged=True) if (directory / END).exists() else None
    session = _SESSION.search(lines[0])
    return _RunStart(session[1].decode() if session else "", is_damaged=not _is_sound(lines))


def _is_sound(lines: list[bytes]) -> bool:
    """Return whether the first of these lines is the beginning of a run; the second is the one after it."""
    if not lines[0].endswith(b"\n"):
        return False
    first = unseal_lines([line.rstrip(b"\n") for line in lines])[0]
    try:
        content = parse_json(first.data)
    except ValueError:
        return False
    if first.seal is Seal.BROKEN or not isinstance(content, dict):
        return False
    names = cast("dict[str, object]", content)
    return names.get("type") == "run_started" and "session" in names


def _newest_first(runs: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(runs, reverse=True))


def _outcome(store: RunStore, run: str) -> RunOutcome | None:
    """Return how a run ended; None if it cannot be read."""
    try:
        end = store.outline(run).end
    except (RunError, OSError):
        return None
    if end is None:
        return RunOutcome.INTERRUPTED
    return RunOutcome.FAILED if isinstance(end, RunFailed) else RunOutcome.ANSWERED


def _directory_bytes(directory: Path) -> int:
    size = 0
    for path in directory.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                size += path.stat().st_size
    return size
