"""Jobs of a collection's index thread: uploads, as clients see them."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from vrag.corpus.converter import Converted, Failed, ItemCount
from vrag.index.embed_items import Embedded, Made
from vrag.index.manifest import Known
from vrag.server.collections.files import kind_of
from vrag.server.collections.registry import JOB_PATTERN, FrozenInfo
from vrag.types import DocumentStatus, ItemKind

WAITING = "Waiting in the queue."
"""The message of a job that waits for its turn."""
_MAX_FINISHED_JOBS = 1000
"""Finished jobs of a collection that are remembered."""


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
    """The progress of an uploaded file. Kept in memory: after a restart, see the documents."""

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
    """Uploads of a collection since the server started, the newest first."""

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

    def settle(self, row: Known | None) -> None:
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
    """The uploads of one collection, the newest last; those that ended long ago are forgotten."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, UploadJob] = OrderedDict()

    def add(self, job: UploadJob) -> None:
        """Add a job."""
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
