"""Where MCP clients come in: standard input and output, or HTTP. The SDK is loaded when it is needed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from vrag.errors import MissingExtra
from vrag.server.http.errors import answer_problem

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from vrag.server.mcp.tools import McpTools

__all__ = ["McpTransport", "serve_stdio"]


class McpTransport:
    """Streamable HTTP, as the protocol calls it, without sessions: each request stands for itself.

    Whoever stands before it (`AuthMiddleware`) checks token, Host and Origin.
    """

    def __init__(self, mcp_tools: McpTools) -> None:
        self._mcp_tools = mcp_tools
        self._app: ASGIApp | None = None
        self._missing: MissingExtra | None = None

    @property
    def route(self) -> Route:
        """Where it is found."""
        return Route("/mcp", self, include_in_schema=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Opens it as long as the server lives. Without the SDK, requests are told how to install it."""
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
        """Handles one request. There is nothing to listen to but the answers of one's own requests."""
        if self._missing is not None:
            response = answer_problem(501, "This server has no MCP door.", str(self._missing))
        elif scope["method"] != "POST":
            response = answer_problem(405, "This is for MCP clients.", "POST", headers={"Allow": "POST"})
        elif self._app is None:
            response = answer_problem(503, "The server is being stopped.", "Come back later.")
        else:
            response = self._app
        await response(scope, receive, send)


async def serve_stdio(mcp_tools: McpTools) -> None:
    """Serves one client over standard input and output, until it closes them.

    Meanwhile standard output belongs to the protocol: what else is printed goes to standard error.

    Raises:
        MissingExtra: Without the extra `mcp`.
    """
    await _sdk().serve_stdio(mcp_tools)


def _sdk() -> Any:  # noqa: ANN401 - the module that needs what may be missing
    try:
        return import_module("vrag.server.mcp.sdk")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise MissingExtra("mcp", "mcp") from error
