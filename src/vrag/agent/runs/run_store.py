"""Runs on disk: one directory each, with the events and the files that they name by hash.

`<runs>/<id>/events.jsonl` holds one event a line, with a checksum, and is only ever appended to; `files/`
holds pictures (`<sha256>.jpg`) and messages (`<sha256>.json`); `meta.json` has the owner and the title;
`end.json` says what a finished run consists of. A process that dies in mid-run leaves a run without an end,
at worst with a torn last line, which reading leaves out. Whoever writes a run holds `lock` meanwhile: the
operating system frees it with the process, however that ends.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout
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
from vrag.agent.runs.event_lines import END, seal_line, unseal_line, unseal_lines
from vrag.agent.runs.run_meta import RunMeta, read_meta, write_meta
from vrag.agent.runs.run_result import OUTLINED, RunResult
from vrag.atomic_io import (
    Journal,
    atomic_file,
    make_directory,
    read_lines,
    sync,
    sync_files,
    write_whole,
)
from vrag.errors import REPAIR_COMMAND, CorpusError, RunError
from vrag.index.integrity.checksums import checksum
from vrag.index.integrity.sealed_json import Seal, seal_json
from vrag.parsing import parse_json

if sys.platform != "win32":
    import fcntl

log = logging.getLogger("vrag.agent")
EVENTS, FILES, LOCK = "events.jsonl", "files", "lock"
LOCK_PROBE_SECONDS = 0.2
"""Timeout of a lock probe on Windows, where probing takes the lock briefly: for less than this."""
META_LOCK = ".meta.lock"
"""Held while the metadata of a run is changed, so that of two changes at once none is lost."""
_DELETED = ".deleted"
"""End of the name of a directory that is being deleted. It begins with a dot: no run has such a name."""
_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f-]{1,40}")
_TYPE = re.compile(rb'\{"run_id":"[0-9a-f-]*","seq":\d+,"ts":[0-9.e+-]+,"step":\d+,"type":"([a-z_]+)"')
"""Prefix of a line that `RunLog` wrote."""


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    """Some process writes it."""
    FINISHED = "finished"
    """It has an end: an answer, a failure, or a stop from outside."""
    INTERRUPTED = "interrupted"
    """It has no end, and no process writes it any more: its process died."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it lies on disk."""

    id: str
    directory: Path
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

    def file(self, sha256: str, suffix: str = "jpg") -> Path:
        """Return the path of the file of this hash."""
        return self.directory / FILES / f"{sha256}.{suffix}"

    def read_file(self, sha256: str, suffix: str = "jpg") -> bytes:
        """Read the file of this hash. Raises `OSError`, also if it is damaged."""
        path = self.file(sha256, suffix)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise OSError(errno.EIO, "it is damaged; run: vrag index verify", os.fspath(path))
        return data

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
            jpeg = self.file(sha256).read_bytes() if _HASH.fullmatch(sha256) else b""
        except OSError as error:
            raise RunError(f"A picture of the run {self.id} cannot be read: {error.strerror}.") from error
        if hashlib.sha256(jpeg).hexdigest() != sha256:
            raise RunError(f"A picture of the run {self.id} is not the one that came with its question.")
        try:
            with open_picture(io.BytesIO(jpeg), MAX_OPENED) as image:
                return QuestionImage(jpeg, sha256, *image.size)
        except CorpusError as error:
            raise RunError(f"A picture of the run {self.id} cannot be shown. {error}") from error


