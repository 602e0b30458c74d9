"""Files that a kill or a full disk leaves whole: journals, and files and directories replaced at once.

A journal holds one entry a line and is only added to. An entry is in the file as a whole or not at all: a
process that dies while it writes leaves a torn last line, which is no entry. Reading leaves it out, and the
next writer cuts it off. Failures are `OSError`s here; callers explain them in their own words.

`bind` keeps the configuration that a folder is made with in such a file, and compares it when work continues.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self, cast

from filelock import FileLock, Timeout

from vrag.parsing import parse_json

if sys.platform == "darwin":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from vrag.errors import VragError

BUSY_SECONDS = 2.0
"""Time for which a file that is open elsewhere is waited for, on Windows."""
_RETRY_SECONDS = 0.02
_LOCK_SECONDS = 0.05
"""Time between two attempts to get a lock that is waited for."""
_NAME_LENGTH = 60
"""Characters of a name that begin the name of its unfinished copy: at most 240 bytes, of 255 allowed."""
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")
_SYNCS_AT_ONCE = 8
"""Files that are put on the disk at the same time: file systems write the metadata of all of them at once."""
_BLOCK = 1 << 16
"""Bytes that are read at once to find where the last line ends."""


class Journal:
    """A journal, open for its one writer; a torn last line is cut off when it is opened.

    The file is created when it is missing. With `durable` an entry is on the disk, and not only in the file,
    when `append` returns: the first outlives the machine, the second the process.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path, self._durable = path, durable
        self._stream: IO[bytes] = path.open("a+b", buffering=0)
        self._torn: int | None = None
        """Length of the whole entries, where a refused write could not be cut off."""
        try:
            size = self._size
            whole = whole_size(self._stream, size)
            if whole < size:
                self._stream.truncate(whole)
            if self._durable:
                sync(path.parent)
        except BaseException:
            self._stream.close()
            raise

    def append(self, line: bytes) -> None:
        """Append an entry, given without its line end.

        Raises `OSError` if it cannot be written: nothing of the entry is in the file then. Raises
        `ValueError` if the entry has several lines.
        """
        if b"\n" in line:
            raise ValueError("An entry is one line.")
        if self._torn is not None:
            self._truncate(self._torn)
        end = self._size
        try:
            self._write(line + b"\n")
        except OSError:
            self._torn = end
            self._truncate(end, ignore_errors=True)
            raise

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _size(self) -> int:
        return os.fstat(self._stream.fileno()).st_size

    def _write(self, data: bytes) -> None:
        """Write in full: a disk that is all but full takes a part, and reports it by its length alone."""
        if self._stream.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._durable:
            sync_handle(self._stream.fileno())

    def _truncate(self, end: int, *, ignore_errors: bool = False) -> None:
        """Cut off what a refused write left; where that is refused as well, before the next one."""
        try:
            self._stream.truncate(end)
        except OSError:
            if not ignore_errors:
                raise
        else:
            self._torn = None


def read_lines(path: Path, *, missing_ok: bool = False) -> list[bytes]:
    """Return the entries of a journal, without their line ends; it may be written meanwhile.

    With `missing_ok` a missing file has no entries.
    """
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        if missing_ok:
            return []
        raise


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Replace all entries of a journal that nobody has open, at once."""
    write_whole(path, b"".join(line + b"\n" for line in lines))


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file by `atomic_file`."""
    with atomic_file(path, mode=mode) as file:
        file.write(data)


