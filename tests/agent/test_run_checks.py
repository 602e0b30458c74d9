"""Damage of recorded runs is found and named; a repair keeps every run that can be read."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest

from vrag.agent.events import RunFailed, StopReason
from vrag.agent.runs.run_checks import check_runs
from vrag.agent.runs.run_meta import RunMeta
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError
from vrag.index.integrity.problems import ProblemKind
from vrag.storage import rescue

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = b"a picture"
SHA = hashlib.sha256(PICTURE).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs", tmp_path)


def failed(run: str, number: int, message: str) -> RunFailed:
    return RunFailed(
        run_id=run,
        seq=number,
        ts=1.0,
        step=0,
        boundary="ModelError",
        message=message,
        stop_reason=StopReason.MODEL_ERROR,
    )


def record(store: RunStore, word: str = "no", events: int = 2) -> str:
    with store.record(RunMeta(owner="ada")) as log:
        log.save(f"{SHA}.jpg", PICTURE)
        for number in range(events):
            log.write(failed(log.id, number, f"{word} {number} " * 400))
    return log.id


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 16
    path.write_bytes(data)


def test_sound_runs_have_no_problems(store: RunStore) -> None:
    assert check_runs(store) == (0, ())
    record(store)
    record(store)
    assert check_runs(store) == (2, ())


def test_a_flipped_bit_of_any_page_is_found_and_the_whole_runs_are_kept(store: RunStore) -> None:
    runs = [record(store, f"word{number}") for number in range(4)]
    path = store.files.path
    sound = path.read_bytes()
    kept: list[int] = []
    for page in range(1, len(sound) // 4096):
        path.write_bytes(sound)
        flip(path, page * 4096 + 2000)
        found = check_runs(store).problems
        assert [(p.kind, p.file) for p in found] == [(ProblemKind.DAMAGE, "runs/runs.db")] * len(found)
        assert found, page
        try:
            repaired = check_runs(store, repair=True)
        except RunError as error:
            assert "damaged beyond repair" in error.message  # noqa: PT017 - of the table of all runs
            continue
        kept.append(repaired.runs)
        lost = {problem.subject for problem in repaired.problems if not problem.repaired}
        assert lost == {f"run {run}" for run in set(runs) - set(store.ids())}
        assert check_runs(store).problems == ()
        assert len(store.files.select("1 FROM events")) == 2 * len(store.ids())
        path.with_name("runs.db.damaged").unlink()
    assert len(kept) > 4
    assert min(kept) >= 2, "a page has events of two runs at most"


def test_a_missing_event_is_damage(store: RunStore) -> None:
    run = record(store)
    with store.changing() as connection:
        connection.execute("DELETE FROM events WHERE number = (SELECT max(number) FROM events)")
    [problem] = check_runs(store, repair=True).problems
    assert (problem.kind, problem.repaired, problem.subject) == (ProblemKind.DAMAGE, False, f"run {run}")
    assert problem.detail == "It has 1 of 2 events."


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_picture_is_named_with_its_runs(store: RunStore, is_gone: bool) -> None:
    run, other = record(store), record(store)
    path = store.files.blobs.path(SHA)
    path.unlink() if is_gone else flip(path, 3)
    [problem] = check_runs(store, repair=True).problems
    word = "missing" if is_gone else "damaged"
    assert problem.detail == f"A picture of it, and of 1 more, is {word}."
    assert (problem.subject, problem.file) == (f"run {run}", f"runs/blobs/{SHA[:2]}/{SHA}")
    assert not problem.repaired
    with pytest.raises(OSError, match=r"it is damaged|No such file"):
        store.read_file(other, SHA)


def test_files_that_no_run_names_are_a_leftover_and_removed(store: RunStore) -> None:
    record(store)
    store.files.blobs.put(b"stray")
    store.files.blobs.sync()
    path = store.files.blobs.path(hashlib.sha256(b"stray").hexdigest())
    assert check_runs(store).problems == (), "somebody may be about to name it"
    old = time.time() - 7200
    os.utime(path, (old, old))
    assert [problem.kind for problem in check_runs(store).problems] == [ProblemKind.LEFTOVER]
    assert [problem.repaired for problem in check_runs(store, repair=True).problems] == [True]
    assert not path.exists()


def test_a_damaged_log_is_named_before_its_events_are_dropped(store: RunStore) -> None:
    with store.record() as log:
        for number in range(3):
            log.write(failed(log.id, number, "x" * 5000))
        wal = store.files.path.with_name("runs.db-wal")
        copy = wal.read_bytes(), store.files.path.read_bytes()
    other = store.directory.parent / "copy"
    other.mkdir()
    (other / "runs.db").write_bytes(copy[1])
    (other / "runs.db-wal").write_bytes(copy[0])
    flip(other / "runs.db-wal", 3000)
    with pytest.raises(RunError, match=r"of the log runs\.db-wal"):
        RunStore(other).ids()
    assert "log" in check_runs(RunStore(other)).problems[0].detail


def test_runs_are_not_repaired_while_some_are_recorded(store: RunStore) -> None:
    record(store, events=8)
    with store.record() as log:
        store.files.find().checkpoint()  # type: ignore[union-attr]
        flip(store.files.path, 3 * 4096 + 200)
        with pytest.raises(RunError, match="Questions are being answered"):
            check_runs(RunStore(store.directory, durable=False), repair=True)
    assert log.id


def test_events_that_are_lost_with_a_damaged_log_are_not_called_repaired(store: RunStore) -> None:
    with store.record() as log:
        for number in range(3):
            log.write(failed(log.id, number, "x" * 5000))
        other = store.directory.parent / "copy"
        other.mkdir()
        for name in ("runs.db", "runs.db-wal"):
            (other / name).write_bytes(store.files.path.with_name(name).read_bytes())
    flip(other / "runs.db-wal", 3000)
    report = check_runs(RunStore(other), repair=True)
    assert [
        "Events that were recorded last are lost" in each.detail
        for each in report.problems
        if not each.repaired
    ] == [True]
    assert RunStore(other).ids() == []


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code catches it."""


def kill(*_: object) -> None:
    raise Killed


def test_a_repair_that_was_killed_is_finished_and_hides_no_run_meanwhile(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [record(store), record(store)]
    flip(store.files.path, store.files.path.stat().st_size - 4096 + 2000)
    monkeypatch.setattr(rescue, "replace_file", kill)
    with pytest.raises(Killed):
        check_runs(store, repair=True)
    monkeypatch.undo()
    with pytest.raises(RunError, match="was interrupted"):
        store.ids()
    with pytest.raises(RunError, match="was interrupted"):
        record(store)
    assert [problem.kind for problem in check_runs(store).problems] == [ProblemKind.DAMAGE]
    check_runs(store, repair=True)
    assert set(store.ids()) <= set(runs)
    assert store.ids()
    assert check_runs(store).problems == ()