@dataclass(frozen=True, slots=True)
class RunLog:
    """A run being written."""

    id: str
    directory: Path
    journal: Journal
    durable: bool
    """True if what is written is on the disk when `write` returns; False if it is in the files."""
    sums: dict[str, int] = field(default_factory=dict[str, int])
    """Checksums of the files that were saved, by name."""
    _unsynced: list[Path] = field(default_factory=list[Path])
    """Files that the next event may name."""

    def write(self, event: Event) -> None:
        """Append an event, once the files that were saved before are on the disk.

        Raises `RunError` if the disk refuses. Nothing of the event is in the file then.
        """
        with _writing(self.directory):
            if self._unsynced:
                paths, self._unsynced[:] = list(self._unsynced), ()
                sync_files(paths)
                sync(self.directory / FILES)
            self.journal.append(seal_line(event.model_dump_json().encode()))
        if isinstance(event, AnswerGiven | RunFailed):
            self._write_end()

    def _write_end(self) -> None:
        """Write what the run consists of; where the disk refuses, its events are complete without it."""
        try:
            size = (self.directory / EVENTS).stat().st_size
            write_whole(self.directory / END, seal_json({"bytes": size, "files": self.sums}))
        except OSError as error:
            log.warning("%s cannot be written: %s.", self.directory / END, error.strerror)

    def save(self, name: str, data: bytes) -> None:
        """Keep a file under its hash; a file that is there already is left alone."""
        self.sums[name] = checksum(data)
        target = self.directory / FILES / name
        if not target.exists():
            with _writing(self.directory), atomic_file(target, durable=False) as file:
                file.write(data)
            if self.durable:
                self._unsynced.append(target)

    def file(self, sha256: str) -> Path:
        """Return the path of the picture of this hash."""
        return self.directory / FILES / f"{sha256}.jpg"


