"""The verification of recorded runs: the pages of the database, the events of each run, and all files."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from vrag.agent.runs.run_database import SCHEMA, RunDatabase
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError
from vrag.index.integrity.problems import ProblemKind, VerifyProblem
from vrag.storage.rescue import DAMAGED, finish_rescue, is_rescue_interrupted, rescue_database
from vrag.storage.wal import describe_wal_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.index.integrity.problems import Progress
    from vrag.storage.connection import Connection

_ADVICE = (
    "It cannot be made again. Restore a backup (vrag index restore), or delete the run: vrag runs delete."
)
_EVENTS = 8
"""Place of the column `events` of `runs`."""


class RunReport(NamedTuple):
    """The result of a check of the runs of a store."""

    runs: int
    problems: tuple[VerifyProblem, ...]


def check_runs(store: RunStore, *, repair: bool = False, progress: Progress | None = None) -> RunReport:
    """Check all runs; with `repair`, make a new database of a damaged one, with all runs that can be read.

    The damaged one is kept beside it. Files cannot be made again; what killed processes left is deleted.
    Raises `RunError` if the collection is gone, or a repair cannot be made.
    """
    store.check_place()
    check = _RunCheck(store)
    path = check.files.path
    if repair and is_rescue_interrupted(path):
        with check.files.writer_lock.hold():
            finish_rescue(path)
    if not path.is_file() and not is_rescue_interrupted(path):
        return RunReport(0, ())
    problems = list(check.run(progress))
    if not repair or not problems:
        return RunReport(check.runs, tuple(problems))
    is_log_lost = check.is_refused and bool(describe_wal_damage(path))
    lost = _rescue(check.files) if check.is_damaged else []
    store.sweep()
    after = _RunCheck(store)
    left = {(problem.file, problem.detail) for problem in after.run(None)}
    found = [replace(problem, repaired=(problem.file, problem.detail) not in left) for problem in problems]
    found += map(after.describe_lost, lost)
    return RunReport(after.runs, (*found, *([after.describe_lost_log()] if is_log_lost else [])))


class _RunCheck:
    """The check of the runs of a store."""

    def __init__(self, store: RunStore) -> None:
        self.files, self._within = store.files, store.within
        self.runs = 0
        self.is_damaged = False
        self.is_refused = False
        """True if the database cannot be opened."""

    def run(self, progress: Progress | None) -> Iterator[VerifyProblem]:
        """Yield the problems."""
        found: list[str] = []
        try:
            if (database := self.files.find()) is not None:
                found = database.check()
        except RunError as error:
            database, found, self.is_refused = None, [error.message], True
        self.is_damaged = bool(found)
        for detail in found:
            advice = "Repair it (vrag index verify --repair), or restore a backup: vrag index restore"
            yield self._problem("runs", self.files.path, detail, advice=advice)
        if database is not None and not found:
            with database.read() as connection:
                yield from self._check_runs(connection)
                yield from self._check_files(connection, progress)

    def describe_lost(self, run: str) -> VerifyProblem:
        """Describe a run that a repair left out."""
        path = self.files.path
        advice = f"It is still in {path.name}{DAMAGED}. Restore a backup: vrag index restore"
        return self._problem(f"run {run}", path, "It could not be read and is left out.", advice=advice)

    def describe_lost_log(self) -> VerifyProblem:
        """Describe what a repair could not read of a damaged log."""
        path = self.files.path
        detail = f"Events that were recorded last are lost with the damaged part of {path.name}-wal."
        return self._problem("runs", path, detail, advice="Restore a backup, or ask again.")

    def _check_runs(self, connection: Connection) -> Iterator[VerifyProblem]:
        counted = "SELECT count(*) FROM events WHERE run = runs.number"
        for run, expected, events in connection.execute(
            f"SELECT id, events, ({counted}) FROM runs ORDER BY id"  # noqa: S608
        ).fetchall():
            self.runs += 1
            if events != expected:
                detail = f"It has {events} of {expected} events."
                yield self._problem(f"run {run}", self.files.path, detail)

    def _check_files(self, connection: Connection, progress: Progress | None) -> Iterator[VerifyProblem]:
        rows = connection.execute(
            "SELECT blob, min(kind), min(id), count(DISTINCT id) FROM files JOIN runs ON runs.number = run "
            "GROUP BY blob ORDER BY blob"
        ).fetchall()
        for done, (blob, kind, run, runs) in enumerate(rows, 1):
            for name in self.files.blobs.damaged([blob]):
                path = self.files.blobs.path(name)
                title = "A picture" if kind == "jpg" else "A message"
                more = f", and of {runs - 1} more," if runs > 1 else ""
                detail = f"{title} of it{more} is {'damaged' if path.exists() else 'missing'}."
                yield self._problem(f"run {run}", path, detail)
            if progress:
                progress(done, len(rows))
        if stray := self.files.blobs.count_stray({blob for blob, *_ in rows}):
            detail = f"{stray} files are named by no run: a killed process left them."
            blobs = self.files.directory / "blobs"
            yield self._problem("runs", blobs, detail, ProblemKind.LEFTOVER, advice="")

    def _problem(
        self,
        subject: str,
        path: Path,
        detail: str,
        kind: ProblemKind = ProblemKind.DAMAGE,
        advice: str = _ADVICE,
    ) -> VerifyProblem:
        within = Path(os.path.abspath(self._within)) if self._within else None  # noqa: PTH100 - links stay
        file = path.relative_to(within) if within and path.is_relative_to(within) else path
        return VerifyProblem("", subject, detail, kind, file.as_posix(), advice=advice)


def _rescue(files: RunDatabase) -> list[str]:
    """Replace a damaged database by one with all runs that can be read whole; return the others' ids."""
    if files.is_recording():
        raise RunError("Questions are being answered, so their runs cannot be repaired.", "Stop them first.")
    unreadable = RunError(
        f"{files.path} is damaged beyond repair: its list of runs, or every run, cannot be read.",
        "Restore a backup (vrag index restore), or move it away: new runs are recorded without it.",
    )

    def copy(damaged: Connection, connection: Connection) -> list[str]:
        lost, kept = _copy(damaged, connection)
        if lost and not kept:
            raise unreadable
        return lost

    with files.writer_lock.hold():
        return rescue_database(files.path, SCHEMA, copy, unreadable)


