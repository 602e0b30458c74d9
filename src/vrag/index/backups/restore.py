"""The restoring of a collection from its backups, into a directory of its own."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vrag.atomic_io import atomic_dir, make_directory, one_writer
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.store import BackupStore
from vrag.index.collection import Collection
from vrag.index.integrity.problems import copy_sealed_files
from vrag.index.location import FILE_NAME, CollectionHeader
from vrag.index.source_file import KEPT_COPIES
from vrag.index.tables.file_records import record_present

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from vrag.index.backups.snapshot import BackedUpFile, BackupSnapshot

_MAX_LISTED = 10
"""Files that an error lists at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The result of restoring."""

    snapshot: BackupSnapshot
    directory: Path
    missing: tuple[str, ...]
    """Files that were left out because they are damaged in the backup."""
    seconds: float


def restore(
    backups: Path,
    target: Path,
    snapshot: str = "last",
    *,
    partial: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RestoreReport:
    """Restore a collection into a directory that is empty or does not exist; it appears as a whole.

    `snapshot` is the beginning of a name, or `last`. The hash of every file is checked. With `partial`,
    pictures, uploaded files and runs are left out whose content is damaged. What was damaged in the tables
    when they were backed up, as the snapshot says, is as damaged in the restored ones. `progress` receives
    after each file how many are done, of how many. Killed, it leaves a hidden directory that the next call
    replaces.

    Raises `CollectionBusy` while another process restores to the directory, and `CollectionError` if there is
    no such snapshot, or a part of it is damaged; the directory is not empty, or cannot be written to.
    """
    started = time.monotonic()
    target = Path(os.path.abspath(target))  # noqa: PTH100 - Path.resolve would follow links
    store = BackupStore.open(backups)
    facts, files = store.read(store.find(snapshot))
    _check_names(files, facts.name)
    if target.resolve().is_relative_to(store.directory.resolve()):
        raise CollectionError(f"{target} lies in the backups.", "Choose a directory outside of them.")
    try:
        with _one_restore(target), atomic_dir(target) as directory:
            missing = _fill(directory, store, facts, files, target, partial=partial, progress=progress)
    except OSError as error:
        raise CollectionError(
            f"{target} cannot be written to: {error.strerror or error}.",
            "Free some disk space or fix the permissions, and run the command again. To restore into a "
            "mounted volume, name a directory in it.",
        ) from error
    return RestoreReport(
        snapshot=facts, directory=target, missing=missing, seconds=time.monotonic() - started
    )


@contextmanager
def _one_restore(target: Path) -> Generator[None]:
    """Keep other processes from restoring to a directory, which is still empty, or not there."""
    busy = CollectionBusy(
        f"Another process is restoring a collection to {target}.", "Choose another directory."
    )
    _check_empty(target)  # before a lock file is created
    make_directory(target.parent)
    with one_writer(target.with_name(f".{target.name}.lock"), busy):
        _check_empty(target)
        yield


def _check_empty(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CollectionError(
            f"{target} is not empty: nothing is overwritten.",
            "Choose a new directory, or move this one away.",
        )


def _fill(
    directory: Path,
    store: BackupStore,
    snapshot: BackupSnapshot,
    files: Sequence[BackedUpFile],
    target: Path,
    *,
    partial: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[str, ...]:
    """Write a collection to the directory that becomes `target`; describe what was left out."""
    defects = _write(store, files, directory, progress)
    if defects:
        _check_defects(defects, directory, target, partial=partial)
    CollectionHeader.read(directory)  # refuses one of a newer version
    for table in (directory / "index").glob("*.lance"):
        folder = f"index/{table.name}/"
        records = (record for record in snapshot.damaged if record.name.startswith(folder))
        record_present(table, records=[each._replace(name=each.name[len(folder) :]) for each in records])
    copy_sealed_files(directory)
    return tuple(_describe(defects, directory))


def _check_names(files: Sequence[BackedUpFile], snapshot: str) -> None:
    """Refuse names that lead out of the directory: a backup may come from somebody else."""
    for file in files:
        path = PurePosixPath(file.name)
        parts = file.name.split("/")
        if path.is_absolute() or {"", ".", ".."} & set(parts) or "\\" in file.name or ":" in parts[0]:
            raise CollectionError(
                f"The snapshot {snapshot} has a file that lies outside of the collection: {file.name!r}.",
                "Use backups that vrag has made.",
            )


def _write(
    store: BackupStore,
    files: Sequence[BackedUpFile],
    directory: Path,
    progress: Callable[[int, int], None] | None,
) -> dict[str, str]:
    """Write all files whose content is sound; return the defects of the others by their names."""
    defects: dict[str, str] = {}
    for done, file in enumerate(files, 1):
        path = directory / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if defect := store.objects.restore(file, path):
            defects[file.name] = defect
        if progress:
            progress(done, len(files))
    return defects


def _check_defects(defects: Mapping[str, str], directory: Path, target: Path, *, partial: bool) -> None:
    """Raise `CollectionError` for damage, but for what may be left out."""
    essential = [name for name in defects if name == FILE_NAME or name.startswith("index/")]
    if partial and not essential:
        return
    described = _describe(defects, directory)
    more = f" and {len(described) - _MAX_LISTED} more" if len(described) > _MAX_LISTED else ""
    hint = "Choose another snapshot: vrag index backups DIRECTORY"
    if not essential:
        hint += ". To restore everything else: --partial"
    raise CollectionError(
        f"{len(defects)} files are damaged in the backup; {target} was not written: "
        f"{'; '.join(described[:_MAX_LISTED])}{more}.",
        hint,
    )


def _describe(defects: Mapping[str, str], directory: Path) -> list[str]:
    """Describe for people what damaged files belong to, and their defects."""
    documents: dict[str, str] = {}
    if any(name.startswith("items/") for name in defects):
        try:
            rows = Collection.open(directory).documents()
            documents = {row.id[:16]: row.name for row in rows}
        except CollectionError:
            documents = {}  # the tables are damaged as well
    return [f"{name}{_owner(name, documents)}: {defect.rstrip('.')}" for name, defect in defects.items()]


def _owner(name: str, documents: Mapping[str, str]) -> str:
    folder, *rest = name.split("/")
    if folder == "items" and rest[0] in documents:
        return f" (a picture of {documents[rest[0]]})"
    if folder == "index":
        return f" (the table {rest[0].removesuffix('.lance')})"
    if folder == "runs" and rest:
        return f" (the run {rest[0]})"
    return " (an uploaded file)" if folder == KEPT_COPIES else ""
