"""Verdicts and other replies of models, asked for once: cached in memory, and in a file across processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from cachetools import FIFOCache

from vrag.background import run_in_thread
from vrag.errors import JudgeError
from vrag.reward.reward import IdentifiedJudge, Verdict

BUSY_SECONDS = 30.0
"""Time limit for waiting until another process has written."""
_TaskKey: TypeAlias = tuple[asyncio.AbstractEventLoop, str]
"""A task belongs to its event loop."""
T = TypeVar("T")
log = logging.getLogger("vrag.reward")


@dataclass(frozen=True, slots=True)
class VerdictTable(Generic[T]):
    """The SQLite table of a kind of values."""

    name: str
    """Name in the plural, for people too: `verdicts`."""
    columns: tuple[str, ...]
    """SQL column definitions, each beginning with the name."""
    row: Callable[[T], tuple[Any, ...]]
    """Convert a value to a row, in the order of the columns."""
    value: Callable[[tuple[Any, ...]], T]
    """Convert a row to a value. A ValueError means that the row holds nothing usable."""

    @property
    def create_sql(self) -> str:
        """SQL that creates the table."""
        columns = ", ".join(["key TEXT PRIMARY KEY", *self.columns])
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) WITHOUT ROWID"

    @property
    def select_sql(self) -> str:
        """SQL that finds the row of a key."""
        names = ", ".join(column.split()[0] for column in self.columns)
        return f"SELECT {names} FROM {self.name} WHERE key = ?"  # noqa: S608 - of constants

    @property
    def insert_sql(self) -> str:
        """SQL that writes a key and its row."""
        places = ", ".join("?" * (1 + len(self.columns)))
        return f"INSERT OR REPLACE INTO {self.name} VALUES ({places})"  # noqa: S608 - of constants


class VerdictCache(Generic[T]):
    """A cache of values by what they depend on.

    Callers that ask for a value that is just being made wait for that one. Failures are not cached. A value
    that cannot be written counts all the same, with a line in the log. Raises `JudgeError` if the file cannot
    be used.

    `path` is an SQLite file in which values outlive the process; None keeps them in memory. Processes may
    share it, and any of them may be killed: a value is in it whole or not at all. Other tables may be in it
    too. At most `most` values are in memory; the oldest go first.
    """

    def __init__(self, table: VerdictTable[T], path: Path | None = None, *, most: int = 100_000) -> None:
        self._table, self._path = table, path
        self._values: FIFOCache[str, T] = FIFOCache(most)
        self._tasks: dict[_TaskKey, asyncio.Task[T]] = {}
        self._lock = threading.Lock()
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as file, file:
                file.execute(table.create_sql)
                file.execute(table.select_sql, ("",))
        except (sqlite3.Error, OSError) as error:
            raise JudgeError(
                f"{table.name.capitalize()} cannot be cached in {path}: {error}.",
                f"Delete the file, or name another; {table.name} are asked for again.",
            ) from error

    async def value(self, content: tuple[str, ...], make: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value of what it depends on, or a new one; what `make` raises, this raises."""
        # No two contents have one key: their borders count.
        key = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        with self._lock:
            known = self._values.get(key)
        if known is not None:
            return known
        task_key = asyncio.get_running_loop(), key

        def forget(done: asyncio.Task[T]) -> None:
            del self._tasks[task_key]
            if not done.cancelled():
                done.exception()  # nobody may be waiting for it any more

        task = self._tasks.get(task_key)
        if task is None:
            task = asyncio.create_task(self._make(key, make))
            self._tasks[task_key] = task
            task.add_done_callback(forget)
        return await asyncio.shield(task)  # others may be waiting for it, whoever is cancelled

    async def _make(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        value = None if self._path is None else await run_in_thread(lambda: self._read(key))
        if value is None:
            value = await make()
            if self._path is not None:
                await run_in_thread(lambda: self._write(key, value))
        with self._lock:
            self._values[key] = value
        return value

    def _read(self, key: str) -> T | None:
        try:
            with closing(self._connect()) as file:
                row = file.execute(self._table.select_sql, (key,)).fetchone()
            return None if row is None else self._table.value(row)
        except (sqlite3.Error, ValueError) as error:
            log.warning("The %s in %s cannot be read: %s.", self._table.name, self._path, error)
            return None

    def _write(self, key: str, value: T) -> None:
        try:
            with closing(self._connect()) as file, file:
                file.execute(self._table.insert_sql, (key, *self._table.row(value)))
        except sqlite3.Error as error:
            log.warning("One of the %s cannot be written to %s: %s.", self._table.name, self._path, error)

    def _connect(self) -> sqlite3.Connection:
        """Open a short-lived connection: it serves any thread, and a killed process leaves none behind."""
        assert self._path is not None
        return sqlite3.connect(self._path, timeout=BUSY_SECONDS)


_VERDICTS = VerdictTable(
    "verdicts",
    ("correct INTEGER NOT NULL", "score REAL", "why TEXT NOT NULL"),
    row=lambda verdict: (int(verdict.correct), verdict.score, verdict.why),
    value=lambda row: Verdict(bool(row[0]), row[1], row[2]),
)


class CachedJudge:
    """A cache of verdicts by what they depend on: the judge's identity, question, reference and answer.

    The rollouts of a group that give the same answer cost one call; see `VerdictCache`. Raises `JudgeError`
    if the file cannot be used.

    Args:
        judge: The judge to ask.
        path: An SQLite file in which verdicts outlive the process; None keeps them in memory.
        most: Maximum of verdicts in memory; the oldest go first.
    """

    def __init__(self, judge: IdentifiedJudge, path: Path | None = None, *, most: int = 100_000) -> None:
        self._judge, self.identity = judge, judge.identity
        self._cache = VerdictCache(_VERDICTS, path, most=most)

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Return the cached verdict, or a new one; see `Judge`.

        Raises `JudgeError` if none is cached, and none can be had.
        """
        content = (self.identity, question, reference, answer)
        return await self._cache.value(content, lambda: self._judge.judge(question, reference, answer))

    async def aclose(self) -> None:
        """Close the judge; the cache stays."""
        await self._judge.aclose()
