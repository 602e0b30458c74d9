"""Limits of connections: how many one address may hold, and how long one may keep the server waiting.

uvicorn limits only how much is answered at one time. A connection that sends nothing, half a head, or reads
nothing of its response would stay forever, and some hundreds of them would lock everybody out of a server
that is reached without a proxy.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vrag.server.http.rate_limit import network_of
from vrag.server.options import is_loopback

if TYPE_CHECKING:
    import asyncio

    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions

_LINGER_SECONDS = 2.0
"""Time for a client to notice that it was answered before it had sent everything."""
_MIN_PROGRESS_BYTES = 16 * 1024
"""Bytes that a client must read within `write_seconds`, if there are as many for it."""
_MAX_UNSENT_BYTES = 2 * _MIN_PROGRESS_BYTES
"""Bytes that the system takes before they are sent. It takes more again when half of them are, and else might
hold megabytes whose progress cannot be seen here."""


class GuardedProtocol(H11Protocol):
    """One connection, with limits; `guarded_protocol` makes a class for each server."""

    options: ServerOptions
    metrics: ServerMetrics | None
    peers: Counter[str]
    """Connections by network."""

    def __init__(self, *args: Any, **rest: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **rest)
        self._peer: str | None = None
        """None for a refused connection."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or say why not."""
        address = str((transport.get_extra_info("peername") or ("",))[0])
        peer = network_of(address)
        limit = self.options.local_connections if is_loopback(address) else self.options.peer_connections
        if address in self.options.proxies:
            limit = self.options.connections
        if len(self.connections) >= self.options.connections:
            self._turn_away(transport, "The server has too many connections.", "full")
        elif self.peers[peer] >= limit:
            self._turn_away(transport, "There are too many connections from this address.", "connections")
        else:
            self._peer = peer
            self.peers[peer] += 1
            _set_socket_options(transport, 2 * self.options.write_seconds)
            super().connection_made(transport)
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        for timer in (self._head_timer, self._read_timer, self._body_timer):
            _cancel(timer)
        if self._peer is not None:
            self.peers[self._peer] -= 1
            if not self.peers[self._peer]:
                del self.peers[self._peer]
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        if self._peer is None:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY:
            self._body_timer = _cancel(self._body_timer)
        if self.conn.their_state is not h11.IDLE:
            self._head_timer = _cancel(self._head_timer)
        elif self._head_timer is None and not self.transport.is_closing():
            self._expect_head()

    def on_response_complete(self) -> None:
        """Give a client that is still sending a little time, since nobody reads its body any more."""
        if self.conn.their_state is h11.SEND_BODY:
            self._body_timer = self.loop.call_later(_LINGER_SECONDS, self._end)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start to watch the client: the buffers before it are full."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Stop to watch the client: it has read most of the buffers."""
        super().resume_writing()
        self._read_timer = _cancel(self._read_timer)

    def timeout_keep_alive_handler(self) -> None:
        """End a connection without a further request, whether or not its client reads the last response."""
        super().timeout_keep_alive_handler()
        self._expect_reading()

    @property
    def streams(self) -> bool:
        """True if its response is a stream of events."""
        if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            return False
        return bool(self.cycle.scope.get("state", {}).get("streams"))

    def _expect_head(self) -> None:
        def expire() -> None:
            self._head_timer = None
            if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
                return
            self._count("head")
            if self.conn.trailing_data[0]:  # a connection that a browser never used is closed without a word
                message = "The head of the request did not arrive in time."
                self.transport.write(_refusal(408, "Request Timeout", message))
            self._end()

        self._head_timer = self.loop.call_later(self.options.head_seconds, expire)

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

        _cancel(self._read_timer)
        self._read_timer = self.loop.call_later(self.options.write_seconds, check)

    def _turn_away(self, transport: asyncio.Transport, message: str, reason: str) -> None:
        self._count(reason)
        transport.write(_refusal(503, "Service Unavailable", message))
        self.loop.call_later(_LINGER_SECONDS, transport.close)  # not at once: it may be sending its request

    def _count(self, reason: str) -> None:
        if self.metrics is not None:
            self.metrics.refused(reason)


def guarded_protocol(options: ServerOptions, metrics: ServerMetrics | None) -> type[GuardedProtocol]:
    """Make the class of the connections of one server."""
    attributes = {"options": options, "metrics": metrics, "peers": Counter[str]()}
    return type("Connection", (GuardedProtocol,), attributes)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _refusal(status: int, phrase: str, message: str) -> bytes:
    body = json.dumps({"detail": message, "hint": "Try again in a second."}).encode()
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Retry-After: 1\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _set_socket_options(transport: asyncio.Transport, seconds: float) -> None:
    """Have the system buffer little, and give up a peer that does not acknowledge: it lost its network."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None:
        return
    for option, value in (
        ("TCP_USER_TIMEOUT", int(seconds * 1000)),
        ("TCP_NOTSENT_LOWAT", _MAX_UNSENT_BYTES),
    ):
        if hasattr(socket, option):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
