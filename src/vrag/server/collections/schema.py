"""Requests and responses of the routes about collections and documents."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from vrag.search.schema import ID_PATTERN
from vrag.server.collections.registry import NAME_PATTERN
from vrag.types import DocumentStatus

DOCUMENT_PATTERN = r"^[0-9a-f]{64}$"
"""Ids of documents: SHA-256 of their bytes."""
JOB_PATTERN = r"^[0-9a-f]{16}$"


class _FrozenInfo(BaseModel):
    model_config = ConfigDict(frozen=True)


class NewCollection(_FrozenInfo):
    """A collection to create."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)] = Field(
        description="Up to 64 lower-case letters, digits, hyphens and underscores."
    )


class CollectionInfo(_FrozenInfo):
    """A collection that the server has open."""

    name: str = Field(description="For `search_corpus`, and in addresses.")
    documents: int = Field(ge=0, description="Documents that can be found.")
    items: int = Field(ge=0, description="Pages, clips and passages that can be found.")
    readable: bool = Field(default=True, description="Whether it can be searched at the moment.")
    writable: bool = Field(description="Whether documents can be added and removed.")
    removable: bool = Field(description="Whether it can be deleted: it was created through the server.")
    embedder: str | None = Field(description="The embedder of its vectors; null if only words are searched.")
    reason: str | None = Field(default=None, description="Why it cannot be written to, or read.")


class Collections(_FrozenInfo):
    """The collections that the server has open."""

    collections: list[CollectionInfo]
    creatable: bool = Field(description="Whether more can be created.")
    reason: str | None = Field(default=None, description="Why there are none.")


class DocumentInfo(_FrozenInfo):
    """A file of a collection."""

    id: str = Field(description="SHA-256 of its bytes; empty where it could not be read.")
    name: str = Field(description="File name, for people.")
    folder: str | None = Field(
        default=None,
        description="The end of its folder's path that tells it from others of its name; null without any.",
    )
    size: int | None = Field(
        default=None, ge=0, description="Size of the file in bytes; null while it waits in the queue."
    )
    status: DocumentStatus = Field(description="Its state in the index.")
    items: int = Field(ge=0, description="Its pages, clips or passages that can be found.")
    problems: list[str] = Field(description="What could not be read, and why.")
    uploaded: bool = Field(description="Whether it was uploaded: removing it deletes the file as well.")


class Documents(_FrozenInfo):
    """Files of a collection, by name."""

    documents: list[DocumentInfo]
    total: int = Field(ge=0, description="Total number.")


class DocumentPart(_FrozenInfo):
    """One item of a document."""

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)]
    kind: Literal["page", "clip", "passage"]
    ordinal: int = Field(ge=1, description="Position in the document.")
    width: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    height: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    start: float | None = Field(default=None, description="Start of a clip, in seconds.")
    end: float | None = Field(default=None, description="End of a clip.")


class DocumentPages(_FrozenInfo):
    """A document with its items in order."""

    id: str
    name: str
    collection: str
    items: list[DocumentPart]


class JobState(StrEnum):
    """State of an upload."""

    WAITING = "waiting"
    """The file is stored and waits in the queue, also after a restart."""
    RUNNING = "running"
    """It is being indexed."""
    FINISHED = "finished"
    """It can be found, completely or in part; `problems` says what is missing."""
    FAILED = "failed"
    """It cannot be found; `problems` says why."""


class UploadJobInfo(_FrozenInfo):
    """The progress of an uploaded file. Kept in memory: after a restart, see the documents."""

    id: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    collection: str
    file: str = Field(description="The name under which the file is stored.")
    state: JobState
    done: int = Field(ge=0, description="Pages, clips or passages that are done.")
    total: int | None = Field(default=None, ge=0, description="Their total, once it is known.")
    message: str = Field(description="The state in one sentence.")
    problems: list[str] = Field(description="What could not be read, and why.")
    document: str | None = Field(default=None, description="Id of the document.")


class Jobs(_FrozenInfo):
    """Uploads of a collection since the server started, the newest first."""

    jobs: list[UploadJobInfo]
