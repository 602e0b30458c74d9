"""What a server has open, as it is handed to it: collections by name, and how documents are added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vrag.index.collection import Collection
    from vrag.index.embed_items import Producer

__all__ = ["NAME_PATTERN", "CollectionSet", "OpenCollection"]

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Of names of new collections: each is the name of a directory too."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenCollection:
    """One collection that a server has open."""

    name: str
    """What it is called in queries and addresses."""
    collection: Collection
    producer: Producer | None = None
    """Makes items of documents; None where nothing can be added."""
    reason: str = ""
    """Why nothing can be written to it, for people; empty where it can."""
    removable: bool = False
    """Whether a client may delete it: it was made by one."""

    @property
    def writable(self) -> bool:
        """Whether documents can be added and removed."""
        return self.producer is not None


class CollectionSet(Protocol):
    """The collections that a server has open. Methods may block, and be called from several threads."""

    @property
    def absent(self) -> str:
        """Why there are no collections here, for people; empty where there are."""
        ...

    @property
    def holdings(self) -> tuple[OpenCollection, ...]:
        """All of them, the first one first. Does not block."""
        ...

    def create(self, name: str) -> OpenCollection:
        """Makes an empty collection, and opens it.

        Raises:
            SettingsError: If it cannot be made here, or there is one of that name.
            CollectionError: If the disk fails.
        """
        ...

    def drop(self, name: str) -> None:
        """Closes a collection and deletes it with all that is in it.

        Raises:
            SettingsError: If it is not one that a client may delete.
            CollectionBusy: If another process is writing to it.
            CollectionError: If the disk fails.
        """
        ...
