"""Worker processes, seen from the parent: started, given tasks, watched, replaced, stopped.

Why not a pool from a library: multiprocessing and what rests on it (pebble, concurrent.futures) run
the user's main script again in every worker, which never ends well when that script has no
`if __name__ == "__main__"`; and they report a task only when it is over. These workers report each
page, so that a crash or a hang costs the one page it happened on and nothing is done twice.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vrag.corpus.worker import Done, Opened, Ready, Refused
from vrag.errors import VragError
from vrag.types import Item

if TYPE_CHECKING:
    from vrag.corpus.worker import Message, Task

__all__ = ["Crew", "Lost", "Worker"]

START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from vrag.corpus.worker import main; main()"
START_SECONDS = 120.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The processes are the parallelism."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker died, or was killed at its time limit."""

    late: bool
    """Whether it was killed at its time limit."""


class Worker:
    """One process, and what it is at."""

    def __init__(self, events: queue.Queue[tuple[Worker, Message | Lost]]) -> None:
        self.task: Task | None = None
        self.ordinals: deque[int] = deque()
        """Items of the task still to come; the first is the one in work."""
        self.opened = False
        """Whether the task has come past opening its file."""
        self.deadline = time.monotonic() + START_SECONDS
        self.late = False
        self._process = subprocess.Popen(
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
        self.rearm()
        try:
            pickle.dump(task, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its death is on the way as an event

    def rearm(self) -> None:
        """Sets the time limit for the next sign of life."""
        assert self.task is not None
        self.deadline = time.monotonic() + self.task.desk.options.page_seconds

    def note(self, message: Message | Lost) -> None:
        """Keeps track of how far the task has come."""
        match message:
            case Opened():
                self.opened = True
                self.ordinals = deque(message.ordinals)
            case Item() | Refused(ordinal=int()):
                self.ordinals.popleft()
            case Done():
                self.task = None
            case _:
                return
        if self.task:
            self.rearm()

    def kill(self) -> None:
        """Ends the process at once; the event `Lost` follows."""
        self._process.kill()

    def bury(self) -> None:
        """Waits for the end of a process that was killed or died."""
        self._process.wait()
        self._ear.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _listen(self, events: queue.Queue[tuple[Worker, Message | Lost]]) -> None:
        """Passes on what the process says, on a thread of its own."""
        assert self._process.stdout is not None
        try:
            while True:
                events.put((self, pickle.load(self._process.stdout)))  # noqa: S301 - our own process
        except (EOFError, pickle.UnpicklingError, OSError):
            self._process.kill()
            events.put((self, Lost(self.late)))

    @property
    def deaf(self) -> bool:
        """Whether nothing more will be heard of it."""
        return not self._ear.is_alive()


class Crew:
    """Up to `size` workers. A context manager; on leaving, all are killed and waited for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: queue.Queue[tuple[Worker, Message | Lost]] = queue.Queue(4 * size)
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []

    @property
    def free(self) -> bool:
        """Whether a task can be given."""
        return bool(self._idle) or len(self._workers) < self._size

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return len(self._idle) < len(self._workers)

    def give(self, task: Task) -> None:
        """Gives a task to a free worker, which is started if need be."""
        if not self._idle:
            self._workers.append(Worker(self._events))
            self._idle.append(self._workers[-1])
        self._idle.pop().give(task)

    def next(self) -> tuple[Worker, Task, Message | Lost]:
        """Waits for the next event of a task, while any is under way.

        Raises:
            VragError: If a worker cannot be started.
        """
        while True:
            worker, message = self._next_event()
            task = worker.task
            assert task is not None
            if isinstance(message, Ready):
                worker.rearm()
                worker.started = True
                continue
            if isinstance(message, Lost):
                self._remove(worker)
            ...
