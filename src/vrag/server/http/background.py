"""Threads for what blocks, which do not keep the program alive."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Threads"]

T = TypeVar("T")
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"
log = logging.getLogger("vrag.server")


class Threads:
    """A few threads, and a line before them. Belongs to one event loop between two closings.

    The interpreter waits in the end for the threads of a `ThreadPoolExecutor`, whatever they do: a search
    that hangs would keep a server from ending. These are left behind.

    Args:
        number: How many.
        name: What they are called, in logs and debuggers.
    """

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ends: list[Future[None]] = []
        """Of each thread that was begun: done when it has ended."""

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Work, in one of the threads.

        Cancel the future, and the work is not begun if it still waits at the loop's next turn.
        """
        if not self._ends:
            self._begin()
        future: Future[T] = Future()
        self._jobs.put((future, work))
        return asyncio.wrap_future(future)

    async def close(self, seconds: float) -> None:
        """Cancels what waits, and ends the threads.

        Args:
            seconds: How long to wait for what they are at; then they are left to end with the program.
        """
        jobs, ends = self._jobs, self._ends
        self._jobs, self._ends = SimpleQueue(), []  # who comes meanwhile has new ones
        for future, _ in _taken(jobs):
            future.cancel()
        for _ in ends:
            jobs.put(None)
        waiting = [asyncio.wrap_future(end) for end in ends]
        left = (await asyncio.wait(waiting, timeout=seconds))[1] if waiting else ()
        for end in left:
            end.cancel()
        if left:
            log.warning("%s is still at work after %g s and is left behind.", self._name, seconds)

    def _begin(self) -> None:
        for number in range(self._number):
            end: Future[None] = Future()
            name = f"{self._name}-{number}"
            threading.Thread(target=_work, args=(self._jobs, end), name=name, daemon=True).start()
            self._ends.append(end)


def _work(jobs: SimpleQueue[_Job | None], end: Future[None]) -> None:
    """In a thread: one job after the other, until there is None."""
    while (job := jobs.get()) is not None:
        future, work = job
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised where the future is waited for
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        del job, future, work  # nothing is kept while the thread waits
    if end.set_running_or_notify_cancel():
        end.set_result(None)


def _taken(jobs: SimpleQueue[_Job | None]) -> list[_Job]:
    taken: list[_Job] = []
    try:
        while (job := jobs.get_nowait()) is not None:
            taken.append(job)
    except Empty:
        pass
    return taken
