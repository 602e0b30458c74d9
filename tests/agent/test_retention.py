"""Deletion of runs by age: what goes, what stays, and what a killed process leaves."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from dated_runs import DatedRuns
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.agent.runs.event_lines import seal_line
from vrag.agent.runs.retention import (
    RunOutcome,
    RunSelection,
    begin_time,
    delete_runs,
    select_runs,
)
from vrag.agent.runs.run_meta import META, RunMeta, write_meta
from vrag.agent.runs.run_store import EVENTS, LOCK, META_LOCK, RunStore, new_run_id

if TYPE_CHECKING:
    from pathlib import Path

KILLED = """
import os, shutil, sys
from pathlib import Path
from vrag.agent.runs.retention import RunSelection, delete_runs, select_runs
from vrag.agent.runs.run_store import RunStore

remove, removed = shutil.rmtree, 0

def half(directory, **how):
    global removed
    removed += 1
    if removed == 3:
        next(path for path in sorted(Path(directory).rglob("*")) if path.is_file()).unlink()
        os._exit(9)
    remove(directory, **how)

shutil.rmtree = half
store = RunStore(Path(sys.argv[1]))
wanted = RunSelection(owner="alice")
delete_runs(store, select_runs(store, wanted), wanted)
"""


@pytest.fixture
def runs(tmp_path: Path) -> DatedRuns:
    return DatedRuns(tmp_path / "runs")


def before(runs: DatedRuns, days: float) -> float:
    return (runs.now - timedelta(days=days)).timestamp()


def selected(runs: DatedRuns, **wanted: object) -> set[str]:
    return set(select_runs(runs.store, RunSelection(**wanted)).runs)  # type: ignore[arg-type]


def delete(runs: DatedRuns, **wanted: object) -> set[str]:
    selection = RunSelection(**wanted)  # type: ignore[arg-type]
    return set(delete_runs(runs.store, select_runs(runs.store, selection), selection).runs)


def listed(runs: DatedRuns) -> set[str]:
    """The names in the directory of the runs."""
    return {path.name for path in runs.store.directory.iterdir()} - {META_LOCK}


def test_the_id_of_a_run_has_the_time_at_which_it_began() -> None:
    started = time.time()
    begun = begin_time(new_run_id())
    assert started - 1e-3 <= begun <= time.time()
    assert begin_time("20269999-999999-000000-abcd") == begin_time("notes") == float("inf")


def test_conversations_go_as_a_whole_by_the_age_of_their_last_question(runs: DatedRuns) -> None:
    old, first = runs.add(40), runs.add(39)
    later = runs.add(1, after=first)
    ancient = [runs.add(60)]
    ancient.append(runs.add(50, after=ancient[0]))
    selection = RunSelection(before=before(runs, 30))
    found = select_runs(runs.store, selection)
    assert set(found.runs) == {old, *ancient}
    assert found.runs.index(ancient[1]) < found.runs.index(ancient[0])
    assert (found.oldest, found.newest) == (begin_time(ancient[0]), begin_time(old))
    size = sum(
        path.stat().st_size
        for run in found.runs
        for path in runs.store.directory.glob(f"{run}/**/*")
        if path.is_file()
    )
    assert found.bytes == size > 0
    assert delete_runs(runs.store, found, selection) == found
    assert set(runs.store.ids()) == {first, later}


def test_pinned_and_shared_conversations_stay_unless_they_are_asked_for(runs: DatedRuns) -> None:
    pinned, shared, plain = runs.add(40, pinned=True), runs.add(40, shared=True), runs.add(40)
    later = runs.add(35, after=pinned)
    assert selected(runs, before=before(runs, 30)) == {plain}
    assert selected(runs, before=before(runs, 30), with_pinned=True) == {pinned, shared, plain, later}


def test_runs_of_one_user_or_of_nobody_or_with_one_outcome(runs: DatedRuns) -> None:
    mine, foreign, nobody = runs.add(2, "alice"), runs.add(2, "bob"), runs.add(2)
    failed, broken = runs.add(2, "alice", ended="failed"), runs.add(2, "alice", ended="interrupted")
    assert selected(runs, owner="alice") == {mine, failed, broken}
    assert selected(runs, owner="") == {nobody}
    assert selected(runs, outcome=RunOutcome.FAILED) == {failed}
    assert selected(runs, outcome=RunOutcome.INTERRUPTED) == {broken}
    assert selected(runs, outcome=RunOutcome.ANSWERED) == {mine, foreign, nobody}
    assert selected(runs, outcome=RunOutcome.FAILED, before=before(runs, 3)) == set()


def test_a_first_question_stays_while_a_later_one_does(runs: DatedRuns) -> None:
    first = runs.add(2, ended="failed")
    later = runs.add(1, after=first)
    assert selected(runs, outcome=RunOutcome.FAILED) == set()
    alone = runs.add(1, after=first, ended="failed")
    assert selected(runs, outcome=RunOutcome.FAILED) == {alone}
    assert selected(runs) == {first, later, alone}
    assert selected(runs, kept=lambda: {first}) == set()


def test_runs_in_progress_stay(runs: DatedRuns) -> None:
    run = runs.add(40, ended="interrupted")
    found = select_runs(runs.store, RunSelection())
    with FileLock(runs.store.directory / run / LOCK, is_singleton=False):
        assert selected(runs) == set()
        assert delete_runs(runs.store, found, RunSelection()).runs == ()
    assert selected(runs) == {run}


def test_unbegun_runs_go_by_age_and_foreign_files_stay(runs: DatedRuns) -> None:
    unbegun, empty, fresh = (runs.add(days, "alice") for days in (40, 40, 0))
    (runs.store.directory / empty / EVENTS).write_bytes(b"")
    for run in (unbegun, fresh):
        (runs.store.directory / run / EVENTS).unlink()
    (runs.store.directory / "notes").mkdir()
    assert selected(runs, owner="alice") == {unbegun, empty}
    delete(runs, before=before(runs, 30))
    assert listed(runs) == {fresh, "notes"}


SHARED: list[DatedRuns] = []
"""One store for all examples: recording a run takes longer than copying it."""


def shared(factory: pytest.TempPathFactory) -> DatedRuns:
    """The shared store, without runs."""
    if not SHARED:
        SHARED.append(DatedRuns(factory.mktemp("many") / "runs"))
    for run in SHARED[0].store.stamps():
        SHARED[0].store.delete(run)
    return SHARED[0]


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def seal(runs: DatedRuns, run: str) -> None:
    """Write the events of a run with checksums, as this version does."""
    path = runs.store.directory / run / EVENTS
    path.write_bytes(b"".join(seal_line(line) + b"\n" for line in path.read_bytes().splitlines()))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0))
def test_no_flipped_bit_in_metadata_deletes_what_is_pinned_or_of_others(
    tmp_path_factory: pytest.TempPathFactory, bit: int
) -> None:
    runs = shared(tmp_path_factory)
    first = runs.add(40, "bob", pinned=True)
    later = runs.add(39, "alice", after=first)
    meta = runs.store.directory / first / META
    flip(meta, bit % (8 * meta.stat().st_size))
    for wanted in ({"before": before(runs, 30)}, {"owner": ""}, {"owner": "alice"}, {}):
        found = select_runs(runs.store, RunSelection(**wanted))  # type: ignore[arg-type]
        assert (found.runs, found.damaged) == ((), (first,))
    assert selected(runs, owner="alice", with_pinned=True) == {later}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0), st.booleans())
def test_a_run_with_a_damaged_beginning_stays(
    tmp_path_factory: pytest.TempPathFactory, bit: int, is_first: bool
) -> None:
    runs = shared(tmp_path_factory)
    first = runs.add(40, "alice", pinned=True)
    later = runs.add(39, "alice", after=first)
    damaged = first if is_first else later
    seal(runs, damaged)
    events = runs.store.directory / damaged / EVENTS
    flip(events, bit % (8 * events.read_bytes().index(b"\n") + 8))
    assert selected(runs, before=before(runs, 30)) == set()
    found = select_runs(runs.store, RunSelection(owner="alice", with_pinned=True))
    assert damaged in found.damaged
    assert damaged not in found.runs
    assert select_runs(runs.store, RunSelection(owner="bob")).damaged == ()


@pytest.mark.parametrize(
    "content", [b"{\n", b"[]\n", b"{}\n", b"\xff\n", b"\x00" * 99, b'{"type": "run_star']
)
def test_damage_of_other_kinds_is_listed_if_it_is_old_enough(runs: DatedRuns, content: bytes) -> None:
    old, young = runs.add(40, "alice"), runs.add(2, "alice")
    for run in (old, young):
        (runs.store.directory / run / EVENTS).write_bytes(content)
    found = select_runs(runs.store, RunSelection(before=before(runs, 30)))
    assert (found.runs, found.damaged) == ((), (old,))


def test_a_damaged_later_question_keeps_its_conversation_young(runs: DatedRuns) -> None:
    first = runs.add(40)
    later = runs.add(1, after=first)
    seal(runs, later)
    flip(runs.store.directory / later / EVENTS, 8 * 100)
    assert selected(runs, before=before(runs, 30)) == set()


def test_what_is_pinned_shared_or_continued_after_it_was_found_stays(runs: DatedRuns) -> None:
    pinned, shared, continued, kept, plain = (runs.add(days) for days in (44, 43, 42, 41, 40))
    busy: set[str] = set()
    selection = RunSelection(before=before(runs, 30), kept=lambda: busy)
    found = select_runs(runs.store, selection)
    assert set(found.runs) == {pinned, shared, continued, kept, plain}
    runs.store.change_meta(pinned, pinned=True)
    runs.store.change_meta(shared, shared=True)
    later = runs.add(0, after=continued)
    busy.add(kept)
    new = runs.add(50)
    assert delete_runs(runs.store, found, selection).runs == (plain,)
    assert set(runs.store.ids()) == {pinned, shared, continued, kept, later, new}


def test_each_conversation_is_looked_at_again_just_before_its_deletion(
    runs: DatedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {runs.add(days) for days in (44, 43, 42)}
    remove, left = RunStore.delete, set(old)

    def delete_and_continue(store: RunStore, run: str) -> None:
        remove(store, run)
        left.discard(run)
        for each in left:
            runs.add(0, after=each)

    monkeypatch.setattr(RunStore, "delete", delete_and_continue)
    assert len(delete(runs, before=before(runs, 30))) == 1


def test_a_run_whose_first_question_is_gone_is_a_conversation_of_its_own(runs: DatedRuns) -> None:
    first = runs.add(40)
    later = runs.add(39, after=first, pinned=True)
    runs.store.delete(first)
    assert selected(runs, before=before(runs, 30)) == set()
    runs.store.change_meta(later, pinned=False)
    assert selected(runs, before=before(runs, 30)) == {later}


@pytest.mark.slow
def test_a_process_that_dies_in_the_middle_leaves_whole_runs_alone(runs: DatedRuns) -> None:
    own = [runs.add(days, "alice") for days in range(1, 7)]
    other = runs.add(3, "bob")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, runs.store.directory], capture_output=True, text=True, check=False
    )
    assert done.returncode == 9, done.stderr
    left = runs.store.ids()
    assert other in left
    assert 0 < len(set(left) & set(own)) < len(own)
    for run in left:
        assert runs.store.read(run).has_end
    assert [name for name in listed(runs) if name.startswith(".")]
    delete(runs, owner="alice")
    assert listed(runs) == {other}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["alice", "bob"]), st.booleans()), max_size=8),
    st.integers(0, 60),
    st.sampled_from([None, "alice", "bob"]),
)
def test_what_is_deleted_is_what_was_meant(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[int, str, bool]],
    limit: int,
    owner: str | None,
) -> None:
    runs = shared(tmp_path_factory)
    firsts: dict[str, str] = {}
    groups: dict[str, list[tuple[str, float]]] = {}
    for days, name, follows in sorted(made, reverse=True):
        first = firsts.get(name, "") if follows else ""
        run = runs.add(days, name, after=first)
        firsts[name] = first or run
        groups.setdefault(first or run, []).append((run, days))
    expected = {
        run
        for first, members in groups.items()
        if min(days for _, days in members) > limit and owner in {None, runs.store.meta(first).owner}
        for run, _ in members
    }
    assert delete(runs, before=before(runs, limit), owner=owner) == expected
    assert set(runs.store.ids()) == {run for run, _ in itertools.chain(*groups.values())} - expected


def test_a_new_run_may_be_about_to_begin(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    directory = tmp_path / new_run_id()
    directory.mkdir()
    write_meta(directory, RunMeta(owner="alice"))
    assert select_runs(store, RunSelection(owner="alice")).runs == ()
