"""What a model is asked once, and no more: kept in memory, and in a file that outlives the process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from vrag.agent.background import run_in_thread
from vrag.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

__all__ = ["VerdictCache", "VerdictTable"]

_BUSY_SECONDS = 30.0
"""How long another process may be writing."""
_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, str]
"""A task belongs to its event loop."""

T = TypeVar("T")
log = logging.getLogger("vrag.reward")


@dataclass(frozen=True, slots=True)
class VerdictTable(Generic[T]):
    """How values are written into an SQLite file."""

    name: str
    """In the plural, for people too: `verdicts`."""
    columns: tuple[str, ...]
    """As SQL declares them, their names first."""
    row: Callable[[T], tuple[Any, ...]]
    """Of a value, in the order of the columns."""
    value: Callable[[tuple[Any, ...]], T]
    """Of a row. A ValueError means that nothing of use is there."""

    @property
    def made(self) -> str:
        """SQL that makes it."""
        columns = ", ".join(["key TEXT PRIMARY KEY", *self.columns])
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) WITHOUT ROWID"

    @property
    def read(self) -> str:
        """SQL that finds the row of a key."""
        names = ", ".join(column.split()[0] for column in self.columns)
        return f"SELECT {names} FROM {self.name} WHERE key = ?"  # noqa: S608 - of constants

    @property
    def written(self) -> str:
        """SQL that writes a key and its row."""
        places = ", ".join("?" * (1 + len(self.columns)))
        return f"INSERT OR REPLACE INTO {self.name} VALUES ({places})"  # noqa: S608 - of constants


class VerdictCache(Generic[T]):
    """Keeps values by what they depend on.

    Whoever asks for a value that is just being made waits for that one. What failed is not kept. A value
    that cannot be written counts all the same, with a line in the log.

    Args:
        table: How they are written.
        path: An SQLite file in which they outlive the process; None keeps them in memory. Processes may
            share it, and any of them may be killed: a value is in it whole or not at all. Other tables may
            be in it too.
        most: Values in memory; the oldest go first.

    Raises:
        JudgeError: If the file cannot be used.
    """

    def __init__(self, table: VerdictTable[T], path: Path | None = None, *, most: int = 100_000) -> None:
        self._table, self._path, self._most = table, path, most
        self._known: dict[str, T] = {}
        self._asked: dict[_Place, asyncio.Task[T]] = {}
        self._lock = threading.Lock()
        if path is not None:
            self._create(path)

    async def value(self, content: tuple[str, ...], make: Callable[[], Awaitable[T]]) -> T:
        """The value that is kept, or a new one.

        Args:
            content: All that it depends on.
            make: Makes a new one; what it raises, this raises.
        """
        key = _key(*content)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        place = asyncio.get_running_loop(), key
        task = self._asked.get(place)
        if task is None:
            task = asyncio.create_task(self._new(key, make))
            self._asked[place] = task
            task.add_done_callback(lambda done: self._done(place, done))
        return await asyncio.shield(task)  # others may be waiting for it, whoever is cancelled

    async def _new(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        value = None if self._path is None else await run_in_thread(lambda: self._read(key))
        if value is None:
            value = await make()
            if self._path is not None:
                await run_in_thread(lambda: self._write(key, value))
        with self._lock:
            self._known[key] = value
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return value

    def _done(self, place: _Place, task: asyncio.Task[T]) -> None:
        del self._asked[place]
        if not task.cancelled():
            task.exception()  # nobody may be waiting for it any more

    def _read(self, key: str) -> T | None:
        assert self._path is not None
        try:
            with closing(_open(self._path)) as file:
                row = file.execute(self._table.read, (key,)).fetchone()
            return None if row is None else self._table.value(row)
        except (sqlite3.Error, ValueError) as error:
            log.warning("The %s in %s cannot be read: %s.", self._table.name, self._path, error)
            return None

    def _write(self, key: str, value: T) -> None:
        assert self._path is not None
        try:
            with closing(_open(self._path)) as file, file:
                file.execute(self._table.written, (key, *self._table.row(value)))
        except sqlite3.Error as error:
            log.warning("Of the %s one cannot be written to %s: %s.", self._table.name, self._path, error)

    def _create(self, path: Path) -> None:
        name = self._table.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_open(path)) as file, file:
                file.execute(self._table.made)
                file.execute(self._table.read, ("",))
        except (sqlite3.Error, OSError) as error:
            raise JudgeError(
                f"{name.capitalize()} cannot be kept in {path}: {error}.",
                f"Delete it, or name another file; {name} are asked for again.",
            ) from error


def _key(*content: str) -> str:
    """A hash that no two contents share: their borders count."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _open(path: Path) -> sqlite3.Connection:
    """A connection of this moment: it serves any thread, and a killed process leaves none behind."""
    return sqlite3.connect(path, timeout=_BUSY_SECONDS)
