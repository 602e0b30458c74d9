"""Recorded runs: the events and the files that they name by hash, in a database with its blobs.

Runs are only ever appended to. A process that dies in mid-run leaves a run without an end, with all events
that anybody was shown. `recorder` writes, `run_database` knows the files.
"""

from __future__ import annotations

import errno
import io
import json
import re
import secrets
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from vrag.agent.events import (
    OLDEST_SCHEMA_VERSION,
    SCHEMA_VERSION,
    AnswerGiven,
    Event,
    RunFailed,
    RunStarted,
    event_from_json,
)
from vrag.agent.question import MAX_OPENED, PreviousTurn, Question, QuestionImage, bounded
from vrag.agent.runs.recorder import Recorder, RunLog
from vrag.agent.runs.run_database import RunDatabase, delete_rows
from vrag.agent.runs.run_meta import RunMeta, Via
from vrag.agent.runs.run_result import OUTLINED, RunResult
from vrag.errors import CorpusError, RunError
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from vrag.storage.connection import Connection

_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f-]{1,40}")


class RunState(StrEnum):
    """The state of a run."""

    WAITING = "waiting"
    """A server holds it until others have ended."""
    RUNNING = "running"
    """Some process writes it."""
    FINISHED = "finished"
    """It has an end: an answer, a failure, or a stop from outside."""
    INTERRUPTED = "interrupted"
    """It has no end, and no process writes it any more: its process died."""


class RunRow(NamedTuple):
    """A row of a list of runs."""

    id: str
    recorder: str
    """The lock file of the process that writes it; empty if none does."""
    owner: str
    via: Via
    title: str
    pinned: bool
    shared: bool
    events: int
    """Number of its events."""
    bytes: int
    """Bytes of its events."""
    session: str
    """The first run of its conversation; empty for that run itself."""
    question: str
    agent: str
    collection: str
    """Empty for all."""
    answer: str | None
    stop_reason: str | None
    """Why it ended; None as long as it has no end."""
    outcome: str | None
    """`answered` or `failed`; None as long as it has no end."""

    @property
    def meta(self) -> RunMeta:
        """Its metadata."""
        return RunMeta(
            owner=self.owner, via=self.via, title=self.title, pinned=self.pinned, shared=self.shared
        )


class RunCount(NamedTuple):
    """The number of runs of an owner that came by an interface."""

    owner: str
    via: Via
    runs: int
    pinned: int
    """Number of those that are pinned."""