@dataclass(frozen=True, slots=True)
class RunStore:
    """The directory of all runs of a collection."""

    directory: Path
    within: Path | None = None
    """The collection, when they lie in one: what is recorded goes to no other place when it is moved away."""
    durable: bool = True
    """True if an event is on the disk before anybody is shown it."""

    @contextmanager
    def record(self, meta: RunMeta | None = None, run: str | None = None) -> Generator[RunLog]:
        """Open a new run, named by the time it began; raise `RunError` if the directory cannot be written.

        Its metadata is on the disk before it has events, so that no run is ever without its owner. `run` is
        the id of a run that was made elsewhere.
        """
        self.check_place()
        run = run or new_run_id()
        directory = self.directory / run
        with ExitStack() as stack:
            with _writing(self.directory):
                make_directory(directory / FILES)
                # Before there are events: who finds the run finds it locked.
                stack.enter_context(FileLock(directory / LOCK, is_singleton=False))
                if meta is not None:
                    write_meta(directory, meta)
                journal = stack.enter_context(Journal(directory / EVENTS, durable=self.durable))
            yield RunLog(run, directory, journal, self.durable)

    def ids(self) -> list[str]:
        """Return the ids of all runs, the newest first.

        Raises `RunError` if the collection that has them is gone.
        """
        return sorted((run for run in self.stamps() if self.has_events(run)), reverse=True)

    def stamps(self) -> dict[str, int]:
        """Return the ids of all directories of runs, and when each last got or lost a file, in nanoseconds.

        Both the first event of a run and a change of its metadata set a new time. Raises `RunError` if the
        collection that has them is gone.
        """
        self.check_place()
        try:
            with os.scandir(self.directory) as entries:
                return {e.name: e.stat().st_mtime_ns for e in entries if not e.name.startswith(".")}
        except (FileNotFoundError, NotADirectoryError):  # no runs yet; or one was deleted just now
            return self.stamps() if self.directory.is_dir() else {}

    def has_events(self, run: str) -> bool:
        """Return whether there is a run of this whole id."""
        return (self.directory / run / EVENTS).is_file()

    def read(self, run: str) -> StoredRun:
        """Read a run by its id or by the unambiguous beginning of one; `last` is the newest.

        Raises `RunError` if there is no such run or its file is damaged.
        """
        directory = self.directory / self._resolve(run)
        lines = _read_lines(directory)
        events = tuple(_read_event(line, number, directory) for number, line in enumerate(lines, 1))
        if not events or not isinstance(events[0], RunStarted):
            raise self._without_events(directory.name)
        return StoredRun(directory.name, directory, events)

    def settled(self, run: str) -> tuple[StoredRun, RunState]:
        """Read a run and its state consistently; the run is named as for `read`.

        Raises `RunError` if there is no such run or its file is damaged.
        """
        stored = self.read(run)
        state = self.state(stored.id, ended=stored.has_end)
        if state is RunState.INTERRUPTED:  # or it came to its end just then
            stored = self.read(stored.id)
            state = RunState.FINISHED if stored.has_end else state
        return stored, state

    def outline(self, run: str) -> RunResult:
        """Return the result of a run without its steps, for lists; the run is named by its whole id.

        Raises `RunError` if there is no such run or its file is damaged.
        """
        directory = self.directory / self._resolve(run)
        lines = _read_lines(directory)
        if not lines:
            raise self._without_events(directory.name)
        relevant = (
            (number, line)
            for number, line in enumerate(lines, 1)
            if number in {1, len(lines)}
            or (begin := _TYPE.match(line)) is None
            or begin[1].decode() in OUTLINED
        )
        return RunResult.of(_read_event(line, number, directory) for number, line in relevant)

    def started(self, run: str) -> RunStarted:
        """Return how a run began, by its whole id.

        Raises `RunError` if there is no such run, or it has not begun.
        """
        directory = self.directory / self._resolve(run)
        with (directory / EVENTS).open("rb") as file:
            line = file.readline()
        data, seal = unseal_line(line.rstrip(b"\n"))
        _check_seal(seal, 1, directory)
        _check_version(data, directory)
        event = _read_event(data, 1, directory) if line.endswith(b"\n") else None
        if not isinstance(event, RunStarted):
            raise self._without_events(directory.name)
        return event

    def conversation(self, run: str) -> tuple[str, ...]:
        """Return the ids of the runs of a run's conversation, the first one first; the run by its whole id.

        Raises `RunError` if there is no such run, or it has not begun.
        """
        first = self.started(run).session or run
        later = (each for each in self.ids() if each > first and self._follows(each, first))
        return (*([first] if self.has_events(first) else []), *sorted(later))

    def _follows(self, run: str, first: str) -> bool:
        try:
            return self.started(run).session == first
        except (RunError, OSError):
            return False

    def meta(self, run: str) -> RunMeta:
        """Return the metadata of a run, by its whole id; the defaults if it has none."""
        return read_meta(self.directory / run)

    def change_meta(self, run: str, **changes: str | bool) -> RunMeta:
        """Change fields of the metadata of a run, by its whole id, and return all of it.

        Raises `RunError` if there is no such run, or it cannot be written.
        """
        directory = self.directory / self._resolve(run)
        with self.lock_metas():
            meta = self.meta(directory.name).model_copy(update=changes)
            write_meta(directory, meta)
            return meta

    @contextmanager
    def lock_metas(self) -> Generator[None]:
        """Keep others from changing metadata. Raises `RunError` if the directory cannot be written."""
        with _writing(self.directory), FileLock(self.directory / META_LOCK, is_singleton=False):
            yield

    def delete(self, run: str) -> None:
        """Delete a run with its pictures, by its whole id.

        It is gone at once: a process that dies meanwhile leaves a directory that is no run, and that `sweep`
        removes. Raises `RunError` if there is no such run, some process writes it, or the disk refuses.
        """
        directory = self.directory / run
        if not (_ID.fullmatch(run) and directory.is_dir()):  # one without events can be deleted too
            directory = self.directory / self._resolve(run)
        if is_held(directory / LOCK):
            raise RunError(f"The run {directory.name} is in progress.", "Stop it first.")
        with _writing(self.directory):
            directory.rename(self.directory / f".{directory.name}{_DELETED}")
            sync(self.directory)
        self.sweep()

    def sweep(self) -> None:
        """Remove what is left of deleted runs."""
        for directory in self.directory.glob(f".*{_DELETED}"):
            shutil.rmtree(directory, ignore_errors=True)

    def file(self, run: str, sha256: str) -> Path:
        """Return the path of the picture of this hash of a run, by its whole id."""
        return self.directory / run / FILES / f"{sha256}.jpg"

    def is_sound(self, run: str, sha256: str) -> bool:
        """Return whether a picture of a run, by its whole id, is as it was saved; also where it is gone."""
        try:
            with self.file(run, sha256).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except OSError:
            return True

    def length(self, run: str) -> int:
        """Return the size of the events of a run in bytes, by its whole id.

        Raises `OSError` if there is no such run.
        """
        return (self.directory / run / EVENTS).stat().st_size

    def state(self, run: str, *, ended: bool) -> RunState:
        """Return whether a run is over."""
        if ended:
            return RunState.FINISHED
        return RunState.RUNNING if is_held(self.directory / run / LOCK) else RunState.INTERRUPTED

    def is_starting(self, run: str) -> bool:
        """Return whether some process writes a run, by its whole id, that has no event yet."""
        try:
            with (self.directory / run / EVENTS).open("rb") as file:
                begun = file.readline().endswith(b"\n")
        except OSError:
            return False
        return not begun and is_held(self.directory / run / LOCK)

    def _without_events(self, run: str) -> RunError:
        if self.is_starting(run):
            return RunError(
                f"The run {run} is just starting: it has no events yet.", "Look again in a moment."
            )
        return RunError(
            f"The run {run} is empty: it ended before its first event.", "Ask the question again."
        )

    def check_place(self) -> None:
        """Check that the collection with the runs exists; raise `RunError` if it is gone."""
        if self.within is not None and not self.within.is_dir():
            raise RunError(f"The collection {self.within} is gone.", "Move it back.")

    def _resolve(self, run: str) -> str:
        if run != "last" and not _ID.fullmatch(run):
            raise RunError(f"{run!r} is not the id of a run.", "See `vrag runs list`.")
        if (self.directory / run / EVENTS).is_file():
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


