"""The writer of recorded runs: one thread for a directory in a process, whose commits many runs share.

An event is on the disk before anybody is shown it, and a commit waits for the disk. With a commit for each
event, runs wait for each other; with one thread, all that came meanwhile is one commit. The thread lives as
long as runs are recorded. It holds a lock file meanwhile, which the runs name: the operating system frees it
with the process, however that ends, so that an interrupted run is known.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet, WeakValueDictionary

from filelock import FileLock

from vrag.agent.events import AnswerGiven, Event, RunFailed, RunStarted
from vrag.agent.runs.run_database import RunDatabase
from vrag.agent.runs.run_meta import RunMeta
from vrag.atomic_io import make_directory
from vrag.errors import RunError, VragError

if TYPE_CHECKING:
    from vrag.storage.blobs import BlobStore
    from vrag.storage.connection import Connection

log = logging.getLogger("vrag.agent")
ANSWERED, FAILED = "answered", "failed"
"""How a run ended, in the column `outcome`."""
_EXIT_SECONDS = 10.0
"""Longest wait for the last commits when the process ends."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """A part of a commit."""

    work: Callable[[Connection], int]
    """Changes the database; or raises `RunError` before it has changed anything."""
    files: Mapping[str, bytes]
    """Files that it names, which are stored: `<sha256>.jpg` or `<sha256>.json`."""
    done: Future[int] = field(default_factory=Future[int])
    """Ends when the commit is on the disk."""


class Recorder:
    """The writer of a directory of runs. One for each directory in a process; shared by threads."""

    def __init__(self, files: RunDatabase) -> None:
        self.files = files
        self._changed = threading.Condition()
        self._queue: list[_Operation] = []
        self._runs = 0
        """Runs in progress in this process."""
        self._thread: threading.Thread | None = None
        self._lock: FileLock | None = None
        _recorders.add(self)

    @classmethod
    def of(cls, directory: Path, *, durable: bool = True) -> Recorder:
        """Return the recorder of a directory, which need not exist."""
        key = os.getpid(), Path(os.path.abspath(directory)), durable  # noqa: PTH100 - links stay
        with _opening:
            found = _opened.get(key)
            if found is None:
                found = _opened[key] = cls(RunDatabase(key[1], durable=durable))
            return found

    def begin(self, run: str, meta: RunMeta) -> RunLog:
        """Begin a run, which is on the disk when this returns; `RunLog.close` ends it.

        Raises `RunError` if there is a run with this id, or the directory cannot be written.
        """

        def work(connection: Connection) -> int:
            return _insert(connection, run, meta, self._hold_lock())

        operation = _Operation(work, {})
        with self._changed:
            self._runs += 1
            self._submit(operation)
        try:
            with self.explain():
                return RunLog(run, operation.done.result(), self)
        except BaseException:
            self._end_run()
            raise

    def add(self, run: str, meta: RunMeta, events: Sequence[Event], files: Mapping[str, bytes]) -> None:
        """Write a whole run in one commit. Raises `RunError` as `begin` and `RunLog.write` do."""

        def work(connection: Connection) -> int:
            number = _insert(connection, run, meta, "")
            append(connection, number, events, files)
            return number

        with self.explain():
            self.write(work, files).result()
            self._wait_for_rest()

    def write(self, work: Callable[[Connection], int], files: Mapping[str, bytes]) -> Future[int]:
        """Change the database with other changes in one commit, after files are stored; see `_Operation`.

        The files are put on the disk by the calling thread, so that nobody else waits for them.
        """
        self.store(files)
        return self.submit(work, files)

    def submit(self, work: Callable[[Connection], int], files: Mapping[str, bytes]) -> Future[int]:
        """Change the database as `write` does; the files are stored already."""
        operation = _Operation(work, files)
        with self._changed:
            self._submit(operation)
        return operation.done

    def store(self, files: Mapping[str, bytes]) -> None:
        """Put files on the disk. Raises `RunError` if the disk refuses."""
        if not files:
            return
        try:
            self._store(self.files.open_blobs(), files)
        except OSError as error:
            raise RunError(f"A file could not be written: {error.strerror or error}.") from error

    def _store(self, blobs: BlobStore, files: Mapping[str, bytes]) -> None:
        for data in files.values():
            blobs.put(data)
        blobs.sync()

    def end(self, number: int, files: Mapping[str, bytes]) -> None:
        """End a run, also one without an end. When this returns, it is no longer in progress."""

        def work(connection: Connection) -> int:
            _name_files(connection, number, files)
            connection.execute("UPDATE runs SET recorder = '' WHERE number = ? AND recorder != ''", (number,))
            return number

        try:
            self.write(work, files).result()
        except VragError as error:
            log.warning("The end of a run cannot be written: %s", error)
        finally:
            self._end_run()

    @contextmanager
    def explain(self) -> Generator[None]:
        """Say what to do about the directory where the disk refuses."""
        try:
            yield
        except RunError as error:
            if error.__cause__ is None:
                raise
            raise RunError(
                f"Runs cannot be written to {self.files.directory}: {error.message}",
                "Free some disk space or fix the permissions, or name another folder: VRAG_RUNS_DIR.",
            ) from error.__cause__

    def finish(self) -> None:
        """Wait for the last commits, when the process ends."""
        thread = self._thread
        if thread is not None and not self._runs:
            thread.join(_EXIT_SECONDS)

    def _submit(self, operation: _Operation) -> None:
        """Add an operation. The caller holds `_changed`."""
        self._queue.append(operation)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="vrag-recorder", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _end_run(self) -> None:
        with self._changed:
            self._runs -= 1
            self._changed.notify_all()
        self._wait_for_rest()

    def _wait_for_rest(self) -> None:
        """Wait until the log is in the database, unless other runs are in progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._runs or self._thread is None)

    def _work(self) -> None:
        try:
            self._commit_until_rest()
        finally:
            with self._changed:
                if self._thread is threading.current_thread():  # a fault; whoever waits learns of it
                    self._thread, operations, self._queue = None, self._queue, []
                    for operation in operations:
                        operation.done.set_exception(RunError("Runs cannot be written."))
                self._changed.notify_all()

    def _commit_until_rest(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or not self._runs)
                operations, self._queue = self._queue, []
            if operations:
                self._commit(operations)
                continue
            self._rest()
            with self._changed:
                if not self._queue and not self._runs:
                    self._thread = None
                    self._changed.notify_all()
                    return

    def _commit(self, operations: Sequence[_Operation]) -> None:
        """Make one commit of operations, and end their futures. One that is refused leaves the others."""
        results: list[int | RunError] = []
        try:
            database = self.files.create()
            files = {name: data for each in operations for name, data in each.files.items()}
            with database.write() as connection:
                self.files.check_place()
                if self.files.blobs.absent(name.partition(".")[0] for name in files):  # deleted meanwhile
                    self._store(self.files.blobs, files)
                results += [_carry_out(operation, connection) for operation in operations]
        except BaseException as error:  # noqa: BLE001 - each caller raises it
            results = [error if isinstance(error, RunError) else _fault(error)] * len(operations)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, RunError):
                operation.done.set_exception(result)
            else:
                operation.done.set_result(result)

    def _hold_lock(self) -> str:
        """Hold the lock file of this process; return its name. In the thread that writes."""
        if self._lock is None:
            path = self.files.recorder_path(f"{os.getpid()}-{secrets.token_hex(4)}")
            make_directory(path.parent)
            lock = FileLock(path, is_singleton=False)
            lock.acquire()
            self._lock = lock
        return Path(self._lock.lock_file).name

    def _rest(self) -> None:
        """Empty the log and free the lock file, when no run is in progress."""
        if self._lock is not None:
            self._lock.release()
            with suppress(OSError):
                Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock = None
        with suppress(VragError, OSError):
            if (database := self.files.find()) is not None:
                database.checkpoint(0)  # unless another process is writing


