from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from stored_events import strip_checksums

from vrag.agent.events import RunFailed, StopReason
from vrag.agent.runs.run_checks import check_runs
from vrag.agent.runs.run_meta import RunMeta
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError
from vrag.index.integrity.problems import ProblemKind


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs", tmp_path)


@pytest.fixture
def run(store: RunStore) -> Path:
    """The directory of a finished run with a file."""
    return record(store)


def record(store: RunStore) -> Path:
    data = b"a picture"
    with store.record(RunMeta(owner="ada")) as log:
        log.save(f"{hashlib.sha256(data).hexdigest()}.jpg", data)
        for number, step in enumerate((0, 1)):
            log.write(
                RunFailed(
                    run_id=log.id,
                    seq=number,
                    ts=1.0,
                    step=step,
                    boundary="ModelError",
                    message=f"No {number}",
                    stop_reason=StopReason.MODEL_ERROR,
                )
            )
    return log.directory


def flip(path: Path, bit: int) -> bytes:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return bytes(data)


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock")


def test_a_sound_run_has_no_problems(store: RunStore, run: Path) -> None:
    assert check_runs(store) == (1, ())


def test_every_flipped_bit_is_found_named_and_flipped_back(store: RunStore, run: Path) -> None:
    for path in files_of(run):
        sound = path.read_bytes()
        for bit in range(0, 8 * len(sound), 409):
            flip(path, bit)
            problems = check_runs(store, repair=True).problems
            place = path.relative_to(store.directory.parent).as_posix()
            assert place in [p.file for p in problems if p.kind is ProblemKind.DAMAGE], (place, bit)
            assert path.read_bytes() == sound, (place, bit)
            assert all(problem.repaired for problem in problems)


def test_a_cut_off_end_of_a_finished_run_is_damage(store: RunStore, run: Path) -> None:
    events = run / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(lines[0])
    [problem] = check_runs(store, repair=True).problems
    assert (problem.kind, problem.repaired) == (ProblemKind.DAMAGE, False)
    assert "1 lines are left" in problem.detail
    assert events.read_bytes() == lines[0], "nothing of it is deleted"


@pytest.mark.parametrize("line", [b"", b"{}"])
def test_a_line_that_is_too_short_for_a_checksum_is_damage(store: RunStore, run: Path, line: bytes) -> None:
    events = run / "events.jsonl"
    first, second = events.read_bytes().splitlines(keepends=True)
    damaged = first + line + b"\n" + second
    events.write_bytes(damaged)
    problems = check_runs(store, repair=True).problems
    assert "Line 2 is damaged: its checksum does not match." in [problem.detail for problem in problems]
    assert events.read_bytes() == damaged


def test_a_torn_line_of_a_killed_run_is_a_leftover(store: RunStore, run: Path) -> None:
    (run / "end.json").unlink()
    (run / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes()[:-5])
    assert [problem.kind for problem in check_runs(store).problems] == [ProblemKind.LEFTOVER]


def test_a_run_whose_list_of_files_met_a_full_disk_is_recorded_and_a_leftover(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("vrag.agent.runs.run_store.write_whole", refuse)
        run = record(store)
    assert "end.json cannot be written: No space left on device." in caplog.text
    [problem] = check_runs(store).problems
    assert (problem.kind, problem.file) == (ProblemKind.LEFTOVER, f"runs/{run.name}/end.json")
    assert [problem.repaired for problem in check_runs(store, repair=True).problems] == [True]
    assert check_runs(store) == (1, ())


def test_reading_refuses_a_damaged_line(store: RunStore, run: Path) -> None:
    flip(run / "events.jsonl", 8 * 150)
    with pytest.raises(RunError, match=r"Line 1 .* verify --repair"):
        store.read(run.name)


def test_runs_of_earlier_versions_are_sound(store: RunStore, run: Path) -> None:
    strip_checksums(run / "events.jsonl")
    (run / "end.json").unlink()
    assert check_runs(store) == (1, ())
