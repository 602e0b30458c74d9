"""Where a collection lies: a directory of this machine, or object storage (`remote_collection.py`)."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.collection_json import FILE_NAME
from vrag.index.tables.table import Directory

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vrag.index.tables.table import TableStore

__all__ = ["LEFTOVERS", "CollectionLocation", "LocalLocation"]

_LOCK = "lock"
_WRITER = "writer.json"
LEFTOVERS = frozenset({_LOCK, _WRITER, f"{FILE_NAME}.new"})
"""What a killed creation may leave behind: a directory with nothing else is not somebody's own."""


class CollectionLocation(Protocol):
    """Where a collection lies."""

    @property
    def address(self) -> str:
        """The directory or the URL, for people."""
        ...

    @property
    def directory(self) -> Path:
        """The collection's directory on this machine; of a published one, where its runs are kept."""
        ...

    @property
    def cache_dir(self) -> Path:
        """Where search structures are kept on this machine. May be deleted at any time."""
        ...

    @property
    def mend(self) -> str:
        """What to do about a stored file that is missing or damaged."""
        ...

    @property
    def store(self) -> TableStore:
        """Where its tables are."""
        ...

    def open(self, stored: str) -> BinaryIO:
        """A stored picture or clip, by its path relative to `items/`: to read and to seek in.

        Raises:
            FileNotFoundError: If there is none.
            CollectionError: If the path leads out of `items/`, or the place cannot be reached.
        """
        ...

    def size(self) -> int:
        """Bytes that the collection takes."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Holds the right to write.

        Raises:
            CollectionBusy: At once, if another process holds it.
            CollectionError: If nothing can be written there.
        """
        ...


class LocalLocation:
    """A directory."""

    mend = "Run: vrag index verify --repair, then vrag index add"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = os.fspath(directory)
        self.cache_dir = directory / "cache"
        self.store: TableStore = Directory(directory / "index")

    def path(self, stored: str) -> Path:
        """Where a stored picture or clip lies, by its path relative to `items/`.

        Raises:
            CollectionError: If that is outside of `items/`.
        """
        root = (self.directory / "items").resolve()
        path = (root / stored).resolve()
        if not path.is_relative_to(root) or path == root:
            raise CollectionError(f"The picture {stored!r} lies outside of the collection.")
        return path

    def open(self, stored: str) -> BinaryIO:
        """A stored picture or clip."""
        return self.path(stored).open("rb")

    def size(self) -> int:
        """Bytes of all files in the directory; those that vanish meanwhile count nothing."""
        total = 0
        for path in self.directory.rglob("*"):
            try:
                total += path.lstat().st_size
            except OSError:
                continue
        return total

    @contextmanager
    def lock(self) -> Generator[None]:
        """Holds the right to write."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.directory / _LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise CollectionBusy(
                f"Another process is writing to {self.directory}{_holder(self.directory)}.",
                "Wait until it has finished, or stop it. Searching goes on meanwhile.",
            ) from None
        except OSError as error:
            raise CollectionError(
                f"{self.directory} cannot be locked for writing: {error.strerror or error}.",
                "Choose a directory that you may write to.",
            ) from error
        try:
            _sign(self.directory / _WRITER)
            yield
        finally:
            (self.directory / _WRITER).unlink(missing_ok=True)
            lock.release()


def _sign(path: Path) -> None:
    """Says who writes, for the message to others. The lock does not depend on it."""
    content: dict[str, Any] = {"pid": os.getpid(), "host": socket.gethostname()}
    try:
        path.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise CollectionError(
            f"{path.parent} cannot be written to: {error.strerror or error}.",
            "Make room on the disk, or give yourself the right to write there.",
        ) from error


def _holder(directory: Path) -> str:
    """Who holds the lock, as far as it is known."""
    try:
        content = json.loads((directory / _WRITER).read_text(encoding="utf-8"))
        return f" (process {content['pid']} on {content['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
