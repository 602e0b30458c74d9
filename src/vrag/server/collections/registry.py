"""The collections that a server has open, how much they hold, and how responses describe them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from vrag.index.collection import Collection
from vrag.index.vectors.embed_items import Producer
from vrag.search.schema import ID_PATTERN
from vrag.types import DocumentStatus, ItemKind

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Names of new collections: each is the name of a directory too."""
DOCUMENT_PATTERN = r"^[0-9a-f]{64}$"
"""Ids of documents: SHA-256 of their bytes."""
JOB_PATTERN = r"^[0-9a-f]{16}$"


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
    def open_collections(self) -> tuple[OpenCollection, ...]:
        """All of them, the first one first. Does not block."""
        ...

    def create(self, name: str) -> OpenCollection:
        """Create an empty collection, and open it.

        Raises `SettingsError` if that is not possible here, or the name is taken, and `CollectionError` if
        the disk fails.
        """
        ...

    def drop(self, name: str) -> None:
        """Close a collection and delete it with all that is in it.

        Raises `SettingsError` if a client may not delete it, `CollectionBusy` if another process is writing
        to it, and `CollectionError` if the disk fails.
        """
        ...


class CollectionCounts(NamedTuple):
    """The numbers of documents and items of a collection that can be found."""

    documents: int = 0
    """Distinct contents: two files with the same one count once."""
    items: int = 0


def count_collection(collection: Collection) -> CollectionCounts:
    """Count what a collection holds (`CollectionError` if it is gone); cached until its manifest changes."""
    collection.check_present()
    return _count(collection, collection.version)


@lru_cache(64)
def _count(collection: Collection, _version: int) -> CollectionCounts:  # a collection is equal to itself only
    served = {file.document.id: file.rows for file in collection.store.files() if file.document.status.served}
    return CollectionCounts(len(served), sum(served.values()))


class FrozenInfo(BaseModel):
    """Base of immutable requests and responses about collections; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True)


class NewCollection(FrozenInfo):
    """A collection to create."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)] = Field(
        description="Up to 64 lower-case letters, digits, hyphens and underscores."
    )


class CollectionInfo(FrozenInfo):
    """A collection that the server has open."""

    name: str = Field(description="For `search_corpus`, and in addresses.")
    documents: int = Field(ge=0, description="Documents that can be found.")
    items: int = Field(ge=0, description="Pages, clips and passages that can be found.")
    readable: bool = Field(default=True, description="Whether it can be searched at the moment.")
    writable: bool = Field(description="Whether the user can add and remove documents.")
    removable: bool = Field(description="Whether the user can delete it: it was created through the server.")
    embedder: str | None = Field(description="The embedder of its vectors; null if only words are searched.")
    reason: str | None = Field(default=None, description="Why it cannot be written to, or read.")


class Collections(FrozenInfo):
    """The collections that the server has open."""

    collections: list[CollectionInfo]
    creatable: bool = Field(description="Whether the user can create more.")
    not_creatable: str | None = Field(default=None, description="Why the user can create none.")
    reason: str | None = Field(default=None, description="Why there are none.")


class DocumentInfo(FrozenInfo):
    """A file of a collection."""

    id: str = Field(description="SHA-256 of its bytes; empty where it could not be read.")
    name: str = Field(description="File name, for people.")
    folder: str = Field(description="Its folder, relative to the one that holds all files; empty at the top.")
    size: int = Field(ge=0, description="Size of the file in bytes.")
    modified: float | None = Field(
        default=None,
        description="Seconds since 1970 at which the file was written or uploaded; null if that is unknown.",
    )
    status: DocumentStatus = Field(description="Its state in the index.")
    items: int = Field(ge=0, description="Its pages, clips or passages that can be found.")
    kind: ItemKind = Field(description="What these are, for the most part.")
    first: str | None = Field(
        default=None, description="Id of the first page or clip; null if it is text, or cannot be shown."
    )
    seconds: float | None = Field(default=None, description="Length of a video.")
    problems: list[str] = Field(description="What could not be read, and why.")
    hidden_words: int = Field(
        default=0, ge=0, description="Words in it that are hidden or struck out; they are not searched."
    )
    uploaded: bool = Field(description="Whether it was uploaded: removing it deletes the file as well.")


class Documents(FrozenInfo):
    """Files of a collection, by name."""

    documents: list[DocumentInfo]
    total: int = Field(ge=0, description="Total number.")


class DocumentPart(FrozenInfo):
    """One item of a document."""

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)]
    kind: Literal["page", "clip", "passage"]
    ordinal: int = Field(ge=1, description="Position in the document.")
    page_label: str | None = Field(
        default=None, description="The number that is printed on a page, where it is not its position."
    )
    width: int | None = Field(default=None, ge=1, description="Width of the picture in pixels.")
    height: int | None = Field(default=None, ge=1, description="Height of the picture in pixels.")
    start: float | None = Field(default=None, description="Start of a clip, in seconds.")
    end: float | None = Field(default=None, description="End of a clip.")


class DocumentPages(FrozenInfo):
    """A document with its items in order."""

    id: str
    name: str
    collection: str
    items: list[DocumentPart]
