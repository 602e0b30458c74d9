"""Sessions of browsers, which survive a restart of the server.

Only digests of ids and tokens are stored. A session belongs to the token that it was opened with, and ends
with it. It ends also some time after its last use, and some days after its beginning, by the wall
clock; the last use is written to the disk once a minute. Where the disk refuses, a session is held in memory.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cachetools import LRUCache
from starlette.datastructures import Headers

from vrag.errors import ServerStateError
from vrag.server.http.limits import ClientRegistry, peer_of
from vrag.server.http.users import EVERYBODY, SERVER_ADMIN, User, digest_of

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from vrag.server.options import ServerOptions
    from vrag.storage.connection import Connection

log = logging.getLogger("vrag.server")
_COOKIE = "vrag_session"
_WRITE_SECONDS = 60.0
"""Time between two writes of the last use of a session."""
_DAY_SECONDS = 86_400.0
_WRITE_USE = "UPDATE sessions SET used = ? WHERE id = ?"


@dataclass(frozen=True, slots=True)
class _Session:
    """A browser that is signed in."""

    token: bytes | None
    """Digest of its token; None on a server without tokens."""
    began: float
    """Seconds of the epoch."""
    used: float
    """Its last use."""


class BrowserSessions:
    """The sessions of one application; `now` is the clock, in seconds of the epoch."""

    def __init__(self, options: ServerOptions, now: Callable[[], float] = time.time) -> None:
        self._options, self._state = options, options.state
        self._now = now
        self._token = None if options.token is None else digest_of(options.token.encode())
        self._lock = threading.Lock()
        """Guards the next two."""
        self._unsaved: LRUCache[bytes, _Session] = LRUCache(max(1, options.sessions))
        """Sessions that are in no database, by the digest of each id."""
        self._uses: LRUCache[bytes, tuple[float, float]] = LRUCache(max(1, options.sessions))
        """Last use of the others, and the last one that was written."""
        self.clients = ClientRegistry(options)
        self.on_close: list[Callable[[bytes], object]] = []
        """Called with the digest of a session that ended."""
        self._delete_revoked()

    @property
    def needed(self) -> bool:
        """True if the server has tokens."""
        return self._token is not None or self._options.tokens is not None

    def user_of_token(self, digest: bytes) -> User | None:
        """Return the user whose token has a digest; None if there is none. Takes the same time for all."""
        own = hmac.compare_digest(digest, self._token or b"")
        named = self._options.tokens.find(digest) if self._options.tokens else None
        return SERVER_ADMIN if own else named

    def user_of_session(self, digest: bytes) -> User | None:
        """Return the user of a session; None if its token is not valid any more."""
        session = self._read(digest)
        return None if session is None else self._user_of(session)

    def open(self, token: bytes | None) -> str:
        """Begin a session, with the digest of a token if one is needed; return its id of 256 random bits.

        Blocks, as `submit` of the server's state does not.
        """
        id = secrets.token_urlsafe(32)
        now = self._now()
        digest, session = digest_of(id.encode()), _Session(token, now, now)
        try:
            is_saved = self._state.write(partial(self._insert, digest, session))
        except ServerStateError as error:
            log.warning("A session is held in memory only: %s", error.message)
            is_saved = False
        if not is_saved:
            with self._lock:
                self._unsaved[digest] = session
        return id

    def find(self, scope: Scope) -> bytes | None:
        """Return the digest of a request's session and extend the session; None without one."""
        now = self._now()
        cookie, headers = _cookie_name(scope), Headers(scope=scope)
        pairs = [pair.partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
        ids = [value.strip() for name, _, value in pairs if name.strip() == cookie]
        for id in ids[:4]:  # other paths and hosts may have set one of its name too
            digest = digest_of(id.encode())
            session = self._read(digest)
            if session is None:
                continue
            if self._is_valid(session, now):
                self._note_use(digest, session, now)
                return digest
            self.close(digest)
        return None

    def close(self, digest: bytes) -> Future[None]:
        """End a session; the future is done when it is deleted from the disk."""
        with self._lock:
            self._unsaved.pop(digest, None)
            self._uses.pop(digest, None)
        for forget in self.on_close:
            forget(digest)
        return self._state.submit(partial(self._delete, [digest]))

    def _read(self, digest: bytes) -> _Session | None:
        with self._lock:
            if (session := self._unsaved.get(digest)) is not None:
                return session
            use = self._uses.get(digest)
        try:
            rows = self._state.select("SELECT token, began, used FROM sessions WHERE id = ?", [digest])
        except ServerStateError as error:
            log.error("Sessions cannot be read: %s", error.message)  # noqa: TRY400 - says it all
            return None
        if not rows:
            return None
        token, began, used = rows[0]
        return _Session(token, began, use[0] if use else used)

    def _is_valid(self, session: _Session, now: float) -> bool:
        """Return whether a session has not ended. One of the future is the work of a clock that was wrong."""
        is_used = abs(now - session.used) < self._options.session_seconds
        is_young = abs(now - session.began) < self._options.session_days * _DAY_SECONDS
        return is_used and is_young and self._user_of(session) is not None

    def _user_of(self, session: _Session) -> User | None:
        if session.token is None:
            return None if self.needed else EVERYBODY
        return self.user_of_token(session.token)

    def _note_use(self, digest: bytes, session: _Session, now: float) -> None:
        with self._lock:
            if digest in self._unsaved:
                self._unsaved[digest] = replace(session, used=now)
                return
            _, written = self._uses.get(digest, (0.0, session.used))
            is_due = abs(now - written) >= _WRITE_SECONDS
            self._uses[digest] = now, now if is_due else written
        if is_due:
            self._state.submit(partial(self._write_use, digest, now))

    def _write_use(self, digest: bytes, now: float) -> None:
        try:
            self._state.write(lambda connection: connection.execute(_WRITE_USE, (now, digest)))
        except ServerStateError as error:
            log.warning("The last use of a session is not on the disk: %s", error.message)

    def _insert(self, digest: bytes, session: _Session, connection: Connection) -> None:
        """Insert a session, and delete those that have ended or are too many."""
        with self._lock:
            uses = [(used, id) for id, (used, _) in self._uses.items()]
        connection.executemany(_WRITE_USE, uses)
        connection.execute(
            "DELETE FROM sessions WHERE used <= ? OR began <= ?",
            (
                session.began - self._options.session_seconds,
                session.began - self._options.session_days * _DAY_SECONDS,
            ),
        )
        row = (digest, session.token, session.began, session.used)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", row)
        connection.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY used DESC LIMIT -1 OFFSET ?)",
            (max(1, self._options.sessions),),
        )

    def _delete_revoked(self) -> None:
        """Delete the sessions whose tokens are not valid any more, or the server has none for."""
        try:
            rows = self._state.select("SELECT id, token, began, used FROM sessions")
        except ServerStateError as error:
            log.warning("Sessions cannot be read: %s", error.message)
            return
        if ended := [id for id, *session in rows if self._user_of(_Session(*session)) is None]:
            self._delete(ended)

    def _delete(self, digests: list[bytes]) -> None:
        def delete(connection: Connection) -> None:
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(digest,) for digest in digests])

        try:
            if self._state.write(delete):
                self._state.erase()
        except ServerStateError as error:
            log.warning("A session that ended is still on the disk: %s", error.message)


