"""What stands before every route: who may ask, how often, how long a body may be, what is counted.

Written for ASGI itself, without a framework's middleware class: that one would hide from a route that its
client has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import Response

from vrag.server.http.errors import Refusal, answer_problem, answer_unexpected
from vrag.server.http.headers import allowing, preflight, treated
from vrag.server.http.rate_limit import Kind, kind_of, name_of, peer_of
from vrag.server.http.request_body import RequestBodies
from vrag.server.http.route_name import template_of
from vrag.server.http.sessions import digest_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vrag.server.http.headers import Headers
    from vrag.server.http.rate_limit import Peer
    from vrag.server.http.sessions import BrowserSessions
    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions

__all__ = ["AuthMiddleware", "MetricsMiddleware", "is_public"]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound
"""Names by which a server bound to loopback may be called.

The check stops DNS rebinding, where a name that an attacker owns is made to resolve to this machine: the
browser then sends that name. None of these four can be made to resolve to anything: `localhost` is resolved
by the machine itself, the others are literal addresses. Browsers mark requests of other sites' pages by
`Sec-Fetch-Site`, but send it to trustworthy addresses alone, of which 0.0.0.0 is none: see `_is_program`.
"""
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not bound
LEFT = 499
"""Counted as status of a request whose client left before the response."""
_NO_BROWSER = "Ask from a program: without Origin and Sec-Fetch-Site, which browsers send."
_OTHER_SITE = "Pages of other sites may not ask this server."
_PUBLIC = frozenset({"/", "/favicon.ico", "/healthz", "/session"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]*)?")
"""What browsers send: no user, no path."""


def is_public(path: str) -> bool:
    """Whether a path needs no token: that a server lives, the page without its content, the way in.

    >>> is_public("/static/app.js"), is_public("/static/../runs"), is_public("/runs")
    (True, False, False)
    """
    return path in _PUBLIC or (path.startswith("/static/") and ".." not in path)


class MetricsMiddleware:
    """Counts every request, and turns what no route expected into a response that says nothing."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0
        state = scope.setdefault("state", {})

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = treated(message.get("headers", ()))
                state["streams"] = _is_stream(headers)
                message = {**message, "headers": headers}
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
            route = template_of(scope)
            seconds = None if state.get("streams") else time.perf_counter() - started
            self._metrics.answered(route, scope["method"], status or LEFT, seconds)


class AuthMiddleware:
    """Lets in who may ask, at a pace that leaves room for others, and reads no more of a body than it may.

    Routes find in `scope["state"]`: `client`, the name of who asks; `known`, whether a token or session came
    with the request where one is needed; `question`, to be called for a question to an agent that no path
    tells of, which raises a `Refusal` (429) when there were enough of them.
    """

    def __init__(
        self, app: ASGIApp, options: ServerOptions, metrics: ServerMetrics, sessions: BrowserSessions
    ) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._sessions = sessions
        self._clients = sessions.clients
        self._bodies = RequestBodies(options)
        self._names = LOCAL_NAMES | options.hosts if options.local else options.hosts
        self._guards_any_address = options.local and ANY_ADDRESS not in options.hosts and not sessions.needed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = self._allowed_origin(scope)
        if origin:
            send = _adding(send, allowing(origin))
        try:
            self._check_site(scope, origin)
            if origin and _is_preflight(scope):
                response = Response(status_code=204)
                response.raw_headers = preflight(origin)
                await response(scope, receive, send)
                return
            self._check_in(scope, cookies=not origin)
        except Refusal as refusal:
            await self._refuse(refusal, scope, receive, send)
            return
        await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = kind_of(scope["method"], scope["path"])
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._clients.opened(kind, scope["state"]["client"]))
                body = self._bodies.body(scope, receive, kind)
            except Refusal as refusal:
                await self._refuse(refusal, scope, receive, send)
                return
            stack.callback(body.close)
            await self._app(scope, body, send)

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.refused(refusal.reason)
        await refusal.response()(scope, receive, send)

    def _allowed_origin(self, scope: Scope) -> bytes:
        """The origin of another site whose pages may ask; empty for all else."""
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        return origins[0] if len(origins) == 1 and _text(origins[0]) in self._options.origins else b""

    def _check_site(self, scope: Scope, origin: bytes) -> None:
        """Refuses what is sent by a page of another site, or under a name that is none of the server's."""
        headers: Headers = scope["headers"]
        host = _only(headers, b"host")
        if self._names and _name(host) not in self._names:
            names = ", ".join(sorted(self._names))
            hint = f"Its names: {names}."
            raise Refusal(403, "The server is not called by that name.", hint, reason="host")
        if self._guards_any_address and _name(host) == ANY_ADDRESS and not _is_program(scope):
            raise Refusal(
                403,
                f"Browsers may not read from {ANY_ADDRESS}.",
                f"Write 127.0.0.1 in place of {ANY_ADDRESS} in the address.",
                reason="host",
            )
        if origin or _is_link(scope):
            return
        if any(_netloc(value) != host.casefold() for name, value in headers if name == b"origin"):
            raise Refusal(403, _OTHER_SITE, _NO_BROWSER, reason="site")
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        if any(site not in {b"none", b"same-origin"} for site in sites):
            raise Refusal(403, _OTHER_SITE, _NO_BROWSER, reason="site")

    def _check_in(self, scope: Scope, *, cookies: bool) -> None:
        """Finds out who asks, and refuses who may not, or asks too often.

        A token stands above a cookie: no page of another site has it, so that nothing is asked of the rest.
        """
        peer = peer_of(scope, self._options.proxies)
        path: str = scope["path"]
        guarded = self._sessions.needed and (path == "/session" or not is_public(path))
        token = self._token(scope, peer) if guarded else None
        session = self._sessions.find(scope) if cookies and token is None else None
        if session is not None:
            _check_own_page(scope)
        known = not self._sessions.needed or session is not None or token is not None
        if not known and not is_public(path):
            hint = "Send it as Authorization: Bearer …, or sign in at the page."
            raise Refusal(401, "A token is needed.", hint, reason="token")
        client = name_of(peer, session=session, token=token)
        question = partial(self._clients.request, Kind.RUN, client, peer)
        scope.setdefault("state", {}).update(client=client, known=known, question=question)
        if path != "/healthz":
            self._clients.request(kind_of(scope["method"], path), client, peer)

    def _token(self, scope: Scope, peer: Peer) -> bytes | None:
        """The digest of the token that was sent; None when it was none, or the wrong one."""
        given = _bearer(scope["headers"])
        if not given:
            return None
        self._clients.attempt(peer)
        if self._sessions.knows_token(given):
            return digest_of(given)
        self._clients.failed(peer)
        return None


