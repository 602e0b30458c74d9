"""A directory of backups of one collection: objects named by their content, and snapshots that list them.

::

    backups.json                  marks the directory
    objects/<2 digits>/<sha256>   the content of one file or more
    snapshots/<name>.jsonl        one backup: a line about it, then a line for each file
    partial.jsonl                 what an unfinished backup has stored
    lock                          the one process that adds or deletes

An object appears under its name once it is on the disk, and a snapshot, which makes objects count, after all
of its own: a process that is killed leaves objects that no snapshot lists. The next backup uses them, and
pruning deletes them. The name of a snapshot ends with a hash of its lines, so damage to either shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from vrag.atomic_io import (
    Journal,
    atomic_file,
    make_directory,
    one_writer,
    read_lines,
    replace_file,
    sync,
    sync_files,
    write_whole,
)
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.integrity.file_records import FileRecord
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

FORMAT = 1
"""Version of the layout; a newer one is refused."""
MARK = "backups.json"
_LOCK, _PARTIAL = "lock", "partial.jsonl"
_PART = ".part-"
"""Prefix of objects that are being written."""
DAMAGED = ".damaged"
"""End of the name of an object that does not have its hash: the next backup stores it again."""
_HASH = re.compile(r"[0-9a-f]{64}")
_HASH_DIGITS = 16
"""Digits of the hash in the name of a snapshot."""
CHUNK_BYTES = 2**20
"""Bytes that are read and written at a time."""
_BATCH_FILES, _BATCH_BYTES = 256, 64 * 2**20
"""Objects that are put on the disk together: a disk syncs several files in the time of one."""


class BackedUpFile(NamedTuple):
    """A file of a snapshot."""

    name: str
    """Path relative to the collection, with slashes."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSnapshot:
    """The facts of a backup."""

    name: str
    """Its time in UTC, and a hash of its content."""
    collection: str
    """Directory of the collection."""
    created: float
    """Time at which the state of the collection was taken, in seconds since 1970."""
    vrag: str
    """Version of vrag that made it."""
    content_version: str
    """`Collection.content_version` of the state."""
    documents: int
    items: int
    runs: int
    files: int
    """Files of the state."""
    bytes: int
    """Bytes of these files."""
    added_bytes: int
    """Bytes that were not stored before."""
    damaged: tuple[FileRecord, ...] = ()
    """Records of the files of tables that were not as they were recorded, and are stored as they were. Their
    names are relative to the collection."""


class SourceReadError(Exception):
    """A file cannot be read that is to be stored, or an object; the message is the reason."""


class CheckProblem(NamedTuple):
    """A damaged part of a backup."""

    snapshots: tuple[str, ...]
    """Names of the snapshots that need it."""
    file: str
    """Path of the file in the collection; empty where the snapshot itself is damaged."""
    detail: str
    """The defect, in one sentence."""


