"""Campaigns: whenever the process dies, nothing is lost that was told of, and nothing is there twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import apsw
import pytest
from rolling_scripts import attempts, case, raising, rolled, scripted
from sqlite_files import watch_files
from stored_events import write_events

from vrag.agent.events import ModelCalled
from vrag.agent.runs.run_store import RunStore
from vrag.errors import ModelError, RunError
from vrag.rollouts import rollout_store as module
from vrag.rollouts.rollout_store import (
    RolloutEntry,
    RolloutJob,
    open_rollout_store,
    read_entries,
    stored_rollouts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.agent.agent import Agent
    from vrag.rollouts.rollout import Rollout, RolloutAttempt

MADE_WITH = {"agent": "vrag", "model": "scripted"}


def make(
    folder: Path,
    cases: int,
    samples: int = 1,
    *,
    agent: Callable[[RolloutAttempt], Agent] = lambda _: scripted(),
    again: bool = False,
    most: int | None = None,
) -> list[RolloutEntry]:
    """Makes what is left, or so many of it; those that were made now."""

    async def all_left() -> list[RolloutEntry]:
        made: list[RolloutEntry] = []
        with open_rollout_store(folder, MADE_WITH) as campaign:
            all_attempts = attempts(cases, samples)
            job = RolloutJob(
                store=campaign, attempts=all_attempts, concurrency=4, seconds=20, retry_failed=again
            )
            async with aclosing(job.rollouts(agent)) as rollouts:
                async for rollout in rollouts:
                    made.append(campaign.entries[rollout.attempt.key])
                    if len(made) == most:
                        break
        return made

    return asyncio.run(all_left())


def check(folder: Path, cases: int, samples: int = 1) -> None:
    """Every attempt is there once, its run whole, and nothing else."""
    lines = (folder / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    entries = [RolloutEntry.model_validate_json(line) for line in lines]
    wanted = {(one.case.uid, one.sample): 1 for one in attempts(cases, samples)}
    assert Counter(entry.key for entry in entries) == wanted
    store = RunStore(folder / "runs")
    assert sorted(store.ids()) == sorted(entry.run or "" for entry in entries)
    for entry in entries:
        run = store.read(entry.run or "")
        assert (run.has_end, run.result.question, run.result.answer) == (
            True,
            entry.question,
            "48,200",
        )
        calls = [event for event in run.events if isinstance(event, ModelCalled)]
        messages = [sha256 for call in calls for sha256 in call.messages]
        assert all(run.read_file(message, "json") for message in messages)


def test_what_was_made_is_there_again_as_it_was_made(tmp_path: Path) -> None:
    (rollout,) = rolled(attempts(1), lambda _: scripted())
    with open_rollout_store(tmp_path / "out", MADE_WITH) as campaign:
        entry = campaign.keep(rollout)
    assert read_entries(tmp_path / "out") == [entry]
    (again,) = stored_rollouts(tmp_path / "out", [case(0), case(1)])
    assert (again.attempt, again.events, again.files) == (rollout.attempt, rollout.events, rollout.files)
    assert (again.failure, again.seconds) == (None, round(rollout.seconds, 3))
    assert list(stored_rollouts(tmp_path / "out", [case(1)])) == []
    assert (entry.answer, entry.steps, entry.stop, entry.tokens) == ("48,200", 2, "answered", 0)


def test_going_on_makes_what_is_left(tmp_path: Path) -> None:
    assert len(make(tmp_path / "out", 4, 2, most=3)) == 3
    assert len(make(tmp_path / "out", 4, 2)) == 5
    assert make(tmp_path / "out", 4, 2) == []
    check(tmp_path / "out", 4, 2)
    assert len(make(tmp_path / "out", 5, 3)) == 7
    check(tmp_path / "out", 5, 3)


def test_a_failure_is_kept_with_its_reason_and_made_again_only_when_asked(tmp_path: Path) -> None:
    def failing(attempt: RolloutAttempt) -> Agent:
        return scripted(ModelError("It is gone.")) if attempt.sample else scripted()

    make(tmp_path / "out", 2, 2, agent=failing)
    reasons = Counter(entry.reason for entry in read_entries(tmp_path / "out"))
    assert reasons == {None: 2, "ModelError": 2}
    assert make(tmp_path / "out", 2, 2) == []
    assert len(make(tmp_path / "out", 2, 2, again=True)) == 2
    assert {entry.failure for entry in read_entries(tmp_path / "out")} == {None}
    assert len(read_entries(tmp_path / "out")) == 4


def test_one_that_fails_before_its_first_event_has_no_run(tmp_path: Path) -> None:
    (entry,) = make(tmp_path / "out", 1, agent=lambda _: raising(ValueError("no"), after=0))
    assert (entry.run, entry.reason) == (None, "ValueError")
    (rollout,) = stored_rollouts(tmp_path / "out", [case(0)])
    assert (rollout.events, rollout.files, rollout.failure) == ((), {}, entry.failure)


def test_a_picture_of_several_runs_lies_on_disk_once(tmp_path: Path) -> None:
    make(tmp_path / "out", 3)
    store = RunStore(tmp_path / "out" / "runs")
    pictures = [name for run in store.ids() for name in store.file_names(run) if name.endswith(".jpg")]
    assert pictures
    assert {pictures.count(name) for name in pictures} == {3}


class Refused(OSError):
    """The disk is full."""


class Doom:
    """Lets so many writes, renames and syncs happen, also those of SQLite, and no more; 0 for never."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.dies = False
        """Whether the process ends then, instead of being refused that one."""
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "mkdir"), (Path, "open")):
            patched.setattr(owner, name, self._counted(getattr(owner, name)))
        self._files = watch_files(patched, before=lambda: self._count(apsw.FullError("full")))

    def _counted(self, act: Callable[..., object]) -> Callable[..., object]:
        def do(*arguments: object, **named: object) -> object:
            self._count(Refused(28, "No space left on device"))
            return act(*arguments, **named)

        return do

    def _count(self, refusal: Exception) -> None:
        self.left -= 1
        if self.left == 0:
            if self.dies:
                os._exit(0)
            raise refusal


