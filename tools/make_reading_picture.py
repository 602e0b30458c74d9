"""Draws the figures of the offline reader for docs/reading.md.

    vrag reader train SETS --part answers --json > answers.json
    python tools/make_reading_picture.py answers.json

At the left: how often answers are right, by the probability that the reader states. At the right: what comes
of answering from a probability on. Needs matplotlib.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "docs" / "images" / "reading.png"
INK, ACCENT, SOFT = "#1d2530", "#d9480f", "#8a929b"


def main() -> None:
    """Reads the figures and draws them."""
    facts: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["answers"]
    figures: Any = importlib.import_module("matplotlib.figure")  # its types are incomplete
    figure = figures.Figure(figsize=(10, 4), layout="constrained")
    reliability, coverage = figure.subplots(1, 2)
    _draw_reliability(reliability, facts["reliability"])
    _draw_coverage(coverage, facts["coverage"])
    figure.savefig(TARGET, dpi=110)


def _draw_reliability(axes: Any, bins: list[dict[str, float]]) -> None:  # noqa: ANN401
    filled = [one for one in bins if one["answers"]]
    axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle="--")
    axes.plot([one["probability"] for one in filled], [one["right"] for one in filled], "o-", color=ACCENT)
    for one in filled:
        place = one["probability"], one["right"]
        axes.annotate(
            f"{one['answers']:.0f}", place, (6, -12), textcoords="offset points", color=SOFT, fontsize=8
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="stated probability", ylabel="share of answers that are right")
    axes.set_title("Stated probability and right answers (held-out questions)", color=INK, fontsize=10)


def _draw_coverage(axes: Any, points: list[dict[str, float]]) -> None:  # noqa: ANN401
    thresholds = [one["threshold"] for one in points]
    for key, name, color in (
        ("answered", "questions answered", INK),
        ("right", "right among the answers", ACCENT),
        ("abstained", "abstained where no page answers", SOFT),
    ):
        axes.plot(thresholds, [one[key] for one in points], label=name, color=color)
    axes.set(xlim=(0, 0.9), ylim=(0, 1), xlabel="answers from this probability on", ylabel="share")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("Abstention and coverage", color=INK, fontsize=10)


if __name__ == "__main__":
    main()
