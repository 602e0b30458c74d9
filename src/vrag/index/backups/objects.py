"""Objects: the contents of files, each stored once in a directory of backups, under its hash.

An object appears under its name once it is on the disk. A process that is killed leaves objects that no
snapshot lists: the next backup uses them, and pruning deletes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from vrag.atomic_io import Journal, make_directory, replace_file, sync, sync_files
from vrag.errors import CollectionError
from vrag.index.backups.snapshot import HASH, BackedUpFile

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterator
    from pathlib import Path

_PART = ".part-"
"""Prefix of objects that are being written."""
_DAMAGED = ".damaged"
"""End of the name of an object that does not have its hash: the next backup stores it again."""
_CHUNK_BYTES = 2**20
"""Bytes that are read and written at a time."""
_BATCH_FILES, _BATCH_BYTES = 256, 64 * 2**20
"""Objects that are put on the disk together: a disk syncs several files in the time of one."""


class SourceReadError(Exception):
    """A file cannot be read that is to be stored, or an object; the message is the reason."""


class ObjectStore:
    """The objects in a directory of backups.

    All methods raise `CollectionError` if the directory cannot be read or written.
    """

    def __init__(self, backups: Path) -> None:
        self.directory = backups / "objects"
        self._backups = backups

    def path(self, sha256: str) -> Path:
        """Return the path of an object."""
        return self.directory / sha256[:2] / sha256

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects by their hashes."""
        try:
            return {path.name: path.stat().st_size for path in self._paths() if HASH.fullmatch(path.name)}
        except OSError as error:
            raise unreadable(self._backups, error) from error

    def find_defect(self, sha256: str, size: int) -> str:
        """Read an object; return its defect in one sentence, empty if it is sound."""
        try:
            with self.path(sha256).open("rb") as file:
                return "" if _copy(file, None) == (sha256, size) else f"Its object {sha256} is damaged."
        except FileNotFoundError:
            return f"Its object {sha256} is missing."
        except (OSError, SourceReadError) as error:
            return f"Its object {sha256} cannot be read: {error}."

    def restore(self, file: BackedUpFile, target: Path) -> str:
        """Write a file of a snapshot to a new path, with its modification time.

        Returns the defect of its object in one sentence, and writes nothing then; empty if it is sound.
        """
        try:
            source = self.path(file.sha256).open("rb")
        except OSError:
            return self.find_defect(file.sha256, file.size)
        copied: object = None
        with source, suppress(SourceReadError), target.open("xb") as out:
            copied = _copy(source, out)
        if copied != (file.sha256, file.size):
            target.unlink()
            return self.find_defect(file.sha256, file.size)
        os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
        return ""

    def isolate(self, sha256: str) -> None:
        """Take the name from a damaged object, so that the next backup stores it again."""
        path = self.path(sha256)
        with suppress(OSError):
            replace_file(path, path.with_name(f"{sha256}{_DAMAGED}"))

    def delete_all_but(self, listed: Container[str]) -> int:
        """Delete the objects that are not listed, and damaged ones that are stored again.

        Returns the bytes that were freed.
        """
        freed = 0
        with writing(self._backups):
            for path in list(self._paths()):
                sha256 = path.name.removesuffix(_DAMAGED)
                if sha256 not in listed or (sha256 != path.name and self.path(sha256).exists()):
                    freed += path.stat().st_size
                    path.unlink()
        return freed

    def clear_leftovers(self) -> None:
        """Delete what killed processes were writing; the caller holds the lock of the backups."""
        with writing(self._backups):
            for path in list(self.directory.glob(f"{_PART}*")):
                path.unlink(missing_ok=True)

    def _paths(self) -> Iterator[Path]:
        return self.directory.glob("*/*")


class ObjectWriter:
    """Adds objects in batches to a directory of backups whose lock is held; `flush` ends the last one.

    What is stored is noted in a journal: a backup that is stopped is continued by the next one.
    """

    def __init__(self, backups: Path, journal: Path) -> None:
        self.added_bytes = 0
        """Bytes of objects that were not there before."""
        self._backups = backups
        self._objects = ObjectStore(backups)
        self._present = self._objects.sizes()
        self._batch: list[tuple[Path, str]] = []
        """Written objects without their names, and their hashes."""
        self._batch_bytes = 0
        self._files: list[BackedUpFile] = []
        """Files whose objects are in the batch, or were there."""
        with writing(backups):
            make_directory(self._objects.directory)
            self._journal = Journal(journal, durable=False)

    def has(self, file: BackedUpFile) -> bool:
        """Return whether the content of a file is stored, or about to be."""
        return self._present.get(file.sha256) == file.size

    def add(self, source: BinaryIO, name: str, size: int, mtime_ns: int) -> BackedUpFile:
        """Store the next `size` bytes of a source, unless they are there, and return the file.

        Raises `SourceReadError` if the source cannot be read.
        """
        part = self._objects.directory / f"{_PART}{secrets.token_hex(8)}"
        try:
            with writing(self._backups), part.open("xb") as out:
                sha256, copied = _copy(source, out, size)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        file = BackedUpFile(name, copied, mtime_ns, sha256)
        self._files.append(file)
        if self.has(file):
            part.unlink()
        else:
            self._present[sha256] = copied
            self._batch.append((part, sha256))
            self._batch_bytes += copied
            self.added_bytes += copied
        if len(self._files) >= _BATCH_FILES or self._batch_bytes >= _BATCH_BYTES:
            self._end_batch()
        return file

    def flush(self) -> None:
        """Put all objects and their names on the disk."""
        self._end_batch()
        with writing(self._backups):
            for folder in (*self._objects.directory.iterdir(), self._objects.directory):
                sync(folder)  # all: a process that was killed may have added to any

    def close(self) -> None:
        """Close the journal; the next backup reads it."""
        self._journal.close()

    def _end_batch(self) -> None:
        """Put the objects of the batch on the disk, then give them their names."""
        with writing(self._backups):
            sync_files([part for part, _ in self._batch])
            for part, sha256 in self._batch:
                path = self._objects.path(sha256)
                path.parent.mkdir(exist_ok=True)
                replace_file(part, path)
            for file in self._files:
                self._journal.append(json.dumps(file).encode())
        self._batch, self._batch_bytes, self._files = [], 0, []


def _copy(source: BinaryIO, target: BinaryIO | None, size: int | None = None) -> tuple[str, int]:
    """Copy all bytes, or `size` of them; return their SHA-256 and their number."""
    digest, copied = hashlib.sha256(), 0
    while data := _read(source, _CHUNK_BYTES if size is None else min(_CHUNK_BYTES, size - copied)):
        digest.update(data)
        copied += len(data)
        if target is not None:
            target.write(data)
    return digest.hexdigest(), copied


def _read(source: BinaryIO, size: int) -> bytes:
    try:
        return source.read(size)
    except OSError as error:
        raise SourceReadError(error.strerror or str(error)) from error


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
