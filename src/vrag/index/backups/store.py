"""A directory of backups of one collection: objects named by their content, and snapshots that list them.

::

    backups.json                  marks the directory
    objects/<2 digits>/<sha256>   the content of one file or more
    snapshots/<name>.jsonl        one backup: a line about it, then a line for each file
    partial.jsonl                 what an unfinished backup has stored
    lock                          the one process that adds or deletes

A snapshot, which makes objects count, is written after all of its own are on the disk. So a process that is
killed leaves whole backups, and objects that no snapshot lists.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import make_directory, one_writer, read_lines, sync, write_whole
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.objects import ObjectStore, ObjectWriter, unreadable, writing
from vrag.index.backups.snapshot import FORMAT, BackedUpFile, format_snapshot, parse_snapshot
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path

    from vrag.index.backups.snapshot import BackupSnapshot

_MARK, _LOCK, _PARTIAL = "backups.json", "lock", "partial.jsonl"


class BackupStore:
    """The backups in a directory.

    All methods raise `CollectionError` if the directory cannot be read or written, or a newer version of vrag
    wrote it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects = ObjectStore(directory)
        self._snapshots_dir = directory / "snapshots"

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
        if written > FORMAT:
            raise CollectionError(
                f"The backups in {directory} were made by a newer version of vrag (layout {written}).",
                "Upgrade: pip install -U vrag-agent",
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

        Raises `CollectionBusy` if it still holds it then.
        """
        busy = CollectionBusy(
            f"Another process is writing to the backups in {self.directory}.",
            "Wait longer for it with --wait SECONDS (VRAG_WAIT), or stop it.",
        )
        with ExitStack() as stack:
            with writing(self.directory):
                stack.enter_context(one_writer(self.directory / _LOCK, busy, wait=wait, on_wait=on_wait))
            yield

    def names(self) -> list[str]:
        """Return the names of all snapshots, the oldest first."""
        try:
            return sorted(path.stem for path in self._snapshots_dir.glob("[!.]*.jsonl"))
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

    def read(self, name: str) -> tuple[BackupSnapshot, list[BackedUpFile]]:
        """Read a snapshot, by its whole name, and check its hash."""
        path = self._snapshot_path(name)
        try:
            return parse_snapshot(name, path.read_bytes())
        except FileNotFoundError:
            raise CollectionError(f"The snapshot {name} is gone.", "Choose another one.") from None
        except OSError as error:
            raise unreadable(path, error) from error
        except ValueError as error:
            hint = "Use another one, or delete this file."
            raise CollectionError(f"The snapshot {path} is damaged.", hint) from error

    def write(self, snapshot: BackupSnapshot, files: Iterable[BackedUpFile]) -> BackupSnapshot:
        """Write a snapshot whose objects are all on the disk, and return it with its name."""
        name, content = format_snapshot(snapshot, files)
        with writing(self.directory):
            make_directory(self._snapshots_dir)
            write_whole(self._snapshot_path(name), content)
            self._forget_unfinished()
        return replace(snapshot, name=name)

    def object_writer(self) -> ObjectWriter:
        """Begin to add objects; the caller holds the lock."""
        self.clear_leftovers()
        return ObjectWriter(self.directory, self.directory / _PARTIAL)

    def unfinished(self) -> dict[str, BackedUpFile]:
        """Return the files that a backup stored before it was stopped, by name."""
        try:
            lines = read_lines(self.directory / _PARTIAL, missing_ok=True)
        except OSError as error:
            raise unreadable(self.directory / _PARTIAL, error) from error
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
        with writing(self.directory):
            for name in deleted:
                self._snapshot_path(name).unlink(missing_ok=True)
            if deleted:
                sync(self._snapshots_dir)
            freed = self.objects.delete_all_but(listed)
            self._forget_unfinished()
        return tuple(deleted), freed

    def clear_leftovers(self) -> None:
        """Delete what killed processes were writing; the caller holds the lock."""
        self.objects.clear_leftovers()
        with writing(self.directory):
            for path in (*self._snapshots_dir.glob(".*"), *self.directory.glob(f".{_MARK}.*")):
                path.unlink(missing_ok=True)

    def _snapshot_path(self, name: str) -> Path:
        return self._snapshots_dir / f"{name}.jsonl"

    def _forget_unfinished(self) -> None:
        (self.directory / _PARTIAL).unlink(missing_ok=True)


def _is_own(name: str) -> bool:
    """Return whether a killed creation may have left this file."""
    return name == _LOCK or name.startswith(f".{_MARK}.")
