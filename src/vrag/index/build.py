"""Adding files to a collection: new ones, changed ones, and those left over when it was stopped.

The process may be killed at any moment, and running it again gives what a clean build gives:

- A new file: its row is committed as pending, then its items in batches, the last of them together with its
  row as ready. What was killed in between is pending; the next run makes the items that have no row yet.
  Pictures are blobs that are on the disk before their row; those that no row came to name are collected.
- A changed file: its old row stands until all new items are in; the commit of the last of them switches
  from the old content to the new, since items count only if a row of the manifest refers to their document.
  Then the old items go. Killed before the switch, the next run goes on with the new items; killed after it,
  `settle` deletes the old ones.
- Removal: one commit.

One process reads documents at a time; the lock for writing is held for each commit alone. Readers see one
version per query and need no lock. Without `durable`, a loss of power may undo the last commits, never a
part of one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.corpus.converter import Converted, Failed, ItemCount, SourceFile
from vrag.corpus.discover import Skipped, change_time_ns, read_source
from vrag.errors import CollectionError, EmbedderFailedError
from vrag.index.content_stamps import ContentStamps
from vrag.index.maintenance import is_settled, settle
from vrag.index.manifest import (
    IndexPlan,
    IndexProgress,
    OpenDocument,
    ProgressMeter,
    Writer,
    is_done,
    make_plan,
    plan_sources,
    read_manifest,
)
from vrag.index.schema import KnownFile
from vrag.index.vectors.embed_items import Embedded, local
from vrag.item_facts import decode_facts
from vrag.types import ABSENT, Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.corpus.converter import CorpusOptions
    from vrag.embed.embedder import Embedder
    from vrag.index.collection import Collection
    from vrag.index.vectors.embed_items import Made, Producer

_BEGIN_SIZE = 64
"""Files that are marked as begun in one commit."""
_BEGIN_SECONDS = 1.0
"""Longest wait for such a batch to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """The result of an `add`. Every path that was found is counted."""

    added: int
    """Files that were not in the collection before and now are, in whole or in part."""
    changed: int
    """Files whose row existed and was rebuilt, in whole or in part."""
    failed: int
    """Files of this run of which nothing could be made; `problems` has the reasons."""
    unchanged: int
    """Files of the same content as before; most of them were not read."""
    items: int
    """Items that were made."""
    copies: int
    """Of the files that are new or changed, those with the content of another file: it was not read again."""
    problems: tuple[Document, ...]
    """Files found that failed, wholly or in part, now or earlier; with reasons."""
    skipped: tuple[Skipped, ...]
    """Paths that are no files to convert; with reasons. They are not recorded in the collection."""
    seconds: float


def add(
    collection: Collection,
    paths: Sequence[str | Path],
    options: CorpusOptions | None = None,
    *,
    embedder: Embedder | None = None,
    producer: Producer | None = None,
    progress: Callable[[IndexProgress], None] | None = None,
    retry_failed: bool = False,
    force_read: bool = False,
) -> AddReport:
    """Add files and folders to a collection, and finish what an earlier run left.

    Files that have not changed are not read; if none has, no document is written, and another process may be
    writing or the collection be write-protected. A file that fails is recorded with its reason and tried
    again when it changes. Stopped by Ctrl-C, it keeps what is done.

    Args:
        collection: The collection.
        paths: Files and folders, searched at any depth.
        options: How files become items; None for those the collection was built with.
        embedder: The one the collection was built with; None if none.
        producer: Makes the items, with vectors of that embedder; None to make them on this machine.
        progress: Receives the progress, at most ten times per second.
        retry_failed: Try files again that failed, wholly or in part, though they have not changed.
        force_read: Read files though their state has not changed; what has the same content is not made
            again.

    Raises:
        FingerprintMismatch: If options or embedder differ from those of the collection.
        CollectionBusy: If another process is writing, and any of the files is new or has changed.
        CollectionError: If the collection cannot be written: what was committed stays.
        EmbedderFailedError: If the embedder's server or device fails: what is done is kept, the rest pending.
    """
    options = options or collection.header.options
    collection.header.check_options(options)
    collection.header.check_embedder(embedder)
    build = _Build(collection, producer or local(embedder), options, retry_failed)

    def plan(known: Mapping[str, KnownFile], stamps: ContentStamps) -> IndexPlan:
        own = collection.directory
        return make_plan(paths, known, own, stamps, retry_failed=retry_failed, force_read=force_read)

    return build.run(plan, progress)


