"""What is known of each case that was sampled, and where it lies.

::

    DIR/sampling.json    what they are made with; written first
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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.events import AnswerGiven, StopReason
from vrag.agent.runs.run_store import RunStore
from vrag.atomic_io import Journal, one_writer, read_lines, sync, write_lines
from vrag.errors import RunError, SampleError
from vrag.run_config import bind

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from pathlib import Path

    from vrag.agent.runs.run_store import StoredRun

__all__ = [
    "Begun",
    "ExpertUsage",
    "Records",
    "Sample",
    "SampleAttempt",
    "SampleOutcome",
    "SampleStore",
    "SampleWriter",
    "came_to_end",
]

M = TypeVar("M", bound=BaseModel)
MADE_WITH = "sampling.json"

_ENDS = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
"""Ends that are the experts' own; at the others a run breaks off."""


class SampleOutcome(StrEnum):
    """How a case ended."""

    SCORED = "scored"
    """It was answered, and the judge scored the answer."""
    FAILED = "failed"
    """Every attempt broke off; why stands with the attempts."""


class _FrozenSample(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SampleAttempt(_FrozenSample):
    """An attempt that came to nothing."""

    run: str
    """Id of its run."""
    reason: str


class ExpertUsage(_FrozenSample):
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


class Sample(_FrozenSample):
    """The record of a case."""

    uid: str
    query: str
    reference_answer: str
    outcome: SampleOutcome
    run: str | None = None
    """Id of the run with the answer, or of the last one."""
    score: int | None = Field(default=None, ge=1, le=5)
    """By the judge; None where the case failed."""
    why: str = ""
    """The judge's reason, or why the case failed."""
    attempts: tuple[SampleAttempt, ...] = ()
    """Those that came to nothing, in order."""
    experts: dict[str, ExpertUsage] = Field(default_factory=dict)
    """By role."""


class Begun(_FrozenSample):
    """An attempt begins; or, without a run, a failed case is to be tried afresh."""

    uid: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Records(Generic[M]):
    """A journal of records of one kind."""

    path: Path
    kind: type[M]

    def read(self) -> list[M]:
        """All of them.

        Raises:
            SampleError: If a line is damaged that is not the last, or the file cannot be read.
        """
        with _report_io(self.path, "read"):
            lines = read_lines(self.path, missing_ok=True)
        return [self._record(line, number) for number, line in enumerate(lines, 1)]

    def open(self) -> Journal:
        """Opens them for `append`; there may be one writer at a time.

        Raises:
            SampleError: If the disk refuses.
        """
        with _report_io(self.path):
            return Journal(self.path)

    def append(self, journal: Journal, record: M) -> None:
        """Adds one; it is on the disk when this returns.

        Raises:
            SampleError: If the disk refuses. Nothing of the record is in the file then.
        """
        with _report_io(self.path):
            journal.append(record.model_dump_json().encode())

    def rewrite(self, records: Iterable[M]) -> None:
        """Replaces all of them at once, while they are not open.

        Raises:
            SampleError: If the disk refuses.
        """
        with _report_io(self.path):
            write_lines(self.path, (record.model_dump_json().encode() for record in records))

    def _record(self, line: bytes, number: int) -> M:
        try:
            return self.kind.model_validate_json(line)
        except ValidationError as error:
            raise SampleError(
                f"Line {number} of {self.path} is damaged: {error.errors()[0]['msg']}.",
                "Take the line out; its case is then sampled again.",
            ) from error


@dataclass(frozen=True, slots=True)
class SampleStore:
    """The directory with all samples of a data set."""

    directory: Path

    @property
    def samples(self) -> Records[Sample]:
        """The records."""
        return Records(self.directory / "samples.jsonl", Sample)

    @property
    def attempts(self) -> Records[Begun]:
        """What began."""
        return Records(self.directory / "attempts.jsonl", Begun)

    @property
    def runs(self) -> RunStore:
        """The recorded runs."""
        return RunStore(self.directory / "runs")

    @contextmanager
    def writer(self, made_with: Mapping[str, Any]) -> Generator[SampleWriter]:
        """Opens it for sampling.

        Args:
            made_with: What must stay the same from one time to the next, as JSON values by name: see
                `Sampling.made_with`.

        Raises:
            SampleError: If what lies there was made with something else, another process samples there,
                something in it is damaged, or it cannot be written.
        """
        busy = SampleError(
            f"Another process samples in {self.directory}.", "Wait for it, or name another --out."
        )
        with ExitStack() as stack:
            with _report_io(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(one_writer(self.directory / "lock", busy))
                self._check_made_with(made_with)
            records, begun = self.samples.read(), self.attempts.read()
            writer = SampleWriter(self, self.samples.open(), self.attempts.open())
            stack.callback(writer.close)
            writer.records.update((record.uid, record) for record in records)
            for line in begun:
                writer.remember(line)
            yield writer

    def _check_made_with(self, made_with: Mapping[str, Any]) -> None:
        """Refuses to go on with other experts, say: what is selected later would be of both."""
        path = self.directory / MADE_WITH
        if not path.exists() and (self.samples.path.exists() or self.attempts.path.exists()):
            raise SampleError(
                f"The samples in {self.directory} do not say what they were made with.", "Name another --out."
            )
        try:
            changed = bind(path, {"schema_version": 1, **made_with})
        except ValueError as error:
            raise SampleError(f"{path} is damaged: {error}.", "Name another --out.") from error
        if changed:
            raise SampleError(
                f"The samples in {self.directory} were made with another {', '.join(changed)}.",
                "Go on with what they were made with, or name another --out.",
            )


@dataclass(slots=True)
class SampleWriter:
    """A store that is being written."""

    store: SampleStore
    done: Journal
    started: Journal
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
            self.store.samples.rewrite(self.records.values())
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


@contextmanager
def _report_io(path: Path, what: str = "written") -> Generator[None]:
    """Says what the disk refuses."""
    try:
        yield
    except OSError as error:
        told = f"{path} cannot be {what}: {error.strerror or error}."
        raise SampleError(told, "Make room or mend the rights, then go on.") from error
