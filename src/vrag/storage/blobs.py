"""Files named by their content, in a directory that rows of a database refer to.

A blob is written, and put on the disk with its folder, before the commit that names it; nothing changes it
afterwards. One that no row names is left over: of a process that died before its commit, or of rows that were
deleted. `collect` deletes those that are old enough that nobody is about to name them, unless a process holds
all of them by `hold`, as a backup does.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import time
from contextlib import contextmanager
from threading import Lock
from typing import IO, TYPE_CHECKING

from filelock import FileLock, Timeout

from vrag.atomic_io import make_directory, replace_file, sync_files

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable
    from pathlib import Path

MIN_AGE_SECONDS = 3600.0
"""Age from which a blob that no row names is left over: builds commit much sooner."""
_NAME = re.compile(r"[0-9a-f]{64}")
_STAGED = "staged"
"""The folder of blobs that are not on the disk yet."""
_HOLDS = "holds"
"""The folder of lock files of processes that hold all blobs."""
_CHUNK = 1 << 20


class BlobStore:
    """A directory of blobs. May be shared by threads, and its directory by processes.

    `put` makes a blob readable at once, `sync` makes it last. All methods raise `OSError` where the disk
    refuses.
    """

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Without `durable`, nothing waits for the disk."""
        self._directory, self._durable = directory, durable
        self._staged: dict[str, Path] = {}
        """Files that are not on the disk yet, by name."""
        self._kept: set[str] = set()
        """Blobs that were there already when they were put: whoever wrote them may not have waited for the
        disk."""
        self._lock = Lock()

    def put(self, data: bytes) -> str:
        """Store bytes; return their name, the SHA-256 in hexadecimal digits."""
        name = hashlib.sha256(data).hexdigest()
        if not self._renew(name, len(data)):
            staged = self._new_staged()
            staged.write_bytes(data)
            self._stage(name, staged)
        return name

    def put_file(self, path: Path) -> str:
        """Store a file of the same file system, which is moved here; return its name."""
        name, size = hash_file(path)
        if self._renew(name, size):
            path.unlink()
        else:
            staged = self._new_staged()
            replace_file(path, staged)
            self._stage(name, staged)
        return name

    def put_stream(self, stream: IO[bytes], size: int | None = None) -> str:
        """Store the bytes of a stream, or the first `size` of them; return their name."""
        staged, digest, left = self._new_staged(), hashlib.sha256(), size
        try:
            with staged.open("xb") as file:
                while block := stream.read(_CHUNK if left is None else min(_CHUNK, left)):
                    digest.update(block)
                    file.write(block)
                    left = None if left is None else left - len(block)
            name = digest.hexdigest()
            if self._renew(name, staged.stat().st_size):
                staged.unlink()
            else:
                self._stage(name, staged)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        return name

    def path(self, name: str) -> Path:
        """Return where the bytes of this name are, or would be; raise `ValueError` if it is no name."""
        with self._lock:
            return self._staged.get(name) or self._path(name)

    def read(self, name: str) -> bytes:
        """Read the bytes of this name; raise `OSError` if there are none or they are damaged."""
        path = self.path(name)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise OSError(errno.EIO, "it is damaged", os.fspath(path))
        return data

    def sync(self) -> None:
        """Put all that was stored through this object on the disk, with its folders."""
        with self._lock:
            staged, self._staged = self._staged, {}
            kept, self._kept = self._kept, set()
            try:
                self._settle(staged, kept)
            except BaseException:
                self._staged = {name: path for name, path in staged.items() if path.exists()}
                self._kept |= kept | (staged.keys() - self._staged.keys())
                raise

    def absent(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are no blobs on the disk, in the order given."""
        return [name for name in names if not self._path(name).is_file()]

    def names(self) -> Generator[str]:
        """Yield the names of all blobs that were synced, here or by others, in no particular order."""
        for folder in self.folders():
            for entry in os.scandir(folder):
                if _NAME.fullmatch(entry.name):
                    yield entry.name

    def folders(self) -> list[Path]:
        """Return the folders of blobs that were synced."""
        try:
            return [path for path in self._directory.iterdir() if len(path.name) == 2 and path.is_dir()]
        except FileNotFoundError:
            return []

    def clear_staged(self) -> None:
        """Delete what killed processes left unfinished. Nobody else may be storing anything."""
        for path in (self._directory / _STAGED).glob("*"):
            path.unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> None:
        """Delete blobs that no row names any more; those that do not exist are none."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def collect(self, named: Collection[str], *, min_age: float = MIN_AGE_SECONDS) -> int:
        """Delete blobs that no row names and that are older than `min_age` seconds; return their number.

        The caller holds the lock under which rows are committed, so that no row comes to name one meanwhile.
        Files that killed processes left unfinished are deleted as well, by the same age. Nothing is deleted
        while a process holds the blobs.
        """
        stray = [] if self._is_held() else list(self._find_stray(named, min_age))
        for path in stray:
            os.unlink(path)  # noqa: PTH108 - what scandir yields
        return len(stray)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep `collect` of all processes from deleting anything in the block.

        What rows name that are read in the block is there until its end, unless its rows are deleted.
        """
        folder = self._directory / _HOLDS
        self._make_folder(folder)
        path = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            with FileLock(path, is_singleton=False):
                yield
        finally:
            path.unlink(missing_ok=True)

    def _is_held(self) -> bool:
        """Return whether a process holds the blobs; files of killed ones are deleted."""
        for path in (self._directory / _HOLDS).glob("*"):
            try:
                is_old = path.stat().st_mtime < time.time() - MIN_AGE_SECONDS
                with FileLock(path, timeout=0, is_singleton=False):
                    pass  # its process was killed, or is about to lock it
            except Timeout:
                return True
            except FileNotFoundError:
                continue
            if is_old:
                path.unlink(missing_ok=True)
        return False

    def count_stray(self, named: Collection[str], *, min_age: float = MIN_AGE_SECONDS) -> int:
        """Return how many files `collect` would delete."""
        return sum(1 for _ in self._find_stray(named, min_age))

    def _find_stray(self, named: Collection[str], min_age: float) -> Generator[str]:
        oldest, staged = time.time() - min_age, self._directory / _STAGED
        for folder in (*self.folders(), *([staged] if staged.is_dir() else [])):
            for entry in os.scandir(folder):
                is_named = folder != staged and entry.name in named
                if not is_named and entry.stat().st_mtime < oldest:
                    yield entry.path

    def damaged(self, names: Iterable[str]) -> Generator[str]:
        """Yield those of the names whose bytes are gone, unreadable or others."""
        for name in names:
            try:
                is_whole = hash_file(self._path(name))[0] == name
            except OSError:
                is_whole = False
            if not is_whole:
                yield name

    def _settle(self, staged: dict[str, Path], kept: set[str]) -> None:
        """Put files on the disk, then give them their names, then put those on the disk."""
        folders = {self._path(name).parent for name in (*staged, *kept)}
        for folder in folders:
            self._make_folder(folder)
        if self._durable:
            sync_files([*staged.values(), *map(self._path, kept)])
        for name, path in staged.items():
            replace_file(path, self._path(name))
        if self._durable:
            sync_files(sorted(folders))

    def _renew(self, name: str, size: int) -> bool:
        """Return whether there is a blob of this name, which counts as new then."""
        with self._lock:
            if name in self._staged:
                return True
            path = self._path(name)
            try:
                if path.stat().st_size != size:  # cut off: it is written again
                    return False
                os.utime(path)
            except OSError:
                return False
            self._kept.add(name)
            return True

    def _stage(self, name: str, path: Path) -> None:
        with self._lock:
            before = self._staged.setdefault(name, path)
        if before != path:  # another thread stored the same
            path.unlink()

    def _new_staged(self) -> Path:
        folder = self._directory / _STAGED
        self._make_folder(folder)
        return folder / f"{os.getpid()}-{secrets.token_hex(8)}"

    def _make_folder(self, folder: Path) -> None:
        """Create a folder. Its name, and that of the directory, are on the disk before anything in it is."""
        if not self._durable:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            make_directory(folder)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r:.80} is no name of a blob.")
        return self._directory / name[:2] / name


def hash_file(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file in hexadecimal digits, and its size. Raises `OSError`."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
