"""Deletion of runs by age: what goes, what stays, and what a killed process leaves."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from dated_runs import DatedRuns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vrag.agent.runs.retention import (
    RunOutcome,
    RunPurge,
    RunSelection,
    begin_time,
    delete_runs,
    select_runs,
)
from vrag.agent.runs.run_store import RunStore, new_run_id
from vrag.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

KILLED = """
import os, sys
from pathlib import Path
from vrag.agent.runs import run_store
from vrag.agent.runs.retention import RunSelection, delete_runs, select_runs

def die(connection, numbers):
    delete_rows(connection, numbers)
    os._exit(9)

delete_rows, run_store.delete_rows = run_store.delete_rows, die
store = run_store.RunStore(Path(sys.argv[1]))
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
    size = sum(row.bytes for row in runs.store.rows() if row.id in found.runs)
    assert found.bytes == size > 0, "the others have the same files"
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
    with runs.store.record(run=f"{runs.now - timedelta(days=40):%Y%m%d-%H%M%S}-000000-abcd") as log:
        assert selected(runs) == set()
        found = RunPurge((log.id,))
        assert delete_runs(runs.store, found, RunSelection()).runs == ()
    assert selected(runs) == {log.id}, "its process did not write an event"


def test_runs_of_other_names_stay(runs: DatedRuns) -> None:
    runs.store.add("a1", [], {})
    unbegun = runs.add(40, "alice", ended="unbegun")
    assert delete(runs, before=before(runs, 30)) == {unbegun}
    assert runs.store.ids() == ["a1"]


SHARED: list[DatedRuns] = []
"""One store for all examples: recording a run takes longer than copying it."""


def shared(factory: pytest.TempPathFactory) -> DatedRuns:
    """The shared store, without runs."""
    if not SHARED:
        SHARED.append(DatedRuns(factory.mktemp("many") / "runs"))
    for run in SHARED[0].store.ids():
        SHARED[0].store.delete(run)
    return SHARED[0]


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


def test_a_damaged_database_deletes_nothing(runs: DatedRuns) -> None:
    kept = {runs.add(40) for _ in range(3)}
    data = bytearray(runs.store.files.path.read_bytes())
    found = select_runs(runs.store, RunSelection())
    path = runs.store.directory.parent / "copy"
    path.mkdir()
    for at in range(100, len(data), 4096):
        damaged = bytearray(data)
        damaged[at] ^= 1
        (path / "runs.db").write_bytes(damaged)
        with suppress(RunError):
            delete_runs(RunStore(path), found, RunSelection())
            continue
        (path / "runs.db").write_bytes(data)
        assert set(RunStore(path).ids()) == kept
        for file in path.glob("runs.db*"):
            file.unlink()


def test_a_run_whose_first_question_is_gone_is_a_conversation_of_its_own(runs: DatedRuns) -> None:
    first = runs.add(40)
    later = runs.add(39, after=first, pinned=True)
    runs.store.delete(first)
    assert selected(runs, before=before(runs, 30)) == set()
    runs.store.change_meta(later, pinned=False)
    assert selected(runs, before=before(runs, 30)) == {later}


@pytest.mark.slow
def test_a_process_that_dies_in_the_middle_deletes_all_or_nothing(runs: DatedRuns) -> None:
    own = [runs.add(days, "alice") for days in range(1, 7)]
    other = runs.add(3, "bob")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, runs.store.directory], capture_output=True, text=True, check=False
    )
    assert done.returncode == 9, done.stderr
    assert set(runs.store.ids()) == {other, *own}
    for run in own:
        assert runs.store.read(run).has_end
    delete(runs, owner="alice")
    assert runs.store.ids() == [other]


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
