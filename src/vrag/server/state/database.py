"""`server.db`, in the folder of a server's state.

Deleting is a promise: of a deleted session, upload or key no byte is left in the folder. Deleted rows are
overwritten, and `erase` empties the log, which has earlier copies of pages. The table with the key is small
and always written anew as a whole: SQLite leaves copies of rows where it splits and joins pages.

A server that cannot use its folder serves all the same: what it would keep there ends with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.atomic_io import make_directory, sync
from vrag.errors import ServerStateError
from vrag.storage.database import Database, Schema, is_damage
from vrag.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.storage.connection import Connection

T = TypeVar("T")
log = logging.getLogger("vrag.server")
DATABASE, DAMAGED = "server.db", "server.db.damaged"
"""The database, and the name that a damaged one gets."""
_WAIT_SECONDS = 10.0
"""Longest wait for another server on the same folder."""
_CHECKPOINT_SECONDS = 5.0
"""Longest wait for readers of an earlier state, which keep the log from being emptied."""
_SERVER = 0x76726173
"""Number of databases of servers: "vras"."""
_TABLES = """
-- Browsers that are signed in.
CREATE TABLE sessions(
    id BLOB PRIMARY KEY,            -- SHA-256 of the cookie
    token BLOB,                     -- SHA-256 of the token that opened it; null on a server without tokens
    began REAL NOT NULL,            -- seconds of the epoch
    used REAL NOT NULL              -- last use, to the minute
) STRICT, WITHOUT ROWID;

-- Uploads that were accepted.
CREATE TABLE jobs(
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of acceptance
    id TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL,           -- the folder of uploads in which the file lies
    file TEXT NOT NULL,
    document TEXT NOT NULL,         -- SHA-256 of the file
    size INTEGER NOT NULL,
    changed REAL NOT NULL,          -- seconds of the epoch
    state TEXT NOT NULL,            -- waiting, finished or failed
    done INTEGER NOT NULL,
    total INTEGER,
    message TEXT NOT NULL,
    problems TEXT NOT NULL          -- a list in JSON
) STRICT;
CREATE INDEX jobs_by_folder ON jobs(folder);

-- The model that was chosen on the page for all: one row, or none.
CREATE TABLE chosen_model(
    model TEXT NOT NULL,
    base_url TEXT NOT NULL,
    key TEXT NOT NULL,
    profile TEXT NOT NULL,
    thinking_switch TEXT NOT NULL
) STRICT;
"""
SCHEMA = Schema(_SERVER, (_TABLES,), "state of a server")


class ServerState:
    """The database of a server; without a folder nothing is kept. Used from several threads."""

    def __init__(self) -> None:
        self.problem = ""
        """What was wrong with the database at the start; empty if nothing was."""
        self._database: Database | None = None
        self._inode: tuple[int, int] | None = None
        self._fault: ServerStateError | None = None
        """Why nothing can be kept, though it should."""
        self._thread = ThreadPoolExecutor(1, "vrag-state")

    @classmethod
    def open(cls, folder: Path) -> ServerState:
        """Open the database in a folder, which is created; a damaged one is kept under another name.

        Raises `ServerStateError` if a newer version of vrag wrote it.
        """
        state, path = cls(), folder / DATABASE
        try:
            state._open(path)
        except ServerStateError as error:
            if not _is_damage(error):
                state._give_up(error)
            elif error.__cause__ is None and _is_newer(path):
                raise
            else:
                state._replace_damaged(path, error)
        return state

    def select(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none without a folder. Raises `ServerStateError`."""
        if self._database is None:
            return []
        with self._database.read() as connection:
            return connection.execute(query, tuple(parameters)).fetchall()

    def write(self, change: Callable[[Connection], object]) -> bool:
        """Commit a change; return False if there is no folder. Blocks. Raises `ServerStateError`."""
        if self._fault is not None:
            raise self._fault
        if self._database is None:
            return False
        if _read_inode(self._database.path) != self._inode:
            message = f"{self._database.path} was moved or replaced since the server was started."
            raise ServerStateError(message, "Restart the server.")
        with self._database.write() as connection:
            change(connection)
        return True

    def erase(self) -> None:
        """Empty the log, which has copies of what was deleted. Blocks.

        What fails is logged: the next start does it.
        """
        if self._database is None:
            return
        end = time.monotonic() + _CHECKPOINT_SECONDS
        try:
            while not (done := self._database.checkpoint()) and time.monotonic() < end:
                time.sleep(0.02)
        except ServerStateError as error:
            log.warning("%s", error.message)
            done = False
        if not done:
            log.warning("What was deleted from %s is erased at the next start.", self._database.path)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do work in the thread that writes, one after the other; at once where nothing is kept."""
        if self._database is not None:
            return self._thread.submit(work)
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised where the future is waited for
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Finish what was submitted, and close the database. Blocks."""
        self._thread.shutdown()
        if self._database is not None:
            with suppress(ServerStateError):
                self._database.checkpoint()
            self._database.close()

    def _open(self, path: Path) -> None:
        database = _open_database(path)
        with database.read() as connection:
            ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if found != "ok":
            raise ServerStateError(f"{path} is damaged: {found}.")
        self._database, self._inode = database, _read_inode(path)
        self.erase()  # what a killed server deleted last

    def _replace_damaged(self, path: Path, error: ServerStateError) -> None:
        try:
            _keep_damaged(path)
            self._open(path)
        except (ServerStateError, OSError) as failure:
            reason = failure.strerror if isinstance(failure, OSError) else failure
            self._give_up(ServerStateError(f"{error.message} It cannot be replaced: {reason}"))
            return
        self.problem = f"The server's database was damaged, and is kept as {DAMAGED}."
        log.warning("%s", error.message)
        log.warning(
            "The damaged file is kept as %s. Everybody has to sign in again; choose a model again under "
            "Settings. Uploads are continued.",
            path.with_name(DAMAGED),
        )

    def _give_up(self, error: ServerStateError) -> None:
        self._fault = error
        self.problem = "The state of the server cannot be kept. The server's log has the reason."
        log.warning("%s Sessions of browsers end with this server.", error)


def _open_database(path: Path) -> Database:
    """Open the database, which is created for the owner alone."""
    folder = path.parent
    try:
        make_directory(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync(folder.parent)
    except OSError as error:
        message = f"{path} cannot be opened: {error.strerror or error}."
        raise ServerStateError(message, "Free some disk space or fix the permissions.") from error
    lock = WriterLock(folder, _WAIT_SECONDS, _busy)
    return Database.create(path, SCHEMA, lock, ServerStateError, mode=0o600)


def _is_damage(error: ServerStateError) -> bool:
    """Return whether the file itself is wrong, not the disk or the permissions."""
    cause = error.__cause__
    return cause is None or is_damage(cause)  # None: `Database` found it, and not SQLite


def _is_newer(path: Path) -> bool:
    """Return whether a newer version of vrag wrote a database, by its header."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    application, version = int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big")
    return application == SCHEMA.application and version > SCHEMA.version


def _keep_damaged(path: Path) -> None:
    """Give a database and its log other names, in place of those kept before. Raises `OSError`."""
    found = _read_inode(path)
    with WriterLock(path.parent, _WAIT_SECONDS, _busy).hold():
        if _read_inode(path) != found:  # another server did it
            return
        for ending in ("-wal", ""):
            kept = path.with_name(DAMAGED + ending)
            kept.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                path.with_name(path.name + ending).replace(kept)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)


def _read_inode(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _busy(reason: str, wait: float) -> ServerStateError:
    return ServerStateError(reason, f"It did not finish within {wait:g} s. Try again later.")
