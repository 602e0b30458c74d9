"""Worker processes, seen from the parent: started, given tasks, watched, replaced, stopped.

Why not a pool from a library: multiprocessing and what rests on it (pebble, concurrent.futures) run
the user's main script again in every worker, which never ends well when that script has no
`if __name__ == "__main__"`; and they report a task only when it is over. These workers report each
page, so that a crash or a hang costs the one page it happened on and nothing is done twice.

Time limits count processor time, and each worker has the system enforce them: on a busy machine a page
takes longer, and not more of it. What is blocked uses none, so the parent bounds the time that passes as
well, far more generously.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vrag.corpus.timeout_exec import WALL_FACTOR
from vrag.corpus.worker import FileOpened, TaskDone, TaskRejected, WorkerReady
from vrag.errors import VragError
from vrag.types import Item

if TYPE_CHECKING:
    from vrag.corpus.worker import Message, Task

__all__ = ["Worker", "WorkerDied", "WorkerPool"]

START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from vrag.corpus.worker import main; main()"
START_SECONDS = 120.0
GRACE_SECONDS = 0.1
_LIMITS_PROCESSOR = sys.platform != "win32"
"""Whether workers limit their own processor time; else the parent takes the time that passes for it."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The processes are the parallelism."""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker died, or was killed at its time limit."""

    late: bool
    """Whether it was killed at its time limit."""
    seconds: float = 0.0
    """That time limit."""
    processor: bool = False
    """Whether the limit is one of processor time, and not of the time that passed."""


class Worker:
    """One process, and what it is at."""

    def __init__(self, events: queue.Queue[tuple[Worker, Message | WorkerDied]]) -> None:
        self.task: Task | None = None
        self.ordinals: deque[int] = deque()
        """Items of the task still to come; the first is the one in work."""
        self.opened = False
        """Whether the task has come past opening its file."""
        self.deadline = time.monotonic() + START_SECONDS
        """When it is killed unless a message comes before, on the monotonic clock."""
        self.seconds = START_SECONDS
        """Processor seconds that it may use until its next message."""
        self.started = False
        self.late = False
        self._process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-P", "-c", START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
        )
        self._ear = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._ear.start()

    def give(self, task: Task) -> None:
        """Sends a task."""
        assert self._process.stdin is not None
        self.task = task
        self.opened = False
        self.ordinals = deque(task.ordinals or ())
        if self.started:
            self._rearm()
        with suppress(BrokenPipeError):  # its death is on the way as an event
            pickle.dump(task, self._process.stdin)
            self._process.stdin.flush()

    def note(self, message: Message | WorkerDied) -> None:
        """Keeps track of how far the task has come."""
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
        self._rearm()

    def kill(self) -> None:
        """Ends the process at once; the event `WorkerDied` follows."""
        self.late = time.monotonic() >= self.deadline
        self._process.kill()

    def bury(self) -> None:
        """Waits for the end of a process that was killed or died, and of its listener."""
        self._process.wait()
        self._ear.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    @property
    def silent(self) -> bool:
        """Whether nothing more will be heard of it."""
        return not self._ear.is_alive()

    def _rearm(self) -> None:
        """Sets the time limit for the next sign of life."""
        self.seconds = math.inf
        if self.task:
            opening = 0.0 if self.opened else self.task.opening_seconds
            self.seconds = self.task.context.options.page_seconds + opening
        self.deadline = time.monotonic() + self._wall_seconds

    @property
    def _wall_seconds(self) -> float:
        """Seconds until its next message at most; beyond, it is blocked and killed."""
        return self.seconds * (WALL_FACTOR if _LIMITS_PROCESSOR else 1.0)

    def _listen(self, events: queue.Queue[tuple[Worker, Message | WorkerDied]]) -> None:
        """Passes on what the process says, on a thread of its own."""
        assert self._process.stdout is not None
        try:
            while True:
                events.put((self, pickle.load(self._process.stdout)))  # noqa: S301 - our own process
        except (EOFError, pickle.UnpicklingError, OSError):
            self._process.kill()
            events.put((self, self._lost(self._process.wait())))

    def _lost(self, status: int) -> WorkerDied:
        """Why the process ended, by its exit status."""
        if _LIMITS_PROCESSOR and status == -signal.SIGXCPU:
            return WorkerDied(late=True, seconds=self.seconds, processor=True)
        return WorkerDied(self.late, self._wall_seconds)


class WorkerPool:
    """Up to `size` workers. A context manager; on leaving, all are killed and waited for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: queue.Queue[tuple[Worker, Message | WorkerDied]] = queue.Queue(4 * size)
        self._workers: list[Worker] = []

    @property
    def free(self) -> bool:
        """Whether another task can be given."""
        return len(self._busy) < self._size

    @property
    def idle(self) -> bool:
        """Whether no task is under way."""
        return not self._busy

    def give(self, task: Task) -> None:
        """Gives a task to a worker without one, which is started if need be."""
        worker = next((w for w in self._workers if w.task is None), None)
        if worker is None:
            worker = Worker(self._events)
            self._workers.append(worker)
        worker.give(task)

    def hear(self) -> tuple[Task, Message | WorkerDied, tuple[int, ...]]:
        """Waits for the next event of a task; one must be under way.

        Returns:
            The task, what happened, and the items of the task that are still to come.

        Raises:
            VragError: If workers cannot be started.
        """
        while True:
            worker, message = self._next()
            task = worker.task
            worker.note(message)
            if isinstance(message, WorkerDied):
                self._remove(worker)
            if task is not None and not isinstance(message, WorkerReady):
                return task, message, tuple(worker.ordinals)

    @property
    def _busy(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.task is not None]

    def _next(self) -> tuple[Worker, Message | WorkerDied]:
        """The next event; kills workers beyond their time limit while waiting."""
        while True:
            wait = min(worker.deadline for worker in self._workers) - time.monotonic()
            try:
                # Even when a limit has passed, what was said before must have time to come in: the
                # one who asks for events may have been away for long.
                return self._events.get(timeout=min(max(wait, GRACE_SECONDS), 3600.0))
            except queue.Empty:
                for worker in self._workers:
                    if worker.deadline <= time.monotonic():
                        worker.kill()

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.bury()
        if not worker.started:
            raise VragError("A process to convert files cannot be started.", "See the message above.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
        while not all(worker.silent for worker in self._workers):
            with suppress(queue.Empty):
                self._events.get(timeout=0.02)
        for worker in self._workers:
            worker.bury()
        self._workers.clear()
