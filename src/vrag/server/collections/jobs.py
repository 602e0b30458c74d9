"""What becomes of uploaded files, as it is told to clients: written by one thread, read by others."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.corpus.converter import Converted, Failed, ItemCount
from vrag.index.embed_items import Embedded
from vrag.server.collections.schema import JobState, UploadJobInfo
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.index.embed_items import Made
    from vrag.index.plan import Known

__all__ = ["JobJournal", "UploadJob"]

_REPLACED = "Another file was uploaded under this name."
_OVER = frozenset({JobState.FINISHED, JobState.FAILED})
_KEPT = 1000
"""Jobs that are remembered of a collection after they have ended."""


@dataclass(eq=False)
class UploadJob:
    """An uploaded file on its way into the index."""

    collection: str
    path: Path
    document: str
    """Id of the document that it becomes."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: JobState = JobState.WAITING
    done: int = 0
    total: int | None = None
    message: str = "It waits for its turn."
    problems: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.state in _OVER

    def shown(self) -> UploadJobInfo:
        """As clients see it."""
        return UploadJobInfo(
            id=self.id,
            collection=self.collection,
            file=self.path.name,
            state=self.state,
            done=self.done,
            total=self.total,
            message=self.message,
            problems=list(self.problems),
            document=self.document,
        )

    def begin(self) -> None:
        """Its turn has come."""
        self.state, self.message = JobState.RUNNING, "It is being read."

    def wait(self, message: str = "It waits for its turn.") -> None:
        """It is put off."""
        self.state, self.done, self.total, self.message = JobState.WAITING, 0, None, message

    def note(self, made: Made) -> None:
        """Something came of it."""
        match made:
            case ItemCount(items=items):
                self.total = items
            case Converted() | Embedded() | Failed(ordinal=int()):
                self.done += 1
            case _:
                return
        of = "" if self.total is None else f" of {self.total}"
        self.message = f"{self.done}{of} done."

    def fail(self, reason: str) -> None:
        """Nothing comes of it."""
        self.problems = (reason,)
        self.message, self.state = reason, JobState.FAILED

    def replaced(self) -> None:
        """Its file is another one now."""
        self.fail(_REPLACED)

    def settle(self, row: Known | None) -> None:
        """Takes over what the manifest says of the file in the end.

        Args:
            row: None where it says nothing any more.
        """
        if row is None:
            self.fail("It was removed.")
        elif row.document.id != self.document:
            self.replaced()
        elif row.document.status is DocumentStatus.PENDING:
            self.fail("It was left unfinished; the next start of the server goes on.")
        elif not row.document.status.served:
            self.fail(row.document.reason)
        else:
            self.problems = (row.document.reason,) if row.document.reason else ()
            self.done = self.total = max(row.document.items, row.rows)
            missing = "; some could not be read" if self.problems else ""
            self.message = f"{row.rows} of {self.total} can be found{missing}."
            self.state = JobState.FINISHED


class JobJournal:
    """The tickets of one collection, the newest last; those that ended long ago are forgotten."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, UploadJob] = OrderedDict()

    def add(self, job: UploadJob) -> None:
        """Takes a ticket."""
        self._jobs[job.id] = job
        if len(self._jobs) > _KEPT:
            over = [known.id for known in self.all() if known.over]
            for id in over[: len(self._jobs) - _KEPT]:
                self._jobs.pop(id, None)

    def all(self) -> list[UploadJob]:
        """All of them, the oldest first."""
        return list(self._jobs.values())

    def get(self, id: str) -> UploadJob | None:
        """The ticket with this id, if it is remembered."""
        return self._jobs.get(id)
