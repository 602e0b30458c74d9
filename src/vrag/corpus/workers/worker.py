"""A process that opens files: one task at a time, which its parent sends it with the file.

A file may crash, hang or take over the library that reads it, so nothing is decoded in the parent, and the
worker gives up all rights that it can before the first file comes (`sandbox.py`): it has that file, Python's
own folders and a pipe. Whatever else it needs, pictures beside the file and files for clips, it asks its
parent for. It ends with its parent, however that ends: end of file on its standard input is the sign.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import pickle
import queue
import signal
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from vrag.corpus.converter import ClipFile, ConversionContext, PrintedDocument, SourceFile
from vrag.corpus.drawing import DrawTask
from vrag.corpus.workers.replies import (
    ClipWanted,
    FileOpened,
    ItemMade,
    NeighbourWanted,
    PrintWanted,
    ReplyFiles,
    TaskDone,
    TaskRejected,
    WorkerFailed,
    WorkerReady,
    encode,
)
from vrag.corpus.workers.requests import GivenFile, Grant, RequestReceiver
from vrag.corpus.workers.sandbox import Protection, SandboxPolicy, protect
from vrag.corpus.workers.timeout_exec import set_processor_limit
from vrag.errors import CorpusError, VragError
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vrag.corpus.converter import OpenFile
    from vrag.corpus.workers.replies import Reply, Wanted
    from vrag.corpus.workers.requests import ReceivedRequest, Task

Result = TypeVar("Result")

FIRST_ITEMS = 2
"""Items made at once by the worker that opens a file: enough for small files, and few enough that the
other workers soon share the rest."""

MAX_MEMORY_BYTES = 6 * 2**30
"""Address space of a worker. Drawing and reading the largest picture allowed takes less than two
thirds of it; addresses are reserved more freely than memory is used."""

READABLE = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/X11/fonts",
    "/usr/share/zoneinfo",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
)
"""Libraries and fonts, which are loaded when they are needed first, and what they read about the machine."""
PACKAGES = ("site-packages", "dist-packages")
"""Names of the folders of installed packages."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The settings that a worker is started with, as JSON on its command line."""

    paths: list[str]
    """Python's search path."""
    modules: list[str] = field(default_factory=list[str])
    """Modules of converters, which are imported before the worker restricts itself."""
    mode: Literal["auto", "on", "off"] = "auto"
    user: str = ""


class OpenFileCache:
    """The file of the last task, kept open since the next task is often about the same."""

    def __init__(self) -> None:
        self._source: SourceFile | None = None
        self._file: OpenFile | None = None

    def open(self, task: Task, context: ConversionContext) -> OpenFile:
        """Return the open file of a task."""
        source, limit = task.source, task.options.max_pages
        if self._file is None or source != self._source:
            self.clear()
            if task.refusal:
                raise CorpusError(task.refusal)
            file = task.converter(source, context)
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


def run(
    task: Task, context: ConversionContext, cache: OpenFileCache
) -> Iterator[FileOpened | Item | TaskRejected]:
    """Run a task. What goes wrong with the file is yielded as `TaskRejected`.

    Raises `VragError` if the cause is not the file.
    """
    file = _attempt(None, lambda: cache.open(task, context))
    if isinstance(file, TaskRejected):
        yield file
        return
    ordinals = task.ordinals
    if ordinals is None:
        missing = (n for n in range(1, file.count + 1) if n not in task.have)
        ordinals = tuple(itertools.islice(missing, FIRST_ITEMS))
    yield FileOpened(file.count, ordinals, b"" if task.notes else file.notes)
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


class ParentLink:
    """The connection of a worker to its parent."""

    def __init__(self, requests: RequestReceiver, replies: BinaryIO) -> None:
        self._requests, self._replies = requests, replies
        self._tasks: queue.SimpleQueue[ReceivedRequest | Exception] = queue.SimpleQueue()
        self._grants: queue.SimpleQueue[ReceivedRequest] = queue.SimpleQueue()
        self.files: dict[str, Any] = {}
        """Fields of `ReplyFiles` of the item that is being made."""

    def listen(self) -> None:
        """Queue the requests that arrive, until the parent is gone."""
        while True:
            try:
                received = self._requests.receive()
            except (EOFError, ConnectionError):
                self.end()
                return
            except (ImportError, AttributeError, pickle.UnpicklingError) as error:
                self._tasks.put(error)
                continue
            if isinstance(received.request, Grant):
                self._grants.put(received)
            else:
                self._tasks.put(received)

    def end(self) -> None:
        """End the process with its parent, even in the midst of a task."""
        os._exit(0)

    def limit_processor(self, seconds: float) -> None:
        """Have the system kill this process, by SIGXCPU, once it has used so much more processor time.

        Processor time, since the time that passes depends on what else the machine does. The limit is in
        whole seconds, rounded up. Windows has none: there the parent watches the clock.
        """
        set_processor_limit(time.process_time() + seconds)

    def next_task(self) -> ReceivedRequest | Exception:
        """Wait for a task, or the error of one that cannot be loaded."""
        return self._tasks.get()

    def send(self, reply: Reply) -> None:
        """Send a reply."""
        self._replies.write(encode(reply))
        self._replies.flush()

    def ask(self, wanted: Wanted) -> GivenFile:
        """Ask for a file and wait for it. Raises the error of the parent if it cannot be had."""
        self.send(wanted)
        received = self._grants.get()
        assert isinstance(received.request, Grant)
        if received.request.error is not None:
            raise received.request.error
        assert received.file is not None
        return received.file


