"""Daemon threads for blocking work, and the time limits under which requests wait for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from starlette.requests import Request

from vrag.server.http.errors import ClientLeft, Refusal
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions

T = TypeVar("T")
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"
log = logging.getLogger("vrag.server")


def complete_future(future: Future[T], work: Callable[[], T]) -> None:
    """Do work for a future, unless it was cancelled; what it raises is raised where the future is awaited."""
    if future.set_running_or_notify_cancel():
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised where the future is waited for
            future.set_exception(error)
        else:
            future.set_result(result)


class Threads:
    """A number of threads of one name with one queue. Belongs to one event loop between two closings.

    The interpreter waits at exit for the threads of a `ThreadPoolExecutor`, whatever they do: a search that
    hangs would keep a server from ending. These are left behind.
    """

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ends: list[Future[None]] = []
        """One for each started thread: done when it has ended."""

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run work in one of the threads. If the future is cancelled in the queue, it does not begin."""
        for number in range(len(self._ends), self._number):
            end: Future[None] = Future()
            name = f"{self._name}-{number}"
            threading.Thread(target=_work, args=(self._jobs, end), name=name, daemon=True).start()
            self._ends.append(end)
        future: Future[T] = Future()
        self._jobs.put((future, work))
        return asyncio.wrap_future(future)

    async def close(self, seconds: float) -> None:
        """Cancel what waits and end the threads; those still busy after so many seconds are left behind."""
        jobs, ends = self._jobs, self._ends
        self._jobs, self._ends = SimpleQueue(), []  # later work gets new threads
        try:
            while (job := jobs.get_nowait()) is not None:
                job[0].cancel()
        except Empty:
            pass
        for _ in ends:
            jobs.put(None)
        waiting = [asyncio.wrap_future(end) for end in ends]
        busy = (await asyncio.wait(waiting, timeout=seconds))[1] if waiting else ()
        for end in busy:
            end.cancel()
        if busy:
            log.warning("%s is still busy after %g s and is left behind.", self._name, seconds)


def _work(jobs: SimpleQueue[_Job | None], end: Future[None]) -> None:
    """Do one job after the other until None comes, in a thread."""
    while (job := jobs.get()) is not None:
        complete_future(*job)
        del job  # nothing is kept while the thread waits
    complete_future(end, lambda: None)


class ItemThreadPool:
    """Threads that read files of items, with a queue of limited length."""

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._threads = Threads(options.item_threads, "vrag-items")
        self._seconds = options.item_seconds
        self._max_pending = options.item_threads + options.waiting_items
        self._pending = 0
        self._gauge = metrics.waiting_items
        self.close = self._threads.close

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run work in a thread, as `Threads.run`. Raises `Refusal` if too much work waits already (503)."""
        if self._pending >= self._max_pending:
            raise Refusal(503, "Too many requests for items are waiting.", "Try again in a second.")
        self._count(1)
        future = self._threads.run(work)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    async def run_for(self, request: Request, work: Callable[[], T]) -> T:
        """Run work in a thread while the client waits. Raises as `run` and `wait_for_client`."""
        return await wait_for_client(request, self.run(work), self._seconds)

    def _count(self, change: int) -> None:
        self._pending += change
        self._gauge.set(self._pending)


async def wait_for_client(request: Request, work: asyncio.Future[T], seconds: float) -> T:
    """Return the result of work for a request whose body has been read; cancel it when nobody waits for it.

    Raises `ClientLeft` if the client closed its connection first and `Refusal` if the work took longer than
    so many seconds (504).
    """

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({work, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if leaving.done():
            raise ClientLeft
        message = f"The request took longer than {seconds:g} s."
        raise Refusal(504, message, "Ask for less, or try again later.")
    finally:
        leaving.cancel()
        work.cancel()
