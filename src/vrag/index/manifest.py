"""The manifest of a collection during a build: the plan of what to do, the progress, and the writer.

The plan compares files on disk with the manifest; it hashes those whose state has changed. The writer commits
items and documents in few commits and in the right order.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.corpus.discover import Skipped, find
from vrag.index.store import store_files, store_vectors
from vrag.item_facts import describe_unread
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.corpus.converter import SourceFile
    from vrag.index.collection import Collection
    from vrag.index.content_stamps import ContentStamps
    from vrag.index.schema import KnownFile
    from vrag.types import Document, Item, ItemKind


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The files that an `add` has to process."""

    found: tuple[str, ...]
    """Every file found, by absolute path."""
    todo: tuple[Path | SourceFile, ...]
    """Files that are new, have changed, were begun, or are to be tried again."""
    unchanged: int
    """Files found that need nothing: their content is that in the manifest."""
    skipped: tuple[Skipped, ...]
    """Paths that are no files to convert, with reasons."""


def read_manifest(collection: Collection) -> dict[str, KnownFile]:
    """Read the rows of the manifest, by path."""
    return {file.document.path: file for file in collection.store.files()}


def make_plan(
    paths: Sequence[str | Path],
    known: Mapping[str, KnownFile],
    own: Path,
    stamps: ContentStamps,
    *,
    retry_failed: bool,
    force_read: bool = False,
) -> IndexPlan:
    """Compare files and folders with the manifest.

    Files that an earlier `add` began and did not finish are continued wherever they are. The pictures in
    `own`, the collection's directory, are no documents. With `retry_failed`, files that failed, wholly or in
    part, are tried again unchanged. With `force_read`, all files are to be read.
    """
    skipped: dict[Path, Skipped] = {}
    todo: dict[str, Path] = {}
    found: list[str] = []
    for path in find([Path(path) for path in paths]):
        if (path.path if isinstance(path, Skipped) else path).is_relative_to(own):
            skipped[own] = Skipped(own, "It is the collection itself.")
        elif isinstance(path, Skipped):
            skipped[path.path] = path
        else:
            name = os.fspath(path)
            found.append(name)
            document = _document(known, name)
            if force_read or not is_done(path, document, stamps, retry_failed=retry_failed):
                todo[name] = path
    unchanged = len(found) - len(todo)
    for name, entry in known.items():
        begun = entry.document.status is DocumentStatus.PENDING
        if begun and name not in todo and os.path.isfile(name):  # noqa: PTH113 - any bytes
            todo[name] = Path(name)
    return IndexPlan(tuple(found), tuple(todo.values()), unchanged, tuple(skipped.values()))


def plan_sources(
    sources: Sequence[Path | SourceFile],
    known: Mapping[str, KnownFile],
    stamps: ContentStamps,
    *,
    retry_failed: bool,
) -> IndexPlan:
    """Compare absolute paths of files, and contents that have no file, with the manifest."""
    found = [os.fspath(source if isinstance(source, Path) else source.path) for source in sources]
    todo = [
        source
        for source, path in zip(sources, found, strict=True)
        if not is_done(source, _document(known, path), stamps, retry_failed=retry_failed)
    ]
    return IndexPlan(tuple(found), tuple(todo), len(found) - len(todo), ())


def _document(known: Mapping[str, KnownFile], path: str) -> Document | None:
    return known[path].document if path in known else None


def is_done(
    source: Path | SourceFile, document: Document | None, stamps: ContentStamps, *, retry_failed: bool
) -> bool:
    """Return whether the manifest is complete for a file, or for a content without one.

    A file of the same size and modification time is hashed where the rest of its state has changed.
    """
    if document is None:
        return False
    match document.status:
        case DocumentStatus.PENDING:
            return False
        case DocumentStatus.FAILED | DocumentStatus.PARTIAL if retry_failed:
            return False
        case _ if isinstance(source, Path):
            return stamps.is_unchanged(source, document)
        case _:
            return source.document == document.id


