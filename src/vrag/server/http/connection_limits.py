"""Connections: how many one peer may hold, and how long one may keep the server waiting.

uvicorn limits what is answered at one time. A connection that sends nothing, half a head, or reads nothing
of what it asked for would stay for ever, and some hundreds of them would lock everybody out.
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

__all__ = ["GuardedProtocol", "guarded"]

_LINGER_SECONDS = 2.0
"""Time for a client to notice that it was answered before it had sent everything."""
_PROGRESS = 16 * 1024
"""Bytes that a client reads in `write_seconds` at least, when there are as many for it."""
_UNSENT = 2 * _PROGRESS
"""Bytes that the system takes before they are sent. It takes more again when half of them are, and else might
hold megabytes whose progress cannot be seen here."""


class GuardedProtocol(H11Protocol):
    """One connection, with limits. Of `guarded`, which makes one class for each server."""

    options: ServerOptions
    metrics: ServerMetrics | None
    peers: Counter[str]
    """Connections by peer."""

    def __init__(self, *args: Any, **rest: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **rest)
        self._peer: str | None = None
        """None for a connection that was refused."""
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._unsent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, or says why not."""
        address = str((transport.get_extra_info("peername") or ("",))[0])
        peer = network_of(address)
        if len(self.connections) >= self.options.connections:
            self._turn_away(transport, "The server has too many connections.", "full")
        elif self.peers[peer] >= self._most(address):
            self._turn_away(transport, "There are too many connections from this address.", "connections")
        else:
            self._peer = peer
            self.peers[peer] += 1
            _watch(transport, 2 * self.options.write_seconds)
            super().connection_made(transport)
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets a connection."""
        for timer in (self._head, self._unread, self._unsent):
            if timer is not None:
                timer.cancel()
        if self._peer is not None:
            self.peers[self._peer] -= 1
            if not self.peers[self._peer]:
                del self.peers[self._peer]
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what arrived."""
        if self._peer is None:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY:
            self._unsent = _cancelled(self._unsent)
        if self.conn.their_state is not h11.IDLE:
            self._head = _cancelled(self._head)
        elif self._head is None and not self.transport.is_closing():
            self._expect_head()

    def on_response_complete(self) -> None:
        """Does not let a client send for ever what nobody reads any more."""
        if self.conn.their_state is h11.SEND_BODY:
            self._unsent = self.loop.call_later(_LINGER_SECONDS, self._end)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Called when the buffers before the client are full."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Called when the client has read most of them."""
        super().resume_writing()
        self._unread = _cancelled(self._unread)

    def timeout_keep_alive_handler(self) -> None:
        """Ends a connection without a further request, whether or not its client reads the last response."""
        super().timeout_keep_alive_handler()
        self._expect_reading()

    @property
    def streams(self) -> bool:
        """Whether its response is a stream of events."""
        if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            return False
        return bool(self.cycle.scope.get("state", {}).get("streams"))

    def _most(self, address: str) -> int:
        if address in self.options.proxies:
            return self.options.connections
        return self.options.local_connections if is_loopback(address) else self.options.peer_connections

    def _expect_head(self) -> None:
        self._head = self.loop.call_later(self.options.head_seconds, self._no_head)

    def _no_head(self) -> None:
        self._head = None
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            return
        self._count("head")
        begun, _ = self.conn.trailing_data
        if begun:  # browsers open connections that they may never use: those are closed without a word
            self.transport.write(_refusal(408, "Request Timeout", "The head of the request did not arrive."))
        self._end()

    def _end(self) -> None:
        """Closes the connection once its client has read what is left, or no longer reads."""
        self._unset_keepalive_if_required()
        self.transport.close()
        self._expect_reading()

    def _expect_reading(self) -> None:
        """Cuts the connection when its client stops reading. What it does read may take its time."""
        before = self.transport.get_write_buffer_size()

        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left and left > before - _PROGRESS:
                self._count("unread")
                self.transport.abort()
            elif left:
                self._expect_reading()

        _cancelled(self._unread)
        self._unread = self.loop.call_later(self.options.write_seconds, look)

    def _turn_away(self, transport: asyncio.Transport, message: str, reason: str) -> None:
        self._count(reason)
        transport.write(_refusal(503, "Service Unavailable", message))
        self.loop.call_later(_LINGER_SECONDS, transport.close)  # not at once: it may be sending its request

    def _count(self, reason: str) -> None:
        if self.metrics is not None:
            self.metrics.refused(reason)


def guarded(options: ServerOptions, metrics: ServerMetrics | None = None) -> type[GuardedProtocol]:
    """The class of the connections of one server.

    Args:
        options: Limits.
        metrics: What counts those that are refused.
    """
    return type(
        "Connection", (GuardedProtocol,), {"options": options, "metrics": metrics, "peers": Counter[str]()}
    )


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _refusal(status: int, phrase: str, message: str) -> bytes:
    body = json.dumps({"detail": message, "hint": "Come back in a second."}).encode()
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Retry-After: 1\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _watch(transport: asyncio.Transport, seconds: float) -> None:
    """Has the system hold little, and give up a peer that does not acknowledge: one that lost its network."""
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is None:
        return
    for option, value in (("TCP_USER_TIMEOUT", int(seconds * 1000)), ("TCP_NOTSENT_LOWAT", _UNSENT)):
        if hasattr(socket, option):
            with contextlib.suppress(OSError):
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
