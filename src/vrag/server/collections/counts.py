"""How much a collection holds. Counted anew when its manifest has changed, and not for every request."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.index.collection import Collection

__all__ = ["CollectionCounts", "counted"]

_REMEMBERED = 64


class CollectionCounts(NamedTuple):
    """What of a collection can be found."""

    documents: int = 0
    """Contents: two files of the same one count once."""
    items: int = 0


def counted(collection: Collection) -> CollectionCounts:
    """How much it holds now.

    Raises:
        CollectionError: If it is gone, or cannot be read.
    """
    collection.check_present()
    return _counted(_CountedVersion(id(collection), collection.file_table.version, collection))


@dataclass(frozen=True, slots=True)
class _CountedVersion:
    """A version of the manifest of an open collection; one that was made anew in its place is another one."""

    opened: int
    version: int
    collection: Collection = field(compare=False)


@lru_cache(_REMEMBERED)
def _counted(table_version: _CountedVersion) -> CollectionCounts:
    rows = table_version.collection.file_table.read(["id", "status", "rows"]).data.to_pylist()
    served = {row["id"]: row["rows"] for row in rows if DocumentStatus(row["status"]).served}
    return CollectionCounts(len(served), sum(served.values()))
