"""Limits of request bodies: counted as they arrive, whatever Content-Length says, and with a time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from vrag.server.http.errors import Refusal
from vrag.server.http.rate_limit import Kind

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

    from vrag.server.options import ServerOptions

_MAX_VALUES = 500_000
"""Values of a JSON body, by its commas and brackets. Pictures have none of either; of millions of values each
takes a hundred bytes and a microsecond to read, and more to say what is wrong with it."""


class RequestBodies:
    """The bodies of all requests of one application."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.held_bytes = 0
        """Bytes of bodies in memory."""

    def body(self, scope: Scope, receive: Receive, kind: Kind) -> Body:
        """Return the body of a request, to be closed at the end.

        Raises:
            Refusal: If its stated length is too long (413) or not a number (400).
        """
        body = Body(self, receive, kind)
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        try:
            body.check_length(int(stated))
        except ValueError:
            raise Refusal(400, "Content-Length is not a number.", reason="length") from None
        return body


class Body:
    """`receive` of one request, within limits."""

    def __init__(self, bodies: RequestBodies, receive: Receive, kind: Kind) -> None:
        self._bodies = bodies
        self._options = bodies.options
        self._receive = receive
        self._is_long = kind in {Kind.RUN, Kind.UPLOAD}
        self._goes_to_disk = kind is Kind.UPLOAD
        self._max_bytes = {Kind.RUN: self._options.run_bytes, Kind.UPLOAD: self._options.upload_bytes}.get(
            kind, self._options.body_bytes
        )
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + self._options.body_seconds
        self._waited_seconds = 0.0
        """Time spent waiting for the client; what the server does in between does not count."""
        self._received_bytes = 0
        self._values = 0
        self._held_bytes = 0
        self._ended = False

    async def __call__(self) -> Message:
        """Return the next message; without limits after the end of the body: then a client may only leave.

        Raises:
            Refusal: If it is too long (413), too slow (408), or there is no memory for it (503).
        """
        if self._ended:
            return await self._receive()
        message = await self._receive_in_time()
        piece: bytes = message.get("body", b"")
        self._received_bytes += len(piece)
        self.check_length(self._received_bytes)
        if not self._goes_to_disk:
            self._hold(piece)
        self._ended = not message.get("more_body", False)
        return message

    def check_length(self, length: int) -> None:
        """Refuse a body of so many bytes if it is too long."""
        if length > self._max_bytes:
            message = f"The body is longer than {self._max_bytes:,} bytes."
            raise Refusal(413, message, "Send less at a time.", reason="length")

    def close(self) -> None:
        """Release the memory of the body."""
        self._bodies.held_bytes -= self._held_bytes
        self._held_bytes = 0

    def _hold(self, piece: bytes) -> None:
        """Count what stays in memory until the request is answered."""
        self._values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if self._values > _MAX_VALUES:
            message = f"The body has more than {_MAX_VALUES:,} values."
            raise Refusal(413, message, "Send less at a time.", reason="length")
        self._held_bytes += len(piece)
        self._bodies.held_bytes += len(piece)
        if self._bodies.held_bytes > self._options.held_bytes:
            message = "The server is receiving too much data at the moment."
            raise Refusal(503, message, "Try again in a second.", 1.0, "held")

    async def _receive_in_time(self) -> Message:
        started = self._clock()
        deadline = started + self._options.stall_seconds if self._is_long else self._deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._timeout() from None
        self._waited_seconds += self._clock() - started
        due_bytes = (self._waited_seconds - self._options.stall_seconds) * self._options.body_rate
        if self._is_long and self._received_bytes < due_bytes:
            raise self._timeout()
        return message

    def _timeout(self) -> Refusal:
        message = f"The body took longer than {self._options.body_seconds:g} s to arrive."
        if self._is_long:
            message = f"The body paused for {self._options.stall_seconds:g} s, or came too slowly."
        return Refusal(408, message, "Send it without pauses.", reason="slow")