def _check_own_page(scope: Scope) -> None:
    """A cookie comes by itself: what it is to change something for must come from a page of the server.

    That of another site was refused before, by headers that every browser sends; here they must be there.
    """
    if scope["method"] in _READING:
        return
    headers: Headers = scope["headers"]
    if not any(
        name == b"origin" or (name, value) == (b"sec-fetch-site", b"same-origin") for name, value in headers
    ):
        hint = "With a cookie, send Origin as well; programs send a token."
        raise Refusal(403, "It cannot be seen which page asks.", hint, reason="site")


def _is_program(scope: Scope) -> bool:
    """Whether a request to 0.0.0.0 cannot be one that a page of another site had a browser send.

    With methods other than GET and HEAD browsers always send `Origin`, which is checked. A GET for a picture
    or a script carries neither `Origin` nor, to this address, `Sec-Fetch-Site`; but a page cannot take away
    the browser's `User-Agent`, `Mozilla/…`, or its `Accept-Language`. A client that sends no `User-Agent` is
    refused as well.
    """
    if scope["method"] not in {"GET", "HEAD"} or scope["path"] == "/healthz":
        return True
    headers: Headers = scope["headers"]
    names = {name.lower() for name, _ in headers}
    agents = [value.lower() for name, value in headers if name.lower() == b"user-agent"]
    of_browsers = {b"accept-language", b"referer"} & names or any(name.startswith(b"sec-") for name in names)
    return bool(agents) and all(agent and b"mozilla" not in agent for agent in agents) and not of_browsers


def _is_link(scope: Scope) -> bool:
    """Whether somebody follows a link of another site to the page: it shows nothing but itself by that."""
    headers = dict[bytes, bytes](scope["headers"])
    return (
        scope["method"] in {"GET", "HEAD"}
        and scope["path"] == "/"
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest", b"document") == b"document"
        and b"origin" not in headers
    )


def _is_preflight(scope: Scope) -> bool:
    asked = any(name == b"access-control-request-method" for name, _ in scope["headers"])
    return scope["method"] == "OPTIONS" and asked


def _is_stream(headers: Headers) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers
    )


def _adding(send: Send, more: Headers) -> Send:
    """`send` that adds headers to the response, unless they are there."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            message = {**message, "headers": [*headers, *(pair for pair in more if pair[0] not in present)]}
        await send(message)

    return sending


def _bearer(headers: Headers) -> bytes:
    """The token that was sent; empty when none was."""
    scheme, _, given = _only(headers, b"authorization").partition(" ")
    return given.strip().encode("latin-1") if scheme.casefold() == "bearer" else b""


def _only(headers: Headers, wanted: bytes) -> str:
    """The value of a header that must not come twice; empty when it is missing."""
    values = [_text(value) for name, value in headers if name == wanted]
    if len(values) > 1:
        raise Refusal(403, f"The header {wanted.decode()} was sent twice.", "Send it once.", reason="host")
    return values[0] if values else ""


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _name(host: str) -> str:
    """The name in a Host header, without port; empty when there is none, or what is no part of one."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").casefold() if found else ""


def _netloc(origin: bytes) -> str:
    """Name and port of an origin; empty for `null` and what is none."""
    try:
        return urlsplit(_text(origin)).netloc.casefold()
    except ValueError:
        return ""
