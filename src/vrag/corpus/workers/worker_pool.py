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
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Self

from vrag.corpus.drawing import DrawTask
from vrag.corpus.ocr import find_models
from vrag.corpus.workers.file_broker import FileBroker
from vrag.corpus.workers.replies import (
    ClipWanted,
    FileOpened,
    ItemMade,
    NeighbourWanted,
    PrintWanted,
    TaskDone,
    TaskRejected,
    WorkerFailed,
    WorkerReady,
)
from vrag.corpus.workers.reply_reader import Exchange, ReplyError, read_reply
from vrag.corpus.workers.requests import Grant, RequestSender
from vrag.corpus.workers.sandbox import Protection, sandbox_options
from vrag.corpus.workers.timeout_exec import WALL_FACTOR, is_over_limit
from vrag.corpus.workers.worker import WorkerOptions, explain
from vrag.errors import CorpusError, VragError
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from vrag.corpus.converter import Converter
    from vrag.corpus.workers.replies import Message, Reply
    from vrag.corpus.workers.requests import Task

START_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])["paths"]
from vrag.corpus.workers.worker import main
main(sys.argv[1])
"""
START_SECONDS = 120.0
GRACE_SECONDS = 0.1
POLL_SECONDS = 1.0
"""Time between two looks at the clock at most. On Windows, Ctrl-C has an effect only between two."""
_LIMITS_PROCESSOR = sys.platform != "win32"
"""True if workers limit their own processor time; otherwise (Windows) the parent applies the limit to
wall-clock time."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The processes are the parallelism."""
INHERITED = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TMP", "TEMP"}
)
"""Variables that workers get, besides those of Python and of the language: no keys, and nothing of others."""


@contextmanager
def block_interrupts() -> Generator[None]:
    """Block Ctrl-C in this thread and in the processes that it starts; here it has its effect at the end."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker crashed, or was killed at its time limit."""

    reason: str
    """The reason the item in progress failed, for people."""


