"""Conversion of files to items, in parallel processes."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.corpus.converter import (
    Conversion,
    Converted,
    Converter,
    Failed,
    Finished,
    ItemCount,
    Slow,
    SourceFile,
)
from vrag.corpus.formats.html import SUFFIXES as HTML
from vrag.corpus.formats.html import HtmlFile
from vrag.corpus.formats.image import HEIF_SUFFIXES, ImageFile
from vrag.corpus.formats.image import SUFFIXES as IMAGE
from vrag.corpus.formats.office import INSTALL, OfficeFile, find_soffice
from vrag.corpus.formats.office import SUFFIXES as OFFICE
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.text import SUFFIXES as TEXT
from vrag.corpus.formats.text import TextFile
from vrag.corpus.formats.texts.epub import SUFFIXES as EPUB
from vrag.corpus.formats.texts.epub import EpubFile
from vrag.corpus.formats.texts.mail import SUFFIXES as MAIL
from vrag.corpus.formats.texts.mail import MailFile
from vrag.corpus.formats.video import SUFFIXES as VIDEO
from vrag.corpus.formats.video import VideoFile
from vrag.corpus.workers.replies import FileOpened, TaskRejected
from vrag.corpus.workers.requests import Task
from vrag.corpus.workers.worker_pool import WorkerDied, WorkerPool
from vrag.errors import UnsupportedFormatError
from vrag.scratch import remove_abandoned
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.corpus.converter import CorpusOptions
    from vrag.corpus.workers.replies import Message

MAX_TASK_ITEMS = 8
SMALLER = 0.5
"""Share of the bytes left of other files below which a live one is much smaller."""
SHORT_ITEMS, SHORT_BYTES = 8, 1024 * 1024
"""Items left, and bytes of a file that is not open, up to which it does not take long."""
_POLL_SECONDS = 0.2
"""Time after which live sources are asked again whether more have come."""

CONVERTERS: Mapping[str, Converter] = {
    ".pdf": PdfFile,
    **dict.fromkeys(IMAGE, ImageFile),
    **dict.fromkeys(HEIF_SUFFIXES, ImageFile),
    **dict.fromkeys(TEXT, TextFile),
    **dict.fromkeys(HTML, HtmlFile),
    **dict.fromkeys(MAIL, MailFile),
    **dict.fromkeys(EPUB, EpubFile),
    **dict.fromkeys(OFFICE, OfficeFile),
    **dict.fromkeys(VIDEO, VideoFile),
}
"""Suffix in lower case → converter."""
PASSAGE_SUFFIXES = (*TEXT, *HTML, *MAIL, *EPUB)
"""Suffixes in lower case of files that become passages."""


@dataclass(frozen=True, slots=True)
class MissingSoftware:
    """Software without which some files cannot be read."""

    name: str
    suffixes: tuple[str, ...]
    """Of these files, in lower case."""
    install: str
    """How to install it, for whoever runs this program."""


def find_missing_software() -> tuple[MissingSoftware, ...]:
    """Find what is not installed and some files need."""
    missing: list[MissingSoftware] = []
    try:
        find_soffice()
    except UnsupportedFormatError:
        missing.append(MissingSoftware("LibreOffice", OFFICE, INSTALL))
    if importlib.util.find_spec("av") is None:
        missing.append(MissingSoftware("PyAV", VIDEO, "pip install 'vrag-agent[video]'"))
    if importlib.util.find_spec("pillow_heif") is None:
        missing.append(MissingSoftware("pillow-heif", HEIF_SUFFIXES, "pip install 'vrag-agent[heic]'"))
    return tuple(missing)


def convert_all(
    sources: Iterable[SourceFile],
    items_dir: Path,
    options: CorpusOptions,
    have: Callable[[SourceFile], Collection[int]] = lambda _: (),
    converters: Mapping[str, Converter] = CONVERTERS,
    *,
    live: bool = False,
) -> Generator[Conversion, None, None]:
    """Convert files to items in `options.processes` worker processes.

    Results come as they are made: for one source `ItemCount` first and `Finished` last, pages in any
    order; sources interleave. Memory does not grow with the number of files or pages. A page that
    takes more processor time than `options.page_seconds`, is blocked for ten times as long, or crashes its
    process costs that page. Closing the generator kills the workers; so does the end of this process, however
    it ends.

    Sources are taken one by one as workers become free. Images are stored in `items_dir` as `<first 16 digits
    of document>/<ordinal>.<suffix>`; `have` returns ordinals that need not be made, and is asked once per
    source; `converters` are by suffix in lower case.

    `live` sources may grow: they are an iterator that is asked again, several times a second, after it has
    ended, until no file is open. A file of which fewer bytes are left to read is read first, from the next
    page on; and of several workers, one is kept for files that are short, or much smaller than those being
    read. So a small file does not wait for a large one.

    Raises `CollectionError` if images cannot be stored, and `VragError` if no process can be started.
    """
    remove_abandoned()
    with WorkerPool(options.processes, items_dir.absolute(), converters.values()) as pool:
        yield from _Scheduler(sources, options, have, converters, live=live).run(pool)


@dataclass(slots=True)
class _ConversionJob:
    """The progress of one source."""

    source: SourceFile
    converter: Converter
    have: frozenset[int] = frozenset()
    begun: bool = False
    """True once a worker was told to open it."""
    opening: bool = True
    """True while its items are not counted."""
    items: int = 0
    todo: list[int] = field(default_factory=list[int])
    """Items not yet assigned to a worker, in descending order."""
    tasks: int = 0
    """Tasks in progress."""
    notes: bytes = b""
    """Facts that the worker which opened it has found out, for the others."""

    @property
    def done(self) -> bool:
        return not self.opening and not self.todo and not self.tasks

    @property
    def waits(self) -> bool:
        """True if it has something for a worker to do."""
        return bool(self.todo) or not self.begun

    @property
    def opens_slowly(self) -> bool:
        """True if it is not open, and to open it takes long."""
        return self.opening and isinstance(self.converter, Slow)

    @property
    def is_short(self) -> bool:
        """True if it is soon done, or at least soon open."""
        if self.items:
            return len(self.todo) <= SHORT_ITEMS
        return self.source.size <= SHORT_BYTES and not isinstance(self.converter, Slow)

    @property
    def remaining_bytes(self) -> float:
        """Its share of the file's bytes that no worker has taken: an estimate of the work that is left."""
        return self.source.size * len(self.todo) / self.items if self.items else self.source.size

    @property
    def unfinished_bytes(self) -> float:
        """The same with what workers have taken."""
        share = (len(self.todo) + self.tasks) / self.items if self.items else 1.0
        return self.source.size * share


