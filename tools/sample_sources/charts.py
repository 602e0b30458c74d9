"""Charts as inline SVG, drawn from numbers.

Every function returns one `<svg>` element whose colours and type come from the style sheet. A
chart's coordinates are CSS pixels of its own view box. `gold` maps a label to the question whose
answer is read off there; its text is marked for `make_samples`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["CHARTS", "Series", "bars", "donut", "levels", "lines", "stacked"]

Gold = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """A named row of numbers, with the style-sheet class that colours it."""

    name: str
    values: Sequence[float]
    style: str


def _element(tag: str, content: str = "", **attributes: str | float) -> str:
    """One SVG element; `_` in attribute names stands for `-`, a trailing one is dropped."""
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value != "")
    inside = "".join(f' {name}="{_number(value)}"' for name, value in pairs)
    return f"<{tag}{inside}>{content}</{tag}>"


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, content: str, style: str, gold: str = "") -> str:
    return _element("text", content, x=x, y=y, class_=style, data_gold=gold)


def _svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    box = f"0 0 {_number(width)} {_number(height)}"
    return _element("svg", "".join(parts), viewBox=box, class_="chart", role="img", aria_label=label)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _grid(left: float, right: float, ticks: Sequence[tuple[float, str]]) -> list[str]:
    """Horizontal rules at heights, each with its number to the left."""
    rules = [_element("line", x1=left, x2=right, y1=y, y2=y, class_="rule") for y, _ in ticks]
    return rules + [_text(left - 8, y + 3.5, label, "tick end") for y, label in ticks]


def lines(
    labels: Sequence[str],
    series: Sequence[Series],
    top: float,
    step: float,
    marks: Mapping[int, str],
    label: str,
) -> str:
    """A line chart; `marks` puts a number at positions of the last series."""
    width, height, left, right, floor = 680.0, 250.0, 40.0, 96.0, 222.0
    span = (width - left - right) / (len(labels) - 1)

    def at(index: int, value: float) -> tuple[float, float]:
        return left + index * span, floor - value / top * (floor - 22)

    ticks = [(at(0, step * n)[1], f"{step * n:g}") for n in range(int(top / step) + 1)]
    parts = _grid(left, width - right, ticks)
    parts += [_text(at(n, 0)[0], height - 10, name, "tick mid") for n, name in enumerate(labels)]
    for row in series:
        points = [at(n, value) for n, value in enumerate(row.values)]
        parts.append(_element("path", d=_path(points), class_=f"line {row.style}"))
        end = points[-1]
        parts.append(
            _text(end[0] + 10, end[1] + (14 if row is not series[-1] else -2), row.name, f"key {row.style}")
        )
    for index, gold in marks.items():
        x, y = at(index, series[-1].values[index])
        parts.append(_element("circle", cx=x, cy=y, r=4, class_=f"dot {series[-1].style}"))
        parts.append(_text(x, y - 11, f"{series[-1].values[index]:g}", "value mid", gold))
    return _svg(width, height, parts, label)


def levels(labels: Sequence[str], values: Sequence[float], top: float, label: str) -> str:
    """Tall bars with their number above them; the last one stands out."""
    width, height, floor = 320.0, 190.0, 162.0
    slot = width / len(labels)
    parts = [_element("line", x1=0, x2=width, y1=floor, y2=floor, class_="axis")]
    for index, (name, value) in enumerate(zip(labels, values, strict=True)):
        tall = value / top * (floor - 24)
        style = "bar accent" if index == len(labels) - 1 else "bar soft"
        x = index * slot + slot * 0.19
        parts.append(
            _element("rect", x=x, y=floor - tall, width=slot * 0.62, height=tall, rx=2, class_=style)
        )
        parts.append(_text(x + slot * 0.31, floor - tall - 7, f"{value:g}", "value mid"))
        parts.append(_text(x + slot * 0.31, height - 10, name, "tick mid"))
    return _svg(width, height, parts, label)


def signed(labels: Sequence[str], values: Sequence[float], reach: float, label: str) -> str:
    """Bars above and below a zero line."""
    width, height, zero = 680.0, 226.0, 122.0
    slot = width / len(labels)
    parts = [_element("line", x1=0, x2=width, y1=zero, y2=zero, class_="axis")]
    for index, (name, value) in enumerate(zip(labels, values, strict=True)):
        tall = abs(value) / reach * 98
        x, y = index * slot + slot * 0.26, zero - tall if value > 0 else zero
        style = "bar teal" if value > 0 else "bar coral"
        parts.append(_element("rect", x=x, y=y, width=slot * 0.48, height=tall, rx=2, class_=style))
        shown = f"{value:+g}".replace("-", "−")
        parts.append(_text(x + slot * 0.24, y - 8 if value > 0 else y + tall + 16, shown, "value mid"))
        parts.append(_text(x + slot * 0.24, height - 4, name, "tick mid"))
    return _svg(width, height, parts, label)


def stacked(
    labels: Sequence[str], series: Sequence[Series], top: float, step: float, label: str, gold: Gold
) -> str:
    """Stacked bars with a number in each part; `gold` is keyed by "<series> <label>"."""
    width, height, left, right, floor = 680.0, 270.0, 52.0, 8.0, 238.0
    slot = (width - left - right) / len(labels)
    scale = (floor - 14) / top
    ticks = [(floor - step * n * scale, f"{step * n:,.0f}") for n in range(int(top / step) + 1)]
    parts = _grid(left, width - right, ticks)
    for index, name in enumerate(labels):
        x, base = left + slot * (index + 0.22), floor
        parts.append(_text(x + slot * 0.28, height - 12, name, "tick mid"))
        for row in series:
            tall = row.values[index] * scale
            base -= tall
            if not tall:
                continue
            parts.append(
                _element("rect", x=x, y=base, width=slot * 0.56, height=tall, class_=f"bar {row.style}")
            )
            mark = gold.get(f"{row.name} {name}", "")
            parts.append(
                _text(x + slot * 0.28, base + tall / 2 + 4, f"{row.values[index]:,.0f}", "inside mid", mark)
            )
    return _svg(width, height, parts, label)


def bars(names: Sequence[str], values: Sequence[float], low: float, high: float, label: str) -> str:
    """Lying bars with a percentage at their end, on an axis from `low` to `high`."""
    row, left, width = 34.0, 172.0, 680.0
    height = row * len(names)
    parts: list[str] = []
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        y = index * row + 7
        long = (value - low) / (high - low) * (width - left - 70)
        parts.append(_text(0, y + 14, name, "name"))
        parts.append(
            _element("rect", x=left, y=y, width=width - left - 70, height=20, rx=2, class_="bar faint")
        )
        parts.append(_element("rect", x=left, y=y, width=long, height=20, rx=2, class_="bar teal"))
        parts.append(_text(width - 58, y + 15, f"{value:.1f} %", "value"))
    return _svg(width, height, parts, label)


def _slice(start: float, end: float, outer: float, inner: float) -> str:
    """A ring's part between two fractions of a turn, as path data around the origin."""

    def at(turn: float, radius: float) -> str:
        angle = 2 * math.pi * (turn - 0.25)
        return f"{radius * math.cos(angle):.2f} {radius * math.sin(angle):.2f}"

    large = int(end - start > 0.5)
    out = f"M{at(start, outer)}A{outer} {outer} 0 {large} 1 {at(end, outer)}"
    return f"{out}L{at(end, inner)}A{inner} {inner} 0 {large} 0 {at(start, inner)}Z"


