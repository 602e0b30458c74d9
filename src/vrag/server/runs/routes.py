"""The routes of runs: options, start, list, events, pictures, exports and reports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from vrag.agent.runs.run_meta import Via
from vrag.agent.runs.run_store import RunState
from vrag.errors import RunError
from vrag.render.exports import Download, export_of, report_document
from vrag.render.markup import POLICY
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.http.roles import missing_role
from vrag.server.http.root_path import own_address
from vrag.server.http.users import UserRole
from vrag.server.metrics import ServerMetrics
from vrag.server.runs import schema
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.run_queue import QueuePosition
from vrag.server.runs.sse import (
    BEAT,
    RETRY,
    STREAM_HEADERS,
    end_frame,
    event_frame,
    queue_frame,
    with_beats,
)
from vrag.server.runs.user_runs import UserRuns, requester_of

EXPORT_POLICY = f"{POLICY}; frame-ancestors 'none'; sandbox"
"""An exported run that is opened at the server's address may be drawn, and nothing else."""
RunPath = Annotated[str, Path(pattern=schema.RUN_ID, description="Id of a run.")]
_EVIDENCE_TYPES = ("application/zip", "application/ld+json")


def _document(description: str, *types: str) -> Responses:
    return {200: {"content": {media_type: {} for media_type in types}, "description": description}}


