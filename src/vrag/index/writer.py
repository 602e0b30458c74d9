"""The writer of items and documents to the tables, in few commits and in the right order."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vrag.index.tables.schema import file_rows, item_rows
from vrag.index.tables.table import literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.types import Document, Item

KEEP = timedelta(minutes=10)
"""Age up to which old versions of the tables are kept: longer than any query takes."""


class Writer:
    """Collects rows and commits them: items first, then the documents that are complete by them.

    The caller holds the lock of the collection.
    """

    ITEMS = 64
    """Items that wait for a commit at most."""
    DOCUMENTS = 256
    """Documents that wait for a commit at most."""
    NUMBERS = 16 * 2**20
    """Numbers of vectors that wait for a commit at most: some hundred pages of late interaction."""
    SECONDS = 5.0
    """Longest wait for a commit, as long as more rows come."""
    COMPACT = 256
    """Commits after which small files are merged: reading slows with their number."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._items: list[tuple[Item, NDArray[Any] | None]] = []
        self._documents: dict[str, tuple[Document, int]] = {}
        """By path: one commit takes each key once."""
        self._since = 0.0
        self._commits = 0

    def begin(self, documents: Iterable[Document]) -> None:
        """Commit pending documents at once: before any of their items."""
        rows = [(document, 0) for document in documents]
        if rows:
            self._collection.file_table.upsert(file_rows(rows), "key")

    def item(self, item: Item, vector: NDArray[Any] | None = None) -> None:
        """Add an item, with its vector if the collection holds vectors."""
        self._begin_batch()
        self._items.append((item, vector))
        self._flush_when_due()

    def document(self, document: Document, rows: int) -> None:
        """Add a document that is complete, and how many item rows it has."""
        self._begin_batch()
        self._documents[document.path] = document, rows
        self._flush_when_due()

    def discard(self, document: str) -> None:
        """Delete the items of a document, committed or not."""
        self._items = [pair for pair in self._items if pair[0].document != document]
        self._collection.item_table.delete(f"document = {literal(document)}")

    def flush(self) -> None:
        """Commit what waits."""
        if self._items:
            items, vectors = zip(*self._items, strict=True)
            embedder = self._collection.header.embedder
            self._collection.item_table.append(item_rows(items, vectors if embedder else None, embedder))
            self._items = []
            self._commits += 1
        if self._documents:
            self._collection.file_table.upsert(file_rows(self._documents.values()), "key")
            self._documents = {}
            self._commits += 1
        if self._commits >= self.COMPACT:
            self.compact()

    def close(self) -> None:
        """Commit what waits, and merge small files if there are many."""
        self.flush()
        if self._commits >= self.COMPACT // 4:
            self.compact()

    def compact(self) -> None:
        """Merge small files of both tables."""
        self._collection.item_table.compact(KEEP)
        self._collection.file_table.compact(KEEP)
        self._commits = 0

    def _begin_batch(self) -> None:
        if not self._items and not self._documents:
            self._since = time.monotonic()

    def _flush_when_due(self) -> None:
        numbers = sum(vector.size for _, vector in self._items if vector is not None)
        full = (
            len(self._items) >= self.ITEMS
            or len(self._documents) >= self.DOCUMENTS
            or numbers >= self.NUMBERS
        )
        if full or time.monotonic() - self._since >= self.SECONDS:
            self.flush()