class _Scheduler:
    """A scheduler that assigns tasks to workers and turns their messages into conversions."""

    def __init__(
        self,
        sources: Iterable[SourceFile],
        options: CorpusOptions,
        have: Callable[[SourceFile], Collection[int]],
        converters: Mapping[str, Converter],
        *,
        live: bool,
    ) -> None:
        self._sources, self._options = iter(sources), options
        self._have, self._converters, self._live = have, converters, live
        self._jobs: list[_ConversionJob] = []

    def run(self, pool: WorkerPool) -> Iterator[Conversion]:
        while True:
            yield from self._assign_tasks(pool)
            if pool.idle:
                return
            received = pool.receive(_POLL_SECONDS if self._live else None)
            if received is None:
                continue
            task, message, remaining = received
            job = next(job for job in self._jobs if job.source is task.source)
            yield from self._handle(job, message, remaining)
            if job.done:
                self._jobs.remove(job)
                document = job.source.document
                if all(other.source.document != document for other in self._jobs):
                    pool.forget(document)
                yield Finished(job.source)

    def _assign_tasks(self, pool: WorkerPool) -> Iterator[Conversion]:
        """Fill free workers: with items of open files first, then with the next file; live, by bytes left."""
        while self._live or pool.free:
            yield from self._take_sources()
            job = self._choose_job(pool) if pool.free else None
            if job is None:
                return
            self._submit(pool, job)

    def _take_sources(self) -> Iterator[Conversion]:
        """Take the next source, when no other has anything to do; live ones all."""
        while self._live or not any(job.waits for job in self._jobs):
            source = next(self._sources, None)
            if source is None:
                return
            if converter := self._converters.get(source.path.suffix.lower()):
                self._jobs.append(_ConversionJob(source, converter))
                continue
            kind = source.path.suffix or "(none)"
            yield Failed(source, None, f"Files of type {kind} are not supported.")
            yield Finished(source)

    def _choose_job(self, pool: WorkerPool) -> _ConversionJob | None:
        """Choose what a free worker does next."""
        waiting = (job for job in self._jobs if job.waits)
        if not self._live:
            return next(waiting, None)
        is_last = pool.size > 1 and pool.free == 1
        if is_last and any(job.opens_slowly for job in self._jobs if job.begun):
            waiting = (job for job in waiting if not job.opens_slowly)
        job = min(waiting, key=lambda job: job.remaining_bytes, default=None)
        if job is None or not is_last:
            return job
        running = (other.unfinished_bytes for other in self._jobs if other.tasks)
        is_smaller = job.remaining_bytes < SMALLER * min(running, default=math.inf)
        return job if is_smaller or job.is_short else None

    def _take_ordinals(self, job: _ConversionJob) -> tuple[int, ...]:
        """Take the next items of an open file; of a live source one, for a smaller file to be next."""
        most = 1 if self._live else MAX_TASK_ITEMS
        size = min(max(len(job.todo) // (2 * self._options.processes), 1), most)
        ordinals = tuple(reversed(job.todo[-size:]))
        del job.todo[-size:]
        return ordinals

    def _submit(self, pool: WorkerPool, job: _ConversionJob) -> None:
        ordinals = self._take_ordinals(job) if job.begun else None
        if not job.begun:
            job.begun, job.have = True, frozenset(self._have(job.source))
        job.tasks += 1
        converter, source, options = job.converter, job.source, self._options
        seconds = converter.opening_seconds(source, options) if isinstance(converter, Slow) else 0.0
        pool.submit(Task(converter, source, options, ordinals, job.have, seconds, job.notes))

    def _handle(
        self, job: _ConversionJob, message: Message | WorkerDied, remaining: tuple[int, ...]
    ) -> Iterator[Conversion]:
        """Record a message; `remaining` are the items that its task has still to make."""
        match message:
            case Item():
                yield Converted(job.source, message)
            case FileOpened() if job.opening:
                job.opening, job.items, job.notes = False, message.count, message.notes
                taken = job.have.union(message.ordinals)
                job.todo = [n for n in range(message.count, 0, -1) if n not in taken]
                yield ItemCount(job.source, message.count)
            case FileOpened():
                pass
            case TaskRejected(ordinal=int()):
                yield Failed(job.source, message.ordinal, message.reason)
            case TaskRejected(reason=reason):
                yield from self._fail(job, remaining, reason)
            case WorkerDied():  # the item in progress is to blame; the others go to another worker
                job.tasks -= 1
                job.todo += reversed(remaining[1:])
                yield from self._fail(job, remaining[:1], message.reason)
            case _:
                job.tasks -= 1

    def _fail(self, job: _ConversionJob, ordinals: tuple[int, ...], reason: str) -> Iterator[Conversion]:
        """Report a file that cannot be opened, or the items of one worker that could not open it."""
        if job.opening:
            job.opening = False
            yield Failed(job.source, None, reason)
        for ordinal in ordinals:
            yield Failed(job.source, ordinal, reason)
