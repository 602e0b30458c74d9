"""Records of the files of a table: name, size and hash of each, in a journal beside the table.

Lance never changes a file of a table, but does not wait for the disk either: after a loss of power the newest
version may name files that are empty, torn, or not there. So the one writer records each commit in
`index/<table>.files`, one entry a line:

- `begin` is on the disk before the commit begins. It names the version that stands.
- `version` follows the commit: the new files, which are on the disk by then. Only now is the commit
  acknowledged: whoever waits for it gets no answer before.
- `deleting` is on the disk before older versions are deleted. Of their files some may be gone already.
- `undone` says that acknowledged rows may have gone with commits that were undone, until the collection has
  looked at what was lost.
- `synced` says that everything before is on the disk. With `durable` each `version` says so itself; without,
  files are put on the disk before older ones are deleted, and when the writer is done.

A version that is newer than the newest entry, after a `begin`, was never acknowledged: `recovery` goes back.
Without a `begin` another program wrote it, which keeps no records: it is recorded like any other.

Each line begins with a CRC-32 of the rest, so that damage shows. With `durable`, a damaged line is one whose
commit was on the disk: the line itself was written after its files.

Without the manifest of its newest version, nothing refers to the rows of the last commit. So
`index/<table>.manifest` is a copy of it, written after the entry. It counts only if its hash is that in the
entry, and so need not be put on the disk. A copy of a newer manifest than the last entry is of shows that the
journal was cut.

Lance's hint is put on the disk as well, but not recorded: see `layout`.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrag.atomic_io import (
    Journal,
    atomic_file,
    make_directory,
    read_lines,
    sync,
    sync_files,
    write_lines,
    write_whole,
)
from vrag.index.tables.layout import (
    MANIFEST_END,
    hint_path,
    list_files,
    list_manifests,
    newest_version,
    version_of,
)
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from pathlib import Path

SUFFIX = ".files"
"""End of the name of a journal: that of `items.lance` is `items.files`."""
COPY_SUFFIX = ".manifest"
"""End of the name of the copy of the newest manifest."""
_TYPES = {
    **dict.fromkeys(("begin", "version", "deleting", "synced"), int),
    **dict.fromkeys(("durable", "undoing", "undone"), bool),
    "files": dict,
    "gone": list,
}
"""The types of the values of an entry, by name."""
TWO_WRITERS = "another process has changed the table meanwhile"
"""The message of an error after which nothing is acknowledged: the lock of the collection did not work."""
_MAX_COMMIT_VERSIONS = 3
"""Versions that LanceDB makes at most between two entries; a compaction makes several."""


class FileRecord(NamedTuple):
    """A file of a table as it was when its commit was acknowledged."""

    name: str
    """Path relative to the directory of the table, with `/`."""
    size: int
    sha256: str
    """In hexadecimal."""


class FileFault(NamedTuple):
    """A file that is not as it was recorded."""

    name: str
    """Path relative to the directory of the table, with `/`."""
    detail: str
    """The fault, in one sentence."""
    is_missing: bool = False
    """True if there is no such file."""


class CommitRecord(NamedTuple):
    """A commit as it was recorded."""

    version: int
    files: tuple[FileRecord, ...]
    """The files that are new with it."""


@dataclass(slots=True)
class TableRecords:
    """The entries of a journal, except for damaged ones.

    After a damaged one without `durable` none counts: the files of its commit may be torn.
    """

    files: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    """By name."""
    commits: list[CommitRecord] = field(default_factory=list[CommitRecord])
    """In order."""
    synced: int = 0
    """The newest version that is known to be on the disk; 0 for none."""
    begun: int | None = None
    """The version that stood before a commit that was interrupted, or is going on; None for none."""
    is_deleting: bool = False
    """True if the deletion of older versions was interrupted, or is going on."""
    is_undoing: bool = False
    """True if the commit that is interrupted, or going on, commits an older version again."""
    is_undone: bool = False
    """True if commits were undone, and nobody has looked yet at what went with them."""
    is_durable: bool = True
    """True if commits are on the disk before they are recorded."""
    is_damaged: bool = False
    """True if there are lines that are no entries, or entries are missing."""
    is_torn: bool = False
    """True if nothing but the end of the last entry is missing, as when its writer was killed."""

    @property
    def version(self) -> int:
        """The newest version that was recorded; 0 for none."""
        return self.commits[-1].version if self.commits else 0

    @property
    def manifest(self) -> FileRecord | None:
        """The manifest of the newest version that was recorded."""
        return next((file for name, file in self.files.items() if version_of(name) == self.version), None)

    def unsynced(self) -> list[FileRecord]:
        """Return the records of files that are not known to be on the disk."""
        late = (file for commit in self.commits if commit.version > self.synced for file in commit.files)
        return [file for file in late if file.name in self.files]

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Apply an entry."""
        self.begun, self.is_deleting = entry.get("begin"), "deleting" in entry
        self.is_undoing = "undoing" in entry
        self.is_undone = entry.get("undone", self.is_undone)
        self.is_durable = entry.get("durable", self.is_durable)
        if "version" in entry:
            files = tuple(FileRecord(name, *fields) for name, fields in entry["files"].items())
            for name in entry["gone"]:
                self.files.pop(name, None)
            self.files |= {file.name: file for file in files}
            self.commits.append(CommitRecord(entry["version"], files))
        if "synced" in entry:
            self.synced = entry["synced"]


