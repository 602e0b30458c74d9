"""The transports of the MCP interface: stdio and HTTP at `/mcp`. They load the SDK when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from vrag.errors import MissingExtra
from vrag.server.http.errors import problem_response
from vrag.server.mcp import McpTools


class McpTransport:
    """MCP's streamable HTTP without sessions: each request stands for itself.

    The SDK is loaded at the first request, since that takes a third of a second. The middlewares in front of
    the transport check token, Host and Origin.
    """

    takes_json = True
    """For `check_content_type`."""

    def __init__(self, mcp_tools: McpTools) -> None:
        self._mcp_tools = mcp_tools
        self._wanted = asyncio.Event()
        self._app: asyncio.Future[ASGIApp] | None = None

    @property
    def route(self) -> Route:
        """The route of the transport."""
        return Route("/mcp", self, include_in_schema=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Accept requests as long as the server lives."""
        self._app = asyncio.get_running_loop().create_future()
        closing = asyncio.Event()
        serving = asyncio.create_task(self._serve(self._app, closing))
        try:
            yield
        finally:
            self._app = None
            closing.set()
            self._wanted.set()
            await serving

    async def _serve(self, app: asyncio.Future[ASGIApp], closing: asyncio.Event) -> None:
        """Load the SDK when it is wanted, and keep its application open until the server closes."""
        await self._wanted.wait()
        if closing.is_set():
            return
        try:
            sdk = await asyncio.to_thread(_sdk)
        except Exception as error:  # noqa: BLE001 - raised again by each request that waits for the application
            app.set_exception(error)
            return
        async with sdk.http_app(self._mcp_tools) as opened:
            app.set_result(opened)
            await closing.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Without sessions there is nothing to listen to with GET."""
        response: ASGIApp
        if scope["method"] != "POST":
            hint = "MCP clients send POST."
            response = problem_response(405, "This path is for MCP clients.", hint, headers={"Allow": "POST"})
        elif self._app is None:
            response = problem_response(503, "The server is shutting down.", "Try again later.")
        else:
            self._wanted.set()
            try:
                response = await asyncio.shield(self._app)
            except MissingExtra as missing:
                response = problem_response(501, "This server has no MCP interface.", str(missing))
        await response(scope, receive, send)


async def serve_stdio(mcp_tools: McpTools) -> None:
    """Serve one client over standard input and output, until it closes them.

    Meanwhile standard output belongs to the protocol: print anything else to standard error.

    Raises `MissingExtra` without the extra `mcp`.
    """
    await _sdk().serve_stdio(mcp_tools)


def _sdk() -> Any:  # noqa: ANN401 - the module that needs the extra
    try:
        return import_module("vrag.server.mcp_sdk")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise MissingExtra("mcp", "mcp") from error
