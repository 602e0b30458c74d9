"""A database of SQLite: snapshots for readers, one writer at a time, a refusal where the file is damaged.

Opening is recovery: what a killed process has not committed is no part of the database, and what it has is.
Three things that SQLite leaves to its user are done here:

- Its write-ahead log is compared with its checksums before SQLite reads it (`wal`).
- A directory that may not be written to is read in place where SQLite can share the log's index with a
  writer; where there is no log, as a file that does not change, compared before and after; else from a
  copy. A reader sees what is committed, or is refused.
- The log is moved to the database by `checkpoint`, under the lock for writing, and then cut to nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import weakref
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import apsw

from vrag.atomic_io import make_directory, replace_file, sync
from vrag.errors import REPAIR_COMMAND, VragError, as_sentence, disk_advice
from vrag.scratch import scratch_directory
from vrag.storage.connection import BUSY_MILLISECONDS, Connection, connect, connect_copy, has_checksums
from vrag.storage.drives import ALLOWED, describe_network_drive
from vrag.storage.wal import describe_cut, describe_wal_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from vrag.storage.writer_lock import WriterLock

MAX_WAL_BYTES = 32 * 2**20
"""Size of the log from which it is moved to the database after a commit."""
_ATTEMPTS = 3
"""Copies of a database that changes meanwhile, before the reader is refused."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a kind of database."""

    application: int
    """Number that SQLite keeps in the file, by which another kind is refused."""
    steps: tuple[str, ...]
    """SQL that makes each version from the one before; the first makes version 1."""
    title: str
    """What the database holds, for messages: "collection"."""

    @property
    def version(self) -> int:
        """Number of the newest version."""
        return len(self.steps)

    @contextmanager
    def migrating(self, connection: Connection, version: int = 0) -> Generator[None]:
        """Bring tables of a version, 0 for none, to the newest one; the block is part of the same commit."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            for step in self.steps[version:]:
                for _ in connection.execute(step):
                    pass
            yield
            connection.pragma("application_id", self.application)
            connection.pragma("user_version", self.version)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


class _FileState(NamedTuple):
    """The parts of the status of the files of a database that change when anybody writes to it."""

    size: int
    mtime_ns: int
    inode: int
    wal_size: int
    wal_mtime_ns: int
    journal_size: int


class _DatabaseFile(NamedTuple):
    """The file that connections of this process open."""

    path: Path
    write: bool = False
    immutable: bool = False
    state: _FileState | None = None
    """State of the files of the database when they were found or copied; None if they are shared with
    writers."""
    inode: int = 0
    """The file itself, if it is shared with writers: a repair puts another in its place."""


_DATABASES: weakref.WeakSet[Database] = weakref.WeakSet()
"""All databases of this process."""
_DATABASES_LOCK = threading.Lock()


def open_databases() -> list[Database]:
    """Return the databases of this process, of which some may be closed."""
    with _DATABASES_LOCK:
        return list(_DATABASES)


class Database:
    """A database in a file. Shared by threads, each with a connection of its own, and its file by processes.

    All that reads or writes raises `error` where the file is damaged, gone or refused.
    """

    def __init__(
        self, path: Path, schema: Schema, lock: WriterLock, error: type[VragError], *, durable: bool = True
    ) -> None:
        """Without `durable`, a loss of power may undo the last commits, never a part of one."""
        self.path, self._durable = path, durable
        self._is_fixed = False
        """True for a file that nobody changes: nothing is written beside it."""
        self._is_read_only = False
        """True where nothing is to be written here, whether or not it could be."""
        self._schema, self._lock, self._error = schema, lock, error
        self._local = threading.local()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._key = os.path.realpath(path)
        """Path by which databases of this process are compared."""
        with _DATABASES_LOCK:
            _DATABASES.add(self)
        self._opening = threading.RLock()
        self._source: _DatabaseFile | None = None
        self._copy: Callable[[], object] | None = None
        """Removes the copy that is read, if one is."""
        self._generation = 0
        """Grows when another file is to be read: connections of an earlier one are not used any more."""

    @classmethod
    def create(
        cls,
        path: Path,
        schema: Schema,
        lock: WriterLock,
        error: type[VragError],
        *,
        durable: bool = True,
        fill: Callable[[Connection], object] = lambda _: None,
        mode: int = 0o666,
    ) -> Database:
        """Create the database, unless another process just did, and open it.

        It appears as a whole, with what `fill` writes to it. `mode` is that of a new file, less what the
        process takes away from all; the log has the same.
        """
        database = cls(path, schema, lock, error, durable=durable)
        with database.explain("created"):
            make_directory(path.parent)
            database._check_drive(path.parent)
            with lock.hold():
                if not path.is_file() or not path.stat().st_size:
                    database._create_file(fill, mode)
        return cls.open(path, schema, lock, error, durable=durable)

    @classmethod
    def open(
        cls,
        path: Path,
        schema: Schema,
        lock: WriterLock,
        error: type[VragError],
        *,
        durable: bool = True,
        fixed: bool = False,
        read_only: bool = False,
    ) -> Database:
        """Open a database that exists; bring it to the newest version where this process may write.

        `fixed` is for a file that nobody changes and that has no log, `read_only` for a look at one that
        others may write to: nothing is written beside it.
        """
        database = cls(path, schema, lock, error, durable=durable)
        database._is_fixed, database._is_read_only = fixed, read_only
        with database.explain("opened"):
            if not path.is_file() or not path.stat().st_size:
                raise error(f"There is no {schema.title} in {path.parent}.")
            connection = database._connect()
            version = int(connection.pragma("user_version") or 0)
            if read_only and 0 < version < schema.version:  # it is brought up to date first
                database._is_read_only = False
                database._forget()
                connection = database._connect()
            source = database._source
            if 0 < version < schema.version and source is not None and source.write:
                with (
                    lock.hold(),
                    schema.migrating(connection, int(connection.pragma("user_version") or 0)),
                ):
                    pass
        database._check_schema(connection)
        return database

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read one state, the newest at the start of the block; inside another one, the same as that."""
        with self.explain("read"):
            connection = self._connect()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:  # some failures end it
                    connection.execute("ROLLBACK")
            self._check_unchanged()

    @contextmanager
    def write(self, wait: float | None = None) -> Generator[Connection]:
        """Change the database in one commit, which is on the disk when the block ends; nothing if it fails.

        `wait` as for `WriterLock.hold`. Snapshots must not be open in this thread.
        """
        with self.explain("written"), self._lock.hold(wait):
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if self._wal_size() > MAX_WAL_BYTES:
                self._move_wal(connection)

    @contextmanager
    def lock(self, wait: float | None = None) -> Generator[None]:
        """Hold the lock for writing without a transaction, for what goes with the database."""
        with self.explain("locked"), self._lock.hold(wait):
            yield

    def copy(self, target: Path) -> None:
        """Copy the state that this thread reads to a new file, in one step; the caller syncs that.

        Equal states make equal files.
        """
        with (
            self.read() as source,
            self.explain("copied"),
            closing(connect_copy(target)) as copy,
            copy.backup("main", source, "main") as backup,
        ):
            backup.step()

    def checkpoint(self, wait: float | None = None) -> bool:
        """Move the log to the database and cut it to nothing; return whether that was done.

        It is not while somebody reads an older state, nor where this process may not write.
        """
        source = self._source
        if source is None or not source.write or not self._wal_size():
            return not self._wal_size()
        with self.explain("written"), self._lock.hold(wait):
            return self._move_wal(self._connect())

    def vacuum(self, wait: float | None = None) -> None:
        """Rewrite the file without the pages that are free, then empty the log."""
        with self.explain("written"), self._lock.hold(wait):
            connection = self._connect()
            for _ in connection.execute("VACUUM"):
                pass
            self._move_wal(connection)

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._opening:
            for connection in list(self._connections):
                connection.close()
                self._connections.discard(connection)
            self._forget()

    @property
    def is_open(self) -> bool:
        """True if a thread of this process has a connection to it."""
        return bool(self._connections)

    def finish(self) -> None:
        """Move the log to the database where that can be done at once, and close it. Nothing is raised."""
        with suppress(VragError):
            self.checkpoint(0)
        with suppress(apsw.Error):  # a thread that still reads
            self.close()

    def check(self) -> list[str]:
        """Return what is wrong with the file and its log, a sentence each: every page is read."""
        found: list[str] = []
        try:
            if not self._is_open_here():
                if damage := describe_wal_damage(self.path):
                    found.append(f"The log of {self.path.name} is damaged: {damage}.")
                elif damage := describe_cut(self.path):
                    found.append(f"{self.path.name} is cut off: {damage}.")
            connection = self._connect()
            connection.execute("PRAGMA shrink_memory")  # or pages that were read before are not read again
            for (line,) in connection.execute("PRAGMA integrity_check(100)"):
                if line != "ok":
                    found.append(as_sentence(line.removeprefix("*** in database main ***\n")))
        except apsw.Error as error:
            found.append(as_sentence(_describe(error)))
        except OSError as error:
            found.append(f"{self.path.name} cannot be read: {error.strerror or error}.")
        except VragError as error:
            found = found or [error.message]
        return list(dict.fromkeys(found))

    def _connect(self) -> Connection:
        """Return the connection of this thread to the file that is to be read."""
        known: tuple[int, int, Connection] | None = getattr(self._local, "connection", None)
        is_known = known is not None and known[:2] == (os.getpid(), self._generation)
        if known and is_known and known[2].in_transaction:
            return known[2]
        if self._source is not None and self._is_other(self._source):
            if not self.path.exists():
                raise self._error(f"The {self._schema.title} {self.path.parent} is gone.", "Move it back.")
            with self._opening:
                self._forget()
        elif known and is_known:
            return known[2]
        with self._opening:
            if self._source is None:
                self._source = self._find_source()
            connection = connect(
                self._source.path,
                write=self._source.write,
                immutable=self._source.immutable,
                durable=self._durable,
            )
            self._keep(connection)
        return connection

    def _is_other(self, source: _DatabaseFile) -> bool:
        """Return whether the file is not the one any more that was found: it was changed, or replaced."""
        if source.state is not None:
            return source.state != _state(self.path)
        return source.inode != _inode(self.path)

    def _keep(self, connection: Connection) -> None:
        self._local.connection = os.getpid(), self._generation, connection
        self._connections.add(connection)

    def _forget(self) -> None:
        self._source = None
        self._generation += 1
        if self._copy is not None:
            self._copy()
            self._copy = None

    def _find_source(self) -> _DatabaseFile:
        """Find how the file can be read here."""
        self._check_files(self.path)
        if self._is_fixed:
            return _DatabaseFile(self.path, immutable=True, state=_state(self.path))
        folder = self.path.parent
        self._check_drive(folder)
        if not self._is_read_only and os.access(folder, os.W_OK) and os.access(self.path, os.W_OK):
            return _DatabaseFile(self.path, write=True, inode=_inode(self.path))
        if _sibling(self.path, "-shm").exists():  # of a writer that is at work, or was
            with suppress(apsw.Error):
                connection = connect(self.path, write=False)
                try:
                    connection.pragma("user_version")
                finally:
                    connection.close()
                return _DatabaseFile(self.path, inode=_inode(self.path))
        for _ in range(_ATTEMPTS):
            state = _state(self.path)
            if not state.wal_size and not state.journal_size:
                return _DatabaseFile(self.path, immutable=True, state=state)
            if (copy := self._copy_files(state)) is not None:
                return _DatabaseFile(copy, write=True, state=state)
        raise self._error(f"{self.path} is being written to and cannot be read here.", "Try again later.")

    def _check_drive(self, folder: Path) -> None:
        """Refuse a network drive."""
        if kind := describe_network_drive(folder):
            raise self._error(
                f"{folder} is on a network drive ({kind}), on which SQLite's locks do not hold.",
                "Use a disk of this machine, and publish from there (vrag index publish URL). If no other "
                f"machine uses the directory, create the file {folder / ALLOWED}.",
            ) from OSError(errno.ENOTSUP, "a network drive")  # no damage

    def _copy_files(self, state: _FileState) -> Path | None:
        """Copy the database and its log; None if they changed meanwhile."""
        scratch = scratch_directory()
        directory = scratch.__enter__()
        self._copy = lambda: scratch.__exit__(None, None, None)
        target = directory / self.path.name
        for ending in ("", "-wal", "-journal"):
            if _sibling(self.path, ending).exists():
                shutil.copyfile(_sibling(self.path, ending), _sibling(target, ending))
        if _state(self.path) == state:
            return target
        self._copy()
        self._copy = None
        return None

    def _is_open_here(self) -> bool:
        """Return whether this process has a connection to the file.

        Its files must not be opened by other means then: closing one frees all locks of this process on it,
        and another process could cut off the log that is being read. https://sqlite.org/howtocorrupt.html
        """
        with _DATABASES_LOCK:
            databases = list(_DATABASES)
        return any(database.has_connections(self._key) for database in databases)

    def has_connections(self, key: str) -> bool:
        """Return whether this is a database in the file with this path, and has it open."""
        return bool(self._connections) and self._key == key

    def _check_files(self, path: Path) -> None:
        """Refuse a damaged log, and a file without checksums."""
        if self._is_open_here():  # it was checked when it was opened
            return
        if path.exists() and not has_checksums(path):
            raise self._error(
                f"{path} is no {self._schema.title} of this version of vrag, or damaged.", _REPAIR
            )
        if damage := describe_wal_damage(path):
            raise self._error(f"{path.parent} is damaged: of the log {path.name}-wal, {damage}.", _REPAIR)
        if path.exists() and (damage := describe_cut(path)):
            raise self._error(f"{path} is cut off: {damage}.", _REPAIR)

    def _check_schema(self, connection: Connection) -> None:
        with self.explain("read"):
            application = connection.pragma("application_id")
            version = int(connection.pragma("user_version") or 0)
        if not version:
            raise self._error(f"There is no {self._schema.title} in {self.path.parent}.")
        if application != self._schema.application:
            raise self._error(f"{self.path} is no {self._schema.title}.", "Choose another directory.")
        if version > self._schema.version:
            raise self._error(
                f"{self.path} was written by a newer version of vrag (layout {version}).",
                "Upgrade: pip install -U vrag-agent",
            )
        if version < self._schema.version:
            raise self._error(
                f"{self.path} was written by an earlier version of vrag (layout {version}).",
                "Open it once as a user who may write to it.",
            )

    def _create_file(self, fill: Callable[[Connection], object], mode: int) -> None:
        """Create the file under another name, and give it its own when it is complete. The lock is held."""
        new = self.path.with_name(f".{self.path.name}.new")
        for ending in ("", "-wal", "-shm"):
            _sibling(new, ending).unlink(missing_ok=True)
            _sibling(self.path, ending).unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        with closing(connect(new, write=True, durable=False)) as connection:
            with self._schema.migrating(connection):
                fill(connection)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        for ending in ("-wal", "-shm"):
            _sibling(new, ending).unlink(missing_ok=True)
        if self._durable:
            sync(new)
        replace_file(new, self.path)
        if self._durable:
            sync(self.path.parent)

    def _move_wal(self, connection: Connection) -> bool:
        """Move the log to the database. The caller holds the lock. What fails here is lost nowhere."""
        connection.set_busy_timeout(0)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.FullError, apsw.LockedError):
            with suppress(apsw.BusyError, apsw.FullError, apsw.LockedError):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return False
        finally:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
        return True

    def _wal_size(self) -> int:
        try:
            return _sibling(self.path, "-wal").stat().st_size
        except OSError:
            return 0

    def _check_unchanged(self) -> None:
        """Refuse what was read from a file that was believed not to change, and did."""
        source = self._source
        if source is not None and source.state is not None and source.state != _state(self.path):
            raise self._error(f"{self.path} changed while it was being read.", "Run the command again.")

    @contextmanager
    def explain(self, verb: str) -> Generator[None]:
        """Convert failures of SQLite and of the disk."""
        try:
            yield
        except apsw.Error as error:
            raise self._error(
                f"{self.path} could not be {verb}: {_describe(error)}.", _hint(error)
            ) from error
        except OSError as error:
            raise self._error(
                f"{self.path} could not be {verb}: {error.strerror or error}.", disk_advice(error)
            ) from error


