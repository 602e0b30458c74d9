"""A judge that is asked once about the same answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from vrag.agent.aside import aside
from vrag.errors import JudgeError
from vrag.reward.judge import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.reward.judge import IdentifiedJudge

__all__ = ["CachedJudge"]

_BUSY_SECONDS = 30.0
"""How long another process may be writing."""
_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
    key TEXT PRIMARY KEY, correct INTEGER NOT NULL, score REAL, why TEXT NOT NULL
) WITHOUT ROWID
"""
_HINT = "Delete it, or name another file; verdicts are asked for again."

_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, str]
"""A task belongs to its event loop."""

log = logging.getLogger("vrag.reward")


class CachedJudge:
    """Keeps verdicts by what they depend on: the judge's identity, question, reference and answer.

    Whoever asks for a verdict that is just being given waits for that one, so that the rollouts of a group
    that say the same cost one call. What failed is not kept. A verdict that cannot be written counts all the
    same, with a line in the log.

    Args:
        judge: Who is asked.
        path: An SQLite file in which verdicts outlive the process; None keeps them in memory. Processes may
            share it, and any of them may be killed: a verdict is in it whole or not at all.
        most: Verdicts in memory; the oldest go first.

    Raises:
        JudgeError: If the file cannot be used.
    """

    def __init__(self, judge: IdentifiedJudge, path: Path | None = None, *, most: int = 100_000) -> None:
        self._judge, self._path, self._most = judge, path, most
        self.identity = judge.identity
        self._known: dict[str, Verdict] = {}
        self._asked: dict[_Place, asyncio.Task[Verdict]] = {}
        self._lock = threading.Lock()
        if path is not None:
            _create(path)

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """The verdict that is kept, or a new one; see `Judge`.

        Raises:
            JudgeError: If there is none, and none can be had.
        """
        key = _key(self.identity, question, reference, answer)
        if (known := self._known.get(key)) is not None:
            return known
        place = asyncio.get_running_loop(), key
        task = self._asked.get(place)
        if task is None:
            task = asyncio.create_task(self._new(key, question, reference, answer))
            self._asked[place] = task
            task.add_done_callback(lambda done: self._done(place, done))
        return await asyncio.shield(task)  # others may be waiting for it, whoever is cancelled

    async def aclose(self) -> None:
        """Closes the judge that is asked; what is kept stays."""
        await self._judge.aclose()

    async def _new(self, key: str, question: str, reference: str, answer: str) -> Verdict:
        verdict = None if self._path is None else await aside(lambda: self._read(key))
        if verdict is None:
            verdict = await self._judge.judge(question, reference, answer)
            if self._path is not None:
                await aside(lambda: self._write(key, verdict))
        with self._lock:
            self._known[key] = verdict
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return verdict

    def _done(self, place: _Place, task: asyncio.Task[Verdict]) -> None:
        del self._asked[place]
        if not task.cancelled():
            task.exception()  # nobody may be waiting for it any more

    def _read(self, key: str) -> Verdict | None:
        assert self._path is not None
        try:
            with closing(_open(self._path)) as table:
                row = table.execute(
                    "SELECT correct, score, why FROM verdicts WHERE key = ?", (key,)
                ).fetchone()
        except sqlite3.Error as error:
            log.warning("The verdicts in %s cannot be read: %s.", self._path, error)
            return None
        return None if row is None else Verdict(bool(row[0]), row[1], row[2])

    def _write(self, key: str, verdict: Verdict) -> None:
        assert self._path is not None
        row = (key, int(verdict.correct), verdict.score, verdict.why)
        try:
            with closing(_open(self._path)) as table, table:
                table.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            log.warning("A verdict cannot be written to %s: %s.", self._path, error)


def _key(*content: str) -> str:
    """A hash that no two contents share: their borders count."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _open(path: Path) -> sqlite3.Connection:
    """A connection of this moment: it serves any thread, and a killed process leaves none behind."""
    return sqlite3.connect(path, timeout=_BUSY_SECONDS)


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(_open(path)) as table, table:
            table.execute(_TABLE)
            table.execute("SELECT key, correct, score, why FROM verdicts LIMIT 1")
    except (sqlite3.Error, OSError) as error:
        raise JudgeError(f"Verdicts cannot be kept in {path}: {error}.", _HINT) from error