@dataclass(frozen=True, slots=True)
class GivenSource(SourceFile):
    """A source that the parent has opened."""

    file: GivenFile = field(compare=False, kw_only=True)
    link: ParentLink = field(compare=False, kw_only=True)

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open the file at its start."""
        return self.file.open(mode)

    def open_neighbour(self, name: str) -> BinaryIO:
        """Have the parent open a picture in the folder of the file or below."""
        return self.link.ask(NeighbourWanted(name)).take("rb")


@dataclass(frozen=True)
class WorkerContext(ConversionContext):
    """A context whose files are the parent's."""

    link: ParentLink
    known: bytes = b""
    """The notes of the task."""

    def store_picture(self, source: SourceFile, ordinal: int, suffix: str, data: bytes) -> str:
        """Keep the picture until its item is sent."""
        self.link.files |= {"picture": data, "picture_suffix": suffix}
        return f"{source.document[:16]}/{ordinal}{suffix}"

    def store_clip(self, source: SourceFile, ordinal: int, suffix: str, clip: ClipFile) -> str:
        """Note the suffix: the parent has the file."""
        clip.file.flush()
        self.link.files["clip_suffix"] = suffix
        return f"{source.document[:16]}/{ordinal}{suffix}"

    def open_clip(self) -> ClipFile:
        """Have the parent make a file."""
        return ClipFile(self.link.ask(ClipWanted()).take("r+b"))

    def print_source(self, source: SourceFile) -> PrintedDocument:
        """Have the parent print the document."""
        del source
        return PrintedDocument(self.link.ask(PrintWanted("pdf")), self.link.ask(PrintWanted("contents")))

    def notes(self, source: SourceFile) -> bytes:
        """Return what another worker has found out."""
        del source
        return self.known


def main(argument: str) -> None:
    """Serve tasks until the parent is gone. The argument is `WorkerOptions` as JSON."""
    options = WorkerOptions(**json.loads(argument))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    # Libraries look at standard input when they are loaded. Windows has them wait for whoever reads it.
    requests, replies = RequestReceiver(os.dup(0)), os.fdopen(os.dup(1), "wb")
    null, sink = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    link = ParentLink(requests, replies)
    with suppress(BrokenPipeError):
        try:
            for name in options.modules:
                importlib.import_module(name)
        except ImportError as error:
            link.send(WorkerFailed(VragError(f"A converter cannot be loaded: {error}.")))
            return
        protection = Protection() if options.mode == "off" else protect(reading_policy(options.user))
        # The kernel restricts the thread that asks for it and those that it starts.
        threading.Thread(target=link.listen, daemon=True).start()
        link.send(WorkerReady(protection))
        # Drop what libraries print about damaged files; errors at the start were still printed.
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        serve(link)


def _limit_memory() -> None:
    """Limit the memory of this process, where the system can: a hostile file fails rather than fill it."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
    with suppress(ValueError, OSError):  # macOS knows the limit and may refuse to set it
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def reading_policy(user: str) -> SandboxPolicy:
    """Return the rights of a worker: Python and installed packages, libraries and fonts, to read."""
    package = str(Path(__file__).parents[2])
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if Path(path).name in PACKAGES]
    readable = (*READABLE, *folders, f"{sys.base_prefix}/lib", package)
    return SandboxPolicy(readable=tuple(dict.fromkeys(readable)), user=user, needed=(os.__file__, __file__))


def serve(link: ParentLink) -> None:
    """Run the tasks that come."""
    cache = OpenFileCache()
    while True:
        received = link.next_task()
        if isinstance(received, Exception):
            link.send(WorkerFailed(VragError(f"A converter cannot be loaded: {received}.")))
            continue
        task, file = received
        assert not isinstance(task, Grant)
        link.limit_processor(task.page_seconds + task.opening_seconds)
        try:
            for reply in (
                [_attempt(None, task.run)] if isinstance(task, DrawTask) else _run(task, file, link, cache)
            ):
                link.send(reply)
                link.limit_processor(task.page_seconds)
        except VragError as error:
            link.send(WorkerFailed(error))
        link.send(TaskDone())


def _run(task: Task, file: GivenFile | None, link: ParentLink, cache: OpenFileCache) -> Iterator[Reply]:
    """Run a task with the file that came with it; add their files to items."""
    source: dict[str, Any] = {each.name: getattr(task.source, each.name) for each in fields(SourceFile)}
    if file is not None:
        task = replace(task, source=GivenSource(**source, file=file, link=link))
    context = WorkerContext(Path(), task.options, link, task.notes)
    for reply in run(task, context, cache):
        yield ItemMade(reply, ReplyFiles(**link.files)) if isinstance(reply, Item) else reply
        link.files.clear()
