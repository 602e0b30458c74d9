"""Charts of trainings, drawn with matplotlib: a small panel for each measure, all with the same steps."""

from __future__ import annotations

import html
import io
import math
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vrag.embed.device import library
from vrag.errors import MissingExtra
from vrag.render.axes import short
from vrag.render.markup import SvgDrawing
from vrag.render.text_format import printable
from vrag.rl.metrics import TrainingMetrics, names, series

Points: TypeAlias = "Sequence[tuple[float, float]]"
"""Steps and values, by step."""
MAX_LABELLED = 6
"""Curves of a panel that get their raw values drawn and their last value written."""
COLUMNS, COLORS = 3, 10
"""Panels side by side; colours, after which they repeat with dashes."""
WIDTH, PANEL_HEIGHT, HEADING_HEIGHT, MARGIN = 14.0, 2.7, 0.4, 0.4
"""Inches."""
LABEL_GAP = 0.085
"""Least distance of two values at the ends of lines, as a share of the panel's height."""
DARK_STYLE = (
    "<style>@media (prefers-color-scheme: dark) "
    "{ #figure_1 { filter: invert(0.9) hue-rotate(180deg); } }</style>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a panel."""

    name: str
    color: int
    """Its number among the curves of the chart."""
    points: Points
    """The line to follow; its last value is written at its end."""
    raw: Points = ()
    """The values before they were smoothed, drawn thin."""
    band: Sequence[tuple[float, float, float]] = ()
    """Step, least and greatest value."""
    markers: bool = False
    """True if each point is marked: there are few, and between them nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measure."""

    title: str
    unit: str
    """Unit of the values; if it begins with `%`, the last values have that sign."""
    curves: Sequence[Curve]
    span: tuple[float, float] | None = None
    """Ends of its axis; by the values when None."""
    goal: float | None = None
    """A value to mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The whole figure."""

    title: str
    subtitle: str
    description: str
    """For screen readers."""
    groups: Mapping[str, Sequence[Panel]]
    """Panels by heading."""
    legend: Sequence[str] = ()
    """Names of the curves by colour; with a single one there is no legend."""


@dataclass(frozen=True, slots=True)
class PlottedTraining:
    """A training and its name."""

    name: str
    records: tuple[TrainingMetrics, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """The presentation of a measure; `vrag.rl.metrics.TrainingMetrics` lists them."""

    name: str
    title: str
    unit: str
    span: tuple[float, float] | None = None
    """Ends of its axis, in its unit; by the values when None."""
    quiet: bool = False
    """True if it is left out while it is 0 throughout: a count of what should not happen."""
    smooth: bool = True
    """True if it is measured at every step, so that a running mean tells more than the values."""

    @property
    def factor(self) -> float:
        """From the value in the file to the value drawn."""
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
        Measure("drift", "Drift", "|log-probability − the sampler's|, nats a token"),
        Measure("truncated", "Truncated", "% of the importance weights", quiet=True),
        Measure("seconds", "Time", "seconds of a step"),
        Measure("seconds/rollouts", "Time of rollouts", "seconds of a step"),
        Measure("seconds/update", "Time of the update", "seconds of a step"),
        Measure("tokens_per_second/rollouts", "Speed of rollouts", "tokens sampled in a second"),
        Measure("tokens_per_second/update", "Speed of the update", "tokens of rows in a second"),
    ),
}
"""The measures drawn, in order. Other parts of rewards join the first group, other measures of the
evaluation the second; all others end the last."""
_KNOWN = {measure.name: measure for group in GROUPS.values() for measure in group}


def curves_svg(trainings: Sequence[PlottedTraining], title: str = "") -> SvgDrawing:
    """Draw trainings as an SVG file that stands alone; equal trainings give equal files.

    Values are drawn thin and their running mean strong; evaluations, of which there are few, as dots. The
    title is the name of the only training when empty. Raises `MissingExtra` without matplotlib.
    """
    window = window_of(trainings)
    default = f"Training {trainings[0].name}" if len(trainings) == 1 else f"{len(trainings)} trainings"
    chart = Chart(
        title=title or default,
        subtitle=_subtitle(trainings, window),
        description=" ".join(map(_describe, trainings)),
        groups={
            heading: [_panel(measure, trainings, window) for measure in measures if shows(measure, trainings)]
            for heading, measures in _measures(trainings).items()
        },
        legend=[training.name for training in trainings],
    )
    return draw_svg(chart)


