"""What search knows of every item besides its text, in memory and in the order of item ids."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vrag.index.tables.arrow import integers
from vrag.types import DocumentStatus, Hit, ItemKind

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.collection_json import CollectionHeader
    from vrag.index.tables.arrow import ArrowTable
    from vrag.types import Query

__all__ = ["Catalog", "Column"]

_COLUMNS = ["id", "document", "document_name", "ordinal", "kind"]


@dataclass(frozen=True, eq=False)
class Column:
    """A text of every item, each distinct text held once."""

    values: list[str]
    """The distinct texts."""
    codes: NDArray[np.int32]
    """For each item the number of its text, (items,)."""

    @classmethod
    def of(cls, column: ArrowTable) -> Column:
        """A column of an Arrow table."""
        encoded = column.combine_chunks().dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), integers(encoded.indices))

    def __getitem__(self, row: int) -> str:
        return self.values[int(self.codes[row])]

    def __iter__(self) -> Iterator[str]:
        return map(self.values.__getitem__, self.codes.tolist())

    def among(self, wanted: Container[str]) -> NDArray[np.bool_]:
        """Which items have one of these texts, (items,)."""
        chosen = np.asarray([value in wanted for value in self.values], np.bool_)
        return chosen[self.codes] if len(chosen) else np.zeros(len(self.codes), np.bool_)


@dataclass(frozen=True, eq=False)
class Catalog:
    """One version of what can be found. Row i of everything is the item `ids[i]`."""

    version: tuple[int, int]
    """Versions of the two tables: the items, the manifest."""
    ids: list[str]
    """Sorted: the order of rows decides ties."""
    documents: Column
    document_names: Column
    ordinals: NDArray[np.int32]
    kinds: Column
    shown: NDArray[np.bool_]
    """Whether the manifest refers to the item's document. Others are about to go or to come."""
    key: str
    """Hash over ids and names: names the caches made from these items."""
    content: str
    """Hash over all that decides what is found: ids and names, which of them are shown, and what the
    collection was built with. Items that are not shown count as well: they weigh in the scores."""

    @classmethod
    def load(cls, collection: Collection) -> Catalog:
        """Reads both tables at versions that belong together.

        Items are written before, and deleted after, the row of the manifest that refers to them.
        So if the manifest is the same before and after the items are read, they are all there.
        """
        while True:
            before = collection.file_table.read(["id", "status"])
            items = collection.scan(_COLUMNS)
            if collection.file_table.version == before.version:
                version = items.version, before.version
                return cls._of(items.data.sort_by("id"), before.data, version, collection.header)

    @classmethod
    def _of(
        cls, items: ArrowTable, files: ArrowTable, version: tuple[int, int], header: CollectionHeader
    ) -> Catalog:
        ids: list[str] = items["id"].to_pylist()
        columns = {name: Column.of(items[name]) for name in ("document", "document_name", "kind")}
        failed = DocumentStatus.FAILED.value
        referred = {row["id"] for row in files.to_pylist() if row["status"] != failed}
        digest = hashlib.sha256()
        for names in (ids, columns["document_name"]):
            digest.update("\0".join(names).encode())
            digest.update(b"\1")
        key = digest.hexdigest()[:16]
        shown = columns["document"].among(referred)
        mark = header.embedder
        digest.update(shown.tobytes())
        digest.update(f"\1{header.corpus_fingerprint}\1{mark.fingerprint if mark else ''}".encode())
        return cls(
            version=version,
            ids=ids,
            documents=columns["document"],
            document_names=columns["document_name"],
            ordinals=integers(items["ordinal"].combine_chunks()),
            kinds=columns["kind"],
            shown=shown,
            key=key,
            content=digest.hexdigest()[:16],
        )

    def mask(self, query: Query) -> NDArray[np.bool_]:
        """Which items a query may find, (items,); not to be written to."""
        mask = self.shown
        if query.documents is not None:
            mask = mask & self.documents.among(query.documents)
        if query.kinds is not None:
            mask = mask & self.kinds.among(query.kinds)
        return mask

    def row(self, id: str) -> int:
        """The row of an item that is there."""
        return bisect_left(self.ids, id)

    def hit(self, row: int, score: float, rank: int) -> Hit:
        """The item of a row, as found."""
        return Hit(
            item=self.ids[row],
            score=score,
            rank=rank,
            document=self.documents[row],
            document_name=self.document_names[row],
            ordinal=int(self.ordinals[row]),
            kind=ItemKind(self.kinds[row]),
            row=row,
        )
