"""The one thread of a server that writes to a collection: indexes uploaded files, removes documents.

Uploaded files lie in the folder `uploads` of the collection. These files and the manifest are the whole
state: jobs are kept only in memory. A server that was killed continues at its next start:

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
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from collections.abc import Collection as CollectionOf
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path

from vrag.corpus.converter import CorpusOptions, SourceFile
from vrag.corpus.discover import read_source
from vrag.errors import CollectionBusy, CollectionError, EmbedError
from vrag.index.build import add_sources
from vrag.index.embed_items import Made, Producer
from vrag.index.maintenance import compact, remove
from vrag.index.manifest import read_manifest
from vrag.server.collections import uploads
from vrag.server.collections.files import DocumentSelector, distinct_folders
from vrag.server.collections.jobs import JobJournal, UploadJob
from vrag.server.collections.registry import OpenCollection
from vrag.server.http.background import complete_future
from vrag.server.http.errors import Refusal, log_error
from vrag.types import Document

log = logging.getLogger("vrag.server")
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 15.0
"""Growing pause before the next attempt when another process writes to the collection."""


class _Interrupted(KeyboardInterrupt):
    """Indexing is interrupted: finished documents are kept, as with Ctrl-C."""


class IndexWorker:
    """Writes to one collection, one task after the other, in a thread of its own.

    `ended` is called with the final state of each upload.
    """

    def __init__(self, open_collection: OpenCollection, ended: Callable[[str], None]) -> None:
        assert open_collection.producer is not None
        self.open_collection = open_collection
        self._ended = ended
        self.journal = JobJournal()
        self._producer: Producer = open_collection.producer
        self._placing = threading.Lock()
        self._wake = threading.Condition()
        self._tasks: deque[tuple[Future[None], Callable[[], None]]] = deque()
        self._waiting: deque[UploadJob] = deque()
        self._stopping = False
        self._is_recovered = False
        self._pause = 0.0
        self._not_before = 0.0
        self._batches = 0
        name = f"vrag-index-{open_collection.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folder of uploaded files."""
        return uploads.uploads_of(self.open_collection)

    @property
    def waiting(self) -> int:
        """The number of files that wait."""
        return len(self._waiting)

    def place(self, part: uploads.IncomingUpload) -> UploadJob:
        """Queue a complete, closed upload for indexing. Of two with one name the last one counts."""
        with self._placing:
            stored = part.place()
            return self.submit(stored.path, stored.document)

    def submit(self, path: Path, document: str) -> UploadJob:
        """Queue a file in `folder` for indexing; `document` is its id."""
        job = UploadJob(self.open_collection.name, path, document)
        with self._wake:
            for other in [other for other in self._waiting if other.path == path]:
                self._waiting.remove(other)
                other.replaced()
            self._waiting.append(job)
            self.journal.add(job)
            self._wake.notify()
        return job

    def remove(self, document: str, name: str | None = None, folder: str | None = None) -> Future[None]:
        """Remove a document, before what waits to be indexed. Indexing is interrupted for it.

        The arguments are those of `DocumentSelector`. The future raises `Refusal` (404) if there is no such
        document, and `CollectionBusy` if another process is writing.
        """
        return self._run_task(lambda: self._remove(DocumentSelector(document, name, folder)))

    def end_with(self, work: Callable[[], None]) -> Future[None]:
        """Do work that the collection does not survive, before all that waits, and end.

        Indexing is interrupted for it. If it fails, or is cancelled before it began, the worker goes on.
        """

        def last() -> None:
            work()
            self.stop()

        return self._run_task(last)

    def stop(self) -> None:
        """Have the thread end soon; unfinished work waits for the next start."""
        with self._wake:
            self._stopping = True
            left, self._tasks = self._tasks, deque()
            self._wake.notify()
        for future, _ in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(_closing())

    def join(self, seconds: float) -> bool:
        """Wait for the thread to end, after `stop`; return whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run_task(self, work: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(_closing())
            else:
                self._tasks.append((future, work))
                self._wake.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._stopping or self._tasks):
                    has_work = self._waiting or not self._is_recovered
                    pause = self._not_before - time.monotonic()
                    if has_work and pause <= 0:
                        break
                    self._wake.wait(max(pause, 0.0) if has_work else None)
                if self._stopping:
                    return
                task = self._tasks.popleft() if self._tasks else None
            if task is not None:
                complete_future(*task)
                continue
            try:
                (self._index if self._is_recovered else self._recover)()
                self._pause = 0.0
            except _Interrupted:
                pass
            except CollectionBusy:
                self._pause = min(max(_MIN_PAUSE_SECONDS, 2 * self._pause), _MAX_PAUSE_SECONDS)
                self._not_before = time.monotonic() + self._pause
            except BaseException:
                log.exception("The uploads of %s cannot be read.", self.open_collection.name)
                self._is_recovered = True  # later uploads are indexed nevertheless

    def _index(self) -> None:
        """Index the next files in the queue; they stay there if another process writes, or a task waits."""
        with self._wake:  # several together, since to start takes a second
            jobs = [self._waiting.popleft() for _ in range(min(16, len(self._waiting)))]
        try:
            self._add(jobs)
        except _Interrupted:
            self._requeue(jobs, "Waiting in the queue.")
            raise
        except CollectionBusy:
            self._requeue(jobs, "Waiting: another process is writing to the collection.")
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the table's library is no Exception
            subject = "The embedder" if isinstance(error, EmbedError) else "Writing to the collection"
            error_id = log_error(error, f"Indexing {self.open_collection.name}")
            hint = "Upload it again, or restart the server."
            for job in jobs:
                job.fail(f"{subject} failed: the log has details under the id {error_id}. {hint}")
        for job in jobs:
            self._ended(job.state.value)
        self._batches += 1
        if self._batches >= 64 and not self._waiting:  # reading slows with the number of commits
            with suppress(CollectionBusy):
                compact(self.open_collection.collection)
                self._batches = 0

    def _add(self, jobs: list[UploadJob]) -> None:
        by_path = {os.fspath(job.path): job for job in jobs}
        for job in jobs:
            job.begin()

        def produce(
            sources: Iterator[SourceFile],
            items_dir: Path,
            options: CorpusOptions,
            have: Callable[[SourceFile], CollectionOf[int]],
        ) -> Generator[Made, None, None]:
            with closing(self._producer(sources, items_dir, options, have)) as making:
                for made in making:
                    yield made
                    if self._stopping or self._tasks:  # after it was taken: nothing that was made is lost
                        raise _Interrupted
                    if job := by_path.get(os.fspath(made.source.path)):
                        job.note(made)

        collection = self.open_collection.collection
        add_sources(collection, [job.path for job in jobs], produce)
        rows = read_manifest(collection)
        with self._placing:  # a file that has its name has its job
            again = self._queued_paths()
        for path, job in by_path.items():
            if job.path in again:
                job.replaced()
            else:
                job.settle(rows.get(path))

    def _requeue(self, jobs: list[UploadJob], message: str) -> None:
        with self._wake:
            again = {job.path for job in self._waiting}
            for job in reversed(jobs):
                if job.path in again:
                    job.replaced()
                else:
                    job.wait(message)
                    self._waiting.appendleft(job)

    def _remove(self, selector: DocumentSelector) -> None:
        collection = self.open_collection.collection
        known = collection.documents()
        folders = distinct_folders({*(row.path for row in known), *map(os.fspath, self._queued_paths())})
        rows = [row for row in known if selector.matches(row.id, row.name, folders.get(row.path))]
        with self._wake:
            jobs = [
                job
                for job in self._waiting
                if selector.matches(job.document, job.path.name, folders.get(os.fspath(job.path)))
            ]
            for job in jobs:
                self._waiting.remove(job)
        if not rows and not jobs:
            raise Refusal(404, "There is no such document in the collection.", "Reload the list.")
        own = [Path(row.path) for row in rows if uploads.lies_in(row.path, self.folder)]
        hidden = uploads.hide_files({*own, *(job.path for job in jobs)})
        try:
            if rows:
                remove(collection, [row.path for row in rows])
        except BaseException:
            if not self._are_gone(rows):
                uploads.restore_files(hidden)
                with self._wake:
                    self._waiting.extendleft(reversed(jobs))
                raise
            log.exception("The rest of a removed document will be deleted with the next change.")
        for path in hidden.values():
            path.unlink(missing_ok=True)
        for job in jobs:
            job.settle(None)

    def _are_gone(self, rows: list[Document]) -> bool:
        """Return whether the manifest has none of these any more: they are removed, whatever failed later."""
        try:
            left = read_manifest(self.open_collection.collection)
        except CollectionError:
            return False
        return bool(rows) and not any(row.path in left for row in rows)

    def _recover(self) -> None:
        """Find what an earlier server left: files to index, removals to finish."""
        uploads.clear_parts(self.folder)
        present = {path.name: path for path in uploads.uploaded_files(self.folder)}
        rows = self.open_collection.collection.documents() if self.folder.is_dir() else []
        own = {row.name: row for row in rows if uploads.lies_in(row.path, self.folder)}
        for path in self.folder.glob(f".*{uploads.REMOVED_SUFFIX}"):
            name = path.name[1 : -len(uploads.REMOVED_SUFFIX)]
            if name in own and name not in present:
                remove(self.open_collection.collection, [own[name].path])
            path.unlink(missing_ok=True)
        moved = uploads.moved_files(rows, own, present)
        taken = [path for path, before in moved.items() if self._adopt(path, before)]
        for name, path in present.items():
            if path not in taken and not uploads.is_done(path, own.get(name)):
                with self._placing, suppress(OSError):
                    if path not in self._queued_paths():  # else it was uploaded just now
                        self.submit(path, read_source(path).document)
        self._is_recovered = True

    def _queued_paths(self) -> set[Path]:
        with self._wake:
            return {job.path for job in self._waiting}

    def _adopt(self, path: Path, before: list[Document]) -> bool:
        """Adopt a file that is known by a path from before the collection was moved; False if it differs."""
        try:
            document = read_source(path).document
        except OSError:
            return False
        old = [row.path for row in before if row.id == document]
        if old:
            add_sources(self.open_collection.collection, [path], self._producer)
            remove(self.open_collection.collection, old)
        return bool(old)


def _closing() -> Refusal:
    return Refusal(503, "The collection is being closed.", "Reload the list of collections.")
