"""The course of one training or of several, as small pictures: one for each measure, alike in their steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.render.drawing.axes import short
from vrag.rl.metrics import names, series
from vrag.rl.plotting.svg_charts import FEW, Curve, CurveGroup, Panel, PanelSheet, sheet_svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vrag.rl.metrics import TrainingMetrics
    from vrag.rl.plotting.svg_charts import Points

__all__ = [
    "GROUPS",
    "Measure",
    "PlottedTraining",
    "curves_svg",
    "measure_of",
    "measures_of",
    "running_mean",
    "shows",
    "window_of",
]


@dataclass(frozen=True, slots=True)
class PlottedTraining:
    """A training and what it is called."""

    name: str
    records: tuple[TrainingMetrics, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """How a measure is drawn; which there are says `vrag.rl.metrics.TrainingMetrics`."""

    name: str
    title: str
    unit: str
    span: tuple[float, float] | None = None
    """Ends of its axis, in its unit; by the values when None."""
    quiet: bool = False
    """Whether it is left out while it is 0 throughout: a count of what should not happen."""
    smooth: bool = True
    """Whether it is measured at every step, so that a running mean tells more than the values."""

    @property
    def factor(self) -> float:
        """From what the file has to what is drawn."""
        return 100.0 if self.unit.startswith("%") else 1.0


_SHARE, _PERCENT = (0.0, 1.0), (0.0, 100.0)
GROUPS: Mapping[str, tuple[Measure, ...]] = {
    "Is it getting better?": (
        Measure("reward", "Reward", "mean of the rollouts, 0 to 1", _SHARE),
        Measure("reward/retrieval", "Reward: retrieval", "nDCG of the pages shown", _SHARE),
        Measure("reward/answer", "Reward: answer", "by the judge", _SHARE),
        Measure("reward/pattern", "Reward: pattern", "follows the grammar", _SHARE),
        Measure("accuracy", "Accuracy of rollouts", "% of answers found correct", _PERCENT),
    ),
    "And on held-out cases?": (
        Measure("eval/accuracy", "Accuracy, held out", "% of answers found correct", _PERCENT, smooth=False),
        Measure("eval/reward", "Reward, held out", "mean of the cases, 0 to 1", _SHARE, smooth=False),
        Measure("eval/missing", "Missing, held out", "cases without a reward", quiet=True, smooth=False),
    ),
    "How does it behave?": (
        Measure("calls", "Calls", "of the model, in a rollout"),
        Measure("tokens", "Length", "tokens sampled in a rollout"),
        Measure("invalid", "Invalid turns", "% of turns without an action"),
        Measure("masked", "Masked", "% of segments without gradient", quiet=True),
        Measure("skipped", "Skipped", "% of rows that teach nothing", quiet=True),
        Measure("missing", "Missing rewards", "rollouts of a step", quiet=True),
        Measure("failed", "Failed", "rollouts of a step", quiet=True),
        Measure("dropped", "Dropped", "replies of a step that make no row", quiet=True),
    ),
    "Is the update healthy?": (
        Measure("kl", "KL", "to the reference, nats a token"),
        Measure("entropy", "Entropy", "of the policy, nats a token"),
        Measure("grad_norm", "Gradient norm", "before clipping"),
        Measure("loss", "Loss", "of the policy"),
        Measure("policy", "Policy term", "of the loss, without KL and entropy"),
        Measure("clipped", "Clipped", "% of the ratios", quiet=True),
        Measure("ratio", "Ratio", "new over old probability"),
        Measure("drift", "Drift", "from the policy that sampled, nats a token"),
        Measure("seconds", "Time", "seconds of a step"),
        Measure("seconds/rollouts", "Time of rollouts", "seconds of a step"),
        Measure("seconds/update", "Time of the update", "seconds of a step"),
        Measure("tokens_per_second/rollouts", "Speed of rollouts", "tokens sampled in a second"),
        Measure("tokens_per_second/update", "Speed of the update", "tokens of rows in a second"),
    ),
}
"""What is drawn, and in which order. Other parts of rewards join the first group, other measures of the
evaluation the second; what else there is ends the last."""
_KNOWN = {measure.name: measure for group in GROUPS.values() for measure in group}


def curves_svg(trainings: Sequence[PlottedTraining], title: str = "") -> str:
    """The picture of trainings as an SVG file that stands alone; equal trainings give equal files.

    Values are drawn thin and their running mean strong; evaluations, of which there are few, as dots.

    Args:
        trainings: In the order of their colours.
        title: Of the picture; the name of the only training when empty.
    """
    window = window_of(trainings)
    groups = [
        CurveGroup(
            heading,
            [_panel(measure, trainings, window) for measure in measures if shows(measure, trainings)],
        )
        for heading, measures in _measures(trainings).items()
    ]
    alone = trainings[0].name if len(trainings) == 1 else ""
    return sheet_svg(
        PanelSheet(
            title=title or (f"Training {alone}" if alone else f"{len(trainings)} trainings"),
            told=_told(trainings, window),
            description=" ".join(map(_described, trainings)),
            groups=groups,
            legend=[training.name for training in trainings],
        )
    )


def measure_of(name: str) -> Measure:
    """How a measure is drawn, of any name.

    >>> measure_of("eval/retrieval").title
    'Retrieval, held out'
    """
    if name in _KNOWN:
        return _KNOWN[name]
    kind, _, rest = name.partition("/")
    told = rest.replace("_", " ").replace("/", " ")
    if kind == "reward" and rest:
        return Measure(name, f"Reward: {told}", "mean of the rollouts", _SHARE)
    if kind == "eval" and rest.startswith("reward/"):
        told = measure_of(rest).title
        return Measure(name, f"{told}, held out", "mean of the cases", _SHARE, smooth=False)
    if kind == "eval" and rest:
        return Measure(name, f"{told[:1].upper()}{told[1:]}, held out", "mean of the cases", smooth=False)
    return Measure(name, name, "")


def measures_of(trainings: Sequence[PlottedTraining]) -> list[Measure]:
    """What was measured at least once, in the order in which it is drawn."""
    found = names(record for training in trainings for record in training.records)
    return [one for group in _measures(trainings).values() for one in group if one.name in found]


def shows(measure: Measure, trainings: Sequence[PlottedTraining]) -> bool:
    """Whether a measure has anything to show: a value, and a quiet one another than 0."""
    values = [value for training in trainings for _, value in series(training.records, measure.name)]
    return any(values) if measure.quiet else bool(values)


def running_mean(points: Points, window: float) -> list[tuple[float, float]]:
    """At each step the mean over the steps within the window that ends there.

    Args:
        points: Steps and values, by step.
        window: Its length in steps; of 1 or less each value alone.

    >>> running_mean([(1, 4.0), (2, 2.0), (3, 0.0)], 2)
    [(1, 4.0), (2, 3.0), (3, 1.0)]
    """
    held: deque[tuple[float, float]] = deque()
    means: list[tuple[float, float]] = []
    for step, value in points:
        held.append((step, value))
        while held[0][0] <= step - max(window, 1):
            held.popleft()
        means.append((step, sum(value for _, value in held) / len(held)))
    return means


def window_of(trainings: Iterable[PlottedTraining]) -> int:
    """Steps over which lines are smoothed: at most a twelfth of the longest training; 1 when it is short."""
    steps = max((record.step for training in trainings for record in training.records), default=0)
    return next((size for size in (500, 250, 100, 50, 25, 10, 5) if size <= steps / 12), 1)


def _measures(trainings: Sequence[PlottedTraining]) -> dict[str, list[Measure]]:
    groups = {heading: list(measures) for heading, measures in GROUPS.items()}
    first, held_out, *_, last = groups
    found = names(record for training in trainings for record in training.records)
    for measure in (measure_of(name) for name in found if name not in _KNOWN):
        kind, slash, _ = measure.name.partition("/")
        group = {"reward": first, "eval": held_out}.get(kind, last) if slash else last
        at = -1 if group == first else len(groups[group])  # accuracy stays the last of the first
        groups[group].insert(at, measure)
    return groups


def _panel(measure: Measure, trainings: Sequence[PlottedTraining], window: int) -> Panel:
    curves = [_curve(measure, shade, training, window) for shade, training in enumerate(trainings)]
    return Panel(title=measure.title, unit=measure.unit, span=_span(measure, curves), curves=curves)


def _curve(measure: Measure, shade: int, training: PlottedTraining, window: int) -> Curve:
    points = [(step, value * measure.factor) for step, value in series(training.records, measure.name)]
    if not measure.smooth:
        return Curve(name=training.name, shade=shade, strong=points, dots=True)
    thin = points if window > 1 else ()
    return Curve(name=training.name, shade=shade, strong=running_mean(points, window), thin=thin)


def _span(measure: Measure, curves: Sequence[Curve]) -> tuple[float, float] | None:
    """The usual ends, as far as the values stay within them: rewards of others may not."""
    if measure.span is None:
        return None
    low, high = measure.span
    inside = all(low <= y <= high for curve in curves for _, y in (*curve.strong, *curve.thin))
    return measure.span if inside else None


def _extent(trainings: Sequence[PlottedTraining]) -> str:
    ends = [max((record.step for record in one.records), default=0) for one in trainings]
    if len(set(ends)) < 2:
        return f"{ends[0] if ends else 0:,} steps"
    return f"{min(ends):,} to {max(ends):,} steps"


def _told(trainings: Sequence[PlottedTraining], window: int) -> str:
    smooth = f" Strong lines: mean of the last {window} steps." if window > 1 else ""
    thin = " Thin: each step." if smooth and len(trainings) <= FEW else ""
    return f"{_extent(trainings)}.{smooth}{thin}"


def _described(training: PlottedTraining) -> str:
    """What the lines of a training do, in words."""
    told = [_course(measure_of(name), training) for name in names(training.records)]
    return f"{training.name}: {'; '.join(told) or 'nothing measured yet'}."


def _course(measure: Measure, training: PlottedTraining) -> str:
    points = series(training.records, measure.name)
    (first, begin), (last, end) = points[0], points[-1]
    sign = "%" if measure.factor > 1 else ""
    values = [
        f"{short(value * measure.factor)}{sign} at step {step}"
        for step, value in ((first, begin), (last, end))
    ]
    return f"{measure.title} {' to '.join(values if first < last else values[:1])}"