def run_routes(  # noqa: C901, PLR0915 - one per route
    runs: RunManager, metrics: ServerMetrics
) -> APIRouter:
    """Build `/options`, `/runs` and what belongs to a run, `/reports`."""
    router = APIRouter(tags=["runs"])
    exporting = asyncio.Semaphore(2)  # each keeps a processor busy, and a thread that others need

    def runs_of(request: Request) -> UserRuns:
        via = Via.PAGE if request.state.own_page else Via.API
        return UserRuns(runs, requester_of(request, via))

    @router.get("/options", summary="What can be requested", responses=responses(503, 504))
    async def options(request: Request) -> schema.Capabilities:
        """List the agents, models and collections, and the limits of a run."""
        capabilities = await runs.capabilities(request.state.session)
        reason = missing_role(request.state.user, UserRole.UPLOAD)
        return capabilities.without_uploads(reason) if reason else capabilities

    @router.post("/runs", status_code=201, summary="Ask", responses=responses(404, 409, 429, 502, 503, 504))
    async def start(request: Request, response: Response, question: schema.RunRequest) -> schema.RunSummary:
        """Start a run, which waits in a queue if others are in progress: its `state` is then `waiting`.

        It continues even if no client follows it.
        """
        request.state.audit.note(collection=question.collection, question=question.question)
        summary = await runs_of(request).start(question)
        request.state.audit.note(run=summary.id)
        response.headers["Location"] = own_address(request, f"/runs/{summary.id}")
        return summary

    @router.get("/runs", summary="Runs, the newest first", responses=responses(503, 504))
    async def list_runs(request: Request, query: Annotated[schema.RunQuery, Query()]) -> schema.RunList:
        """Runs of the user, those that wait or are in progress too; administrators see those of all users.

        With `session`, the runs of a conversation that is shared as well.
        """
        return await runs_of(request).summaries(query)

    @router.get("/runs/{id}", summary="A run", responses=responses(404, 503, 504))
    async def detail(request: Request, id: RunPath) -> schema.RunDetail:
        """The end of a run, its cost, and the evidence of its answer."""
        return await runs_of(request).detail(id)

    @router.patch("/runs/{id}", summary="Rename, pin or share", responses=responses(403, 404, 503, 504))
    async def change(request: Request, id: RunPath, changes: schema.RunChanges) -> schema.RunSummary:
        """Change title, pin and sharing of the conversation of a run. Its owner and administrators may."""
        return await runs_of(request).change(id, changes)

    @router.delete(
        "/runs/{id}",
        summary="Stop a run, or delete it",
        responses=responses(403, 404, 409, 503, 504)
        | {202: {"model": schema.RunSummary, "description": "It ends at the next opportunity."}},
    )
    async def cancel(
        request: Request,
        response: Response,
        id: RunPath,
        remove: Annotated[
            schema.Removal | None, Query(description="Delete the run, or its whole conversation.")
        ] = None,
    ) -> schema.RunSummary:
        """The run stops as soon as possible; a waiting one leaves the queue. A finished run is not changed.

        With `remove` the run, or every run of its conversation, is stopped and deleted from the disk: events
        and pictures. Its owner and administrators may.
        """
        if remove is not None:
            return await runs_of(request).delete(id, conversation=remove == "conversation")
        summary, running = await runs_of(request).cancel(id)
        response.status_code = 202 if running else 200
        return summary

    @router.get(
        "/runs/{id}/events",
        summary="The events of a run, as they happen",
        response_class=Response,
        responses=_document("The events.", "text/event-stream") | responses(404, 503, 504),
    )
    async def events(
        request: Request,
        id: RunPath,
        after: Annotated[int, Query(ge=-1, le=10**9, description="The last `seq` known; -1 for none.")] = -1,
        last_event_id: Annotated[str, Header(max_length=20)] = "",
    ) -> Response:
        """Stream server-sent events, resumable with `Last-Event-ID`.

        The drawing of each graph is sent before the graph. While the run waits, `queue` has its position,
        whenever that changes. `end` is the last event.
        """
        readable = runs_of(request)
        await readable.detail(id)
        if re.fullmatch("[0-9]{1,9}", last_event_id):
            after = int(last_event_id)
        frames = _event_frames(readable, metrics, id, after)
        return StreamingResponse(frames, 200, STREAM_HEADERS, "text/event-stream")

    @router.get(
        "/runs/{id}/files/{sha256}.jpg",
        summary="A picture that an event names",
        response_class=Response,
        responses=_document("The picture.", "image/jpeg") | responses(404, 503, 504),
    )
    async def file(
        request: Request, id: RunPath, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
    ) -> Response:
        """The picture as the model saw it."""
        data = await runs_of(request).picture(id, sha256)
        if data is None:
            raise Refusal(404, f"The run {id} has no such picture.", "Its events name its pictures.")
        headers = {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(data, media_type="image/jpeg", headers=headers)

    @router.get(
        "/runs/{id}/export",
        summary="A run as one document, or its evidence",
        response_class=Response,
        responses=_document(
            "The document.", "text/html", "text/markdown", "application/json", *_EVIDENCE_TYPES
        )
        | responses(404, 409, 413, 503, 504),
    )
    async def export(request: Request, id: RunPath, format: schema.ExportFormat = "html") -> Response:
        """Export a run as a self-contained HTML page, as Markdown or as JSON; links open its places here.

        Or its evidence alone: `pdf`, a ZIP archive of the source PDF files with highlights and numbered
        notes; `annotations`, a W3C Web Annotation collection; `pictures`, a ZIP archive of PNG files.
        """
        async with exporting:
            stored = await runs_of(request).stored(id)
            if format in schema.EVIDENCE_FORMATS:
                return _attachment(await runs.evidence([stored], format))
            return _attachment(
                await runs.in_thread(lambda: export_of(stored, format, server=str(request.base_url)))
            )

    @router.post(
        "/reports",
        summary="Several runs as one cited document, or their evidence",
        response_class=Response,
        responses=_document("The document.", "text/html", "text/markdown", *_EVIDENCE_TYPES)
        | responses(404, 409, 413, 503, 504),
    )
    async def report(request: Request, wanted: schema.ReportRequest) -> Response:
        """Export a report as a self-contained HTML page, or as Markdown with embedded pictures.

        Links open its places here.
        Or the evidence of all runs, as of one; citation 2.1 is the first one of the second run.
        """
        request.state.audit.note(run=",".join(wanted.runs))
        async with exporting:
            readable = runs_of(request)
            stored = [await readable.stored(run) for run in wanted.runs]
            if wanted.format in schema.EVIDENCE_FORMATS:
                return _attachment(await runs.evidence(stored, wanted.format, wanted.title))
            server = str(request.base_url)
            work = runs.in_thread(lambda: report_document(stored, wanted.title, wanted.format, server=server))
            return _attachment(await work)

    return router


async def _event_frames(
    runs: UserRuns, metrics: ServerMetrics, run: str, after: int
) -> AsyncGenerator[bytes, None]:
    metrics.streams.inc()
    try:
        yield RETRY
        async with aclosing(with_beats(runs.follow(run, after))) as events:
            async for event in events:
                match event:
                    case None:
                        yield BEAT
                    case QueuePosition():
                        yield queue_frame(event)
                    case _:
                        metrics.events.inc()
                        yield event_frame(event)
        yield end_frame((await runs.detail(run)).state)
    except (Refusal, RunError):  # it was deleted meanwhile, and is over
        yield end_frame(RunState.INTERRUPTED)
    finally:
        metrics.streams.dec()


def _attachment(document: Download) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{document.name}"',
        "Content-Security-Policy": EXPORT_POLICY,
    }
    return Response(document.data, headers=headers, media_type=document.media_type)
