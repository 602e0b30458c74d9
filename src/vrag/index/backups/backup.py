"""The making of a backup: a consistent state of the collection is stored, and becomes a snapshot."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.errors import CollectionError
from vrag.index.backups.capture import StateCapture
from vrag.index.backups.store import BackupStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.index.backups.snapshot import BackupSnapshot, SnapshotContent
    from vrag.index.collection import Collection

log = logging.getLogger("vrag")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The result of a backup."""

    snapshot: BackupSnapshot
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
    of how many. Stopped at any moment, earlier backups stay, and the next one continues.

    Raises `CollectionBusy` if another process is writing to the backups, and `CollectionError` if they cannot
    be written, or the collection cannot be read or loses documents faster than it can be read.
    """
    started = time.monotonic()
    source = collection.home
    if source is None:
        raise CollectionError(
            f"{collection.address} is read-only; its files are not here.", "Back up the collection itself."
        )
    destination = Path(os.path.abspath(destination))  # noqa: PTH100 - Path.resolve would follow links
    _check_apart(source, destination)
    store = BackupStore.open_or_create(destination)
    announce = (
        f"Another process is writing to the backups in {destination}. Waiting for it, up to {wait:g} s."
    )
    with store.lock(wait, lambda: log.warning(announce)):
        last = _read_last(store)
        if last and last.snapshot.collection != str(source) and not moved:
            raise CollectionError(
                f"{destination} has backups of another collection: {last.snapshot.collection}.",
                "Choose another directory. If it is the same collection, and was moved: --moved",
            )
        capture = StateCapture(collection, source, store, last, progress)
        snapshot = capture.run()
        deleted, freed, failure = _prune(store, keep) if keep else ((), 0, "")
    return BackupReport(
        snapshot=snapshot,
        read=capture.read,
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


def _read_last(store: BackupStore) -> SnapshotContent | None:
    """Read the newest snapshot that is not damaged."""
    for name in reversed(store.names()):
        try:
            return store.read(name)
        except CollectionError as error:
            log.warning("%s", error.message)
    return None


def _prune(store: BackupStore, keep: int) -> tuple[tuple[str, ...], int, str]:
    """Delete older snapshots; return their names, the bytes that were freed, and what went wrong."""
    try:
        return *store.prune(keep), ""
    except CollectionError as error:
        return (), 0, str(error)
