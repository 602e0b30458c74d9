"""The files of recorded runs: `runs.db`, `blobs/`, and a lock file for each process that records.

Deleting is a promise: of a deleted run no byte is left. `secure_delete` alone does not keep it, since SQLite
copies rows when it splits and joins pages, and leaves the copies in the unused part of a page. So rows of
`events` are only ever appended, which copies none, and those of deleted runs are overwritten in place by as
many zeros; `vacuum` removes them when there are many. The short table `runs` is written anew.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from vrag.errors import REPAIR_COMMAND, RunError
from vrag.storage.blobs import BlobStore
from vrag.storage.database import Database, Schema
from vrag.storage.rescue import is_rescue_interrupted
from vrag.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.storage.connection import Connection

if sys.platform != "win32":
    import fcntl

DATABASE, BLOBS, RECORDING = "runs.db", "blobs", "recording"
"""The database, the folder of files that events name by hash, and the folder of lock files."""
LOCK_PROBE_SECONDS = 0.2
"""Timeout of a lock probe on Windows, where probing takes the lock briefly: for less than this."""
WAIT_SECONDS = 30.0
"""Longest wait for other processes that write."""
_MIN_LOCK_AGE_SECONDS = 60.0
"""Age from which a lock file that nobody holds is left over: it is made a moment before it is held."""
_CHECKPOINT_SECONDS = 5.0
"""Longest wait for readers of an earlier state, which keep the log from being emptied."""
_MIN_VACUUM_BYTES = 16 * 2**20
"""Bytes of overwritten events from which the database is made smaller, if they are half of it."""
_RECORDS = 0x76726172
"""Number of databases of runs: "vrar"."""
_TABLES = """
-- What lists show of each run.
CREATE TABLE runs(
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
    id TEXT NOT NULL UNIQUE,
    recorder TEXT NOT NULL,                   -- lock file of the process that records it; empty if none does
    owner TEXT NOT NULL,
    via TEXT NOT NULL,
    title TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    events INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,         -- of its events
    session TEXT NOT NULL DEFAULT '',         -- first run of its conversation; empty for that run itself
    question TEXT NOT NULL DEFAULT '',
    agent TEXT NOT NULL DEFAULT '',
    collection TEXT NOT NULL DEFAULT '',
    answer TEXT,
    stop_reason TEXT,                         -- null as long as it has no end
    outcome TEXT                              -- answered or failed
) STRICT;
CREATE INDEX runs_by_session ON runs(session) WHERE session != '';
CREATE INDEX runs_by_owner ON runs(owner, via, pinned);

-- The events of all runs, in the order in which they were recorded.
CREATE TABLE events(
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    type TEXT NOT NULL,
    data BLOB NOT NULL                        -- JSON
) STRICT;
CREATE INDEX events_by_run ON events(run, type);

