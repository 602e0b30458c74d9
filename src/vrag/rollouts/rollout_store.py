"""A folder of rollouts that can be stopped at any moment and gone on with.

::

    campaign.json     what they are made with; written first
    rollouts.jsonl    one line per attempt, appended whole and forced to disk when its run is there
    runs/<id>/        as in a `RunStore`; pictures that several runs show lie on disk once
    pictures/         those pictures
    lock              held by the one process that writes

A line is what makes a rollout count. A process that dies leaves at worst half a line and a run that no line
names: opening the campaign removes both, and the attempt is made again. Nothing is lost that was told of, and
nothing is there twice. An attempt whose run somebody deletes is made again as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.background import run_in_thread
from vrag.agent.events import ModelCalled
from vrag.agent.runs.run_store import RunStore
from vrag.atomic_io import Journal, one_writer, read_lines, write_file
from vrag.errors import RunError
from vrag.rollouts.config_diff import otherwise
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.run_config import bind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.agent.agent import Agent
    from vrag.agent.events import Event
    from vrag.types import Case

__all__ = [
    "RolloutEntry",
    "RolloutStore",
    "check_campaign",
    "open_campaign",
    "read_entries",
    "stored_rollouts",
]

MADE_WITH, ROLLOUTS, RUNS, PICTURES, LOCK = "campaign.json", "rollouts.jsonl", "runs", "pictures", "lock"
SCHEMA_VERSION = 1
_UNFINISHED = re.compile(r"\.\w+\.jsonl?\.[0-9a-f]{8}")
"""A file as `vrag.atomic_io.write_whole` names it before it is whole."""


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
    """Why it says nothing about the model, as `kind: what happened`; None where it came to its end."""
    stop: str | None
    """Why the run ended; None where it has no end."""
    answer: str | None
    steps: int
    """Model calls."""
    tokens: int
    """Sampled by the model, as far as the server told their ids."""
    seconds: float

    @classmethod
    def of(cls, rollout: Rollout) -> RolloutEntry:
        """The line of a rollout."""
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
        """What tells attempts apart."""
        return self.case, self.sample

    @property
    def reason(self) -> str | None:
        """The kind of its failure, to count by."""
        return None if self.failure is None else self.failure.partition(":")[0]


@dataclass(frozen=True, slots=True)
class RolloutStore:
    """A folder of rollouts that this process writes. Made by `open_campaign`."""

    folder: Path
    entries: dict[tuple[str, int], RolloutEntry]
    """The attempts that are done, by uid and sample; of one that was made again the last."""
    journal: Journal

    def left(self, attempts: Iterable[RolloutAttempt], *, again: bool = False) -> Iterator[RolloutAttempt]:
        """Those that are still to be made, as they are asked for.

        Args:
            attempts: All that the campaign is to hold.
            again: Also those that failed.

        Raises:
            RunError: If a case asks something else than it did.
        """
        for attempt in attempts:
            entry = self.entries.get((attempt.case.uid, attempt.sample))
            if entry is not None and entry.question != attempt.case.query:
                raise RunError(
                    f"The case {attempt.case.uid} in {self.folder} asks something else.",
                    "Name another folder for these cases.",
                )
            if entry is None or (again and entry.failure is not None):
                yield attempt

    async def made(
        self,
        attempts: Iterable[RolloutAttempt],
        agent: Callable[[RolloutAttempt], Agent],
        *,
        concurrency: int = 64,
        seconds: float | None = None,
    ) -> AsyncGenerator[RolloutEntry, None]:
        """Makes attempts as `roll_out` does, and yields each when it is safe on disk.

        Raises:
            RunError: If the disk refuses.
        """
        rolling = roll_out(attempts, agent, concurrency=concurrency, seconds=seconds)
        async with aclosing(rolling) as rollouts:
            async for rollout in rollouts:
                yield await self.kept(rollout)

    async def kept(self, rollout: Rollout) -> RolloutEntry:
        """Keeps a rollout as `keep` does, beside the event loop; once begun that comes to its end.

        Raises:
            RunError: If the disk refuses.
        """
        keeping = asyncio.ensure_future(run_in_thread(lambda: self.keep(rollout)))
        try:
            return await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.gather(keeping, return_exceptions=True)
            raise

    def keep(self, rollout: Rollout) -> RolloutEntry:
        """Writes a rollout; when this returns it is on disk.

        Raises:
            RunError: If the disk refuses. The rollout does not count then.
        """
        entry = RolloutEntry.of(rollout)
        with _writing(self.folder):
            if entry.run is not None:
                self._write_run(entry.run, rollout)
            self.journal.append(entry.model_dump_json().encode())
        self.entries[entry.key] = entry
        return entry

    def _write_run(self, run: str, rollout: Rollout) -> None:
        """The run under a name of its own first, so that nobody reads half of one."""
        unfinished = self.folder / RUNS / f".{run}"
        (unfinished / "files").mkdir(parents=True)
        for name, data in rollout.files.items():
            self._write_file(unfinished / "files" / name, data)
        lines = [event.model_dump_json().encode() + b"\n" for event in rollout.events]
        write_file(unfinished / "events.jsonl", b"".join(lines))
        unfinished.replace(self.folder / RUNS / run)

    def _write_file(self, target: Path, data: bytes) -> None:
        """A file that a run names; a picture is another name of the one that lies there already."""
        shared = self.folder / PICTURES / target.name
        if target.suffix != ".jpg":
            write_file(target, data)
            return
        if not shared.exists():
            unfinished = shared.with_name(f".{shared.name}")
            write_file(unfinished, data)
            unfinished.replace(shared)
        try:
            os.link(shared, target)
        except OSError:  # a file system without links, or a picture with too many
            write_file(target, data)


@contextmanager
def open_campaign(folder: Path, made_with: Mapping[str, Any]) -> Generator[RolloutStore]:
    """Begins a campaign, or goes on with one.

    Args:
        folder: Where it lies; made where there is none.
        made_with: What must stay the same from one time to the next, as JSON values by name: whoever goes on
            with other values would mix rollouts of different policies or collections.

    Raises:
        RunError: If the folder holds something else, was made with other values, has lost its lines, is being
            written by another process, or cannot be written.
    """
    with _writing(folder):
        check_campaign(folder)
        folder.mkdir(parents=True, exist_ok=True)
    busy = RunError(
        f"Another process is making rollouts in {folder}.", "Wait for it, or name another folder."
    )
    with ExitStack() as stack:
        with _writing(folder):
            stack.enter_context(one_writer(folder / LOCK, busy))
            _check_made_with(folder, made_with)
            for name in (RUNS, PICTURES):
                (folder / name).mkdir(exist_ok=True)
            _check_runs_are_named(folder)
            journal = stack.enter_context(Journal(folder / ROLLOUTS))
        lines = _lines(folder)
        with _writing(folder):
            _sweep(folder, {entry.run for entry in lines if entry.run})
        yield RolloutStore(folder, _done(folder, lines), journal)


def read_entries(folder: Path) -> list[RolloutEntry]:
    """The attempts of a campaign that are done, also while it goes on; of one made again the last.

    One whose run was deleted is not done.

    Raises:
        RunError: If there is no campaign, or a line is none of it.
    """
    if not (folder / MADE_WITH).is_file():
        raise RunError(f"{folder} holds no rollouts.", "Make some: vrag train rollout.")
    return list(_done(folder, _lines(folder)).values())


def stored_rollouts(folder: Path, cases: Iterable[Case]) -> Iterator[Rollout]:
    """The rollouts of a campaign again, one at a time, those of other cases left out.

    Raises:
        RunError: If there is no campaign, or a run is damaged.
    """
    store, known = RunStore(folder / RUNS), {case.uid: case for case in cases}
    for entry in read_entries(folder):
        if (case := known.get(entry.case)) is None:
            continue
        events, files = ((), {}) if entry.run is None else _run(store, entry.run)
        yield Rollout(
            attempt=RolloutAttempt(case=case, sample=entry.sample),
            events=events,
            files=files,
            failure=entry.failure,
            seconds=entry.seconds,
        )


def _run(store: RunStore, id: str) -> tuple[tuple[Event, ...], dict[str, bytes]]:
    """The events of a run, and the files that they name."""
    try:
        run = store.read(id)
        files = {path.name: path.read_bytes() for path in sorted((run.directory / "files").iterdir())}
    except (RunError, OSError) as error:
        told = error.message if isinstance(error, RunError) else f"A run cannot be read: {error}."
        raise RunError(told, f"Delete {store.directory / id}: the same command makes it again.") from error
    return run.events, files


def _done(folder: Path, lines: Iterable[RolloutEntry]) -> dict[tuple[str, int], RolloutEntry]:
    """The last line of each attempt, by uid and sample; not of those whose run was deleted."""
    last = {entry.key: entry for entry in lines}
    try:
        runs = {path.name for path in (folder / RUNS).iterdir()}
    except FileNotFoundError:
        runs = set[str]()
    return {key: entry for key, entry in last.items() if entry.run is None or entry.run in runs}


def check_campaign(folder: Path) -> None:
    """Refuses a folder with something else in it, of which opening might remove runs.

    Raises:
        RunError: If there is something else in it.
        OSError: If the folder cannot be read.
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    begun = {name for name in names if name == LOCK or name.startswith(f".{MADE_WITH}")}  # and died then
    if others := names - begun:
        if MADE_WITH in others:
            return
        raise RunError(f"{folder} is not empty, and holds no runs.", "Name another folder.")


