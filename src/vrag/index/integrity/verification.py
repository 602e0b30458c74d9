"""Verification of a collection, and its repair.

Checked are the database with its log, by the checksums of SQLite, every blob, by its name, the numbers of
items that documents should have, and the caches. What is damaged is deleted, its documents are marked as
begun, and their files are read again. A damaged database is written anew with all documents that can still
be read whole; single rows are not salvaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import apsw

from vrag.errors import CollectionError, VragError
from vrag.index.collection import Collection
from vrag.index.integrity.problems import (
    ProblemKind,
    VerifyProblem,
    VerifyReport,
    check_caches,
    delete_cache,
)
from vrag.index.location import LocalLocation, is_collection
from vrag.index.schema import FILE_COLUMNS, SCHEMA, KnownFile, blob_of, file_of, file_values
from vrag.index.store import DATABASE, write_item_hash
from vrag.storage.rescue import finish_rescue, is_rescue_interrupted, rescue_database
from vrag.storage.wal import describe_wal_damage
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.index.integrity.problems import Progress
    from vrag.storage.blobs import BlobStore
    from vrag.storage.connection import Connection

Reindex: TypeAlias = Callable[[Collection, Sequence[Path]], object]
"""A function that adds files to a collection again, so that items of theirs which are missing are made."""
PrepareReindex: TypeAlias = Callable[[Collection], Reindex]
"""A function that loads what `Reindex` needs, such as the embedder, and returns it."""
_LOST_COMMITS = VerifyProblem(
    "",
    DATABASE,
    "What was committed last is lost with the damaged part of its log.",
    file=DATABASE,
    advice="Run again what ran last, such as: vrag index add",
)
_MAX_LOST_VERSIONS = 1_000_000
"""More commits than a damaged log can have had: no version is counted twice, for readers that know it."""
_TABLES = ("items", "texts")
_PARTS = {"image": "picture", "clip": "clip", "vectors": "vectors"}
"""The columns of items that name blobs, and their names for people."""


@dataclass(slots=True)
class _Inspection:
    """The findings in a collection whose database can be read."""

    files: int = 0
    items: int = 0
    blobs: int = 0
    problems: list[VerifyProblem] = field(default_factory=list[VerifyProblem])
    damaged_blobs: set[str] = field(default_factory=set[str])
    damaged_items: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Documents and ids of items that name a damaged blob."""
    short: set[str] = field(default_factory=set[str])
    """Documents that lack items."""


