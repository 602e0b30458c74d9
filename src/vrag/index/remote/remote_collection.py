"""A published collection in object storage, for readers.

The database is fetched once, into the user's cache directory, in a folder of each URL; of the next one, only
the pieces that are new. Blobs are fetched when they are shown, or searched. Runs are recorded in the user's
data directory.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw
from filelock import FileLock

from vrag.atomic_io import atomic_file, replace_file, sync
from vrag.errors import CollectionError
from vrag.index.location import ReadOnlyLocation
from vrag.index.remote.object_storage import Objects
from vrag.index.remote.publication import (
    AT_ONCE,
    REPUBLISH,
    FilePart,
    Publication,
    PublicationManifest,
    PublishedHead,
    read_object,
)
from vrag.index.schema import SCHEMA
from vrag.index.store import CollectionStore
from vrag.scratch import scratch_directory
from vrag.storage.blobs import BlobStore
from vrag.storage.database import Database
from vrag.storage.writer_lock import RefusedLock

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from vrag.storage.connection import Connection

log = logging.getLogger("vrag")

FRESH_SECONDS = 1.0
"""Interval at which readers check whether something newer was published."""
MAX_CACHE_BYTES = 4 << 30
"""Bytes of fetched blobs of a collection that stay on this machine."""
_KEPT_FORMER = 1
"""Files of former publications that stay: another process may still be reading it."""
_WHOLE, _UNFINISHED = ".db", ".part"
"""Ends of the names of databases, and of those that are being fetched."""
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.CantOpenError)


def read_only(address: str) -> CollectionError:
    """Build the error for writing to a published collection."""
    return CollectionError(
        f"{address} is published and read-only.",
        "Change the collection it was published from, and publish it again: vrag index publish URL",
    )


class RemoteLocation(ReadOnlyLocation):
    """The location of a published collection, by its URL in object storage."""

    def __init__(self, url: str) -> None:
        objects = Objects(url)
        plain = re.sub(r"[^A-Za-z0-9]+", "-", objects.url.rsplit("/", 1)[-1])[:40].strip("-")
        digest = hashlib.sha256(objects.place.encode()).hexdigest()
        folder = f"{plain}-{digest[:12]}"  # readable, and one for each address
        refusal = read_only(objects.url)
        super().__init__(
            objects.url, f"published/{folder}", self._open_store, self._find_size, refusal, REPUBLISH
        )
        self._database = PublishedDatabase(self.cache_dir / "database", objects)
        self._blobs = FetchedBlobs(self.cache_dir / "blobs", objects)

    def _open_store(self) -> CollectionStore:
        return CollectionStore(self._database, self._blobs)

    def _find_size(self) -> int:
        return self._database.publication.bytes


@dataclass(eq=False, slots=True)
class _OpenFile:
    """The database of a publication, open."""

    publication: Publication
    database: Database
    reads: int = 0
    """Reads in progress."""


class PublishedDatabase(Database):
    """The database of the newest publication, or of one that is at most a second older; only read.

    A read that has begun goes on with the state that it sees.
    """

    def __init__(self, directory: Path, objects: Objects) -> None:
        super().__init__(directory, SCHEMA, RefusedLock(read_only(objects.url)), CollectionError)
        self._objects, self._cache = objects, DatabaseCache(directory, objects)
        self._current: _OpenFile | None = None
        self._files: list[_OpenFile] = []
        """The current one, and former ones that are still being read."""
        self._checked = -math.inf
        self._polling, self._changing = threading.Lock(), threading.Lock()

    @property
    def publication(self) -> Publication:
        """The publication that is read."""
        file = self._acquire()
        self._release(file)
        return file.publication

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read one state, the newest at the start of the block; inside another one, the same as that."""
        file: _OpenFile | None = getattr(self._local, "file", None)
        if file is not None:
            with file.database.read() as connection:
                yield connection
            return
        self._local.file = file = self._acquire()
        try:
            with file.database.read() as connection:
                yield connection
        except CollectionError as error:
            if not isinstance(error.__cause__, _DAMAGE):
                raise
            self._discard(file)
            raise CollectionError(error.message, "Run the command again: it is fetched again.") from error
        finally:
            self._local.file = None
            self._release(file)

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._changing:
            for file in self._files:
                file.database.close()
            self._files, self._current = [], None
        self._cache.close()

    def _acquire(self) -> _OpenFile:
        """Return the newest file, to be released.

        One thread at a time looks for it; meanwhile others read the one before.
        """
        while True:
            current = self._current
            is_fresh = current is not None and time.monotonic() - self._checked < FRESH_SECONDS
            if not is_fresh and self._polling.acquire(blocking=current is None):
                try:
                    self._update()
                finally:
                    self._polling.release()
            with self._changing:
                if self._current is not None:
                    self._current.reads += 1
                    return self._current

    def _release(self, file: _OpenFile) -> None:
        with self._changing:
            file.reads -= 1
            self._close_former()

    def _close_former(self) -> None:
        for file in [each for each in self._files if each is not self._current and not each.reads]:
            file.database.close()
            self._files.remove(file)

    def _update(self) -> None:
        """Open what is published now, unless it is open."""
        self._checked = time.monotonic()
        tried: Publication | None = None
        while True:
            head = PublishedHead.read(self._objects)
            if head is None:
                raise CollectionError(
                    f"No collection is published at {self._objects.url}.",
                    "Publish one: vrag index publish URL",
                )
            current = self._current
            if current and current.publication == head.current and current.database.path.exists():
                return
            try:
                self._change(head.current)
            except CollectionError:  # it may have been pruned meanwhile, or its file here was damaged
                if tried == head.current:
                    raise
                tried = head.current
            else:
                return

    def _change(self, publication: Publication) -> None:
        """Make the file of a publication the current one."""
        path = self._cache.fetch(publication, {file.database.path for file in self._files})
        try:
            database = Database.open(path, SCHEMA, self._lock, CollectionError, fixed=True)
        except CollectionError:
            self._cache.discard(path)
            raise
        with self._changing:
            self._current = _OpenFile(publication, database)
            self._files.append(self._current)
            self._close_former()

    def _discard(self, file: _OpenFile) -> None:
        """Let a damaged file be fetched again."""
        with self._changing:
            if self._current is file:
                self._current = None
                self._cache.discard(file.database.path)