class RunLog:
    """A run being written. Made by `RunStore.record`."""

    def __init__(self, run: str, number: int, recorder: Recorder) -> None:
        self.id = run
        self._number, self._recorder = number, recorder
        self._files: dict[str, bytes] = {}
        """Files that the next event may name."""
        self._saved: set[str] = set()

    def write(self, event: Event) -> None:
        """Append an event, with the files that were saved before; both are on the disk when this returns.

        Raises `RunError` if the disk refuses. Nothing of the event is recorded then.
        """
        files = dict(self._files)
        with self._recorder.explain():
            self._recorder.store(files)
            self._submit(event, files).result()
        self._forget(files)

    async def awrite(self, event: Event) -> None:
        """Like `write`, without blocking the event loop: runs that wait at one time share a commit."""
        files = dict(self._files)
        with self._recorder.explain():
            if files:
                await asyncio.to_thread(self._recorder.store, files)
            await asyncio.shield(asyncio.wrap_future(self._submit(event, files)))
        self._forget(files)

    async def announce(self, started: RunStarted) -> None:
        """Write what lists show of a run that waits to begin; it is on the disk when this returns.

        Raises `RunError` if the disk refuses.
        """
        columns = _columns_of(started)

        def work(connection: Connection) -> int:
            changes = ", ".join(f"{name} = ?" for name in columns)
            statement = f"UPDATE runs SET {changes} WHERE number = ?"  # noqa: S608 - our own names
            connection.execute(statement, (*columns.values(), self._number))
            return self._number

        with self._recorder.explain():
            await asyncio.shield(asyncio.wrap_future(self._recorder.submit(work, {})))

    def save(self, name: str, data: bytes) -> None:
        """Keep a file, `<sha256>.jpg` or `<sha256>.json`, to be stored with the next event."""
        if name not in self._saved:
            self._saved.add(name)
            self._files[name] = data

    def close(self) -> None:
        """End the run: from now on it is not in progress, whether or not it has an end."""
        self._recorder.end(self._number, self._files)

    def _submit(self, event: Event, files: Mapping[str, bytes]) -> Future[int]:
        def work(connection: Connection) -> int:
            append(connection, self._number, [event], files)
            return self._number

        return self._recorder.submit(work, files)

    def _forget(self, files: Mapping[str, bytes]) -> None:
        for name in files:
            del self._files[name]


