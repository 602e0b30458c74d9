"""Processes that draw parts of pages, shared by the threads of this process.

They start when the first part is wanted, in a tenth of a second, and stay. A page that crashes its process or
takes too long is not drawn again: whoever asks shows the stored picture.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from cachetools import LRUCache

from vrag.corpus.drawing import BytesNeeded, DrawTask, PartDrawn
from vrag.corpus.workers.replies import TaskDone, TaskRejected, WorkerFailed, WorkerReady
from vrag.corpus.workers.worker_pool import GRACE_SECONDS, Worker, WorkerDied
from vrag.errors import VragError

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image

    from vrag.corpus.workers.replies import Message
    from vrag.corpus.workers.sandbox import Protection
    from vrag.geometry import View

PROCESSES = 2
DRAW_SECONDS = 5.0
"""Time limit of a part in seconds of processor time: ordinary ones take hundredths of one."""
FAILED_PAGES = 4096
"""Pages that could not be drawn and are not tried again."""

log = logging.getLogger(__name__)


class DrawingPool:
    """Up to `size` processes that draw. May be shared by threads; `close` ends the processes."""

    def __init__(self, size: int = PROCESSES, seconds: float = DRAW_SECONDS) -> None:
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[DrawingProcess] = []
        self._failed: LRUCache[tuple[str, int], str] = LRUCache(FAILED_PAGES)
        self._lock = threading.Lock()
        """Lock of the list and the cache."""

    def draw(self, document: str, ordinal: int, view: View, read: Callable[[], bytes | None]) -> Image | None:
        """Draw a part of a page of a PDF file, RGB, on the canvas of the view; None if that fails.

        Args:
            document: Id of the document: the SHA-256 of its bytes.
            ordinal: Number of the page, from 1.
            view: The part, in pixels of the stored picture, and the size to draw it in.
            read: Returns the bytes of the document, or None. Called if no process has the file open.
        """
        from PIL import Image

        page = document, ordinal
        with self._lock:
            if page in self._failed:
                return None
        reply = self._run(DrawTask(document, ordinal, view, self._seconds), read)
        if isinstance(reply, PartDrawn) and reply.size == view.canvas:
            return Image.frombytes("RGB", reply.size, reply.pixels)
        if isinstance(reply, TaskRejected | WorkerDied):
            log.warning("Page %d of document %.16s is shown as stored: %s", ordinal, document, reply.reason)
            with self._lock:
                self._failed[page] = reply.reason
        return None

    def close(self) -> None:
        """End the processes that do not draw. Others may be started afterwards."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _run(self, task: DrawTask, read: Callable[[], bytes | None]) -> Message | WorkerDied | None:
        with self._free:
            try:
                process = self._take_idle() or DrawingProcess()
            except OSError as error:
                log.warning("No process to draw parts of pages can be started: %s", error)
                return None
            try:
                reply = process.run(task)
                if isinstance(reply, BytesNeeded):
                    data = read()
                    reply = process.run(replace(task, data=data)) if data is not None else None
            except BaseException:  # interrupted, perhaps in the midst of a task
                process.close()
                raise
            with self._lock:
                self._idle.append(process)
            return reply

    def _take_idle(self) -> DrawingProcess | None:
        """Return a process that waits, without those that ended: at their last task, or while they waited."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                process.close()
        return None


class DrawingProcess:
    """One process, for one thread at a time."""

    def __init__(self) -> None:
        self._events: queue.Queue[tuple[Worker, Message | WorkerDied]] = queue.Queue()
        self._worker = Worker(self._events)

    @property
    def alive(self) -> bool:
        """True if the process has not ended."""
        return self._worker.alive

    def wait_until_ready(self) -> Protection:
        """Wait for the process to start, and return its restrictions. Raises `VragError` if it does not."""
        message = self._next_message()
        self._worker.update(message)
        match message:
            case WorkerReady(protection):
                return protection
            case WorkerFailed(error):
                raise error
            case _:
                raise VragError("A process to read files cannot be started.", "See the message above.")

    def run(self, task: DrawTask) -> Message | WorkerDied | None:
        """Run a task and return what came of it; after `WorkerDied` the process has ended."""
        self._worker.submit(task)
        reply: Message | None = None
        while True:
            message = self._next_message()
            self._worker.update(message)
            match message:
                case WorkerDied():
                    return message
                case TaskDone():
                    return reply
                case WorkerReady():
                    pass
                case _:
                    reply = message

    def close(self) -> None:
        """End the process."""
        self._worker.kill()
        self._worker.join()

    def _next_message(self) -> Message | WorkerDied:
        """Wait for the next message; kill the process beyond its time limit."""
        while True:
            seconds = self._worker.deadline - time.monotonic()
            try:
                return self._events.get(timeout=max(seconds, GRACE_SECONDS))[1]
            except queue.Empty:
                self._worker.kill()


def shared_pool() -> DrawingPool:
    """Return the pool of this process."""
    return _pool_of(os.getpid())


@lru_cache(maxsize=1)
def _pool_of(process: int) -> DrawingPool:  # noqa: ARG001 - processes that were forked have none
    pool = DrawingPool()
    atexit.register(pool.close)
    return pool
