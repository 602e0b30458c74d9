"""A folder of rollouts that can be interrupted at any moment and resumed, and the job that fills it.

::

    campaign.json     what they are made with; written first
    rollouts.jsonl    one line per attempt, appended whole and forced to disk when its run is there
    runs/             a `RunStore`
    lock              held by the one process that writes

A line is what makes a rollout count. A process that dies leaves at worst half a line, and a run that no line
names: opening the folder removes both, and the attempt is made again. Nothing reported is lost, and nothing
is there twice. An attempt whose run somebody deletes is made again as well.

`RolloutJob` is the one loop of many rollouts, which makes what a folder lacks several at a time: `vrag train
rollout`, `vrag eval run` and `vrag data demonstrate` are such jobs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.agent import Agent
from vrag.agent.events import Event, ModelCalled
from vrag.agent.runs.run_store import RunStore
from vrag.atomic_io import Journal, read_lines
from vrag.background import run_in_thread
from vrag.errors import RunError
from vrag.rollouts.resumable_store import LOCK, ResumableStore, report_disk_errors
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.types import Case

MADE_WITH, ROLLOUTS, RUNS = "campaign.json", "rollouts.jsonl", "runs"
UNFINISHED = re.compile(r"\.\w+\.jsonl?\.[0-9a-f]{8}")
"""A file as `vrag.atomic_io.write_whole` names it before it is whole."""
MIN_FAILURES, FAILURES_PER_WORKER = 8, 2
"""Failures in a row after which a job gives up: at least so many, and so many times the concurrency."""


class RolloutEntry(BaseModel):
    """A line of `rollouts.jsonl`: an attempt that was made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    """Its uid."""
    sample: int = Field(ge=0)
    question: str
    run: str | None
    """Id of its run; None where it failed before its first event."""
    failure: str | None
    """The reason it says nothing about the model, as `kind: what happened`; None where it came to its end."""
    stop: str | None
    """The reason the run ended; None where it has no end."""
    answer: str | None
    steps: int
    """Model calls."""
    tokens: int
    """Sampled by the model, as far as the server reports their ids."""
    seconds: float

    @classmethod
    def of(cls, rollout: Rollout) -> RolloutEntry:
        """Summarize a rollout."""
        attempt, run = rollout.attempt, rollout.trajectory
        calls = [event for event in rollout.events if isinstance(event, ModelCalled)]
        return cls(
            case=attempt.case.uid,
            sample=attempt.sample,
            question=attempt.case.query,
            run=run.run_id or None,
            failure=rollout.failure,
            stop=run.stop_reason,
            answer=run.answer,
            steps=len(calls),
            tokens=sum(len(call.ids) for call in calls),
            seconds=round(rollout.seconds, 3),
        )

    @property
    def key(self) -> tuple[str, int]:
        """Case and sample, which identify the attempt."""
        return self.case, self.sample

    @property
    def reason(self) -> str | None:
        """The kind of its failure, to count by."""
        return None if self.failure is None else self.failure.partition(":")[0]


@dataclass(frozen=True, slots=True)
class RolloutStore:
    """A folder of rollouts that this process writes. Made by `open_rollout_store`."""

    folder: Path
    entries: dict[tuple[str, int], RolloutEntry]
    """The attempts that are done, by uid and sample; of one that was made again the last."""
    journal: Journal

    def remaining(
        self, attempts: Iterable[RolloutAttempt], *, again: bool = False
    ) -> Iterator[RolloutAttempt]:
        """Yield the attempts that are still to be made, as they are asked for; `again` also failed ones.

        Raises `RunError` if a case has another question than before.
        """
        for attempt in attempts:
            entry = self.entries.get(attempt.key)
            if entry is not None and entry.question != attempt.case.query:
                raise RunError(
                    f"The case {attempt.case.uid} in {self.folder} asks something else.",
                    "Use another folder for these cases.",
                )
            if entry is None or (again and entry.failure is not None):
                yield attempt

    def keep(self, rollout: Rollout) -> RolloutEntry:
        """Write a rollout; when this returns it is on disk.

        Raises `RunError` if the disk refuses. The rollout does not count then.
        """
        entry = RolloutEntry.of(rollout)
        with report_disk_errors(self.folder, RunError):
            if entry.run is not None:
                _runs(self.folder).add(entry.run, rollout.events, rollout.files)
            self.journal.append(entry.model_dump_json().encode())
        self.entries[entry.key] = entry
        return entry