def measure_of(name: str) -> Measure:
    """Return how a measure of any name is drawn.

    >>> measure_of("eval/retrieval").title
    'Retrieval, held out'
    """
    if name in _KNOWN:
        return _KNOWN[name]
    kind, _, rest = name.partition("/")
    words = rest.replace("_", " ").replace("/", " ")
    if kind == "reward" and rest:
        return Measure(name, f"Reward: {words}", "mean of the rollouts", _SHARE)
    if kind == "eval" and rest.startswith("reward/"):
        title = measure_of(rest).title
        return Measure(name, f"{title}, held out", "mean of the cases", _SHARE, smooth=False)
    if kind == "eval" and rest:
        return Measure(name, f"{words[:1].upper()}{words[1:]}, held out", "mean of the cases", smooth=False)
    return Measure(name, name, "")


def measures_of(trainings: Sequence[PlottedTraining]) -> list[Measure]:
    """List what was measured at least once, in the order in which it is drawn."""
    found = names(record for training in trainings for record in training.records)
    return [measure for group in _measures(trainings).values() for measure in group if measure.name in found]


def shows(measure: Measure, trainings: Sequence[PlottedTraining]) -> bool:
    """Check whether a measure has anything to show: a value, and a quiet one another than 0."""
    values = [value for training in trainings for _, value in series(training.records, measure.name)]
    return any(values) if measure.quiet else bool(values)


def running_mean(points: Points, window: float) -> list[tuple[float, float]]:
    """Average the values of each step with those of the `window` steps that end there.

    >>> running_mean([(1, 4.0), (2, 2.0), (3, 0.0)], 2)
    [(1, 4.0), (2, 3.0), (3, 1.0)]
    """
    recent: deque[tuple[float, float]] = deque()
    means: list[tuple[float, float]] = []
    for step, value in points:
        recent.append((step, value))
        while recent[0][0] <= step - max(window, 1):
            recent.popleft()
        means.append((step, sum(value for _, value in recent) / len(recent)))
    return means


def window_of(trainings: Iterable[PlottedTraining]) -> int:
    """Return the steps of a running mean: at most a twelfth of the longest training, 1 for a short one."""
    steps = max((record.step for training in trainings for record in training.records), default=0)
    return next((size for size in (500, 250, 100, 50, 25, 10, 5) if size <= steps / 12), 1)


def _measures(trainings: Sequence[PlottedTraining]) -> dict[str, list[Measure]]:
    """Return the groups of measures, with other measures in their places."""
    groups = {heading: list(measures) for heading, measures in GROUPS.items()}
    first, held_out, *_, last = groups
    found = names(record for training in trainings for record in training.records)
    for measure in (measure_of(name) for name in found if name not in _KNOWN):
        kind, slash, _ = measure.name.partition("/")
        group = {"reward": first, "eval": held_out}.get(kind, last) if slash else last
        position = -1 if group == first else len(groups[group])  # accuracy stays the last of the first
        groups[group].insert(position, measure)
    return groups


def _panel(measure: Measure, trainings: Sequence[PlottedTraining], window: int) -> Panel:
    curves: list[Curve] = []
    for color, training in enumerate(trainings):
        points = [(step, value * measure.factor) for step, value in series(training.records, measure.name)]
        smooth = measure.smooth and window > 1
        curves.append(
            Curve(
                name=training.name,
                color=color,
                points=running_mean(points, window) if smooth else points,
                raw=points if smooth else (),
                markers=not measure.smooth,
            )
        )
    values = [y for curve in curves for _, y in (*curve.points, *curve.raw)]
    span = measure.span  # rewards of others may lie outside
    if span is not None and not all(span[0] <= y <= span[1] for y in values):
        span = None
    return Panel(title=measure.title, unit=measure.unit, span=span, curves=curves)


def _subtitle(trainings: Sequence[PlottedTraining], window: int) -> str:
    lengths = [max((record.step for record in training.records), default=0) for training in trainings] or [0]
    extent = f"{max(lengths):,} steps."
    if min(lengths) < max(lengths):
        extent = f"{min(lengths):,} to {extent}"
    if window == 1:
        return extent
    raw = " Thin: each step." if len(trainings) <= MAX_LABELLED else ""
    return f"{extent} Strong lines: mean of the last {window} steps.{raw}"


def _describe(training: PlottedTraining) -> str:
    """Describe the lines of a training in words."""
    courses: list[str] = []
    for name in names(training.records):
        measure, points = measure_of(name), series(training.records, name)
        sign = "%" if measure.factor > 1 else ""
        ends = [points[0], points[-1]][: len(points)]
        values = [f"{short(value * measure.factor)}{sign} at step {step}" for step, value in ends]
        courses.append(f"{measure.title} {' to '.join(values)}")
    return f"{training.name}: {'; '.join(courses) or 'nothing measured yet'}."


