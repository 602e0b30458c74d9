"""What travels about collections and documents: the models of requests and responses."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from vrag.search.schema import ID_PATTERN
from vrag.server.collections.registry import NAME_PATTERN
from vrag.types import DocumentStatus

__all__ = [
    "DOCUMENT_PATTERN",
    "JOB_PATTERN",
    "CollectionInfo",
    "Collections",
    "DocumentInfo",
    "DocumentPages",
    "DocumentPart",
    "Documents",
    "JobState",
    "Jobs",
    "NewCollection",
    "UploadJobInfo",
]

DOCUMENT_PATTERN = r"^[0-9a-f]{64}$"
"""Of ids of documents: SHA-256 of their bytes."""
JOB_PATTERN = r"^[0-9a-f]{16}$"


class _FrozenInfo(BaseModel):
    model_config = ConfigDict(frozen=True)


class NewCollection(_FrozenInfo):
    """A collection to be made."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)] = Field(
        description="Up to 64 small letters, digits, hyphens and underscores."
    )


class CollectionInfo(_FrozenInfo):
    """A collection that the server has open."""

    name: str = Field(description="For `search_corpus`, and in addresses.")
    documents: int = Field(ge=0, description="Documents that can be found.")
    items: int = Field(ge=0, description="Pages, clips and passages that can be found.")
    readable: bool = Field(default=True, description="Whether it can be searched and shown now.")
    writable: bool = Field(description="Whether documents can be added and removed.")
    removable: bool = Field(description="Whether it can be deleted: it was made through the server.")
    embedder: str | None = Field(description="What made its vectors; null where words alone are searched.")
    reason: str | None = Field(default=None, description="Why nothing can be written to it, or read.")


class Collections(_FrozenInfo):
    """The collections that the server has open."""

    collections: list[CollectionInfo]
    creatable: bool = Field(description="Whether more of them can be made.")
    reason: str | None = Field(default=None, description="Why there are none.")


class DocumentInfo(_FrozenInfo):
    """A file of a collection."""

    id: str = Field(description="SHA-256 of its bytes; empty where it could not be read.")
    name: str = Field(description="File name, for people.")
    folder: str | None = Field(
        default=None,
        description="The end of its folder's path that tells it from others of its name; null where it is "
        "the only one.",
    )
    size: int | None = Field(
        default=None, ge=0, description="Of the file, in bytes; null while it waits to be read."
    )
    status: DocumentStatus = Field(description="How far it has come.")
    items: int = Field(ge=0, description="Pages, clips or passages of it that can be found.")
    problems: list[str] = Field(description="What could not be read, and why.")
    uploaded: bool = Field(description="Whether it was uploaded: removing it deletes the file as well.")


class Documents(_FrozenInfo):
    """Files of a collection, by name."""

    documents: list[DocumentInfo]
    total: int = Field(ge=0, description="How many there are in all.")


class DocumentPart(_FrozenInfo):
    """One item of a document."""

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)]
    kind: Literal["page", "clip", "passage"]
    ordinal: int = Field(ge=1, description="Position in the document.")
    width: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    height: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    start: float | None = Field(default=None, description="Of a clip: where it begins, in seconds.")
    end: float | None = Field(default=None, description="Of a clip: where it ends.")


class DocumentPages(_FrozenInfo):
    """A document with its items in order."""

    id: str
    name: str
    collection: str
    items: list[DocumentPart]


class JobState(StrEnum):
    """How far an upload has come."""

    WAITING = "waiting"
    """The file is stored; its turn will come, also after a restart."""
    RUNNING = "running"
    """Its pages are being read."""
    FINISHED = "finished"
    """It can be found, in whole or in part; `problems` says what is missing."""
    FAILED = "failed"
    """It cannot be found; `problems` says why."""


class UploadJobInfo(_FrozenInfo):
    """What becomes of an uploaded file. Kept in memory: after a restart, see the documents."""

    id: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    collection: str
    file: str = Field(description="The name under which the file is stored.")
    state: JobState
    done: int = Field(ge=0, description="Pages, clips or passages that are done.")
    total: int | None = Field(default=None, ge=0, description="How many there are, once that is known.")
    message: str = Field(description="How it stands, in one sentence.")
    problems: list[str] = Field(description="What could not be read, and why.")
    document: str | None = Field(default=None, description="Id of the document.")


class Jobs(_FrozenInfo):
    """Uploads of a collection since the server started, the newest first."""

    jobs: list[UploadJobInfo]
