"""Deletion of runs by age on a server: every day by the setting `keep_runs`, and as an administrator asks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.runs.retention import DAY_SECONDS, RunOutcome, RunPurge, RunSelection, select_runs
from vrag.errors import VragError
from vrag.server.http.audit import AuditTrail, write_server_entry
from vrag.server.http.audit_log import AuditAction, AuditResult
from vrag.server.http.errors import responses
from vrag.server.runs.run_manager import RunManager

log = logging.getLogger("vrag.server.runs")
_RETRY_SECONDS = 3600.0
"""Wait after a failure before the next attempt."""


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

    def selection(self, now: float, kept: frozenset[str]) -> RunSelection:
        """Return the selection at a time in seconds since 1970, without these conversations."""
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
        """Delete old conversations now and every day, until it is cancelled."""
        while self.keep_days:
            try:
                await self._purge_old()
                pause = DAY_SECONDS
            except (VragError, OSError) as error:
                log.error("Old runs could not be deleted: %s", error)  # noqa: TRY400 - says it all
                pause = _RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _purge_old(self) -> None:
        query = PurgeQuery(older_than=self.keep_days)
        if not (await self.preview(query)).runs:
            return
        await write_server_entry(self.trail, AuditAction.PURGE_RUNS, AuditResult.BEGUN)
        report = await self.purge(query)
        log.info("Deleted %d runs older than %g days (%d bytes).", report.runs, self.keep_days, report.bytes)
        await write_server_entry(self.trail, AuditAction.PURGE_RUNS, AuditResult.DONE, runs=report.runs)

    def _selection(self, query: PurgeQuery) -> RunSelection:
        return query.selection(self.now(), self.runs.continued)

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

    @router.get("/retention", summary="What a deletion of runs would delete", responses=responses(503, 504))
    async def preview(query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """The runs of all users that `DELETE /runs` would delete with the same parameters."""
        return await retention.preview(query)

    @router.delete("/runs", summary="Delete runs of all users", responses=responses(503, 504))
    async def purge(request: Request, query: Annotated[PurgeQuery, Query()]) -> PurgeReport:
        """Deletes events and pictures from the disk: by age, user or outcome. This cannot be undone.

        Conversations are deleted as a whole, by the age of their last question. Runs in progress stay, as do
        pinned and shared conversations without `pinned`.
        """
        request.state.audit.note(subject=query.owner)
        await request.state.audit.begin()
        report = await retention.purge(query)
        request.state.audit.note(runs=report.runs)
        return report

    return router