def journal_path(table: Path) -> Path:
    """Return the journal of the table in a directory, which need not exist."""
    return table.with_suffix(SUFFIX)


def manifest_copy_path(table: Path) -> Path:
    """Return the copy of the newest manifest of the table in a directory."""
    return table.with_suffix(COPY_SUFFIX)


def read_table_records(table: Path) -> TableRecords:
    """Read the journal of the table in a directory; without one, nothing is recorded.

    A durable commit whose entry has begun, or whose manifest was copied, was on the disk, and so were all but
    the last: such a journal was cut. Nothing was interrupted, and it counts as damaged. Raises `OSError`.
    """
    records = TableRecords()
    try:
        *lines, torn = journal_path(table).read_bytes().split(b"\n")
    except FileNotFoundError:
        return records
    for line in lines:
        entry = _decode(line)
        if entry is not None:
            records.apply(entry)
        elif records.is_durable:
            records.is_damaged, records.begun = True, None
        else:
            records.is_damaged, records.begun = True, records.version
            return records
    begun = records.version if records.begun is None else records.begun
    is_one_missing = newest_version(table) - begun <= _MAX_COMMIT_VERSIONS
    records.is_torn = bool(torn) and is_one_missing and not records.is_damaged
    is_committing = records.begun is not None and records.is_durable and not records.is_undoing
    if is_committing and (torn or not is_one_missing or _is_newest_copied(table, begun)):
        records.is_damaged, records.begun = True, None
    return records


def is_interrupted(table: Path) -> bool:
    """Return whether a commit to the table in a directory or its recovery did not end, or is going on.

    Looks at the last entry alone; a damaged one is for `verify` to find. Raises `OSError`.
    """
    lines = read_lines(journal_path(table), missing_ok=True)
    entry = _decode(lines[-1]) if lines else None
    return entry is not None and ("synced" not in entry or "undone" in entry)


def read_records(table: Path) -> dict[str, FileRecord]:
    """Read the records of the files of the table in a directory, by name. Raises `OSError`."""
    return read_table_records(table).files


