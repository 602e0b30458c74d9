"""A process that opens files: one task at a time, sent by its parent through a pipe.

A file may crash or hang the library that reads it, so nothing is decoded in the parent. The worker
ends with its parent, however that ends: end of file on its standard input is the sign.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import queue
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from vrag.corpus.drawing import BytesNeeded, DrawTask, PartDrawn
from vrag.corpus.workers.timeout_exec import set_processor_limit
from vrag.errors import CorpusError, VragError
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vrag.corpus.converter import ConversionContext, Converter, OpenFile, SourceFile

Result = TypeVar("Result")

FIRST_ITEMS = 2
"""Items made at once by the worker that opens a file: enough for small files, and few enough that the
other workers soon share the rest."""

MAX_MEMORY_BYTES = 6 * 2**30
"""Address space of a worker. Drawing and reading the largest picture allowed takes less than two
thirds of it; addresses are reserved more freely than memory is used."""


@dataclass(frozen=True, slots=True)
class Task:
    """Open a file and make some of its items."""

    converter: Converter
    source: SourceFile
    context: ConversionContext
    ordinals: tuple[int, ...] | None
    """Items to make; None for the first ones that are missing, on opening."""
    have: frozenset[int] = frozenset()
    """Items not to make."""
    opening_seconds: float = 0.0
    """Seconds of processor time that opening the file may take beyond the time limit of a page."""

    @property
    def page_seconds(self) -> float:
        """Time limit of each item, in seconds of processor time."""
        return self.context.options.page_seconds


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The process has started."""


@dataclass(frozen=True, slots=True)
class FileOpened:
    """The file was opened."""

    count: int
    ordinals: tuple[int, ...]
    """Items of this task."""


@dataclass(frozen=True, slots=True)
class TaskRejected:
    """An item or, with None, the whole file cannot be made."""

    ordinal: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The task is over."""


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """Something is wrong that is not the file's fault; no other task will do better."""

    error: VragError


Message = WorkerReady | FileOpened | TaskRejected | TaskDone | WorkerFailed | Item | PartDrawn | BytesNeeded


class OpenFileCache:
    """The file of the last task, kept open since the next task is often about the same."""

    def __init__(self) -> None:
        self._source: SourceFile | None = None
        self._file: OpenFile | None = None

    def open(self, task: Task) -> OpenFile:
        """Return the open file of a task."""
        source, limit = task.source, task.context.options.max_pages
        if self._file is None or source != self._source:
            self.clear()
            status = source.path.stat()
            if (status.st_size, status.st_mtime_ns) != (source.size, source.mtime_ns):
                raise CorpusError("The file changed while it was being added.", "Add it again.")
            if not source.size:
                raise CorpusError("The file is empty.")
            file = task.converter(source, task.context)
            if file.count > limit:
                file.close()
                raise CorpusError(f"The file has more than {limit:,} pages or passages.")
            self._file, self._source = file, source
        return self._file

    def clear(self) -> None:
        """Close the file."""
        file, self._file, self._source = self._file, None, None
        if file is not None:
            file.close()


def run(task: Task, cache: OpenFileCache) -> Iterator[FileOpened | Item | TaskRejected]:
    """Run a task. What goes wrong with the file is yielded as `TaskRejected`.

    Raises `VragError` if the cause is not the file.
    """
    file = _attempt(None, lambda: cache.open(task))
    if isinstance(file, TaskRejected):
        yield file
        return
    ordinals = task.ordinals
    if ordinals is None:
        missing = (n for n in range(1, file.count + 1) if n not in task.have)
        ordinals = tuple(itertools.islice(missing, FIRST_ITEMS))
    yield FileOpened(file.count, ordinals)
    for ordinal in ordinals:
        yield _attempt(ordinal, functools.partial(file.item, ordinal))


def _attempt(ordinal: int | None, action: Callable[[], Result]) -> Result | TaskRejected:
    try:
        return action()
    except (CorpusError, OSError) as error:
        return TaskRejected(ordinal, explain(error))
    except VragError:
        raise
    except Exception as error:  # noqa: BLE001 - hostile bytes make libraries raise anything
        return TaskRejected(ordinal, explain(error))


def explain(error: BaseException) -> str:
    """Describe an error in a sentence for people. Never empty."""
    match error:
        case VragError():
            return str(error)
        case MemoryError():
            return "It takes more memory than is allowed."
        case OSError(strerror=str(reason)):
            return f"It cannot be read: {reason}."
        case _:
            return f"It is damaged ({type(error).__name__}: {error})."


def main() -> None:
    """Serve tasks until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    # Libraries look at standard input when they are loaded. Windows has them wait for whoever reads it.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Task | DrawTask | Exception] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    with suppress(BrokenPipeError):
        _serve(tasks, replies)


def _limit_memory() -> None:
    """Limit the memory of this process, where the system can: a hostile file fails rather than fill it."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
    with suppress(ValueError, OSError):  # macOS knows the limit and may refuse to set it
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _listen(requests: BinaryIO, tasks: queue.SimpleQueue[Task | DrawTask | Exception]) -> None:
    """Queue the tasks that arrive; end the process with its parent, even in the midst of a task."""
    scratch: Path | None = None
    while True:
        try:
            task: Task | DrawTask = pickle.load(requests)  # noqa: S301 - from the parent process
            scratch = task.context.scratch if isinstance(task, Task) else None
            tasks.put(task)
        except EOFError:
            if scratch:  # the parent had no time to; the last worker leaves nothing behind
                shutil.rmtree(scratch, ignore_errors=True)
            os._exit(0)
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            tasks.put(error)


def _serve(tasks: queue.SimpleQueue[Task | DrawTask | Exception], replies: BinaryIO) -> None:
    def send(message: Message) -> None:
        pickle.dump(message, replies, protocol=pickle.HIGHEST_PROTOCOL)
        replies.flush()

    cache = OpenFileCache()
    send(WorkerReady())
    # Drop what libraries print about damaged files; errors at the start were still printed.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    while True:
        task = tasks.get()
        if isinstance(task, Exception):
            send(WorkerFailed(VragError(f"A converter cannot be loaded: {task}.")))
            continue
        _limit_processor(task.page_seconds + task.opening_seconds)
        try:
            for message in [_attempt(None, task.run)] if isinstance(task, DrawTask) else run(task, cache):
                send(message)
                _limit_processor(task.page_seconds)
        except VragError as error:
            send(WorkerFailed(error))
        send(TaskDone())


def _limit_processor(seconds: float) -> None:
    """Have the system kill this process, by SIGXCPU, once it has used so much more processor time.

    Processor time, since the time that passes depends on what else the machine does. The limit is in
    whole seconds, rounded up. Windows has none: there the parent watches the clock.
    """
    set_processor_limit(time.process_time() + seconds)