def has_same_time(path: Path, document: Document) -> bool:
    """Check whether size and modification time are those of the manifest, of a file that only vrag writes."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (document.size, document.mtime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProgress:
    """A moment of a build."""

    files_done: int
    files: int
    """Files that are new or have changed."""
    items_done: int
    items: int
    """Items known so far: of files not yet opened the number is unknown."""
    failed: int
    """Files and items that could not be made."""
    rate: float
    """Items per second over the last half minute."""
    share: float
    """Estimated part of the work that is done, from 0 to 1. It never falls while more items become known."""
    remaining_seconds: float | None
    """None until it can be known: after some seconds and items, with all files opened or several finished.
    Files not yet opened count as the mean of those that were."""
    current: str
    """Name of the last file."""


class ProgressMeter:
    """A counter of `files` to do, which reports at most every tenth of a second of a monotonic clock."""

    WINDOW = 30.0
    """Seconds over which the rate is taken."""
    INTERVAL = 0.1
    """Seconds between reports."""
    KNOWN_SECONDS, KNOWN_ITEMS, KNOWN_FILES = 3.0, 5, 3
    """The time, the items and the finished files (or all of them) from which the remaining time is known."""

    def __init__(
        self,
        report: Callable[[IndexProgress], None] | None,
        files: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._clock = clock
        self._files = files
        self._files_done = self._items_done = self._failed = 0
        self._items = self._counted = 0
        self._share = 0.0
        self._current = ""
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._last = float("-inf")

    def counted(self, name: str, items: int, present: int) -> None:
        """Count a file that was opened; so many of its items are present already."""
        self._current = name
        self._items += items
        self._counted += 1
        self._items_done += present
        # What is already there costs no time: it must not count as speed.
        self._samples = deque((moment, done + present) for moment, done in self._samples)
        self._update()

    def made(self, name: str) -> None:
        """Count an item that was made."""
        self._current = name
        self._items_done += 1
        self._update()

    def failed(self, name: str) -> None:
        """Count a file or an item that could not be made."""
        self._current = name
        self._failed += 1
        self._update()

    def finished(self, files: int = 1) -> None:
        """Count files that are done."""
        self._files_done += files
        self._update()

    def close(self) -> None:
        """Report the end."""
        self._update(force=True)

    @property
    def progress(self) -> IndexProgress:
        """This moment."""
        since, done = self._samples[0]
        seconds = self._clock() - since
        rate = (self._items_done - done) / seconds if seconds > 0 else 0.0
        is_done = self._files_done >= self._files
        expected = self._expected_items()
        if is_done or expected:
            self._share = max(self._share, 1.0 if is_done else min(self._items_done / expected, 1.0))
        left = expected - self._items_done
        remaining = None
        if is_done:
            remaining = 0.0
        elif left > 0 and self._is_known(seconds, self._items_done - done):
            remaining = left / rate
        return IndexProgress(
            files_done=self._files_done,
            files=self._files,
            items_done=self._items_done,
            items=self._items,
            failed=self._failed,
            rate=rate,
            share=self._share,
            remaining_seconds=remaining,
            current=self._current,
        )

    def _expected_items(self) -> float:
        """Estimate the number of all items; 0 before a file was opened."""
        if not self._counted:
            return 0.0
        unopened = max(self._files - max(self._counted, self._files_done), 0)
        return self._items + unopened * self._items / self._counted

    def _is_known(self, seconds: float, items: int) -> bool:
        """Return whether the remaining time can be known, after some items in some seconds."""
        files = self._counted >= self._files or self._files_done >= self.KNOWN_FILES
        return files and seconds >= self.KNOWN_SECONDS and items >= self.KNOWN_ITEMS

    def _update(self, *, force: bool = False) -> None:
        now = self._clock()
        if not force and now - self._last < self.INTERVAL:
            return
        self._last = now
        self._samples.append((now, self._items_done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self.WINDOW:
            self._samples.popleft()
        if self._report is not None:
            self._report(self.progress)


@dataclass
class OpenDocument:
    """A content that is being converted."""

    source: SourceFile
    duplicates: list[SourceFile] = field(default_factory=list["SourceFile"])
    """Other files with the same bytes."""
    items: int = 0
    """Number of items of the content; 0 until it is opened."""
    rows: int = 0
    """Number of its stored items, those of earlier runs included."""
    _failure: str | None = None
    """The reason why the whole file failed; None until it is opened, then empty."""
    _failures: dict[int, str] = field(default_factory=dict[int, str])
    """Reasons by ordinal of the item."""
    _unread: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """What items show and their texts lack, by ordinal."""
    _kinds: dict[int, ItemKind] = field(default_factory=dict[int, "ItemKind"])
    """Kinds of the items that were made, by ordinal."""

    def count(self, items: int, present: int) -> None:
        """Set the number of items, now that it is opened, and how many are present already."""
        self._failure = self._failure or ""
        self.items = items
        self.rows += present

    def fail(self, ordinal: int | None, reason: str) -> None:
        """Record that an item, or with None the whole file, could not be made."""
        if ordinal is None:
            self._failure = reason
        else:
            self._failures[ordinal] = reason

    def add_item(self, item: Item) -> None:
        """Count an item that was made."""
        self.rows += 1
        self._kinds[item.ordinal] = item.kind
        if item.facts.unread:
            self._unread[item.ordinal] = item.facts.unread

    def spoil(self, reason: str) -> None:
        """Discard what was made of it."""
        self.items = self.rows = 0
        self._failure = reason
        self._failures, self._unread = {}, {}

    def outcome(self) -> tuple[DocumentStatus, str]:
        """Return status and reason, now that nothing more comes.

        The reason has a line for each thing that is missing.
        """
        missing = self.items - self.rows - len(self._failures)
        failures = {ordinal: (reason,) for ordinal, reason in self._failures.items()}
        lines = describe_unread(self._unread | failures, self._kinds, self.items)
        if missing > 0 and not self._failures:
            lines.append(f"{missing} of {self.items} are missing without a reason.")
        reason = "Nothing came of it." if self._failure is None else self._failure or "\n".join(lines)
        if not reason:
            return DocumentStatus.READY, ""
        return (DocumentStatus.PARTIAL if self.rows else DocumentStatus.FAILED), reason


class Writer:
    """A writer that collects items and documents and commits them together, in few commits.

    The caller holds the lock of the build; each commit takes that of writing.
    """

    ITEMS = 256
    """Items that wait for a commit at most."""
    DOCUMENTS = 256
    """Documents that wait for a commit at most."""
    NUMBERS = 16 * 2**20
    """Numbers of vectors that wait for a commit at most: some hundred pages of late interaction."""
    SECONDS = 1.0
    """Longest wait for a commit, as long as more rows come."""
    DOCUMENT_SECONDS = 0.5
    """Longest wait of a document that somebody waits for, as long as `tick` is called."""

    def __init__(
        self,
        collection: Collection,
        staging: Path,
        committed: Callable[[Document, int], None] | None = None,
    ) -> None:
        """`staging` has the pictures of items that are not committed.

        `committed` is somebody who waits for documents: called with each, and the number of its items.
        """
        self._store, self._embedder = collection.store, collection.header.embedder
        self._staging = staging
        self._committed = committed
        self._items: list[tuple[Item, NDArray[Any] | None]] = []
        self._documents: dict[str, tuple[Document, int]] = {}
        """By path."""
        self._since: float | None = None
        """Time from which the first of what waits does so, on the monotonic clock."""

    def begin(self, documents: Iterable[Document]) -> None:
        """Commit pending documents at once: before any of their items."""
        rows = [(document, 0) for document in documents]
        if rows:
            with self._store.change() as change:
                change.put_files(rows)

    def item(self, item: Item, vector: NDArray[Any] | None = None) -> None:
        """Add an item, with its vector if the collection holds vectors."""
        with self._store.explain_writing():
            self._items.append((store_files(item, self._staging, self._store.blobs), vector))
        self._flush_when_due()

    def document(self, document: Document, rows: int) -> None:
        """Add a document that is complete, and how many of its items are stored."""
        self._documents[document.path] = document, rows
        self._flush_when_due()

    def tick(self) -> None:
        """Commit what has waited long enough."""
        if self._items or self._documents:
            self._flush_when_due()

    def discard(self, document: str) -> None:
        """Delete the items of a document, committed or not."""
        self._items = [pair for pair in self._items if pair[0].document != document]
        with self._store.change() as change:
            change.delete_items(document)

    def flush(self) -> None:
        """Commit what waits."""
        self._since = None
        if not self._items and not self._documents:
            return
        with self._store.explain_writing():
            places = store_vectors([vector for _, vector in self._items], self._embedder, self._store.blobs)
        with self._store.change() as change:
            change.put_items(zip((item for item, _ in self._items), places, strict=True))
            change.put_files(self._documents.values())
        self._items = []
        committed, self._documents = self._documents, {}
        if self._committed is not None:
            for document, rows in committed.values():
                self._committed(document, rows)

    def _flush_when_due(self) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        numbers = sum(vector.size for _, vector in self._items if vector is not None)
        full = (
            len(self._items) >= self.ITEMS
            or len(self._documents) >= self.DOCUMENTS
            or numbers >= self.NUMBERS
        )
        seconds = self.DOCUMENT_SECONDS if self._committed and self._documents else self.SECONDS
        if full or now - self._since >= seconds:
            self.flush()
