"""Charts of trainings: complete, readable by eye and by screen reader, and safe whatever the names."""

from __future__ import annotations

import math
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.errors import MissingExtra
from vrag.render.axes import axis_of, short
from vrag.rl.metrics import TrainingMetrics
from vrag.rl.plots import (
    GROUPS,
    Chart,
    Curve,
    Panel,
    PlottedTraining,
    curves_svg,
    draw_svg,
    measure_of,
    measures_of,
    running_mean,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
few = settings(max_examples=10, deadline=None)
"""A chart takes a fifth of a second."""


def training(name: str = "tiny", steps: int = 100) -> PlottedTraining:
    lines = [
        TrainingMetrics(step, {"reward": step / steps, "kl": 0.001 * step}) for step in range(1, steps + 1)
    ]
    lines += [
        TrainingMetrics(step, {"eval/accuracy": 0.5, "eval/recall": 0.25}) for step in range(0, steps + 1, 10)
    ]
    return PlottedTraining(name, tuple(lines))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def ids(svg: str, kind: str) -> list[str]:
    """Ids of the groups that begin so, in the order drawn."""
    found = (element.get("id") or "" for element in ET.fromstring(svg).iter(f"{SVG}g"))
    return [id for id in found if id.startswith(kind)]


def panels(svg: str) -> list[str]:
    return [id.removeprefix("panel ") for id in ids(svg, "panel ")]


def one_line(values: Mapping[str, float | None]) -> list[PlottedTraining]:
    return [PlottedTraining("x", (TrainingMetrics(1, values),))]


def test_there_is_a_panel_for_each_measure_that_has_a_value_and_no_empty_one() -> None:
    assert panels(curves_svg([training()])) == ["Reward", "Accuracy, held out", "Recall, held out", "KL"]
    assert panels(curves_svg(one_line({"loss": None, "reward": 0.5}))) == ["Reward"]


def test_counts_of_what_should_not_happen_are_drawn_where_it_happened() -> None:
    calm, troubled = ({"reward": 0.5, "failed": count, "masked": 0.0} for count in (0.0, 2.0))
    assert panels(curves_svg(one_line(calm))) == ["Reward"]
    assert panels(curves_svg(one_line(troubled))) == ["Reward", "Failed"]


def test_rewards_and_measures_of_others_have_panels_too() -> None:
    values = dict.fromkeys(["accuracy", "reward/brevity", "reward/answer", "something", "loss"], 0.5)
    values |= dict.fromkeys(["eval/reward/answer", "eval/accuracy", "eval/missing"], 0.5)
    found = measures_of(one_line(values))
    first = ["reward/answer", "reward/brevity", "accuracy"]
    second = ["eval/accuracy", "eval/missing", "eval/reward/answer"]
    assert [measure.name for measure in found] == [*first, *second, "loss", "something"]
    assert measure_of("eval/reward/answer").title == "Reward: answer, held out"


def test_the_last_value_stands_at_the_end_of_its_line_with_its_unit() -> None:
    svg = curves_svg([training(steps=10)])
    labels = [one for one in ET.fromstring(svg).iter(f"{SVG}g") if one.get("id") == "last-0"]
    assert [text.text for one in labels for text in one.iter(f"{SVG}text")] == ["1", "50%", "0.25", "0.01"]


def test_several_trainings_are_told_apart_by_a_legend_and_one_needs_none() -> None:
    assert not ids(curves_svg([training()]), "legend")
    svg = curves_svg([training(f"run {number}") for number in range(12)])
    assert [text for text in texts(svg) if text[:3] == "run"] == [f"run {number}" for number in range(12)]
    styles = re.findall(r'<g id="line2d_\d+">\s*<path d="[^"]*" style="([^"]*)"', svg)
    lines = {style for style in styles if "stroke-width: 1.5" in style}
    assert len(lines) == 12  # dashed where colours repeat
    assert not ids(svg, "last-")  # no room for twelve values
    assert "100 steps. Strong lines: mean of the last 5 steps." in texts(svg)
    assert not ids(svg, "raw-")


def test_it_says_what_it_shows_to_those_who_cannot_see_it() -> None:
    root = ET.fromstring(curves_svg([training("tiny <ggpo>")]))
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == "Training tiny <ggpo>"
    description = root[1].text or ""
    assert description.startswith("tiny <ggpo>: Reward 0.01 at step 1 to 1 at step 100; KL ")
    assert "Accuracy, held out 50% at step 0 to 50% at step 100" in description


def test_it_stands_alone_in_light_and_in_dark() -> None:
    svg = curves_svg([training("a"), training("b")])
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>\n")
    assert "prefers-color-scheme: dark" in svg
    assert ids(svg, "figure_1")  # what the style for dark screens turns
    fetched = re.findall(r'(?:href|src)="(?!#)[^"]*|url\((?!#)[^)]*|@import|<script|<image', svg)
    assert not fetched


@pytest.mark.slow
@few
@given(st.text(max_size=40))
def test_any_name_gives_a_chart_that_is_well_formed(name: str) -> None:
    named = PlottedTraining(name, (TrainingMetrics(1, {name: 1.0}),))
    root = ET.fromstring(curves_svg([named, training(steps=5)], name))
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_hidden", "a $x^2$ b", "price $", "日本", "\x00\ud800", "<b>&amp;"])
def test_names_stand_as_they_are_written(name: str) -> None:
    svg = curves_svg([training(name, steps=3), training(steps=3)])
    ET.fromstring(svg.encode())
    assert name in texts(svg) or not name.isprintable()


@few
@given(st.lists(st.tuples(st.integers(0, 50), numbers), min_size=1, max_size=30))
def test_any_values_are_drawn_at_places_that_are_numbers(points: list[tuple[int, float]]) -> None:
    records = tuple(TrainingMetrics(step, {"loss": value}) for step, value in points)
    svg = curves_svg([PlottedTraining("x", records)])
    assert panels(svg) == ["Loss"]
    assert not re.search(r"\b(nan|inf)\b", svg.split("</style>")[1])


@pytest.mark.parametrize("values", [(1e300, -1e300), (1e300, 1e300), (1e-300, 2e-300), (0.0, 0.0)])
def test_the_largest_and_the_least_values_are_drawn(values: tuple[float, float]) -> None:
    records = tuple(TrainingMetrics(step, {"loss": value}) for step, value in enumerate(values))
    svg = curves_svg([PlottedTraining("x", records)])
    assert panels(svg) == ["Loss"]
    assert not re.search(r"\b(nan|inf)\b", svg.split("</style>")[1])


def test_the_page_about_curves_tells_of_every_measure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "curves.md").read_text()
    table, _, _ = page.partition("## What goes wrong")
    named = re.findall(r"`([a-z_/]+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(measure.name for group in GROUPS.values() for measure in group)


def test_no_training_and_one_without_a_line_say_that_there_is_nothing() -> None:
    for empty in ([], [PlottedTraining("begun", ())]):
        assert "There is nothing to draw yet." in texts(curves_svg(empty))


def test_equal_trainings_give_equal_files_of_bounded_size() -> None:
    long = training(steps=6_000)
    svg = curves_svg([long])
    assert svg == curves_svg([long])
    assert len(svg) < 200_000


def test_values_beyond_the_field_are_noted() -> None:
    lines = [TrainingMetrics(step, {"calls": 50.0 if step == 7_777 else 1.0}) for step in range(1, 10_000)]
    svg = curves_svg([PlottedTraining("x", tuple(lines))])
    assert "↑ to 50" in texts(svg)
    assert ids(svg, "raw-") == ["raw-0"]


def test_a_running_mean_is_over_the_steps_of_its_window_not_over_points() -> None:
    assert running_mean([(1, 1.0), (2, 3.0), (10, 5.0)], 3) == [(1, 1.0), (2, 2.0), (10, 5.0)]
    assert running_mean([(1, 1.0), (2, 3.0)], 0) == [(1, 1.0), (2, 3.0)]
    assert [window_of([training(steps=steps)]) for steps in (3, 59, 60, 300, 5000)] == [1, 1, 5, 25, 250]


def test_a_short_training_is_not_smoothed_and_says_nothing_of_it() -> None:
    svg = curves_svg([training(steps=10)])
    assert not ids(svg, "raw-")
    assert "10 steps." in texts(svg)
    long = curves_svg([training()])
    assert "100 steps. Strong lines: mean of the last 5 steps. Thin: each step." in texts(long)
    assert ids(long, "raw-")


def test_shares_keep_their_ends_and_rewards_beyond_them_are_seen_all_the_same() -> None:
    beyond = PlottedTraining("x", (TrainingMetrics(1, {"reward": -2.0}), TrainingMetrics(2, {"reward": 1.0})))
    assert {"-2", "-1", "0", "1"} <= set(texts(curves_svg([beyond])))
    assert {"0", "0.25", "0.5", "0.75", "1"} <= set(texts(curves_svg([training(steps=10)])))


@few
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_values_at_the_ends_of_lines_never_touch(values: list[float]) -> None:
    curves = [Curve(name="", color=n, points=[(0, 0.0), (1, y)]) for n, y in enumerate(values)]
    panel = Panel(title="x", unit="", curves=curves, span=(0, 1))
    svg = draw_svg(Chart(title="x", subtitle="", description="", groups={"": [panel]}))
    labels = [one for one in ET.fromstring(svg).iter(f"{SVG}g") if (one.get("id") or "").startswith("last-")]
    heights = sorted(float(text.get("y") or "") for label in labels for text in label.iter(f"{SVG}text"))
    assert len(heights) == len(values)
    assert all(below - above >= 9 for above, below in pairwise(heights))  # points of the font


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"matplotlib is not installed\. Run: pip install .*\[train\]"):
        curves_svg([training()])