def _copy(source: Connection, rescued: Connection) -> tuple[list[str], int]:
    """Copy the runs that can be read whole; return the ids of the others, and the number of those."""
    rows = source.execute("SELECT * FROM runs ORDER BY number").fetchall()
    _insert(rescued, "events", _scan(source, "events", "number"))
    files = _scan(source, "files", "run, blob, kind")
    _insert(rescued, "files", files)
    counted = dict(rescued.execute("SELECT run, count(*) FROM events GROUP BY run").fetchall())
    whole = [row for row in rows if counted.get(row[0], 0) == row[_EVENTS] and not files.may_lack(row[0])]
    _insert(rescued, "runs", _Rows(whole))
    for table in ("events", "files"):  # of deleted runs, too
        rescued.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT number FROM runs)")  # noqa: S608
    return [row[1] for row in rows if row not in whole], len(whole)


class _Rows(NamedTuple):
    """The rows of a table that can be read."""

    values: list[tuple[Any, ...]]
    gap: tuple[float, float] | None = None
    """The runs of the rows beside those that cannot be read; None if all can."""

    def may_lack(self, run: int) -> bool:
        """Return whether rows of a run may be among those that cannot be read."""
        return self.gap is not None and self.gap[0] <= run <= self.gap[1]


def _scan(source: Connection, table: str, key: str) -> _Rows:
    """Read a table from both ends up to what cannot be read. `run` is a column of it."""
    rows: dict[str, list[tuple[Any, ...]]] = {"ASC": [], "DESC": []}
    for order, values in rows.items():
        by = ", ".join(f"{column} {order}" for column in key.split(", "))
        try:
            for row in source.execute(f"SELECT run, * FROM {table} NOT INDEXED ORDER BY {by}"):  # noqa: S608
                values.append(row)
        except apsw.Error:
            continue
        return _Rows([row[1:] for row in values])
    first, last = rows.values()
    gap = first[-1][0] if first else -math.inf, last[-1][0] if last else math.inf
    return _Rows([row[1:] for row in (*first, *reversed(last))], gap)


def _insert(rescued: Connection, table: str, rows: _Rows) -> None:
    if rows.values:
        marks = ", ".join("?" * len(rows.values[0]))
        rescued.executemany(f"INSERT INTO {table} VALUES ({marks})", rows.values)  # noqa: S608
