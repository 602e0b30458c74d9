"""The plan of a build: files on disk compared with the manifest, without reading any of them."""

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


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the manifest, and how many item rows its content has."""

    document: Document
    rows: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The files that an `add` has to process."""

    found: tuple[str, ...]
    """Every file found, by absolute path."""
    todo: tuple[Path | SourceFile, ...]
    """Files that are new, have changed, were begun, or are to be tried again."""
    unchanged: int
    """Files found that need nothing: same size and modification time as in the manifest."""
    skipped: tuple[Skipped, ...]
    """Paths that are no files to convert, with reasons."""


def read_manifest(collection: Collection) -> dict[str, Known]:
    """Read the rows of the manifest, by path."""
    rows = collection.file_table.read([*FILE_COLUMNS, "rows"]).data.to_pylist()
    known = (Known(document_of(row), row["rows"]) for row in rows)
    return {entry.document.path: entry for entry in known}


def make_plan(
    paths: Sequence[str | Path], known: Mapping[str, Known], own: Path, *, retry_failed: bool
) -> IndexPlan:
    """Compare files and folders with the manifest.

    Files that an earlier `add` began and did not finish are continued wherever they are. The pictures in
    `own`, the collection's directory, are no documents. With `retry_failed`, files that failed, wholly or in
    part, are tried again unchanged.
    """
    skipped: dict[Path, Skipped] = {}
    todo: dict[str, Path] = {}
    found: list[str] = []
    for path in find([Path(path) for path in paths]):
        if (path.path if isinstance(path, Skipped) else path).is_relative_to(own):
            skipped[own] = Skipped(own, "It is the collection itself.")
        elif isinstance(path, Skipped):
            skipped[path.path] = path
        else:
            name = os.fspath(path)
            found.append(name)
            if not _is_done(path, known.get(name), retry_failed=retry_failed):
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
    """Compare absolute paths of files, and contents that have no file, with the manifest."""
    todo: list[Path | SourceFile] = []
    found: list[str] = []
    for source in sources:
        path = source if isinstance(source, Path) else source.path
        entry = known.get(os.fspath(path))
        found.append(os.fspath(path))
        if not _is_done(source, entry, retry_failed=retry_failed):
            todo.append(source)
    return IndexPlan(tuple(found), tuple(todo), len(found) - len(todo), ())


def _is_done(source: Path | SourceFile, entry: Known | None, *, retry_failed: bool) -> bool:
    """Return whether the manifest is complete for a file, or for a content without one."""
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
    """Check whether size and modification time are those of the manifest."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (document.size, document.mtime_ns)
