"""Access checks in front of every route: the sites and clients that may send requests, and browser sessions.

The checks implement ASGI itself: a framework's middleware class would hide from a route that its client has
left.

Browsers request streams of events and pictures by themselves, with cookies and without a token. So they
exchange the token for the cookie of a session (`BrowserSessions`).
"""

from __future__ import annotations

import contextlib
import re
from functools import partial
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vrag.server.http.audit import RequestAudit
from vrag.server.http.errors import Refusal, json_body, responses
from vrag.server.http.limits import Kind, Peer, RequestBodies, client_name, kind_of, peer_of
from vrag.server.http.roles import check_role, rule_of
from vrag.server.http.users import EVERYBODY, NOBODY, User, UserRole, digest_of
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions
from vrag.server.state.sessions import BrowserSessions, begin_session, end_session

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound
"""Names by which a server bound to loopback may be called.

The check stops DNS rebinding, where a name that an attacker owns is made to resolve to this machine: the
browser then sends that name. None of these four can be made to resolve to anything: `localhost` is resolved
by the machine itself, the others are literal addresses. Browsers mark requests of other sites' pages by
`Sec-Fetch-Site`, but send it to trustworthy addresses alone, of which 0.0.0.0 is none: see `_is_program`.
"""
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not bound
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]*)?")
"""A Host header as browsers send it: no user, no path."""
_CORS_REQUEST_HEADERS = (
    "authorization", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id",
)  # fmt: skip
_CORS_RESPONSE_HEADERS = ("content-disposition", "etag", "location", "mcp-session-id", "retry-after")


def is_public(path: str) -> bool:
    """Return whether a path needs no token: the health check, the page without its content, the sign-in.

    >>> is_public("/static/app.js"), is_public("/static/../runs"), is_public("/runs")
    (True, False, False)
    """
    public = path in {"/", "/favicon.ico", "/healthz", "/session"}
    return public or (path.startswith("/static/") and ".." not in path)


def add_access_checks(
    app: FastAPI, options: ServerOptions, metrics: ServerMetrics, sessions: BrowserSessions
) -> None:
    """Put the checks of site and client in front of an application; between them those of CORS."""
    app.add_middleware(AuthMiddleware, options=options, metrics=metrics, sessions=sessions)
    if options.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(options.origins),
            allow_methods=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_RESPONSE_HEADERS,
        )
    app.add_middleware(SiteMiddleware, options=options, metrics=metrics, has_token=sessions.needed)


