"""The one thread of a server that writes to a collection: indexes uploaded files, removes documents.

Uploaded files lie in the folder `uploads` of the collection. These files and the manifest are the truth about
documents; the server's database has the jobs. A server that was killed continues at its next start:

- An uploaded file without a row, with a row that is pending or with one of other bytes is indexed, by the job
  that it had. A job whose file needs nothing more, or is gone, ends.
- A document is removed in this order: its file `NAME` becomes `.NAME.gone`, its rows and items go, that file
  goes. While it is there, the removal is finished at the next start. The other order would bring a removed
  document back; and rows whose files are missing for another reason stay.
- A cancelled upload is removed in the same way. If it was to replace a document, that document's file, which
  is kept as `.NAME.before` until the new one is read, gets its name back first, by one rename: from then on
  the row of the document is true again, and what was made of the upload is deleted as what no row refers to.
- A collection that was moved knows its uploads by their old paths: the files are taken over, without being
  read by a converter again, and the old rows go.

Files are read side by side, in several processes, and written by this one thread: it takes new files while
others are read (`vrag.index.build.add_live`), so that a small one does not wait for a large one. Reading is
interrupted, as by Ctrl-C, for a removal, for a cancelled upload, and when a file is replaced that is being
read; what was read is kept, and the other files continue where they were.
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

from vrag.atomic_io import sync
from vrag.corpus.converter import CorpusOptions, SourceFile
from vrag.corpus.discover import read_source
from vrag.errors import CollectionBusy, CollectionError, EmbedError
from vrag.index.build import add_live, add_sources
from vrag.index.maintenance import compact, is_settled, remove, settle
from vrag.index.manifest import read_manifest
from vrag.index.schema import KnownFile
from vrag.index.shown_names import relative_folders
from vrag.index.source_file import lies_in
from vrag.index.vectors.embed_items import Made, Producer
from vrag.server.collections import uploads
from vrag.server.collections.files import DocumentSelector
from vrag.server.collections.jobs import WAITING, JobJournal, JobState, UploadJob, UploadJobInfo
from vrag.server.collections.registry import OpenCollection
from vrag.server.http.background import complete_future
from vrag.server.http.errors import Refusal, log_error
from vrag.server.state.database import ServerState
from vrag.storage.database import is_disk_full
from vrag.types import Document, DocumentStatus

log = logging.getLogger("vrag.server")
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 15.0
"""Growing pause before the next attempt when another process writes to the collection, or indexing failed."""
_COMPACT_FILES = 256
"""Files after which the tables are compacted: reading slows with the number of commits."""


class _Interrupted(KeyboardInterrupt):
    """Indexing is interrupted: finished documents are kept, as with Ctrl-C."""


class _IndexingFailed(Exception):
    """Indexing failed: the files that were being read have ended, the others wait."""


class IndexWorker:
    """Writes to one collection, one task after the other, in a thread of its own.

    `ended` is called with the final state of each upload.
    """

    def __init__(
        self, open_collection: OpenCollection, ended: Callable[[str], None], state: ServerState
    ) -> None:
        assert open_collection.producer is not None
        self.open_collection = open_collection
        self._ended = ended
        self.journal = JobJournal(state, open_collection.name, self.folder)
        self._producer: Producer = open_collection.producer
        self._placing = threading.Lock()
        self._wake = threading.Condition()
        self._tasks: deque[tuple[Future[None], Callable[[], None]]] = deque()
        self._waiting: list[UploadJob] = []
        self._reading: dict[Path, UploadJob] = {}
        """Jobs that were handed to the build, by path."""
        self._is_replaced = False
        """True if the file of one of these is another one now."""
        self._stopping = False
        self._is_recovered = False
        self._pause = 0.0
        self._not_before = 0.0
        self._indexed = 0
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
        return len(self._queue())

    def describe_jobs(self, *, only_open: bool = False) -> list[UploadJobInfo]:
        """Describe all jobs, or those that have not ended, the newest first."""
        places = {job.id: place for place, job in enumerate(self._queue(), 1)}
        jobs = [job for job in reversed(self.journal.all()) if not (only_open and job.over)]
        return [job.info(places.get(job.id)) for job in jobs]

    def describe_job(self, job: UploadJob) -> UploadJobInfo:
        """Describe a job."""
        queue = self._queue()
        return job.info(queue.index(job) + 1 if job in queue else None)

    def place(self, part: uploads.IncomingUpload) -> UploadJob:
        """Queue a complete, closed upload for indexing. Of two with one name the last one counts."""
        with self._placing:
            stored = part.place()
            return self.submit(stored.path, stored.document, stored.size)

    def submit(self, path: Path, document: str, size: int, *, has_row: bool = False) -> UploadJob:
        """Queue a file of `size` bytes for indexing; `document` is its id."""
        job = self.journal.continue_interrupted(path, document)
        job = job or UploadJob(self.open_collection.name, path, document, size, has_row)
        with self._wake:
            others = [other for other in self._waiting if other.path == path]
            for other in others:
                self._waiting.remove(other)
                other.replaced()
                job.has_row |= other.has_row
            self._is_replaced |= path in self._reading
            self._waiting.append(job)
            self.journal.add(job)
            self._wake.notify()
        self.journal.save(*others, job)
        return job

    def remove(self, selector: DocumentSelector) -> Future[None]:
        """Remove a document, before what waits to be indexed. Indexing is interrupted for it.

        The future raises `Refusal` (404) if there is no such document, and `CollectionBusy` if another
        process is writing.
        """
        return self._run_task(lambda: self._remove(selector))

    def cancel(self, job: UploadJob) -> Future[None]:
        """Cancel an upload: its file and what was made of it are deleted; a document that it replaces stays.

        Reading is interrupted for it, unless the upload only waits. The future raises `Refusal` (409) if it
        has ended, and `CollectionBusy` if another process is writing. Blocks.
        """
        with self._wake:
            only_waits = job in self._waiting and not job.has_row
            if only_waits:
                self._waiting.remove(job)
        if not only_waits:
            return self._run_task(lambda: self._cancel(job))
        done: Future[None] = Future()
        complete_future(done, lambda: self._withdraw(job))
        return done

    def retry(self, selector: DocumentSelector) -> UploadJob:
        """Queue a file again that could not be read, wholly or in part. Blocks.

        Raises `Refusal` if there is none (404), or it was read completely or is gone (409).
        """
        statuses = {
            job.path: DocumentStatus.FAILED  # if it failed before it had a row
            for job in self.journal.all()
            if job.state is JobState.FAILED and selector.matches(job.document, job.path.name, selector.folder)
        }
        statuses |= {Path(row.path): row.status for row in self._find_documents(selector)[0]}
        if not statuses:
            raise _no_document()
        unread = [path for path, status in statuses.items() if status is not DocumentStatus.READY]
        if not unread:
            raise Refusal(409, "The document has been read completely.", "There is nothing to try again.")
        path = min(unread)
        with self._wake:
            for job in (*self._waiting, *self._reading.values()):
                if job.path == path:
                    return job
        try:
            source = read_source(path)
        except OSError as error:
            raise Refusal(409, "The file is not there any more.", "Upload it again.") from error
        with self._placing:
            return self.submit(source.path, source.document, source.size, has_row=True)

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
            except (CollectionBusy, _IndexingFailed):
                self._back_off()
            except BaseException:
                log.exception("The uploads of %s cannot be read.", self.open_collection.name)
                self._is_recovered = True  # later uploads are indexed nevertheless
                self._end_interrupted({})

    def _back_off(self) -> None:
        self._pause = min(max(_MIN_PAUSE_SECONDS, 2 * self._pause), _MAX_PAUSE_SECONDS)
        self._not_before = time.monotonic() + self._pause

    def _index(self) -> None:
        """Index what is in the queue; it stays there if another process writes, or a task waits.

        Raises `_IndexingFailed` if the embedder or writing failed, and others wait.
        """
        try:
            add_live(self.open_collection.collection, self._take, self._produce, self._committed)
            self._settle_rest()
        except _Interrupted:
            self._requeue()
            raise
        except CollectionBusy:
            with self._wake:
                for job in self._waiting:
                    job.wait("Waiting: another process is writing to the collection.")
            raise
        except BaseException as error:  # a panic of the table's library is no Exception
            self._fail(error)
            if self.waiting:
                raise _IndexingFailed from error
        if self._indexed >= _COMPACT_FILES and not self.waiting:
            with suppress(CollectionBusy):
                compact(self.open_collection.collection)
                self._indexed = 0

    def _take(self) -> list[Path]:
        """Take the files that wait. Raises `_Interrupted` if reading has to end."""
        with self._wake:
            if self._is_interrupted:
                raise _Interrupted
            jobs, self._waiting = self._waiting, []
            for job in jobs:
                job.has_row = True
                self._reading[job.path] = job
        return [job.path for job in jobs]

    @property
    def _is_interrupted(self) -> bool:
        return self._stopping or bool(self._tasks) or self._is_replaced

    def _produce(
        self,
        sources: Iterator[SourceFile],
        items_dir: Path,
        options: CorpusOptions,
        have: Callable[[SourceFile], CollectionOf[int]],
    ) -> Generator[Made, None, None]:
        """Make items, and tell the jobs of them."""

        def begin(source: SourceFile) -> CollectionOf[int]:
            present = have(source)
            if job := self._reading.get(source.path):
                job.begin(len(present))
            return present

        with closing(self._producer(sources, items_dir, options, begin)) as making:
            for made in making:
                yield made
                if self._is_interrupted:  # after it was taken: nothing that was made is lost
                    raise _Interrupted
                if job := self._reading.get(made.source.path):
                    job.note(made)

    def _committed(self, document: Document, rows: int) -> None:
        """End the job of a document whose row is on disk."""
        self._pause = 0.0
        if job := self._reading.pop(Path(document.path), None):
            self._settle(job, KnownFile(document, rows))

    def _settle_rest(self) -> None:
        left, self._reading = self._reading, {}
        rows = read_manifest(self.open_collection.collection) if left else {}
        for path, job in left.items():
            self._settle(job, rows.get(os.fspath(path)))

    def _settle(self, job: UploadJob, row: KnownFile | None) -> None:
        with self._placing:  # a file that has its name has its job
            is_replaced = job.path in self._queued_paths()
            if not is_replaced:
                uploads.replaced_file(job.path).unlink(missing_ok=True)
        if is_replaced:
            job.replaced()
        else:
            collection = self.open_collection.collection
            collection.announced = collection.version  # before a client reads the job's state
            job.settle(row)
        self._indexed += 1
        self._end(job)

    def _end(self, job: UploadJob) -> None:
        """Note that a job has ended."""
        self.journal.save(job)
        self._ended(job.state.value)

    def _fail(self, error: BaseException) -> None:
        """End the jobs whose files were being read, or else the first one that waits; put the others back.

        One job ends at least, so that a fault that lasts ends them all.
        """
        subject = "The embedder" if isinstance(error, EmbedError) else "Writing to the collection"
        error_id = log_error(error, f"Indexing {self.open_collection.name}")
        reason = f"{subject} failed: the log has details under the id {error_id}."
        hint = "Try it again, or restart the server."
        if is_disk_full(error):
            reason = f"{subject} failed: the server's disk is full."
            hint = "Free some disk space, and try it again."
        with self._wake:
            running = [job for job in self._reading.values() if job.state is JobState.RUNNING]
            jobs = running or self._queue()[:1]
            self._reading = {path: job for path, job in self._reading.items() if job not in jobs}
            self._waiting = [job for job in self._waiting if job not in jobs]
        for job in jobs:
            job.fail(f"{reason} {hint}")
            self._end(job)
        self._requeue(f"Waiting: {subject[0].lower()}{subject[1:]} failed, and is tried again soon.")

    def _requeue(self, message: str = WAITING) -> None:
        with self._wake:
            jobs, self._reading = list(self._reading.values()), {}
            self._is_replaced = False
            again = {job.path for job in self._waiting}
            for job in jobs:
                if job.path in again:
                    job.replaced()
                else:
                    job.wait(message)
                    self._waiting.append(job)
        self.journal.save(*(job for job in jobs if job.over))

    def _queue(self) -> list[UploadJob]:
        """Return the jobs that wait, in the order in which they are read."""
        with self._wake:
            taken = [job for job in self._reading.values() if job.state is JobState.WAITING]
            return sorted([*taken, *self._waiting], key=lambda job: job.size)

    def _find_documents(self, selector: DocumentSelector) -> tuple[list[Document], list[UploadJob]]:
        """Find the rows, and the jobs that wait, of the files that are meant."""
        known = self.open_collection.collection.documents()
        with self._wake:
            waiting = list(self._waiting)
        folders = relative_folders(
            {*(row.path for row in known), *(os.fspath(job.path) for job in waiting)}, self.folder
        )
        rows = [row for row in known if selector.matches(row.id, row.name, folders[row.path])]
        jobs = [
            job
            for job in waiting
            if selector.matches(job.document, job.path.name, folders[os.fspath(job.path)])
        ]
        return rows, jobs

    def _remove(self, selector: DocumentSelector) -> None:
        rows, jobs = self._find_documents(selector)
        if not rows and not jobs:
            raise _no_document()
        self._delete(rows, jobs)
        for job in jobs:
            job.settle(None)

    def _delete(self, rows: list[Document], jobs: list[UploadJob]) -> None:
        """Delete rows with their uploaded files and items, and jobs that wait with their files."""
        with self._wake:
            self._waiting = [job for job in self._waiting if job not in jobs]
        files = {*(Path(row.path) for row in rows), *(job.path for job in jobs)}
        paths = {path for path in files if lies_in(os.fspath(path), self.folder)}
        hidden = uploads.hide_files(paths - self._queued_paths())  # what replaces a document stays
        try:
            if rows:
                remove(self.open_collection.collection, [row.path for row in rows])
        except BaseException:
            if not self._are_gone(rows):
                uploads.restore_files(hidden)
                with self._wake:
                    self._waiting += jobs
                raise
            log.exception("The rest of a removed document will be deleted with the next change.")
        for path in (*hidden.values(), *map(uploads.replaced_file, paths)):
            path.unlink(missing_ok=True)
        self.journal.erase(
            job for job in self.journal.all() if job in jobs or (job.over and job.path in paths)
        )
        if paths:
            sync(self.folder)  # else a file may be back after a loss of power, and be indexed again

    def _cancel(self, job: UploadJob) -> None:
        """Cancel an upload of which something may have been made."""
        if job not in self._waiting:
            raise Refusal(409, "The file has been read already.", "Remove the document instead.")
        collection = self.open_collection.collection
        row = read_manifest(collection).get(os.fspath(job.path))
        if row is None or row.document.status.served:  # what was made of it belongs to no row
            with collection.build():
                with self._wake:
                    self._waiting.remove(job)
                self._withdraw(job)
                settle(collection)
        else:
            self._delete([row.document], [job])
            job.cancel()
            self._ended(job.state.value)

    def _withdraw(self, job: UploadJob) -> None:
        """Delete the file of a job, or give the one that it replaced its name back."""
        row = read_manifest(self.open_collection.collection).get(os.fspath(job.path))
        with self._placing:
            if job.path not in self._queued_paths():
                uploads.withdraw(job.path, row.document if row else None)
        job.cancel()
        self.journal.erase([job])
        self._ended(job.state.value)

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
        own = {row.name: row for row in rows if lies_in(row.path, self.folder)}
        uploads.clear_replaced(
            self.folder, {name for name, row in own.items() if uploads.is_done(self.folder / name, row)}
        )
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
                        source = read_source(path)
                        self.submit(path, source.document, source.size, has_row=True)
        self._end_interrupted(read_manifest(self.open_collection.collection))
        if not self.waiting and not is_settled(self.open_collection.collection):  # else indexing does it
            with self.open_collection.collection.build():
                settle(self.open_collection.collection)
        self._is_recovered = True

    def _end_interrupted(self, rows: dict[str, KnownFile]) -> None:
        """End the jobs of an earlier server that need not, or cannot, be continued."""
        with self._placing:
            left, self.journal.interrupted = self.journal.interrupted, []
        for job in left:
            if job.path in self._queued_paths():  # by another job: its bytes are others now
                job.replaced()
            elif row := rows.get(os.fspath(job.path)):
                job.settle(row)
            elif job.path.exists():
                job.fail("The server was stopped before the file was read. Try it again.")
            else:
                job.fail("The server was stopped before the file was read, and it is gone. Upload it again.")
            self._end(job)

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


def _no_document() -> Refusal:
    return Refusal(404, "There is no such document in the collection.", "Reload the list.")