class Worker:
    """One process and its current task."""

    def __init__(
        self,
        events: queue.Queue[tuple[Worker, Message | WorkerDied]],
        broker: FileBroker | None = None,
        modules: Iterable[str] = (),
    ) -> None:
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
        self.protection = Protection()
        """Restrictions of the process, once it has started."""
        self._broker = broker
        self._exchange: Exchange | None = None
        self._is_ready = False
        """True once it has restricted itself: from then on it is not believed."""
        self._clip: BinaryIO | None = None
        self._requests = RequestSender()
        sandbox = sandbox_options()
        options = WorkerOptions(sys.path, [*modules], sandbox.mode, sandbox.user)
        with block_interrupts():  # which the process inherits: Ctrl-C is for its parent
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-P", "-c", START_CODE, json.dumps(asdict(options))],
                stdin=self._requests.stdin,
                stdout=subprocess.PIPE,
                env=_environment() | ONE_THREAD,
            )
        self._requests.attach(self._process)
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    def submit(self, task: Task | DrawTask) -> None:
        """Send a task, with its file."""
        self.task = task
        self.opened = False
        self.ordinals = deque(task.ordinals or ())
        if self.started:
            self._reset_deadline()
        file: BinaryIO | None = None
        if not isinstance(task, DrawTask):
            try:
                file = FileBroker.open_source(task)
            except (CorpusError, OSError, ValueError) as error:
                task = replace(task, refusal=explain(error))
        self._exchange = Exchange(task)
        try:
            with suppress(
                OSError
            ):  # its death is on the way as an event; Windows has EINVAL for a broken pipe
                self._requests.send(task, file)
        finally:
            if file is not None:
                file.close()

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
        with suppress(OSError):
            self._requests.close()
        for file in (self._process.stdout, self._clip):
            if file is not None:
                file.close()

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
        """Forward the replies of the process and give it files, on a thread of its own."""
        assert self._process.stdout is not None
        fault = ""
        try:
            while True:
                message = self._handle(
                    read_reply(self._process.stdout, self._exchange and self._exchange.task)
                )
                if message is not None:
                    events.put((self, message))
        except ReplyError as error:
            fault = f"The process that reads it has sent {error.message}: the file may be hostile."
        except VragError as error:
            events.put((self, WorkerFailed(error)))
            fault = str(error)
        except (EOFError, OSError):
            pass
        self._process.kill()
        status = self._process.wait()
        reason = "It crashed the library that reads it."
        if fault:
            reason = fault
        elif is_over_limit(status):
            reason = f"It took longer than the time limit of {self.seconds:g} seconds of processor time."
        elif self.late:
            reason = f"It took longer than the time limit of {self._wall_seconds:g} seconds."
        events.put((self, WorkerDied(reason)))

    def _handle(self, reply: Reply) -> Message | None:
        """Check a reply, store what it brings and give what it asks for. Returns the message for the pool.

        Raises `ReplyError` if the reply may not come, and another `VragError` if something is wrong that is
        not the file's fault.
        """
        exchange = self._exchange
        if isinstance(reply, WorkerReady):
            return self._check_ready(reply)
        if isinstance(reply, WorkerFailed):
            self._check_failure(reply)
        if exchange is None:
            raise ReplyError(f"{type(reply).__name__} without a task")
        exchange.accept(reply)
        match reply:
            case NeighbourWanted() | PrintWanted() | ClipWanted():
                self._give(reply, exchange.task)
                return None
            case ItemMade():
                task, broker = exchange.task, self._broker
                assert broker is not None
                assert not isinstance(task, DrawTask)
                return broker.store(reply, self._clip, task.source.size)
            case _:
                return reply

    def _check_ready(self, reply: WorkerReady) -> WorkerReady:
        if self._is_ready:
            raise ReplyError("a second ready message")
        self.protection, self._is_ready = reply.protection, True
        if sandbox_options().mode == "on" and not reply.protection.is_complete:
            raise VragError(
                f"No file is read without a complete sandbox. {' '.join(reply.protection.missing)}",
                "See vrag doctor; to read them all the same: VRAG_SANDBOX=auto",
            )
        return reply

    def _check_failure(self, reply: WorkerFailed) -> None:
        """Raise the error of a worker that has read nothing yet, or one that is found here as well."""
        if not self._is_ready:
            raise reply.error
        find_models()
        if self._broker is not None:
            self._broker.check_disk()
        raise ReplyError(f"an error that is not one here ({reply.error.message[:200]})")

    def _give(self, wanted: NeighbourWanted | PrintWanted | ClipWanted, task: Task | DrawTask) -> None:
        """Give the process a file, or the error why it cannot be had."""
        if self._broker is None or isinstance(task, DrawTask):
            raise ReplyError(f"{type(wanted).__name__}, for which there are no files")
        if isinstance(wanted, ClipWanted):
            if self._clip is None:
                self._clip = self._broker.open_clip()
            self._clip.truncate(0)
            self._requests.send(Grant(), self._clip)
            return
        try:
            file = self._broker.open_wanted(wanted, task, lambda: self.alive)
        except (CorpusError, OSError, ValueError) as error:
            self._requests.send(Grant(error))
            return
        with file:
            self._requests.send(Grant(), file)


def _environment() -> dict[str, str]:
    """Return the environment of a worker."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() in INHERITED or name.startswith(("PYTHON", "LC_", "COVERAGE_"))
    }


class WorkerPool:
    """Up to `size` workers. A context manager; on leaving, all are killed and waited for."""

    def __init__(self, size: int, items_dir: Path, converters: Iterable[Converter] = ()) -> None:
        self.size = size
        self._broker = FileBroker(items_dir)
        self._modules = sorted({converter.__module__ for converter in converters})
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
            worker = Worker(self._events, self._broker, self._modules)
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
            if isinstance(message, WorkerFailed):
                raise message.error
            worker.update(message)
            if isinstance(message, WorkerDied):
                self._workers.remove(worker)
                worker.join()
                if not worker.started:
                    raise VragError("A process to convert files cannot be started.", "See the message above.")
            if task is not None and not isinstance(message, WorkerReady):
                return task, message, tuple(worker.ordinals)

    def forget(self, document: str) -> None:
        """Drop what is kept of a document for its workers."""
        self._broker.forget(document)

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
        self._broker.close()
