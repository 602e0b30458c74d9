"""What stands before every route: who may ask, how long a body may be, what is counted and logged.

Written for ASGI itself, without a framework's middleware class: that one would hide from a route that its
client has left.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vrag.server.problems import Refusal, answer_problem, answer_unexpected

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vrag.server.metrics import Metrics
    from vrag.server.options import ServerOptions

__all__ = ["Gate", "Watch"]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PUBLIC = frozenset({"/healthz"})
"""Paths that need no token: whether the server lives is no secret."""
LEFT = 499
"""Counted as status of a request whose client left before the response."""
_NO_BROWSER = "Ask from a program: without Origin and Sec-Fetch-Site, which browsers send."
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; sandbox; frame-ancestors 'none'"),
)
"""Headers of every response: pictures and texts come from documents that nobody has checked."""


class Watch:
    """Counts every request, and turns what no route expected into a response that says nothing."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_ALWAYS]}
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - logged with its trace
            response = answer_unexpected(error, f"{scope['method']} {scope['path'][:200]!r}")
            if not status:
                await response(scope, receive, sending)
        except asyncio.CancelledError:  # of what still ran when the time to end was over
            if not status:
                response = answer_problem(503, "The server is being stopped.", "Come back later.")
                await response(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(route, scope["method"], status or LEFT, time.perf_counter() - started)


class Gate:
    """Lets in who may ask, and reads no more of a body than is allowed."""

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app = app
        self._options = options
        self._token = None if options.token is None else _digest(options.token.encode())
        self._names = LOCAL_NAMES | options.hosts if options.local else options.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Refusal as refusal:
                response = answer_problem(refusal.status, refusal.message, refusal.hint)
                await response(scope, receive, send)
                return
            receive = _Body(receive, self._options)
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        host = _only(headers, b"host")
        if self._names and _name(host) not in self._names:
            names = ", ".join(sorted(self._names))
            raise Refusal(403, "The server is not called by that name.", f"Its names: {names}.")
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is not None and _netloc(origin) != host.casefold():
            raise Refusal(403, "Pages of other sites may not ask this server.", _NO_BROWSER)
        site = next((value for name, value in headers if name == b"sec-fetch-site"), b"none")
        if site not in {b"none", b"same-origin"}:
            raise Refusal(403, "Pages of other sites may not ask this server.", _NO_BROWSER)
        if self._token is not None and scope["path"] not in PUBLIC:
            self._check_token(headers)

    def _check_token(self, headers: list[tuple[bytes, bytes]]) -> None:
        scheme, _, given = _only(headers, b"authorization").partition(" ")
        known = hmac.compare_digest(_digest(given.strip().encode("latin-1")), self._token or b"")
        if scheme.casefold() != "bearer" or not known:
            raise Refusal(401, "A token is needed.", "Send it as Authorization: Bearer …")


class _Body:
    """`receive` that counts what arrives, whatever Content-Length says, and does not wait for ever."""

    def __init__(self, receive: Receive, options: ServerOptions) -> None:
        self._receive = receive
        self._options = options
        self._left = options.body_bytes
        self._deadline: float | None = asyncio.get_running_loop().time() + options.body_seconds

    async def __call__(self) -> Message:
        """The next message; without limits once the body is there: then a client may only leave."""
        if self._deadline is None:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            seconds = self._options.body_seconds
            raise Refusal(
                408, f"The body took longer than {seconds:g} s to arrive.", "Send it without pauses."
            ) from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            limit = f"{self._options.body_bytes:,} bytes"
            raise Refusal(413, f"The body is longer than {limit}.", "Send fewer queries at a time.")
        if not message.get("more_body", False):
            self._deadline = None
        return message


def _digest(token: bytes) -> bytes:
    """Of one length whatever is compared, so that the comparison takes one time."""
    return hashlib.sha256(token).digest()


def _only(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    """The value of a header that must not come twice; empty when it is missing."""
    values = [value for name, value in headers if name == wanted]
    if len(values) > 1:
        raise Refusal(403, f"The header {wanted.decode()} was sent twice.", "Send it once.")
    return values[0].decode("latin-1") if values else ""


def _name(host: str) -> str:
    """The name in a Host header, without port; empty when there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: bytes) -> str:
    """Name and port of an origin; empty for `null` and what is none."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.casefold()
    except ValueError:
        return ""