def keep_left(folder: Path, rollouts: list[Rollout], told: list[RolloutEntry]) -> None:
    """Keeps what is left of these, and tells of each."""
    with open_rollout_store(folder, MADE_WITH) as campaign:
        assert set(RunStore(folder / "runs").ids()) == {entry.run for entry in campaign.entries.values()}
        assert all(campaign.entries[entry.key] == entry for entry in told)
        by_attempt = {one.attempt: one for one in rollouts}
        for attempt in campaign.remaining(by_attempt):
            told.append(campaign.keep(by_attempt[attempt]))  # noqa: PERF401 - it may die between two


def next_moment(moment: int) -> int:
    """Each of the first writes, and some of the later ones."""
    return moment + max(1, moment // 8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # SQLite's own, at its closing
def test_a_disk_that_is_full_at_any_write_loses_nothing_and_leaves_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts = rolled(attempts(2), lambda _: scripted())
    moment, over = 0, False
    with monkeypatch.context() as patched:
        doom = Doom(patched)
        while not over:
            moment = next_moment(moment)
            folder, told = tmp_path / str(moment), list[RolloutEntry]()
            doom.left = moment
            with suppress(Refused, RunError):
                keep_left(folder, rollouts, told)
            over, doom.left = doom.left > 0, 0
            keep_left(folder, rollouts, told)
            check(folder, 2)
            assert len({entry.key for entry in told}) == len(told)
    assert moment > 100


class Told(list[RolloutEntry]):
    """What another process has told, which may be gone: it writes each entry to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append(self, entry: RolloutEntry) -> None:
        super().append(entry)
        handle = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(handle, entry.model_dump_json().encode() + b"\n")
        os.close(handle)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork.")
def test_dying_at_any_write_loses_nothing_and_leaves_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts = rolled(attempts(2), lambda _: scripted())
    moment, over = 0, False
    while not over:
        moment = next_moment(moment)
        folder, telling = tmp_path / str(moment), tmp_path / f"told {moment}"
        child = os.fork()
        if child == 0:
            doom = Doom(monkeypatch)
            doom.left, doom.dies = moment, True
            keep_left(folder, rollouts, Told(telling))
            os._exit(1)
        over = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        lines = telling.read_bytes().splitlines() if telling.exists() else []
        told = [RolloutEntry.model_validate_json(line) for line in lines]
        keep_left(folder, rollouts, told)
        check(folder, 2)
        assert len({entry.key for entry in told}) == len(told)
    assert moment > 100


def test_half_a_line_at_the_end_is_passed_over_and_then_removed(tmp_path: Path) -> None:
    make(tmp_path / "out", 2)
    with (tmp_path / "out" / "rollouts.jsonl").open("ab") as file:
        file.write(b'{"case":"c2","sam')
    assert len(read_entries(tmp_path / "out")) == 2
    make(tmp_path / "out", 3)
    check(tmp_path / "out", 3)


def test_files_that_a_killed_writer_left_are_removed_and_no_others(tmp_path: Path) -> None:
    make(tmp_path / "out", 1)
    ours = [".records.jsonl.0123abcd", ".campaign.json.89efcdab"]
    theirs = [
        ".report.html.0123abcd.part",
        ".notes.md.20261122",
        "records.jsonl.0123abcd",
        ".conditions.json",
    ]
    for name in ours + theirs:
        (tmp_path / "out" / name).write_text("half")
    make(tmp_path / "out", 2)
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left.isdisjoint(ours)
    assert left.issuperset(theirs)
    check(tmp_path / "out", 2)


def test_runs_whose_lines_are_gone_are_not_thrown_away(tmp_path: Path) -> None:
    make(tmp_path / "out", 2)
    lines = tmp_path / "out" / "rollouts.jsonl"
    kept = lines.read_bytes()
    lines.unlink()
    with pytest.raises(RunError, match=r"lost its rollouts\.jsonl, which lists its 2 runs"):
        make(tmp_path / "out", 2)
    assert not lines.exists()
    lines.touch()
    with pytest.raises(RunError, match="lost its"):
        make(tmp_path / "out", 2)
    lines.write_bytes(kept)
    assert make(tmp_path / "out", 2) == []
    check(tmp_path / "out", 2)


@pytest.mark.parametrize("part", ["events", "blobs"])
def test_a_damaged_run_is_told_and_made_again_when_it_is_deleted(part: str, tmp_path: Path) -> None:
    first, second = make(tmp_path / "out", 2)
    store, run = RunStore(tmp_path / "out" / "runs"), first.run or ""
    if part == "blobs":
        shutil.rmtree(store.directory / "blobs")
    else:
        write_events(store, run, [b"{"])
    with pytest.raises(RunError) as told:
        list(stored_rollouts(tmp_path / "out", [case(0), case(1)]))
    assert str(store.directory) in (told.value.hint or "")
    store.delete(run)
    assert [entry.key for entry in read_entries(tmp_path / "out")] == [second.key]
    assert [entry.key for entry in make(tmp_path / "out", 2)] == [first.key]
    shutil.rmtree(tmp_path / "out" / "runs")
    assert read_entries(tmp_path / "out") == []
    assert len(make(tmp_path / "out", 2)) == 2
    assert len(list(stored_rollouts(tmp_path / "out", [case(0), case(1)]))) == 2


def test_a_line_that_is_none_says_where(tmp_path: Path) -> None:
    make(tmp_path / "out", 1)
    with (tmp_path / "out" / "rollouts.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(RunError, match="Line 2 of"):
        make(tmp_path / "out", 1)


def test_a_full_disk_is_told_and_what_was_told_of_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "out", 1)

    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="No space left"):
            make(tmp_path / "out", 2)
    assert len(make(tmp_path / "out", 2)) == 1
    check(tmp_path / "out", 2)


def test_one_process_writes(tmp_path: Path) -> None:
    with open_rollout_store(tmp_path / "out", MADE_WITH):
        with (
            pytest.raises(RunError, match="Another process"),
            open_rollout_store(tmp_path / "out", MADE_WITH),
        ):
            pass
        assert read_entries(tmp_path / "out") == []


def test_going_on_with_something_else_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "out", 1)
    with (
        pytest.raises(RunError, match="model scripted, not other"),
        open_rollout_store(tmp_path / "out", {**MADE_WITH, "model": "other"}),
    ):
        pass
    with open_rollout_store(tmp_path / "out", MADE_WITH) as campaign:
        (attempt,) = attempts(1)
        other = [type(attempt)(case=case(0, "Something else?"), sample=0)]
        with pytest.raises(RunError, match=r"c0 .* asks something else"):
            list(campaign.remaining(other))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    with pytest.raises(RunError, match="not empty"), open_rollout_store(tmp_path, MADE_WITH):
        pass
    assert (tmp_path / "runs" / "mine").is_dir()
    with pytest.raises(RunError, match="holds no rollouts"):
        read_entries(tmp_path)


CHILD = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3]); sys.path.insert(0, sys.argv[4])
from rolling_scripts import attempts, scripted
from vrag.rollouts.rollout_store import RolloutJob
from vrag.rollouts.rollout_store import open_rollout_store

async def main():
    with open_rollout_store(Path(sys.argv[1]), {"agent": "vrag", "model": "scripted"}) as campaign:
        job = RolloutJob(store=campaign, attempts=attempts(int(sys.argv[2])), concurrency=2)
        async for rollout in job.rollouts(lambda _: scripted()):
            print(campaign.entries[rollout.attempt.key].model_dump_json(), flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_is_killed_loses_nothing_that_it_told_of(tmp_path: Path) -> None:
    folder, cases = tmp_path / "out", 40
    here = Path(__file__).parent
    line = [sys.executable, "-c", CHILD, str(folder), str(cases), str(here), str(here.parent)]
    told: list[RolloutEntry] = []
    for stop_after in (1, 15, None):
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            for number, entry in enumerate(process.stdout, 1):
                if entry.endswith(b"\n"):
                    told.append(RolloutEntry.model_validate_json(entry))
                if number == stop_after:
                    process.kill()
            status = process.wait(30)
        assert status == (0 if stop_after is None else -9)
        known = {entry.key: entry for entry in read_entries(folder)}
        assert all(known[entry.key] == entry for entry in told)
    check(folder, cases)
    assert len({entry.key for entry in told}) == len(told)
    made_with = json.loads((folder / module.MADE_WITH).read_text())
    assert made_with == {"schema_version": 1, **MADE_WITH}
