"""The source files of documents: their bytes, as long as they are those that were indexed.

A document is made from a file that stays where it is. Whatever is drawn from it later, or written on a copy
of it, must be of the same bytes: the file may have been edited, replaced or linked elsewhere since.
`read_source` therefore reads a file once, checks the SHA-256 of what it read, and returns that: there is no
moment between the check and the use. `CheckedFiles` are for files of any size that are read in parts: a file
is hashed when it is opened first; after that its stamp is compared. Only the path in the manifest is opened,
and only if a regular file lies there: a link is not followed, and a pipe or a device not opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cachetools import LRUCache

from vrag.types import ABSENT, ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from io import BufferedReader

    from PIL.Image import Image

    from vrag.geometry import View
    from vrag.types import Document, Item

KEPT_COPIES = "uploads"
"""Folder in a collection's directory of files that were uploaded to it."""
MAX_SOURCE_BYTES = 512 * 2**20
"""Size of a file up to which it is read: it is kept in memory as long as it is used."""
KNOWN_FILES = 1024
"""Files of a collection whose stamps are remembered."""
_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


class SourceFault(StrEnum):
    """The reason that the bytes of a document cannot be had, as a sentence."""

    ABSENT = "The document has no file of its own here."
    GONE = "Its file is no longer where it was indexed."
    NOT_A_FILE = "Its path is now a link, a folder or a device."
    CHANGED = "Its file has changed since it was indexed."
    TOO_LARGE = "Its file is too large to be read again."
    UNREADABLE = "Its file cannot be read."


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The file status that changes with the bytes of a file. Equal stamps do not prove equal bytes."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """Return the stamp of a file by its status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class SourceBytes:
    """The bytes of a document, checked."""

    path: Path
    """The file that they were read from."""
    stamp: FileStamp
    """Of this file before it was read."""
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenSource:
    """The open file of a document, at its start. Whoever got it closes it."""

    file: BinaryIO
    name: str
    size: int
    """Bytes."""


class CheckedFiles:
    """The files of documents, opened to be read in parts. May be shared by threads."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str], FileStamp] = LRUCache(KNOWN_FILES)
        """The stamps of the files that were hashed, by their paths and the ids of their documents."""
        self._lock = threading.Lock()

    def open(self, document: Document) -> OpenSource | SourceFault:
        """Open the file of a document: its bytes had the hash that is the document's id."""
        if document.mtime_ns == ABSENT or not document.id:
            return SourceFault.ABSENT
        key = document.path, document.id
        try:
            file, stamp = _open_regular(Path(document.path))
        except (OSError, ValueError) as error:
            return _fault_of(error)
        try:
            with self._lock:
                known = self._known.get(key)
            if stamp != known and (
                stamp.size != document.size or hashlib.file_digest(file, "sha256").hexdigest() != document.id
            ):
                file.close()
                return SourceFault.CHANGED
            file.seek(0)
        except OSError as error:
            file.close()
            return _fault_of(error)
        with self._lock:
            self._known[key] = stamp
        return OpenSource(file, document.name, stamp.size)


class SourceDrawing:
    """The drawing of parts of pages from the files of one collection. May be shared by threads.

    A file is read and hashed when a process opens it; as long as its stamp stays, only that is looked at.
    Whatever is drawn is drawn from the bytes that were hashed, which the process keeps.
    """

    def __init__(self, read: Callable[[str], SourceBytes | SourceFault]) -> None:
        self._read = read
        self._known: LRUCache[str, tuple[Path, FileStamp]] = LRUCache(KNOWN_FILES)
        """The files that were read, by the ids of their documents."""
        self._lock = threading.Lock()

    def draw(self, item: Item, view: View) -> Image | None:
        """Draw a part of a page as `ItemStore.part` describes."""
        from vrag.corpus.drawing import SUFFIX
        from vrag.corpus.workers.drawing_pool import shared_pool

        if item.kind is not ItemKind.PAGE or item.size != view.item:
            return None
        if not item.document_name.lower().endswith(SUFFIX):
            return None
        data: bytes | None = None
        with self._lock:
            known = self._known.get(item.document)
        if known is None or read_stamp(known[0]) != known[1]:
            data = self._read_data(item.document)
            if data is None:
                return None
        return shared_pool().draw(
            item.document, item.ordinal, view, lambda: data or self._read_data(item.document)
        )

    def _read_data(self, document: str) -> bytes | None:
        source = self._read(document)
        with self._lock:
            if not isinstance(source, SourceBytes):
                self._known.pop(document, None)
                return None
            self._known[document] = source.path, source.stamp
        return source.data


def lies_in(path: str, folder: Path) -> bool:
    """Return whether a path in the manifest belongs to a file in this folder, whatever links lead there."""
    parent, name = os.path.split(path)
    if os.path.basename(parent) != folder.name or not name:  # noqa: PTH119 - cheap, for every row
        return False
    return parent == os.fspath(folder) or os.path.realpath(parent) == os.path.realpath(folder)


def with_kept_copies(documents: Iterable[Document], directory: Path) -> tuple[Document, ...]:
    """Return documents sorted by path, followed by the uploaded ones where their copies lie in `directory`.

    These are other paths only where the collection was moved since.
    """
    found = sorted(documents, key=lambda document: document.path)
    uploaded = (document for document in found if Path(document.path).parent.name == KEPT_COPIES)
    kept = (replace(each, path=str(directory / KEPT_COPIES / Path(each.path).name)) for each in uploaded)
    return tuple(dict.fromkeys([*found, *kept]))


def read_source(document: Document) -> SourceBytes | SourceFault:
    """Read the file of a document; the bytes returned have the hash that is the document's id."""
    if document.mtime_ns == ABSENT or not document.id:
        return SourceFault.ABSENT
    if document.size > MAX_SOURCE_BYTES:
        return SourceFault.TOO_LARGE
    path = Path(document.path)
    try:
        file, stamp = _open_regular(path)
        with file:
            if stamp.size != document.size:
                return SourceFault.CHANGED
            data = file.read(document.size + 1)  # not to its end: it may be growing
    except (OSError, ValueError) as error:
        return _fault_of(error)
    if hashlib.sha256(data).hexdigest() != document.id:
        return SourceFault.CHANGED
    return SourceBytes(path, stamp, data)


def read_stamp(path: Path) -> FileStamp | SourceFault:
    """Return the stamp of a file, if one is there that could be read."""
    try:
        file, stamp = _open_regular(path)
    except (OSError, ValueError) as error:
        return _fault_of(error)
    file.close()
    return stamp


def _open_regular(path: Path) -> tuple[BufferedReader, FileStamp]:
    """Open a regular file that is no link.

    Raises `OSError` if there is none, and `ValueError` if no file can have this path.
    """
    before = path.lstat()  # a device is not even opened
    _check_regular(before)
    file = os.fdopen(os.open(path, _FLAGS), "rb")
    try:
        status = os.fstat(file.fileno())
        _check_regular(status, before)
    except OSError:
        file.close()
        raise
    return file, FileStamp.of(status)


def _check_regular(status: os.stat_result, before: os.stat_result | None = None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ELOOP, "Not a regular file")
    if before is not None and not os.path.samestat(before, status):  # where the system has no O_NOFOLLOW
        raise OSError(errno.ELOOP, "Replaced meanwhile")


def _fault_of(error: OSError | ValueError) -> SourceFault:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return SourceFault.GONE
        case OSError(errno=errno.ELOOP):
            return SourceFault.NOT_A_FILE
        case _:
            return SourceFault.UNREADABLE
