"""A recorder of what is on the disk for certain: it sees each sync of this process and of its SQLite.

A file is on the disk as it was at its last sync, and so are the names in a folder. Python's syncs are seen in
place of `os.fsync`, those of SQLite in its file system (`sqlite_files`). The study that kills processes,
fills disks and flips bits is `benchmarks/durability.py`.
"""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Disk = dict[str, bytes | None]
"""Files by path, folders as None."""


@dataclass
class SyncRecorder:
    """What is on the disk below a folder."""

    root: Path
    states: list[tuple[Disk, int]] = field(default_factory=list[tuple[Disk, int]])
    """The states after each sync, and how many steps were done by then."""
    steps: int = 0
    """Steps that the test has been told are done."""
    _files: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _folders: dict[int, dict[str, tuple[int, bool]]] = field(
        default_factory=dict[int, dict[str, tuple[int, bool]]]
    )
    """By inode: the names in a folder with inode and kind."""
    _open: list[int] = field(default_factory=list[int])
    """Handles that keep inodes from being used again."""
    _lock: Any = field(default_factory=threading.RLock)
    """A connection that the garbage collector closes syncs in the midst of a sync."""

    def fsync(self, handle: int) -> None:
        """Take the place of `os.fsync`."""
        with self._lock:
            facts = os.fstat(handle)
            self._open.append(os.dup(handle))
            if stat.S_ISDIR(facts.st_mode):
                with os.scandir(handle) as entries:
                    self._folders[facts.st_ino] = {e.name: (e.inode(), e.is_dir()) for e in entries}
            else:
                self._files[facts.st_ino] = _read(handle)
            self.states += [(self._certain(), self.steps), (self._named(), self.steps)]

    def sync(self, path: Path) -> None:
        """A file was put on the disk by SQLite; with a new log, its name as well."""
        is_log = path.name.endswith(("-wal", "-journal"))
        for each in (path, path.parent) if is_log and path.stat().st_ino not in self._files else (path,):
            handle = os.open(each, os.O_RDONLY)
            try:
                self.fsync(handle)
            finally:
                os.close(handle)

    def done(self) -> None:
        """A step is done."""
        self.steps += 1
        self.states += [(self._certain(), self.steps), (self._named(), self.steps)]

    def close(self) -> None:
        """Close the handles."""
        for handle in self._open:
            os.close(handle)

    def _certain(self) -> Disk:
        """The names and the data that were synced."""
        found: Disk = {}
        waiting = [("", self.root.stat().st_ino)]
        while waiting:
            path, inode = waiting.pop()
            for name, (below, is_folder) in self._folders.get(inode, {}).items():
                found[path + name] = None if is_folder else self._files.get(below, b"")
                if is_folder:
                    waiting.append((f"{path}{name}/", below))
        return found

    def _named(self) -> Disk:
        """All names; zeros where data was not synced."""
        found: Disk = {}
        for path in sorted(self.root.rglob("*")):
            facts = path.lstat()
            name = path.relative_to(self.root).as_posix()
            if path.is_dir():
                found[name] = None
            else:
                data = self._files.get(facts.st_ino, b"")[: facts.st_size]
                found[name] = data + bytes(facts.st_size - len(data))
        return found


def write_disk(disk: Disk, folder: Path) -> None:
    """Write a state into a folder that does not exist yet."""
    folder.mkdir()
    for path in sorted(disk):
        data = disk[path]
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)


def _read(handle: int) -> bytes:
    """The content of an open file, also of one that is open to write alone."""
    again = os.open(f"/dev/fd/{handle}", os.O_RDONLY)
    try:
        return os.pread(again, os.fstat(again).st_size, 0)
    finally:
        os.close(again)
