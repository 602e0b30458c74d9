"""How many calls are made at once, and when none is made."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["ConcurrencyLimit"]

_SPREAD = 1.0
"""Seconds over which those that waited for the end of a pause come through, at most."""


class ConcurrencyLimit:
    """Lets so many through at a time, and nobody while there is a pause.

    Shared by event loops in any number of threads, which `asyncio.Semaphore` cannot be.

    Args:
        places: How many may be inside at once.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()
        self._pause_ends = 0.0

    def pause(self, seconds: float) -> None:
        """Lets nobody in from now on for so long; those inside stay."""
        with self._lock:
            self._pause_ends = max(self._pause_ends, time.monotonic() + seconds)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """Waits for a place, first come, first served, and holds it."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        while True:
            await self._take()
            with self._lock:
                wait = self._pause_ends - time.monotonic()
            if wait <= 0:
                return
            self._leave()
            await asyncio.sleep(wait + random.uniform(0, min(wait, _SPREAD)))

    async def _take(self) -> None:
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            self._give_up(future)
            raise

    def _give_up(self, future: asyncio.Future[None]) -> None:
        """Leaves the queue, or passes on the place that was already on its way."""
        with self._lock:
            queued = future in self._waiting
            if queued:
                self._waiting.remove(future)
        if not queued:
            self._leave()

    def _leave(self) -> None:
        """Gives the place to whoever waits longest, in whatever thread."""
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                try:
                    future.get_loop().call_soon_threadsafe(_grant, future)
                except RuntimeError:  # its loop is closed: nobody waits there
                    continue
                return
            self._free += 1


def _grant(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