_REPAIR = f"Run: {REPAIR_COMMAND}. If that cannot repair it, restore a backup: vrag index restore"


def _sibling(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _inode(path: Path) -> int:
    """Return which file has a path; 0 if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _state(path: Path) -> _FileState:
    def stat(ending: str) -> tuple[int, int, int]:
        try:
            found = _sibling(path, ending).stat()
        except OSError:
            return 0, 0, 0
        return found.st_size, found.st_mtime_ns, found.st_ino

    size, mtime, inode = stat("")
    wal_size, wal_mtime, _ = stat("-wal")
    return _FileState(size, mtime, inode, wal_size, wal_mtime, stat("-journal")[0])


def _describe(error: apsw.Error) -> str:
    """Return what SQLite says, or that a checksum does not match."""
    if _is_checksum_fault(error):
        return "the checksum of a page does not match"
    return str(error).rstrip(".") or type(error).__name__


def _is_checksum_fault(error: BaseException | None) -> bool:
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite failed because the file is damaged, not the disk or the permissions."""
    return isinstance(error, apsw.CorruptError | apsw.NotADBError) or _is_checksum_fault(error)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is that the disk is full."""
    if error is None:
        return False
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_full or isinstance(error, apsw.FullError) or is_disk_full(error.__cause__)


def _hint(error: apsw.Error) -> str:
    """Return what to do about a failure of SQLite."""
    match error:
        case apsw.FullError():
            return "Free some disk space and run the command again: it continues where it stopped."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return "Fix the permissions, or use another directory."
        case apsw.BusyError() | apsw.LockedError():
            return "Another process uses it. Run the command again."
        case apsw.IOError() if not _is_checksum_fault(error):
            return "Free some disk space or check the disk."
        case _:
            return _REPAIR
