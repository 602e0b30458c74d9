"""The making of a backup: a consistent state of the collection is stored, and becomes a snapshot."""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag import __version__
from vrag.errors import CollectionError
from vrag.index.backups.capture import KnownFile, StateCapture
from vrag.index.backups.held_files import hold_files
from vrag.index.backups.snapshot import BackupSnapshot
from vrag.index.backups.store import BackupStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vrag.index.backups.capture import CapturedState
    from vrag.index.backups.snapshot import BackedUpFile
    from vrag.index.collection import Collection

log = logging.getLogger("vrag")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The result of a backup."""

    snapshot: BackupSnapshot
    missing: tuple[str, ...]
    """Files that the collection refers to and does not have, or that cannot be read: it is damaged."""
    damaged: tuple[str, ...]
    """Files of the tables that have changed since they were written: it is damaged. They are backed up so."""
    read: int
    """Files that were read; the others are as in the backup before."""
    deleted: tuple[str, ...]
    """Names of the older snapshots that were deleted."""
    freed_bytes: int
    prune_failure: str
    """The reason that not all older snapshots were deleted that should have been; empty if they were."""
    seconds: float


def back_up(
    collection: Collection,
    destination: Path,
    *,
    keep: int | None = None,
    moved: bool = False,
    wait: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> BackupReport:
    """Back up a collection on this machine to a directory, while others may read and write it.

    The directory holds the backups of one collection. `moved` accepts that the collection was in another
    directory before. `keep` deletes all but so many of the newest backups. `wait` is the time to wait for
    another backup to the same directory, in seconds. `progress` receives after each file how many are done,
    of how many that are new. Stopped at any moment, earlier backups stay, and the next one continues.

    Raises `CollectionBusy` if another process is writing to the backups, and `CollectionError` if they cannot
    be written, or the collection cannot be read or changes faster than it can be read.
    """
    started = time.monotonic()
    source = collection.home
    if source is None:
        raise CollectionError(
            f"{collection.address} is published; its files are not here.", "Back up the collection itself."
        )
    destination = Path(os.path.abspath(destination))  # noqa: PTH100 - Path.resolve would follow links
    _check_apart(source, destination)
    store = BackupStore.open_or_create(destination)
    announce = (
        f"Another process is writing to the backups in {destination}. Waiting for it, up to {wait:g} s."
    )
    with store.lock(wait, lambda: log.warning(announce)):
        last, known = _known_files(store)
        if last and last.collection != str(source) and not moved:
            raise CollectionError(
                f"{destination} has backups of another collection: {last.collection}.",
                "Choose another directory. If it is the same collection, and was moved: --moved",
            )
        state, added_bytes = _store_state(collection, source, store, known, progress)
        snapshot = store.write(_describe(state, source, last, added_bytes), state.files)
        deleted, freed, failure = _prune(store, keep) if keep else ((), 0, "")
    return BackupReport(
        snapshot=snapshot,
        missing=state.missing,
        damaged=tuple(record.name for record in state.damaged),
        read=state.read,
        deleted=deleted,
        freed_bytes=freed,
        prune_failure=failure,
        seconds=time.monotonic() - started,
    )


def _check_apart(source: Path, destination: Path) -> None:
    """Refuse backups that lie in the collection, or next to its own files."""
    own, other = source.resolve(), destination.resolve()
    if other.is_relative_to(own) or own.is_relative_to(other):
        raise CollectionError(
            f"The backups cannot be in {destination}: neither they nor the collection may contain the other.",
            "Choose a directory outside of the collection, best on another disk.",
        )


def _known_files(store: BackupStore) -> tuple[BackupSnapshot | None, dict[str, KnownFile]]:
    """Read the newest snapshot that is not damaged, and what an unfinished backup has stored since."""
    last, known = None, dict[str, KnownFile]()
    for name in reversed(store.names()):
        try:
            last, files = store.read(name)
        except CollectionError as error:
            log.warning("%s", error.message)
            continue
        known = {file.name: KnownFile(file, int(last.created * 1e9)) for file in files}
        break
    unfinished = store.unfinished()
    return last, known | {name: KnownFile(file, time.time_ns()) for name, file in unfinished.items()}


def _store_state(
    collection: Collection,
    source: Path,
    store: BackupStore,
    known: Mapping[str, KnownFile],
    progress: Callable[[int, int], None] | None,
) -> tuple[CapturedState, int]:
    """Store the content of a consistent state; return it, and the bytes that were not stored before."""
    writer = store.object_writer()
    try:
        with hold_files(source, store.directory) as held:
            state = StateCapture(collection, source, held, known, writer, progress).run()
        writer.flush()
    finally:
        writer.close()
    return state, writer.added_bytes


def _describe(
    state: CapturedState, source: Path, last: BackupSnapshot | None, added_bytes: int
) -> BackupSnapshot:
    """Return the facts of a snapshot that is about to be written; it is newer than the last one."""
    return BackupSnapshot(
        name="",
        collection=str(source),
        created=max(state.taken, last.created + 1e-6 if last else 0.0),
        vrag=__version__,
        content_version=state.content_version,
        documents=state.documents,
        items=state.items,
        runs=sum(map(_is_run, state.files)),
        files=len(state.files),
        bytes=sum(file.size for file in state.files),
        added_bytes=added_bytes,
        damaged=state.damaged,
    )


def _is_run(file: BackedUpFile) -> bool:
    return re.fullmatch(r"runs/[^/]+/events\.jsonl", file.name) is not None


def _prune(store: BackupStore, keep: int) -> tuple[tuple[str, ...], int, str]:
    """Delete older snapshots; return their names, the bytes that were freed, and what went wrong."""
    try:
        return *store.prune(keep), ""
    except CollectionError as error:
        return (), 0, str(error)