def add_sources(
    collection: Collection,
    sources: Sequence[Path | SourceFile],
    producer: Producer,
    *,
    progress: Callable[[IndexProgress], None] | None = None,
    retry_failed: bool = False,
) -> AddReport:
    """Add the named sources, in that order; otherwise like `add`.

    They are absolute paths of files, and `SourceFile`s of contents that have no file here: their modification
    time is `ABSENT`, and their path one that no other row of the manifest has. The producer makes vectors as
    the collection has them. Raises `CollectionBusy` if another process is writing, and anything is new, and
    `CollectionError` if the collection cannot be written: what was committed stays.
    """
    build = _Build(collection, producer, collection.header.options, retry_failed)

    def plan(known: Mapping[str, KnownFile], stamps: ContentStamps) -> IndexPlan:
        return plan_sources(sources, known, stamps, retry_failed=retry_failed)

    return build.run(plan, progress)


def add_live(
    collection: Collection,
    take: Callable[[], Sequence[Path]],
    producer: Producer,
    committed: Callable[[Document, int], None],
) -> None:
    """Add files that become known while others are read.

    `take` returns the absolute paths to add next, of files that no earlier call returned unless they have
    been committed since: none if there are none at the moment. It is called several times a second until it
    has none and all are done; a `KeyboardInterrupt` from it ends the run, as Ctrl-C does. `committed` is
    called with each document that is done, once it is on disk, and the number of its items. Files that failed
    before, wholly or in part, are tried again. The producer is live (`vrag.corpus.convert.convert_all`).
    Raises as `add_sources` does.
    """
    build = _Build(collection, producer, collection.header.options, retry_failed=True, committed=committed)
    build.run_live(take)


