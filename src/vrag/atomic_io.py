"""Files that a kill or a full disk leaves whole: journals, and files that are replaced at once.

A journal holds one entry a line and is only added to. An entry is in the file as a whole or not at all: a
process that dies while it writes leaves a torn last line, which is no entry. Reading leaves it out, and the
next writer cuts it off. What the lines mean is for others to know. What goes wrong is an `OSError` here;
whoever uses these files says it in words of their own.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Self

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path
    from types import TracebackType

    from vrag.errors import VragError

__all__ = [
    "Journal",
    "one_writer",
    "read_lines",
    "replace_directory",
    "sync",
    "write_file",
    "write_lines",
    "write_whole",
]

_BLOCK = 1 << 16
"""Bytes that are read at once to find where the last line ends."""


class Journal:
    """A journal, open for its one writer; a torn last line is cut off when it is opened.

    Args:
        path: The file; made when it is not there. Its folder has to be.
        durable: Whether an entry is on the disk, and not only in the file, when `append` returns: the first
            outlives the machine, the second the process.

    Raises:
        OSError: If it cannot be opened.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path, self._durable = path, durable
        self._stream: IO[bytes] = path.open("a+b", buffering=0)
        self._torn: int | None = None
        try:
            self._mend()
        except BaseException:
            self._stream.close()
            raise

    def append(self, line: bytes) -> None:
        """Adds an entry.

        Args:
            line: Without its end.

        Raises:
            OSError: If the disk refuses. Nothing of the entry is in the file then.
            ValueError: If the entry has several lines.
        """
        if b"\n" in line:
            raise ValueError("An entry is one line.")
        if self._torn is not None:
            self._cut(self._torn)
        end = self._size
        try:
            self._write(line + b"\n")
        except OSError:
            self._torn = end
            self._cut(end, of_no_matter=True)
            raise

    def close(self) -> None:
        """Closes it."""
        self._stream.close()

    def __enter__(self) -> Self:
        """It, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    @property
    def _size(self) -> int:
        return os.fstat(self._stream.fileno()).st_size

    def _mend(self) -> None:
        """Cuts a torn last line off."""
        size = self._size
        whole = _whole(self._stream, size)
        if whole < size:
            self._stream.truncate(whole)
        if self._durable:
            sync(self.path.parent)

    def _write(self, data: bytes) -> None:
        """A disk that is all but full takes a part, and says so by its length alone."""
        if self._stream.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._durable:
            os.fsync(self._stream.fileno())

    def _cut(self, end: int, *, of_no_matter: bool = False) -> None:
        """Takes out what a refused write left; where that is refused as well, before the next one."""
        try:
            self._stream.truncate(end)
        except OSError:
            if not of_no_matter:
                raise
        else:
            self._torn = None


def read_lines(path: Path, *, missing_ok: bool = False) -> list[bytes]:
    """The entries of a journal, without their ends; it may be written meanwhile.

    Args:
        path: The file.
        missing_ok: Whether one that is not there has no entries.

    Raises:
        OSError: If it cannot be read.
    """
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        if missing_ok:
            return []
        raise


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Replaces all entries of a journal that nobody has open, at once.

    Raises:
        OSError: If the disk refuses. The old ones are there then.
    """
    write_whole(path, b"".join(line + b"\n" for line in lines))


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file as a whole: the old one stands until the new one is on the disk.

    It is written beside, as `.<name>.<eight digits>`: of several processes that do so at once, the last wins.

    Raises:
        OSError: If the disk refuses.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_file(unfinished, data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file and puts it on the disk; a kill may leave a part of it.

    Raises:
        OSError: If the disk refuses.
    """
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Puts a file or the names in a directory on the disk, where the system can.

    Raises:
        OSError: If the disk refuses.
    """
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_directory(written: Path, target: Path) -> None:
    """Rename a directory to `target`; one that is there is put back where that is refused, else removed.

    Meanwhile the former directory is `.<name>.former`. Two processes must not replace one target at once.

    Args:
        written: The new directory, complete and on the disk, in the folder of the target.
        target: An existing directory or a free name.

    Raises:
        OSError: If the disk refuses.
    """
    former = target.with_name(f".{target.name}.former")
    shutil.rmtree(former, ignore_errors=True)
    if target.is_dir():
        target.rename(former)
    try:
        written.rename(target)
    except OSError:
        if former.is_dir():
            former.rename(target)
        raise
    sync(target.parent)
    shutil.rmtree(former, ignore_errors=True)


@contextmanager
def one_writer(lock: Path, busy: VragError) -> Generator[None]:
    """Holds a lock; the system frees it with the process, however that ends.

    Args:
        lock: A file that is made for this and stays.
        busy: What is raised when another process holds it.

    Raises:
        OSError: If the file cannot be made.
    """
    held = FileLock(lock, timeout=0, is_singleton=False)
    try:
        held.acquire()
    except Timeout as error:
        raise busy from error
    try:
        yield
    finally:
        held.release()


def _whole(stream: IO[bytes], size: int) -> int:
    """How many bytes are lines with their end, looked for from the end."""
    end = size
    while end:
        begin = max(0, end - _BLOCK)
        stream.seek(begin)
        found = stream.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
