"""The catalog of all items for search, without their text, in memory and in the order of item ids."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vrag.index.lexical.lexical_index import LexicalDocument
from vrag.index.lexical.segment import SegmentDocument
from vrag.index.schema import HASH_BYTES
from vrag.types import DocumentStatus, Hit, ItemKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.location import CollectionHeader
    from vrag.index.store import CollectionStore
    from vrag.types import Query

_COLUMNS = ["id", "document", "document_name", "ordinal", "kind", "text_hash"]


@dataclass(frozen=True, eq=False)
class Column:
    """A text of every item, each distinct text held once."""

    values: list[str]
    """The distinct texts."""
    codes: NDArray[np.int32]
    """For each item the number of its text, (items,)."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Column:
        """Number the distinct texts in the order in which they come."""
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(text, len(numbers)) for text in texts]
        return cls(list(numbers), np.asarray(codes, np.int32))

    def __getitem__(self, row: int) -> str:
        return self.values[int(self.codes[row])]

    def __iter__(self) -> Iterator[str]:
        return map(self.values.__getitem__, self.codes.tolist())

    def among(self, wanted: Container[str]) -> NDArray[np.bool_]:
        """Return which items have one of these texts, (items,)."""
        chosen = np.asarray([value in wanted for value in self.values], np.bool_)
        return chosen[self.codes] if len(chosen) else np.zeros(len(self.codes), np.bool_)


@dataclass(frozen=True, eq=False)
class Catalog:
    """One version of what can be found. Row i of everything is the item `ids[i]`."""

    version: int
    """Of the collection."""
    ids: list[str]
    """Sorted: the order of rows decides ties."""
    documents: Column
    document_names: Column
    ordinals: NDArray[np.int32]
    kinds: Column
    text_hashes: NDArray[np.uint8]
    """(items, 16) hash of each item's text."""
    shown: NDArray[np.bool_]
    """True if the manifest refers to the item's document. Others are about to go or to come."""
    key: str
    """Hash over ids, names and texts: names the caches made from these items."""
    content: str
    """Hash over all that decides what is found: ids, names and texts, which of them are shown, and what the
    collection was built with. Items that are not shown count as well: they weigh in the scores."""

    @classmethod
    def load(cls, store: CollectionStore, header: CollectionHeader) -> Catalog:
        """Read one version."""
        with store.snapshot() as version:
            rows, item_hash = store.read_items(_COLUMNS, "TRUE ORDER BY id"), store.item_hash
            referred = {
                file.document.id for file in store.files("status != ?", [DocumentStatus.FAILED.value])
            }
        ids: list[str] = rows.column("id")
        columns = {name: Column.of(rows.column(name)) for name in ("document", "document_name", "kind")}
        digest = hashlib.sha256(item_hash.encode())
        for names in (ids, columns["document_name"]):
            digest.update("\0".join(names).encode())
            digest.update(b"\1")
        key = digest.hexdigest()[:16]
        shown = columns["document"].among(referred)
        embedder = header.embedder
        digest.update(shown.tobytes())
        digest.update(f"\1{header.corpus_fingerprint}\1{embedder.fingerprint if embedder else ''}".encode())
        return cls(
            version=version,
            ids=ids,
            documents=columns["document"],
            document_names=columns["document_name"],
            ordinals=np.asarray(rows.column("ordinal"), np.int32),
            kinds=columns["kind"],
            text_hashes=np.frombuffer(b"".join(rows.column("text_hash")), np.uint8).reshape(-1, HASH_BYTES),
            shown=shown,
            key=key,
            content=digest.hexdigest()[:16],
        )

    def lexical_documents(self) -> dict[str, LexicalDocument]:
        """Return all documents by their ids, with the rows of their items and a hash over names and texts."""
        order = np.argsort(self.documents.codes, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(self.documents.codes, minlength=len(self.documents.values))).tolist()
        found: dict[str, LexicalDocument] = {}
        for id, start, end in zip(self.documents.values, [0, *ends], ends, strict=False):
            rows = order[start:end]
            name = self.document_names[int(rows[0])]
            digest = hashlib.sha256(name.encode() + b"\0" + self.text_hashes[rows].tobytes())
            found[id] = LexicalDocument(SegmentDocument(id, digest.hexdigest()[:32], len(rows)), rows)
        return found

    def mask(self, query: Query) -> NDArray[np.bool_]:
        """Return which items a query may find, (items,), read-only."""
        mask = self.shown
        if query.documents is not None:
            mask = mask & self.documents.among(query.documents)
        if query.kinds is not None:
            mask = mask & self.kinds.among(query.kinds)
        return mask

    def without(self, documents: Container[str]) -> Catalog:
        """Return the catalog with the items of some documents not shown."""
        shown = self.shown & ~self.documents.among(documents)
        if np.array_equal(shown, self.shown):
            return self
        digest = hashlib.sha256(self.content.encode() + shown.tobytes())
        return replace(self, shown=shown, content=digest.hexdigest()[:16])

    def row(self, id: str) -> int | None:
        """Return the row of an item; None when there is none."""
        row = bisect_left(self.ids, id)
        return row if row < len(self.ids) and self.ids[row] == id else None

    def hits(self, found: list[tuple[str, float]]) -> list[Hit]:
        """Convert ids with scores, best first, to hits; ids that are not in the catalog are left out."""
        rows = [(self.row(id), score) for id, score in found]
        known = [(row, score) for row, score in rows if row is not None]
        return [
            Hit(
                item=self.ids[row],
                score=score,
                rank=rank,
                document=self.documents[row],
                document_name=self.document_names[row],
                ordinal=int(self.ordinals[row]),
                kind=ItemKind(self.kinds[row]),
                row=row,
            )
            for rank, (row, score) in enumerate(known, 1)
        ]
