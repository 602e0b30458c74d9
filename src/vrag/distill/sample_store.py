"""The samples of a data set on disk, one record per case.

::

    DIR/sampling.json    what they are made with; written first
    DIR/samples.jsonl    one record per case, whole and final
    DIR/attempts.jsonl   one line per attempt that began: its case and its run
    DIR/runs/<id>/       each attempt, recorded as any run; all that comes after is made of these
    DIR/lock             held by the one process that samples

A record is written when its case is over, and its run is on disk by then. A process that is killed leaves
attempts without a record: the next one resumes with a run that came to its end, and makes the others again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from vrag.agent.events import AnswerGiven, StopReason
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.atomic_io import Journal
from vrag.errors import RunError, SampleError
from vrag.rollouts.resumable_store import RecordFile, ResumableStore

COMPLETE = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
"""Ends of complete runs; at the others a run has failed."""


class SampleOutcome(StrEnum):
    """The outcome of a case."""

    SCORED = "scored"
    """It was answered, and the judge scored the answer."""
    FAILED = "failed"
    """Every attempt failed, with the reasons in `attempts`."""


class _FrozenSample(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SampleAttempt(_FrozenSample):
    """An attempt without a result."""

    run: str
    """Id of its run."""
    reason: str


class ExpertUsage(BaseModel):
    """The calls of one expert and their cost, without those of processes that were killed."""

    model_config = ConfigDict(extra="forbid")

    model: str
    calls: int = 0
    """Replies that came."""
    retries: int = 0
    """Calls that failed and were made again: refused for now, too late, interrupted."""
    faults: int = 0
    """Replies that could not be used."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: Annotated[float, PlainSerializer(lambda seconds: round(seconds, 3))] = 0.0
    """From calls to their replies, together."""
    cost: float | None = None
    """In the currency of the prices; None where they are not known."""

    def add(self, other: ExpertUsage) -> None:
        """Add the numbers of other calls."""
        self.calls += other.calls
        self.retries += other.retries
        self.faults += other.faults
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost


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
    cites_gold: bool | None = None
    """True if the answer cites a gold page; None without an answer, and for a case without gold pages."""
    attempts: tuple[SampleAttempt, ...] = ()
    """Those without a result, in order."""
    experts: dict[str, ExpertUsage] = Field(default_factory=dict)
    """By role."""


class StartedAttempt(_FrozenSample):
    """A started attempt; without a run, a failed case that is to be tried afresh."""

    uid: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class SampleStore:
    """The directory with all samples of a data set."""

    directory: Path

    @property
    def samples(self) -> RecordFile[Sample]:
        """The records."""
        return self._store.records

    @property
    def attempts(self) -> RecordFile[StartedAttempt]:
        """The attempts that began."""
        return RecordFile(self.directory / "attempts.jsonl", StartedAttempt, SampleError)

    @property
    def runs(self) -> RunStore:
        """The recorded runs."""
        return RunStore(self.directory / "runs")

    @contextmanager
    def writer(self, made_with: Mapping[str, Any]) -> Generator[SampleWriter]:
        """Open the directory for sampling.

        `made_with` must stay the same each time it is resumed, as JSON values by name: see
        `ExpertSampling.made_with`.

        Raises `SampleError` if the samples were made with something else, another process samples there, a
        file is damaged, or the disk refuses.
        """
        with self._store.locked(made_with), ExitStack() as stack:
            records, attempts = self.samples.read(), self.attempts.read()
            writer = SampleWriter(self, self.samples.open(), self.attempts.open())
            stack.callback(writer.close)
            writer.records.update((record.uid, record) for record in records)
            for attempt in attempts:
                writer.remember(attempt)
            yield writer

    @property
    def _store(self) -> ResumableStore[Sample]:
        return ResumableStore(self.directory, "sampling.json", "samples.jsonl", Sample, SampleError)


@dataclass(slots=True)
class SampleWriter:
    """A store that is being written."""

    store: SampleStore
    sample_journal: Journal
    attempt_journal: Journal
    records: dict[str, Sample] = field(default_factory=dict[str, Sample])
    """By case: those that are over."""
    started: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By case: runs that count, since it was last to be tried afresh."""
    earlier: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By case: runs before that."""

    def close(self) -> None:
        """Close the files."""
        self.sample_journal.close()
        self.attempt_journal.close()

    def remember(self, attempt: StartedAttempt) -> None:
        """Count an attempt that is in the file."""
        runs = self.started.setdefault(attempt.uid, [])
        if attempt.run is not None:
            runs.append(attempt.run)
            return
        self.earlier.setdefault(attempt.uid, []).extend(runs)
        runs.clear()

    def start(self, uid: str, run: str | None) -> None:
        """Write down that an attempt begins, before any expert is asked; see `StartedAttempt`."""
        attempt = StartedAttempt(uid=uid, run=run)
        self.store.attempts.append(self.attempt_journal, attempt)
        self.remember(attempt)

    def finish(self, sample: Sample) -> None:
        """Write the record of a case; raise `SampleError` if it has one, or the disk refuses."""
        if sample.uid in self.records:
            raise SampleError(f"The case {sample.uid!r} has a record already.")
        if sample.run is not None and not self.store.runs.has_run(sample.run):
            raise SampleError(f"The run {sample.run} cannot be kept: it is gone.")
        self.store.samples.append(self.sample_journal, sample)
        self.records[sample.uid] = sample

    def retry(self, uids: Iterable[str]) -> None:
        """Forget the records of cases, so that they are tried again."""
        forgotten = set(uids) & self.records.keys()
        for uid in sorted(forgotten):
            self.start(uid, None)
            del self.records[uid]
        if forgotten:
            self.sample_journal.close()
            self.store.samples.rewrite(self.records.values())
            self.sample_journal = self.store.samples.open()

    def finished_run(self, uid: str) -> StoredRun | None:
        """Find the newest run of a case that came to its end and was not judged: it is not made again."""
        for id in reversed([*self.earlier.get(uid, ()), *self.started.get(uid, ())]):
            run = self.read(id)
            if run is not None and is_complete(run):
                return run
        return None

    def read(self, run: str) -> StoredRun | None:
        """Read a run, if it came so far that it can be read."""
        try:
            return self.store.runs.read(run)
        except (RunError, OSError):
            return None


def is_complete(run: StoredRun) -> bool:
    """Check whether a run ended with an answer, or with the words that there is none."""
    end = run.events[-1]
    return isinstance(end, AnswerGiven) and end.stop_reason in COMPLETE