def _check_made_with(folder: Path, made_with: Mapping[str, Any]) -> None:
    """Writes down what rollouts are made with, or compares it with what they were made with."""
    path = folder / MADE_WITH
    try:
        changed = bind(path, {"schema_version": SCHEMA_VERSION, **made_with})
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}.", "Name another folder.") from error
    if changed:
        before = json.loads(path.read_bytes())
        raise RunError(
            f"The runs in {folder} were made with {otherwise(changed, before, made_with)}.",
            "Go on with what they were made with, or name another folder.",
        )


def _check_runs_are_named(folder: Path) -> None:
    """Refuses runs whose lines are gone: they would be swept.

    The file is there before the first run is, and a process that dies leaves one run at most without a line.
    """
    runs = sum(not path.name.startswith(".") for path in (folder / RUNS).iterdir())
    there = (folder / ROLLOUTS).exists()
    if (runs and not there) or (runs > 1 and not read_lines(folder / ROLLOUTS)):
        raise RunError(
            f"{folder} has lost its {ROLLOUTS}, which says what its {runs} runs are.",
            "Put it back, or name another folder: runs without it would be thrown away.",
        )


def _lines(folder: Path) -> list[RolloutEntry]:
    """All lines, without half of one at the end."""
    lines = read_lines(folder / ROLLOUTS, missing_ok=True)
    return [_entry(line, number, folder) for number, line in enumerate(lines, 1)]


def _entry(line: bytes, number: int, folder: Path) -> RolloutEntry:
    try:
        return RolloutEntry.model_validate_json(line)
    except ValidationError as error:
        raise RunError(
            f"Line {number} of {folder / ROLLOUTS} is no rollout: {error.errors()[0]['msg']}.",
            "It was damaged, or written by another version. Roll out into another folder.",
        ) from error


def _sweep(folder: Path, named: set[str]) -> None:
    """Removes runs that no line names: their process died before it could write one; and their pictures.

    So are files that it died over, of whatever is written whole by the one process that holds the lock.
    """
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            path.unlink()
    for directory in (folder / RUNS).iterdir():
        if directory.name not in named:
            shutil.rmtree(directory, ignore_errors=True)
    for picture in (folder / PICTURES).iterdir():
        if picture.stat().st_nlink == 1:  # no run has it; where there are no links, each has its own
            picture.unlink()


@contextmanager
def _writing(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Rollouts cannot be written to {folder}: {error.strerror or error}.",
            "Make room, or name another folder.",
        ) from error
