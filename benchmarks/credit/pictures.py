"""The study as a picture: of each arm the mean over its seeds, and between which values they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.credit.statistics import kaplan_meier, mean
from vrag.rl.metrics import series
from vrag.rl.plots import (
    Chart,
    Curve,
    Panel,
    PlottedTraining,
    draw_svg,
    measure_of,
    measures_of,
    running_mean,
    shows,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.credit.results import Results
    from benchmarks.credit.statistics import Wait
    from vrag.rl.metrics import TrainingMetrics
    from vrag.rl.plots import Measure

__all__ = ["reached_panel", "study_svg"]


def study_svg(results: Results) -> str:
    """The picture as an SVG file: the measure of the study first, marked at the threshold."""
    setting = results.setting
    lines = [PlottedTraining(run.job.name, run.records) for run in results.runs if run.records]
    window = window_of(lines)
    apart = {setting.measure, "seconds"}
    others = [one for one in measures_of(lines) if one.name not in apart and shows(one, lines)]
    first = [_panel(one, results, window) for one in others if one.name.startswith("eval/")]
    rest = [_panel(one, results, window) for one in others if not one.name.startswith("eval/")]
    goal = measure_of(setting.measure)
    runs = f"{len(setting.arms)} arms × {len(setting.seeds)} paired seeds, {setting.budget_steps:,} steps. "
    told = "Lines: mean of the seeds; fields: from the least to the greatest; dashes: the threshold."
    smooth = f" What is measured at each step: mean of the last {window}." if window > 1 else ""
    arms = (f"{arm.name}: {arm.reached} of {len(arm.waits)} runs reached it" for arm in results.arms)
    return draw_svg(
        Chart(
            title="Credit by the graph, or for the whole trajectory",
            subtitle=f"{runs}{told}{smooth}",
            description=f"{goal.title}, threshold {setting.threshold:g}. {'; '.join(arms)}.",
            groups={
                "What is compared": [
                    _panel(goal, results, window, goal=setting.threshold),
                    reached_panel(results),
                    *first,
                ],
                "How they got there": rest,
            },
            legend=[arm.name for arm in results.arms],
        )
    )


def _panel(measure: Measure, results: Results, window: int, goal: float | None = None) -> Panel:
    curves = [
        _curve(
            arm.name, color, [run.records for run in results.runs if run.job.arm == arm.name], measure, window
        )
        for color, arm in enumerate(results.arms)
    ]
    return Panel(
        title=measure.title,
        unit=measure.unit,
        span=measure.span,
        curves=curves,
        goal=None if goal is None else goal * measure.factor,
    )


def reached_panel(results: Results) -> Panel:
    """The share of runs that has reached the threshold by each step, by Kaplan and Meier."""
    curves = [
        Curve(name=arm.name, color=color, points=_stairs(arm.waits, results.setting.budget_steps))
        for color, arm in enumerate(results.arms)
    ]
    return Panel(title="At the threshold", unit="% of runs, by that step", span=(0, 100), curves=curves)


def _stairs(waits: Sequence[Wait], budget: int) -> list[tuple[float, float]]:
    """The curve as far as runs were watched, with its steps upright."""
    if not waits:
        return []
    points, share = [(0.0, 0.0)], 0.0
    for step, left in kaplan_meier(waits):
        points += [(step, share), (step, 100 * (1 - left))]
        share = 100 * (1 - left)
    end = budget if all(wait.reached for wait in waits) else max(wait.steps for wait in waits)
    return [*points, (end, share)]


def _curve(
    name: str, color: int, runs: Sequence[Sequence[TrainingMetrics]], measure: Measure, window: int
) -> Curve:
    """The mean over the seeds, as far as every one of them is that has begun."""
    smooth = window if measure.smooth else 1
    lines = [dict(running_mean(series(records, measure.name), smooth)) for records in runs]
    lines = [line for line in lines if line]
    shared = [step for step in lines[0] if all(step in line for line in lines)] if lines else []
    values = [(step, [line[step] * measure.factor for line in lines]) for step in shared]
    return Curve(
        name=name,
        color=color,
        points=[(step, mean(those)) for step, those in values],
        band=[(step, min(those), max(those)) for step, those in values] if len(lines) > 1 else (),
        markers=not measure.smooth,
    )