def verify(
    location: LocalLocation,
    *,
    repair: bool = False,
    prepare: PrepareReindex | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check every byte of a collection on this machine, except for its runs.

    With `repair`, what is damaged is made again from the documents' own files, by what `prepare` returns,
    or else by the next `add`. A collection that cannot be written to is checked as it is. Raises
    `CollectionBusy` if another process is reading documents into it and a repair is wanted, and
    `CollectionError` if there is no collection, or nothing of it can be read. What `prepare` raises ends
    the repair; a damaged database has been replaced by then.
    """
    path = location.directory / DATABASE
    is_interrupted = repair and is_rescue_interrupted(path)
    if not is_interrupted and not is_collection(location.directory):
        raise CollectionError(f"There is no collection in {location.address}.")
    with ExitStack() as stack:
        if repair:
            stack.enter_context(location.build())
            with location.writer_lock.hold():
                finish_rescue(path)
        faults = location.check_database()
        problems = [VerifyProblem("", DATABASE, fault, file=DATABASE) for fault in faults]
        if faults and not repair:
            return VerifyReport(files=0, items=0, pictures=0, problems=tuple(problems), repaired=False)
        is_log_lost = bool(faults) and bool(describe_wal_damage(path))
        lost = _rescue(location) if faults else []
        collection = stack.enter_context(
            closing(Collection.open(location.directory, durable=location.durable))
        )
        found = _inspect(collection, progress)
        problems += found.problems
        if not repair or not problems:
            return _report(found, problems, repaired=False)
        reindex = prepare(collection) if prepare and can_remake(collection) else None
        begun = [*lost, *_delete_damaged(collection, found)]
    failure = _read_again(location, reindex, begun)
    with closing(Collection.open(location.directory, durable=location.durable)) as again:
        report = _report_repair(again, problems, failure, progress)
    return report.plus(0, [_LOST_COMMITS]) if is_log_lost else report


def _rescue(location: LocalLocation) -> list[Path]:
    """Replace a damaged database by one with all documents of it that can be read whole.

    The others are marked as begun; returns the paths of their files. The caller holds the lock of builds.
    Raises `CollectionError` if the settings or the list of files cannot be read.
    """
    unreadable = CollectionError(
        f"The database of {location.address} is damaged beyond repair: its list of documents, or what it was "
        "built with, cannot be read.",
        "Restore a backup (vrag index restore), or build the collection again in another directory.",
    )
    with location.writer_lock.hold():
        return rescue_database(location.directory / DATABASE, SCHEMA, _copy, unreadable)


def _copy(source: Connection, rescued: Connection) -> list[Path]:
    """Copy all documents that can be read whole to a new database; return the files of the others."""
    settings = source.execute("SELECT name, value FROM settings").fetchall()
    files = [file_of(row) for row in source.execute(f"SELECT {', '.join(FILE_COLUMNS)} FROM files")]  # noqa: S608
    rescued.executemany("INSERT INTO settings VALUES (?, ?)", settings)
    whole = {id for id in {file.document.id for file in files} if _copy_document(source, rescued, id)}
    marks = ", ".join("?" * len(FILE_COLUMNS))
    for file in files:
        kept = file if file.document.id in whole else _begin_again(file)
        rescued.execute(f"INSERT INTO files VALUES ({marks})", file_values(*kept))  # noqa: S608
    statement = "UPDATE settings SET value = value + ? WHERE name = 'version'"
    rescued.execute(statement, (_MAX_LOST_VERSIONS,))
    write_item_hash(rescued)
    lost = (file.document for file in files if file.document.id not in whole)
    return [Path(document.path) for document in lost if document.status.served]


def _copy_document(source: Connection, rescued: Connection, document: str) -> bool:
    """Copy the items of a document; return whether all of them could be read. Otherwise none is copied."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    with suppress(apsw.Error):
        condition = "number IN (SELECT number FROM items WHERE document = ?)"
        for table in _TABLES:
            rows[table] = source.execute(
                f"SELECT * FROM {table} WHERE {condition}",  # noqa: S608
                (document,),
            ).fetchall()
        for table, values in rows.items():
            if values:
                marks = ", ".join("?" * len(values[0]))
                rescued.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608
        return len(rows["items"]) == len(rows["texts"])
    return False


def _begin_again(file: KnownFile) -> KnownFile:
    if not file.document.status.served:
        return file
    return KnownFile(replace(file.document, status=DocumentStatus.PENDING, items=0, reason=""), 0)


def can_remake(collection: Collection) -> bool:
    """Return whether this version of vrag makes the same items of a file as the builder of a collection."""
    return collection.header.options.fingerprint == collection.header.corpus_fingerprint


def _inspect(collection: Collection, progress: Progress | None) -> _Inspection:
    store, found = collection.store, _Inspection()
    with store.snapshot():
        files = store.files()
        names = {file.document.id: file.document.name for file in files}
        rows = store.read_items(["id", "document", "kind", "ordinal", *_PARTS]).records()
    found.files, found.items = len(files), len(rows)
    counts = Counter[str](row["document"] for row in rows)
    users: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for row, column in product(rows, _PARTS):
        if row[column] is not None:
            users.setdefault(blob_of(row[column]), []).append((column, row))
    found.blobs = len(users)
    for name in _find_damaged(store.blobs, list(users), progress):
        found.damaged_blobs.add(name)
        for column, row in users[name]:
            found.damaged_items.append((row["document"], row["id"]))
            found.problems.append(_describe_item(row, column, names, collection))
    for file in files:
        document = file.document
        if document.status.served and counts[document.id] != file.rows:
            found.short.add(document.id)
            detail = f"It has {counts[document.id]} of {file.rows} items."
            found.problems.append(VerifyProblem(document.id, document.name, detail))
    found.problems += check_caches(collection.cache_dir)
    if stray := store.count_stray():
        detail = f"{stray} stored files are named by nothing: a killed process left them."
        found.problems.append(VerifyProblem("", "blobs", detail, ProblemKind.LEFTOVER))
    return found


def _find_damaged(blobs: BlobStore, names: Sequence[str], progress: Progress | None) -> Iterator[str]:
    for done, name in enumerate(names, 1):
        if progress:
            progress(done, len(names))
        yield from blobs.damaged([name])


def _describe_item(
    row: dict[str, str], column: str, names: dict[str, str], collection: Collection
) -> VerifyProblem:
    name = names.get(row["document"], row["document"][:16])
    path = collection.store.blobs.path(blob_of(row[column]))
    reason = "damaged" if path.exists() else "missing"
    detail = f"Its {_PARTS[column]} is {reason}."
    file = path.relative_to(collection.directory).as_posix()
    return VerifyProblem(
        row["document"], f"{row['kind']} {row['ordinal']} of {name}", detail, file=file, item=row["id"]
    )


def _delete_damaged(collection: Collection, found: _Inspection) -> list[Path]:
    """Delete what is damaged, and mark its documents as begun; return the paths of their files."""
    store = collection.store
    documents = found.short | {document for document, _ in found.damaged_items}
    files = [file.document for file in store.files() if file.document.id in documents]
    begun = [replace(file, status=DocumentStatus.PENDING, items=0, reason="") for file in files]
    if documents:
        with store.change() as change:
            change.delete_items_by_id(id for _, id in found.damaged_items)
            change.put_files((document, 0) for document in begun)
    with store.database.lock(), store.database.explain("repaired"):
        store.blobs.delete(found.damaged_blobs)
    store.collect()
    for problem in found.problems:
        if problem.file.startswith("cache/"):
            delete_cache(collection.directory / problem.file)
    return [Path(document.path) for document in begun]


def _read_again(location: LocalLocation, reindex: Reindex | None, begun: Sequence[Path]) -> str:
    """Make items again; return what went wrong, in a sentence."""
    if reindex is None or not begun:
        return ""
    try:
        with closing(Collection.open(location.directory, durable=location.durable)) as collection:
            reindex(collection, begun)
    except (VragError, OSError) as error:
        reason = error.message if isinstance(error, VragError) else f"{error}."
        return f"Some items could not be made again: {reason}"
    return ""


def _report_repair(
    collection: Collection, problems: list[VerifyProblem], failure: str, progress: Progress | None
) -> VerifyReport:
    """Inspect again, and tell which problems are gone, and which documents are not whole."""
    after = _inspect(collection, progress)
    left = {(problem.subject, problem.detail) for problem in after.problems}
    pending = {
        file.document.id: file.document
        for file in collection.store.files("status = ?", [DocumentStatus.PENDING.value])
    }
    report = [
        replace(
            problem,
            repaired=(problem.subject, problem.detail) not in left and problem.document not in pending,
        )
        for problem in problems
    ]
    known = {(problem.subject, problem.detail) for problem in problems}
    report += [problem for problem in after.problems if (problem.subject, problem.detail) not in known]
    for id, document in pending.items():
        detail = "It could not be read again: it is not complete."
        advice = "Add the file again, or remove the document."
        report.append(VerifyProblem(id, document.name, detail, advice=advice))
    if failure:
        report.append(VerifyProblem("", collection.address, failure, advice="Run: vrag index add"))
    return _report(after, report, repaired=True)


def _report(found: _Inspection, problems: list[VerifyProblem], *, repaired: bool) -> VerifyReport:
    return VerifyReport(
        files=found.files,
        items=found.items,
        pictures=found.blobs,
        problems=tuple(problems),
        repaired=repaired,
    )
