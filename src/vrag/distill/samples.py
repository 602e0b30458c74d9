"""What is known of each case that was sampled, and where it lies.

::

    DIR/samples.jsonl    one record per case, whole and final
    DIR/attempts.jsonl   one line per attempt that began: its case and its run
    DIR/runs/<id>/       each attempt, recorded as any run; all that comes after is made of these
    DIR/lock             held by the one process that samples

A record is written when its case is over, and its run is on the disk by then. A process that is killed
leaves attempts without a record: the next one takes up a run that came to its end, and makes the others
again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.events import AnswerGiven, StopReason
from vrag.agent.runs import RunStore
from vrag.distill.journal import Journal, sync
from vrag.errors import RunError, SampleError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from vrag.agent.runs import StoredRun

__all__ = ["Attempt", "Begun", "ExpertUsage", "Outcome", "Sample", "SampleDesk", "SampleStore", "came_to_end"]

_ENDS = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
"""Ends that are the experts' own; at the others a run breaks off."""


class Outcome(StrEnum):
    """How a case ended."""

    SCORED = "scored"
    """It was answered, and the judge scored the answer."""
    FAILED = "failed"
    """Every attempt broke off; why stands with the attempts."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Attempt(_Frozen):
    """An attempt that came to nothing."""

    run: str
    """Id of its run."""
    reason: str


class ExpertUsage(_Frozen):
    """What one expert was asked for a case; attempts of processes that were killed are not in it."""

    model: str
    calls: int = 0
    retries: int = 0
    """Calls that failed and were made again."""
    faults: int = 0
    """Replies that could not be used."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: float | None = None
    """In the currency of the prices; None where they are not known."""


class Sample(_Frozen):
    """The record of a case."""

    uid: str
    query: str
    reference_answer: str
    outcome: Outcome
    run: str | None = None
    """Id of the run with the answer, or of the last one."""
    score: int | None = Field(default=None, ge=1, le=5)
    """By the judge; None where the case failed."""
    why: str = ""
    """The judge's reason, or why the case failed."""
    attempts: tuple[Attempt, ...] = ()
    """Those that came to nothing, in order."""
    experts: dict[str, ExpertUsage] = Field(default_factory=dict)
    """By role."""


class Begun(_Frozen):
    """An attempt begins; or, without a run, a failed case is to be tried afresh."""

    uid: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class SampleStore:
    """The directory with all samples of a data set."""

    directory: Path

    @property
    def samples(self) -> Journal[Sample]:
        """The records."""
        return Journal(self.directory / "samples.jsonl", Sample)

    @property
    def attempts(self) -> Journal[Begun]:
        """What began."""
        return Journal(self.directory / "attempts.jsonl", Begun)

    @property
    def runs(self) -> RunStore:
        """The recorded runs."""
        return RunStore(self.directory / "runs")

    @contextmanager
    def desk(self) -> Generator[SampleDesk]:
        """Opens it for sampling.

        Raises:
            SampleError: If another process samples there, or something in it is damaged.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SampleError(f"{self.directory} cannot be made: {error.strerror}.") from error
        lock = FileLock(self.directory / "lock", timeout=0, is_singleton=False)
        try:
            lock.acquire()
        except Timeout:
            raise SampleError(
                f"Another process samples in {self.directory}.", "Wait for it, or name another --out."
            ) from None
        with ExitStack() as stack:
            stack.callback(lock.release)
            records, begun = self.samples.read(), self.attempts.read()
            desk = SampleDesk(self, self.samples.open(), self.attempts.open())
            stack.callback(desk.close)
            desk.records.update((record.uid, record) for record in records)
            for line in begun:
                desk.remember(line)
            yield desk


@dataclass(slots=True)
class SampleDesk:
    """A store that is being written."""

    store: SampleStore
    done: IO[bytes]
    started: IO[bytes]
    records: dict[str, Sample] = field(default_factory=dict[str, Sample])
    """By case: those that are over."""
    begun: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By case: runs that count, since it was last to be tried afresh."""
    earlier: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By case: runs before that."""

    def close(self) -> None:
        """Closes its files."""
        self.done.close()
        self.started.close()

    def remember(self, line: Begun) -> None:
        """Takes in a line of the attempts."""
        runs = self.begun.setdefault(line.uid, [])
        if line.run is not None:
            runs.append(line.run)
            return
        self.earlier.setdefault(line.uid, []).extend(runs)
        runs.clear()

    def begin(self, uid: str, run: str) -> None:
        """Says that an attempt begins, before anything is asked for it."""
        self._note(Begun(uid=uid, run=run))

    def finish(self, sample: Sample) -> None:
        """Says that a case is over.

        Raises:
            SampleError: If it was before, or the disk refuses.
        """
        if sample.uid in self.records:
            raise SampleError(f"The case {sample.uid!r} has a record already.")
        if sample.run is not None:
            self._settle(sample.run)
        self.store.samples.append(self.done, sample)
        self.records[sample.uid] = sample

    def afresh(self, uids: Iterable[str]) -> None:
        """Forgets the records of cases, so that they are tried again."""
        forgotten = set(uids) & self.records.keys()
        for uid in sorted(forgotten):
            self._note(Begun(uid=uid))
            del self.records[uid]
        if forgotten:
            self.done.close()
            self.store.samples.rewrite(list(self.records.values()))
            self.done = self.store.samples.open()

    def finished_run(self, uid: str) -> StoredRun | None:
        """The newest run of the case that came to its end and was not judged: it need not be made again."""
        for id in reversed([*self.earlier.get(uid, ()), *self.begun.get(uid, ())]):
            run = self.read(id)
            if run is not None and came_to_end(run):
                return run
        return None

    def read(self, run: str) -> StoredRun | None:
        """A run, if it came so far that it can be read."""
        try:
            return self.store.runs.read(run)
        except (RunError, OSError):
            return None

    def _note(self, line: Begun) -> None:
        self.store.attempts.append(self.started, line)
        self.remember(line)

    def _settle(self, run: str) -> None:
        """Puts a run on the disk: its record must not outlive it."""
        directory = self.store.runs.directory / run
        try:
            for file in (*directory.glob("files/*.*"), directory / "events.jsonl"):
                sync(file)
            sync(directory / "files")
        except OSError as error:
            raise SampleError(f"The run {run} cannot be kept: {error}.") from error


def came_to_end(run: StoredRun) -> bool:
    """Whether a run ended with an answer, or with the words that there is none."""
    end = run.events[-1]
    return isinstance(end, AnswerGiven) and end.stop_reason in _ENDS
