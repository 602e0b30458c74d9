"""The place of a collection: a directory of this machine, or object storage (`index/remote`)."""

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

_LOCK = "lock"
_WRITER = "writer.json"


def is_leftover(name: str) -> bool:
    """Check whether a killed creation may have left this file: a directory of such files counts as empty."""
    return name in {_LOCK, _WRITER, f"{FILE_NAME}.new"} or name.startswith(f".{FILE_NAME}.")


class CollectionLocation(Protocol):
    """The place of a collection."""

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
        """The directory of search structures on this machine. May be deleted at any time."""
        ...

    @property
    def repair_hint(self) -> str:
        """Advice for a stored file that is missing or damaged."""
        ...

    @property
    def store(self) -> TableStore:
        """The place of its tables."""
        ...

    def open(self, stored: str) -> BinaryIO:
        """Open a stored picture or clip, by its path relative to `items/`, to read and to seek in.

        Raises:
            FileNotFoundError: If there is none.
            CollectionError: If the path leads out of `items/`, or the storage cannot be reached.
        """
        ...

    def size(self) -> int:
        """Return the size of the collection in bytes."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Hold the lock for writing.

        Raises:
            CollectionBusy: At once, if another process holds it.
            CollectionError: If nothing can be written there.
        """
        ...


class LocalLocation:
    """A directory."""

    repair_hint = "Run: vrag index verify --repair, then vrag index add"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = os.fspath(directory)
        self.cache_dir = directory / "cache"
        self.store: TableStore = Directory(directory / "index")

    def path(self, stored: str) -> Path:
        """Return the path of a stored picture or clip, given relative to `items/`.

        Raises:
            CollectionError: If that is outside of `items/`.
        """
        root = (self.directory / "items").resolve()
        path = (root / stored).resolve()
        if not path.is_relative_to(root) or path == root:
            raise CollectionError(f"The picture {stored!r} lies outside of the collection.")
        return path

    def open(self, stored: str) -> BinaryIO:
        """Open a stored picture or clip."""
        return self.path(stored).open("rb")

    def size(self) -> int:
        """Return the bytes of all files in the directory; those that vanish meanwhile count nothing."""
        total = 0
        for path in self.directory.rglob("*"):
            try:
                total += path.lstat().st_size
            except OSError:
                continue
        return total

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the lock for writing, and name this process for the error message of others."""
        from filelock import FileLock, Timeout

        lock, writer = FileLock(self.directory / _LOCK, timeout=0), self.directory / _WRITER
        try:
            lock.acquire()
        except Timeout:
            raise CollectionBusy(
                f"Another process is writing to {self.directory}{self._describe_writer()}.",
                "Wait until it has finished, or stop it. You can search meanwhile.",
            ) from None
        except OSError as error:
            raise CollectionError(
                f"{self.directory} cannot be locked for writing: {error.strerror or error}.",
                "Choose a directory that you may write to.",
            ) from error
        try:
            content: dict[str, Any] = {"pid": os.getpid(), "host": socket.gethostname()}
            try:
                writer.write_text(json.dumps(content), encoding="utf-8")
            except OSError as error:
                raise CollectionError(
                    f"{self.directory} cannot be written to: {error.strerror or error}.",
                    "Free some disk space or fix the permissions.",
                ) from error
            yield
        finally:
            writer.unlink(missing_ok=True)
            lock.release()

    def _describe_writer(self) -> str:
        """The process that holds the lock, as far as it is known."""
        try:
            content = json.loads((self.directory / _WRITER).read_text(encoding="utf-8"))
            return f" (process {content['pid']} on {content['host']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""