@contextmanager
def open_rollout_store(folder: Path, made_with: Mapping[str, Any]) -> Generator[RolloutStore]:
    """Open a folder of rollouts, new or resumed.

    `made_with` must stay the same each time the folder is resumed, as JSON values by name: with other values
    it would mix rollouts of different policies or collections. Raises `RunError` if the folder holds
    something else, was made with other values, has lost its lines, is being written by another process, or
    cannot be written.
    """
    with report_disk_errors(folder, RunError):
        check_rollout_folder(folder)
    store = _store(folder)
    with store.locked(made_with):
        with report_disk_errors(folder, RunError):
            (folder / RUNS).mkdir(exist_ok=True)
            _check_runs_are_named(folder)
        with store.records.open() as journal:
            entries = store.records.read()
            with report_disk_errors(folder, RunError):
                _remove_leftovers(folder, {entry.run for entry in entries if entry.run})
            yield RolloutStore(folder, _done(folder, entries), journal)


def read_entries(folder: Path) -> list[RolloutEntry]:
    """Read the attempts that are done, also while others are made; of one made again the last.

    One whose run was deleted is not done. Raises `RunError` if the folder holds no rollouts, or a line is
    damaged.
    """
    if not (folder / MADE_WITH).is_file():
        raise RunError(f"{folder} holds no rollouts.", "Make some: vrag train rollout.")
    return list(_done(folder, _store(folder).records.read()).values())


def stored_rollouts(folder: Path, cases: Iterable[Case]) -> Iterator[Rollout]:
    """Read the rollouts of a folder, one at a time; those of other cases are left out.

    Raises `RunError` if the folder holds no rollouts, or a run is damaged.
    """
    store, known = _runs(folder), {case.uid: case for case in cases}
    for entry in read_entries(folder):
        if (case := known.get(entry.case)) is None:
            continue
        events: tuple[Event, ...] = ()
        files: dict[str, bytes] = {}
        if entry.run is not None:
            try:
                run = store.read(entry.run)
                names = store.file_names(run.id)
                events, files = run.events, {name: run.read_file(*name.split(".")) for name in names}
            except (RunError, OSError) as error:
                reason = error.message if isinstance(error, RunError) else f"A run cannot be read: {error}."
                hint = f"Delete {store.directory}: the same command makes its runs again."
                raise RunError(reason, hint) from error
        yield Rollout(
            attempt=RolloutAttempt(case=case, sample=entry.sample),
            events=events,
            files=files,
            failure=entry.failure,
            seconds=entry.seconds,
        )


def _store(folder: Path) -> ResumableStore[RolloutEntry]:
    return ResumableStore(folder, MADE_WITH, ROLLOUTS, RolloutEntry, RunError)


def _done(folder: Path, entries: Iterable[RolloutEntry]) -> dict[tuple[str, int], RolloutEntry]:
    """Return the last entry of each attempt, by uid and sample, without those whose run was deleted."""
    last = {entry.key: entry for entry in entries}
    runs = set(_runs(folder).ids())
    return {key: entry for key, entry in last.items() if entry.run is None or entry.run in runs}


