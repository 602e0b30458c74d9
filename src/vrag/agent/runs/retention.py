"""Deletion of recorded runs by age, user and outcome.

Conversations go as a whole, when their last question is old enough: each later question records the questions
and answers before it, so that deleting the first ones alone would delete nothing. Runs in progress stay, and
pinned and shared conversations unless they are asked for.

Each run is renamed to a hidden name before its files are removed (`RunStore.delete`). A process that dies in
the middle leaves no half of a run: what it left is removed by the next deletion, or when a server starts.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from vrag.agent.events import RunFailed
from vrag.agent.runs.run_store import LOCK, RunStore, is_held
from vrag.errors import RunError

DAY_SECONDS = 86_400.0
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
    kept: frozenset[str] = frozenset()
    """Conversations that stay, by the ids of their first runs: those that are being continued."""


@dataclass(frozen=True, slots=True)
class RunPurge:
    """Runs that are to be deleted."""

    runs: tuple[str, ...] = ()
    """Their ids, in the order in which they are deleted: the first run of a conversation is the last."""
    bytes: int = 0
    """Bytes of their files."""

    @property
    def oldest(self) -> float | None:
        """When the first of them began, in seconds since 1970; None if there are none."""
        return min(map(begin_time, self.runs), default=None)

    @property
    def newest(self) -> float | None:
        """When the last of them began."""
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


def select_runs(store: RunStore, selection: RunSelection) -> RunPurge:
    """Find the runs of a selection. Raises `RunError` if the collection with the runs is gone."""
    conversations: defaultdict[str, list[str]] = defaultdict(list)
    for run in store.stamps():
        if begin_time(run) < float("inf"):
            conversations[_first_run(store, run)].append(run)
    found: list[str] = []
    for first, runs in conversations.items():
        found += _select_conversation(store, first, runs, selection)
    return RunPurge(
        tuple(sorted(found, reverse=True)), sum(_directory_bytes(store.directory / run) for run in found)
    )


def delete_runs(store: RunStore, purge: RunPurge) -> RunPurge:
    """Delete runs; return those that were deleted. One that is gone or in progress by now is left out.

    Raises `RunError` if the disk refuses; those before are deleted then.
    """
    store.sweep()
    deleted: list[str] = []
    freed = 0
    for run in purge.runs:
        size = _directory_bytes(store.directory / run)
        try:
            store.delete(run)
        except RunError as error:
            if isinstance(error.__cause__, OSError):
                raise
            continue
        deleted.append(run)
        freed += size
    return RunPurge(tuple(deleted), freed)


def _select_conversation(
    store: RunStore, first: str, runs: Collection[str], selection: RunSelection
) -> list[str]:
    """Return the runs of a conversation that are selected."""
    meta = store.meta(first)
    if first in selection.kept or ((meta.pinned or meta.shared) and not selection.with_pinned):
        return []
    if selection.before is not None and max(map(begin_time, runs)) >= selection.before:
        return []
    found = [run for run in runs if _is_selected(store, run, selection)]
    if first in found and len(found) < len(runs):  # others follow on it
        found.remove(first)
    return found


def _is_selected(store: RunStore, run: str, selection: RunSelection) -> bool:
    if selection.owner is not None and store.meta(run).owner != selection.owner:
        return False
    if is_held(store.directory / run / LOCK):
        return False
    if not store.has_events(run):  # a process died before the first event, or is about to write it
        return begin_time(run) < time.time() - DAY_SECONDS
    return selection.outcome is None or _outcome(store, run) is selection.outcome


def _outcome(store: RunStore, run: str) -> RunOutcome | None:
    """Return how a run ended; None if it cannot be read."""
    try:
        end = store.outline(run).end
    except (RunError, OSError):
        return None
    if end is None:
        return RunOutcome.INTERRUPTED
    return RunOutcome.FAILED if isinstance(end, RunFailed) else RunOutcome.ANSWERED


def _first_run(store: RunStore, run: str) -> str:
    """Return the first run of a run's conversation; of one that cannot be read, the run itself."""
    with suppress(RunError, OSError):
        return store.started(run).session or run
    return run


def _directory_bytes(directory: Path) -> int:
    size = 0
    for path in directory.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                size += path.stat().st_size
    return size