@given(numbers, numbers, st.integers(2, 6))
def test_an_axis_holds_its_values_and_names_a_few_round_ones(a: float, b: float, most: int) -> None:
    low, high = sorted((a, b))
    axis = axis_of(low, high, most=most)
    slack = 1e-4 * max(axis.high - axis.low, abs(low), abs(high))
    assert axis.low - slack <= low <= high <= axis.high + slack
    assert 2 <= len(axis.ticks) <= most + 2
    assert len(set(axis.labels)) == len(axis.labels)


def test_axes_name_what_people_would_name() -> None:
    assert axis_of(0, 12_345).labels == ("0", "2.5k", "5.0k", "7.5k", "10.0k", "12.5k")
    assert axis_of(0, 2.2e-5, most=4).labels == ("0", "1e-5", "2e-5", "3e-5")
    assert axis_of(1, 1, whole=True, wide=False).labels == ("1", "2")
    assert axis_of(0, 0).labels[-1] == "1.0"
    assert axis_of(7, 7, most=4).ticks[0] == 0
    for alike in (1 + 1e-7, 1):  # as ratios are before the first update
        assert axis_of(1, alike, most=4).labels == ("0", "0.5", "1.0", "1.5", "2.0")
    assert axis_of(-1e-10, 2e-10).labels == axis_of(0, 0).labels
    assert short(-1e-10) == "0"


@pytest.mark.parametrize("value", [0.0, 1e-6, 0.99999, 9.9999, 99.99, 99_999, 1e5, 1e12, -4e7, math.pi])
def test_a_short_value_is_the_value_to_three_digits(value: float) -> None:
    text = short(value)
    factor = {"k": 1e3, "M": 1e6, "B": 1e9}.get(text[-1], 1.0)
    assert float(text.rstrip("kMB").replace(",", "")) * factor == pytest.approx(value, rel=0.05)
    assert len(text) <= 8
