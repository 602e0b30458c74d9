"""The routes that tell how the server is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from vrag.search.schema import ServerInfo
from vrag.server.http.errors import Responses, responses
from vrag.server.http.timeouts import attend
from vrag.server.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.search.searcher import Searcher
    from vrag.server.http.timeouts import ItemThreadPool
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions

__all__ = ["Health", "status_routes"]


_COUNTERS: Responses = {200: {"content": {"text/plain": {}}, "description": "Counters."}}


class Health(BaseModel):
    """That the server lives."""

    status: Literal["ok"] = Field(default="ok", description="It is there to answer.")


def status_routes(
    searcher: Searcher,
    corpora: Sequence[str],
    item_threads: ItemThreadPool,
    metrics: ServerMetrics,
    options: ServerOptions,
) -> APIRouter:
    """`/healthz`, `/metrics` and `/version`."""
    router = APIRouter(tags=["status"])

    @router.get("/healthz", summary="Whether the server lives", responses=responses(408, 413))
    async def healthz() -> Health:
        """Answers at once, whatever is being searched. Needs no token."""
        return Health()

    @router.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=Response,
        responses=_COUNTERS | responses(408, 413),
    )
    async def counters() -> Response:
        """Requests, times, batches and what waits."""
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    @router.get("/version", summary="What is searched", responses=responses(408, 413, 502, 503, 504))
    async def version(request: Request) -> ServerInfo:
        """The version of what can be found, and the names of the collections."""
        work = item_threads.run(lambda: searcher.version)
        found = await attend(request, work, options.item_seconds)
        return ServerInfo(version=found, corpora=list(corpora))

    return router
