"""What the runs of a study have come to: read from their metrics files, and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.credit.runner import is_done
from benchmarks.credit.statistics import (
    Interval,
    bootstrap_mean,
    mean,
    median_wait,
    permutation_test,
    restricted_mean,
    sign_test,
    steps_to,
)
from vrag.errors import RunError
from vrag.rl.metrics import FILE, read_metrics, series

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.credit.setting import Job, Setting
    from benchmarks.credit.statistics import Wait
    from vrag.rl.metrics import TrainingMetrics

__all__ = ["Arm", "Contrast", "Difference", "Results", "Run", "results_of"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as far as it is."""

    job: Job
    records: tuple[TrainingMetrics, ...]
    wait: Wait
    """To the threshold."""
    final: float | None
    """Mean accuracy of the last evaluations; None while it is unfinished."""
    step: int
    """Of its last evaluation within the budget."""
    fault: str = ""
    """Why nothing can be told of it: it has not begun, or its file is damaged."""

    @property
    def state(self) -> str:
        """In words."""
        if self.fault:
            return self.fault
        return f"{'unfinished' if self.final is None else 'finished'}, at step {self.step:,}"


@dataclass(frozen=True, slots=True)
class Arm:
    """The runs of one arm that have begun."""

    name: str
    waits: tuple[Wait, ...]
    finished: int
    median: int | None
    """Steps by which half of the runs have reached the threshold; None when fewer did."""
    restricted: Interval | None
    """Mean steps, a run that never reaches it counting as the budget; without an interval while runs
    are unfinished."""
    final: Interval | None
    """Mean final accuracy of the finished runs."""

    @property
    def reached(self) -> int:
        """Runs that have reached the threshold."""
        return sum(wait.reached for wait in self.waits)


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two arms, over the seeds of which both runs are finished."""

    by_seed: tuple[float, ...]
    interval: Interval
    permutation: float
    sign: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Difference:
        """Counts the differences of the pairs."""
        return cls(tuple(values), bootstrap_mean(values), permutation_test(values), sign_test(values))


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm minus another one."""

    first: str
    second: str
    seeds: tuple[int, ...]
    """Of which both runs are finished."""
    final: Difference | None
    """Of the final accuracy; above 0 the first arm is better. None without a pair."""
    steps: Difference | None
    """Of the steps to the threshold, at most the budget; below 0 the first arm is faster."""


@dataclass(frozen=True, slots=True)
class Results:
    """All of it."""

    setting: Setting
    runs: tuple[Run, ...]
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]

    @property
    def lacking(self) -> tuple[Run, ...]:
        """Runs that are not finished."""
        return tuple(run for run in self.runs if run.final is None)


def results_of(folder: Path, setting: Setting) -> Results:
    """Reads the runs of a study, finished or not.

    Args:
        folder: Of the study, with a folder `<arm>-<seed>` for each run.
        setting: The frozen one.
    """
    runs = tuple(_run(folder, job, setting) for job in setting.jobs)
    arms = tuple(_arm(name, runs, setting) for name in setting.arms)
    contrasts = tuple(_contrast(*pair, runs, setting) for pair in setting.pairs)
    return Results(setting, runs, arms, contrasts)


def _run(study: Path, job: Job, setting: Setting) -> Run:
    folder = study / job.name
    if not folder.exists():
        return Run(job, (), steps_to((), setting.threshold, setting.budget_steps), None, 0, "missing")
    try:
        records = read_metrics(folder)
    except RunError as error:
        fault = f"nothing to read: {error.message}" if (folder / FILE).exists() else "begun, no metrics"
        return Run(job, (), steps_to((), setting.threshold, setting.budget_steps), None, 0, fault)
    points = [(step, y) for step, y in series(records, setting.measure) if step <= setting.budget_steps]
    wait = steps_to(points, setting.threshold, setting.budget_steps)
    at = points[-1][0] if points else 0
    over = bool(points) and (at >= setting.budget_steps or is_done(study, job))
    final = mean([value for _, value in points[-setting.final :]]) if over else None
    return Run(job, records, wait, final, at, "" if points else f"no {setting.measure} yet")


def _arm(name: str, runs: Sequence[Run], setting: Setting) -> Arm:
    own = [run for run in runs if run.job.arm == name and not run.fault]
    waits = tuple(run.wait for run in own)
    finals = [run.final for run in own if run.final is not None]
    return Arm(
        name,
        waits,
        len(finals),
        median_wait(waits),
        _restricted(own, setting) if own else None,
        bootstrap_mean(finals) if finals else None,
    )


def _restricted(runs: Sequence[Run], setting: Setting) -> Interval:
    """Of finished runs the mean of steps up to the budget; else by Kaplan and Meier, without an interval."""
    if all(run.final is not None for run in runs):
        return bootstrap_mean([_steps(run, setting) for run in runs])
    value = restricted_mean([run.wait for run in runs], setting.budget_steps)
    return Interval(value, float("nan"), float("nan"))


def _steps(run: Run, setting: Setting) -> float:
    return float(run.wait.steps if run.wait.reached else setting.budget_steps)


def _contrast(first: str, second: str, runs: Sequence[Run], setting: Setting) -> Contrast:
    found = {(run.job.arm, run.job.seed): run for run in runs if run.final is not None}
    seeds = tuple(s for s in setting.seeds if (first, s) in found and (second, s) in found)
    pairs = [(found[first, seed], found[second, seed]) for seed in seeds]
    finals = [(one.final or 0.0) - (other.final or 0.0) for one, other in pairs]
    steps = [_steps(one, setting) - _steps(other, setting) for one, other in pairs]
    if not pairs:
        return Contrast(first, second, (), None, None)
    return Contrast(first, second, seeds, Difference.of(finals), Difference.of(steps))
