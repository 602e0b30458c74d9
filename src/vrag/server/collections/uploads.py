"""Uploaded files: the folder in which they lie, and the streaming of request bodies into it.

A body is streamed to a hidden file, checked, and renamed when it is complete. Whatever ends an upload before
that, the client's departure, a limit, a full disk, deletes the hidden file. What a killed server leaves is
deleted once nothing was written to it for ten minutes.
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
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from vrag.atomic_io import make_directory, replace_file, sync
from vrag.index.manifest import has_same_time
from vrag.index.source_file import KEPT_COPIES
from vrag.server.collections.files import HEAD_BYTES, SUFFIXES, fault_of_head
from vrag.server.collections.registry import OpenCollection
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal
from vrag.types import Document, DocumentStatus

T = TypeVar("T")
log = logging.getLogger("vrag.server")
REMOVED_SUFFIX = ".gone"
"""A file that is being removed is called `.NAME.gone`."""
_REPLACED_SUFFIX = ".before"
_PART_SUFFIX = ".part"
_STALE_SECONDS = 600.0
_WRITE_BYTES = 1024 * 1024
_TIME_STEPS_NS = (1, 1000, 1_000_000, 2_000_000_000)
"""Resolutions of file times in various file systems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Limits of uploads besides the size of one file, which is `ServerOptions.upload_bytes`."""

    collection_bytes: int | None = None
    """Bytes of all files uploaded to one collection; None for no limit."""
    free_bytes: int = 512 * 1024 * 1024
    """Bytes that stay free on the disk: pages need space as well."""
    waiting: int = 1000
    """Files of a collection that may wait to be indexed."""
    stop_seconds: float = 20.0
    """Time for indexing to stop when a collection is deleted."""


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """A completely uploaded file."""

    path: Path
    document: str
    """SHA-256 of its bytes in hexadecimal: the id of the document that it becomes."""
    size: int


def uploads_of(open_collection: OpenCollection) -> Path:
    """Return the folder of a collection's uploads; it need not exist."""
    return open_collection.collection.directory / KEPT_COPIES


def uploaded_files(folder: Path) -> list[Path]:
    """List the uploaded files in a folder, sorted."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []
    return [folder / name for name in names if Path(name).suffix.lower() in SUFFIXES]


def is_done(path: Path, row: Document | None) -> bool:
    """Return whether the manifest has an uploaded file completely."""
    return row is not None and row.status is not DocumentStatus.PENDING and has_same_time(path, row)


def moved_files(
    rows: list[Document], own: dict[str, Document], present: dict[str, Path]
) -> dict[Path, list[Document]]:
    """Find uploaded files that the manifest knows by other paths, where no file is any more.

    `own` are the rows of files in the folder of uploads, `present` the files in it, both by name.
    """
    found: dict[Path, list[Document]] = {}
    for row in rows:
        above = os.path.basename(os.path.dirname(row.path))  # noqa: PTH119, PTH120 - cheap, for every row
        known = above != KEPT_COPIES or row.name not in present or row.name in own
        if not known and not os.path.lexists(row.path):
            found.setdefault(present[row.name], []).append(row)
    return found


def replaced_file(path: Path) -> Path:
    """Return the hidden name of the file that an upload replaces, until that is read."""
    return path.with_name(f".{path.name}{_REPLACED_SUFFIX}")


def withdraw(path: Path, row: Document | None) -> None:
    """Delete an upload that is not read; `row` is that of its path.

    A document that it was to replace has its file again.
    """
    before = replaced_file(path)
    if row is not None and row.status.served and has_same_time(before, row):
        before.replace(path)
    else:
        path.unlink(missing_ok=True)
        before.unlink(missing_ok=True)


def clear_replaced(folder: Path, done: set[str]) -> None:
    """Delete the files that uploads replaced which are `done`, by name, or gone."""
    for path in folder.glob(f".*{_REPLACED_SUFFIX}"):
        name = path.name[1 : -len(_REPLACED_SUFFIX)]
        if name in done or not (folder / name).exists():
            path.unlink(missing_ok=True)


def hide_files(paths: set[Path]) -> dict[Path, Path]:
    """Rename files to hidden names; return these by path. Files that are gone already are left out.

    Raises `Refusal` if one cannot be renamed, such as a file that is in use on Windows; all keep their names.
    """
    hidden: dict[Path, Path] = {}
    try:
        for path in sorted(paths):
            place = path.with_name(f".{path.name}{REMOVED_SUFFIX}")
            with suppress(FileNotFoundError):
                replace_file(path, place)
                hidden[path] = place
    except OSError as error:
        restore_files(hidden)
        message = f"A file of the document cannot be removed: {error.strerror}."
        raise Refusal(503, message, "Try again when nobody has it open.") from error
    return hidden


def restore_files(hidden: dict[Path, Path]) -> None:
    """Undo `hide_files`, except where another file has the name by now."""
    for path, place in hidden.items():
        with suppress(OSError):
            if not path.exists():
                place.replace(path)


async def receive(
    body: AsyncIterator[bytes],
    part: IncomingUpload,
    limit: int,
    threads: Threads,
    place: Callable[[IncomingUpload], T],
) -> T:
    """Store a body of at most `limit` bytes completely or not at all; what it raises is passed on.

    `place` renames the complete file, in one of the threads that write to the disk; its result is returned.

    Raises `Refusal` if it is empty (422), too long (413), not of its type (415), or the disk is full (507).
    """
    try:
        await threads.run(part.open)
        await _write_body(part, body, limit, threads)
        await threads.run(part.close)
        return await threads.run(partial(place, part))
    except BaseException:
        threads.run(part.discard)
        raise


async def _write_body(part: IncomingUpload, body: AsyncIterator[bytes], limit: int, threads: Threads) -> None:
    """Write the pieces; check the first bytes before any is written."""
    waiting = bytearray()
    size, is_checked = 0, False
    suffix = part.target.suffix.lower()
    async for piece in body:
        waiting += piece
        size += len(piece)
        if size > limit:
            raise Refusal(413, f"The file is longer than {limit:,} bytes.", "Split it into several.")
        if not is_checked and len(waiting) >= HEAD_BYTES:
            _check_head(suffix, bytes(waiting[:HEAD_BYTES]))
            is_checked = True
        if len(waiting) >= _WRITE_BYTES:
            await threads.run(partial(part.write, bytes(waiting)))
            waiting.clear()
    if not size:
        raise Refusal(422, "The file is empty.", "Send its content as the body: curl -T FILE URL")
    if not is_checked:
        _check_head(suffix, bytes(waiting))
    await threads.run(partial(part.write, bytes(waiting)))


def clear_parts(folder: Path) -> None:
    """Delete incomplete uploads of killed servers."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(_PART_SUFFIX):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                        os.unlink(entry.path)  # noqa: PTH108


