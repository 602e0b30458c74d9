"""Sessions of browsers: the token, exchanged for a cookie.

Streams of events and pictures are asked for by the browser itself, which sends cookies and no token. A
session lives in memory: a server that starts anew asks for the token again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from vrag.server.http.errors import Refusal, responses
from vrag.server.http.rate_limit import ClientRegistry, peer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

    from vrag.server.options import ServerOptions

__all__ = ["BrowserSessions", "SessionInfo", "SignIn", "digest_of", "session_routes"]

_COOKIE = "vrag_session"
_MAX_COOKIES = 4
"""Cookies of the right name that are looked at."""
_MAX_BYTES = 32 * 1024
"""Of a body with the token. To say what is wrong with one of megabytes would hold up all for seconds."""
_REFUSED = responses(408, 413)


class SessionInfo(BaseModel):
    """Whether a browser may ask."""

    needed: bool = Field(description="Whether this server wants a token.")
    signed_in: bool = Field(description="Whether this request would be let in elsewhere.")


class SignIn(BaseModel):
    """What a browser gives for a session."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=4096, description="The server's token.")


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SignIn.model_json_schema()}},
    }
}


class BrowserSessions:
    """The sessions of one application.

    Args:
        options: The token, how many, how long.
        now: The clock, in seconds.
    """

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._now = now
        self._token = None if options.token is None else digest_of(options.token.encode())
        self._ends: OrderedDict[bytes, float] = OrderedDict()
        """By the digest of each id, since whoever reads memory should not find ids. Used last stands last."""
        self.clients = ClientRegistry(options)

    @property
    def needed(self) -> bool:
        """Whether there is a token at all."""
        return self._token is not None

    def knows_token(self, given: bytes) -> bool:
        """Whether this is the token. Takes one time for all that is given."""
        return hmac.compare_digest(digest_of(given), self._token or b"")

    def open(self) -> str:
        """A new session's id: 256 random bits."""
        id = secrets.token_urlsafe(32)
        self._ends[digest_of(id.encode())] = self._now() + self._options.session_seconds
        if len(self._ends) > self._options.sessions:
            self._ends.popitem(last=False)
        return id

    def find(self, scope: Scope) -> bytes | None:
        """The digest of the session that a request belongs to, which lasts anew; None when to none."""
        now = self._now()
        for id in _cookies(scope):
            digest = digest_of(id.encode())
            end = self._ends.pop(digest, None)
            if end is not None and end > now:
                self._ends[digest] = now + self._options.session_seconds
                return digest
        return None

    def close(self, digest: bytes) -> None:
        """Ends a session."""
        self._ends.pop(digest, None)


def digest_of(secret: bytes) -> bytes:
    """Of one length whatever is compared, so that the comparison takes one time."""
    return hashlib.sha256(secret).digest()


def session_routes(sessions: BrowserSessions, options: ServerOptions) -> APIRouter:
    """`/session`: whether a token is needed, the way in and the way out. Needs no token."""
    router = APIRouter(tags=["session"])

    @router.get("/session", summary="Whether a token is needed", responses=_REFUSED)
    async def session(request: Request) -> SessionInfo:
        """Whether this server wants a token, and whether this request has what is needed."""
        return SessionInfo(needed=sessions.needed, signed_in=bool(request.state.known))

    @router.post(
        "/session",
        summary="Exchange the token for a cookie",
        status_code=204,
        response_class=Response,
        openapi_extra=_BODY,
        responses=_REFUSED,
    )
    async def sign_in(request: Request) -> Response:
        """Sets a cookie that stands for the token, for this browser and as long as it is used."""
        body = await request.body()
        if len(body) > _MAX_BYTES:  # whoever has no token does not have more than that looked at
            raise Refusal(413, f"The body is longer than {_MAX_BYTES:,} bytes.", "Send the token alone.")
        given = SignIn.model_validate_json(body)
        response = Response(status_code=204)
        if not sessions.needed:
            return response
        peer = peer_of(request.scope, options.proxies)
        sessions.clients.attempt(peer)
        if not sessions.knows_token(given.token.strip().encode()):
            sessions.clients.failed(peer)
            raise Refusal(401, "That is not the token.", "The one that the server was started with.")
        before = sessions.find(request.scope)
        if before is not None:
            sessions.close(before)
        secure = options.secure_cookie or peer.scheme == "https"
        response.set_cookie(
            _cookie_name(request.scope),
            sessions.open(),
            path="/",
            secure=secure,
            httponly=True,
            samesite="strict",
        )
        return response

    @router.delete(
        "/session", summary="End the session", status_code=204, response_class=Response, responses=_REFUSED
    )
    async def sign_out(request: Request) -> Response:
        """Forgets the session of this browser, if there is one."""
        digest = sessions.find(request.scope)
        if digest is not None:
            sessions.close(digest)
        response = Response(status_code=204)
        response.delete_cookie(_cookie_name(request.scope), path="/", httponly=True, samesite="strict")
        return response

    return router


def _cookie_name(scope: Scope) -> str:
    """Browsers keep cookies by host and not by port, where another server may live."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    try:
        port = urlsplit(f"//{host.decode('latin-1')}").port
    except ValueError:
        port = None
    return _COOKIE if port is None else f"{_COOKIE}_{port}"


def _cookies(scope: Scope) -> list[str]:
    """The values of the session's cookie. Several may come: those of other paths and hosts go by its name."""
    wanted = _cookie_name(scope)
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"]
    pairs = [pair.strip().partition("=") for line in lines for pair in line.split(";")]
    return [value.strip() for name, _, value in pairs if name == wanted][:_MAX_COOKIES]
