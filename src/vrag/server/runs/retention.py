"""Deletion of runs by age on a server: every day by the setting `keep_runs`, and as an administrator asks.

A clock that is far ahead makes every run old. The daily deletion therefore begins some minutes after the
start, when the time is usually synchronized, and `check_clock` refuses it if the runs contradict the clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.runs.retention import (
    DAY_SECONDS,
    RunOutcome,
    RunPurge,
    RunSelection,
    begin_time,
    select_runs,
)
from vrag.errors import REPAIR_COMMAND, RunError, VragError
from vrag.render.text_format import count
from vrag.server.http.audit import AuditTrail
from vrag.server.http.audit_log import SERVER_ROLE, AuditAction, AuditEntry, audited_change
from vrag.server.http.errors import responses
from vrag.server.runs.run_manager import RunManager

log = logging.getLogger("vrag.server.runs")
START_SECONDS = 600.0
"""Time after the start of the server at which it first deletes runs."""
_RETRY_SECONDS = 3600.0
"""Wait after a failure before the next attempt."""
_MAX_SKEW_SECONDS = 3600.0
"""Time by which the newest run may be ahead of the clock: machines that share runs differ."""
_MAX_GAP_SECONDS = 30 * DAY_SECONDS
"""Time without runs after which a server that was just started does not trust its clock."""


class PurgeQuery(BaseModel):
    """The runs that are to be deleted."""

    model_config = ConfigDict(frozen=True)

    older_than: float = Field(
        ge=0, le=36_500, description="Days: only conversations without a question since then; 0 for all."
    )
    owner: str | None = Field(
        default=None, max_length=64, description="Only runs of a user; empty for runs without an owner."
    )
    outcome: RunOutcome | None = Field(default=None, description="Only runs that ended in this way.")
    pinned: bool = Field(default=False, description="Whether to delete pinned and shared conversations too.")

    def selection(self, now: float, kept: Callable[[], frozenset[str]]) -> RunSelection:
        """Return the selection at a time in seconds since 1970, without the conversations of `kept`."""
        return RunSelection(
            before=now - self.older_than * DAY_SECONDS,
            owner=self.owner,
            outcome=self.outcome,
            with_pinned=self.pinned,
            kept=kept,
        )


class PurgeReport(BaseModel):
    """Runs that were deleted, or that would be."""

    runs: int = Field(ge=0, description="Number of runs.")
    bytes: int = Field(ge=0, description="Bytes of their files.")
    oldest: float | None = Field(description="Seconds since 1970 at which the first of them began.")
    newest: float | None = Field(description="Seconds since 1970 at which the last of them began.")
    damaged: int = Field(
        ge=0, description=f"Number of damaged runs that may be among them and stay: see {REPAIR_COMMAND}."
    )
    keep_days: float = Field(
        ge=0, description="Days after which the server deletes conversations by itself; 0 for never."
    )


@dataclass(frozen=True, slots=True)
class RunRetention:
    """Deletes runs of a server. For one event loop."""

    runs: RunManager
    trail: AuditTrail
    keep_days: float
    """Days after which conversations are deleted; 0 for never."""
    now: Callable[[], float] = time.time
    uptime: Callable[[], float] = time.monotonic
    """Returns seconds since any fixed moment, which changes of the clock do not affect."""

    async def preview(self, query: PurgeQuery) -> PurgeReport:
        """Report what `purge` would delete."""
        selection = self._selection(query)
        return self._report(
            await self.runs.in_thread(lambda: select_runs(self.runs.history.store, selection))
        )

    async def purge(self, query: PurgeQuery) -> PurgeReport:
        """Delete runs. Runs in progress stay, and conversations that are being continued."""
        selection = self._selection(query)
        return self._report(await self.runs.in_thread(lambda: self.runs.history.purge(selection)))

    async def keep_purging(self) -> None:
        """Delete old conversations soon after the start and every day, until it is cancelled."""
        started = self.uptime()
        pause = START_SECONDS
        while self.keep_days:
            await asyncio.sleep(pause)
            try:
                await self.runs.in_thread(lambda: self._purge_old(self.uptime() - started))
                pause = DAY_SECONDS
            except (VragError, OSError) as error:
                log.error("Old runs could not be deleted: %s", error)  # noqa: TRY400 - says it all
                pause = _RETRY_SECONDS

    def _purge_old(self, uptime: float) -> None:
        history = self.runs.history
        selection = self._selection(PurgeQuery(older_than=self.keep_days))
        found = select_runs(history.store, selection)
        if found.damaged:
            number = count(len(found.damaged), "old run")
            log.warning("Not deleted, because damaged: %s. Run: %s", number, REPAIR_COMMAND)
        if not found.runs:
            return
        check_clock(history.store.stamps(), self.now(), uptime)
        entry = AuditEntry(role=SERVER_ROLE, action=AuditAction.PURGE_RUNS)
        with audited_change(self.trail.log, entry) as logged:
            deleted = history.purge(selection)
            logged["runs"] = len(deleted.runs)
        number, days = count(len(deleted.runs), "run"), self.keep_days
        log.info("Deleted %s older than %g days (%d bytes).", number, days, deleted.bytes)

    def _selection(self, query: PurgeQuery) -> RunSelection:
        return query.selection(self.now(), lambda: self.runs.continued)

    def _report(self, purge: RunPurge) -> PurgeReport:
        return PurgeReport(
            runs=len(purge.runs),
            bytes=purge.bytes,
            oldest=purge.oldest,
            newest=purge.newest,
            damaged=len(purge.damaged),
            keep_days=self.keep_days,
        )


def check_clock(runs: Collection[str], now: float, uptime: float) -> None:
    """Check that the clock may be right, by the ids of all runs and the time since the server was started.

    Raises `RunError` if the newest run began in the future: the clock is wrong, or was. In the first day of
    a process, also if the clock is more than 30 days after the newest run. Runs of the last day do not count
    there: a wrong clock may have dated them.
    """
    times = [begun for run in runs if (begun := begin_time(run)) < float("inf")]
    if (newest := max(times, default=now)) > now + _MAX_SKEW_SECONDS:
        run = max(run for run in runs if begin_time(run) == newest)
        message = f"the clock says {_format(now)}, and the run {run} began later."
        raise RunError(message, "Set the clock; if it is right, delete that run: vrag runs delete.")
    last = max((begun for begun in times if begun < now - DAY_SECONDS), default=now)
    if uptime < DAY_SECONDS and now - last > _MAX_GAP_SECONDS:
        message = f"the clock says {_format(now)}, and the newest run before today began {_format(last)}."
        hint = "If the clock is wrong, set it now: they are deleted when the server has been up for a day."
        raise RunError(message, hint)


def _format(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def retention_routes(retention: RunRetention) -> APIRouter:
    """Build `GET /retention` and `DELETE /runs`."""
    router = APIRouter(tags=["runs"])

    @router.get("/retention", summary="Preview of a deletion of runs", responses=responses(503, 504))
    async def preview(query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """The runs of all users that `DELETE /runs` would delete with the same parameters."""
        return await retention.preview(query)

    @router.delete("/runs", summary="Delete runs of all users", responses=responses(503, 504))
    async def purge(request: Request, query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """Deletes events and pictures from the disk: by age, user or outcome. This cannot be undone.

        The age of a conversation is that of its last question. With `owner` or `outcome`, single runs of a
        conversation are deleted; its first run stays while others follow on it. Runs in progress stay, as do
        damaged runs, and pinned and shared conversations without `pinned`.
        """
        request.state.audit.note(subject=query.owner)
        await request.state.audit.begin()
        report = await retention.purge(query)
        request.state.audit.note(runs=report.runs)
        return report

    return router