def check_files(table: Path, records: Iterable[FileRecord]) -> list[FileFault]:
    """Read files of the table in a directory, and return those that are not as they were recorded."""
    faults: list[FileFault] = []
    for record in records:
        path = table / record.name
        try:
            size = path.stat().st_size
            if size != record.size:
                faults.append(FileFault(record.name, f"It has {size} bytes instead of {record.size}."))
            elif hash_file(path) != record.sha256:
                faults.append(FileFault(record.name, "Its content has changed."))
        except FileNotFoundError:
            faults.append(FileFault(record.name, "It is missing.", is_missing=True))
        except OSError as error:
            faults.append(FileFault(record.name, f"It cannot be read: {error.strerror or error}."))
    return faults


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_manifest_copy(table: Path, records: TableRecords) -> str:
    """Return what is wrong with the copy of the newest manifest, in a sentence; empty if nothing is."""
    if records.manifest is None or _sound_copy(table, records.manifest) is not None:
        return ""
    if manifest_copy_path(table).exists():
        return "It is not a copy of the newest manifest of the table."
    return "The copy of the newest manifest of the table is missing."


def _is_newest_copied(table: Path, begun: int) -> bool:
    """Return whether the copy is that of the newest manifest, of a version after `begun`: it was recorded."""
    try:
        name, version = max(list_manifests(table).items(), key=lambda entry: entry[1], default=("", 0))
        data = manifest_copy_path(table).read_bytes()
        is_whole = data.endswith(MANIFEST_END)  # a loss of power may empty both
        return version > begun and is_whole and (table / name).read_bytes() == data
    except (FileNotFoundError, NotADirectoryError):
        return False


def restore_manifest(table: Path) -> str:
    """Put the newest manifest of the table in a directory back from its copy, if it is damaged or missing.

    Returns its name; empty if it is sound, or the copy does not help. Raises `OSError`.
    """
    records = read_table_records(table)
    record = records.manifest
    if record is None or not table.is_dir() or newest_version(table) > records.version:
        return ""
    if not check_files(table, [record]):
        return ""
    data = _sound_copy(table, record)
    if data is None:
        return ""
    make_directory((table / record.name).parent)
    write_whole(table / record.name, data)
    return record.name


def _sound_copy(table: Path, record: FileRecord) -> bytes | None:
    """Read the copy of a manifest; None if it is not as the manifest was recorded."""
    try:
        data = manifest_copy_path(table).read_bytes()
    except OSError:
        return None
    return data if _hash(data) == record.sha256 else None


def _copy_manifest(table: Path, version: int, records: Iterable[FileRecord]) -> None:
    """Write the copy of the manifest of a version; `verify` finds a copy that could not be written."""
    with suppress(OSError):
        for record in records:
            if version_of(record.name) == version:
                data = (table / record.name).read_bytes()
                if _hash(data) == record.sha256:  # else the copy is the better one
                    with atomic_file(manifest_copy_path(table), durable=False) as file:
                        file.write(data)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def recorded_commit(table: Path, made: Callable[[], int], *, durable: bool) -> Generator[None]:
    """Record the commits to the table in a directory that are made in this block; it may not exist yet.

    The caller is the one writer: `made` returns the version that it has made, which has to be the newest in
    the end. With `durable`, what was committed is on the disk when the block ends. If the block or the
    recording fails, nothing is acknowledged. Raises `OSError`.
    """
    make_directory(table.parent)
    with Journal(journal_path(table), durable=durable) as journal:
        begun = newest_version(table)
        journal.append(_encode({"begin": begun, "durable": durable}))
        yield
        if newest_version(table) != made():
            raise OSError(TWO_WRITERS)
        record_version(table, journal, begun, durable=durable)


def record_version(table: Path, journal: Journal, begun: int, *, durable: bool) -> None:
    """Record the newest version of the table in a directory, with the files that are not recorded yet.

    Manifests of versions after `begun` are new, though a lost one may have had the same name. With `durable`
    the files are put on the disk first. Raises `OSError`.
    """
    version, known, present = newest_version(table), read_records(table), list_files(table)
    added = sorted(name for name in present if name not in known or (version_of(name) or 0) > begun)
    if durable:
        sync_table_files(table, added)
    files = [_record(table, name) for name in added]
    entry: dict[str, Any] = {"version": version, "files": _fields(files)}
    entry["gone"] = sorted(known.keys() - present)
    journal.append(_encode(entry | ({"synced": version} if durable else {})))
    _copy_manifest(table, version, files)


