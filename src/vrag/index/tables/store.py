"""The places where tables are: the `TableStore` protocol of all of them, and a directory of this machine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from vrag.atomic_io import former_directory, make_directory
from vrag.errors import REPAIR_COMMAND
from vrag.index.tables.copies import newest_manifest
from vrag.index.tables.file_records import (
    TWO_WRITERS,
    is_interrupted,
    recorded_commit,
    recorded_deletion,
    sync_records,
)
from vrag.index.tables.lance import open_database
from vrag.index.tables.recovery import forget_undoing, recover_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from vrag.index.tables.copies import Manifest

_CLOCK_TICK_NS = 50_000_000
"""More than the clock of any file system lags behind."""


class TableVersion(NamedTuple):
    """The newest version of a table."""

    database: str
    """Directory or URL of the database that the table is in."""
    version: int = 0
    """LanceDB's number of it; 0 for the newest that is found there."""
    number: int = 0
    """Our number of it, which grows; 0 where it is LanceDB's."""


class TableStore(ABC):
    """The place where tables are."""

    name: str
    """The directory or the URL, for people."""
    options: dict[str, str]
    """LanceDB's storage options."""

    @abstractmethod
    def table_version(self, table: str) -> TableVersion | None:
        """Return the newest version of a table; None when nothing was written to it yet."""

    def stamp(self, table: str) -> int | None:  # noqa: ARG002 - for overrides
        """Return a number that differs after every commit and costs little; None when it is not known."""
        return None

    def manifest(self, table: str) -> Manifest | None:  # noqa: ARG002 - for overrides
        """Read the manifest of the newest version without LanceDB; None where that cannot be done."""
        return None

    @contextmanager
    def commit(self, table: str, made: Callable[[], int]) -> Generator[None]:  # noqa: ARG002 - for overrides
        """Acknowledge the commits of this block when it ends; `made` then returns the version it has made."""
        yield

    @contextmanager
    def deletion(self, table: str) -> Generator[None]:  # noqa: ARG002 - for overrides
        """Prepare for the deletion of older versions of a table in this block."""
        yield

    def is_interrupted(self, table: str) -> bool:  # noqa: ARG002 - for overrides
        """Return whether a writer of a table did not finish, or is at work."""
        return False

    def sync(self, table: str) -> None:  # noqa: B027 - for overrides
        """Put on the disk what is not there yet of a table."""

    def recover(self, table: str) -> bool:  # noqa: ARG002 - for overrides
        """Undo interrupted commits to a table; return whether there were any since `forget_undoing`."""
        return False

    def forget_undoing(self, table: str) -> None:  # noqa: B027 - for overrides
        """Record that the collection has looked at what was undone."""

    @abstractmethod
    def renew(self) -> None:
        """Forget what is remembered of the newest version."""

    @abstractmethod
    def hint(self, message: str) -> str:
        """Return what to do about a failure that LanceDB reports with this message."""

    @abstractmethod
    def prepare(self) -> str:
        """Create a database to write to, if there is none, and return where it is."""


class Directory(TableStore):
    """Tables in a directory of this machine.

    With `durable` a commit is on the disk when the method that makes it returns.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.name = str(path)
        self.options: dict[str, str] = {}
        self._path, self._durable = path, durable

    def table_version(self, table: str) -> TableVersion | None:
        """Return the newest version on the disk."""
        return TableVersion(self.name) if (self._path / f"{table}.lance").is_dir() else None

    def stamp(self, table: str) -> int | None:
        """Return when the folder of versions last changed, unless that was just now: clocks tick coarsely."""
        try:
            changed = (self._path / f"{table}.lance" / "_versions").stat().st_mtime_ns
        except OSError:
            return None
        return changed if time.time_ns() - changed > _CLOCK_TICK_NS else None

    def manifest(self, table: str) -> Manifest | None:
        """Read the manifest of the newest version on the disk."""
        return newest_manifest(self._path / f"{table}.lance")

    @contextmanager
    def commit(self, table: str, made: Callable[[], int]) -> Generator[None]:
        """Record the commits that are made in this block, with their files."""
        with recorded_commit(self._path / f"{table}.lance", made, durable=self._durable):
            yield

    @contextmanager
    def deletion(self, table: str) -> Generator[None]:
        """Put newer versions on the disk before older ones go."""
        with recorded_deletion(self._path / f"{table}.lance"):
            yield

    def is_interrupted(self, table: str) -> bool:
        """Look at the last entry of its journal, and for a table that was about to be replaced."""
        path = self._path / f"{table}.lance"
        return is_interrupted(path) or (not path.is_dir() and former_directory(path).is_dir())

    def sync(self, table: str) -> None:
        """Put recorded files on the disk."""
        sync_records(self._path / f"{table}.lance")

    def recover(self, table: str) -> bool:
        """Go back to the last version that is whole."""
        database = self.name
        return recover_table(self._path / f"{table}.lance", lambda: open_database(database).open_table(table))

    def forget_undoing(self, table: str) -> None:
        """Record that the collection has looked at what was undone."""
        forget_undoing(self._path / f"{table}.lance")

    def renew(self) -> None:
        """Do nothing: nothing is remembered."""

    def hint(self, message: str) -> str:
        """Return what to do about a failure of a disk."""
        lowered = message.casefold()
        if "no space" in lowered or "quota" in lowered or "file too large" in lowered:
            return "Free some disk space and run the command again: it continues where it stopped."
        if "permission" in lowered or "read-only" in lowered:
            return "Fix the permissions, or use a collection in another directory."
        if TWO_WRITERS in message:
            return (
                "Run the command again. Several machines may use one collection only on a disk that shares "
                "locks between them."
            )
        if "not found" in lowered:
            return "A file of the table is gone: build the collection again in another directory."
        return f"Run: {REPAIR_COMMAND}"

    def prepare(self) -> str:
        """Create the directory, if there is none."""
        make_directory(self._path)
        return self.name
