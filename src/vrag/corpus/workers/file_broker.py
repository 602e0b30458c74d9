"""The files that a parent opens for its workers: sources, pictures beside them, printed documents, clips.

Which files these are is decided here, by the task: a worker names at most a picture below the folder of its
own file, and only if that is an HTML file, whose author can have it shown anyway.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from vrag.corpus.converter import open_unnamed, store_item_file
from vrag.corpus.formats.office import contents_path, print_document
from vrag.corpus.workers.replies import NeighbourWanted
from vrag.corpus.workers.requests import HAS_DESCRIPTORS, GivenFile
from vrag.errors import CollectionError, CorpusError
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.corpus.workers.replies import ItemMade, PrintWanted
    from vrag.corpus.workers.requests import Task
    from vrag.types import Item

MAX_CLIP_GROWTH, MIN_CLIP_BYTES = 8, 256 * 2**20
"""Bytes of a clip over those of its video beyond which it is not stored, and up to which it always is."""
LOW_DISK_BYTES = 16 * 2**20
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class FileBroker:
    """The files that the workers of a pool are given. May be shared by threads; `close` ends it."""

    def __init__(self, items_dir: Path) -> None:
        self._items_dir = items_dir
        self._cleanup = ExitStack()
        self._scratch: Path | None = None
        self._printed: dict[str, dict[str, BinaryIO]] = {}
        """Files of printed documents, by their ids and parts (`PrintWanted.part`)."""
        self._lock = threading.Lock()
        """Lock of the folder and the dictionary."""

    @staticmethod
    def open_source(task: Task) -> BinaryIO:
        """Open the source of a task.

        Raises `CorpusError` if it has changed, is empty or not a regular file, and `OSError` if it cannot be
        read.
        """
        source = task.source
        # Not by `fdopen`: a worker on Windows is given the name of the file object, which is its path.
        file = open(source.path, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS))  # noqa: SIM115 - the caller closes it
        try:
            _check_source(os.fstat(file.fileno()), task)
        except CorpusError:
            file.close()
            raise
        return file

    def open_wanted(
        self, wanted: NeighbourWanted | PrintWanted, task: Task, is_alive: Callable[[], bool]
    ) -> BinaryIO:
        """Open what the worker of a task asks for, as long as `is_alive` says that it runs.

        Raises `CorpusError`, `OSError` or `ValueError` if it cannot be had.
        """
        if isinstance(wanted, NeighbourWanted):
            if not getattr(task.converter, "reads_neighbours", False):
                raise CorpusError("A file of this format has no pictures beside it.")
            return task.source.open_neighbour(wanted.name)
        if not getattr(task.converter, "is_printed", False):
            raise CorpusError("A file of this format is not printed.")
        return _reopen(self._print(task, is_alive)[wanted.part])

    def open_clip(self) -> BinaryIO:
        """Open an empty file for clips. Raises `CollectionError` if it cannot be made."""
        if HAS_DESCRIPTORS:
            return open_unnamed(self._items_dir)
        try:
            descriptor, name = tempfile.mkstemp(dir=self._scratch_folder())
            os.close(descriptor)
            return Path(name).open("r+b")
        except OSError as error:
            raise CollectionError(
                f"A file for a clip cannot be created: {error.strerror or error}.", "Free some disk space."
            ) from error

    def store(self, made: ItemMade, clip: BinaryIO | None, source_bytes: int) -> Item:
        """Store the picture and the clip of an item. Raises `CollectionError` if they cannot be written."""
        item, files = made.item, made.files
        if item.clip:
            size = os.fstat(clip.fileno()).st_size if clip else 0
            if clip is None or not 0 < size <= max(MIN_CLIP_BYTES, MAX_CLIP_GROWTH * source_bytes):
                raise CorpusError(f"The clip has {size:,} bytes.")
            # By positions of its own: those of the file are also the worker's.
            given = GivenFile(os.dup(clip.fileno()) if HAS_DESCRIPTORS else Path(clip.name))
            with given.open("rb") as reader:
                self._store(item, files.clip_suffix, reader)
        if files.picture:
            self._store(item, files.picture_suffix, files.picture)
        return item

    def _store(self, item: Item, suffix: str, content: bytes | BinaryIO) -> None:
        store_item_file(self._items_dir, item.document, item.ordinal, suffix, content)

    def check_disk(self) -> None:
        """Raise `CollectionError` if the disk is full."""
        folder = next(path for path in (self._items_dir, *self._items_dir.parents) if path.exists())
        if hasattr(os, "statvfs"):
            status = os.statvfs(folder)
            if status.f_bavail * status.f_frsize < LOW_DISK_BYTES:
                raise CollectionError(
                    f"{folder} cannot be written: the disk is full.", "Free some disk space."
                )

    def forget(self, document: str) -> None:
        """Close what was printed of a document."""
        with self._lock:
            printed = self._printed.pop(document, {})
        for file in printed.values():
            _close(file)

    def _print(self, task: Task, is_alive: Callable[[], bool]) -> dict[str, BinaryIO]:
        """Print a document, once."""
        source = task.source
        with self._lock:
            if source.document in self._printed:
                return self._printed[source.document]
        pdf = self._scratch_folder() / f"{source.document[:16]}.pdf"
        seconds = task.options.office_seconds
        print_document(source, source.name, pdf, seconds, is_alive)
        paths = {"pdf": pdf, "contents": contents_path(pdf)}
        printed: dict[str, BinaryIO] = {part: path.open("rb") for part, path in paths.items()}
        if HAS_DESCRIPTORS:
            for path in paths.values():
                path.unlink()  # it goes with this process, however that ends
        with self._lock:
            self._printed[source.document] = printed
        return printed

    def _scratch_folder(self) -> Path:
        """Return the folder for files with names; the next process removes it if this one is killed."""
        with self._lock:
            if self._scratch is None:
                self._scratch = self._cleanup.enter_context(scratch_directory())
            return self._scratch

    def close(self) -> None:
        """Close all files and remove the folder."""
        for document in list(self._printed):
            self.forget(document)
        self._cleanup.close()


def _check_source(status: os.stat_result, task: Task) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CorpusError("It is not a regular file.")
    if (status.st_size, status.st_mtime_ns) != (task.source.size, task.source.mtime_ns):
        raise CorpusError("The file changed while it was being added.", "Add it again.")
    if not status.st_size:
        raise CorpusError("The file is empty.")


def _reopen(file: BinaryIO) -> BinaryIO:
    if HAS_DESCRIPTORS:
        return cast("BinaryIO", os.fdopen(os.dup(file.fileno()), "rb"))
    return Path(file.name).open("rb")


def _close(file: BinaryIO) -> None:
    file.close()
    if not HAS_DESCRIPTORS:
        with suppress(OSError):
            Path(file.name).unlink()
