# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The numbers that go into a chart are those that are read, or none: where marks and numbers disagree."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image
from reading.charts.plotted_pages import list_rows, plot, read_charts, read_page

from vrag.geometry import Size
from vrag.reading.answer import MarkRole, ReadPage
from vrag.reading.charts.chart_tables import measure_misfit
from vrag.reading.page_text import read_page_text
from vrag.reading.reader import read
from vrag.reading.tables.finder import find_charts

NAMES = ["Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple"]
VALUES = [12, 45, 30, 7, 22]
SLOW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def bars(values: list[float], *, upright: bool = True, label_type: str = "edge") -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    names = NAMES[: len(values)]
    drawn = axes.bar(names, values) if upright else axes.barh(names, values)
    axes.bar_label(drawn, label_type=label_type, color="black")  # pyright: ignore[reportArgumentType]
    axes.set_title("Visitors of the ports", fontsize=18)
    return figure


def pie(values: list[float], *, legend: bool = False, hole: bool = False) -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    width = {"width": 0.55, "edgecolor": "white"} if hole else {"edgecolor": "white"}
    names = NAMES[: len(values)]
    found = axes.pie(
        values, labels=None if legend else names, autopct="%.0f%%", wedgeprops=width, pctdistance=0.72
    )
    if legend:
        axes.legend(found[0], names, loc="center left", bbox_to_anchor=(1.05, 0.5))
    axes.set_title("Ships of the ports", fontsize=18)
    return figure


def lines(values: list[float], *, annotated: bool = True) -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    years = [str(2019 + at) for at in range(len(values))]
    axes.plot(years, values, marker="o")
    for at, value in enumerate(values if annotated else []):
        axes.annotate(f"{value:g}", (at, value), textcoords="offset points", xytext=(0, 9), ha="center")
    axes.margins(y=0.2)
    axes.set_title("Growth of the fleet", fontsize=18)
    return figure


def pairs(figure: Figure) -> dict[str, str] | None:
    """The labels with their numbers of the only chart that is found."""
    tables = read_charts(figure)
    return {row[0]: row[1] for row in list_rows(tables[0])[1:]} if len(tables) == 1 else None


@pytest.mark.parametrize("upright", [True, False])
@pytest.mark.parametrize("label_type", ["edge", "center"])
def test_bars_are_read_with_their_labels_and_title(upright: bool, label_type: str) -> None:
    (table,) = read_charts(bars([*VALUES], upright=upright, label_type=label_type))

    rows = list_rows(table)
    assert table.chart == "bar chart"
    assert rows[0] == ["", "Visitors of the ports"]
    assert {row[0]: row[1] for row in rows[1:]} == dict(zip(NAMES, map(str, VALUES), strict=False))
    assert all(cell.box is not None for cell in table.cells)


@SLOW
@given(st.lists(st.integers(5, 400), min_size=3, max_size=8, unique=True), st.booleans())
def test_numbers_of_bars_are_those_that_were_drawn(values: list[int], upright: bool) -> None:
    expected = dict(zip(NAMES, map(str, values), strict=False))

    assert pairs(bars([*values], upright=upright)) in (expected, None)
    if min(values) * 30 >= max(values):
        assert pairs(bars([*values], upright=upright)) == expected


@SLOW
@given(st.lists(st.tuples(st.integers(10, 90), st.integers(10, 90)), min_size=2, max_size=4, unique=True))
def test_series_have_the_names_of_their_colours(values: list[tuple[int, int]]) -> None:
    figure = plot()
    axes = figure.add_subplot()
    for series, name in enumerate(("2022", "2023")):
        drawn = axes.bar(
            [at + 0.35 * series for at in range(len(values))],
            [row[series] for row in values],
            0.35,
            label=name,
        )
        axes.bar_label(drawn)
    axes.set_xticks([at + 0.175 for at in range(len(values))], NAMES[: len(values)])
    axes.set_ylim(0, 130)
    axes.legend(loc="upper right", ncols=2)

    tables = read_charts(figure)

    expected = [[name, *map(str, row)] for name, row in zip(NAMES, values, strict=False)]
    assert [list_rows(table)[0][1:] for table in tables] == [["2022", "2023"]] or len({*sum(values, ())}) == 1
    assert [list_rows(table)[1:] for table in tables] == [expected] or len({*sum(values, ())}) == 1


def test_series_without_a_legend_are_not_read() -> None:
    figure = plot()
    axes = figure.add_subplot()
    for series in (0, 1):
        axes.bar_label(axes.bar([at + 0.35 * series for at in range(4)], [10 + 7 * series, 20, 30, 40], 0.35))
    axes.set_xticks([at + 0.175 for at in range(4)], NAMES[:4])

    assert read_charts(figure) == ()


@pytest.mark.parametrize("legend", [True, False])
@pytest.mark.parametrize("hole", [True, False])
def test_slices_are_read_with_their_labels(legend: bool, hole: bool) -> None:
    (table,) = read_charts(pie([46, 29, 17, 8], legend=legend, hole=hole))

    assert table.chart == "pie chart"
    assert list_rows(table)[0] == ["", "Ships of the ports"]
    assert sorted(list_rows(table)[1:]) == [
        ["Alder", "46%"],
        ["Birch", "29%"],
        ["Cedar", "17%"],
        ["Elm", "8%"],
    ]


