"""The routes about runs."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import FileResponse, Response, StreamingResponse

from vrag.errors import RunError
from vrag.render.exports import Download, export_of, report_document
from vrag.server.http.errors import Refusal, Responses, responses
from vrag.server.http.headers import EXPORT_POLICY
from vrag.server.runs.schema import (
    RUN_ID,
    Capabilities,
    ReportRequest,
    RunDetail,
    RunList,
    RunRequest,
    RunSummary,
)
from vrag.server.runs.sse import BEAT, end_frame, event_frame, with_beats

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from vrag.server.metrics import ServerMetrics
    from vrag.server.runs.agent_provider import AgentProvider
    from vrag.server.runs.run_manager import RunManager

__all__ = ["run_routes"]

Run = Annotated[str, Path(pattern=RUN_ID, description="Id of a run.")]
_MOST = 200
_DOCUMENTS = 2
"""That are made at one time: each keeps a processor busy, and a thread that others need."""
_FRESH = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of an event stream: proxies neither keep nor collect it."""
_EVENTS: Responses = {200: {"content": {"text/event-stream": {}}, "description": "The events."}}
_REPORT: Responses = {
    200: {"content": {"text/html": {}, "text/markdown": {}}, "description": "The document."}
}
_EXPORT: Responses = {
    200: {
        "content": {"text/html": {}, "text/markdown": {}, "application/json": {}},
        "description": "The document.",
    }
}
_PICTURE: Responses = {200: {"content": {"image/jpeg": {}}, "description": "The picture."}}
_WHOLE = re.compile(r"[0-9]{1,9}")


def run_routes(host: RunManager, answering: AgentProvider, metrics: ServerMetrics) -> APIRouter:  # noqa: C901 - one per route
    """`/options`, `/runs` and what belongs to a run, `/reports`."""
    router = APIRouter(tags=["runs"])
    making = asyncio.Semaphore(_DOCUMENTS)

    @router.get("/options", summary="What can be asked for", responses=responses(408, 413, 503, 504))
    async def options() -> Capabilities:
        """Agents, models, collections, limits."""
        return await host.look(lambda: answering.offer)

    @router.post(
        "/runs", status_code=201, summary="Ask", responses=responses(404, 408, 409, 413, 429, 502, 503, 504)
    )
    async def start(request: Request, response: Response, asked: RunRequest) -> RunSummary:
        """Starts a run. It goes on whether anybody follows it or not."""
        summary = await host.start(asked, client=getattr(request.state, "client", ""))
        response.headers["Location"] = f"/runs/{summary.id}"
        return summary

    @router.get("/runs", summary="Runs, the newest first", responses=responses(408, 413, 503, 504))
    async def listed(
        limit: Annotated[int, Query(ge=1, le=_MOST, description="How many at most.")] = 50,
        before: Annotated[str, Query(pattern=f"{RUN_ID}|^$", description="Id of a run: older ones.")] = "",
        session: Annotated[str, Query(pattern=f"{RUN_ID}|^$", description="Those of one conversation.")] = "",
    ) -> RunList:
        """Those under way included."""
        runs, more = await host.summaries(limit=limit, before=before, session=session)
        return RunList(runs=tuple(runs), more=more)

    @router.get("/runs/{id}", summary="A run", responses=responses(404, 408, 413, 503, 504))
    async def detail(id: Run) -> RunDetail:
        """How it ended, what it cost, what its answer rests on."""
        return await host.detail(id)

    @router.delete(
        "/runs/{id}",
        summary="Stop a run",
        responses=responses(404, 408, 409, 413, 503, 504)
        | {202: {"model": RunSummary, "description": "It ends at the next opportunity."}},
    )
    async def cancel(response: Response, id: Run) -> RunSummary:
        """It ends at the next opportunity. One that is over is left as it is."""
        summary, running = await host.cancel(id)
        response.status_code = 202 if running else 200
        return summary

    @router.get(
        "/runs/{id}/events",
        summary="The events of a run, as they happen",
        response_class=Response,
        responses=_EVENTS | responses(404, 408, 413, 503, 504),
    )
    async def events(
        id: Run,
        after: Annotated[int, Query(ge=-1, le=10**9, description="The last `seq` known; -1 for none.")] = -1,
        last_event_id: Annotated[str, Header(max_length=20)] = "",
    ) -> Response:
        """Server-sent, resumable by `Last-Event-ID`. Before each graph its drawing; at the end `end`."""
        await host.detail(id)
        if _WHOLE.fullmatch(last_event_id):
            after = int(last_event_id)
        return StreamingResponse(_stream(host, metrics, id, after), 200, _FRESH, "text/event-stream")

    @router.get(
        "/runs/{id}/files/{sha256}.jpg",
        summary="A picture that an event names",
        response_class=Response,
        responses=_PICTURE | responses(404, 408, 413, 503, 504),
    )
    async def file(id: Run, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]) -> Response:
        """As the model was shown it."""
        path = host.file(id, sha256)
        if not path.is_file():
            raise Refusal(404, f"The run {id} has no such picture.", "Its events name those that it has.")
        return FileResponse(
            path, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400, immutable"}
        )

    @router.get(
        "/runs/{id}/export",
        summary="A run as one document",
        response_class=Response,
        responses=_EXPORT | responses(404, 408, 409, 413, 503, 504),
    )
    async def export(id: Run, format: Literal["html", "markdown", "json"] = "html") -> Response:
        """A page that stands alone, Markdown, or JSON."""
        async with making:
            return _attachment(await host.run_in_thread(lambda stored: export_of(stored, format), id))

    @router.post(
        "/reports",
        summary="Several runs as one cited document",
        response_class=Response,
        responses=_REPORT | responses(404, 408, 413, 503, 504),
    )
    async def report(asked: ReportRequest) -> Response:
        """A page that stands alone, or Markdown with its pictures inside."""
        async with making:
            runs = [await host.stored(run) for run in asked.runs]
            return _attachment(await host.look(lambda: report_document(runs, asked.title, asked.format)))

    return router


async def _stream(
    host: RunManager, metrics: ServerMetrics, run: str, after: int
) -> AsyncGenerator[bytes, None]:
    metrics.streams.inc()
    try:
        yield b"retry: 1000\n\n"
        async with aclosing(with_beats(host.follow(run, after))) as events:
            async for event in events:
                if event is None:
                    yield BEAT
                    continue
                metrics.events.inc()
                yield event_frame(event)
        yield end_frame((await host.detail(run)).state)
    except (Refusal, RunError):
        return  # it was deleted meanwhile
    finally:
        metrics.streams.dec()


def _attachment(document: Download) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{document.name}"',
        "Content-Security-Policy": EXPORT_POLICY,
    }
    return Response(document.data, headers=headers, media_type=document.media_type)