_COLUMNS = ", ".join(RunRow._fields)
_VIAS = {str(via): via for via in Via}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was recorded."""

    id: str
    store: RunStore
    events: tuple[Event, ...]

    @property
    def result(self) -> RunResult:
        """The fold of its events."""
        return RunResult.of(self.events)

    @property
    def has_end(self) -> bool:
        """True if its last event says how it ended."""
        return isinstance(self.events[-1], AnswerGiven | RunFailed)

    @property
    def started(self) -> RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def conversation(self) -> tuple[PreviousTurn, ...]:
        """The history of a question that follows on this run: its own, and the run itself."""
        started, result = self.started, self.result
        documents = tuple(dict.fromkeys(evidence.document_id for evidence in result.rests))
        return bounded((*started.history, PreviousTurn(started.question, result.answer, documents)))

    def read_file(self, sha256: str, suffix: str = "jpg") -> bytes:
        """Read the file of this hash. Raises `OSError`, also if it is damaged or no file of the run."""
        return self.store.read_file(self.id, sha256, suffix)

    def path(self, sha256: str) -> Path:
        """Return where the picture of this hash is, a JPEG file, for programs that read it."""
        return self.store.files.blobs.path(sha256)

    def read_question(self) -> Question:
        """Return the question as it was asked, with its history and its pictures.

        Raises `RunError` if a picture that came with it is missing from the files of the run, or is damaged.
        """
        started = self.started
        images = tuple(self._read_image(sha256) for sha256 in started.attached)
        return Question(started.question, started.history, images, started.session)

    def follow_up(self, text: str, images: Sequence[QuestionImage] = ()) -> Question:
        """Return a question that follows on this run, finished or not.

        It is given only the earlier questions and answers: pictures of earlier questions do not come again.
        Raises `ValueError` if there is no text.
        """
        session = self.started.session or self.id
        return Question.of(Question(text, self.conversation, tuple(images), session))

    def _read_image(self, sha256: str) -> QuestionImage:
        from vrag.corpus.formats.image import open_picture

        try:
            jpeg = self.read_file(sha256)
        except OSError as error:
            raise RunError(f"A picture of the run {self.id} cannot be read: {error.strerror}.") from error
        try:
            with open_picture(io.BytesIO(jpeg), MAX_OPENED) as image:
                return QuestionImage(jpeg, sha256, *image.size)
        except CorpusError as error:
            raise RunError(f"A picture of the run {self.id} cannot be shown. {error}") from error


@dataclass(frozen=True, slots=True)
class RunStore:
    """A directory of recorded runs, which need not exist."""

    directory: Path
    within: Path | None = None
    """The collection, when they lie in one: what is recorded goes to no other place when it is moved away."""
    durable: bool = True
    """True if an event is on the disk before anybody is shown it."""
    _recorder: Recorder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_recorder", Recorder.of(self.directory, durable=self.durable))

    @property
    def files(self) -> RunDatabase:
        """The database and its blobs."""
        return self._recorder.files

    @contextmanager
    def record(self, meta: RunMeta | None = None, run: str | None = None) -> Generator[RunLog]:
        """Open a new run, named by the time it began; raise `RunError` if the directory cannot be written.

        Its metadata is on the disk before it has events, so that no run is ever without its owner. `run` is
        the id of a run that was made elsewhere.
        """
        self.check_place()
        log = self._recorder.begin(run or new_run_id(), meta or RunMeta())
        try:
            yield log
        finally:
            log.close()

    def add(
        self, run: str, events: Sequence[Event], files: Mapping[str, bytes], meta: RunMeta | None = None
    ) -> None:
        """Write a whole run that was made elsewhere; it is on the disk when this returns.

        Raises `RunError` if there is a run of this id, or the disk refuses. Nothing of it is recorded then.
        """
        self.check_place()
        self._recorder.add(run, meta or RunMeta(), events, files)

    def ids(self) -> list[str]:
        """Return the ids of all runs, the newest first.

        Raises `RunError` if the collection that has them is gone.
        """
        return [id for (id,) in self._select("id FROM runs ORDER BY id DESC")]

    def rows(self, where: str = "", parameters: Sequence[Any] = (), limit: int = -1) -> list[RunRow]:
        """Return what lists show of all runs, or of those for which a condition in SQL holds, newest first.

        Raises `RunError` if the collection that has them is gone.
        """
        condition = f" WHERE {where}" if where else ""
        clauses = f"{_COLUMNS} FROM runs{condition} ORDER BY id DESC LIMIT ?"
        return list(map(_row_of, self._select(clauses, (*parameters, limit))))

    def counts(self) -> list[RunCount]:
        """Return the numbers of runs by owner and interface."""
        clauses = "owner, via, count(*), sum(pinned) FROM runs GROUP BY owner, via"
        return [RunCount(owner, _VIAS[via], *rest) for owner, via, *rest in self._select(clauses)]

    def row(self, run: str) -> RunRow | None:
        """Return what lists show of a run, by its whole id; None if there is no such run."""
        rows = self.rows("id = ?", [run])
        return rows[0] if rows else None

    def has_run(self, run: str) -> bool:
        """Return whether there is a run of this whole id."""
        return bool(self._select("1 FROM runs WHERE id = ?", [run]))

    def read(self, run: str) -> StoredRun:
        """Read a run by its id or by the unambiguous beginning of one; `last` is the newest.

        Raises `RunError` if there is no such run or it is damaged.
        """
        id = self.find(run)
        return StoredRun(id, self, tuple(self._read_events(id)))

    def settled(self, run: str) -> tuple[StoredRun, RunState]:
        """Read a run and its state consistently; the run is named as for `read`.

        Raises `RunError` if there is no such run or it is damaged.
        """
        stored = self.read(run)
        state = self.state(stored.id, ended=stored.has_end)
        if state is RunState.INTERRUPTED:  # or it came to its end just then
            stored = self.read(stored.id)
            state = RunState.FINISHED if stored.has_end else state
        return stored, state

    def outline(self, run: str) -> RunResult:
        """Return the result of a run without its steps, for lists; the run is named by its whole id.

        Raises `RunError` if there is no such run or it is damaged.
        """
        types = ", ".join(f"'{name}'" for name in sorted(OUTLINED))
        last = "SELECT max(number) FROM events WHERE run = (SELECT number FROM runs WHERE id = ?1)"
        return RunResult.of(
            self._read_events(self.find(run), f"AND (type IN ({types}) OR events.number = ({last}))")
        )

    def started(self, run: str) -> RunStarted:
        """Return how a run began, by its whole id.

        Raises `RunError` if there is no such run, or it has not begun.
        """
        first = self._read_events(self.find(run), "AND type = 'run_started'")[0]
        assert isinstance(first, RunStarted)
        return first

    def conversation(self, run: str) -> tuple[str, ...]:
        """Return the ids of the runs of a run's conversation, the first one first; the run by its whole id.

        Raises `RunError` if there is no such run.
        """
        row = self.row(self.find(run))
        first = row.session if row and row.session else run
        return tuple(
            id for (id,) in self._select("id FROM runs WHERE id = ?1 OR session = ?1 ORDER BY id", [first])
        )

    def meta(self, run: str) -> RunMeta:
        """Return the metadata of a run, by its whole id; the defaults if there is no such run."""
        row = self.row(run)
        return row.meta if row else RunMeta()

    def change_meta(self, run: str, **changes: str | bool) -> RunMeta:
        """Change fields of the metadata of a run, by its whole id, and return all of it.

        Raises `RunError` if there is no such run, or it cannot be written.
        """
        id = self.find(run)
        names = [name for name in changes if name in RunMeta.model_fields]
        values = [changes[name] for name in names]
        columns = ", ".join(f"{name} = ?" for name in names)

        with self.changing() as connection:
            if columns:
                connection.execute(f"UPDATE runs SET {columns} WHERE id = ?", (*values, id))  # noqa: S608
        return self.meta(id)

    @contextmanager
    def changing(self) -> Generator[Connection]:
        """Change the database in one commit. Raises `RunError` if it cannot be written."""
        self.check_place()
        with self._recorder.explain():
            database = self.files.create()
            with database.write() as connection:
                self.files.check_place()
                yield connection
        with suppress(RunError):  # another process is writing, and empties the log
            database.checkpoint(0)

    def delete(self, run: str) -> None:
        """Delete a run with its pictures, by its whole id. No byte of it is left when this returns.

        A process that dies meanwhile leaves either the run, or files of it that `sweep` removes. Raises
        `RunError` if there is no such run, some process writes it, or the disk refuses.
        """
        id = self.find(run)
        with self.changing() as connection:
            self.delete_all(connection, [id])
        self.erase()

    def delete_all(self, connection: Connection, runs: Iterable[str]) -> None:
        """Delete runs in a commit; `erase` is to follow it. Raises `RunError` if one is in progress."""
        numbers: list[int] = []
        for run in runs:
            statement = "SELECT number, recorder FROM runs WHERE id = ?"
            found = connection.execute(statement, (run,)).fetchone()
            if found is not None and self.files.is_recorded(found[1]):
                raise RunError(f"The run {run} is in progress.", "Stop it first.")
            if found is not None:
                numbers.append(found[0])
        delete_rows(connection, numbers)

    def erase(self) -> None:
        """Remove what deleted runs left: their files, and their events in the log."""
        with self._recorder.explain():
            self.files.erase()
            self.files.vacuum_if_needed()

    def sweep(self) -> None:
        """Remove what killed processes left of deleted runs, and of runs that were not written."""
        self.files.sweep()

    def file_names(self, run: str) -> list[str]:
        """Return the names of the files of a run, by its whole id: `<sha256>.jpg` and `<sha256>.json`."""
        clauses = (
            "blob, kind FROM files WHERE run = (SELECT number FROM runs WHERE id = ?) ORDER BY blob, kind"
        )
        return [f"{blob}.{kind}" for blob, kind in self._select(clauses, [run])]

    def measure_files(self, runs: Sequence[str], *, shared: bool = False) -> int:
        """Return the bytes of the files that only these runs have, by their whole ids; or of all."""
        chosen = "SELECT number FROM runs WHERE id IN (SELECT value FROM json_each(?))"
        condition = "max" if shared else "min"
        sizes = f"max(bytes) FROM files GROUP BY blob HAVING {condition}(run IN ({chosen}))"
        return sum(size for (size,) in self._select(sizes, [json.dumps(list(runs))]))

    def read_file(self, run: str, sha256: str, suffix: str = "jpg") -> bytes:
        """Read a file of a run, by its whole id. Raises `OSError` if the run has none, or it is damaged."""
        clauses = "1 FROM files WHERE run = (SELECT number FROM runs WHERE id = ?) AND blob = ? AND kind = ?"
        if not _HASH.fullmatch(sha256) or not self._select(clauses, [run, sha256, suffix]):
            raise FileNotFoundError(errno.ENOENT, "it is no file of the run", f"{sha256}.{suffix}")
        return self.files.blobs.read(sha256)

    def state(self, run: str, *, ended: bool) -> RunState:
        """Return whether a run is over."""
        if ended:
            return RunState.FINISHED
        row = self.row(run)
        return self.state_of(row) if row and not row.stop_reason else RunState.INTERRUPTED

    def state_of(self, row: RunRow) -> RunState:
        """Return the state of a run by what lists show of it."""
        if row.stop_reason is not None:
            return RunState.FINISHED
        return RunState.RUNNING if self.files.is_recorded(row.recorder) else RunState.INTERRUPTED

    def is_starting(self, run: str) -> bool:
        """Return whether some process writes a run, by its whole id, that has no event yet."""
        row = self.row(run)
        return row is not None and not row.events and self.files.is_recorded(row.recorder)

    def check_place(self) -> None:
        """Check that the collection with the runs exists; raise `RunError` if it is gone."""
        if self.within is not None and not self.within.is_dir():
            raise RunError(f"The collection {self.within} is gone.", "Move it back.")

    def _select(self, clauses: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none if nothing was recorded yet."""
        self.check_place()
        return self.files.select(clauses, parameters)

    def _read_events(self, run: str, condition: str = "") -> list[Event]:
        """Read the events of a run, or those for which a condition holds; the first is its start."""
        clauses = "data FROM events WHERE run = (SELECT number FROM runs WHERE id = ?1)"
        rows = self._select(f"{clauses} {condition} ORDER BY events.number", [run])
        if rows:
            _check_version(rows[0][0], run)
        events = [_read_event(data, number, run) for number, (data,) in enumerate(rows, 1)]
        if not events or not isinstance(events[0], RunStarted):
            raise self._without_events(run)
        return events

    def _without_events(self, run: str) -> RunError:
        if self.is_starting(run):
            return RunError(
                f"The run {run} is just starting: it has no events yet.", "Look again in a moment."
            )
        return RunError(
            f"The run {run} is empty: it ended before its first event.", "Ask the question again."
        )

    def find(self, run: str) -> str:
        """Return the id of a run by the unambiguous beginning of one; `last` is the newest.

        Raises `RunError` if there is no such run.
        """
        if run != "last" and not _ID.fullmatch(run):
            raise RunError(f"{run!r} is not the id of a run.", "See `vrag runs list`.")
        if run != "last" and self.has_run(run):
            return run
        ids = self.ids()
        if run == "last" and ids:
            return ids[0]
        matching = [name for name in ids if name.startswith(run)]
        if len(matching) != 1:
            count = "No run has" if not matching else f"{len(matching)} runs have"
            raise RunError(f"{count} an id that begins with {run!r}.", "See `vrag runs list`.")
        return matching[0]


