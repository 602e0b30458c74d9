"""The one thread of a server that writes to a collection: indexes what was uploaded, removes documents.

What is uploaded lies in the folder `uploads` of the collection. The files there and the manifest are all
there is to know: jobs are kept in memory alone. A server that is killed takes up at its next start what is
not done:

- An uploaded file without a row, with a row that is pending or with one of other bytes is indexed.
- A document is removed in this order: its file `NAME` becomes `.NAME.gone`, its rows and items go, that file
  goes. While it is there, the removal is finished at the next start. The other order would bring a removed
  document back; and rows whose files are missing for another reason stay.
- A collection that was moved knows its uploads by their old paths: the files are taken over, without being
  read by a converter again, and the old rows go.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.corpus.discover import read_source
from vrag.errors import CollectionBusy, CollectionError, EmbedError
from vrag.index.build import add_sources
from vrag.index.maintenance import compact, remove
from vrag.index.plan import read_manifest
from vrag.server.collections.jobs import JobJournal, UploadJob
from vrag.server.collections.same_names import DocumentSelector, distinct_names
from vrag.server.collections.upload_folder import GONE, files, hide, is_done, lies_in, moved, show, uploads_of
from vrag.server.collections.uploads import clear_parts
from vrag.server.collections.worker_task import WorkerTask
from vrag.server.http.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from collections.abc import Collection as CollectionOf
    from concurrent.futures import Future

    from vrag.corpus.converter import SourceFile
    from vrag.corpus.options import CorpusOptions
    from vrag.index.embed_items import Made, Producer
    from vrag.server.collections.registry import OpenCollection
    from vrag.server.collections.uploads import IncomingUpload
    from vrag.types import Document

__all__ = ["IndexWorker"]

log = logging.getLogger("vrag.server")
T = TypeVar("T")
_TOGETHER = 16
"""Files that are indexed in one go: starting to takes a second."""
_COMPACT = 64
"""Goes after which the tables are compacted: reading slows with the number of commits."""
_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
"""Seconds until it is tried again when another process writes to the collection, growing."""


class _Interrupted(KeyboardInterrupt):
    """Adding is to be left off: what is done is kept, as with Ctrl-C."""


class IndexWorker:
    """Writes to one collection, one thing after the other, in a thread of its own.

    Args:
        holding: The collection; one that can be written to.
        ended: Is told in which state each upload ended.
    """

    def __init__(self, holding: OpenCollection, ended: Callable[[str], None] = lambda _: None) -> None:
        assert holding.producer is not None
        self.holding = holding
        self._ended = ended
        self.journal = JobJournal()
        self._producer: Producer = holding.producer
        self._placing = threading.Lock()
        self._wake = threading.Condition()
        self._tasks: deque[WorkerTask[Any]] = deque()
        self._waiting: deque[UploadJob] = deque()
        self._stopping = False
        self._tidy = False
        self._pause = 0.0
        self._not_before = 0.0
        self._goes = 0
        self._thread = threading.Thread(target=self._run, name=f"vrag-index-{holding.name}", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """Where uploaded files lie."""
        return uploads_of(self.holding)

    @property
    def waiting(self) -> int:
        """How many files wait."""
        return len(self._waiting)

    def place(self, part: IncomingUpload) -> UploadJob:
        """Has an upload indexed that is complete. Of two of one name the last one counts.

        Args:
            part: Closed; its target lies in `folder`.

        Raises:
            Refusal: If it cannot be given its name.
        """
        with self._placing:
            stored = part.place()
            return self.submit(stored.path, stored.document)

    def submit(self, path: Path, document: str) -> UploadJob:
        """Has a file indexed that lies in `folder`.

        Args:
            path: Of the file.
            document: Its id.
        """
        job = UploadJob(self.holding.name, path, document)
        with self._wake:
            for other in [other for other in self._waiting if other.path == path]:
                self._waiting.remove(other)
                other.replaced()
            self._waiting.append(job)
            self.journal.add(job)
            self._wake.notify()
        return job

    def remove(self, document: str, name: str | None = None, folder: str | None = None) -> Future[None]:
        """Removes a document, ahead of what waits to be indexed. What is being indexed is left off for it.

        Args:
            document: Its id.
            name: File name, where only one of several files with this content is meant.
            folder: What tells it from others of this name; see `distinct_names`.

        Returns:
            Done when it is removed. Raises `Refusal` (404) if there is no such document, and
            `CollectionBusy` if another process is writing.
        """
        return self._run_task(lambda: self._remove(DocumentSelector(document, name, folder)))

    def end_with(self, work: Callable[[], None]) -> Future[None]:
        """Does what the collection does not survive, ahead of all that waits, and ends.

        What is being read is left off for it. If it fails, or is cancelled before it began, all goes on.

        Returns:
            Done when it is. Raises what `work` raises.
        """

        def last() -> None:
            work()
            self.stop()

        return self._run_task(last)

    def stop(self) -> None:
        """Has the thread end soon; what is not done waits for the next start."""
        with self._wake:
            self._stopping = True
            left, self._tasks = self._tasks, deque()
            self._wake.notify()
        for task in left:
            task.turn_away(_closing())

    def join(self, seconds: float) -> bool:
        """Waits for the thread to end, after `stop`; says whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run_task(self, work: Callable[[], T]) -> Future[T]:
        task = WorkerTask(work)
        with self._wake:
            if not self._stopping:
                self._tasks.append(task)
                self._wake.notify()
                return task.future
        task.turn_away(_closing())
        return task.future

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._stopping or self._tasks or self._is_due()):
                    self._wake.wait(self._until_due())
                if self._stopping:
                    return
                task = self._tasks.popleft() if self._tasks else None
            if task is not None:
                task.carry_out()
            elif not self._tidy:
                self._try(self._take_up)
            else:
                self._try(self._index)

    def _is_due(self) -> bool:
        return (bool(self._waiting) or not self._tidy) and time.monotonic() >= self._not_before

    def _until_due(self) -> float | None:
        if not self._waiting and self._tidy:
            return None
        return max(self._not_before - time.monotonic(), 0.0)

    def _try(self, work: Callable[[], None]) -> None:
        """Does it; puts it off while another process writes."""
        try:
            work()
            self._pause = 0.0
        except _Interrupted:
            pass
        except CollectionBusy:
            self._pause = min(max(_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
            self._not_before = time.monotonic() + self._pause
        except BaseException:
            log.exception("The uploads of %s cannot be looked through.", self.holding.name)
            self._tidy = True  # what is uploaded from now on is indexed nevertheless

    def _index(self) -> None:
        """Indexes some of the files that wait.

        Raises:
            CollectionBusy: If another process is writing: they wait on.
            _Interrupted: If there is something else to do first.
        """
        with self._wake:
            jobs = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
        try:
            self._add(jobs)
        except _Interrupted:
            self._put_off(jobs, "It waits for its turn.")
            raise
        except CollectionBusy:
            self._put_off(jobs, "It waits: another process is writing to the collection.")
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the table's library is no Exception
            reason = self._reason(error)
            for job in jobs:
                job.fail(reason)
        for job in jobs:
            self._ended(job.state.value)
        self._compact()

    def _add(self, jobs: list[UploadJob]) -> None:
        by_path = {os.fspath(job.path): job for job in jobs}
        for job in jobs:
            job.begin()

        def tell(made: Made) -> None:
            if self._stopping or self._tasks:
                raise _Interrupted
            if job := by_path.get(os.fspath(made.source.path)):
                job.note(made)

        collection = self.holding.collection
        add_sources(collection, [job.path for job in jobs], _watched(self._producer, tell))
        rows = read_manifest(collection)
        with self._placing:  # what has its name has its ticket
            again = self._awaited()
        for path, job in by_path.items():
            if job.path in again:
                job.replaced()
            else:
                job.settle(rows.get(path))

    def _put_off(self, jobs: list[UploadJob], message: str) -> None:
        with self._wake:
            again = {job.path for job in self._waiting}
            for job in reversed(jobs):
                if job.path in again:
                    job.replaced()
                else:
                    job.wait(message)
                    self._waiting.appendleft(job)

    def _reason(self, error: BaseException) -> str:
        """What clients are told of a failure that is not of one file; the log has all of it."""
        mark = secrets.token_hex(6)
        log.error("Indexing %s failed [%s]", self.holding.name, mark, exc_info=error)
        what = (
            "The embedder failed" if isinstance(error, EmbedError) else "The collection cannot be written to"
        )
        return f"{what}: the log has more under the id {mark}. Send it again; or the next start tries again."

    def _compact(self) -> None:
        self._goes += 1
        if self._goes >= _COMPACT and not self._waiting:
            with suppress(CollectionBusy):
                compact(self.holding.collection)
                self._goes = 0

    def _remove(self, meant: DocumentSelector) -> None:
        collection = self.holding.collection
        known = collection.documents()
        folders = distinct_names({*(row.path for row in known), *map(os.fspath, self._awaited())})
        rows = [row for row in known if meant.fits(row.id, row.name, folders.get(row.path))]
        jobs = self._withdrawn(meant, folders)
        if not rows and not jobs:
            raise Refusal(404, "There is no such document in the collection.", "Look at the list again.")
        own = [Path(row.path) for row in rows if self._is_own(row)]
        hidden = hide({*own, *(job.path for job in jobs)})
        try:
            if rows:
                remove(collection, [row.path for row in rows])
        except BaseException:
            if not self._are_gone(rows):
                show(hidden)
                with self._wake:
                    self._waiting.extendleft(reversed(jobs))
                raise
            log.exception("What is left of a removed document goes with the next change.")
        for path in hidden.values():
            path.unlink(missing_ok=True)
        for job in jobs:
            job.settle(None)

    def _are_gone(self, rows: list[Document]) -> bool:
        """Whether the manifest says nothing of these any more: they are removed, whatever failed later."""
        try:
            left = read_manifest(self.holding.collection)
        except CollectionError:
            return False
        return bool(rows) and not any(row.path in left for row in rows)

    def _withdrawn(self, meant: DocumentSelector, folders: Mapping[str, str]) -> list[UploadJob]:
        """The files that are meant and wait to be indexed: they do not any more."""
        with self._wake:
            found = [
                job
                for job in self._waiting
                if meant.fits(job.document, job.path.name, folders.get(os.fspath(job.path)))
            ]
            for job in found:
                self._waiting.remove(job)
        return found

    def _is_own(self, row: Document) -> bool:
        return lies_in(row.path, self.folder)

    def _take_up(self) -> None:
        """Finds what an earlier server left: files to index, removals to finish.

        Raises:
            CollectionBusy: If another process is writing.
        """
        clear_parts(self.folder)
        there = {path.name: path for path in files(self.folder)}
        rows = self.holding.collection.documents() if self.folder.is_dir() else []
        own = {row.name: row for row in rows if self._is_own(row)}
        self._finish_removals(own, there)
        taken = [path for path, before in moved(rows, own, there).items() if self._take_over(path, before)]
        for name, path in there.items():
            if path not in taken and not is_done(path, own.get(name)):
                self._take(path)
        self._tidy = True

    def _take(self, path: Path) -> None:
        """Has a file indexed, unless it was uploaded just now and waits already."""
        with self._placing, suppress(OSError):
            if path not in self._awaited():
                self.submit(path, read_source(path).document)

    def _awaited(self) -> set[Path]:
        """The files that wait to be indexed."""
        with self._wake:
            return {job.path for job in self._waiting}

    def _finish_removals(self, own: dict[str, Document], there: dict[str, Path]) -> None:
        for path in self.folder.glob(f".*{GONE}"):
            name = path.name[1 : -len(GONE)]
            if name in own and name not in there:
                remove(self.holding.collection, [own[name].path])
            path.unlink(missing_ok=True)

    def _take_over(self, path: Path, before: list[Document]) -> bool:
        """A file that was known at a path where the collection was before; False where it is another one."""
        try:
            document = read_source(path).document
        except OSError:
            return False
        old = [row.path for row in before if row.id == document]
        if old:
            add_sources(self.holding.collection, [path], self._producer)
            remove(self.holding.collection, old)
        return bool(old)


def _closing() -> Refusal:
    return Refusal(503, "The collection is being closed.", "Look at the list of collections again.")


def _watched(producer: Producer, tell: Callable[[Made], None]) -> Producer:
    """A producer that tells of everything that it makes; what telling raises ends it."""

    def produce(
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], CollectionOf[int]],
    ) -> Generator[Made, None, None]:
        with closing(producer(sources, items_dir, options, have)) as making:
            for made in making:
                yield made
                tell(made)  # after it was taken: what telling raises loses nothing that was made

    return produce
