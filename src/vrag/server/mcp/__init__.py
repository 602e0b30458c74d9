"""An MCP server with the tools search, look, crop and ask, over stdio and at `/mcp`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from vrag.errors import MissingExtra
from vrag.server.http.errors import problem_response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from vrag.server.mcp.tools import McpTools


class McpTransport:
    """MCP's streamable HTTP without sessions: each request stands for itself.

    The middlewares in front of it check token, Host and Origin.
    """

    def __init__(self, mcp_tools: McpTools) -> None:
        self._mcp_tools = mcp_tools
        self._app: ASGIApp | None = None
        self._missing: MissingExtra | None = None

    @property
    def route(self) -> Route:
        """Its route."""
        return Route("/mcp", self, include_in_schema=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Open it as long as the server lives. Without the SDK, responses say how to install it."""
        try:
            sdk = _sdk()
        except MissingExtra as missing:
            self._missing = missing
            yield
            return
        async with sdk.http_app(self._mcp_tools) as self._app:
            yield
        self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Without sessions there is nothing to listen to with GET."""
        if self._missing is not None:
            response = problem_response(501, "This server has no MCP interface.", str(self._missing))
        elif scope["method"] != "POST":
            hint = "MCP clients send POST."
            response = problem_response(405, "This path is for MCP clients.", hint, headers={"Allow": "POST"})
        elif self._app is None:
            response = problem_response(503, "The server is shutting down.", "Try again later.")
        else:
            response = self._app
        await response(scope, receive, send)


async def serve_stdio(mcp_tools: McpTools) -> None:
    """Serve one client over standard input and output, until it closes them.

    Meanwhile standard output belongs to the protocol: print anything else to standard error.

    Raises `MissingExtra` without the extra `mcp`.
    """
    await _sdk().serve_stdio(mcp_tools)


def _sdk() -> Any:  # noqa: ANN401 - the module that needs the extra
    try:
        return import_module("vrag.server.mcp.sdk")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise MissingExtra("mcp", "mcp") from error