class DatabaseCache:
    """The databases of publications in a directory on this machine.

    One that is being fetched has a name of its own until it is whole: what a killed process has fetched of it
    is used by the next one, piece by piece, where it has the hash of the piece.
    """

    def __init__(self, directory: Path, objects: Objects) -> None:
        self._directory, self._objects = directory, objects
        self._scratch = ExitStack()
        self._temporary: Path | None = None
        """The directory that is used where nothing can be written to the usual one."""

    def fetch(self, publication: Publication, in_use: set[Path]) -> Path:
        """Return the file of a publication's database; fetch what is missing of it first.

        Files of former publications are deleted, but the last, and those in use. Raises `CollectionError`.
        """
        target = self._directory / f"{publication.manifest}{_WHOLE}"
        if _find_size(target) == publication.database:
            return target
        manifest = PublicationManifest.read(self._objects, publication)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._fetch(target, publication, manifest, in_use)
        except OSError as refused:
            log.info("%s cannot be written to: %s.", self._directory, refused.strerror or refused)
        else:
            return target
        try:
            if self._temporary is None:
                self._temporary = self._scratch.enter_context(scratch_directory())
            target = self._temporary / target.name
            self._fetch(target, publication, manifest, in_use)
        except OSError as error:
            self.close()
            raise CollectionError(
                f"There is no disk space for the database of {self._objects.url}: {error.strerror or error}.",
                "Free some in the user's cache directory, or in the folder for temporary files (TMPDIR).",
            ) from error
        return target

    def discard(self, path: Path) -> None:
        """Let a damaged file be fetched again, of which the sound pieces are used."""
        with suppress(OSError):
            replace_file(path, path.with_suffix(_UNFINISHED))

    def close(self) -> None:
        """Delete what was fetched to a temporary directory."""
        self._scratch.close()
        self._temporary = None

    def _fetch(
        self, target: Path, publication: Publication, manifest: PublicationManifest, in_use: set[Path]
    ) -> None:
        unfinished = target.with_suffix(_UNFINISHED)
        with FileLock(target.with_name("fetch.lock"), is_singleton=False):
            if _find_size(target) == publication.database:  # another process has just fetched it
                return
            unfinished.touch()
            with unfinished.open("r+b") as file:
                for start, data in self._missing_pieces(unfinished, manifest):
                    file.seek(start)
                    file.write(data)
                file.truncate(publication.database)
            sync(unfinished)
            replace_file(unfinished, target)
            _remove_former(target, in_use)

    def _missing_pieces(
        self, unfinished: Path, manifest: PublicationManifest
    ) -> Generator[tuple[int, bytes]]:
        """Yield the pieces that an unfinished file lacks, and where they begin."""
        parts = _find_parts(unfinished.parent, manifest.piece_bytes)
        missing: dict[int, str] = {}
        for number, piece in enumerate(manifest.pieces):
            start = number * manifest.piece_bytes
            found = parts.get(piece)
            if found is None:
                missing[start] = piece
            elif not any((part.path, part.start) == (unfinished, start) for part in found):
                yield start, found[0].read()
        log.info("Fetching %d of %d pieces from %s.", len(missing), len(manifest.pieces), self._objects.url)

        def fetch(piece: str) -> bytes:
            return read_object(self._objects, "pieces", piece)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            fetched = pool.map(fetch, missing.values())
            try:
                yield from zip(missing, fetched, strict=True)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _find_parts(directory: Path, size: int) -> dict[str, list[FilePart]]:
    """Find all pieces that the files in a directory hold, by their hashes."""
    parts: dict[str, list[FilePart]] = {}
    for path in directory.iterdir():
        if path.suffix in {_WHOLE, _UNFINISHED}:
            with path.open("rb") as file:
                for number, data in enumerate(iter(lambda: file.read(size), b"")):
                    part = FilePart(path, number * size, size)
                    parts.setdefault(hashlib.sha256(data).hexdigest(), []).append(part)
    return parts