@contextmanager
def recorded_deletion(table: Path) -> Generator[None]:
    """Prepare for the deletion of older versions in this block, and forget their files afterwards.

    What is recorded is put on the disk first: a newer version must outlive those that it replaces. The caller
    is the one writer. Raises `OSError`.
    """
    sync_records(table)
    with Journal(journal_path(table)) as journal:
        journal.append(_encode({"deleting": newest_version(table)}))
    yield
    record_present(table)


def record_present(table: Path, *, records: Iterable[FileRecord] = (), is_undone: bool = False) -> None:
    """Write the journal of the table in a directory anew, from the files that are there, all put on the disk.

    Records of files that are there still are kept as they are, except for those that `records` replaces.
    `is_undone` is that of `TableRecords`. Raises `OSError`.
    """
    known, present = read_records(table) | {record.name: record for record in records}, list_files(table)
    sync_table_files(table, present - known.keys())
    files = [known[name] if name in known else _record(table, name) for name in sorted(present)]
    version = newest_version(table)
    write_lines(journal_path(table), [_version_line(version, files, is_undone=is_undone)])
    _copy_manifest(table, version, files)


def record_undoing(table: Path, version: int, files: Iterable[FileRecord]) -> None:
    """Write the journal of the table in a directory anew, as before the commit that followed a version.

    `files` are its files, and those of versions before it. Raises `OSError`.
    """
    begin = _encode({"begin": version, "durable": True, "undoing": True})
    write_lines(journal_path(table), [_version_line(version, files, is_undone=True), begin])


def sync_records(table: Path) -> None:
    """Put all recorded files of the table in a directory on the disk, unless they are. Raises `OSError`."""
    records = read_table_records(table)
    if records.synced >= records.version:
        return
    sync_table_files(table, [file.name for file in records.unsynced()])
    with Journal(journal_path(table)) as journal:
        journal.append(_encode({"synced": records.version}))


def sync_table_files(table: Path, names: Iterable[str]) -> None:
    """Put files of a table and their names on the disk, and Lance's hint with them."""
    paths = [table / name for name in names]
    if hint_path(table).exists():
        paths.append(hint_path(table))
    sync_files(paths)
    for folder in (*sorted({path.parent for path in paths}), table, table.parent):
        sync(folder)


def _record(table: Path, name: str) -> FileRecord:
    path = table / name
    return FileRecord(name, path.stat().st_size, hash_file(path))


def _version_line(version: int, files: Iterable[FileRecord], *, is_undone: bool = False) -> bytes:
    entry: dict[str, Any] = {"version": version, "files": _fields(files), "gone": [], "synced": version}
    return _encode(entry | {"undone": True} if is_undone else entry)


def _fields(records: Iterable[FileRecord]) -> dict[str, tuple[int, str]]:
    return {record.name: (record.size, record.sha256) for record in records}


def _encode(entry: Mapping[str, Any]) -> bytes:
    data = json.dumps(entry, separators=(",", ":")).encode()
    return f"{zlib.crc32(data):08x} ".encode() + data


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line; None if it is damaged."""
    data = line[9:]
    if line[:9] != f"{zlib.crc32(data):08x} ".encode():
        return None
    try:
        entry = parse_json(data)
    except ValueError:
        return None
    return entry if _is_entry(entry) else None


def _is_entry(value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether JSON has the names and types of an entry."""
    if not isinstance(value, dict):
        return False
    entry = cast("dict[str, Any]", value)
    if not all(isinstance(entry[name], kind) for name, kind in _TYPES.items() if name in entry):
        return False
    match entry:
        case {"version": _, "files": files, "gone": gone}:
            return all(isinstance(name, str) for name in gone) and all(map(_is_record, files.values()))
        case {"begin": _} | {"deleting": _} | {"synced": _}:
            return "version" not in entry
        case _:
            return False


def _is_record(value: Any) -> bool:  # noqa: ANN401 - any JSON
    match value:
        case [int(), str()]:
            return True
        case _:
            return False