def draw_svg(chart: Chart) -> SvgDrawing:
    """Draw a chart as an SVG file. Equal charts give equal files; panels without a value are left out.

    Raises `MissingExtra` without matplotlib.
    """
    try:
        matplotlib, figures = library("matplotlib"), library("matplotlib.figure")
    except MissingExtra as error:
        raise MissingExtra("matplotlib", "train") from error
    groups = {
        heading: drawn
        for heading, panels in chart.groups.items()
        if (drawn := [panel for panel in panels if any(curve.points for curve in panel.curves)])
    }
    rows = sum(math.ceil(len(panels) / COLUMNS) for panels in groups.values())
    legend = [_clean(name, 40) for name in chart.legend] if len(chart.legend) > 1 else []
    head = 1.3 + 0.3 * math.ceil(len(legend) / 4)
    height = head + rows * PANEL_HEIGHT + len(groups) * HEADING_HEIGHT
    # Text stays text, and ids depend on nothing but the chart.
    options = {"svg.fonttype": "none", "svg.hashsalt": "vrag", "path.simplify_threshold": 1.0, "font.size": 9}
    with matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer has fonts of its own
        figure = figures.Figure(figsize=(WIDTH, height))
        _text(figure, MARGIN / WIDTH, 1 - 0.55 / height, _clean(chart.title, 90), size=18, weight="bold")
        _text(figure, MARGIN / WIDTH, 1 - 0.85 / height, _clean(chart.subtitle, 200), size=10, color="0.35")
        if legend:
            _draw_legend(figure, legend, (MARGIN / WIDTH, 1 - 0.95 / height))
        if not groups:
            _text(figure, MARGIN / WIDTH, 0.1, "There is nothing to draw yet.", size=11)
        _draw_groups(figure, groups, height, head)
        written = io.StringIO()
        metadata = {"Title": _clean(chart.title, 200), "Creator": None, "Date": None}
        figure.savefig(written, format="svg", metadata=metadata)
    _, start, svg = written.getvalue().partition("<svg ")
    description = f"</title><desc>{html.escape(printable(chart.description))}</desc>{DARK_STYLE}"
    return SvgDrawing(f'{start}role="img" {svg}'.replace("</title>", description, 1))


def _draw_groups(figure: Any, groups: Mapping[str, Sequence[Panel]], height: float, top: float) -> None:  # noqa: ANN401
    """Draw the panels of all groups; `height` and `top` in inches."""
    steps = [
        step
        for panels in groups.values()
        for panel in panels
        for curve in panel.curves
        for step, *_ in (*curve.points, *curve.raw, *curve.band)
    ]
    extent = (min(steps, default=0), max(steps, default=1))
    width = (WIDTH - MARGIN) / COLUMNS
    for heading, panels in groups.items():
        if heading:
            _text(figure, MARGIN / WIDTH, 1 - (top + 0.2) / height, heading.upper(), size=10, color="0.35")
        top += HEADING_HEIGHT
        for number, panel in enumerate(panels):
            row, column = divmod(number, COLUMNS)
            bottom = top + (row + 1) * PANEL_HEIGHT - 0.45
            box = (MARGIN + column * width + 0.35, height - bottom, width - 1.15, PANEL_HEIGHT - 1.0)
            axes = figure.add_axes(
                (box[0] / WIDTH, box[1] / height, box[2] / WIDTH, box[3] / height),
                gid=f"panel {_clean(panel.title, 40)}",
            )
            _draw_panel(axes, panel, extent)
        top += math.ceil(len(panels) / COLUMNS) * PANEL_HEIGHT


def _draw_panel(axes: Any, panel: Panel, extent: tuple[float, float]) -> None:  # noqa: ANN401
    low, high = _limits(panel)
    axes.set_ylim(low, high)
    axes.set_xlim(*(extent if extent[0] < extent[1] else (extent[0] - 0.5, extent[0] + 0.5)))
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(_format_tick)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    title = axes.set_title(_clean(panel.title, 40), loc="left", pad=20, weight="bold", size=11)
    title.set_parse_math(False)
    _text(axes, 0, 1.06, panel.unit, color="0.35", transform=axes.transAxes)
    axes.set_xlabel("step", loc="right", color="0.35")
    for curve in panel.curves:
        _draw_curve(axes, curve, raw=len(panel.curves) <= MAX_LABELLED)
    if panel.goal is not None:
        axes.axhline(panel.goal, color="0.3", linestyle=":", gid="goal")
    values = [y for curve in panel.curves for _, *ys in (*curve.points, *curve.raw, *curve.band) for y in ys]
    margin = (high - low) / 500
    notes = [f"↑ to {short(max(values))}"] if max(values) > high + margin else []
    notes += [f"↓ to {short(min(values))}"] if min(values) < low - margin else []
    _text(axes, 1, 1.06, ", ".join(notes), transform=axes.transAxes, ha="right", color="0.35")
    for position, label, color in _end_labels(panel, low, high):
        style = {"va": "center", "color": f"C{color % COLORS}", "gid": f"last-{color}"}
        _text(axes, 1.02, position, label, transform=axes.transAxes, **style)


