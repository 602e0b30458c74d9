"""Deletion of recorded runs by age, user and outcome.

By age, conversations are deleted as a whole, when their last question is old enough: each later question
records the questions and answers before it, so that deleting the first ones alone would delete nothing. By
user or outcome, single runs of a conversation are deleted; its first run stays while others follow on it.
Runs in progress stay, and pinned and shared conversations unless they are asked for.

A clock that is far ahead makes every run old: `check_clock` compares it with the runs.

What was found is looked at again in the commit that deletes it: what was pinned, shared or continued since
then stays. A damaged database deletes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from vrag.agent.runs.run_store import RunRow, RunStore
from vrag.errors import RunError

DAY_SECONDS = 86_400.0
_MAX_SKEW_SECONDS = 3600.0
"""Time by which the newest run may be ahead of the clock: machines that share runs differ."""
_MAX_GAP_SECONDS = 30 * DAY_SECONDS
"""Time without runs after which a clock is trusted only if it has run for a day without a jump."""
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
    """Bytes of their events, and of files that no other run has."""

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
    """Find the runs of a selection. Raises `RunError` if they cannot be read, or their collection is gone."""
    return _select(store, selection)


def delete_runs(store: RunStore, purge: RunPurge, selection: RunSelection) -> RunPurge:
    """Delete those of the runs found that a selection still has; return them.

    Nothing is deleted that was not found. Raises `RunError` if the disk refuses; none is deleted then.
    """
    if not purge.runs:
        return RunPurge()
    with store.changing() as connection:
        deleted = _select(store, selection, frozenset(purge.runs))
        store.delete_all(connection, deleted.runs)
    store.erase()
    return deleted


def _select(store: RunStore, selection: RunSelection, among: Collection[str] | None = None) -> RunPurge:
    """Return the runs of a selection, and among these; the first run of a conversation is the last."""
    rows = store.rows()
    known = {row.id for row in rows}
    conversations: dict[str, list[RunRow]] = {}
    for row in rows:  # a run whose first question is gone is a conversation of its own
        first = row.session if row.session in known else row.id
        conversations.setdefault(first, []).append(row)
    kept = selection.kept()
    found: list[RunRow] = []
    for first, members in conversations.items():
        if first not in kept:
            found += _select_members(store, first, members, selection, among)
    found.sort(key=lambda row: row.id, reverse=True)
    runs = tuple(row.id for row in found)
    return RunPurge(runs, sum(row.bytes for row in found) + store.measure_files(runs))


def _select_members(
    store: RunStore,
    first: str,
    members: Sequence[RunRow],
    selection: RunSelection,
    among: Collection[str] | None,
) -> list[RunRow]:
    """Return the runs of a conversation that are selected."""
    own = next((row for row in members if row.id == first), None)
    if own is not None and (own.pinned or own.shared) and not selection.with_pinned:
        return []
    if selection.before is not None and max(begin_time(row.id) for row in members) >= selection.before:
        return []
    found = [
        row for row in members if (among is None or row.id in among) and _is_selected(store, row, selection)
    ]
    if own is not None and own in found and len(found) < len(members):  # others follow on it
        found.remove(own)
    return found


def _is_selected(store: RunStore, row: RunRow, selection: RunSelection) -> bool:
    if begin_time(row.id) == float("inf") or store.files.is_recorded(row.recorder):
        return False
    if selection.owner is not None and row.owner != selection.owner:
        return False
    return selection.outcome is None or (row.outcome or RunOutcome.INTERRUPTED) == selection.outcome