def donut(parts: Sequence[Series], middle: tuple[str, str], unit: str, label: str, gold: Gold) -> str:
    """A ring of one number per part, its legend to the right, two lines of text in its middle."""
    width, height, radius = 430.0, 220.0, 100.0
    total = sum(part.values[0] for part in parts)
    drawn: list[str] = []
    start = 0.0
    for index, part in enumerate(parts):
        end = start + part.values[0] / total
        drawn.append(
            _element(
                "path",
                d=_slice(start, end, radius, 58),
                class_=f"slice {part.style}",
                transform="translate(106 110)",
            )
        )
        y = 110 + (index - (len(parts) - 1) / 2) * 34
        drawn.append(_element("rect", x=234, y=y - 10, width=12, height=12, rx=2, class_=f"bar {part.style}"))
        drawn.append(_text(254, y, f"{part.values[0]:g}{unit}", "value", gold.get(part.name, "")))
        drawn.append(_text(304, y, part.name, "name"))
        start = end
    drawn += [_text(106, 112, middle[0], "middle mid"), _text(106, 130, middle[1], "tick mid")]
    return _svg(width, height, drawn, label)


YEARS = ["2020", "2021", "2022", "2023", "2024"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
HOURS = ["6:00", "8:00", "10:00", "12:00", "14:00", "16:00", "18:00", "20:00", "22:00"]

CHARTS: dict[str, str] = {
    "monthly": lines(
        MONTHS,
        [
            Series("2023", [16.8, 17.9, 22.6, 31.0, 38.2, 46.0, 63.4, 61.9, 40.3, 28.4, 19.3, 20.2], "grey"),
            Series("2024", [17.2, 18.4, 24.1, 31.6, 39.8, 48.3, 66.9, 63.5, 42.7, 30.2, 20.5, 21.6], "teal"),
        ],
        80,
        20,
        {6: "report-peak-month"},
        "Passengers by month",
    ),
    "travellers": donut(
        [
            Series("islanders", [38], "deep"),
            Series("day visitors", [29], "teal"),
            Series("overnight guests", [18], "gold"),
            Series("pupils, commuters", [11], "coral"),
            Series("crews and trades", [4], "grey"),
        ],
        ("424,800", "journeys"),
        " %",
        "Who travels",
        {},
    ),
    "punctuality": bars(
        ["Hessel – Orla", "Hessel – Fennick", "Orla – Saltby", "Fennick – Little Skerra"],
        [97.1, 95.4, 93.8, 98.6],
        80,
        100,
        "Punctuality by line",
    ),
    "energy": stacked(
        YEARS,
        [
            Series("shore power", [0, 620, 1480, 1910, 2460], "teal"),
            Series("diesel", [7900, 7050, 5880, 5120, 4310], "deep"),
        ],
        8000,
        2000,
        "Energy by source",
        {},
    ),
    "surplus": signed(YEARS, [-212, -64, 88, 190, 364], 364, "Surplus by year"),
    "terns": levels(YEARS, [141, 156, 149, 187, 212], 212, "Breeding pairs of terns"),
    "battery": lines(
        HOURS,
        [Series("charge", [96, 71, 78, 58, 66, 45, 57, 39, 62], "teal")],
        100,
        25,
        {1: "", 3: "", 5: "", 7: ""},
        "State of charge over a day",
    ),
    "funding": donut(
        [
            Series("coast fund grant", [3.6], "teal"),
            Series("bank loan", [3.4], "deep"),
            Series("members’ bonds", [2.5], "gold"),
            Series("own funds", [1.9], "coral"),
        ],
        ("11.4", "million euros"),
        "",
        "Where the money comes from",
        {},
    ),
}
"""The charts that page sources name as `<!--chart:NAME-->`."""