@contextmanager
def _writing(directory: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Runs cannot be written to {directory}: {error.strerror}.",
            "Free some disk space or fix the permissions, or name another folder: VRAG_RUNS_DIR.",
        ) from error


def _read_lines(directory: Path) -> list[bytes]:
    """Return the JSON of the events of a run, without a torn last line; check it by its checksums."""
    lines = unseal_lines(read_lines(directory / EVENTS))
    for number, line in enumerate(lines, 1):
        _check_seal(line.seal, number, directory)
    if lines:
        _check_version(lines[0].data, directory)
    return [line.data for line in lines]


def _check_seal(seal: Seal, number: int, directory: Path) -> None:
    if seal is Seal.BROKEN:
        raise RunError(
            f"Line {number} of the run {directory.name} is damaged: its checksum does not match.",
            f"Run: {REPAIR_COMMAND}",
        )


def _check_version(line: bytes, directory: Path) -> None:
    """Refuse a run of a layout of events that is not read; what is no event at all is left to the reader."""
    try:
        version = parse_json(line).get("schema_version", SCHEMA_VERSION)
    except (ValueError, AttributeError):
        return
    if isinstance(version, int) and OLDEST_SCHEMA_VERSION <= version <= SCHEMA_VERSION:
        return
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    raise RunError(
        f"The run {directory.name} was written by {'a newer' if newer else 'an older'} version.",
        "Upgrade vrag to read it." if newer else "Ask the question again.",
    )


def _read_event(line: bytes, number: int, directory: Path) -> Event:
    try:
        return event_from_json(line)
    except ValidationError as error:
        raise RunError(
            f"Line {number} of the run {directory.name} is not an event: {error.errors()[0]['msg']}.",
            "It was damaged, or written by another program. Ask again, and delete its folder.",
        ) from error