def check_rollout_folder(folder: Path) -> None:
    """Refuse a folder with something else in it, of which opening might remove runs.

    Raises `RunError` if there is something else in it and `OSError` if the folder cannot be read.
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    # A process may have died after the lock or while it wrote the settings.
    others = {name for name in names if name != LOCK and not name.startswith(f".{MADE_WITH}")}
    if others and MADE_WITH not in others:
        raise RunError(f"{folder} is not empty, and holds no runs.", "Use another folder.")


def _check_runs_are_named(folder: Path) -> None:
    """Refuse runs whose lines are gone: they would be removed.

    The file is there before the first run is, and a process that dies leaves one run at most without a line.
    """
    runs = len(_runs(folder).ids())
    exists = (folder / ROLLOUTS).exists()
    if (runs and not exists) or (runs > 1 and not read_lines(folder / ROLLOUTS)):
        raise RunError(
            f"{folder} has lost its {ROLLOUTS}, which lists its {runs} runs.",
            "Restore the file, or use another folder: runs without it would be deleted.",
        )


def _remove_leftovers(folder: Path, named: set[str]) -> None:
    """Remove unfinished files, and runs that no line names: their process died over them."""
    for path in folder.iterdir():
        if UNFINISHED.fullmatch(path.name):
            path.unlink()
    store = _runs(folder)
    unnamed = set(store.ids()) - named
    if unnamed:
        with store.changing() as connection:
            store.delete_all(connection, unnamed)
    store.sweep()


def _runs(folder: Path) -> RunStore:
    return RunStore(folder / RUNS)


@dataclass(slots=True, kw_only=True)
class RolloutJob:
    """The missing rollouts of a folder, and how far they are."""

    store: RolloutStore
    attempts: Sequence[RolloutAttempt]
    """All that the folder is to hold."""
    concurrency: int = 64
    seconds: float | None = None
    """Deadline of each rollout."""
    retry_failed: bool = False
    """True if failed rollouts of the folder are made again."""
    missing: list[RolloutAttempt] = field(init=False)
    """Attempts to make."""
    failed_before: int = field(init=False)
    """Failed rollouts that were in the folder and are not repeated."""
    start: float = field(default_factory=time.monotonic)
    """Time at which the first rollout began, in seconds of `time.monotonic`."""
    made: int = 0
    steps: int = 0
    """Model calls of the rollouts that were made."""
    tokens: int = 0
    """Tokens that the model sampled for them."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Number of failures by kind."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """One failure of each kind."""
    failures_in_a_row: int = 0
    stopped: bool = False
    """True if Ctrl-C ended the job."""
    given_up: bool = False
    """True if so many rollouts failed in a row that the rest would fail too: the server is gone."""

    def __post_init__(self) -> None:
        self.missing = list(self.store.remaining(self.attempts, again=self.retry_failed))
        known = [entry for attempt in self.attempts if (entry := self.store.entries.get(attempt.key))]
        failed = sum(entry.failure is not None for entry in known)
        self.failed_before = 0 if self.retry_failed else failed

    @property
    def before(self) -> int:
        """The number of rollouts that were in the folder."""
        return len(self.attempts) - len(self.missing)

    @property
    def elapsed_seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.start

    async def rollouts(self, agent: Callable[[RolloutAttempt], Agent]) -> AsyncGenerator[Rollout, None]:
        """Make the missing rollouts as `roll_out` does, and yield each when it is safe on disk.

        Raises `RunError` if the disk refuses.
        """
        self.start = time.monotonic()
        made = roll_out(self.missing, agent, concurrency=self.concurrency, seconds=self.seconds)
        async with aclosing(made) as rollouts:
            async for rollout in rollouts:
                keeping = asyncio.ensure_future(run_in_thread(lambda kept=rollout: self.store.keep(kept)))
                try:
                    entry = await asyncio.shield(keeping)
                except asyncio.CancelledError:  # what is being written is written
                    await asyncio.gather(keeping, return_exceptions=True)
                    raise
                self.made += 1
                self.steps += entry.steps
                self.tokens += entry.tokens
                self.failures_in_a_row = self.failures_in_a_row + 1 if entry.failure else 0
                if entry.failure and entry.reason:
                    self.failures[entry.reason] += 1
                    self.examples[entry.reason] = entry.failure.partition(":")[2].strip()
                yield rollout
                if self.failures_in_a_row >= max(MIN_FAILURES, FAILURES_PER_WORKER * self.concurrency):
                    self.given_up = True
                    return

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what takes `rollouts` in an event loop; Ctrl-C ends it early, with what is finished."""

        async def run_until_stopped() -> None:
            try:
                await work
            except asyncio.CancelledError:
                self.stopped = True

        asyncio.run(run_until_stopped())

    async def make_all(self, agent: Callable[[RolloutAttempt], Agent], progress: Callable[[], None]) -> None:
        """Make the missing rollouts; call `progress` after each."""
        async with aclosing(self.rollouts(agent)) as rollouts:
            async for _ in rollouts:
                progress()
