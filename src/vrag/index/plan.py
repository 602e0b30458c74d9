"""What there is to do: the files found, compared with the manifest, without reading any of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.discover import Skipped, find
from vrag.index.tables.schema import FILE_COLUMNS, document_of
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.corpus.converter import SourceFile
    from vrag.index.collection import Collection
    from vrag.types import Document

__all__ = ["IndexPlan", "Known", "is_unchanged", "make_plan", "plan_sources", "read_manifest"]


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the manifest, and how many item rows its content has."""

    document: Document
    rows: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an `add` has to do."""

    found: tuple[str, ...]
    """Every file found, by absolute path."""
    todo: tuple[Path | SourceFile, ...]
    """Files that are new, have changed, were begun, or are to be tried again."""
    unchanged: int
    """Files found that need nothing: same size and modification time as in the manifest."""
    skipped: tuple[Skipped, ...]
    """What was found and is no file to convert, with reasons."""


def read_manifest(collection: Collection) -> dict[str, Known]:
    """The rows of the manifest by path."""
    rows = collection.file_table.read([*FILE_COLUMNS, "rows"]).data.to_pylist()
    known = (Known(document_of(row), row["rows"]) for row in rows)
    return {entry.document.path: entry for entry in known}


def make_plan(
    paths: Sequence[str | Path], known: Mapping[str, Known], own: Path, *, retry_failed: bool
) -> IndexPlan:
    """Compares what is on disk with the manifest.

    Files that an earlier `add` began and did not finish are taken up again wherever they lie.

    Args:
        paths: Files and folders.
        known: The manifest.
        own: The collection's directory: its pictures are no documents, wherever it lies.
        retry_failed: Whether files that failed, wholly or in part, are tried again unchanged.
    """
    skipped: dict[Path, Skipped] = {}
    todo: dict[str, Path] = {}
    found: list[str] = []
    for path in find([Path(path) for path in paths]):
        place = path.path if isinstance(path, Skipped) else path
        if place.is_relative_to(own):
            skipped[own] = Skipped(own, "It is the collection itself.")
            continue
        if isinstance(path, Skipped):
            skipped[place] = path
            continue
        name = os.fspath(path)
        found.append(name)
        if not _done(path, known.get(name), retry_failed=retry_failed):
            todo[name] = path
    unchanged = len(found) - len(todo)
    for name, entry in known.items():
        begun = entry.document.status is DocumentStatus.PENDING
        if begun and name not in todo and os.path.isfile(name):  # noqa: PTH113 - any bytes
            todo[name] = Path(name)
    return IndexPlan(tuple(found), tuple(todo.values()), unchanged, tuple(skipped.values()))


def plan_sources(
    sources: Sequence[Path | SourceFile], known: Mapping[str, Known], *, retry_failed: bool
) -> IndexPlan:
    """Compares what a caller names with the manifest.

    Args:
        sources: Absolute paths of files, and contents that have no file.
        known: The manifest.
        retry_failed: Whether what failed, wholly or in part, is tried again unchanged.
    """
    todo: list[Path | SourceFile] = []
    found: list[str] = []
    for source in sources:
        path = source if isinstance(source, Path) else source.path
        entry = known.get(os.fspath(path))
        found.append(os.fspath(path))
        if not _done(source, entry, retry_failed=retry_failed):
            todo.append(source)
    return IndexPlan(tuple(found), tuple(todo), len(found) - len(todo), ())


def _done(source: Path | SourceFile, entry: Known | None, *, retry_failed: bool) -> bool:
    """Whether the manifest already says all there is to say of a file, or of a content without one."""
    if entry is None:
        return False
    match entry.document.status:
        case DocumentStatus.PENDING:
            return False
        case DocumentStatus.FAILED | DocumentStatus.PARTIAL if retry_failed:
            return False
        case _ if isinstance(source, Path):
            return is_unchanged(source, entry.document)
        case _:
            return source.document == entry.document.id


def is_unchanged(path: Path, document: Document) -> bool:
    """Whether size and modification time are those of the manifest."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (document.size, document.mtime_ns)
