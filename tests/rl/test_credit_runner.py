"""The study is run once and whole, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.credit.__main__ import main
from benchmarks.credit.runner import Study, beside, is_done
from benchmarks.credit.setting import Job, Setting
from vrag.rl.metrics import read_metrics

if TYPE_CHECKING:
    from collections.abc import Callable

TRAINER = Path(__file__).with_name("credit_trainer.py")
ROOT = Path(__file__).parents[2]
MOST_SECONDS = 20.0


def setting(*flags: str, seeds: tuple[int, ...] = (1, 2), parallel: int = 4) -> Setting:
    line = "--out {out} --seed {seed} --steps {steps} --every {every} --arm {arm}"
    return Setting(
        command=("{python}", "-S", str(TRAINER), *line.split(), *flags),
        arms={"grpo": (), "ggpo": ()},
        seeds=seeds,
        threshold=0.6,
        budget_steps=10,
        evaluate_every=2,
        parallel=parallel,
    )


def quiet(_: str) -> None:
    """Nobody reads what is told."""


def starts(folder: Path) -> dict[str, int]:
    return {found.parent.name: len(found.read_text()) for found in folder.glob("*/starts")}


def steps(folder: Path) -> list[int]:
    return [record.step for record in read_metrics(folder)]


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def begin(folder: Path, study: Setting) -> subprocess.Popen[bytes]:
    """The runner, as a process of its own."""
    folder.mkdir(exist_ok=True)
    file = folder / "setting.json"
    file.write_text(json.dumps(study.as_dict()))
    line = [sys.executable, "-m", "benchmarks.credit", str(folder), "--setting", str(file)]
    return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_all_runs_are_run_once_and_finished_ones_not_again(tmp_path: Path) -> None:
    file = tmp_path / "setting.json"
    file.write_text(json.dumps(setting().as_dict()))
    out = tmp_path / "study"
    assert main([str(out), "--setting", str(file)]) == 0
    assert starts(out) == dict.fromkeys(["grpo-1", "ggpo-1", "grpo-2", "ggpo-2"], 1)
    assert all(steps(out / name) == list(range(1, 11)) for name in starts(out))
    assert "All 4 runs are finished." in (out / "report.md").read_text()
    assert (out / "curves.svg").exists()
    assert main([str(out)]) == 0  # the setting is the frozen one
    assert set(starts(out).values()) == {1}
    told: list[str] = []
    assert Study(out, setting(), told.append).run() == []
    assert told == ["4 of 4 runs are finished."]


@pytest.mark.slow
def test_two_runners_of_one_study_start_no_run_twice(tmp_path: Path) -> None:
    study = setting("--wait", ".05", seeds=(1,))
    with begin(tmp_path, study) as runner:
        wait_until(lambda: len(starts(tmp_path)) == 2)
        outcomes = Study(tmp_path, study, quiet).run()
        assert runner.wait(MOST_SECONDS) == 0
    assert [outcome.status for outcome in outcomes] == [0, 0]
    assert starts(tmp_path) == {"grpo-1": 1, "ggpo-1": 1}


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_goes_on_at_the_next_call(tmp_path: Path) -> None:
    study = setting("--fail-at", "5", seeds=(1,))
    told: list[str] = []
    outcomes = Study(tmp_path, study, told.append).run()
    assert [outcome.status for outcome in outcomes] == [3, 3]
    assert any("grpo-1: failed with status 3" in line for line in told)
    assert not is_done(tmp_path, Job("grpo", 1))
    assert f"--out {tmp_path / 'grpo-1'} --seed 1" in beside(tmp_path, Job("grpo", 1), "log").read_text()
    assert [outcome.status for outcome in Study(tmp_path, study, quiet).run()] == [0, 0]
    assert steps(tmp_path / "grpo-1") == list(range(1, 11))


@pytest.mark.slow
def test_a_killed_runner_loses_nothing_and_no_run_is_started_beside_itself(tmp_path: Path) -> None:
    study = setting("--wait", ".08", seeds=(1,))
    with begin(tmp_path, study) as runner:
        wait_until(lambda: len(list(tmp_path.glob("*/checkpoint"))) == 2)
        runner.kill()
    assert starts(tmp_path) == {"grpo-1": 1, "ggpo-1": 1}
    told: list[str] = []
    Study(tmp_path, study, told.append).run()  # while the trainers of the killed one still run
    assert any("still runs, from before" in line for line in told)
    for name in ("grpo-1", "ggpo-1"):
        assert steps(tmp_path / name) == list(range(1, 11))
        assert is_done(tmp_path, Job(name.removesuffix("-1"), 1))


@pytest.mark.slow
def test_a_killed_trainer_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    study = setting("--wait", ".02", seeds=(1,), parallel=1)
    with begin(tmp_path, study) as runner:
        wait_until((tmp_path / "grpo-1" / "checkpoint").exists)
        runner.kill()
    os.kill(_trainer(tmp_path / "grpo-1"), signal.SIGKILL)
    Study(tmp_path, study, quiet).run()
    assert starts(tmp_path) == {"grpo-1": 2, "ggpo-1": 1}
    assert steps(tmp_path / "grpo-1") == list(range(1, 11))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_runner_ends_its_trainers_first(tmp_path: Path, sent: signal.Signals) -> None:
    study = setting("--wait", "5", seeds=(1,))
    with begin(tmp_path, study) as runner:
        wait_until(lambda: len(starts(tmp_path)) == 2)
        trainers = [_trainer(tmp_path / name) for name in starts(tmp_path)]
        runner.send_signal(sent)
        assert runner.wait(MOST_SECONDS) == 130
    assert not any(_runs(pid) for pid in trainers)
    assert not any(is_done(tmp_path, job) for job in study.jobs)


def _trainer(folder: Path) -> int:
    return int((folder / "pid").read_text())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
