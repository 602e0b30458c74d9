"""The collections that a server has open: by name, with how documents are added, and how much they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.index.collection import Collection
    from vrag.index.embed_items import Producer

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Names of new collections: each is the name of a directory too."""
_MAX_COUNTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class OpenCollection:
    """A collection that a server has open."""

    name: str
    """Its name in queries and addresses."""
    collection: Collection
    producer: Producer | None = None
    """Makes items of documents; None if nothing can be added."""
    reason: str = ""
    """The reason it is read-only, for people; empty if it is not."""
    removable: bool = False
    """True if a client may delete it: it was created by one."""

    @property
    def writable(self) -> bool:
        """True if documents can be added and removed."""
        return self.producer is not None


class CollectionSet(Protocol):
    """The collections that a server has open. Methods may block, and be called from several threads."""

    @property
    def absent(self) -> str:
        """The reason there are no collections here, for people; empty if there are."""
        ...

    @property
    def holdings(self) -> tuple[OpenCollection, ...]:
        """All of them, the first one first. Does not block."""
        ...

    def create(self, name: str) -> OpenCollection:
        """Create an empty collection, and open it.

        Raises:
            SettingsError: If that is not possible here, or the name is taken.
            CollectionError: If the disk fails.
        """
        ...

    def drop(self, name: str) -> None:
        """Close a collection and delete it with all that is in it.

        Raises:
            SettingsError: If a client may not delete it.
            CollectionBusy: If another process is writing to it.
            CollectionError: If the disk fails.
        """
        ...


class CollectionCounts(NamedTuple):
    """The numbers of documents and items of a collection that can be found."""

    documents: int = 0
    """Distinct contents: two files with the same one count once."""
    items: int = 0


def count_collection(collection: Collection) -> CollectionCounts:
    """Count what a collection holds; cached until its manifest changes.

    Raises:
        CollectionError: If it is gone, or cannot be read.
    """
    collection.check_present()
    return _count(_ManifestVersion(id(collection), collection.file_table.version, collection))


@dataclass(frozen=True, slots=True)
class _ManifestVersion:
    """A version of the manifest of an open collection; one made again in its place is another one."""

    opened: int
    version: int
    collection: Collection = field(compare=False)


@lru_cache(_MAX_COUNTS)
def _count(version: _ManifestVersion) -> CollectionCounts:
    rows = version.collection.file_table.read(["id", "status", "rows"]).data.to_pylist()
    served = {row["id"]: row["rows"] for row in rows if DocumentStatus(row["status"]).served}
    return CollectionCounts(len(served), sum(served.values()))
