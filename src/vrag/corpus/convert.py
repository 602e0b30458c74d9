"""Files → items, in parallel processes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from vrag.corpus.converter import (
    Conversion,
    ConversionContext,
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
from vrag.corpus.formats.image import SUFFIXES as IMAGE
from vrag.corpus.formats.image import ImageFile
from vrag.corpus.formats.office import SUFFIXES as OFFICE
from vrag.corpus.formats.office import OfficeFile
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.text import SUFFIXES as TEXT
from vrag.corpus.formats.text import TextFile
from vrag.corpus.formats.video import SUFFIXES as VIDEO
from vrag.corpus.formats.video import VideoFile
from vrag.corpus.worker import FileOpened, Task, TaskRejected, WorkerFailed
from vrag.corpus.worker_pool import WorkerDied, WorkerPool
from vrag.types import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

    from vrag.corpus.options import CorpusOptions
    from vrag.corpus.worker import Message

__all__ = [
    "CONVERTERS",
    "Conversion",
    "Converted",
    "Converter",
    "Failed",
    "Finished",
    "ItemCount",
    "SourceFile",
    "convert_all",
]

MAX_PER_TASK = 8

CONVERTERS: Mapping[str, Converter] = {
    ".pdf": PdfFile,
    **dict.fromkeys(IMAGE, ImageFile),
    **dict.fromkeys(TEXT, TextFile),
    **dict.fromkeys(HTML, HtmlFile),
    **dict.fromkeys(OFFICE, OfficeFile),
    **dict.fromkeys(VIDEO, VideoFile),
}
"""Suffix in lower case → what opens such files."""


def convert_all(
    sources: Iterable[SourceFile],
    items_dir: Path,
    options: CorpusOptions,
    have: Callable[[SourceFile], Collection[int]] = lambda _: (),
    converters: Mapping[str, Converter] = CONVERTERS,
) -> Generator[Conversion, None, None]:
    """Converts files to items in worker processes, as many at a time as `options.workers` says.

    Results come as they are made: for one source `ItemCount` first and `Finished` last, pages in any
    order; sources interleave. Memory does not grow with the number of files or pages. A page that
    takes more processor time than `options.page_seconds`, is blocked for ten times as long, or crashes its
    process costs that page. Closing the generator kills the workers; so does the end of this process, however
    it ends.

    Args:
        sources: Files to convert; taken from the iterable one by one as workers become free.
        items_dir: Where pictures are stored, as `<first 16 digits of document>/<ordinal>.<suffix>`.
        options: How to convert.
        have: Ordinals that need not be made, asked once per source.
        converters: Suffix in lower case → what opens such files.

    Raises:
        CollectionError: If pictures cannot be stored.
        VragError: If worker processes cannot be started.
    """
    with TemporaryDirectory(prefix="vrag-", ignore_cleanup_errors=True) as scratch:
        context = ConversionContext(items_dir.absolute(), options, Path(scratch))
        with WorkerPool(options.processes) as pool:
            yield from _Conversions(sources, context, have, converters).run(pool)


@dataclass(slots=True)
class _ConversionJob:
    """A source in work."""

    source: SourceFile
    converter: Converter
    have: frozenset[int]
    opening: bool = True
    """Whether its items are not counted yet."""
    todo: list[int] = field(default_factory=list[int])
    """Items that no worker has been given, in descending order."""
    tasks: int = 0
    """Tasks under way."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return not self.opening and not self.todo and not self.tasks


