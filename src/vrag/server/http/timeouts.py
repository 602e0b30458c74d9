"""How a request waits: not longer than its time, and not after its client has left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from vrag.server.http.background import Threads
from vrag.server.http.errors import ClientLeft, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from vrag.server.metrics import ServerMetrics
    from vrag.server.options import ServerOptions

__all__ = ["ItemThreadPool", "attend"]

T = TypeVar("T")


async def attend(request: Request, work: asyncio.Future[T], seconds: float) -> T:
    """The outcome of work for a request whose body has been read.

    Args:
        request: Whose client is watched meanwhile.
        work: Is cancelled when it is no longer wanted.
        seconds: How long it may take.

    Raises:
        ClientLeft: If the client left first.
        Refusal: If it took longer (504).
    """
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({work, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if leaving.done():
            raise ClientLeft
        raise Refusal(504, f"It took longer than {seconds:g} s.", "Ask for less, or come back later.")
    finally:
        leaving.cancel()
        work.cancel()


async def _left(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class ItemThreadPool:
    """Some threads for what reads files, and a line before them that is not too long."""

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._threads = Threads(options.item_threads, "vrag-items")
        self._most = options.item_threads + options.waiting_items
        self._busy = 0
        self._gauge = metrics.waiting_items

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Work, in a thread. Cancel the future, and it is not begun if it still waits.

        Raises:
            Refusal: If too much waits already (503).
        """
        if self._busy >= self._most:
            raise Refusal(503, "Too many requests for items are waiting.", "Come back in a second.")
        self._change(1)
        future = self._threads.run(work)
        future.add_done_callback(lambda _: self._change(-1))
        return future

    async def close(self, seconds: float) -> None:
        """Ends the threads when what they do is done, or these seconds are over."""
        await self._threads.close(seconds)

    def _change(self, by: int) -> None:
        self._busy += by
        self._gauge.set(self._busy)
