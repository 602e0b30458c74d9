"""Items and documents on their way into the tables, in few commits and in the right order."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vrag.errors import CollectionError
from vrag.index.header import Marked
from vrag.index.rows import file_rows, item_rows
from vrag.index.table import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from vrag.index.store import Collection
    from vrag.types import Document, Item

__all__ = ["KEEP", "ItemEmbedder", "Writer"]

KEEP = timedelta(minutes=10)
"""Age up to which old versions of the tables are kept: longer than any query takes."""


class ItemEmbedder(Marked, Protocol):
    """What turns items into vectors."""

    def embed_items(self, items: Sequence[Item]) -> NDArray[Any]:
        """The vectors of items, (items, dimension)."""
        ...


class Writer:
    """Collects rows and commits them: items first, then the documents that are complete by them.

    Args:
        collection: Where to; the caller holds its lock.
        embedder: Makes the vectors, if the collection has them.
    """

    ITEMS = 64
    DOCUMENTS = 256
    """Rows that wait for a commit at most."""
    SECONDS = 5.0
    """How long they wait, as long as more of them come."""
    COMPACT = 256
    """Commits after which small files are merged: reading slows with their number."""

    def __init__(self, collection: Collection, embedder: ItemEmbedder | None) -> None:
        self._collection = collection
        self._embedder = embedder
        self._items: list[Item] = []
        self._documents: dict[str, tuple[Document, int]] = {}
        """By path: one commit takes each key once."""
        self._since = 0.0
        self._commits = 0

    def begin(self, documents: Iterable[Document]) -> None:
        """Commits pending documents at once: before any of their items."""
        rows = [(document, 0) for document in documents]
        if rows:
            self._collection.file_table.upsert(file_rows(rows), "key")

    def item(self, item: Item) -> None:
        """Takes an item."""
        self._start()
        self._items.append(item)
        self._flush_when_due()

    def document(self, document: Document, rows: int) -> None:
        """Takes a document of which nothing more will come, and how many item rows it has."""
        self._start()
        self._documents[document.path] = document, rows
        self._flush_when_due()

    def discard(self, document: str) -> None:
        """Deletes the items of a document, committed or not."""
        self._items = [item for item in self._items if item.document != document]
        self._collection.item_table.delete(f"document = {literal(document)}")

    def flush(self) -> None:
        """Commits what waits."""
        if self._items:
            table = self._collection.item_table
            table.append(item_rows(self._items, self._vectors(), table.schema))
            self._items = []
            self._commits += 1
        if self._documents:
            self._collection.file_table.upsert(file_rows(self._documents.values()), "key")
            self._documents = {}
            self._commits += 1
        if self._commits >= self.COMPACT:
            self.compact()

    def close(self) -> None:
        """Commits what waits, and merges small files if there are many."""
        self.flush()
        if self._commits >= self.COMPACT // 4:
            self.compact()

    def compact(self) -> None:
        """Merges small files of both tables."""
        self._collection.item_table.compact(KEEP)
        self._collection.file_table.compact(KEEP)
        self._commits = 0

    def _start(self) -> None:
        if not self._items and not self._documents:
            self._since = time.monotonic()

    def _flush_when_due(self) -> None:
        full = len(self._items) >= self.ITEMS or len(self._documents) >= self.DOCUMENTS
        if full or time.monotonic() - self._since >= self.SECONDS:
            self.flush()

    def _vectors(self) -> NDArray[Any] | None:
        if self._embedder is None:
            return None
        vectors = np.asarray(self._embedder.embed_items(self._items), dtype=np.float32)
        expected = (len(self._items), self._embedder.dimension)
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise CollectionError(
                f"The embedder gave {vectors.shape} numbers instead of {expected}, or some not finite.",
                "Nothing of this batch was stored. Check the embedder.",
            )
        return vectors