class _Conversions:
    """What is done and what is to be done: hands out tasks and turns events into conversions."""

    def __init__(
        self,
        sources: Iterable[SourceFile],
        context: ConversionContext,
        have: Callable[[SourceFile], Collection[int]],
        converters: Mapping[str, Converter],
    ) -> None:
        self._sources = iter(sources)
        self._context = context
        self._have = have
        self._converters = converters
        self._jobs: list[_ConversionJob] = []

    def run(self, pool: WorkerPool) -> Iterator[Conversion]:
        """Everything, from the first task to the last event."""
        while True:
            yield from self._hand_out(pool)
            if pool.idle:
                return
            task, message, rest = pool.hear()
            job = next(job for job in self._jobs if job.source is task.source)
            yield from self._take_in(job, message, rest)
            if job.over:
                self._jobs.remove(job)
                self._clear(job.source)
                yield Finished(job.source)

    def _clear(self, source: SourceFile) -> None:
        """Removes what workers put aside for each other, unless another path has the same content."""
        if self._context.scratch and all(job.source.document != source.document for job in self._jobs):
            for path in self._context.scratch.glob(f"{source.document[:16]}.*"):
                with suppress(OSError):  # Windows keeps what a worker has open; all goes in the end
                    path.unlink()

    def _hand_out(self, pool: WorkerPool) -> Iterator[Conversion]:
        """Gives tasks to free workers: of files in work first, then of the next file."""
        while pool.free:
            if job := next((job for job in self._jobs if job.todo), None):
                size = min(max(len(job.todo) // (2 * self._context.options.processes), 1), MAX_PER_TASK)
                ordinals = tuple(reversed(job.todo[-size:]))
                del job.todo[-size:]
                self._give(pool, job, ordinals)
            elif source := next(self._sources, None):
                yield from self._begin(pool, source)
            else:
                return

    def _begin(self, pool: WorkerPool, source: SourceFile) -> Iterator[Conversion]:
        converter = self._converters.get(source.path.suffix.lower())
        if converter is None:
            yield Failed(source, None, f"Files of type {source.path.suffix or '(none)'} are not supported.")
            yield Finished(source)
            return
        job = _ConversionJob(source, converter, frozenset(self._have(source)))
        self._jobs.append(job)
        self._give(pool, job, None)

    def _give(self, pool: WorkerPool, job: _ConversionJob, ordinals: tuple[int, ...] | None) -> None:
        job.tasks += 1
        converter, source, options = job.converter, job.source, self._context.options
        seconds = converter.opening_seconds(source, options) if isinstance(converter, Slow) else 0.0
        pool.give(Task(converter, source, self._context, ordinals, job.have, seconds))

    def _take_in(
        self, job: _ConversionJob, message: Message | WorkerDied, rest: tuple[int, ...]
    ) -> Iterator[Conversion]:
        """Notes an event; `rest` are the items that its task has still to make."""
        match message:
            case Item():
                yield Converted(job.source, message)
            case FileOpened():
                yield from self._count(job, message)
            case TaskRejected(ordinal=int()):
                yield Failed(job.source, message.ordinal, message.reason)
            case TaskRejected(reason=reason):
                yield from self._fail(job, rest, reason)
            case WorkerDied():
                job.tasks -= 1
                yield from self._lose(job, message, rest)
            case WorkerFailed(error=error):
                raise error
            case _:
                job.tasks -= 1

    def _count(self, job: _ConversionJob, message: FileOpened) -> Iterator[Conversion]:
        if not job.opening:
            return
        job.opening = False
        taken = job.have.union(message.ordinals)
        job.todo = [n for n in range(message.count, 0, -1) if n not in taken]
        yield ItemCount(job.source, message.count)

    def _fail(self, job: _ConversionJob, rest: tuple[int, ...], reason: str) -> Iterator[Conversion]:
        """A file could not be opened: at all, or by the worker that was to make some of its items."""
        if job.opening:
            job.opening = False
            yield Failed(job.source, None, reason)
        for ordinal in rest:
            yield Failed(job.source, ordinal, reason)

    def _lose(self, job: _ConversionJob, lost: WorkerDied, rest: tuple[int, ...]) -> Iterator[Conversion]:
        """The item in work is to blame; the others of its task go to another worker."""
        of_what = " of processor time" if lost.processor else ""
        reason = (
            f"It took longer than the time limit of {lost.seconds:g} seconds{of_what}."
            if lost.late
            else "It crashed the library that reads it."
        )
        job.todo += reversed(rest[1:])
        yield from self._fail(job, rest[:1], reason)