class IncomingUpload:
    """A file that is being uploaded, under a hidden name. Its methods block.

    `target` is its later path in the folder of uploads; the suffix says what type it must have.
    """

    def __init__(self, target: Path, limits: UploadLimits) -> None:
        self.target = target
        self._limits = limits
        self._folder = folder = target.parent
        self._path = folder / f".{secrets.token_hex(8)}{_PART_SUFFIX}"
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._over = False
        self._hash = hashlib.sha256()
        self._before = self._size = 0

    def open(self) -> None:
        """Create it, unless it was discarded already."""
        with self._lock, _disk_errors():
            if self._over:
                return
            self._folder.parent.stat()  # a collection that is gone is not made again
            make_directory(self._folder)
            clear_parts(self._folder)
            if self._limits.collection_bytes is not None:
                with os.scandir(self._folder) as entries:
                    self._before = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
            self._file = self._path.open("xb")

    def write(self, data: bytes) -> None:
        """Append to it. Raises `Refusal` if the disk is full (507)."""
        most = self._limits.collection_bytes
        self._size += len(data)
        if most is not None and self._before + self._size > most:
            message = f"The collection has reached its limit of {most:,} bytes of uploads."
            raise Refusal(507, message, "Remove documents.")
        with self._lock, _disk_errors():
            if shutil.disk_usage(self._folder).free < len(data) + self._limits.free_bytes:
                raise _disk_full()
            if self._file is not None and not self._over:
                self._file.write(data)
                self._hash.update(data)

    def close(self) -> None:
        """Write all of it to the disk. Raises `Refusal` if the disk is full (507)."""
        with self._lock, _disk_errors():
            if self._file is not None and not self._over:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()

    def place(self) -> StoredUpload:
        """Give it its name, once it is closed, replacing the file of that name.

        That is kept as `replaced_file`, unless an earlier upload of the name is not read yet, or the file
        system has no links.

        Its modification time is later than that of the file replaced: by it and the size the index tells that
        a file has changed, and two files of one size may well be written within one tick of the clock.
        """
        with self._lock, _disk_errors():
            with suppress(FileNotFoundError):
                before = self.target.stat().st_mtime_ns
                for step in _TIME_STEPS_NS:
                    if self._path.stat().st_mtime_ns <= before:
                        os.utime(self._path, ns=(before + step, before + step))
            with suppress(OSError):
                replaced_file(self.target).hardlink_to(self.target)
            replace_file(self._path, self.target)
            self._over = True
            with suppress(OSError):  # where the system cannot write the names of a folder to the disk
                sync(self._folder)
        return StoredUpload(self.target, self._hash.hexdigest(), self._size)

    def discard(self) -> None:
        """Delete it, unless it has its name already."""
        with self._lock:
            if self._over:
                return
            self._over = True
            with suppress(OSError):
                if self._file is not None:
                    self._file.close()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


@contextmanager
def _disk_errors() -> Generator[None]:
    """Convert errors of the disk to refusals without paths."""
    try:
        yield
    except FileNotFoundError as error:
        hint = "Reload the list of documents."
        raise Refusal(404, "The collection no longer exists.", hint) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise _disk_full() from error
        log.exception("An upload cannot be stored.")
        raise Refusal(503, "The file cannot be stored.", "The server's log has the reason.") from error


def _disk_full() -> Refusal:
    return Refusal(507, "The server's disk is full.", "Remove documents, or free some disk space.")


def _check_head(suffix: str, head: bytes) -> None:
    if fault := fault_of_head(suffix, head):
        raise Refusal(415, fault, "Send the file unchanged, under its own name.")