async def begin_session(
    sessions: BrowserSessions,
    options: ServerOptions,
    scope: Scope,
    response: Response,
    token: bytes | None = None,
) -> bytes:
    """Begin a session for the browser that sent a request, by a cookie of its response; return its digest.

    `token` is the digest of the token that was exchanged for it; None on a server without tokens.
    """
    id = await asyncio.wrap_future(options.state.submit(partial(sessions.open, token)))
    response.set_cookie(
        _cookie_name(scope),
        id,
        path=None,  # that of the server as the browser sees it: others may be below other paths of the host
        secure=_is_secure(scope, options),
        httponly=True,
        samesite="strict",
    )
    return digest_of(id.encode())


async def end_session(
    sessions: BrowserSessions, options: ServerOptions, scope: Scope, response: Response
) -> None:
    """End the session of the browser that sent a request, if there is one, and remove its cookie."""
    if (digest := sessions.find(scope)) is not None:
        await asyncio.wrap_future(sessions.close(digest))
    response.set_cookie(
        _cookie_name(scope),
        max_age=0,
        expires=0,
        path=None,
        secure=_is_secure(scope, options),
        httponly=True,
        samesite="strict",
    )


def _is_secure(scope: Scope, options: ServerOptions) -> bool:
    """Return whether the cookie is only for https: the request came by it, as far as the server can know."""
    return options.secure_cookie or peer_of(scope, options.proxies).scheme == "https"


def _cookie_name(scope: Scope) -> str:
    """Name the cookie by the port: browsers keep cookies by host, which may have several servers."""
    try:
        port = urlsplit(f"//{Headers(scope=scope).get('host', '')}").port
    except ValueError:
        port = None
    return _COOKIE if port is None else f"{_COOKIE}_{port}"
