"""The capture of a consistent state of a collection, while others read and write it.

No lock of the collection is taken: a writer may hold it for hours. The state is consistent nevertheless:

1. *Tables.* The newest versions of both are read from their folders, and their files are held (see
   `held_files.py`). If both versions are still the newest after that, no file of theirs can have been
   deleted, and they belong together: items are written before, and deleted after, the row of the file that
   refers to them. Both tables are then opened as they are held, which proves that they are complete. The
   stored files are compared with the records of their commits (`tables/file_records.py`). One that differs is
   damage: the snapshot keeps its record, so that a restored collection is as damaged as this one.
2. *Pictures and clips* that the items name. They are deleted after their items: one that is missing was
   removed with its document, and all begins again, unless the newest items name it as well. That is damage
   from before: the backup is made without it, and says so.
3. *Uploaded files.* Each that a row refers to has to be there as it was indexed, by its name or by the hidden
   one that it gets while it is replaced or removed; otherwise the newest rows decide, as for pictures.
4. *Everything else*, runs above all. Of a run the files beside its journal come first, since `end.json` is
   written when the journal is complete; then the journal, up to the end of a line; then the folder of files
   that it names, which are written before it. A run that is deleted meanwhile is left out as a whole.

Files are known by name, size and modification time from the backup before and are then not read again.
What belongs to a process, or can be made again, is left out: locks, caches, unfinished files.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vrag.atomic_io import is_unfinished, whole_size
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.objects import SourceReadError
from vrag.index.collection import Collection
from vrag.index.location import FILE_NAME
from vrag.index.source_file import KEPT_COPIES
from vrag.index.tables.copies import newest_manifest
from vrag.index.tables.file_records import read_records
from vrag.index.tables.layout import newest_version
from vrag.index.tables.version_files import TABLES, manifest_path, stored_files, table_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vrag.index.backups.held_files import HeldFiles
    from vrag.index.backups.objects import ObjectWriter
    from vrag.index.backups.snapshot import BackedUpFile
    from vrag.index.tables.file_records import FileRecord
    from vrag.types import Document

ATTEMPTS = 50
"""Attempts to find a state that nobody changes while its files are held, which takes milliseconds."""
_PAUSE_SECONDS = 0.02
_RECENT_NS = 2_000_000_000
"""Age below which a file may have changed again within the resolution of its modification time."""
_LEFT_OUT = {"cache", "index", "items", FILE_NAME, f"{FILE_NAME}.new", "lock", "writer.json"}
"""Entries of a collection that are left out, or treated apart."""
_UPLOADED_PART = ".part"
"""End of the names of uploaded files that are being received."""
_JOURNAL = ".jsonl"
"""End of the names of files that are appended to, line by line."""
_HIDDEN_COPIES = (".before", ".gone")
"""Ends of the hidden names of an uploaded file that is being replaced or removed."""


class KnownFile(NamedTuple):
    """A file of an earlier backup."""

    file: BackedUpFile
    taken_ns: int
    """Time of that backup."""


class _FoundFile(NamedTuple):
    """A file of the state that is backed up."""

    name: str
    path: Path
    """Path under which it is held."""
    size: int
    """Bytes that belong to the state."""
    mtime_ns: int


class CapturedState(NamedTuple):
    """A consistent state of a collection, whose content is stored."""

    taken: float
    """Time at which it was taken, in seconds since 1970."""
    content_version: str
    documents: int
    items: int
    files: list[BackedUpFile]
    read: int
    """Files that were read; the others were known."""
    missing: tuple[str, ...]
    """Files that the collection refers to and does not have, or that cannot be read."""
    damaged: tuple[FileRecord, ...]
    """Records of the files of tables that are not as they were recorded."""


class _ChangedError(Exception):
    """The collection has changed while its files were listed."""


class StateCapture:
    """One capture of a state, whose files are listed and stored in as many attempts as it takes."""

    def __init__(
        self,
        collection: Collection,
        source: Path,
        held: HeldFiles,
        known: Mapping[str, KnownFile],
        writer: ObjectWriter,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._missing: set[str] = set()
        self._read = 0
        self._collection = collection
        self._source = source
        self._held = held
        self._known = dict(known)
        self._writer = writer
        self._progress = progress
        self._records: dict[str, FileRecord] = {}
        """Records of files of the tables; their names are relative to the collection."""
        self._files: dict[str, BackedUpFile] = {}
        """Files of the state whose content is stored already."""
        self._found: dict[str, _FoundFile] = {}
        """Files of the state whose content has to be stored."""

    def run(self) -> CapturedState:
        """Store the content of a consistent state, and return it.

        Raises `CollectionBusy` if the collection changes faster than its files can be listed, and
        `CollectionError` if it cannot be read.
        """
        for _ in range(ATTEMPTS):
            try:
                return self._attempt()
            except _ChangedError:
                time.sleep(_PAUSE_SECONDS)
        raise CollectionBusy(
            "The collection changes faster than a backup can list its files.",
            "Run the command again when less is written: it continues.",
        )

    def _attempt(self) -> CapturedState:
        """List a consistent state, and store it; raise `_ChangedError` if a writer was in the way."""
        taken = time.time()
        self._files, self._found, self._missing = {}, {}, set()
        self._held.release(keep="items")  # files with these names never change
        self._hold_tables()
        try:
            self._add(FILE_NAME, self._held.hold(self._source / FILE_NAME, FILE_NAME))
        except OSError as error:
            raise self._unreadable(FILE_NAME, error) from error
        held = self._held.path("").resolve()
        tables = Collection.open(held)
        try:
            catalog, documents = tables.catalog(), tables.documents()
            stored = stored_files(tables.item_table)
        except CollectionError as error:  # behind symbolic links, files can be deleted
            if self._versions() != self._held_versions:
                raise _ChangedError from error
            raise CollectionError(error.message.replace(str(held), str(self._source)), error.hint) from error
        self._hold_stored(stored)
        self._hold_others(documents)
        self._store()
        return CapturedState(
            taken,
            catalog.content,
            len(documents),
            len(catalog.ids),
            sorted(self._files.values()),
            self._read,
            tuple(sorted(self._missing)),
            self._find_damage(),
        )

    def _versions(self) -> dict[str, int]:
        """Return the newest version of each table that has one; the files first, as `Catalog.load` reads."""
        versions: dict[str, int] = {}
        for table in reversed(TABLES):
            folder = self._source / "index" / f"{table}.lance"
            manifest = newest_manifest(folder)
            if manifest is not None:
                versions[table] = manifest.version
            elif newest_version(folder):
                raise _ChangedError
        return versions

    def _hold_tables(self) -> None:
        """Hold the files of the newest version of both tables."""
        index, held = self._source / "index", self._held.path("index")
        versions = self._held_versions = self._versions()
        try:
            manifests = {
                name: self._held.hold(index / name, f"index/{name}").read_bytes()
                for name in (manifest_path(table, version) for table, version in versions.items())
            }
            names = list(table_files(index, manifests))
            for name in names:
                self._held.hold(index / name, f"index/{name}")
        except OSError as error:  # compaction has deleted something
            raise _ChangedError from error
        self._records = self._read_records()
        if self._versions() != versions:
            raise _ChangedError
        for name in (*manifests, *names):
            self._add(f"index/{name}", held / name)

    def _read_records(self) -> dict[str, FileRecord]:
        """Read the records of the files of the tables, by their names relative to the collection."""
        records: dict[str, FileRecord] = {}
        for table in self._held_versions:
            folder = f"index/{table}.lance"
            try:
                found = read_records(self._source / folder).values()
            except OSError as error:
                raise self._unreadable(f"index/{table}.files", error) from error
            named = (record._replace(name=f"{folder}/{record.name}") for record in found)
            records |= {record.name: record for record in named}
        return records

    def _find_damage(self) -> tuple[FileRecord, ...]:
        """Return the records of the stored files of tables that are not as they were recorded.

        The records are those of when the files were held. A writer may have been in the middle of a commit
        then, whose files are recorded now; a commit that is going on still has promised nothing.
        """
        files = [file for name, file in self._files.items() if name.startswith("index/")]
        records = self._records
        if any(file.name not in records for file in files):
            records = self._read_records() | records
        known = ((records[file.name], file) for file in files if file.name in records)
        damaged = tuple(record for record, file in known if record.sha256 != file.sha256)
        is_new = any(record.name not in self._records for record in damaged)
        if is_new and self._versions() != self._held_versions:  # it was undone, and its number is used again
            raise _ChangedError
        return damaged

    def _hold_stored(self, names: set[str]) -> None:
        missing: set[str] = set()
        for name in sorted(names):
            try:
                self._hold(f"items/{name}")
            except OSError:
                missing.add(name)
        if missing:
            if not missing <= stored_files(self._collection.item_table):
                raise _ChangedError
            self._missing |= {f"items/{name}" for name in missing}

    def _hold_others(self, documents: list[Document]) -> None:
        for entry in sorted(self._source.iterdir()):
            if entry.name in _LEFT_OUT or entry.name.startswith("."):
                continue
            if not entry.is_dir():
                self._hold_if_present(entry)
                continue
            for unit in sorted(entry.iterdir()):
                self._hold_unit(unit, hidden=entry.name == KEPT_COPIES)
        uploaded = [row for row in documents if row.status.served and not self._has_copy(row)]
        if uploaded:
            rows = {row.path: row for row in self._collection.documents()}
            if any(rows.get(row.path) != row for row in uploaded):
                raise _ChangedError

    def _hold_unit(self, unit: Path, *, hidden: bool) -> None:
        """Hold a file, or all of a folder, such as a run: nothing of one that is deleted meanwhile."""
        if unit.name.startswith(".") and not (hidden and unit.is_file()):
            return
        if not unit.is_dir():
            self._hold_if_present(unit)
            return
        try:
            for path in _walk(unit):
                self._hold_if_present(path)
        except FileNotFoundError:
            pass
        if not unit.is_dir():
            prefix = f"{unit.relative_to(self._source).as_posix()}/"
            self._files = {name: file for name, file in self._files.items() if not name.startswith(prefix)}
            self._found = {name: file for name, file in self._found.items() if not name.startswith(prefix)}

    def _hold_if_present(self, path: Path) -> None:
        if path.name == "lock" or _is_being_written(path.name) or path.is_symlink():
            return
        try:
            self._hold(path.relative_to(self._source).as_posix())
        except FileNotFoundError:
            return

    def _hold(self, name: str) -> None:
        """Add a file of the collection to the state; hold it, unless its content is stored already."""
        path = self._source / name
        status = path.stat()
        known = self._known_file(name, status)
        if known is not None:
            self._files[name] = known
        else:
            self._add(name, self._held.hold(path, name))

    def _known_file(self, name: str, status: os.stat_result) -> BackedUpFile | None:
        known = self._known.get(name)
        if known is None or (known.file.size, known.file.mtime_ns) != (status.st_size, status.st_mtime_ns):
            return None
        is_old = known.file.mtime_ns < known.taken_ns - _RECENT_NS
        record = self._records.get(name)
        is_sound = record is None or record.sha256 == known.file.sha256
        return known.file if is_old and is_sound and self._writer.has(known.file) else None

    def _add(self, name: str, path: Path) -> None:
        status = path.stat()
        known = self._known_file(name, status)
        if known is not None:
            self._files[name] = known
            return
        size = status.st_size
        if name.endswith(_JOURNAL):
            with path.open("rb") as file:
                size = whole_size(file, size)
        self._found[name] = _FoundFile(name, path, size, status.st_mtime_ns)

    def _has_copy(self, row: Document) -> bool:
        """Return whether the state has the file of a row, if that was uploaded."""
        if Path(row.path).parent != self._source / KEPT_COPIES:
            return True
        name = Path(row.path).name
        names = [f"{KEPT_COPIES}/{name}", *(f"{KEPT_COPIES}/.{name}{end}" for end in _HIDDEN_COPIES)]
        files = (self._files.get(name) or self._found.get(name) for name in names)
        return any(
            file is not None and (file.size, file.mtime_ns) == (row.size, row.mtime_ns) for file in files
        )

    def _store(self) -> None:
        """Store what was found; what cannot be read is missing, but for the tables."""
        for done, found in enumerate(self._found.values(), 1):
            try:
                with found.path.open("rb") as source:
                    file = self._writer.add(source, found.name, found.size, found.mtime_ns)
            except FileNotFoundError as error:  # behind a symbolic link
                raise _ChangedError from error
            except (OSError, SourceReadError) as error:
                if found.name.startswith("index/") or found.name == FILE_NAME:
                    raise self._unreadable(found.name, error) from error
                self._missing.add(found.name)
                continue
            if file.size != found.size:
                raise _ChangedError
            self._read += 1
            self._files[file.name] = file
            self._known[file.name] = KnownFile(file, time.time_ns())
            if self._progress:
                self._progress(done, len(self._found))

    def _unreadable(self, name: str, error: Exception) -> CollectionError:
        reason = error.strerror if isinstance(error, OSError) else error
        return CollectionError(f"{self._source / name} cannot be read: {reason}.", "Run: vrag index verify")


def _is_being_written(name: str) -> bool:
    return is_unfinished(name) or (name.startswith(".") and name.endswith(_UPLOADED_PART))


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the files of a folder: journals after those beside them, before those in folders.

    Raises `FileNotFoundError` if the folder, or one in it, is deleted meanwhile.
    """

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(directory, onerror=fail):
        folders.sort()
        for name in sorted(names, key=lambda name: (name.endswith(_JOURNAL), name)):
            yield Path(folder, name)