-- The blobs that a run has: pictures (jpg) and messages (json).
CREATE TABLE files(
    run INTEGER NOT NULL,
    blob TEXT NOT NULL,
    kind TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (run, blob, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX files_by_blob ON files(blob);

-- Blobs of deleted runs that may still be there, if a process died over it.
CREATE TABLE erasures(
    blob TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Number of bytes of events that were overwritten.
CREATE TABLE dead_bytes(
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO dead_bytes VALUES (0);
"""
SCHEMA = Schema(_RECORDS, (_TABLES,), "store of runs")


class RunDatabase:
    """The files of a directory of runs. May be shared by threads."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self.directory, self.durable = directory, durable
        self.path = directory / DATABASE
        self.blobs = BlobStore(directory / BLOBS, durable=durable)
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._inode: tuple[int, int] | None = None

    def find(self) -> Database | None:
        """Return the database; None if nothing was recorded yet. Raises `RunError` if it is damaged."""
        with self._lock:
            inode = self._read_inode()
            if self._database is None or inode != self._inode:  # or it was restored, or moved away
                self._database = None
                if inode is None and is_rescue_interrupted(self.path):
                    raise RunError(f"A repair of {self.directory} was interrupted.", f"Run: {REPAIR_COMMAND}")
                if inode is not None:
                    self._database = Database.open(
                        self.path, SCHEMA, self.writer_lock, RunError, durable=self.durable
                    )
                self._inode = inode
            return self._database

    def select(self, clauses: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none if nothing was recorded yet."""
        if (database := self.find()) is None:
            return []
        with database.read() as connection:
            return connection.execute(f"SELECT {clauses}", tuple(parameters)).fetchall()

    def create(self) -> Database:
        """Return the database, which is created if there is none. Raises `RunError` if it cannot be."""
        if (found := self.find()) is not None:
            return found
        with self._lock:
            self._database = Database.create(
                self.path, SCHEMA, self.writer_lock, RunError, durable=self.durable
            )
            self._inode = self._read_inode()
            return self._database

    def open_blobs(self) -> BlobStore:
        """Return the blobs for one thread, which waits for nothing but its own."""
        return BlobStore(self.directory / BLOBS, durable=self.durable)

    def check_place(self) -> None:
        """Raise `RunError` if the file was replaced since it was opened: what is written would be lost."""
        if self._read_inode() != self._inode:
            raise RunError(f"{self.path} was moved or replaced meanwhile.", "Try again.")

    @property
    def writer_lock(self) -> WriterLock:
        """The lock of a commit."""
        return WriterLock(self.directory, WAIT_SECONDS, _busy)

    def recorder_path(self, recorder: str) -> Path:
        """Return the lock file of a process that records."""
        return self.directory / RECORDING / recorder

    def is_recorded(self, recorder: str) -> bool:
        """Return whether the process that held a lock file still does."""
        return bool(recorder) and is_held(self.recorder_path(recorder))

    def sweep(self) -> None:
        """Remove what killed processes left: lock files, blobs of deleted runs, blobs that no run names.

        Nothing is done where this process may not write.
        """
        database = self.find()
        if database is None or not os.access(self.directory, os.W_OK):
            return
        for path in self._recorders():
            with suppress(OSError):
                is_old = path.stat().st_mtime < time.time() - _MIN_LOCK_AGE_SECONDS
                if is_old and not is_held(path):
                    path.unlink()
        self.erase()
        with database.lock(), database.explain("cleaned up"):
            self.blobs.collect(self.named_blobs(database))

    def erase(self) -> None:
        """Delete the blobs of deleted runs that no other run has, and empty the log."""
        if (database := self.find()) is None:
            return
        with database.read() as connection:
            (waiting,) = connection.execute("SELECT count(*) FROM erasures").fetchone()
        if waiting:
            with database.lock(), database.explain("written"):
                stray = "SELECT blob FROM erasures WHERE blob NOT IN (SELECT blob FROM files)"
                with database.read() as connection:
                    names = [name for (name,) in connection.execute(stray)]
                self.blobs.delete(names)
            with database.write() as connection:
                connection.executemany("DELETE FROM erasures WHERE blob = ?", [(name,) for name in names])
                connection.execute("DELETE FROM erasures WHERE blob IN (SELECT blob FROM files)")
        end = time.monotonic() + _CHECKPOINT_SECONDS
        while not database.checkpoint() and time.monotonic() < end:
            time.sleep(0.02)

    def vacuum_if_needed(self) -> None:
        """Make the database smaller if overwritten events are half of it."""
        if (database := self.find()) is None:
            return
        with database.read() as connection:
            (dead,) = connection.execute("SELECT bytes FROM dead_bytes").fetchone()
        if dead > _MIN_VACUUM_BYTES and dead > self.path.stat().st_size / 2:
            with database.write() as connection:
                connection.execute("DELETE FROM events WHERE run NOT IN (SELECT number FROM runs)")
                connection.execute("UPDATE dead_bytes SET bytes = 0")
            database.vacuum()

    def named_blobs(self, database: Database) -> set[str]:
        """Return the names of all blobs that runs have."""
        with database.read() as connection:
            return {name for (name,) in connection.execute("SELECT DISTINCT blob FROM files")}

    def is_recording(self) -> bool:
        """Return whether some process records now."""
        return any(map(is_held, self._recorders()))

    def _recorders(self) -> list[Path]:
        try:
            return list((self.directory / RECORDING).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _read_inode(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}.") from error
        return (stat.st_dev, stat.st_ino) if stat.st_size else None


def delete_rows(connection: Connection, numbers: list[int]) -> None:
    """Delete runs, by their numbers, so that nothing of their content is left in the pages.

    `RunDatabase.erase` deletes their blobs, after the commit.
    """
    rows = [(number,) for number in numbers]
    connection.executemany(
        "UPDATE dead_bytes SET bytes = bytes + (SELECT bytes FROM runs WHERE number = ?)", rows
    )
    overwrite = "UPDATE events SET data = zeroblob(length(data)) WHERE run = ?"
    connection.executemany(overwrite, rows)
    connection.executemany("INSERT OR IGNORE INTO erasures SELECT blob FROM files WHERE run = ?", rows)
    connection.executemany("DELETE FROM files WHERE run = ?", rows)
    gone = set(numbers)
    kept = [row for row in connection.execute("SELECT * FROM runs ORDER BY number") if row[0] not in gone]
    connection.execute("DELETE FROM runs")  # all of it: its pages are filled with zeros
    if kept:
        connection.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * len(kept[0]))})", kept)  # noqa: S608


def is_held(lock: Path) -> bool:
    """Return whether some process holds the `FileLock` of this path; False where there is no such file.

    Any number may ask at one time: where the operating system has shared locks, those who ask share one.
    """
    try:
        if sys.platform == "win32":
            if lock.exists():
                interval = LOCK_PROBE_SECONDS / 20
                probe = FileLock(lock, timeout=LOCK_PROBE_SECONDS, poll_interval=interval, is_singleton=False)
                with probe:
                    return False
        else:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (Timeout, BlockingIOError):
        return True
    except OSError:  # there is no file, or none that can be locked
        return False
    return False


def _busy(reason: str, wait: float) -> RunError:
    return RunError(reason, f"It did not finish within {wait:g} s. Try again later.")
