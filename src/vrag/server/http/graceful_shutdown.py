"""The end of a server: first what runs, then the streams, then the rest."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import uvicorn

from vrag.server.http.connection_limits import GuardedProtocol

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from vrag.server.options import ServerOptions

__all__ = ["Stopping", "StoppingServer"]

log = logging.getLogger("vrag.server")

Stopping: TypeAlias = Callable[[], Awaitable[None]]
"""What finishes the work that goes on without a connection."""

_TICK = 0.05
_FAREWELL_SECONDS = 1.0
"""Time for streams to send their last event after what they follow has ended."""
_AT_ONCE_SECONDS = 2.0
"""Time in which a server ends that is told so twice."""


class StoppingServer(uvicorn.Server):
    """A server that lets runs finish before it stops to answer.

    uvicorn waits for every connection before it tells the application that it ends. A stream of events
    lasts as long as its run, so that the run has to be told first.

    Args:
        config: Of uvicorn.
        options: How long to wait.
        ready: Called when the server answers.
        stopping: Finishes what runs.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        options: ServerOptions,
        ready: Callable[[], None],
        stopping: Stopping | None,
    ) -> None:
        super().__init__(config)
        self._options = options
        self._ready = ready
        self._stopping = stopping
        self._over: threading.Timer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what runs within `drain_seconds`, and then the streams, the connections and the threads."""
        end = time.monotonic() + self._options.draining_seconds
        if self._stopping is not None:
            await self._drain(self._stopping)
        await self._until(lambda: not self._streams(), _FAREWELL_SECONDS)
        for connection in self._streams():
            connection.transport.close()
        left = max(_FAREWELL_SECONDS, end - time.monotonic())
        self.config.timeout_graceful_shutdown = left  # type: ignore[assignment] # a float does as well
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Takes a signal. Told twice to stop, nothing may hold the process up."""
        super().handle_exit(sig, frame)
        if self.force_exit and self._over is None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is broken off is no error
            self._over = threading.Timer(_AT_ONCE_SECONDS, os._exit, (128 + signal.SIGINT,))
            self._over.daemon = True
            self._over.start()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is told to stop."""
        try:
            super().run(sockets)
        finally:
            if self._over is not None:
                self._over.cancel()

    async def _drain(self, stopping: Stopping) -> None:
        task = asyncio.ensure_future(stopping())
        await self._until(task.done, max(_FAREWELL_SECONDS, self._options.drain_seconds))
        if task.done() and (error := task.exception()) is not None:
            log.error("What runs could not be finished.", exc_info=error)
        task.cancel()

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        """Waits, but not longer, and not after a second signal."""
        end = time.monotonic() + seconds
        while not (  # noqa: ASYNC110 - uvicorn tells of signals by an attribute
            done() or self.force_exit or time.monotonic() > end
        ):
            await asyncio.sleep(_TICK)

    def _streams(self) -> list[GuardedProtocol]:
        connections = [c for c in self.server_state.connections if isinstance(c, GuardedProtocol)]
        return [connection for connection in connections if connection.streams]
