"""The drawings of a report say what the numbers say."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reported import record
from test_report_page import HOSTILE, Elements

from vrag.evaluation.comparison import compare
from vrag.evaluation.report.images import difference_drawing, histogram, interval_drawing, scatter, shares_bar
from vrag.evaluation.summary import Estimate

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def heights(svg: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"<rect[^>]*><title>([\d,]+)</title>", svg)]


def test_whole_numbers_have_a_bar_each() -> None:
    drawn = histogram("turns", [1, 1, 1, 2, 4])
    assert drawn is not None
    assert heights(drawn) == [3, 1, 1]
    assert "median 1.0" in drawn


@given(st.lists(NUMBERS, max_size=60))
def test_a_histogram_counts_every_finite_value(values: list[float]) -> None:
    small = [value for value in values if abs(value) < 1e12 or math.isnan(value)]
    drawn = histogram("seconds", small)
    finite = [value for value in small if abs(value) < 1e12]
    assert (drawn is None) == (not finite)
    assert drawn is None or sum(heights(drawn)) == len(finite)
    assert drawn is None or "nan" not in drawn


def test_a_straggler_does_not_press_the_others_flat() -> None:
    drawn = histogram("seconds", [*(float(value % 10) + 0.5 for value in range(200)), 5000.0])
    assert drawn is not None
    assert len(heights(drawn)) >= 9
    assert "to 83 min 20 s" in drawn


def test_shares_of_the_bar_are_those_of_the_counts() -> None:
    drawn = shares_bar(
        {"right": 3, "wrong": 1, "failed": 0}, dict.fromkeys(("right", "wrong", "failed"), "good"), "x"
    )
    assert re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', drawn) == [
        ("0", "750"),
        ("750", "250"),
    ]


@pytest.mark.parametrize(
    ("mean", "place"), [(0.0, "5"), (0.5, "58"), (1.0, "111"), (7.0, "111"), (-1.0, "5")]
)
def test_a_mean_stands_where_it_belongs_and_never_outside(mean: float, place: str) -> None:
    assert f'd="M{place} 9h0" class="spot"' in interval_drawing(Estimate(mean, 1), "x")


def test_no_difference_stands_in_the_middle() -> None:
    same = compare([record("c1")], [record("c1")], resamples=50).headline
    assert 'd="M58 9h0" class="spot"' in difference_drawing(same, 0.2, "x")


def test_points_say_who_has_more() -> None:
    drawn = scatter("f1", [(0.1, 0.9), (0.2, 0.8), (0.9, 0.1), (0.5, 0.5), (float("nan"), 1.0)])
    assert drawn is not None
    assert "B more in 2, A more in 1" in drawn
    assert scatter("f1", []) is None


def hostile_charts() -> dict[str, str | None]:
    same = compare([record("c1")], [record("c1")], resamples=50).headline
    return {
        "strip": interval_drawing(Estimate(0.5, 4, 0.4, 0.6), HOSTILE),
        "difference": difference_drawing(same, 0.2, HOSTILE),
        "shares": shares_bar({HOSTILE: 3}, {HOSTILE: HOSTILE}, HOSTILE),
        "histogram": histogram(HOSTILE, [1, 1, 2, 5000]),
        "scatter": scatter(HOSTILE, [(0.1, 0.9), (0.5, 0.5)]),
    }


@pytest.mark.parametrize(
    ("kind", "tags"),
    [
        ("strip", {"svg", "title", "path"}),
        ("difference", {"svg", "title", "path"}),
        ("shares", {"svg", "title", "rect"}),
        ("histogram", {"svg", "title", "path", "text", "rect"}),
        ("scatter", {"svg", "title", "path", "text"}),
    ],
)
def test_hostile_text_stays_text_in_every_chart(kind: str, tags: set[str]) -> None:
    drawn = hostile_charts()[kind]
    assert drawn is not None
    elements = Elements(drawn)
    assert {tag for tag, _ in elements.tags} == tags
    assert not [name for _, given in elements.tags for name in given if name.startswith("on")]
    assert "onerror=alert(1)" in elements.words
