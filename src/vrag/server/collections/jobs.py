"""Jobs of a collection's index thread: uploads, as clients see them.

The files of uploads and the manifest are the truth about documents. The jobs themselves are in the server's
database from the moment an upload is accepted, so that one that a restart interrupts is never forgotten: it
is continued under its id, or ends with what to do.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from vrag.corpus.converter import Converted, Failed, ItemCount
from vrag.errors import ServerStateError
from vrag.index.schema import KnownFile
from vrag.index.vectors.embed_items import Embedded, Made
from vrag.server.collections.files import kind_of
from vrag.server.collections.registry import JOB_PATTERN, FrozenInfo
from vrag.server.state.database import ServerState
from vrag.types import DocumentStatus, ItemKind

if TYPE_CHECKING:
    from vrag.storage.connection import Connection

log = logging.getLogger("vrag.server")
WAITING = "Waiting in the queue."
"""The message of a job that waits for its turn."""
_MAX_FINISHED_JOBS = 1000
"""Finished jobs of a collection that are remembered."""
_MAX_AGE_SECONDS = 7 * 86_400.0
"""Age from which a finished job is forgotten at the next start."""


class JobState(StrEnum):
    """State of an upload."""

    WAITING = "waiting"
    """The file is stored and waits in the queue, also after a restart."""
    RUNNING = "running"
    """It is being indexed."""
    FINISHED = "finished"
    """It can be found, completely or in part; `problems` says what is missing."""
    FAILED = "failed"
    """It cannot be found; `problems` says why."""
    CANCELLED = "cancelled"
    """A client cancelled it; its file is deleted."""


class UploadJobInfo(FrozenInfo):
    """The progress of an uploaded file. A restart of the server continues it."""

    id: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    collection: str
    file: str = Field(description="The name under which the file is stored.")
    size: int = Field(ge=0, description="Size of the file in bytes.")
    state: JobState
    place: int | None = Field(
        default=None, ge=1, description="Its place in the queue while it waits: small files come first."
    )
    kind: ItemKind = Field(description="What `done` and `total` count.")
    done: int = Field(ge=0, description="Pages, clips or passages that are done.")
    total: int | None = Field(default=None, ge=0, description="Their total, once it is known.")
    message: str = Field(description="The state in one sentence.")
    problems: list[str] = Field(description="What could not be read, and why.")
    document: str | None = Field(default=None, description="Id of the document.")


class Jobs(FrozenInfo):
    """Uploads of a collection, the newest first."""

    jobs: list[UploadJobInfo]


@dataclass(eq=False)
class UploadJob:
    """An uploaded file on its way into the index. Written by one thread, read by others."""

    collection: str
    path: Path
    document: str
    """Id of the document that it becomes."""
    size: int
    """Bytes."""
    has_row: bool = False
    """True if the manifest may have a row of it."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: JobState = JobState.WAITING
    done: int = 0
    made: int = 0
    """Items of the present attempt to read it."""
    total: int | None = None
    message: str = WAITING
    problems: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """True if its state is final."""
        return self.state in {JobState.FINISHED, JobState.FAILED, JobState.CANCELLED}

    @property
    def file(self) -> str:
        """The name under which the file is stored."""
        return self.path.name

    @property
    def kind(self) -> ItemKind:
        """The kind of its items."""
        return kind_of(self.path.suffix.lower())

    def info(self, place: int | None = None) -> UploadJobInfo:
        """Describe it for clients; `place` is its place in the queue."""
        info = UploadJobInfo.model_validate(self, from_attributes=True)
        return info.model_copy(update={"place": place if info.state is JobState.WAITING else None})

    def begin(self, present: int) -> None:
        """Start it, unless it was; so many of its items are there from before."""
        if self.state is not JobState.RUNNING:
            self.state, self.message = JobState.RUNNING, "Reading the file."
            self._count(present)

    def wait(self, message: str = WAITING) -> None:
        """Put it back into the queue. What was counted stays: it was shown to people."""
        self.state, self.message = JobState.WAITING, message

    def note(self, made: Made) -> None:
        """Count an item that was made of it."""
        match made:
            case ItemCount(items=items):
                self.total = items
            case Converted() | Embedded() | Failed(ordinal=int()):
                self._count(self.made + 1)
            case _:
                return
        self.state = JobState.RUNNING
        if self.total is not None:
            self.message = f"{self.done:,} of {self._counted(self.total)} read."

    def _count(self, made: int) -> None:
        """Set the number of items that are made; `done` does not go back when a file is read again."""
        self.made = made
        self.done = max(self.done, made)

    def _counted(self, count: int) -> str:
        return f"{count:,} {self.kind}{'' if count == 1 else 's'}"

    def fail(self, reason: str) -> None:
        """End it without a result."""
        self.problems = (reason,)
        self.message, self.state = reason, JobState.FAILED

    def cancel(self) -> None:
        """End it because a client does not want it any more."""
        self.state, self.message = JobState.CANCELLED, "It was cancelled."

    def replaced(self) -> None:
        """End it because its file is another one now."""
        self.fail("Another file was uploaded under this name.")

    def settle(self, row: KnownFile | None) -> None:
        """End it as the manifest says; `row` is None where the manifest has no such file any more."""
        if row is None:
            self.fail("It was removed.")
        elif row.document.id != self.document:
            self.replaced()
        elif row.document.status is DocumentStatus.PENDING:
            self.fail("It was not completed; the server continues after its next start.")
        elif not row.document.status.served:
            self.fail(row.document.reason)
        else:
            self.problems = tuple(row.document.reason.splitlines())
            self.done = self.total = max(row.document.items, row.rows)
            self.message = f"Ready to ask: {self._counted(row.rows)}."
            if row.rows < self.total:
                self.message = f"{row.rows:,} of {self._counted(self.total)} are ready to ask."
            elif self.problems:
                self.message = f"Ready to ask, but not all of it: {self._counted(row.rows)}."
            self.state = JobState.FINISHED


