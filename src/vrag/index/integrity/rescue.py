"""The rescue of a damaged database: a new one with all documents of it that can be read whole."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from vrag.atomic_io import replace_file, sync
from vrag.errors import CollectionError
from vrag.index.location import RESCUED
from vrag.index.schema import FILE_COLUMNS, SCHEMA, KnownFile, file_of, file_values
from vrag.index.store import DATABASE, write_item_hash
from vrag.storage.connection import Connection, connect, connect_damaged
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.index.location import LocalLocation

_DAMAGED = ".damaged"
_ENDINGS = ("", "-wal", "-shm")
"""Ends of the names of the files of a database."""
_MAX_LOST_VERSIONS = 1_000_000
"""More commits than a damaged log can have had: no version is counted twice, for who has read them."""
_TABLES = ("items", "texts")


def rescue_database(location: LocalLocation) -> list[Path]:
    """Put a new database in the place of a damaged one, which is kept beside it with the ending `.damaged`.

    Documents of which an item cannot be read are marked as begun; returns the paths of their files. The
    caller holds the lock of builds. Raises `CollectionError` if the settings or the list of files cannot be
    read.
    """
    path, target = location.directory / DATABASE, location.directory / RESCUED
    with location.writer_lock.hold():
        _remove(target, _ENDINGS)
        try:
            begun = _write_anew(path, target)
        except apsw.FullError as error:
            _remove(target, _ENDINGS)
            raise CollectionError(f"{target} cannot be written: {error}.", "Free some disk space.") from error
        except apsw.Error as error:
            _remove(target, _ENDINGS)
            raise CollectionError(
                f"The database of {location.address} is damaged beyond repair: its list of documents, or "
                "what it was built with, cannot be read.",
                "Restore a backup (vrag index restore), or build the collection again in another directory.",
            ) from error
        _remove(target, _ENDINGS[1:])
        _exchange(path, target)
    return begun


def _write_anew(path: Path, target: Path) -> list[Path]:
    """Write what can be read of a damaged database to a new one; return the files of the other documents."""
    with closing(connect_damaged(path)) as source, closing(connect(target, write=True)) as rescued:
        begun = _copy(source, rescued)
        rescued.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return begun


def _remove(path: Path, endings: Sequence[str]) -> None:
    for ending in endings:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def finish_rescue(location: LocalLocation) -> None:
    """Put the new database in its place if a process died over it. The caller holds the lock of builds."""
    path, target = location.directory / DATABASE, location.directory / RESCUED
    with location.writer_lock.hold():
        if target.exists() and not path.exists():
            _exchange(path, target)


def _exchange(path: Path, target: Path) -> None:
    """Replace a database by another one that is complete.

    Its log goes after it, since that must not be applied to another database, nor the database be read
    without it.
    """
    for ending in _ENDINGS:
        _keep_damaged(path.with_name(path.name + ending))
        sync(path.parent)
    replace_file(target, path)
    sync(path.parent)


def _copy(source: Connection, rescued: Connection) -> list[Path]:
    """Copy all documents that can be read whole, in one commit; return the files of the others."""
    settings = source.execute("SELECT name, value FROM settings").fetchall()
    files = [file_of(row) for row in source.execute(f"SELECT {', '.join(FILE_COLUMNS)} FROM files")]  # noqa: S608
    rescued.execute("BEGIN IMMEDIATE")
    for step in SCHEMA.steps:
        for _ in rescued.execute(step):
            pass
    rescued.pragma("application_id", SCHEMA.application)
    rescued.pragma("user_version", SCHEMA.version)
    rescued.executemany("INSERT INTO settings VALUES (?, ?)", settings)
    whole = {id for id in {file.document.id for file in files} if _copy_document(source, rescued, id)}
    marks = ", ".join("?" * len(FILE_COLUMNS))
    for file in files:
        kept = file if file.document.id in whole else _begin_again(file)
        rescued.execute(f"INSERT INTO files VALUES ({marks})", file_values(*kept))  # noqa: S608
    statement = "UPDATE settings SET value = value + ? WHERE name = 'version'"
    rescued.execute(statement, (_MAX_LOST_VERSIONS,))
    write_item_hash(rescued)
    rescued.execute("COMMIT")
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


def _keep_damaged(path: Path) -> None:
    if path.exists():
        os.replace(path, path.with_name(path.name + _DAMAGED))  # noqa: PTH105 - replaces an older one
