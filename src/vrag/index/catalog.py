"""What search knows of every item besides its text, in memory and in the order of item ids."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vrag.types import DocumentStatus, Hit, ItemKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vrag.index.arrow import ArrowTable
    from vrag.index.header import Header
    from vrag.index.store import Collection
    from vrag.types import Query

__all__ = ["Catalog"]

_COLUMNS = ["id", "document", "document_name", "ordinal", "kind"]


@dataclass(frozen=True, eq=False)
class Catalog:
    """One version of what can be found. Row i of everything is the item `ids[i]`."""

    version: tuple[int, int]
    """Versions of the two tables: the items, the manifest."""
    ids: list[str]
    """Sorted: the order of rows decides ties."""
    documents: list[str]
    document_names: list[str]
    ordinals: NDArray[np.int32]
    kinds: list[str]
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
    def _of(cls, items: ArrowTable, files: ArrowTable, version: tuple[int, int], header: Header) -> Catalog:
        columns = {name: items[name].to_pylist() for name in _COLUMNS}
        failed = DocumentStatus.FAILED.value
        referred = {row["id"] for row in files.to_pylist() if row["status"] != failed}
        digest = hashlib.sha256()
        for name in ("id", "document_name"):
            digest.update("\0".join(columns[name]).encode())
            digest.update(b"\1")
        key = digest.hexdigest()[:16]
        shown = np.asarray([document in referred for document in columns["document"]], np.bool_)
        mark = header.embedder
        digest.update(shown.tobytes())
        digest.update(f"\1{header.corpus_fingerprint}\1{mark.fingerprint if mark else ''}".encode())
        return cls(
            version=version,
            ids=columns["id"],
            documents=columns["document"],
            document_names=columns["document_name"],
            ordinals=np.asarray(columns["ordinal"], np.int32),
            kinds=columns["kind"],
            shown=shown,
            key=key,
            content=digest.hexdigest()[:16],
        )

    def mask(self, query: Query) -> NDArray[np.bool_]:
        """Which items a query may find, (items,)."""
        mask = self.shown.copy()
        if query.documents is not None:
            mask &= np.asarray([document in query.documents for document in self.documents], np.bool_)
        if query.kinds is not None:
            mask &= np.asarray([kind in query.kinds for kind in self.kinds], np.bool_)
        return mask

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
        )