def _remove_former(target: Path, in_use: set[Path]) -> None:
    """Delete files of former publications."""
    ages = {path: path.stat().st_mtime for path in target.parent.glob(f"*{_WHOLE}") if path != target}
    former = sorted(ages, key=ages.__getitem__, reverse=True)[_KEPT_FORMER:]
    for path in (*former, *target.parent.glob(f"*{_UNFINISHED}")):
        if path not in in_use:
            with suppress(OSError):
                path.unlink()


def _find_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


class FetchedBlobs(BlobStore):
    """The blobs of a published collection: fetched when they are read, and kept in a directory of a size."""

    def __init__(self, directory: Path, objects: Objects) -> None:
        super().__init__(directory, durable=False)
        self._objects = objects
        self._added = MAX_CACHE_BYTES
        """Bytes that were written since former blobs were deleted."""

    def read(self, name: str) -> bytes:
        """Read the bytes of this name; raise `CollectionError` if there are none or they are damaged."""
        path = self.path(name)
        with suppress(OSError):
            data = super().read(name)
            os.utime(path)
            return data
        data = read_object(self._objects, "blobs", name)
        with suppress(OSError):  # a full or read-only disk
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, durable=False) as file:
                file.write(data)
            self._limit_size(len(data))
        return data

    def _limit_size(self, added: int) -> None:
        """Delete the blobs that were read least recently."""
        self._added += added
        if self._added < MAX_CACHE_BYTES // 8:
            return
        self._added = 0
        found = [(entry.stat(), entry.path) for folder in self.folders() for entry in os.scandir(folder)]
        found.sort(key=lambda each: each[0].st_mtime)
        excess = sum(status.st_size for status, _ in found) - MAX_CACHE_BYTES
        for status, path in found:
            if excess <= 0:
                return
            os.unlink(path)  # noqa: PTH108 - what scandir yields
            excess -= status.st_size
