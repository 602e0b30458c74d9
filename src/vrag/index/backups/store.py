"""A directory of backups of one collection: a snapshot for each, and contents that they share.

::

    backups.json                  marks the directory
    blobs/<2 digits>/<sha256>     pictures, clips, vectors, and files beside them, each stored once
    <time>/collection.db          one backup: the database, as it was then
    <time>/backup.json            its description, and the files that are not in the database
    lock                          the one process that adds or deletes

A snapshot gets its name when all that it needs is on the disk. So a process that is killed leaves whole
backups, and blobs that no snapshot needs: the next backup uses them, or pruning deletes them. A snapshot can
be opened as a collection, which is only read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import atomic_dir, make_directory, one_writer, replace_file, sync, write_whole
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.snapshot import (
    FORMAT,
    NAME,
    BackedUpFile,
    format_description,
    parse_description,
)
from vrag.index.location import DESCRIPTION, ReadOnlyLocation, read_only_backup
from vrag.index.store import BLOBS, DATABASE, CollectionStore
from vrag.parsing import parse_json
from vrag.storage.blobs import BlobStore, hash_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from vrag.index.backups.snapshot import BackupSnapshot, SnapshotContent

_MARK, _LOCK = "backups.json", "lock"
_DAMAGED = ".damaged"
"""End of the name of a blob that does not have its hash: the next backup stores it again."""


class BackupStore:
    """The backups in a directory.

    All methods raise `CollectionError` if the directory cannot be read or written, or another version of vrag
    wrote it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = BlobStore(directory / BLOBS)

    @classmethod
    def open(cls, directory: Path) -> BackupStore:
        """Open a directory with backups."""
        mark = directory / _MARK
        try:
            content: Any = parse_json(mark.read_bytes())
            written = int(content["format"])
        except (FileNotFoundError, NotADirectoryError):
            raise CollectionError(
                f"There are no backups in {directory}.", "Make one: vrag index backup DIRECTORY"
            ) from None
        except OSError as error:
            raise unreadable(directory, error) from error
        except (ValueError, KeyError, TypeError, OverflowError):
            hint = f'If nothing else is damaged, write {{"format": {FORMAT}}} into it.'
            raise CollectionError(f"{mark} is damaged.", hint) from None
        if written != FORMAT:
            age, hint = ("a newer", "Upgrade: pip install -U vrag-agent")
            if written < FORMAT:
                age, hint = ("an earlier", "Choose another directory.")
            raise CollectionError(
                f"The backups in {directory} were made by {age} version of vrag (layout {written}).", hint
            )
        return cls(directory)

    @classmethod
    def open_or_create(cls, directory: Path) -> BackupStore:
        """Open a directory with backups; make one of a directory that is empty or does not exist."""
        if (directory / _MARK).exists():
            return cls.open(directory)
        with writing(directory):
            make_directory(directory)
            if foreign := sorted(entry.name for entry in directory.iterdir() if not _is_own(entry.name)):
                raise CollectionError(
                    f"{directory} is not empty ({foreign[0]}) and has no backups.",
                    "Choose another directory.",
                )
            write_whole(directory / _MARK, json.dumps({"format": FORMAT}).encode())
        return cls(directory)

    @contextmanager
    def lock(self, wait: float = 0.0, on_wait: Callable[[], None] | None = None) -> Generator[None]:
        """Hold the lock for adding and deleting; another process is waited for, up to `wait` seconds.

        What killed processes were writing is deleted. Raises `CollectionBusy` if it still holds it then.
        """
        busy = CollectionBusy(
            f"Another process is writing to the backups in {self.directory}.",
            "Wait longer for it with --wait SECONDS (VRAG_WAIT), or stop it.",
        )
        with ExitStack() as stack:
            with writing(self.directory):
                stack.enter_context(one_writer(self.directory / _LOCK, busy, wait=wait, on_wait=on_wait))
                for path in self.directory.glob(".*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.blobs.clear_staged()
            yield

    def names(self) -> list[str]:
        """Return the names of all snapshots, the oldest first."""
        try:
            return sorted(path.name for path in self.directory.iterdir() if NAME.fullmatch(path.name))
        except OSError as error:
            raise unreadable(self.directory, error) from error

    def find(self, name: str) -> str:
        """Return the name of a snapshot by its unambiguous beginning; `last` is the newest."""
        names = self.names()
        matching = names[-1:] if name == "last" else [each for each in names if each.startswith(name)]
        if len(matching) != 1:
            count = f"{len(matching) or 'No'} snapshot{'s have names' if matching else ' has a name'}"
            raise CollectionError(
                f"{count} that begins with {name!r}." if name != "last" else "There is no backup yet.",
                f"See: vrag index backups {self.directory}",
            )
        return matching[0]

    def read(self, name: str) -> SnapshotContent:
        """Read the description of a snapshot, by its whole name."""
        path = self.directory / name / DESCRIPTION
        try:
            return parse_description(name, path.read_bytes())
        except OSError as error:
            raise unreadable(path, error) from error
        except ValueError as error:
            hint = "Use another one, or delete its directory."
            raise CollectionError(f"The snapshot {path.parent} is damaged: {error}.", hint) from error

    def database(self, name: str) -> Path:
        """Return the path of the database of a snapshot."""
        return self.directory / name / DATABASE

    def find_database_defect(self, content: SnapshotContent) -> str:
        """Read the database of a snapshot; return its defect in one sentence, empty if it is sound."""
        try:
            is_sound = hash_file(self.database(content.snapshot.name))[0] == content.database
        except OSError as error:
            return f"Its database cannot be read: {error.strerror or error}."
        return "" if is_sound else "Its database is damaged."

    def contents(self, content: SnapshotContent) -> dict[str, str]:
        """Return the SHA-256 of all files of a snapshot but the database, by their paths in the collection.

        Those that the collection did not have are absent, unless a later backup found them.
        """
        with closing(self.open_snapshot(content.snapshot.name).open_store()) as store:
            names = store.named_blobs()
        missing = set(content.snapshot.missing)
        paths = {self.relative_path(name): name for name in names}
        found = {
            path: name for path, name in paths.items() if path not in missing or not self.blobs.absent([name])
        }
        return found | {file.name: file.sha256 for file in content.files}

    def relative_path(self, name: str) -> str:
        """Return the path of a blob, relative to the collection or to the backups."""
        return self.blobs.path(name).relative_to(self.directory).as_posix()

    @contextmanager
    def create(self, name: str) -> Generator[Path]:
        """Create a directory that becomes the snapshot of a name when the block ends; the lock is held."""
        with writing(self.directory), atomic_dir(self.directory / name) as directory:
            yield directory

    def write(
        self, directory: Path, snapshot: BackupSnapshot, database: str, files: Sequence[BackedUpFile]
    ) -> None:
        """Put blobs on the disk, and write the description of a snapshot that is being created."""
        make_directory(self.directory / BLOBS)
        self.blobs.sync()
        for folder in (*self.blobs.folders(), self.directory / BLOBS):
            sync(folder)  # all: a process that was killed may have added to any
        (directory / DESCRIPTION).write_bytes(format_description(snapshot, database, files))

    def open_snapshot(self, name: str) -> ReadOnlyLocation:
        """Return the location of a snapshot as a collection, which is only read."""
        directory, database = self.directory / name, self.database(name)
        refusal = read_only_backup(directory)
        key = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
        return ReadOnlyLocation(
            str(directory),
            f"backups/{name}-{key}",
            lambda: CollectionStore.open_fixed(database, self.blobs, refusal),
            lambda: self.read(name).snapshot.bytes,
            refusal,
            f"Check the backups: vrag index backups {self.directory} --check",
        )

    def isolate(self, name: str) -> None:
        """Take the name from a damaged blob, so that the next backup stores it again."""
        path = self.blobs.path(name)
        with writing(self.directory):
            replace_file(path, path.with_name(f"{name}{_DAMAGED}"))

    def size(self) -> int:
        """Return the bytes of all databases and blobs."""
        total = 0
        try:
            for folder in (*map(self.directory.joinpath, self.names()), *self.blobs.folders()):
                total += sum(entry.stat().st_size for entry in os.scandir(folder))
        except OSError as error:
            raise unreadable(self.directory, error) from error
        return total

    def prune(self, keep: int) -> tuple[tuple[str, ...], int]:
        """Delete all snapshots but the newest, and blobs that no snapshot needs; the caller holds the lock.

        Returns the names of the deleted snapshots, and the bytes that were freed. Raises `CollectionError`,
        and deletes nothing, while a snapshot cannot be read that is kept: it is not known what it needs.
        """
        names = self.names()
        old = max(0, len(names) - keep)
        deleted, kept = names[:old], names[old:]
        try:
            needed = {sha256 for name in kept for sha256 in self.contents(self.read(name)).values()}
        except CollectionError as error:
            raise CollectionError(f"Nothing was deleted: {error.message}", error.hint) from error
        before = self.size()
        with writing(self.directory):
            for name in deleted:
                replace_file(self.directory / name, self.directory / f".{name}.deleted")
            if deleted:
                sync(self.directory)
            for name in deleted:
                shutil.rmtree(self.directory / f".{name}.deleted")
            self.blobs.collect(needed, min_age=-math.inf)
        return tuple(deleted), before - self.size()


def _is_own(name: str) -> bool:
    """Return whether a killed creation may have left this file."""
    return name == _LOCK or name.startswith(f".{_MARK}.")


def unreadable(path: Path, error: OSError) -> CollectionError:
    """Build the error for a directory of backups, or a file of it, that cannot be read."""
    return CollectionError(
        f"The backups in {path} cannot be read: {error.strerror or error}.",
        "Check the path and its permissions.",
    )


@contextmanager
def writing(backups: Path) -> Generator[None]:
    """Convert failures to write to a directory of backups to `CollectionError`s."""
    try:
        yield
    except OSError as error:
        raise CollectionError(
            f"The backups in {backups} cannot be written to: {error.strerror or error}.",
            "Free some disk space or fix the permissions, and run the command again: it continues. "
            "Finished backups are not affected.",
        ) from error
