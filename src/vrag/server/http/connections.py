"""One connection of the server: the framing of its requests, its limits, and its end.

uvicorn limits only how much is answered at one time (`limit_concurrency`), and how long a connection stays
open after a response (`timeout_keep_alive`). A connection that sends nothing, half a head, or reads nothing
of its response would stay forever, and some hundreds of them would lock everybody out of a server that is
reached without a proxy: so `GuardedProtocol` has timers of its own. When there are as many connections as
allowed, a new one replaces the one that has been idle for longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from vrag.server.http.framing import FramingError, StrictConnection
from vrag.server.http.limits import network_of
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions, is_loopback

_LINGER_SECONDS = 2.0
"""Time for a client to notice that it was answered before it had sent everything."""
_MIN_PROGRESS_BYTES = 16 * 1024
"""Bytes that a client must read within `write_seconds`, if there are as many for it."""
_MAX_UNSENT_BYTES = 2 * _MIN_PROGRESS_BYTES
"""Bytes that the system takes before they are sent. It takes more again when half of them are, and else might
hold megabytes whose progress cannot be seen here."""
_MAX_TURNED_AWAY = 64
"""Connections at one time that are refused with a response; the others are closed without one. They count
against no other limit, and each takes a file descriptor of the process."""
_CLOSE = (b"connection", b"close")


class LingeringTransport:
    """A transport whose `close` first lets a client that is still sending read its response.

    The system resets a connection that is closed with unread bytes, and the client may lose the response. So
    the response is ended, and what still comes is dropped for some seconds.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_sending = is_sending
        self._closing = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the transport has
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether nothing more is read or written for the application."""
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Send what is left, and then close the connection."""
        if self.is_closing():
            return
        self._closing = True
        if not self._is_sending():
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)


