"""The capture of a committed state of a collection, while others read and write it.

The lock of writers is not taken. The state is consistent nevertheless:

1. *The database* is copied in one step, out of one snapshot.
2. *Blobs* that its items name are copied, unless they are stored. Meanwhile they are held, so that none is
   collected. One that is missing was erased with its document, and all begins again, unless the newest items
   name it as well. That is damage from before: the backup is made without it, and says so.
3. *Uploaded files.* Each that a row refers to has to be there as it was indexed, by its name or by the hidden
   one that it gets while it is replaced or removed; otherwise the newest rows decide, as for blobs.
4. *Recorded runs* are treated alike: their database in one step, then the files that it names.
5. *Everything else* as it is.

Files are known by name, size and modification time from the backup before and are then not read again.
What belongs to a process, or can be made again, is left out: locks, caches, unfinished files.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from vrag import __version__
from vrag.atomic_io import is_unfinished, replace_file
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.snapshot import BackedUpFile, BackupSnapshot, name_of
from vrag.index.backups.store import writing
from vrag.index.location import STAGING, is_leftover
from vrag.index.source_file import KEPT_COPIES
from vrag.index.store import BLOBS, DATABASE
from vrag.storage.blobs import BlobStore, hash_file
from vrag.storage.connection import connect
from vrag.storage.database import Database, Schema
from vrag.storage.writer_lock import RefusedLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vrag.index.backups.snapshot import SnapshotContent
    from vrag.index.backups.store import BackupStore
    from vrag.index.collection import Collection
    from vrag.types import Document

ATTEMPTS = 50
"""Attempts to find a state of which nothing is erased while it is stored; what was stored stays."""
_RECENT_NS = 2_000_000_000
"""Age below which a file may have changed again within the resolution of its modification time."""
_BATCH_FILES, _BATCH_BYTES = 256, 64 * 2**20
"""Contents that are put on the disk together."""
_RUNS, _RUN_DATABASE = "runs", "runs.db"
"""The folder of recorded runs, and their database in it, whose files lie in its folder `blobs`."""
_RUN_SCHEMA = Schema(0, (), "store of runs")
_LEFT_OUT = {BLOBS, STAGING, _RUNS, "cache"}
"""Folders of a collection that are left out, or treated apart."""
_UPLOADED_PART = ".part"
"""End of the names of uploaded files that are being received."""
_HIDDEN_COPIES = (".before", ".gone")
"""Ends of the hidden names of an uploaded file that is being replaced or removed."""


class _ChangedError(Exception):
    """The collection has lost a part of the state that is being stored."""


class _SourceReadError(Exception):
    """A file cannot be read that is to be stored."""


class StateCapture:
    """One capture of a state, in as many attempts as it takes. The caller holds the lock of the backups."""

    def __init__(
        self,
        collection: Collection,
        source: Path,
        store: BackupStore,
        last: SnapshotContent | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.read = 0
        """Files that were read."""
        self._collection, self._source, self._store, self._last = collection, source, store, last
        self._known = {file.name: file for file in last.files} if last else {}
        self._progress = progress
        self._added_bytes = 0
        """Bytes that were not stored before."""
        self._unsynced: dict[str, int] = {}
        """Contents that are not on the disk yet, with their bytes."""
        self._missing: set[str] = set()

    def run(self) -> BackupSnapshot:
        """Store a committed state as the newest snapshot, and return its facts.

        Raises `CollectionBusy` if documents are removed faster than their blobs can be copied, and
        `CollectionError` if the collection cannot be read, or the backups cannot be written.
        """
        with ExitStack() as stack:
            with suppress(OSError):  # nothing may be written to the collection: what is gone is noticed
                stack.enter_context(self._collection.store.blobs.hold())
                if (self._source / _RUNS / _RUN_DATABASE).is_file():
                    stack.enter_context(BlobStore(self._source / _RUNS / BLOBS).hold())
            for _ in range(ATTEMPTS):
                with suppress(_ChangedError):
                    return self._attempt()
        raise CollectionBusy(
            "Documents are removed from the collection faster than a backup can copy them.",
            "Run the command again when less is written: it continues.",
        )

    def _attempt(self) -> BackupSnapshot:
        created = max(time.time(), self._last.snapshot.created + 1e-5 if self._last else 0.0)
        name, store = name_of(created), self._collection.store
        self._missing = set()
        with self._store.create(name) as directory:
            with store.snapshot():
                store.database.copy(directory / DATABASE)
                catalog, documents = self._collection.catalog(), self._collection.documents()
                blobs = sorted(store.named_blobs())
            units = self._list_units()
            sizes = self._store_blobs(blobs, len(units))
            runs, files = self._store_runs(directory / _RUN_DATABASE)
            files += [file for unit in self._counted(units, len(blobs)) for file in self._store_unit(unit)]
            self._check_uploads(documents, files)
            digest, size = self._settle_database(directory / DATABASE)
            snapshot = BackupSnapshot(
                name=name,
                collection=str(self._source),
                created=created,
                vrag=__version__,
                content_version=catalog.content,
                documents=len(documents),
                items=len(catalog.ids),
                runs=runs,
                files=1 + len(sizes) + len(files),
                bytes=size + sum(sizes) + sum(file.size for file in files),
                added_bytes=self._added_bytes,
                missing=tuple(sorted(self._missing)),
            )
            self._store.write(directory, snapshot, digest, sorted(files))
        return snapshot

    def _store_blobs(self, names: Sequence[str], others: int) -> list[int]:
        """Store blobs that are not there yet; return the sizes of all that the collection has."""
        sizes: list[int] = []
        gone: set[str] = set()
        for done, name in enumerate(names, 1):
            size = self._store_blob(self._collection.store.blobs.path(name), name)
            if size is None:
                gone.add(name)
            else:
                sizes.append(size)
            self._report(done, len(names) + others)
        if gone and not gone <= self._collection.store.named_blobs():
            raise _ChangedError
        self._missing |= set(map(self._store.relative_path, gone))
        return sizes

    def _store_blob(self, path: Path, name: str) -> int | None:
        """Store a blob unless it is there; return its size, None if it is gone or damaged."""
        try:
            size = path.stat().st_size
            if not self._is_stored(name, size):
                with path.open("rb") as file:
                    if self._put(file, size) != name:
                        return None
        except (OSError, _SourceReadError):
            return None
        return size

    def _store_runs(self, copy: Path) -> tuple[int, list[BackedUpFile]]:
        """Store recorded runs as they are at one moment; return their number, and the files.

        A database that is damaged is left out, as are files that it has lost.
        """
        path = self._source / _RUNS / _RUN_DATABASE
        if not path.is_file():
            return 0, []
        try:
            runs, names = _copy_runs(path, copy)
        except CollectionError:
            self._missing.add(f"{_RUNS}/{_RUN_DATABASE}")
            return 0, []
        folder, files, gone = BlobStore(path.parent / BLOBS), list[BackedUpFile](), set[str]()
        for name in sorted(names):
            blob = folder.path(name)
            size = self._store_blob(blob, name)
            if size is None:
                gone.add(name)
            else:
                files.append(BackedUpFile(blob.relative_to(self._source).as_posix(), size, 0, name))
        if gone:
            copy.unlink()
            if not gone <= _copy_runs(path, copy)[1]:  # deleted with their runs
                raise _ChangedError
        self._missing |= {folder.path(name).relative_to(self._source).as_posix() for name in gone}
        with copy.open("rb") as file:
            size = copy.stat().st_size
            files.append(BackedUpFile(f"{_RUNS}/{_RUN_DATABASE}", size, 0, self._put(file, size)))
        copy.unlink()
        return runs, files

    def _is_stored(self, name: str, size: int) -> bool:
        try:
            return self._store.blobs.path(name).stat().st_size == size
        except OSError:
            return False

    def _put(self, file: IO[bytes], size: int) -> str:
        """Store the first bytes of a file; return their SHA-256."""
        with writing(self._store.directory):
            blobs = self._store.blobs
            name = blobs.put_stream(cast("IO[bytes]", _Source(file)), size)
            self.read += 1
            if name not in self._unsynced and blobs.absent([name]):
                self._added_bytes += size
                self._unsynced[name] = size
            if len(self._unsynced) >= _BATCH_FILES or sum(self._unsynced.values()) >= _BATCH_BYTES:
                blobs.sync()
                self._unsynced = {}
        return name

    def _list_units(self) -> list[Path]:
        """List files and folders that are no part of the database, such as runs."""
        try:
            return [unit for entry in sorted(self._source.iterdir()) for unit in _units(entry)]
        except OSError as error:
            raise CollectionError(f"{self._source} cannot be read: {error.strerror or error}.") from error

    def _store_unit(self, unit: Path) -> list[BackedUpFile]:
        """Store a file, or all of a folder: nothing of one that is deleted meanwhile."""
        files: list[BackedUpFile] = []
        with suppress(FileNotFoundError):
            for path in _walk(unit) if unit.is_dir() else [unit]:
                if path.name != "lock" and not _is_being_written(path.name) and _is_file(path):
                    files += self._store_file(path)
        return files if unit.exists() else []

    def _store_file(self, path: Path) -> list[BackedUpFile]:
        name = path.relative_to(self._source).as_posix()
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                known = self._known_file(name, status)
                if known is not None:
                    return [known]
                digest = self._put(file, status.st_size)
        except FileNotFoundError:
            return []
        except (OSError, _SourceReadError):
            self._missing.add(name)
            return []
        return [BackedUpFile(name, self._store.blobs.path(digest).stat().st_size, status.st_mtime_ns, digest)]

    def _known_file(self, name: str, status: os.stat_result) -> BackedUpFile | None:
        """Return a file of the backup before that has not changed since."""
        known = self._known.get(name)
        if known is None or self._last is None:
            return None
        is_old = known.mtime_ns < self._last.snapshot.created * 1e9 - _RECENT_NS
        is_same = (known.size, known.mtime_ns) == (status.st_size, status.st_mtime_ns)
        return known if is_old and is_same and self._is_stored(known.sha256, known.size) else None

    def _check_uploads(self, documents: Sequence[Document], files: Sequence[BackedUpFile]) -> None:
        """Begin again if the file of an uploaded document is not there, and its row has changed since."""
        stored = {file.name: (file.size, file.mtime_ns) for file in files}
        folder = self._source / KEPT_COPIES
        lost = [
            row
            for row in documents
            if row.status.served and Path(row.path).parent == folder and not _has_copy(row, stored)
        ]
        if lost:
            rows = {row.path: row for row in self._collection.documents()}
            if any(rows.get(row.path) != row for row in lost):
                raise _ChangedError

    def _settle_database(self, path: Path) -> tuple[str, int]:
        """Return the hash of a copied database and its size; one that has not changed is stored once."""
        digest, size = hash_file(path)
        if self._last is not None and self._last.database == digest:
            before, link = self._store.database(self._last.snapshot.name), path.with_suffix(".link")
            with suppress(OSError):  # not on this file system, or damaged
                if hash_file(before)[0] == digest:
                    os.link(before, link)
                    replace_file(link, path)
                    return digest, size
        self.read += 1
        self._added_bytes += size
        return digest, size

    def _counted(self, units: Sequence[Path], before: int) -> Iterator[Path]:
        for done, unit in enumerate(units, 1):
            yield unit
            self._report(before + done, before + len(units))

    def _report(self, done: int, total: int) -> None:
        if self._progress:
            self._progress(done, total)


class _Source:
    """A stream whose failures are not taken for those of the backups."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise _SourceReadError from error


