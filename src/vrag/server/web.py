"""The web page: its shell and what belongs to it. Public: everything that it shows is asked for apart."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from vrag.server.http.headers import SHELL_POLICY

__all__ = ["page_routes", "static_files"]

STATIC = Path(__file__).parent / "static"
_HEADERS = {"Content-Security-Policy": SHELL_POLICY, "Cache-Control": "no-cache"}
"""A browser asks each time whether what it has is still right: after an upgrade none is of another."""


def page_routes() -> APIRouter:
    """The shell at `/`, and its picture."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def shell() -> Response:
        return FileResponse(STATIC / "index.html", headers=_HEADERS, media_type="text/html")

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon() -> Response:
        return FileResponse(STATIC / "icon.svg", headers=_HEADERS, media_type="image/svg+xml")

    return router


def static_files() -> StaticFiles:
    """Style sheets and modules, to mount at `/static`."""

    class Files(StaticFiles):
        def file_response(self, *args: object, **options: object) -> Response:
            response = super().file_response(*args, **options)  # pyright: ignore[reportArgumentType]
            response.headers.update(_HEADERS)
            return response

    return Files(directory=STATIC)