class BackupStore:
    """The backups in a directory.

    All methods raise `CollectionError` if the directory cannot be read or written, or a newer version of vrag
    wrote it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects_dir, self._snapshots_dir = directory / "objects", directory / "snapshots"

    @classmethod
    def open(cls, directory: Path) -> BackupStore:
        """Open a directory with backups."""
        try:
            content: Any = parse_json((directory / MARK).read_bytes())
            written = int(content["format"])
        except (FileNotFoundError, NotADirectoryError):
            raise CollectionError(
                f"There are no backups in {directory}.", "Make one: vrag index backup DIRECTORY"
            ) from None
        except OSError as error:
            raise _unreadable(directory, error) from error
        except (ValueError, KeyError, TypeError, OverflowError):
            hint = f'If nothing else is damaged, write {{"format": {FORMAT}}} into it.'
            raise CollectionError(f"{directory / MARK} is damaged.", hint) from None
        if written > FORMAT:
            raise CollectionError(
                f"The backups in {directory} were made by a newer version of vrag (layout {written}).",
                "Upgrade: pip install -U vrag-agent",
            )
        return cls(directory)

    @classmethod
    def open_or_create(cls, directory: Path) -> BackupStore:
        """Open a directory with backups; make one of a directory that is empty or does not exist."""
        if (directory / MARK).exists():
            return cls.open(directory)
        with _writing(directory):
            make_directory(directory)
            if foreign := sorted(entry.name for entry in directory.iterdir() if not _is_own(entry.name)):
                raise CollectionError(
                    f"{directory} is not empty ({foreign[0]}) and has no backups.",
                    "Choose another directory.",
                )
            write_whole(directory / MARK, json.dumps({"format": FORMAT}).encode())
        return cls(directory)

    @contextmanager
    def lock(self, wait: float = 0.0, on_wait: Callable[[], None] | None = None) -> Generator[None]:
        """Hold the lock for adding and deleting; another process is waited for, up to `wait` seconds.

        Raises `CollectionBusy` if it still holds it then.
        """
        busy = CollectionBusy(
            f"Another process is writing to the backups in {self.directory}.",
            "Wait longer for it with --wait SECONDS (VRAG_WAIT), or stop it.",
        )
        with ExitStack() as stack:
            with _writing(self.directory):
                stack.enter_context(one_writer(self.directory / _LOCK, busy, wait=wait, on_wait=on_wait))
            yield

    def names(self) -> list[str]:
        """Return the names of all snapshots, the oldest first."""
        try:
            return sorted(path.stem for path in self._snapshots_dir.glob("[!.]*.jsonl"))
        except OSError as error:
            raise _unreadable(self.directory, error) from error

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

    def read(self, name: str) -> tuple[BackupSnapshot, list[BackedUpFile]]:
        """Read a snapshot, by its whole name, and check its hash."""
        path = self._snapshot_path(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise CollectionError(f"The snapshot {name} is gone.", "Choose another one.") from None
        except OSError as error:
            raise _unreadable(path, error) from error
        damaged = CollectionError(f"The snapshot {path} is damaged.", "Use another one, or delete this file.")
        if hashlib.sha256(content).hexdigest()[:_HASH_DIGITS] != name[-_HASH_DIGITS:]:
            raise damaged
        try:
            first, *lines = content.splitlines()
            facts: dict[str, Any] = parse_json(first)
            if facts.pop("format") > FORMAT:
                raise CollectionError(
                    f"The snapshot {name} was made by a newer version of vrag ({facts.get('vrag')}).",
                    "Upgrade: pip install -U vrag-agent",
                )
            files = [BackedUpFile(*parse_json(line)) for line in lines]
            facts["damaged"] = tuple(FileRecord(*fields) for fields in facts.get("damaged", ()))
            snapshot = BackupSnapshot(name=name, **facts)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise damaged from error
        if not all(_HASH.fullmatch(file.sha256) for file in files):  # the path of an object is made of it
            raise damaged
        return snapshot, files

    def write(self, snapshot: BackupSnapshot, files: Iterable[BackedUpFile]) -> BackupSnapshot:
        """Write a snapshot whose objects are all on the disk, and return it with its name."""
        facts = asdict(snapshot)
        del facts["name"]
        rows = ({"format": FORMAT} | facts, *files)
        content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        whole, part = divmod(int(snapshot.created * 1e6), 1_000_000)
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(whole))
        name = f"{moment}-{part:06d}-{hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}"
        with _writing(self.directory):
            make_directory(self._snapshots_dir)
            with atomic_file(self._snapshot_path(name)) as file:
                file.write(content)
            (self.directory / _PARTIAL).unlink(missing_ok=True)
        return replace(snapshot, name=name)

    def objects(self) -> dict[str, int]:
        """Return the sizes of all objects by their hashes."""
        try:
            return {path.name: path.stat().st_size for path in self._paths() if _HASH.fullmatch(path.name)}
        except OSError as error:
            raise _unreadable(self.directory, error) from error

    def path(self, sha256: str) -> Path:
        """Return the path of an object."""
        return self.objects_dir / sha256[:2] / sha256

    def unfinished(self) -> dict[str, BackedUpFile]:
        """Return the files that a backup stored before it was stopped, by name."""
        lines = read_lines(self.directory / _PARTIAL, missing_ok=True)
        files: dict[str, BackedUpFile] = {}
        for line in lines:
            with suppress(ValueError, TypeError):  # damaged: it is stored again
                file = BackedUpFile(*parse_json(line))
                files[file.name] = file
        return files

    def prune(self, keep: int) -> tuple[tuple[str, ...], int]:
        """Delete all snapshots but the newest, and objects that no snapshot lists; the caller holds the lock.

        Returns the names of the deleted snapshots, and the bytes that were freed. Raises `CollectionError`,
        and deletes no object, while a snapshot cannot be read: it is not known what it lists.
        """
        names = self.names()
        self.clear_leftovers()
        old = max(0, len(names) - keep)
        deleted, kept = names[:old], names[old:]
        try:
            listed = {file.sha256 for name in kept for file in self.read(name)[1]}
        except CollectionError as error:
            raise CollectionError(f"Nothing was deleted: {error.message}", error.hint) from error
        freed = 0
        with _writing(self.directory):
            for name in deleted:
                self._snapshot_path(name).unlink(missing_ok=True)
            if deleted:
                sync(self._snapshots_dir)
            for path in list(self._paths()):
                sha256 = path.name.removesuffix(DAMAGED)
                if sha256 not in listed or (sha256 != path.name and self.path(sha256).exists()):
                    freed += path.stat().st_size
                    path.unlink()
            (self.directory / _PARTIAL).unlink(missing_ok=True)
        return tuple(deleted), freed

    def clear_leftovers(self) -> None:
        """Delete what killed processes were writing; the caller holds the lock."""
        with _writing(self.directory):
            for pattern in (f"objects/{_PART}*", "snapshots/.*", f".{MARK}.*"):
                for path in list(self.directory.glob(pattern)):
                    path.unlink(missing_ok=True)

    def check(
        self, *, isolate: bool, progress: Callable[[int, int], None] | None = None
    ) -> list[CheckProblem]:
        """Read all objects of all snapshots, and return what is damaged or missing.

        With `isolate` damaged objects lose their names, so that the next backup stores them again if the
        collection still has the files; the caller holds the lock then.
        """
        problems: list[CheckProblem] = []
        uses: dict[BackedUpFile, list[str]] = {}
        for name in self.names():
            try:
                for file in self.read(name)[1]:
                    uses.setdefault(file._replace(mtime_ns=0), []).append(name)
            except CollectionError as error:
                problems.append(CheckProblem((name,), "", error.message))
        objects = {(file.sha256, file.size) for file in uses}
        faults: dict[tuple[str, int], str] = {}
        for done, (sha256, size) in enumerate(sorted(objects), 1):
            fault = self.fault(sha256, size)
            if fault:
                faults[sha256, size] = fault
            if progress:
                progress(done, len(objects))
        for sha256, _ in faults if isolate else ():
            path = self.path(sha256)
            with suppress(OSError):
                replace_file(path, path.with_name(f"{sha256}{DAMAGED}"))
        for file, names in uses.items():
            if fault := faults.get((file.sha256, file.size)):
                problems.append(CheckProblem(tuple(names), file.name, fault))
        return problems

    def fault(self, sha256: str, size: int) -> str:
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
            return self.fault(file.sha256, file.size)
        copied: object = None
        with source, suppress(SourceReadError), target.open("xb") as out:
            copied = _copy(source, out)
        if copied != (file.sha256, file.size):
            target.unlink()
            return self.fault(file.sha256, file.size)
        os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
        return ""

    def _snapshot_path(self, name: str) -> Path:
        return self._snapshots_dir / f"{name}.jsonl"

    def _paths(self) -> Iterator[Path]:
        return self.objects_dir.glob("*/*")


class ObjectWriter:
    """Adds objects to a directory of backups whose lock is held, in batches; `flush` ends the last one."""

    def __init__(self, store: BackupStore) -> None:
        self.added_bytes = 0
        """Bytes of objects that were not there before."""
        self._store = store
        store.clear_leftovers()
        self._present = store.objects()
        self._batch: list[tuple[Path, str]] = []
        """Written objects without their names, and their hashes."""
        self._batch_bytes = 0
        self._files: list[BackedUpFile] = []
        """Files whose objects are in the batch, or were there."""
        with _writing(store.directory):
            make_directory(store.objects_dir)
            self._journal = Journal(store.directory / _PARTIAL, durable=False)

    def has(self, file: BackedUpFile) -> bool:
        """Return whether the content of a file is stored, or about to be."""
        return self._present.get(file.sha256) == file.size

    def add(self, source: BinaryIO, name: str, size: int, mtime_ns: int) -> BackedUpFile:
        """Store the next `size` bytes of a source, unless they are there, and return the file.

        Raises `SourceReadError` if the source cannot be read.
        """
        part = self._store.objects_dir / f"{_PART}{secrets.token_hex(8)}"
        try:
            with _writing(self._store.directory), part.open("xb") as out:
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
            self._name()
        return file

    def flush(self) -> None:
        """Put all objects and their names on the disk."""
        self._name()
        with _writing(self._store.directory):
            for folder in (*self._store.objects_dir.iterdir(), self._store.objects_dir):
                sync(folder)  # all: a process that was killed may have added to any

    def close(self) -> None:
        """Close the record of what is stored; the next backup reads it."""
        self._journal.close()

    def _name(self) -> None:
        """Put the objects of the batch on the disk, then give them their names."""
        with _writing(self._store.directory):
            sync_files([part for part, _ in self._batch])
            for part, sha256 in self._batch:
                path = self._store.path(sha256)
                path.parent.mkdir(exist_ok=True)
                replace_file(part, path)
            for file in self._files:
                self._journal.append(json.dumps(file).encode())
        self._batch, self._batch_bytes, self._files = [], 0, []


def _copy(source: BinaryIO, target: BinaryIO | None, size: int | None = None) -> tuple[str, int]:
    """Copy all bytes, or `size` of them; return their SHA-256 and their number."""
    digest, copied = hashlib.sha256(), 0
    while data := _read(source, CHUNK_BYTES if size is None else min(CHUNK_BYTES, size - copied)):
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


def _is_own(name: str) -> bool:
    """Return whether a killed creation may have left this file."""
    return name == _LOCK or name.startswith(f".{MARK}.")


def _unreadable(path: Path, error: OSError) -> CollectionError:
    return CollectionError(
        f"The backups in {path} cannot be read: {error.strerror or error}.",
        "Check the path and its permissions.",
    )


@contextmanager
def _writing(directory: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CollectionError(
            f"The backups in {directory} cannot be written to: {error.strerror or error}.",
            "Free some disk space or fix the permissions, and run the command again: it continues. "
            "Finished backups are not affected.",
        ) from error
