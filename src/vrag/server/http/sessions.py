"""Browser sessions: the token, exchanged for a cookie.

Browsers request streams of events and pictures by themselves, with cookies and without a token. Sessions live
in memory: after a restart the server asks for the token again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from vrag.server.http.errors import Refusal, json_body, responses
from vrag.server.http.limits import ClientRegistry, peer_of
from vrag.server.options import ServerOptions

_COOKIE = "vrag_session"
_MAX_COOKIES = 4
"""Cookies of this name that are tried."""
_MAX_SIGN_IN_BYTES = 32 * 1024
"""Length of a body with the token. Explaining what is wrong with megabytes would hold up all for seconds."""


class SessionInfo(BaseModel):
    """The sign-in state of a browser."""

    needed: bool = Field(description="Whether this server requires a token.")
    signed_in: bool = Field(description="Whether this request would be accepted by the other routes.")


class SignIn(BaseModel):
    """The token that a browser exchanges for a session."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=4096, description="The server's token.")


class BrowserSessions:
    """The sessions of one application; `now` is the clock, in seconds."""

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._now = now
        self._token = None if options.token is None else digest_of(options.token.encode())
        self._ends: OrderedDict[bytes, float] = OrderedDict()
        """By the digest of each id, so that memory holds no ids; least recently used first."""
        self.clients = ClientRegistry(options)

    @property
    def needed(self) -> bool:
        """True if the server has a token."""
        return self._token is not None

    def knows_token(self, token: bytes) -> bool:
        """Return whether this is the server's token. Takes the same time for every input."""
        return hmac.compare_digest(digest_of(token), self._token or b"")

    def open(self) -> str:
        """Begin a session; return its id of 256 random bits."""
        id = secrets.token_urlsafe(32)
        self._ends[digest_of(id.encode())] = self._now() + self._options.session_seconds
        if len(self._ends) > self._options.sessions:
            self._ends.popitem(last=False)
        return id

    def find(self, scope: Scope) -> bytes | None:
        """Return the digest of a request's session and extend the session; None without one."""
        now = self._now()
        cookie, headers = _cookie_name(scope), Headers(scope=scope)
        pairs = [pair.partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
        ids = [value.strip() for name, _, value in pairs if name.strip() == cookie]
        for id in ids[:_MAX_COOKIES]:  # other paths and hosts may have set one of its name too
            digest = digest_of(id.encode())
            end = self._ends.pop(digest, None)
            if end is not None and end > now:
                self._ends[digest] = now + self._options.session_seconds
                return digest
        return None

    def close(self, digest: bytes) -> None:
        """End a session."""
        self._ends.pop(digest, None)


def digest_of(secret: bytes) -> bytes:
    """Hash a secret to one length, so that a comparison takes the same time for every input."""
    return hashlib.sha256(secret).digest()


def session_routes(sessions: BrowserSessions, options: ServerOptions) -> APIRouter:
    """Build `/session`: whether a token is needed, sign-in and sign-out. Needs no token."""
    router = APIRouter(tags=["session"])
    refused = responses(408, 413)

    @router.get("/session", summary="Whether a token is needed", responses=refused)
    async def session(request: Request) -> SessionInfo:
        """Return whether this server requires a token, and whether this request has one or a session."""
        return SessionInfo(needed=sessions.needed, signed_in=bool(request.state.known))

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
        body = await request.body()
        if len(body) > _MAX_SIGN_IN_BYTES:
            message = f"The body is longer than {_MAX_SIGN_IN_BYTES:,} bytes."
            raise Refusal(413, message, "Send only the token.")
        credentials = SignIn.model_validate_json(body)
        response = Response(status_code=204)
        if not sessions.needed:
            return response
        peer = peer_of(request.scope, options.proxies)
        sessions.clients.attempt(peer)
        if not sessions.knows_token(credentials.token.strip().encode()):
            sessions.clients.failed(peer)
            raise Refusal(401, "The token is wrong.", "Use the token that the server was started with.")
        previous = sessions.find(request.scope)
        if previous is not None:
            sessions.close(previous)
        response.set_cookie(
            _cookie_name(request.scope),
            sessions.open(),
            path="/",
            secure=options.secure_cookie or peer.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    @router.delete(
        "/session", summary="End the session", status_code=204, response_class=Response, responses=refused
    )
    async def sign_out(request: Request) -> Response:
        """Forget the session of this browser, if there is one."""
        digest = sessions.find(request.scope)
        if digest is not None:
            sessions.close(digest)
        response = Response(status_code=204)
        response.delete_cookie(_cookie_name(request.scope), path="/", httponly=True, samesite="strict")
        return response

    return router


def _cookie_name(scope: Scope) -> str:
    """Name the cookie by the port: browsers keep cookies by host, which may have several servers."""
    try:
        port = urlsplit(f"//{Headers(scope=scope).get('host', '')}").port
    except ValueError:
        port = None
    return _COOKIE if port is None else f"{_COOKIE}_{port}"