def _copy_runs(path: Path, copy: Path) -> tuple[int, set[str]]:
    """Copy the database of recorded runs; return the number of runs, and the names of their files."""
    refusal = RefusedLock(CollectionError(f"{path} is only read."))
    with closing(Database(path, _RUN_SCHEMA, refusal, CollectionError)) as database:
        database.copy(copy)
    with closing(connect(copy, write=False, immutable=True)) as connection:
        (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        return runs, {name for (name,) in connection.execute("SELECT DISTINCT blob FROM files")}


def _units(entry: Path) -> list[Path]:
    """Return an entry of a collection that is a file, or those of a folder."""
    if entry.name in _LEFT_OUT or is_leftover(entry.name) or entry.name.startswith("."):
        return []
    if not entry.is_dir():
        return [entry]
    has_hidden = entry.name == KEPT_COPIES
    units = sorted(entry.iterdir())
    return [unit for unit in units if not unit.name.startswith(".") or (has_hidden and unit.is_file())]


def _has_copy(row: Document, stored: dict[str, tuple[int, int]]) -> bool:
    """Return whether a file is stored that is the one of an uploaded document."""
    name = Path(row.path).name
    names = [f"{KEPT_COPIES}/{name}", *(f"{KEPT_COPIES}/.{name}{end}" for end in _HIDDEN_COPIES)]
    return any(stored.get(each) == (row.size, row.mtime_ns) for each in names)


def _is_being_written(name: str) -> bool:
    return is_unfinished(name) or (name.startswith(".") and name.endswith(_UPLOADED_PART))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the files of a folder.

    Raises `FileNotFoundError` if the folder, or one in it, is deleted meanwhile.
    """

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(directory, onerror=fail):
        folders.sort()
        for name in sorted(names):
            yield Path(folder, name)