class SiteMiddleware:
    """Refuses what pages of other sites send, and what is sent under a name that is not the server's.

    Starlette's TrustedHostMiddleware knows no IPv6 addresses and gives no hint. `scope["state"]` gets
    `named_origin`: whether a page of one of the origins in the options sent the request.
    """

    def __init__(
        self, app: ASGIApp, options: ServerOptions, metrics: ServerMetrics, *, has_token: bool
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._origins = options.origins
        self._names = LOCAL_NAMES | options.hosts if options.local else options.hosts
        self._guards_any_address = options.local and ANY_ADDRESS not in options.hosts and not has_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Refusal as refusal:
                await _refuse(refusal, self._metrics, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        named = len(origins) == 1 and origins[0] in self._origins
        scope.setdefault("state", {})["named_origin"] = named
        host = _single(headers, "host")
        match = _HOST.fullmatch(host)
        name = match[1].strip("[]").casefold() if match else ""
        if self._names and name not in self._names:
            hint = f"Its names: {', '.join(sorted(self._names))}."
            raise Refusal(403, "The server does not have this name.", hint, reason="host")
        if self._guards_any_address and name == ANY_ADDRESS and not _is_program(scope, headers):
            message = f"Browsers may not read from {ANY_ADDRESS}."
            hint = f"Write 127.0.0.1 in place of {ANY_ADDRESS} in the address."
            raise Refusal(403, message, hint, reason="host")
        follows_link = (  # of another site to the page, which shows no content
            scope["method"] in {"GET", "HEAD"}
            and scope["path"] == "/"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest", "document") == "document"
            and not origins
        )
        if named or follows_link:
            return
        sites = set(headers.getlist("sec-fetch-site"))
        if sites - {"none", "same-origin"} or any(_netloc(origin) != host.casefold() for origin in origins):
            hint = "Send the request from a program, without the headers Origin and Sec-Fetch-Site."
            raise Refusal(403, "Pages of other sites may not use this server.", hint, reason="site")


class AuthMiddleware:
    """Checks token or session, and role; limits the pace of each client, and the length of bodies.

    A request that changes something has its entry in the audit log when it goes on, unless its route writes
    the entry (`RouteRule.begins_itself`).

    Routes find in `scope["state"]`: `client`, the name of the client; `user`, the `User` who sent the
    request; `session`, the digest of the browser's session, None without one; `own_page`, whether the page of
    the server sent it; `known`, whether a token or session came with it if one is needed; `question`, to be
    called for a question to an agent that the path does not show, which raises a `Refusal` (429) when there
    were too many.
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with contextlib.ExitStack() as stack:
            try:
                kind = kind_of(scope["method"], scope["path"])
                peer = peer_of(scope, self._options.proxies)
                client = self._authenticate(scope, kind, peer)
                user: User = scope["state"]["user"]
                stack.enter_context(self._clients.opened(kind, client, peer, user.name))
                body = self._bodies.body(scope, receive, kind)
                stack.callback(body.close)
                audit: RequestAudit = scope["state"]["audit"]
                if not audit.rule.begins_itself:
                    await audit.begin()
            except Refusal as refusal:
                await _refuse(refusal, self._metrics, scope, receive, send)
                return
            await self._app(scope, body, send)

    def _authenticate(self, scope: Scope, kind: Kind, peer: Peer) -> str:
        """Return the client's name; refuse clients that are not allowed, or send too many requests.

        A token takes precedence over a cookie: no page of another site has it; nothing else is checked then.
        Browsers send cookies by themselves. Pages of other sites were refused before, by headers that every
        browser sends; for a change that only a cookie authorises these must be there.
        """
        headers = Headers(scope=scope)
        path: str = scope["path"]
        state = scope.setdefault("state", {})
        needed, public = self._sessions.needed, is_public(path)
        wants_token = needed and (path == "/session" or not public)
        token, user = self._token(headers, peer) if wants_token else (None, None)
        takes_cookie = token is None and not state.get("named_origin")
        session = self._sessions.find(scope) if takes_cookie else None
        own_page = "origin" in headers or "same-origin" in headers.getlist("sec-fetch-site")
        if session is not None and scope["method"] not in {"GET", "HEAD", "OPTIONS"} and not own_page:
            hint = "With a cookie, send Origin as well; programs send a token."
            raise Refusal(403, "The request does not show which page sent it.", hint, reason="site")
        if session is not None:
            user = self._sessions.user_of_session(session)
        known = not needed or user is not None
        if not known and not public:
            hint = "Send it as Authorization: Bearer …, or sign in at the page."
            raise Refusal(401, "A token is needed.", hint, reason="token")
        # Without tokens anybody can have any number of sessions: they are no clients of their own.
        client = client_name(peer, session=session if needed else None, token=token)
        question = partial(self._clients.request, Kind.RUN, client, peer)
        user = (user or NOBODY) if needed else EVERYBODY
        own_page = own_page and not state.get("named_origin")
        state.update(client=client, user=user, session=session, own_page=own_page)
        state.update(known=known, question=question)
        if path != "/healthz":
            self._clients.request(kind, client, peer)
        role = rule_of(scope["method"], path)[0].role
        if role is not None and not public:
            check_role(user, role)
        return client

    def _token(self, headers: Headers, peer: Peer) -> tuple[bytes | None, User | None]:
        """Return the digest of the token in the request and its user; None if there is none, or no user."""
        scheme, _, value = _single(headers, "authorization").partition(" ")
        token = value.strip().encode("latin-1") if scheme.casefold() == "bearer" else b""
        if not token:
            return None, None
        self._clients.attempt(peer)
        digest = digest_of(token)
        if (user := self._sessions.user_of_token(digest)) is not None:
            return digest, user
        self._clients.failed(peer)
        return None, None


async def _refuse(
    refusal: Refusal, metrics: ServerMetrics, scope: Scope, receive: Receive, send: Send
) -> None:
    metrics.refused(refusal.reason)
    scope["state"]["audit"].note(reason=refusal.reason)
    await refusal.response()(scope, receive, send)


def _is_program(scope: Scope, headers: Headers) -> bool:
    """Return whether a request to 0.0.0.0 cannot be one that a page of another site had a browser send.

    With methods other than GET and HEAD browsers always send `Origin`, which is checked. A GET for a picture
    or a script carries neither `Origin` nor, to this address, `Sec-Fetch-Site`; but a page cannot take away
    the browser's `User-Agent`, `Mozilla/…`, or its `Accept-Language`. A client that sends no `User-Agent` is
    refused as well.
    """
    if scope["method"] not in {"GET", "HEAD"} or scope["path"] == "/healthz":
        return True
    names = {name.lower() for name in headers}
    agents = [value.lower() for name, value in headers.items() if name.lower() == "user-agent"]
    from_browser = {"accept-language", "referer"} & names or any(name.startswith("sec-") for name in names)
    return bool(agents) and all(agent and "mozilla" not in agent for agent in agents) and not from_browser


def _single(headers: Headers, name: str) -> str:
    """Return the value of a header that must not come twice; empty if it is missing."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise Refusal(403, f"The header {name} was sent twice.", "Send it once.", reason="host")
    return values[0] if values else ""


def _netloc(origin: str) -> str:
    """Return name and port of an origin; empty for `null` and malformed ones."""
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return ""


class SessionInfo(BaseModel):
    """The sign-in state of a browser."""

    needed: bool = Field(description="Whether this server requires a token.")
    signed_in: bool = Field(description="Whether this request would be accepted by the other routes.")
    user: str = Field(description="Name of the user; empty without tokens, and if not signed in.")
    role: UserRole | None = Field(description="What the user may do; null if not signed in.")
    admin: bool = Field(description="Whether the user sees everybody's runs and may change the set-up.")
    has_users: bool = Field(description="Whether the server has several users.")


class SignIn(BaseModel):
    """The token that a browser exchanges for a session."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=4096, description="The server's token.")


def session_routes(sessions: BrowserSessions, options: ServerOptions) -> APIRouter:
    """Build `/session`: whether a token is needed, sign-in and sign-out. Needs no token."""
    router = APIRouter(tags=["session"])
    refused = responses()

    @router.get("/session", summary="Whether a token is needed", responses=refused)
    async def session(request: Request) -> SessionInfo:
        """Return whether this server requires a token, and whether this request has one or a session."""
        user: User = request.state.user
        return SessionInfo(
            needed=sessions.needed,
            signed_in=bool(request.state.known),
            user=user.name,
            role=user.role,
            admin=user.is_admin,
            has_users=options.tokens is not None,
        )

    @router.post(
        "/session",
        summary="Exchange the token for a cookie",
        status_code=204,
        response_class=Response,
        openapi_extra=json_body(SignIn.model_json_schema()),
        responses=refused,
    )
    async def sign_in(request: Request) -> Response:
        """Set a cookie that replaces the token for this browser, as long as it is used."""
        credentials = SignIn.model_validate_json(await request.body())
        response = Response(status_code=204)
        if not sessions.needed:
            return response
        peer = peer_of(request.scope, options.proxies)
        sessions.clients.attempt(peer)
        token = digest_of(credentials.token.strip().encode())
        user = sessions.user_of_token(token)
        if user is None:
            request.state.audit.note(reason="token")
            sessions.clients.failed(peer)
            hint = "Use your own token, or the one that the server was started with."
            raise Refusal(401, "The token is wrong.", hint)
        request.state.audit.note(user=user.name, role=user.role)
        previous = sessions.find(request.scope)
        if previous is not None:
            sessions.close(previous)
        await begin_session(sessions, options, request.scope, response, token)
        return response

    @router.delete(
        "/session", summary="End the session", status_code=204, response_class=Response, responses=refused
    )
    async def sign_out(request: Request) -> Response:
        """Forget the session of this browser, if there is one."""
        response = Response(status_code=204)
        await end_session(sessions, options, request.scope, response)
        return response

    return router
