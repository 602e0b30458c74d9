"""A pool of worker processes: started, given tasks, watched, replaced, stopped.

Why not a pool from a library: multiprocessing and what rests on it (pebble, concurrent.futures) run
the user's main script again in every worker, which never ends well when that script has no
`if __name__ == "__main__"`; and they report a task only when it is over. These workers report each
page, so that a crash or a hang costs the one page it happened on and nothing is done twice.

Time limits count processor time, and each worker has the system enforce them: on a busy machine a page
takes longer but uses no more CPU time. A blocked worker uses none, so the parent also limits wall-clock
time, far more generously.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vrag.corpus.drawing import DrawTask
from vrag.corpus.workers.timeout_exec import WALL_FACTOR, is_over_limit
from vrag.corpus.workers.worker import FileOpened, TaskDone, TaskRejected, WorkerReady
from vrag.errors import VragError
from vrag.types import Item

if TYPE_CHECKING:
    from vrag.corpus.workers.worker import Message, Task

START_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from vrag.corpus.workers.worker import main; main()"
START_SECONDS = 120.0
GRACE_SECONDS = 0.1
POLL_SECONDS = 1.0
"""Time between two looks at the clock at most. On Windows, Ctrl-C has an effect only between two."""
_LIMITS_PROCESSOR = sys.platform != "win32"
"""True if workers limit their own processor time; otherwise (Windows) the parent applies the limit to
wall-clock time."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The processes are the parallelism."""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker crashed, or was killed at its time limit."""

    reason: str
    """The reason the item in progress failed, for people."""


class Worker:
    """One process and its current task."""

    def __init__(self, events: queue.Queue[tuple[Worker, Message | WorkerDied]]) -> None:
        self.task: Task | DrawTask | None = None
        self.ordinals: deque[int] = deque()
        """Items of the task still to come; the first is in progress."""
        self.opened = False
        """True if the file of the task is open."""
        self.deadline = time.monotonic() + START_SECONDS
        """Time at which it is killed unless a message comes before, on the monotonic clock."""
        self.seconds = START_SECONDS
        """Processor seconds that it may use until its next message."""
        self.started = False
        self.late = False
        self._process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-P", "-c", START_CODE, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
        )
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    def submit(self, task: Task | DrawTask) -> None:
        """Send a task."""
        assert self._process.stdin is not None
        self.task = task
        self.opened = False
        self.ordinals = deque(task.ordinals or ())
        if self.started:
            self._reset_deadline()
        with suppress(OSError):  # its death is on the way as an event; Windows has EINVAL for a broken pipe
            pickle.dump(task, self._process.stdin)
            self._process.stdin.flush()

    def update(self, message: Message | WorkerDied) -> None:
        """Record the progress of the task."""
        match message:
            case WorkerReady():
                self.started = True
            case FileOpened():
                self.opened = True
                self.ordinals = deque(message.ordinals)
            case Item() | TaskRejected(ordinal=int()):
                self.ordinals.popleft()
            case TaskDone() | WorkerDied():
                self.task = None
            case _:
                pass
        self._reset_deadline()

    def kill(self) -> None:
        """End the process at once; the event `WorkerDied` follows."""
        self.late = time.monotonic() >= self.deadline
        self._process.kill()

    def join(self) -> None:
        """Wait for the end of a process that was killed or died, and of its listener."""
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    @property
    def alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    @property
    def silent(self) -> bool:
        """True if no more messages will come."""
        return not self._listener.is_alive()

    def _reset_deadline(self) -> None:
        self.seconds = math.inf
        if self.task:
            self.seconds = self.task.page_seconds + (0.0 if self.opened else self.task.opening_seconds)
        self.deadline = time.monotonic() + self._wall_seconds

    @property
    def _wall_seconds(self) -> float:
        """Seconds until its next message at most; beyond, it is blocked and killed."""
        return self.seconds * (WALL_FACTOR if _LIMITS_PROCESSOR else 1.0)

    def _listen(self, events: queue.Queue[tuple[Worker, Message | WorkerDied]]) -> None:
        """Forward the messages of the process, on a thread of its own."""
        assert self._process.stdout is not None
        try:
            while True:
                events.put((self, pickle.load(self._process.stdout)))  # noqa: S301 - our own process
        except (EOFError, pickle.UnpicklingError, OSError):
            self._process.kill()
            status = self._process.wait()
        reason = "It crashed the library that reads it."
        if is_over_limit(status):
            reason = f"It took longer than the time limit of {self.seconds:g} seconds of processor time."
        elif self.late:
            reason = f"It took longer than the time limit of {self._wall_seconds:g} seconds."
        events.put((self, WorkerDied(reason)))


class WorkerPool:
    """Up to `size` workers. A context manager; on leaving, all are killed and waited for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._events: queue.Queue[tuple[Worker, Message | WorkerDied]] = queue.Queue(4 * size)
        self._workers: list[Worker] = []

    @property
    def free(self) -> int:
        """The number of tasks that the pool takes now."""
        return self.size - sum(worker.task is not None for worker in self._workers)

    @property
    def idle(self) -> bool:
        """True if no task is in progress."""
        return all(worker.task is None for worker in self._workers)

    def submit(self, task: Task) -> None:
        """Send a task to an idle worker; start one if there is none."""
        worker = next((worker for worker in self._workers if worker.task is None), None)
        if worker is None:
            worker = Worker(self._events)
            self._workers.append(worker)
        worker.submit(task)

    def receive(
        self, seconds: float | None = None
    ) -> tuple[Task, Message | WorkerDied, tuple[int, ...]] | None:
        """Wait for the next message of a task, of which one must be in progress.

        Returns the task, the message, and the items of the task that are still to come; None if no event
        comes for so many seconds. Raises `VragError` if workers cannot be started.
        """
        while True:
            event = self._next_event(seconds)
            if event is None:
                return None
            worker, message = event
            task = worker.task
            assert not isinstance(task, DrawTask)
            worker.update(message)
            if isinstance(message, WorkerDied):
                self._workers.remove(worker)
                worker.join()
                if not worker.started:
                    raise VragError("A process to convert files cannot be started.", "See the message above.")
            if task is not None and not isinstance(message, WorkerReady):
                return task, message, tuple(worker.ordinals)

    def _next_event(self, most: float | None) -> tuple[Worker, Message | WorkerDied] | None:
        """Wait for an event, `most` seconds at most; kill workers beyond their time limit meanwhile."""
        while True:
            seconds = min(worker.deadline for worker in self._workers) - time.monotonic()
            try:
                # Even when a limit has passed, messages sent before must have time to come in: the caller
                # may not have asked for events for long.
                return self._events.get(timeout=min(max(seconds, GRACE_SECONDS), most or POLL_SECONDS))
            except queue.Empty:
                for worker in self._workers:
                    if worker.deadline <= time.monotonic():
                        worker.kill()
                if most is not None:
                    return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
        while not all(worker.silent for worker in self._workers):
            with suppress(queue.Empty):
                self._events.get(timeout=0.02)
        for worker in self._workers:
            worker.join()
        self._workers.clear()
