"""The routes without content of documents: health, counters, version, and the shell of the web page.

The shell is public: everything that it shows is requested separately.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from vrag.search.schema import ServerInfo
from vrag.server.http.background import ItemThreadPool, wait_for_client
from vrag.server.http.errors import Responses, responses
from vrag.server.metrics import CONTENT_TYPE, ServerMetrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.search.searcher import Searcher
    from vrag.server.options import ServerOptions

STATIC = Path(__file__).parent / "static"
SHELL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The page may load its own files, use its own server, and nothing else."""
_STATIC_HEADERS = {"Content-Security-Policy": SHELL_POLICY, "Cache-Control": "no-cache"}
"""A browser asks each time whether its copy is current: after an upgrade none is of the former version."""
_COUNTERS: Responses = {200: {"content": {"text/plain": {}}, "description": "Counters."}}


class Health(BaseModel):
    """The health of the server."""

    status: Literal["ok"] = Field(default="ok", description="The server answers.")


def status_routes(
    searcher: Searcher,
    corpora: Sequence[str],
    item_threads: ItemThreadPool,
    metrics: ServerMetrics,
    options: ServerOptions,
) -> APIRouter:
    """Build `/healthz`, `/metrics` and `/version`."""
    router = APIRouter(tags=["status"])

    @router.get("/healthz", summary="Health check", responses=responses(408, 413))
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
        """Requests, times, batches and queues."""
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    @router.get(
        "/version", summary="The version of the collections", responses=responses(408, 413, 502, 503, 504)
    )
    async def version(request: Request) -> ServerInfo:
        """The version of what can be found, and the names of the collections."""
        work = item_threads.run(lambda: searcher.version)
        current = await wait_for_client(request, work, options.item_seconds)
        return ServerInfo(version=current, corpora=list(corpora))

    return router


def page_routes() -> APIRouter:
    """Build the shell of the web page at `/`, and its icon."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def shell() -> Response:
        return FileResponse(STATIC / "index.html", headers=_STATIC_HEADERS, media_type="text/html")

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon() -> Response:
        return FileResponse(STATIC / "icon.svg", headers=_STATIC_HEADERS, media_type="image/svg+xml")

    return router


def static_files() -> StaticFiles:
    """Build the style sheets and modules of the web page, to mount at `/static`."""

    class Files(StaticFiles):
        def file_response(self, *args: object, **options: object) -> Response:
            response = super().file_response(*args, **options)  # pyright: ignore[reportArgumentType]
            response.headers.update(_STATIC_HEADERS)
            return response

    return Files(directory=STATIC)
