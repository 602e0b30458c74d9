"""The files of a collection as a list for people: with their folders, states and first pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from vrag.index.collection import Collection
from vrag.index.maintenance import count_hidden_words
from vrag.index.manifest import read_manifest
from vrag.index.schema import KnownFile
from vrag.index.shown_names import relative_folders
from vrag.index.source_file import lies_in
from vrag.server.collections.files import kind_of
from vrag.server.collections.jobs import UploadJob
from vrag.server.collections.registry import DocumentInfo, OpenCollection
from vrag.server.collections.uploads import uploads_of
from vrag.types import ABSENT, DocumentStatus, ItemKind


class _Contents(NamedTuple):
    """Facts about documents that their items have, by the ids of the documents."""

    firsts: dict[str, tuple[str, ItemKind]]
    """The first item."""
    seconds: dict[str, float]
    """Length of a video."""
    hidden_words: dict[str, int]
    """Words that are hidden or struck out."""


def list_documents(open_collection: OpenCollection, jobs: Iterable[UploadJob]) -> list[DocumentInfo]:
    """List the files of a collection by name, with those of the jobs that have no row yet. Blocks."""
    collection, folder = open_collection.collection, uploads_of(open_collection)
    rows = read_manifest(collection)
    contents = _read_contents(collection, collection.version)
    waiting = {str(job.path): job for job in jobs if not job.over and str(job.path) not in rows}
    folders = relative_folders([*rows, *waiting], folder)
    files = [_row_info(path, row, folders[path], folder, contents) for path, row in rows.items()]
    files += [_job_info(job, folders[path]) for path, job in waiting.items()]
    return sorted(files, key=lambda file: (file.name.casefold(), file.name, file.folder, file.id))


def _row_info(path: str, row: KnownFile, folder: str, uploads: Path, contents: _Contents) -> DocumentInfo:
    document = row.document
    served = document.status.served
    first, kind = contents.firsts.get(document.id, (None, kind_of(Path(document.name).suffix.lower())))
    return DocumentInfo(
        id=document.id,
        name=document.name,
        folder=folder,
        size=document.size,
        modified=None if document.mtime_ns == ABSENT else document.mtime_ns / 1e9,
        status=document.status,
        items=row.rows if served else 0,
        kind=kind,
        first=first if served and kind is not ItemKind.PASSAGE else None,
        seconds=contents.seconds.get(document.id) if served else None,
        problems=document.reason.splitlines(),
        hidden_words=contents.hidden_words.get(document.id, 0) if served else 0,
        uploaded=lies_in(path, uploads),
    )


def _job_info(job: UploadJob, folder: str) -> DocumentInfo:
    return DocumentInfo(
        id=job.document,
        name=job.file,
        folder=folder,
        size=job.size,
        status=DocumentStatus.PENDING,
        items=0,
        kind=job.kind,
        problems=[],
        uploaded=True,
    )


@lru_cache(16)
def _read_contents(collection: Collection, _version: int) -> _Contents:
    # A collection is equal to itself only: that is what the cache tells them apart by.
    store = collection.store
    first = store.read_items(["id", "document", "kind"], "ordinal = 1")
    clips = store.read_items(["document", "clip_end"], "kind = ?", [ItemKind.CLIP.value])
    seconds: dict[str, float] = {}
    for document, end in clips.values:
        seconds[document] = max(seconds.get(document, 0.0), end or 0.0)
    firsts = {document: (id, ItemKind(kind)) for id, document, kind in first.values}
    return _Contents(firsts, seconds, count_hidden_words(collection))