@SLOW
@given(st.lists(st.integers(6, 60), min_size=2, max_size=6), st.booleans())
def test_numbers_of_slices_are_those_that_were_drawn(values: list[int], legend: bool) -> None:
    shares = [f"{100 * value / sum(values):.0f}%" for value in values]

    assert pairs(pie([*values], legend=legend)) in (dict(zip(NAMES, shares, strict=False)), None)


def test_points_are_read_with_their_years() -> None:
    (table,) = read_charts(lines([3.1, 4.5, 4.2, 6.8, 7.9]))

    assert table.chart == "chart"
    assert list_rows(table) == [
        ["", "Growth of the fleet"],
        *[["2019", "3.1"], ["2020", "4.5"], ["2021", "4.2"], ["2022", "6.8"], ["2023", "7.9"]],
    ]


def test_bars_over_an_axis_that_does_not_begin_at_zero_are_read_as_points() -> None:
    figure = bars([101, 104, 102, 109])
    figure.axes[0].set_ylim(100, 110)

    assert pairs(figure) == {"Alder": "101", "Birch": "104", "Cedar": "102", "Elm": "109"}


@SLOW
@given(st.lists(st.integers(10, 99), min_size=4, max_size=8))
def test_numbers_of_points_are_those_that_were_drawn(values: list[int]) -> None:
    years = [str(2019 + at) for at in range(len(values))]

    assert pairs(lines([*values])) in (dict(zip(years, map(str, values), strict=True)), None)


def stacked() -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    axes.bar_label(axes.bar(NAMES[:5], VALUES), label_type="center")
    axes.bar_label(axes.bar(NAMES[:5], VALUES[::-1], bottom=VALUES), label_type="center")
    return figure


def scattered() -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    axes.scatter([3, 1, 4, 2, 5], VALUES)
    for x, value in zip([3, 1, 4, 2, 5], VALUES, strict=True):
        axes.annotate(str(value * x), (x, value))
    return figure


def mislabelled() -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    axes.bar_label(axes.bar(NAMES[:5], VALUES), labels=["45", "12", "30", "22", "7"])
    return figure


def two_lines() -> Figure:
    figure = lines([31, 45, 42, 68, 79])
    axes = figure.axes[0]
    axes.plot([at + 0.4 for at in range(5)], [36, 51, 47, 74, 85])
    for at, value in enumerate([36, 51, 47, 74, 85]):
        axes.annotate(str(value), (at + 0.4, value), textcoords="offset points", xytext=(0, 9), ha="center")
    return figure


def line_over_bars() -> Figure:
    figure = bars([*VALUES])
    for at, value in enumerate([35, 20, 12, 30, 33]):
        figure.axes[0].annotate(f"{value}", (at + 0.5, value), ha="center")
    return figure


def series_of_one_label() -> Figure:
    """Two series of which only one has numbers."""
    figure = plot()
    axes = figure.add_subplot()
    axes.bar([at - 0.2 for at in range(4)], [27, 20, 29, 3], 0.3)
    axes.bar_label(axes.bar([at + 0.15 for at in range(4)], [11, 19, 52, 13], 0.3))
    axes.set_xticks(range(4), NAMES[:4])
    return figure


def mistaken_pie() -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    shares = iter(["10%", "20%", "70%"])
    axes.pie([60, 30, 10], labels=NAMES[:3], autopct=lambda _: next(shares))
    return figure


def one_number_short() -> Figure:
    figure = plot()
    axes = figure.add_subplot()
    axes.bar_label(axes.bar(NAMES[:5], VALUES), labels=["12", "45", "", "7", "22"])
    return figure


@pytest.mark.parametrize(
    "figure",
    [
        stacked, scattered, mislabelled, two_lines, line_over_bars,
        series_of_one_label, mistaken_pie, one_number_short,
        lambda: lines([3.1, 4.5, 4.2, 6.8], annotated=False),
        lambda: bars([*VALUES[:2]]),
    ],
    ids=lambda figure: getattr(figure, "__name__", ""),
)  # fmt: skip
def test_where_numbers_and_marks_disagree_nothing_is_read(figure: Callable[[], Figure]) -> None:
    assert read_charts(figure()) == ()


def test_an_axis_without_numbers_at_its_bars_is_not_read() -> None:
    figure = plot()
    figure.add_subplot().bar(NAMES[:5], VALUES)

    assert read_charts(figure) == ()


def test_a_bar_answers_a_question_with_its_number_and_label_marked() -> None:
    item, picture = read_page(bars([*VALUES]))

    (first, *_) = read("How many visitors has the port of Cedar?", [ReadPage(item, lambda: picture)])

    assert first.text == "30"
    assert {mark.role for mark in first.marks} >= {MarkRole.ANSWER, MarkRole.HEAD}
    answers = [mark.box for mark in first.marks if mark.role is MarkRole.ANSWER]
    words = [word for word in item.words if item.text[word.start : word.end] == "30"]
    assert any(answers[0].covers(*word.box.center) for word in words)


def test_a_page_of_specks_takes_no_long_time() -> None:
    noise = np.random.default_rng(0).integers(0, 6, (150, 120, 3), dtype=np.uint8) * 50
    picture = Image.fromarray(noise).resize((960, 1200), Image.Resampling.NEAREST)
    item, _ = read_page(bars([*VALUES]))
    begun = time.thread_time()

    find_charts(replace(item, size=Size(960, 1200)), lambda: picture, (), read_page_text(item).views)

    assert time.thread_time() - begun < 5


def test_sizes_that_fall_while_values_rise_never_fit() -> None:
    assert measure_misfit([30, 20, 10], [1, 2, 3], from_zero=False) == float("inf")