class GuardedProtocol(H11Protocol):
    """One connection, with limits; each server has a subclass with its options and counts."""

    options: ServerOptions
    metrics: ServerMetrics | None
    peers: Counter[str]
    """Connections by network."""
    turned_away: set[GuardedProtocol]
    """Refused connections that are still open."""

    def __init__(self, *args: Any, **rest: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **rest)
        options = self.options
        self.conn = StrictConnection(head_bytes=options.head_bytes, field_bytes=options.field_bytes)
        self.peer: str | None = None
        """Its network; None for a refused connection."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_refused = False
        self.idle_since: float = self.loop.time()
        """When it began to wait for a request."""
        self._application = cast("ASGIApp", self.app)
        self.app = self._answer  # type: ignore[assignment] # uvicorn's own types of ASGI

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or say why not."""
        address = str((transport.get_extra_info("peername") or ("",))[0])
        peer = network_of(address)
        limit = self.options.local_connections if is_loopback(address) else self.options.peer_connections
        if address in self.options.proxies:
            limit = self.options.connections
        if len(self.connections) >= self.options.connections and not self._replace_idle(None):
            self._turn_away(transport, "The server has too many connections.", "full")
        elif self.peers[peer] >= limit and not self._replace_idle(peer):
            self._turn_away(transport, "There are too many connections from this address.", "connections")
        else:
            self.peer = peer
            self.peers[peer] += 1
            connection: socket.socket | None = transport.get_extra_info("socket")
            milliseconds = int(2000 * self.options.write_seconds)  # how long a peer may acknowledge nothing
            socket_options = {"TCP_USER_TIMEOUT": milliseconds, "TCP_NOTSENT_LOWAT": _MAX_UNSENT_BYTES}
            for option, value in socket_options.items():
                if connection is not None and hasattr(socket, option):
                    with contextlib.suppress(OSError):
                        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            lingering = LingeringTransport(transport, self._is_sending)
            super().connection_made(cast("asyncio.Transport", lingering))
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        for name in tuple(self._timers):
            self._stop_timer(name)
        self.turned_away.discard(self)
        if self.peer is not None:
            self._leave()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived, unless the last response was sent."""
        if self.peer is None or self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer("head")
        elif "head" not in self._timers and not self.transport.is_closing():
            self._expect_head()

    def handle_events(self) -> None:
        """Handle what arrived; answer a request with doubtful framing, and close the connection."""
        try:
            super().handle_events()
        except FramingError as error:
            self._count("framing")
            self._is_refused = True
            if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                self.transport.write(_refusal(error.status, error.message, error.hint))
            if self._is_answering:
                self.cycle.disconnected = True  # the application waits for the rest of its body
                self.cycle.message_event.set()
            self._end()

    def on_response_complete(self) -> None:
        """Begin to count the time without a request, or wait until the client has read the last response."""
        self.idle_since = self.loop.time()
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_reading()

    def pause_writing(self) -> None:
        """Start to watch the client: the buffers before it are full."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Stop to watch the client: it has read most of the buffers."""
        super().resume_writing()
        self._stop_timer("read")

    def timeout_keep_alive_handler(self) -> None:
        """End a connection without a further request, whether or not its client reads the last response."""
        super().timeout_keep_alive_handler()
        self._expect_reading()

    def give_way(self) -> None:
        """End an idle connection at once, for another one."""
        self._count("idle")
        self._leave()
        self.transport.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress, and all of the last response was handed to the system."""
        return not self._is_answering and not self.transport.get_write_buffer_size()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    @property
    def streams(self) -> bool:
        """True if its response is a stream of events."""
        return self._is_answering and bool(self.cycle.scope.get("state", {}).get("streams"))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. A response before the end of the body is the last of its connection."""

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._is_sending():
                message["headers"] = [*message.get("headers", ()), _CLOSE]
            await send(message)

        await self._application(scope, receive, send_closing)

    def _is_sending(self) -> bool:
        return self._is_refused or self.conn.their_state in {h11.SEND_BODY, h11.ERROR}

    def _replace_idle(self, peer: str | None) -> bool:
        """Cut the connection that has been idle for longest, of one network or of all; False without one."""
        others = [other for other in self.connections if isinstance(other, GuardedProtocol)]
        idle = [other for other in others if other.is_idle and peer in {None, other.peer}]
        if idle:
            min(idle, key=lambda other: other.idle_since).give_way()
        return bool(idle)

    def _leave(self) -> None:
        """Stop to count this connection."""
        if self.peer is not None and self in self.connections:
            self.connections.discard(self)
            self.peers[self.peer] -= 1
            if not self.peers[self.peer]:
                del self.peers[self.peer]

    def _expect_head(self) -> None:
        def expire() -> None:
            if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
                return
            self._count("head")
            if self.conn.trailing_data[0]:  # a connection that a browser never used is closed without a word
                message = "The head of the request did not arrive in time."
                self.transport.write(_refusal(408, message, "Try again in a second."))
            self._end()

        self._start_timer("head", self.options.head_seconds, expire)

    def _end(self) -> None:
        """Close the connection once its client has read what is left, or no longer reads."""
        self._unset_keepalive_if_required()
        self.transport.close()
        self._expect_reading()

    def _expect_reading(self) -> None:
        """Cut the connection when its client stops reading; a slow one may take its time."""
        before = self.transport.get_write_buffer_size()

        def check() -> None:
            left = self.transport.get_write_buffer_size()
            if left and left > before - _MIN_PROGRESS_BYTES:
                self._count("unread")
                self.transport.abort()
            elif left:
                self._expect_reading()

        self._start_timer("read", self.options.write_seconds, check)

    def _turn_away(self, transport: asyncio.Transport, message: str, reason: str) -> None:
        self._count(reason)
        if len(self.turned_away) >= _MAX_TURNED_AWAY:
            transport.abort()
            return
        self.turned_away.add(self)
        transport.write(_refusal(503, message, "Try again in a second."))
        self._start_timer("linger", _LINGER_SECONDS, transport.close)  # it may be sending its request

    def _count(self, reason: str) -> None:
        if self.metrics is not None:
            self.metrics.refused(reason)

    def _start_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        def expire() -> None:
            del self._timers[name]
            action()

        self._stop_timer(name)
        self._timers[name] = self.loop.call_later(seconds, expire)

    def _stop_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


def _refusal(status: int, message: str, hint: str) -> bytes:
    body = json.dumps({"detail": message, "hint": hint}).encode()
    retry = "Retry-After: 1\r\n" if status in {408, 503} else ""
    return (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode() + body
