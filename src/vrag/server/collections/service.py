"""The collections of a server as its clients manage them: list, create, upload, remove, delete."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from vrag.agent.suggestions import QuestionSuggester
from vrag.corpus.convert import find_missing_software
from vrag.errors import CollectionBusy, CollectionError, SettingsError
from vrag.item_facts import decode_facts
from vrag.server.collections import registry
from vrag.server.collections.files import SUFFIXES, DocumentSelector, safe_name, suffix_of
from vrag.server.collections.index_worker import IndexWorker
from vrag.server.collections.jobs import Jobs, UploadJob, UploadJobInfo, has_interrupted_jobs
from vrag.server.collections.listing import list_documents
from vrag.server.collections.questions import QuestionMaker, SuggestedQuestions
from vrag.server.collections.registry import CollectionSet, OpenCollection
from vrag.server.collections.uploads import (
    IncomingUpload,
    UploadLimits,
    receive,
    uploads_of,
)
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions

log = logging.getLogger("vrag.server")
T = TypeVar("T")
_PART_COLUMNS = ("id", "kind", "ordinal", "width", "height", "clip_start", "clip_end", "facts")
_NAMED = "It was named when the server started: only collections created through the server can be deleted."


class CollectionService:
    """Manages the collections of a server. Belongs to one event loop between `start` and `close`.

    `options` limit each file, `limits` all uploads together. Unknown collections are refused (404).
    `suggester` makes questions about documents, while nothing else `is_busy`.
    """

    def __init__(
        self,
        collections: CollectionSet,
        options: ServerOptions,
        limits: UploadLimits | None = None,
        metrics: ServerMetrics | None = None,
        *,
        suggester: QuestionSuggester | None = None,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._collections = collections
        self._options = options
        self._limits = limits or UploadLimits()
        self._ended: Callable[[str], None] = metrics.upload_ended if metrics else lambda _: None
        self._threads = Threads(4, "vrag-uploads")  # they wait for disks, not processors
        self._workers: dict[str, IndexWorker] = {}
        self._lock = threading.Lock()
        self._questions = QuestionMaker(lambda: is_busy() or self._is_reading, suggester)

    @property
    def _is_reading(self) -> bool:
        """True if a file waits or is read."""
        return any(not job.over for worker in list(self._workers.values()) for job in worker.journal.all())

    async def start(self) -> None:
        """Continue what an earlier server left unfinished, in threads."""
        for open_collection in self._collections.open_collections:
            folder = uploads_of(open_collection)
            has_work = folder.is_dir() or has_interrupted_jobs(self._options.state, folder)
            if open_collection.writable and has_work:
                self._start_worker(open_collection)

    async def close(self, seconds: float) -> None:
        """Stop indexing: finished documents are kept, the rest is continued at the next start.

        A thread that is still busy after `seconds` is abandoned; it ends with the process, which loses only
        the work since the last commit.
        """
        self._questions.stop()
        workers = list(self._workers.values())
        for worker in workers:
            worker.stop()
        joined = [asyncio.to_thread(worker.join, seconds) for worker in workers]
        ended = await asyncio.gather(self._threads.close(seconds), *joined)
        if not all(ended[1:]):
            log.warning("Indexing is still busy after %g s and is left behind.", seconds)
        self._workers = {}

    def collections(self) -> registry.Collections:
        """List the collections. Blocks."""
        open_collections = self._collections.open_collections
        return registry.Collections(
            collections=[_info(open_collection) for open_collection in open_collections],
            creatable=bool(open_collections) and open_collections[0].writable,
            reason=self._collections.absent or None,
        )

    def active_jobs(self) -> list[UploadJobInfo]:
        """List the uploads of all collections that are not over."""
        workers = list(self._workers.values())
        return [job for worker in workers for job in worker.describe_jobs(only_open=True)]

    def documents(self, name: str, offset: int = 0, limit: int = 10_000) -> registry.Documents:
        """List the files of a collection by name, with those that wait to be indexed. Blocks."""
        open_collection, worker = self._find_collection(name), self._workers.get(name)
        files = list_documents(open_collection, worker.journal.all() if worker else ())
        return registry.Documents(documents=files[offset : offset + limit], total=len(files))

    def document(self, id: str) -> registry.DocumentPages:
        """Return a document with its items, from the first collection that has it. Blocks.

        Raises `CollectionError` if none that can be read has it, and one cannot be read.
        """
        self._check_present()
        fault: CollectionError | None = None
        for open_collection in self._collections.open_collections:
            try:
                if found := _pages(open_collection, id):
                    return found
            except CollectionError as error:
                if open_collection in self._collections.open_collections:  # else it was deleted meanwhile
                    fault = error
        if fault is not None:
            raise fault
        raise Refusal(404, "There is no such document.", "It may have been removed: reload the list.")

    def questions(self, name: str, document: str | None, most: int) -> SuggestedQuestions:
        """Return up to `most` suggested questions about a document, or all of a collection. Blocks."""
        return self._questions.questions(self._find_collection(name), document, most)

    def suggested_texts(self, name: str | None, most: int = 12) -> list[str]:
        """Return the texts of suggested questions about a collection, or about all in turn. Blocks.

        Collections that cannot be read, or are gone, have none.
        """
        names = [name] if name else [each.name for each in self._collections.open_collections]
        found: list[list[str]] = []
        for each in names:
            with suppress(CollectionError, Refusal):
                found.append([question.text for question in self.questions(each, None, most).questions])
        return [text for turn in zip_longest(*found) for text in turn if text is not None]

    async def create(self, name: str) -> registry.CollectionInfo:
        """Create a collection. Raises `Refusal` if that is not possible here, or the name is taken (409)."""
        self._check_present()
        open_collection = await self._change(lambda: self._collections.create(name))
        return await self._threads.run(partial(_info, open_collection))

    async def drop(self, name: str) -> None:
        """Delete a collection that was made by `create`, with all that is in it; others are refused (409)."""
        open_collection = self._find_collection(name)
        if not open_collection.removable:
            message = f"The collection {name} cannot be deleted through the server."
            raise Refusal(409, message, open_collection.reason or _NAMED)
        await self._change(partial(self._drop, open_collection))

    def jobs(self, name: str, *, only_open: bool = False) -> Jobs:
        """List the uploads of a collection, the newest first."""
        self._find_collection(name)
        worker = self._workers.get(name)
        return Jobs(jobs=worker.describe_jobs(only_open=only_open) if worker else [])

    def job(self, id: str) -> UploadJobInfo:
        """Return an upload. Raises `Refusal` if there is none of this id, or it was forgotten (404)."""
        worker, job = self._find_job(id)
        return worker.describe_job(job)

    async def cancel(self, id: str) -> None:
        """Cancel an upload that has not been read completely. Raises `Refusal` as `IndexWorker.cancel`."""
        worker, job = self._find_job(id)
        await asyncio.wrap_future(await self._threads.run(partial(worker.cancel, job)))

    async def retry(
        self, name: str, document: str, file: str | None = None, folder: str | None = None
    ) -> UploadJobInfo:
        """Read a document again that could not be read, wholly or in part. The names are those of `remove`.

        Raises `Refusal` if there is no such document (404), and if it was read completely, or its file is
        gone (409).
        """
        worker = self._start_worker(self._writable(name))
        selector = DocumentSelector(document, file, folder)
        return worker.describe_job(await self._threads.run(partial(worker.retry, selector)))

    def _find_job(self, id: str) -> tuple[IndexWorker, UploadJob]:
        for worker in list(self._workers.values()):
            if job := worker.journal.get(id):
                return worker, job
        hint = "Old uploads are forgotten: see the documents of the collection."
        raise Refusal(404, "There is no such upload.", hint)

    def has_upload(self, name: str, file: str) -> bool:
        """Return whether a collection has an uploaded file of a name, which another one would replace."""
        return (uploads_of(self._find_collection(name)) / safe_name(file)).exists()

    async def upload(
        self, name: str, file: str, body: AsyncIterator[bytes], length: int | None
    ) -> UploadJobInfo:
        """Store a file, replacing the one of its name, and queue it for indexing.

        `length` is its length in bytes, if the client stated it.

        Raises `Refusal` if the collection is read-only (409), the file has the wrong type (415) or is too
        long (413), the disk is full (507) or the queue is (503).
        """
        open_collection = self._writable(name)
        suffix, max_bytes = suffix_of(file), self._options.upload_bytes
        if suffix not in SUFFIXES:
            kind = f"Files of type {suffix[:20]}" if suffix else "Files without a suffix"
            raise Refusal(415, f"{kind} are not supported.", f"Supported types: {', '.join(SUFFIXES)}")
        for software in find_missing_software():
            if suffix in software.suffixes:
                message = f"This server cannot read {suffix} files: {software.name} is not installed on it."
                hint = f"The administrator of this server can install it: {software.install}"
                raise Refusal(415, message, hint)
        if length is not None and length > max_bytes:
            raise Refusal(413, f"The file is longer than {max_bytes:,} bytes.", "Split it into several.")
        worker = self._start_worker(open_collection)
        if worker.waiting >= self._limits.waiting:
            raise Refusal(503, "Too many files wait to be indexed.", "Try again when some are done.")
        part = IncomingUpload(worker.folder / safe_name(file), self._limits)
        job = await receive(body, part, max_bytes, self._threads, worker.place)
        return worker.describe_job(job)

    def remove(
        self, name: str, document: str, file: str | None = None, folder: str | None = None
    ) -> asyncio.Future[None]:
        """Remove a document; an uploaded file is deleted with it, others stay where they are.

        `file` and `folder` are those of `DocumentInfo`, to remove only one of several files with this
        content. The future raises `Refusal` (404) if there is no such document, and `CollectionBusy` if
        another process is writing.
        """
        selector = DocumentSelector(document, file, folder)
        return asyncio.wrap_future(self._start_worker(self._writable(name)).remove(selector))

    async def _change(self, change: Callable[[], T]) -> T:
        """Create or delete a collection, in a thread."""
        try:
            return await self._threads.run(change)
        except (SettingsError, CollectionBusy) as error:
            raise Refusal(409, error.message, error.hint) from error

    def _drop(self, open_collection: OpenCollection) -> None:
        worker = self._start_worker(open_collection)

        def drop() -> None:
            self._collections.drop(open_collection.name)
            self._questions.forget(open_collection.collection)
            worker.journal.erase(worker.journal.all())

        dropped = worker.end_with(drop)
        try:
            dropped.result(self._limits.stop_seconds)
        except TimeoutError:
            if dropped.cancel():
                message = "A document is being indexed at the moment."
                raise CollectionBusy(message, "Try again in a minute.") from None
            dropped.result()
        with self._lock:
            if self._workers.get(open_collection.name) is worker:
                del self._workers[open_collection.name]

    def _start_worker(self, open_collection: OpenCollection) -> IndexWorker:
        """Return the worker of a collection; a new one if a new collection has the name of a deleted one."""
        with self._lock:
            worker = self._workers.get(open_collection.name)
            if worker is None or worker.open_collection.collection is not open_collection.collection:
                if worker is not None:
                    worker.stop()
                worker = self._workers[open_collection.name] = IndexWorker(
                    open_collection, self._ended, self._options.state
                )
            return worker

    def _check_present(self) -> None:
        if self._collections.absent:
            raise Refusal(409, self._collections.absent, "Manage documents there.")

    def _find_collection(self, name: str) -> OpenCollection:
        self._check_present()
        for open_collection in self._collections.open_collections:
            if open_collection.name == name:
                return open_collection
        raise Refusal(404, "There is no such collection.", "Reload the list of documents.")

    def _writable(self, name: str) -> OpenCollection:
        open_collection = self._find_collection(name)
        if not open_collection.writable:
            message = f"The collection {name} does not accept documents here."
            raise Refusal(409, message, open_collection.reason)
        return open_collection


def _info(open_collection: OpenCollection) -> registry.CollectionInfo:
    """Describe a collection; an unreadable one is marked, so that the others can still be listed."""
    try:
        counts, fault = registry.count_collection(open_collection.collection), ""
    except CollectionError as error:
        log.warning("The collection %s cannot be read: %s", open_collection.name, error)
        counts = registry.CollectionCounts()
        fault = "Its folder does not exist any more: it was moved or deleted, or its disk is not mounted."
        if open_collection.collection.directory.is_dir():
            fault = "It cannot be read at the moment: the server's log has the reason."
    mark = open_collection.collection.header.embedder
    return registry.CollectionInfo(
        name=open_collection.name,
        documents=counts.documents,
        items=counts.items,
        readable=not fault,
        writable=open_collection.writable and not fault,
        removable=open_collection.removable,
        embedder=mark.name if mark else None,
        reason=fault or open_collection.reason or None,
    )


def _pages(open_collection: OpenCollection, id: str) -> registry.DocumentPages | None:
    """Return a document with its items; None where the collection serves none of this id."""
    collection = open_collection.collection
    files = [file.document for file in collection.store.files("document = ?", [id])]
    served = sorted(document.name for document in files if document.status.served)
    if not served:
        return None
    rows = collection.store.read_items(_PART_COLUMNS, "document = ?", [id]).records()
    parts = [
        registry.DocumentPart(
            start=row.pop("clip_start"),
            end=row.pop("clip_end"),
            page_label=decode_facts(row.pop("facts")).label or None,
            **row,
        )
        for row in sorted(rows, key=lambda row: row["ordinal"])
    ]
    return registry.DocumentPages(id=id, name=served[0], collection=open_collection.name, items=parts)