def _format_tick(value: float, _position: int) -> str:
    return short(value)


def _draw_curve(axes: Any, curve: Curve, *, raw: bool) -> None:  # noqa: ANN401
    color = f"C{curve.color % COLORS}"
    if len(curve.band) > 1:
        steps, low, high = zip(*curve.band, strict=True)
        axes.fill_between(steps, low, high, color=color, alpha=0.15, linewidth=0, gid=f"band-{curve.color}")
    if raw and len(curve.raw) > 1:
        thin = {"color": color, "alpha": 0.3, "linewidth": 0.8}
        axes.plot(*zip(*curve.raw, strict=True), **thin, gid=f"raw-{curve.color}")
    if curve.points:
        marker = "o" if curve.markers or len(curve.points) == 1 else ""
        style = "--" if curve.color >= COLORS else "-"
        line = {"color": color, "linewidth": 1.8, "linestyle": style, "marker": marker, "markersize": 4}
        axes.plot(*zip(*curve.points, strict=True), **line, gid=f"line-{curve.color}")


def _limits(panel: Panel) -> tuple[float, float]:
    """Return the ends of the axis of values; a few far outliers of the raw values do not flatten the rest."""
    if panel.span is not None:
        return panel.span
    smooth = [y for curve in panel.curves for _, *ys in (*curve.points, *curve.band) for y in ys]
    raw = sorted(y for curve in panel.curves for _, y in curve.raw)
    outliers = len(raw) // 50
    values = [*smooth, *raw[outliers : len(raw) - outliers], *([] if panel.goal is None else [panel.goal])]
    low, high = min(values), max(values)
    if 0 <= low < 0.6 * high:
        low = 0.0
    if high - low <= 1e-4 * max(abs(low), abs(high)):  # all but equal
        low, high = min(0.0, 2 * low), max(0.0, 2 * high) or 1.0
    margin = 0.05 * (high - low)
    return (0.0 if low == 0 else low - margin), high + margin


def _end_labels(panel: Panel, low: float, high: float) -> Iterator[tuple[float, str, int]]:
    """The last value of each curve: position as a share of the height, text and colour.

    Where they would touch they are moved apart.
    """
    curves = [curve for curve in panel.curves if curve.points]
    if len(curves) > MAX_LABELLED:
        return
    curves.sort(key=lambda curve: curve.points[-1][1])
    lowest = 0.0
    for number, curve in enumerate(curves):
        value = curve.points[-1][1]
        lowest = max(lowest, min(max((value - low) / (high - low), 0.0), 1.0))
        position = min(lowest, 1.0 - LABEL_GAP * (len(curves) - 1 - number))
        text = f"{short(round(value, 1))}%" if panel.unit.startswith("%") else short(value)
        yield position, text, curve.color
        lowest += LABEL_GAP


def _draw_legend(figure: Any, labels: Sequence[str], corner: tuple[float, float]) -> None:  # noqa: ANN401
    lines = library("matplotlib.lines")
    handles = [
        lines.Line2D([], [], color=f"C{color % COLORS}", linestyle="--" if color >= COLORS else "-")
        for color in range(len(labels))
    ]
    placeholders = [str(number) for number in range(len(labels))]  # names may begin with an underscore
    place = {"loc": "upper left", "bbox_to_anchor": corner, "ncols": 4, "frameon": False}
    legend = figure.legend(handles, placeholders, **place)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)


def _text(target: Any, x: float, y: float, text: str, **style: Any) -> None:  # noqa: ANN401
    """Write text as it stands: a dollar sign begins no formula."""
    if text:
        target.text(x, y, text, parse_math=False, **style)


def _clean(text: str, max_characters: int) -> str:
    """Return printable text in one line, cut where it is too long."""
    line = " ".join(printable(text).split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"
