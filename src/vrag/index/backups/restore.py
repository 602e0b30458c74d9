"""The restoring of a collection from its backups, into a directory of its own."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vrag.atomic_io import atomic_dir, make_directory, one_writer
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.store import BackupStore
from vrag.index.source_file import KEPT_COPIES
from vrag.index.store import BLOBS, DATABASE
from vrag.storage.blobs import hash_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from vrag.index.backups.snapshot import BackupSnapshot, SnapshotContent

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
    pictures, uploaded files and runs are left out whose content is damaged. `progress` receives after each
    file how many are done, of how many. Killed, it leaves a hidden directory that the next call replaces.

    Raises `CollectionBusy` while another process restores to the directory, and `CollectionError` if there is
    no such snapshot, or a part of it is damaged; the directory is not empty, or cannot be written to.
    """
    started = time.monotonic()
    target = Path(os.path.abspath(target))  # noqa: PTH100 - Path.resolve would follow links
    store = BackupStore.open(backups)
    content = store.read(store.find(snapshot))
    if target.resolve().is_relative_to(store.directory.resolve()):
        raise CollectionError(f"{target} lies in the backups.", "Choose a directory outside of them.")
    if defect := store.find_database_defect(content):
        raise CollectionError(
            f"{defect[:-1]} in the backup {content.snapshot.name}; {target} was not written.",
            f"Choose another snapshot: vrag index backups {store.directory}",
        )
    try:
        with _one_restore(target), atomic_dir(target) as directory:
            missing = _fill(directory, store, content, target, partial=partial, progress=progress)
    except OSError as error:
        raise CollectionError(
            f"{target} cannot be written to: {error.strerror or error}.",
            "Free some disk space or fix the permissions, and run the command again. To restore into a "
            "mounted volume, name a directory in it.",
        ) from error
    return RestoreReport(
        snapshot=content.snapshot, directory=target, missing=missing, seconds=time.monotonic() - started
    )


@contextmanager
def _one_restore(target: Path) -> Generator[None]:
    """Keep other processes from restoring to a directory, which is still empty, or not there."""
    busy = CollectionBusy(
        f"Another process is restoring a collection to {target}.", "Choose another directory."
    )
    _check_empty(target)  # before a lock file is created
    make_directory(target.parent)
    lock = target.with_name(f".{target.name}.lock")
    with one_writer(lock, busy):
        _check_empty(target)
        yield
        with suppress(OSError):  # whoever comes now is refused: the directory is not empty
            lock.unlink()


def _check_empty(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CollectionError(
            f"{target} is not empty: nothing is overwritten.",
            "Choose a new directory, or move this one away.",
        )


def _fill(
    directory: Path,
    store: BackupStore,
    content: SnapshotContent,
    target: Path,
    *,
    partial: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[str, ...]:
    """Write a collection to the directory that becomes `target`; describe what was left out."""
    name = content.snapshot.name
    times = {file.name: file.mtime_ns for file in content.files}
    _check_names(times, name)
    shutil.copyfile(store.database(name), directory / DATABASE)
    contents = store.contents(content)
    defects: dict[str, str] = {}
    for done, (path, sha256) in enumerate(sorted(contents.items()), 1):
        if defect := _write(store, sha256, directory / path, times.get(path)):
            defects[path] = defect
        if progress:
            progress(done, len(contents))
    described = tuple(_describe(defects, contents, store, name))
    if defects and not partial:
        more = f" and {len(described) - _MAX_LISTED} more" if len(described) > _MAX_LISTED else ""
        raise CollectionError(
            f"{len(defects)} files are damaged in the backup; {target} was not written: "
            f"{'; '.join(described[:_MAX_LISTED])}{more}.",
            "Choose another snapshot: vrag index backups DIRECTORY. To restore everything else: --partial",
        )
    return described


def _check_names(names: Mapping[str, int], snapshot: str) -> None:
    """Refuse names that lead out of the directory: a backup may come from somebody else."""
    for name in names:
        parts = name.split("/")
        if (
            PurePosixPath(name).is_absolute()
            or {"", ".", ".."} & set(parts)
            or "\\" in name
            or ":" in parts[0]
        ):
            raise CollectionError(
                f"The snapshot {snapshot} has a file that lies outside of the collection: {name!r}.",
                "Use backups that vrag has made.",
            )


def _write(store: BackupStore, sha256: str, target: Path, mtime_ns: int | None) -> str:
    """Copy a stored content to a new file, and check its hash; return its defect, and write nothing then."""
    source = store.blobs.path(sha256)
    if not source.is_file():
        return "its content is missing"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if hash_file(target)[0] != sha256:
        target.unlink()
        return "its content is damaged"
    if mtime_ns:
        os.utime(target, ns=(mtime_ns, mtime_ns))
    return ""


def _describe(
    defects: Mapping[str, str], contents: Mapping[str, str], store: BackupStore, name: str
) -> list[str]:
    """Describe for people what damaged files belong to, and their defects."""
    damaged = {contents[path] for path in defects if path.startswith(f"{BLOBS}/")}
    owners: dict[str, str] = {}
    if damaged:
        with closing(store.open_snapshot(name).open_store()) as collection:
            owners = collection.describe_blobs(damaged)
    return [f"{path}{_owner(path, owners.get(contents[path]))}: {defect}" for path, defect in defects.items()]


def _owner(path: str, owner: str | None) -> str:
    folder, *rest = path.split("/")
    if owner is not None:
        return f" ({owner})"
    if folder == "runs" and rest:
        return " (recorded runs)"
    return " (an uploaded file)" if folder == KEPT_COPIES else ""