@contextmanager
def atomic_file(path: Path, *, durable: bool = True, mode: int = 0o666) -> Generator[BinaryIO]:
    """Open a file to write it as a whole: the old one stands until the new one is on the disk.

    It is written in the same directory, as `.<start of the name>.<eight digits>`: of several processes that
    do so at once, the last wins. If the block fails, nothing of it stays. With `durable`, the file outlives
    the machine, and not only the process, when the block ends. `mode` are the file's permissions, less those
    that the process takes away from all its files; no other process sees it with more.
    """
    unfinished = path.with_name(f".{path.name[:_NAME_LENGTH]}.{secrets.token_hex(4)}")
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if durable:
                sync_handle(file.fileno())
        replace_file(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


def is_unfinished(name: str) -> bool:
    """Return whether a file has a name that `atomic_file` gives to what it has not finished."""
    return _UNFINISHED.fullmatch(name) is not None


@contextmanager
def atomic_dir(target: Path) -> Generator[Path]:
    """Create a directory to write `target` as a whole: an old one stands until the new one is on the disk.

    It is written beside, as `.<name>.partial`, which is removed if the block fails; what a killed process
    leaves of it is removed by the next one. Two processes must not write one target at once.
    """
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        for path in (*partial.rglob("*"), partial):
            sync(path)
        replace_directory(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_file(path: Path, data: bytes) -> None:
    """Write a file and put it on the disk; a kill may leave a part of it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        sync_handle(file.fileno())


def sync_handle(handle: int) -> None:
    """Put an open file or the names in an open directory on the disk.

    On macOS, `fsync` leaves the data in the memory of the drive: F_FULLFSYNC empties that as well, where the
    file system has it.
    """
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError:
            pass
        else:
            return
    os.fsync(handle)


def sync(path: Path) -> None:
    """Put a file or the names in a directory on the disk, where the system can.

    Windows does so for files alone: NTFS has a journal of its names, and writes it within seconds.
    """
    windows = sys.platform == "win32"
    if windows and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)  # Windows wants the right to write
    try:
        sync_handle(handle)
    finally:
        os.close(handle)


def sync_files(paths: Sequence[Path]) -> None:
    """Put files on the disk, several at once; the names are `sync`'s, of their folders."""
    if len(paths) > 1:
        with suppress(RuntimeError), ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            list(pool.map(sync, paths))
            return
    for path in paths:  # also where the main thread has ended: none can be started any more
        sync(path)


def make_directory(path: Path) -> None:
    """Create a directory with its parents, and put the names of those that are new on the disk."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(new):
        sync(folder.parent)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file, replacing what has the name, or a folder to a name that is free.

    Windows refuses that while any process has one of them open, as readers and virus scanners do for a
    moment: there it is tried again for `BUSY_SECONDS`.
    """
    end = time.monotonic() + (BUSY_SECONDS if sys.platform == "win32" else 0.0)
    while True:
        try:
            source.replace(target)
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def replace_directory(written: Path, target: Path) -> None:
    """Rename a directory to `target`; an existing one is put back where that is refused, else removed.

    `written` is complete, on the disk, and in the folder of the target. Meanwhile the former directory is
    `.<name>.former`. Two processes must not replace one target at once.
    """
    former = former_directory(target)
    shutil.rmtree(former, ignore_errors=True)
    if target.is_dir():
        replace_file(target, former)
    try:
        replace_file(written, target)
    except OSError:
        if former.is_dir():
            replace_file(former, target)
        raise
    sync(target.parent)
    shutil.rmtree(former, ignore_errors=True)


def former_directory(target: Path) -> Path:
    """Return the place of a directory while `replace_directory` replaces it."""
    return target.with_name(f".{target.name}.former")


def restore_former_directory(target: Path) -> None:
    """Put back the directory that a killed `replace_directory` has moved away, if there is no new one."""
    former = former_directory(target)
    if former.is_dir() and not target.exists():
        replace_file(former, target)
        sync(target.parent)


@contextmanager
def one_writer(
    lock: Path,
    busy: VragError | Callable[[], VragError],
    *,
    wait: float = 0.0,
    on_wait: Callable[[], None] | None = None,
) -> Generator[None]:
    """Hold a lock file, which stays; the system frees it with the process, however that ends.

    Another process that holds it is waited for, up to `wait` seconds, after `on_wait` was called. Raises
    `busy`, or what that returns, if it is still held then, and `OSError` if the file cannot be created.
    """
    file_lock = FileLock(lock, timeout=0, is_singleton=False)
    try:
        try:
            file_lock.acquire()
        except Timeout:
            if wait <= 0:
                raise
            if on_wait is not None:
                on_wait()
            file_lock.acquire(wait, poll_interval=_LOCK_SECONDS)
    except Timeout as error:
        raise busy() if callable(busy) else busy from error
    try:
        yield
    finally:
        file_lock.release()


def whole_size(stream: IO[bytes], size: int) -> int:
    """Count those of the first `size` bytes that are lines with their end, searching from the end."""
    end = size
    while end:
        begin = max(0, end - _BLOCK)
        stream.seek(begin)
        newline = stream.read(end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def bind(path: Path, made_with: Mapping[str, Any]) -> list[str]:
    """Write the configuration of a folder, or compare it with the one that the folder was made with.

    `made_with` has JSON values by name. One process at a time: see `one_writer`. Returns the names of values
    that differ; none where the file was just written. Raises `OSError`, and `ValueError` if the file is
    damaged.
    """
    now = json.loads(json.dumps(made_with))
    try:
        before: Any = parse_json(path.read_bytes())
    except FileNotFoundError:
        write_whole(path, json.dumps(now, indent=2).encode() + b"\n")
        return []
    if not isinstance(before, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - damage, as what is no JSON
    return changed(cast("dict[str, Any]", before), now)


def changed(before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()) -> list[str]:
    """Return the names of JSON values that differ, sorted, except for those in `free`.

    >>> changed({"model": "a", "seed": 1}, {"model": "b", "seed": 2, "hits": 3}, free={"seed"})
    ['hits', 'model']
    """
    names = (before.keys() | now.keys()) - set(free)
    return sorted(name for name in names if before.get(name) != now.get(name))
