"""Files → items, in parallel processes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from vrag.corpus.base import (
    Conversion,
    Converted,
    Converter,
    Counted,
    Desk,
    Failed,
    Finished,
    Slow,
    Source,
)
from vrag.corpus.crew import Crew, Lost
from vrag.corpus.html import SUFFIXES as HTML
from vrag.corpus.html import HtmlFile
from vrag.corpus.image import SUFFIXES as IMAGE
from vrag.corpus.image import ImageFile
from vrag.corpus.office import SUFFIXES as OFFICE
from vrag.corpus.office import OfficeFile
from vrag.corpus.pdf import PdfFile
from vrag.corpus.text import SUFFIXES as TEXT
from vrag.corpus.text import TextFile
from vrag.corpus.video import SUFFIXES as VIDEO
from vrag.corpus.video import VideoFile
from vrag.corpus.worker import Fatal, Opened, Refused, Task
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
    "Counted",
    "Failed",
    "Finished",
    "Source",
    "convert_all",
]

MOST_PER_TASK = 8

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
    sources: Iterable[Source],
    items_dir: Path,
    options: CorpusOptions,
    have: Callable[[Source], Collection[int]] = lambda _: (),
    converters: Mapping[str, Converter] = CONVERTERS,
) -> Generator[Conversion, None, None]:
    """Converts files to items in worker processes, as many at a time as `options.workers` says.

    Results come as they are made: for one source `Counted` first and `Finished` last, pages in any
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
        desk = Desk(items_dir.absolute(), options, Path(scratch))
        with Crew(options.processes) as crew:
            yield from _Conversions(sources, desk, have, converters).run(crew)


@dataclass(slots=True)
class _Job:
    """A source in work."""

    source: Source
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
        sources: Iterable[Source],
        desk: Desk,
        have: Callable[[Source], Collection[int]],
        converters: Mapping[str, Converter],
    ) -> None:
        self._sources = iter(sources)
        self._desk = desk
        self._have = have
        self._converters = converters
        self._jobs: list[_Job] = []

    def run(self, crew: Crew) -> Iterator[Conversion]:
        """Everything, from the first task to the last event."""
        while True:
            yield from self._hand_out(crew)
            if crew.idle:
                return
            task, message, rest = crew.hear()
            job = next(job for job in self._jobs if job.source is task.source)
            yield from self._take_in(job, message, rest)
            if job.over:
                self._jobs.remove(job)
                self._clear(job.source)
                yield Finished(job.source)

    def _clear(self, source: Source) -> None:
        """Removes what workers put aside for each other, unless another path has the same content."""
        if self._desk.scratch and all(job.source.document != source.document for job in self._jobs):
            for path in self._desk.scratch.glob(f"{source.document[:16]}.*"):
                with suppress(OSError):  # Windows keeps what a worker has open; all goes in the end
                    path.unlink()

    def _hand_out(self, crew: Crew) -> Iterator[Conversion]:
        """Gives tasks to free workers: of files in work first, then of the next file."""
        while crew.free:
            if job := next((job for job in self._jobs if job.todo), None):
                size = min(max(len(job.todo) // (2 * self._desk.options.processes), 1), MOST_PER_TASK)
                ordinals = tuple(reversed(job.todo[-size:]))
                del job.todo[-size:]
                self._give(crew, job, ordinals)
            elif source := next(self._sources, None):
                yield from self._begin(crew, source)
            else:
                return

    def _begin(self, crew: Crew, source: Source) -> Iterator[Conversion]:
        converter = self._converters.get(source.path.suffix.lower())
        if converter is None:
            yield Failed(source, None, f"Files of type {source.path.suffix or '(none)'} are not supported.")
            yield Finished(source)
            return
        job = _Job(source, converter, frozenset(self._have(source)))
        self._jobs.append(job)
        self._give(crew, job, None)

    def _give(self, crew: Crew, job: _Job, ordinals: tuple[int, ...] | None) -> None:
        job.tasks += 1
        converter, source, options = job.converter, job.source, self._desk.options
        seconds = converter.opening_seconds(source, options) if isinstance(converter, Slow) else 0.0
        crew.give(Task(converter, source, self._desk, ordinals, job.have, seconds))

    def _take_in(self, job: _Job, message: Message | Lost, rest: tuple[int, ...]) -> Iterator[Conversion]:
        """Notes an event; `rest` are the items that its task has still to make."""
        match message:
            case Item():
                yield Converted(job.source, message)
            case Opened():
                yield from self._count(job, message)
            case Refused(ordinal=int()):
                yield Failed(job.source, message.ordinal, message.reason)
            case Refused(reason=reason):
                yield from self._fail(job, rest, reason)
            case Lost():
                job.tasks -= 1
                yield from self._lose(job, message, rest)
            case Fatal(error=error):
                raise error
            case _:
                job.tasks -= 1

    def _count(self, job: _Job, message: Opened) -> Iterator[Conversion]:
        if not job.opening:
            return
        job.opening = False
        taken = job.have.union(message.ordinals)
        job.todo = [n for n in range(message.count, 0, -1) if n not in taken]
        yield Counted(job.source, message.count)

    def _fail(self, job: _Job, rest: tuple[int, ...], reason: str) -> Iterator[Conversion]:
        """A file could not be opened: at all, or by the worker that was to make some of its items."""
        if job.opening:
            job.opening = False
            yield Failed(job.source, None, reason)
        for ordinal in rest:
            yield Failed(job.source, ordinal, reason)

    def _lose(self, job: _Job, lost: Lost, rest: tuple[int, ...]) -> Iterator[Conversion]:
        """The item in work is to blame; the others of its task go to another worker."""
        of_what = " of processor time" if lost.processor else ""
        reason = (
            f"It took longer than the time limit of {lost.seconds:g} seconds{of_what}."
            if lost.late
            else "It crashed the library that reads it."
        )
        job.todo += reversed(rest[1:])
        yield from self._fail(job, rest[:1], reason)
