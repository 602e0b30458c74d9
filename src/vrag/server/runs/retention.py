"""Deletion of runs by age on a server: every day by the setting `keep_runs`, and as an administrator asks.

A clock that is far ahead makes every run old. The daily deletion therefore begins some minutes after the
start, when the time is usually synchronized, and `check_clock` refuses both if the runs contradict the clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.runs.retention import (
    DAY_SECONDS,
    RunOutcome,
    RunPurge,
    RunSelection,
    check_clock,
    format_minute,
    select_runs,
)
from vrag.errors import RunError, VragError
from vrag.server.http.audit import AuditTrail
from vrag.server.http.audit_log import SERVER_ROLE, AuditAction, AuditEntry, audited_change
from vrag.server.http.errors import Refusal, responses
from vrag.server.runs.run_manager import RunManager
from vrag.text.numerals import count

log = logging.getLogger("vrag.server.runs")
START_SECONDS = 600.0
"""Time after the start of the server at which it first deletes runs."""
_RETRY_SECONDS = 3600.0
"""Wait after a failure before the next attempt."""
_MAX_JUMP_SECONDS = 3600.0
"""Time by which the clock may be set without a loss of trust."""


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
    bytes: int = Field(ge=0, description="Bytes of their events, and of their pictures and messages.")
    oldest: float | None = Field(description="Seconds since 1970 at which the first of them began.")
    newest: float | None = Field(description="Seconds since 1970 at which the last of them began.")
    keep_days: float = Field(
        ge=0, description="Days after which the server deletes conversations by itself; 0 for never."
    )


class ServerClock:
    """The time of day, and the time since its last jump."""

    def __init__(
        self, now: Callable[[], float] = time.time, uptime: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = now
        self._uptime = uptime
        """Returns seconds since any fixed moment, which changes of the clock do not affect."""
        self._begin = uptime()
        self._offset = now() - self._begin

    def steady_seconds(self) -> float:
        """Return the seconds since the start, or since the call that found the last jump."""
        uptime = self._uptime()
        before, self._offset = self._offset, self.now() - uptime
        if abs(self._offset - before) > _MAX_JUMP_SECONDS:
            self._begin = uptime
        return uptime - self._begin


@dataclass(frozen=True, slots=True)
class RunRetention:
    """Deletes runs of a server. For one event loop."""

    runs: RunManager
    trail: AuditTrail
    keep_days: float
    """Days after which conversations are deleted; 0 for never."""
    clock: ServerClock = field(default_factory=ServerClock)

    async def preview(self, query: PurgeQuery) -> PurgeReport:
        """Report what `purge` would delete."""
        selection = self._selection(query)
        return self._report(
            await self.runs.in_thread(lambda: select_runs(self.runs.history.store, selection))
        )

    async def purge(self, query: PurgeQuery) -> PurgeReport:
        """Delete runs. Runs in progress stay, and conversations that are being continued.

        Raises `Refusal` (409) if they are chosen by age, and the clock may be wrong.
        """
        selection, steady_seconds = self._selection(query), self.clock.steady_seconds()
        return self._report(await self.runs.in_thread(lambda: self._purge(query, selection, steady_seconds)))

    async def keep_purging(self) -> None:
        """Delete old conversations soon after the start and every day, until it is cancelled."""
        pause = START_SECONDS
        while self.keep_days:
            await asyncio.sleep(pause)
            try:
                await self.runs.in_thread(lambda: self._purge_old(self.clock.steady_seconds()))
                pause = DAY_SECONDS
            except (VragError, OSError) as error:
                log.error("Old runs could not be deleted: %s", error)  # noqa: TRY400 - says it all
                pause = _RETRY_SECONDS

    def _purge(self, query: PurgeQuery, selection: RunSelection, steady_seconds: float) -> RunPurge:
        history = self.runs.history
        if query.older_than and select_runs(history.store, selection).runs:
            day = format_minute(self.clock.now() - query.older_than * DAY_SECONDS)
            gap_hint = (
                "If the clock is right, delete them when the server has been up for a day, or now with: "
                f"vrag runs purge --before {day}"
            )
            try:
                check_clock(history.store.ids(), self.clock.now(), steady_seconds, gap_hint)
            except RunError as error:
                raise Refusal(409, error.message, error.hint) from error
        return history.purge(selection)

    def _purge_old(self, steady_seconds: float) -> None:
        history = self.runs.history
        selection = self._selection(PurgeQuery(older_than=self.keep_days))
        found = select_runs(history.store, selection)
        if not found.runs:
            return
        gap_hint = (
            "If the clock is wrong, set it now: they are deleted when the server has been up for a day."
        )
        check_clock(history.store.ids(), self.clock.now(), steady_seconds, gap_hint)
        entry = AuditEntry(role=SERVER_ROLE, action=AuditAction.PURGE_RUNS)
        with audited_change(self.trail.log, entry) as logged:
            deleted = history.purge(selection)
            logged["runs"] = len(deleted.runs)
        number, days = count(len(deleted.runs), "run"), self.keep_days
        log.info("Deleted %s older than %g days (%d bytes).", number, days, deleted.bytes)

    def _selection(self, query: PurgeQuery) -> RunSelection:
        return query.selection(self.clock.now(), lambda: self.runs.continued)

    def _report(self, purge: RunPurge) -> PurgeReport:
        return PurgeReport(
            runs=len(purge.runs),
            bytes=purge.bytes,
            oldest=purge.oldest,
            newest=purge.newest,
            keep_days=self.keep_days,
        )


def retention_routes(retention: RunRetention) -> APIRouter:
    """Build `GET /retention` and `DELETE /runs`."""
    router = APIRouter(tags=["runs"])

    @router.get("/retention", summary="Preview of a deletion of runs", responses=responses(503, 504))
    async def preview(query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """The runs of all users that `DELETE /runs` would delete with the same parameters."""
        return await retention.preview(query)

    @router.delete("/runs", summary="Delete runs of all users", responses=responses(409, 503, 504))
    async def purge(request: Request, query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """Deletes events and pictures from the disk: by age, user or outcome. This cannot be undone.

        The age of a conversation is that of its last question. With `owner` or `outcome`, single runs of a
        conversation are deleted; its first run stays while others follow on it. Runs in progress stay, as do
        pinned and shared conversations without `pinned`. Nothing is deleted by age (409) while the runs
        contradict the clock.
        """
        request.state.audit.note(subject=query.owner)
        await request.state.audit.begin()
        report = await retention.purge(query)
        request.state.audit.note(runs=report.runs)
        return report

    return router
