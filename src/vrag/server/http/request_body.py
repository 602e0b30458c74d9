"""Bodies of requests: counted as they arrive, whatever Content-Length says, and not waited for for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from vrag.server.http.errors import Refusal
from vrag.server.http.rate_limit import Kind

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

    from vrag.server.options import ServerOptions

__all__ = ["Body", "RequestBodies"]

_LENGTHY = frozenset({Kind.RUN, Kind.UPLOAD})
_MAX_VALUES = 500_000
"""Values of a JSON body, by its commas and brackets. Pictures have none of either; of millions of values each
takes a hundred bytes and a microsecond to read, and more to say what is wrong with it."""


class RequestBodies:
    """The bodies of all requests of one application."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.held = 0
        """Bytes of bodies in memory."""

    def body(self, scope: Scope, receive: Receive, kind: Kind) -> Body:
        """The body of a request, to be closed in the end.

        Raises:
            Refusal: If its length is not allowed (413) or not a number (400).
        """
        body = Body(self, receive, kind)
        body.check(_stated(scope))
        return body


class Body:
    """`receive` of one request, within limits."""

    def __init__(self, bodies: RequestBodies, receive: Receive, kind: Kind) -> None:
        options = bodies.options
        self._bodies = bodies
        self._receive = receive
        self._kind = kind
        self._most = {Kind.RUN: options.run_bytes, Kind.UPLOAD: options.upload_bytes}.get(
            kind, options.body_bytes
        )
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + options.body_seconds
        self._waited = 0.0
        """Seconds in which the client was waited for; what the server does between is not its fault."""
        self._arrived = 0
        self._values = 0
        self._held = 0
        self._ended = False

    async def __call__(self) -> Message:
        """The next message; without limits once the body is there: then a client may only leave.

        Raises:
            Refusal: If it is too long (413), too slow (408), or there is no memory for it (503).
        """
        if self._ended:
            return await self._receive()
        message = await self._within_time()
        piece: bytes = message.get("body", b"")
        length = len(piece)
        self._arrived += length
        self.check(self._arrived)
        self._count(piece)
        self._hold(length)
        self._ended = not message.get("more_body", False)
        return message

    def check(self, length: int) -> None:
        """Refuses a body of that many bytes if it is too long."""
        if length > self._most:
            raise Refusal(
                413, f"The body is longer than {self._most:,} bytes.", "Send less at a time.", reason="length"
            )

    def _count(self, piece: bytes) -> None:
        if self._kind is Kind.UPLOAD:
            return
        self._values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if self._values > _MAX_VALUES:
            raise Refusal(
                413,
                f"The body has more than {_MAX_VALUES:,} values.",
                "Send less at a time.",
                reason="length",
            )

    def close(self) -> None:
        """Called when nobody needs the body any more."""
        self._bodies.held -= self._held
        self._held = 0

    async def _within_time(self) -> Message:
        began = self._clock()
        lengthy = self._kind in _LENGTHY
        deadline = began + self._bodies.options.stall_seconds if lengthy else self._deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._slow() from None
        self._waited += self._clock() - began
        if lengthy and self._arrived < self._due():
            raise self._slow()
        return message

    def _due(self) -> float:
        """Bytes that must have arrived by now."""
        options = self._bodies.options
        return (self._waited - options.stall_seconds) * options.body_rate

    def _slow(self) -> Refusal:
        options = self._bodies.options
        if self._kind in _LENGTHY:
            message = f"The body paused for {options.stall_seconds:g} s, or came too slowly."
        else:
            message = f"The body took longer than {options.body_seconds:g} s to arrive."
        return Refusal(408, message, "Send it without pauses.", reason="slow")

    def _hold(self, length: int) -> None:
        """Counts what stays in memory until the request is answered."""
        if self._kind is Kind.UPLOAD:
            return
        self._held += length
        self._bodies.held += length
        if self._bodies.held > self._bodies.options.held_bytes:
            raise Refusal(
                503, "Too much is being sent to this server.", "Come back in a second.", 1.0, "held"
            )


def _stated(scope: Scope) -> int:
    """The length that a request states; 0 when it states none."""
    stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    try:
        return int(stated)
    except ValueError:
        raise Refusal(400, "Content-Length is no number.", reason="length") from None
