"""A picture of trust: how far a probability can be believed, and precision against coverage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.trust_figures import ReliabilityBin, TrustRecord, count, curve, reliability

COLORS = {
    "cell": "#2166ac",
    "computed": "#b2182b",
    "date": "#7b3294",
    "span": "#1b7837",
    "name": "#8c510a",
    "labelled value": "#666666",
}
"""Kinds of readings that are drawn, each with its colour."""
NAMES = {"span": "running text"}
MIN_READINGS = 5
"""Readings in a range of probabilities below which its share says too little to be drawn."""


def draw_trust(records: Sequence[TrustRecord], path: Path) -> None:
    """Draw the reliability of the likeliest readings by kind, and precision by the answers given."""
    figure: Any = Figure(figsize=(10, 4.2), layout="constrained")  # its types are incomplete
    left, right = figure.subplots(1, 2)
    _draw_reliability(left, records)
    _draw_precision(right, records)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw_reliability(axes: Any, records: Sequence[TrustRecord]) -> None:  # noqa: ANN401
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    _draw_bins(axes, reliability(records), "all kinds", "#111111")
    for kind, color in COLORS.items():
        _draw_bins(axes, reliability(records, kind), NAMES.get(kind, kind), color)
    axes.set(xlim=(0, 1), ylim=(-0.03, 1.03), xlabel="stated probability", ylabel="share that is right")
    axes.set_title("Likeliest readings by their kind", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_bins(axes: Any, bins: Sequence[ReliabilityBin], name: str, color: str) -> None:  # noqa: ANN401
    drawn = [row for row in bins if row.right.total >= MIN_READINGS]
    if drawn:
        width = 2.2 if name == "all kinds" else 1.2
        means, shares = [row.mean for row in drawn], [row.right.value for row in drawn]
        axes.plot(means, shares, "o-", color=color, label=name, linewidth=width, markersize=4)


def _draw_precision(axes: Any, records: Sequence[TrustRecord]) -> None:  # noqa: ANN401
    for certain, name, color in (
        (False, "every reading from a probability on", "#999999"),
        (True, "kinds that are certain enough", "#2166ac"),
    ):
        points = [point for point in curve(records, certain=certain) if point.precision.total]
        shares = [(point.precision.total / len(records), point.precision.value) for point in points]
        axes.plot(*zip(*shares, strict=True), "o-", color=color, label=name, linewidth=1.4, markersize=4)
    given = count(records).precision
    axes.plot([given.total / len(records)], [given.value], "*", color="#b2182b", markersize=13, label="given")
    axes.set(xlim=(0, None), ylim=(0, 1.03), xlabel="share of questions answered", ylabel="right of these")
    axes.set_title("Precision against answers given", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
