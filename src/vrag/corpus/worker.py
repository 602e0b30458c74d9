"""The process in which files are opened: one task at a time, told by its parent through a pipe.

A file may crash or hang the library that reads it, so nothing is decoded in the parent. The worker
ends with its parent, however that ends: end of file on its standard input is the sign.
"""

from __future__ import annotations

import math
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
from typing import TYPE_CHECKING, BinaryIO

from vrag.corpus.timeout_exec import MAX_SECONDS
from vrag.errors import CorpusError, VragError
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vrag.corpus.converter import ConversionContext, Converter, OpenFile, SourceFile

__all__ = ["FileOpened", "Message", "Task", "TaskDone", "TaskRejected", "WorkerFailed", "WorkerReady", "main"]

FIRST = 2
"""Items made at once by the worker that opens a file: enough for small files, and few enough that the
other workers soon share the rest."""

MEMORY = 6 * 2**30
"""Bytes of address space of a worker. Drawing and reading the largest picture allowed takes less than two
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


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The process has started."""


@dataclass(frozen=True, slots=True)
class FileOpened:
    """The file was opened."""

    count: int
    ordinals: tuple[int, ...]
    """What will be made in this task."""


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


Message = WorkerReady | FileOpened | TaskRejected | TaskDone | WorkerFailed | Item


class OpenFileCache:
    """Keeps the file of the last task open, since the next task is often about the same."""

    def __init__(self) -> None:
        self._source: SourceFile | None = None
        self._file: OpenFile | None = None

    def open(self, task: Task) -> OpenFile:
        """The file of a task."""
        if self._file is None or task.source != self._source:
            self.clear()
            self._file = _open(task).__enter__()
            self._source = task.source
        return self._file

    def clear(self) -> None:
        """Closes the file."""
        file, self._file, self._source = self._file, None, None
        if file is not None:
            file.__exit__(None, None, None)


def run(task: Task, bench: OpenFileCache) -> Iterator[FileOpened | Item | TaskRejected]:
    """Does a task. What goes wrong with the file is part of what is yielded.

    Raises:
        VragError: If the cause is not the file.
    """
    try:
        file = bench.open(task)
    except (CorpusError, OSError) as error:
        yield TaskRejected(None, explain(error))
        return
    except VragError:
        raise
    except Exception as error:  # noqa: BLE001 - hostile bytes make libraries raise anything
        yield TaskRejected(None, explain(error))
        return
    ordinals = task.ordinals
    if ordinals is None:
        missing = (n for n in range(1, file.count + 1) if n not in task.have)
        ordinals = tuple(n for n, _ in zip(missing, range(FIRST), strict=False))
    yield FileOpened(file.count, ordinals)
    for ordinal in ordinals:
        yield _make(file, ordinal)


def _make(file: OpenFile, ordinal: int) -> Item | TaskRejected:
    try:
        return file.item(ordinal)
    except (CorpusError, OSError) as error:
        return TaskRejected(ordinal, explain(error))
    except VragError:
        raise
    except Exception as error:  # noqa: BLE001 - hostile bytes make libraries raise anything
        return TaskRejected(ordinal, explain(error))


def _open(task: Task) -> OpenFile:
    source, limit = task.source, task.context.options.max_pages
    status = source.path.stat()
    if (status.st_size, status.st_mtime_ns) != (source.size, source.mtime_ns):
        raise CorpusError("The file changed while it was being added.", "Add it again.")
    if not source.size:
        raise CorpusError("The file is empty.")
    file = task.converter(source, task.context)
    if file.count > limit:
        file.__exit__(None, None, None)
        raise CorpusError(f"The file has more than {limit:,} pages or passages.")
    return file


def explain(error: BaseException) -> str:
    """A sentence for people about an error. Never empty."""
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
    """Serves tasks until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Task | Exception] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tasks), daemon=True).start()
    with suppress(BrokenPipeError):
        _serve(tasks, replies)


def _limit_memory() -> None:
    """Makes what would fill the machine's memory fail instead."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    with suppress(ValueError, OSError):  # macOS knows the limit and may refuse to set it
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _limit_processor(seconds: float) -> None:
    """Have the system kill this process, by SIGXCPU, once it has used so much more processor time.

    Processor time, since the time that passes depends on what else the machine does. The limit is in whole
    seconds, rounded up. Windows has none: there the parent watches the clock.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(min(time.process_time() + seconds, MAX_SECONDS))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _listen(stdin: BinaryIO, tasks: queue.SimpleQueue[Task | Exception]) -> None:
    """Takes tasks in; ends the process with its parent, even in the midst of a task."""
    scratch: Path | None = None
    while True:
        try:
            task: Task = pickle.load(stdin)  # noqa: S301 - from the parent process
            scratch = task.context.scratch
            tasks.put(task)
        except EOFError:
            if scratch:  # the parent had no time to; the last worker leaves nothing behind
                shutil.rmtree(scratch, ignore_errors=True)
            os._exit(0)
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            tasks.put(error)


def _serve(tasks: queue.SimpleQueue[Task | Exception], replies: BinaryIO) -> None:
    bench = OpenFileCache()
    _send(replies, WorkerReady())
    _silence()
    while True:
        task = tasks.get()
        if isinstance(task, Exception):
            _send(replies, WorkerFailed(VragError(f"A converter cannot be loaded: {task}.")))
            continue
        page_seconds = task.context.options.page_seconds
        _limit_processor(page_seconds + task.opening_seconds)
        try:
            for message in run(task, bench):
                _send(replies, message)
                _limit_processor(page_seconds)
        except VragError as error:
            _send(replies, WorkerFailed(error))
        _send(replies, TaskDone())


def _silence() -> None:
    """Drops what libraries print about damaged files; errors at the start are still seen."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _send(replies: BinaryIO, message: Message) -> None:
    pickle.dump(message, replies, protocol=pickle.HIGHEST_PROTOCOL)
    replies.flush()