def new_run_id(random_bytes: int = 2) -> str:
    """Make the id of a run; ids sort by the time at which runs began.

    Rollouts, of which hundreds begin at once, take more random bytes.
    """
    now = time.time()
    begun = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{begun}-{int(now % 1 * 1e6):06d}-{secrets.token_hex(random_bytes)}"


def _row_of(values: tuple[Any, ...]) -> RunRow:
    id, recorder, owner, via, title, pinned, shared, *rest = values
    return RunRow(id, recorder, owner, _VIAS[via], title, bool(pinned), bool(shared), *rest)


def _check_version(data: bytes, run: str) -> None:
    """Refuse a run of a layout of events that is not read; what is no event at all is left to the reader."""
    try:
        version = parse_json(data).get("schema_version", SCHEMA_VERSION)
    except (ValueError, AttributeError):
        return
    if isinstance(version, int) and OLDEST_SCHEMA_VERSION <= version <= SCHEMA_VERSION:
        return
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    raise RunError(
        f"The run {run} was written by {'a newer' if newer else 'an older'} version.",
        "Upgrade vrag to read it." if newer else "Ask the question again.",
    )


def _read_event(data: bytes, number: int, run: str) -> Event:
    try:
        return event_from_json(data)
    except ValidationError as error:
        raise RunError(
            f"Event {number} of the run {run} cannot be read: {error.errors()[0]['msg']}.",
            "It was written by another program. Ask again, and delete it: vrag runs delete.",
        ) from error