class _Build:
    """One run over the files that need work."""

    def __init__(
        self,
        collection: Collection,
        producer: Producer,
        options: CorpusOptions,
        retry_failed: bool,
        committed: Callable[[Document, int], None] | None = None,
    ) -> None:
        self._collection = collection
        self._producer = producer
        self._options = options
        self._retry_failed = retry_failed
        self._committed = committed
        self._stamps = ContentStamps(collection.store)
        self._added = self._changed = self._failed = self._unchanged = 0
        self._items = self._copies = 0
        self._ordinals_by_document: dict[str, set[int]] = {}
        """Ordinals of the existing items of each document that is not complete."""
        self._open: dict[str, OpenDocument] = {}
        self._retry_sources: list[SourceFile] = []
        """Files with the bytes of one that failed under another suffix."""

    def run(
        self,
        make: Callable[[Mapping[str, KnownFile], ContentStamps], IndexPlan],
        progress: Callable[[IndexProgress], None] | None,
    ) -> AddReport:
        """Plan, take the lock if there is anything to do, and do it.

        Work left by interrupted runs is finished if the lock is free, and left for later otherwise: a process
        that is doing it right now holds the lock, and a collection may be read-only.
        """
        started = time.monotonic()
        with ExitStack() as stack:
            known = read_manifest(self._collection)
            plan = make(known, self._stamps)
            has_changes = plan.unchanged < len(plan.found)
            writing = has_changes or bool(plan.todo) or not is_settled(self._collection)
            if writing:
                try:
                    self._begin_writing(stack, wait=None if has_changes else 0.0)
                except CollectionError:
                    if has_changes:
                        raise
                    writing = False
            if writing:  # another process may have written since
                known = read_manifest(self._collection)
                plan = make(known, self._stamps)
            self._meter = ProgressMeter(progress, len(plan.todo) if writing else 0)
            self._read_known(known)
            if writing and plan.todo:
                self._write(self._read(plan.todo))
            if writing:
                settle(self._collection)
        self._empty_log()
        self._meter.close()
        documents = (self._manifest[path] for path in plan.found if path in self._manifest)
        return AddReport(
            added=self._added,
            changed=self._changed,
            failed=self._failed,
            unchanged=plan.unchanged + self._unchanged,
            items=self._items,
            copies=self._copies,
            problems=tuple(document for document in documents if document.reason),
            skipped=plan.skipped,
            seconds=time.monotonic() - started,
        )

    def run_live(self, take: Callable[[], Sequence[Path]]) -> None:
        """Take the lock, and add files until there are no more."""
        with ExitStack() as stack:
            self._begin_writing(stack)
            self._meter = ProgressMeter(None, 0)
            self._read_known(read_manifest(self._collection))
            self._write(_LiveSources(lambda: self._take(take)))
            settle(self._collection)
            self._empty_log()

    def _empty_log(self) -> None:
        """Remember the states of files, and empty the log where that can be done at once."""
        self._stamps.save(self._manifest.keys())
        with suppress(CollectionError):
            self._collection.store.database.checkpoint(0)

    def _begin_writing(self, stack: ExitStack, wait: float | None = None) -> None:
        self._staging = stack.enter_context(self._collection.build(wait))
        self._writer = Writer(self._collection, self._staging, self._committed)

    def _take(self, take: Callable[[], Sequence[Path]]) -> list[SourceFile]:
        """Take files; return those whose content has to be made."""
        assert self._committed is not None
        self._writer.tick()
        todo: list[Path] = []
        for path in take():
            document = self._manifest.get(os.fspath(path))
            known = self._complete.get(document.id) if document else None
            if document and known and is_done(path, document, self._stamps, retry_failed=True):
                self._committed(document, known.rows)
            else:
                todo.append(path)
        return list(self._read(todo))

    def _read_known(self, known: Mapping[str, KnownFile]) -> None:
        self._manifest = {path: entry.document for path, entry in known.items()}
        self._complete = {
            e.document.id: e
            for e in known.values()
            if e.document.status is DocumentStatus.READY
            or (e.document.status.served and not self._retry_failed)
        }
        self._hash_by_prefix = {e.document.id[:16]: e.document.id for e in known.values() if e.document.id}
        self._partial: dict[str, list[str]] = {}
        """Paths of partial contents."""
        for path, entry in known.items():
            if entry.document.status is DocumentStatus.PARTIAL:
                self._partial.setdefault(entry.document.id, []).append(path)

    def _write(self, sources: Iterator[SourceFile]) -> None:
        """Make all items of the sources, and commit them."""
        rows = self._collection.store.read_items(["document", "ordinal", "facts"])
        for document, ordinal, facts in rows.values:
            if document not in self._complete and not decode_facts(facts).unread:
                self._ordinals_by_document.setdefault(document, set()).add(ordinal)
        try:
            self._convert(sources)
            while self._retry_sources:
                waiting, self._retry_sources = self._retry_sources, []
                self._convert(self._begin(filter(self._is_new, waiting)))
        except KeyboardInterrupt:
            self._writer.flush()
            raise
        except EmbedderFailedError as error:
            self._writer.flush()
            advice = "What is done is kept: add the same files again to continue."
            raise EmbedderFailedError(error.message, f"{error.hint} {advice}".strip()) from error
        self._writer.flush()

    def _convert(self, sources: Iterator[SourceFile]) -> None:
        made = self._producer(sources, self._staging, self._options, self._existing_ordinals)
        with closing(made):
            for result in made:
                self._handle_result(result)

    def _read(self, todo: Iterable[Path | SourceFile]) -> Iterator[SourceFile]:
        """Hash files; yield those whose content has to be made, once they are marked as begun.

        A file that cannot be read is recorded as failed.
        """
        batch: list[SourceFile] = []
        since = time.monotonic()
        for entry in todo:
            try:
                source = entry if isinstance(entry, SourceFile) else self._read_file(entry)
            except OSError as error:
                path = entry.path if isinstance(entry, SourceFile) else entry
                reason = f"It cannot be read: {error.strerror or error}."
                name = os.fsencode(path.name).decode("utf-8", "replace")
                self._meter.failed(name)
                self._record(_row(SourceFile(path, "", name, 0, 0), DocumentStatus.FAILED, reason=reason), 0)
            else:
                if self._is_recorded(source):
                    self._unchanged += 1
                    self._meter.finished()
                elif self._is_new(source):
                    batch.append(source)
            if len(batch) >= _BEGIN_SIZE or time.monotonic() - since >= _BEGIN_SECONDS:
                yield from self._begin(batch)
                batch, since = [], time.monotonic()
        yield from self._begin(batch)

    def _read_file(self, path: Path) -> SourceFile:
        source = read_source(path)
        self._stamps.add(source)
        return source

    def _is_recorded(self, source: SourceFile) -> bool:
        """Return whether the manifest is complete for a file that was read only to compare its content."""
        known = self._manifest.get(os.fspath(source.path))
        if known is None or (known.size, known.mtime_ns) != (source.size, source.mtime_ns):
            return False
        return is_done(source, known, self._stamps, retry_failed=self._retry_failed)

    def _is_new(self, source: SourceFile) -> bool:
        """Return whether the content is new; record the file of a known content."""
        content = source.document
        if self._hash_by_prefix.setdefault(content[:16], content) != content:
            reason = "Its hash begins like that of another file."
            self._record(_row(source, DocumentStatus.FAILED, reason=reason), 0)
        elif content in self._complete and not self._is_tried_again(content):
            duplicate = self._complete[content].document
            row = _row(source, duplicate.status, duplicate.items, duplicate.reason)
            self._record(row, self._complete[content].rows)
            self._copies += duplicate.path != os.fspath(source.path)
        elif content in self._open:
            self._open[content].duplicates.append(source)
        else:
            self._open[content] = OpenDocument(source)
            return True
        return False

    def _is_tried_again(self, content: str) -> bool:
        """Return whether a content is partial that was made in this run, and the rest of it wanted again."""
        if self._committed is None or self._complete[content].document.status is not DocumentStatus.PARTIAL:
            return False
        del self._complete[content]
        self._partial[content] = [path for path, row in self._manifest.items() if row.id == content]
        self._writer.flush()
        rows = self._collection.store.read_items(["ordinal", "facts"], "document = ?", [content])
        self._ordinals_by_document[content] = {
            ordinal for ordinal, facts in rows.values if not decode_facts(facts).unread
        }
        return True

    def _begin(self, sources: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """Mark files as begun, unless an older content of theirs is being served meanwhile."""
        batch = list(sources)
        known = (self._manifest.get(os.fspath(source.path)) for source in batch)
        fresh = [s for s, row in zip(batch, known, strict=True) if row is None or not row.status.served]
        self._writer.begin(_row(source, DocumentStatus.PENDING) for source in fresh)
        yield from batch

    def _existing_ordinals(self, source: SourceFile) -> set[int]:
        return self._ordinals_by_document.get(source.document, set())

    def _handle_result(self, made: Made) -> None:
        source = made.source
        document = self._open[source.document]
        match made:
            case ItemCount(items=items):
                present = len(self._existing_ordinals(source))
                document.count(items, present)
                self._meter.counted(source.name, items, present)
            case Converted(item=item) | Embedded(item=item):
                document.add_item(item)
                self._items += 1
                self._writer.item(item, made.vector if isinstance(made, Embedded) else None)
                self._meter.made(source.name)
            case Failed(ordinal=ordinal, reason=reason):
                document.fail(ordinal, reason)
                self._meter.failed(source.name)
            case _:
                self._finish(document)

    def _finish(self, document: OpenDocument) -> None:
        """Record a document that is complete, for each file that has this content."""
        first = document.source
        content = first.document
        del self._open[content]
        is_same = first.mtime_ns == ABSENT or _is_as_read(first)
        if not is_same:
            self._writer.discard(content)
            document.spoil("It changed while it was being read. Add it again.")
        status, reason = document.outcome()
        for source in (first, *document.duplicates):
            is_another = source.path.suffix.lower() != first.path.suffix.lower()  # another format may work
            if status is DocumentStatus.FAILED and (is_another or not (is_same or source is first)):
                self._retry_sources.append(source)
            else:
                self._record(_row(source, status, document.items, reason), document.rows)
                self._copies += source is not first and status.served
        for path in self._partial.pop(content, ()):  # tried again because of another path
            before = self._manifest[path]
            if before.id == content and status.served:
                now = self._complete[content]
                after = replace(before, status=status, items=now.document.items, reason=now.document.reason)
                if after != before:
                    self._manifest[path] = after
                    self._writer.document(after, now.rows)

    def _record(self, document: Document, rows: int) -> None:
        before = self._manifest.get(document.path)
        if not document.status.served:
            self._failed += 1
        elif before is None or before.status is DocumentStatus.PENDING:
            self._added += 1
        else:
            self._changed += 1
        self._manifest[document.path] = document
        if document.status.served:
            self._complete[document.id] = KnownFile(document, rows)
        self._writer.document(document, rows)
        self._meter.finished()


class _LiveSources:
    """An iterator over the sources that there are at the moment; it goes on when there are more."""

    def __init__(self, take: Callable[[], list[SourceFile]]) -> None:
        self._take = take
        self._sources: deque[SourceFile] = deque()

    def __iter__(self) -> _LiveSources:
        return self

    def __next__(self) -> SourceFile:
        self._sources.extend(self._take())
        if not self._sources:
            raise StopIteration
        return self._sources.popleft()


def _is_as_read(source: SourceFile) -> bool:
    """Return whether a file still has the content with which it was read."""
    try:
        now = source.path.stat()
        if (now.st_size, now.st_mtime_ns) != (source.size, source.mtime_ns):
            return False
        state = change_time_ns(now), now.st_ino
        is_known = not source.ctime_ns or state == (source.ctime_ns, source.inode)
        return is_known or read_source(source.path).document == source.document
    except OSError:
        return False


def _row(source: SourceFile, status: DocumentStatus, items: int = 0, reason: str = "") -> Document:
    return Document(
        path=os.fspath(source.path),
        id=source.document,
        name=source.name,
        size=source.size,
        mtime_ns=source.mtime_ns,
        status=status,
        items=items,
        reason=reason,
    )