class JobJournal:
    """The uploads to one folder, the newest last; those that ended long ago are forgotten."""

    def __init__(self, state: ServerState, collection: str, folder: Path) -> None:
        self._state, self._folder = state, os.fspath(folder.absolute())
        self._jobs: OrderedDict[str, UploadJob] = OrderedDict()
        self._saving = threading.Lock()
        self.interrupted: list[UploadJob] = []
        """Jobs that an earlier server accepted and did not end, until they are continued or ended."""
        for job in self._load(collection, folder):
            self._jobs[job.id] = job
            if not job.over:
                self.interrupted.append(job)

    def add(self, job: UploadJob) -> None:
        """Add a job, which `save` writes to the disk."""
        self._jobs[job.id] = job
        if len(self._jobs) > _MAX_FINISHED_JOBS:
            finished = [known.id for known in self.all() if known.over]
            for id in finished[: len(self._jobs) - _MAX_FINISHED_JOBS]:
                self._jobs.pop(id, None)

    def all(self) -> list[UploadJob]:
        """Return all jobs, the oldest first."""
        return list(self._jobs.values())

    def get(self, id: str) -> UploadJob | None:
        """Return a job by its id, if it is remembered."""
        return self._jobs.get(id)

    def continue_interrupted(self, path: Path, document: str) -> UploadJob | None:
        """Return the interrupted job of a file with this content, which is none any more."""
        for job in self.interrupted:
            if job.path == path and job.document == document:
                self.interrupted.remove(job)
                return job
        return None

    def save(self, *jobs: UploadJob) -> None:
        """Write the states of jobs to the disk. Blocks. Failures are logged: the files are there."""
        with self._saving:
            rows = [_row_of(job, self._folder) for job in jobs if job.state is not JobState.CANCELLED]
            if rows:
                self._write(lambda connection: connection.executemany(_SAVE, rows))

    def erase(self, jobs: Iterable[UploadJob]) -> None:
        """Delete jobs from the disk, with the names of their files; clients see them until the restart."""
        ids = [(job.id,) for job in jobs]
        with self._saving:
            if ids and self._write(lambda connection: connection.executemany(_DELETE, ids)):
                self._state.erase()

    def _load(self, collection: str, folder: Path) -> list[UploadJob]:
        """Read the jobs of earlier servers, and delete those that nobody will ask for."""
        try:
            rows = self._state.select(f"{_SELECT} WHERE folder = ? ORDER BY number", [self._folder])
        except ServerStateError as error:
            log.warning("The uploads of %s cannot be listed: %s", collection, error.message)
            return []
        jobs = [(_job_of(row, collection, folder), float(row[-1])) for row in rows]
        newest = {job.path: job for job, _ in jobs}
        since = time.time() - _MAX_AGE_SECONDS
        old = [job for job, changed in jobs if job.over and (changed < since or newest[job.path] is not job)]
        self.erase(old)
        return [job for job, _ in jobs if job not in old]

    def _write(self, change: Callable[[Connection], object]) -> bool:
        try:
            return self._state.write(change)
        except ServerStateError as error:
            log.warning("The state of an upload is not on the disk: %s", error.message)
            return False


def has_interrupted_jobs(state: ServerState, folder: Path) -> bool:
    """Return whether an earlier server accepted uploads to a folder and did not end them."""
    query = "SELECT 1 FROM jobs WHERE folder = ? AND state = ? LIMIT 1"
    try:
        return bool(state.select(query, [os.fspath(folder.absolute()), JobState.WAITING.value]))
    except ServerStateError:  # it was said
        return False


_COLUMNS = "id, file, document, size, state, done, total, message, problems, changed"
_SELECT = f"SELECT {_COLUMNS} FROM jobs"  # noqa: S608
_SAVE = f"""
INSERT INTO jobs(folder, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET
    state = excluded.state, done = excluded.done, total = excluded.total, message = excluded.message,
    problems = excluded.problems, changed = excluded.changed
WHERE jobs.state = 'waiting' -- what has ended stays ended
"""  # noqa: S608
_DELETE = "DELETE FROM jobs WHERE id = ?"


def _row_of(job: UploadJob, folder: str) -> tuple[Any, ...]:
    state, message = (job.state, job.message) if job.over else (JobState.WAITING, WAITING)
    return (
        folder, job.id, job.file, job.document, job.size, state.value, job.done, job.total, message,
        json.dumps(job.problems), time.time(),
    )  # fmt: skip


def _job_of(row: tuple[Any, ...], collection: str, folder: Path) -> UploadJob:
    id, file, document, size, state, done, total, message, problems, _ = row
    return UploadJob(
        collection,
        folder / file,
        document,
        size,
        has_row=True,
        id=id,
        state=JobState(state),
        done=done,
        total=total,
        message=message,
        problems=tuple(json.loads(problems)),
    )
