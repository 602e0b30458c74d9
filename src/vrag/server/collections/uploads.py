"""Bodies of requests become files: streamed to a hidden one, checked, and renamed when all is there.

Whatever ends an upload before that, the client's departure, a limit, a full disk, takes the hidden file with
it. What a killed server leaves is deleted once nothing was written to it for ten minutes.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import shutil
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from vrag.server.collections.file_types import HEAD_BYTES, fault_of_head
from vrag.server.http.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from pathlib import Path

    from vrag.server.http.background import Threads

__all__ = ["IncomingUpload", "StoredUpload", "UploadLimits", "clear_parts", "receive"]

T = TypeVar("T")
log = logging.getLogger("vrag.server")
_PART = ".part"
_STALE_SECONDS = 600.0
_WRITTEN = 1024 * 1024
"""Bytes that are written at once."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_STEPS_NS = (1, 1000, 1_000_000, 2_000_000_000)
"""How finely file systems tell times, in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """How much may be uploaded, beside the size of one file, which `ServerOptions.upload_bytes` is."""

    collection_bytes: int | None = None
    """Bytes of all files uploaded to one collection; None for as many as there is room for."""
    free_bytes: int = 512 * 1024 * 1024
    """Bytes that stay free on the disk: pages take room as well."""
    waiting: int = 1000
    """Files of a collection that may wait to be read."""
    stop_seconds: float = 20.0
    """Time for what is being read to be left off, when a collection is deleted."""


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """A file that was uploaded and lies in its place."""

    path: Path
    document: str
    """SHA-256 of its bytes in hexadecimal: the id of the document that it becomes."""
    size: int


async def receive(
    body: AsyncIterator[bytes],
    part: IncomingUpload,
    limit: int,
    threads: Threads,
    place: Callable[[IncomingUpload], T],
) -> T:
    """Stores a body; all or nothing.

    Args:
        body: Its pieces; what it raises is passed on.
        part: Where it goes.
        limit: Bytes it may have.
        threads: What writes: no disk is waited for here.
        place: Gives what is complete its name, in one of them.

    Returns:
        What `place` returns.

    Raises:
        Refusal: If it is empty (422), longer than allowed (413), no such file (415), or there is no room
            (507).
    """
    try:
        await threads.run(part.open)
        await _fill(part, body, limit, threads)
        await threads.run(part.close)
        return await threads.run(partial(place, part))
    except BaseException:
        threads.run(part.discard)
        raise


async def _fill(part: IncomingUpload, body: AsyncIterator[bytes], limit: int, threads: Threads) -> None:
    """Writes what comes; looks at the first bytes before any is written."""
    waiting = bytearray()
    size, looked_at = 0, False
    suffix = part.target.suffix.lower()
    async for piece in body:
        waiting += piece
        size += len(piece)
        if size > limit:
            raise Refusal(413, f"The file is longer than {limit:,} bytes.", "Split it into several.")
        if not looked_at and len(waiting) >= HEAD_BYTES:
            _check_head(suffix, bytes(waiting[:HEAD_BYTES]))
            looked_at = True
        if len(waiting) >= _WRITTEN:
            await threads.run(partial(part.write, bytes(waiting)))
            waiting.clear()
    if not size:
        raise Refusal(422, "The file is empty.", "Send its content as the body: curl -T FILE URL")
    if not looked_at:
        _check_head(suffix, bytes(waiting))
    await threads.run(partial(part.write, bytes(waiting)))


def clear_parts(folder: Path) -> None:
    """Deletes what killed servers left of uploads."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(_PART):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                        os.unlink(entry.path)  # noqa: PTH108


class IncomingUpload:
    """A file that is being uploaded, under a hidden name. Its methods block.

    Args:
        target: The name that it will have, in the folder of uploads; its suffix says what it must be.
        limits: Room that stays, and of all uploads together.
    """

    def __init__(self, target: Path, limits: UploadLimits) -> None:
        self.target = target
        self._limits = limits
        self._folder = folder = target.parent
        self._path = folder / f".{secrets.token_hex(8)}{_PART}"
        self._turn = threading.Lock()
        self._file: BinaryIO | None = None
        self._over = False
        self._hash = hashlib.sha256()
        self._before = self._size = 0

    def open(self) -> None:
        """Makes it, unless it was discarded already."""
        with self._turn, _storing():
            if self._over:
                return
            self._folder.mkdir(exist_ok=True)
            clear_parts(self._folder)
            if self._limits.collection_bytes is not None:
                self._before = _uploaded(self._folder)
            self._file = self._path.open("xb")

    def write(self, data: bytes) -> None:
        """Appends to it.

        Raises:
            Refusal: If there is no room (507).
        """
        most = self._limits.collection_bytes
        self._size += len(data)
        if most is not None and self._before + self._size > most:
            raise Refusal(507, f"The collection holds its {most:,} bytes of uploads.", "Remove documents.")
        with self._turn, _storing():
            if shutil.disk_usage(self._folder).free < len(data) + self._limits.free_bytes:
                raise _no_room()
            if self._file is not None and not self._over:
                self._file.write(data)
                self._hash.update(data)

    def close(self) -> None:
        """Has the disk take all of it.

        Raises:
            Refusal: If there is no room (507).
        """
        with self._turn, _storing():
            if self._file is not None and not self._over:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()

    def place(self) -> StoredUpload:
        """Gives it its name, once it is closed, in place of what has that name.

        Its modification time is later than that of the file replaced: by it and the size the index tells that
        a file has changed, and two files of one size may well be written within one tick of the clock.
        """
        with self._turn, _storing():
            _date_after(self._path, self.target)
            self._path.replace(self.target)
            self._over = True
            _sync(self._folder)
        return StoredUpload(self.target, self._hash.hexdigest(), self._size)

    def discard(self) -> None:
        """Deletes it, unless it has its name already."""
        with self._turn:
            if self._over:
                return
            self._over = True
            with suppress(OSError):
                if self._file is not None:
                    self._file.close()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


@contextmanager
def _storing() -> Generator[None]:
    """What a disk refuses, told without paths."""
    try:
        yield
    except FileNotFoundError as error:
        raise Refusal(404, "The collection is no longer there.", "GET /collections lists them.") from error
    except OSError as error:
        if error.errno in _FULL:
            raise _no_room() from error
        log.exception("An upload cannot be stored.")
        raise Refusal(503, "The file cannot be stored.", "The server's log says why.") from error


def _date_after(path: Path, other: Path) -> None:
    """Has a file be modified later than another one, where there is that."""
    try:
        before = other.stat().st_mtime_ns
    except FileNotFoundError:
        return
    for step in _STEPS_NS:
        if path.stat().st_mtime_ns > before:
            return
        os.utime(path, ns=(before + step, before + step))


def _no_room() -> Refusal:
    return Refusal(507, "There is no room left on the server's disk.", "Remove documents, or make room.")


def _check_head(suffix: str, head: bytes) -> None:
    if fault := fault_of_head(suffix, head):
        raise Refusal(415, fault, "Send the file under the name that it has, unchanged.")


def _uploaded(folder: Path) -> int:
    """Bytes of all files in it."""
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


def _sync(folder: Path) -> None:
    """Has the disk take the names in a folder, where it can be asked to."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