def append(connection: Connection, number: int, events: Sequence[Event], files: Mapping[str, bytes]) -> None:
    """Append events to a run, with the files that they name."""
    _name_files(connection, number, files)
    rows = [(number, event.type, event.model_dump_json().encode()) for event in events]
    connection.executemany("INSERT INTO events(run, type, data) VALUES (?, ?, ?)", rows)
    changes = {name: value for event in events for name, value in _columns_of(event).items()}
    columns = "".join(f", {name} = ?" for name in changes)
    connection.execute(
        f"UPDATE runs SET events = events + ?, bytes = bytes + ?{columns} WHERE number = ?",  # noqa: S608
        (len(rows), sum(len(data) for *_, data in rows), *changes.values(), number),
    )


def _insert(connection: Connection, run: str, meta: RunMeta, recorder: str) -> int:
    """Insert a run without events; return its number. Raises `RunError` if there is one with this id."""
    if connection.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone():
        raise RunError(f"There is a run {run} already.", "Delete it first: vrag runs delete.")
    connection.execute(
        "INSERT INTO runs(id, recorder, owner, via, title, pinned, shared) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (run, recorder, meta.owner, meta.via, meta.title, meta.pinned, meta.shared),
    )
    return connection.last_insert_rowid()


def _name_files(connection: Connection, number: int, files: Mapping[str, bytes]) -> None:
    rows = [(number, *name.split(".", 1), len(data)) for name, data in files.items()]
    if rows:
        statement = "INSERT OR IGNORE INTO files(run, blob, kind, bytes) VALUES (?, ?, ?, ?)"
        connection.executemany(statement, rows)


def _columns_of(event: Event) -> dict[str, str | None]:
    """Return the columns of a run that an event sets."""
    match event:
        case RunStarted():
            return {
                "session": event.session,
                "question": event.question,
                "agent": event.settings.agent,
                "collection": event.settings.environment.collection or "",
            }
        case AnswerGiven():
            changes = {"answer": event.text, "stop_reason": event.stop_reason, "outcome": ANSWERED}
        case RunFailed():
            changes = {"answer": None, "stop_reason": event.stop_reason, "outcome": FAILED}
        case _:
            return {}
    return {**changes, "recorder": ""}


def _carry_out(operation: _Operation, connection: Connection) -> int | RunError:
    try:
        return operation.work(connection)
    except RunError as error:
        return error


def _fault(error: BaseException) -> RunError:
    """Convert a failure that is no fault of the disk, so that whoever waits learns of it."""
    log.error("Runs cannot be written.", exc_info=error)
    return RunError(f"Runs cannot be written: {type(error).__name__}: {error}.")


_recorders: WeakSet[Recorder] = WeakSet()
_opened: WeakValueDictionary[tuple[int, Path, bool], Recorder] = WeakValueDictionary()
_opening = threading.Lock()


@atexit.register
def _finish_all() -> None:
    for recorder in list(_recorders):
        recorder.finish()
