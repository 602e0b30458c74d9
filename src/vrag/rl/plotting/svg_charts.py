"""Small pictures of curves side by side, as one SVG that stands alone: nothing fetched, light and dark.

What is drawn, and why, is said by those who call: `vrag.rl.plotting.training_plots` for trainings.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from vrag.render.drawing.axes import Axis, axis_of, short
from vrag.render.drawing.text_width import text_width, wrapped
from vrag.render.html import Markup, element, number, printable, stylesheet
from vrag.render.page_head import css

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FEW", "SHADES", "Curve", "CurveGroup", "Panel", "PanelSheet", "Points", "sheet_svg"]

Points: TypeAlias = "Sequence[tuple[float, float]]"
"""Steps and values, by step."""

FEW = 6
"""Curves of which each gets its thin line drawn and its last value written."""
SHADES = 6
"""Colours; curves beyond them have the same ones again, in dashes."""
_WIDTH, _MARGIN, _GAP, _COLUMNS = 1120.0, 32.0, 16.0, 3
_HIGH, _LEFT, _RIGHT, _TOP, _FOOT = 222.0, 50.0, 60.0, 62.0, 34.0
"""Of a panel, and from its edges to what is drawn in it; in pixels."""
_EDGE = 4.0
"""How far lines may reach beyond the field, so that they are not cut in their breadth."""
_LINE = 13.5
"""Height of a line of text."""
_DETAIL, _DOTS = 300, 80
"""Points of a line, and of one with a dot at each; more are not seen at its width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a panel."""

    name: str
    shade: int
    """Its number among those of the sheet; it gives the colour."""
    strong: Points
    """What the eye shall follow; the last value is written at its end."""
    thin: Points = ()
    """What lies behind it: the values before they were smoothed."""
    band: Sequence[tuple[float, float, float]] = ()
    """Step, least and greatest value, as a field."""
    dots: bool = False
    """Mark the points of the strong line: there are few, and between them nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measure."""

    title: str
    unit: str
    """What the values count, for people; where it begins with `%` the last values have that sign."""
    curves: Sequence[Curve]
    span: tuple[float, float] | None = None
    """Ends of its axis; by the values when None."""
    goal: float | None = None
    """A value to mark."""


@dataclass(frozen=True, slots=True)
class CurveGroup:
    """Panels that belong together."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSheet:
    """The whole picture."""

    title: str
    told: str
    """Below the title: what is to be seen."""
    description: str
    """For those who cannot see it."""
    groups: Sequence[CurveGroup]
    legend: Sequence[str] = ()
    """Names of the curves by shade; none where there is one only."""


def sheet_svg(sheet: PanelSheet) -> str:
    """The picture as an SVG file. Equal sheets give equal files; panels without a value are left out."""
    groups = [CurveGroup(group.title, [one for one in group.panels if _told(one)]) for group in sheet.groups]
    steps = [x for group in groups for one in group.panels for curve in one.curves for x, _ in _all(curve)]
    across = axis_of(min(steps, default=0), max(steps, default=1), whole=True, wide=False)
    parts, y = _header(sheet)
    for group in groups:
        if group.panels:
            drawn, y = _group(group, across, y)
            parts += drawn
    if not steps:
        parts.append(element("text", "There is nothing to draw yet.", x=_MARGIN, y=y + 18, class_="told"))
        y += 30
    high = y + _MARGIN - _GAP
    ground = element("rect", width=_WIDTH, height=high, class_="ground")
    kind = "sheet crowd" if len(sheet.legend) > 2 else "sheet"
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" width="{number(_WIDTH)}" '
        f'height="{number(high)}" viewBox="0 0 {number(_WIDTH)} {number(high)}">'
    )
    told = html.escape(printable(sheet.description))
    head = f"{element('title', sheet.title)}<desc>{told}</desc>{stylesheet(_style())}{ground}"
    return f"{opening}{head}{''.join(part.html for part in parts)}</svg>\n"


@cache
def _style() -> str:
    """The colours of all our pages, which stand first in their sheet, and what is particular to curves."""
    palette, _, _ = css("page.css").partition("\n* {")
    return palette + "\n" + (files("vrag.rl") / "curves.css").read_text(encoding="utf-8")


def _told(panel: Panel) -> bool:
    return any(curve.strong for curve in panel.curves)


def _all(curve: Curve) -> list[tuple[float, float]]:
    return [*curve.strong, *curve.thin, *((x, y) for x, *ends in curve.band for y in ends)]


def _header(sheet: PanelSheet) -> tuple[list[Markup], float]:
    wide = _WIDTH - 2 * _MARGIN
    parts: list[Markup] = []
    y = _MARGIN + 22
    for line in wrapped(sheet.title, wide / 27, 2):
        parts.append(element("text", line, x=_MARGIN, y=y, class_="title"))
        y += 32
    for line in wrapped(sheet.told, wide / 13, 3):
        parts.append(element("text", line, x=_MARGIN, y=y - 6, class_="told"))
        y += 19
    if len(sheet.legend) < 2:
        return parts, y - 2
    x = _MARGIN
    y += 10
    for shade, name in enumerate(sheet.legend):
        label = next(iter(wrapped(name, 34, 1)), "")
        room = 30 + 13 * text_width(label) + 22
        if x > _MARGIN and x + room > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + 22
        parts += [
            element("path", d=f"M{number(x + 2)} {number(y - 4.5)}h18", class_=f"swatch {_shade(shade)}"),
            element("text", label, x=x + 28, y=y, class_="entry"),
        ]
        x += room
    return parts, y + 12


def _group(group: CurveGroup, across: Axis, y: float) -> tuple[list[Markup], float]:
    parts: list[Markup] = []
    if group.title:
        y += 22
        wide = 11.5 * text_width(group.title.upper()) * 1.2 + 14
        parts += [
            element("text", group.title.upper(), x=_MARGIN, y=y, class_="group"),
            element(
                "path",
                d=f"M{number(_MARGIN + wide)} {number(y - 4)}H{number(_WIDTH - _MARGIN)}",
                class_="rule",
            ),
        ]
        y += 14
    width = (_WIDTH - 2 * _MARGIN - (_COLUMNS - 1) * _GAP) / _COLUMNS
    for index, panel in enumerate(group.panels):
        row, column = divmod(index, _COLUMNS)
        left, top = _MARGIN + column * (width + _GAP), y + row * (_HIGH + _GAP)
        parts.append(_panel(panel, across, left, top, width))
    return parts, y + math.ceil(len(group.panels) / _COLUMNS) * (_HIGH + _GAP)


def _panel(panel: Panel, across: Axis, left: float, top: float, width: float) -> Markup:
    field = _Field(across, _up(panel), width - _LEFT - _RIGHT, _HIGH - _TOP - _FOOT)
    return element(
        "svg",
        element("rect", x=0.5, y=0.5, width=width - 1, height=_HIGH - 1, rx=10, class_="frame"),
        element("text", next(iter(wrapped(panel.title, 22, 1)), ""), x=16, y=25, class_="name"),
        element("text", panel.unit, x=16, y=42, class_="unit"),
        _peak(panel, field.up, width),
        _grid(field),
        _lines(panel, field),
        _ends(panel, field),
        x=left,
        y=top,
        width=width,
        height=_HIGH,
        class_="panel",
    )


def _up(panel: Panel) -> Axis:
    """The axis of the values: a few far outliers of the thin line do not press all else flat."""
    if panel.span is not None:
        return axis_of(*panel.span, most=4)
    strong = [y for curve in panel.curves for _, *ys in (*curve.strong, *curve.band) for y in ys]
    thin = sorted(y for curve in panel.curves for _, y in curve.thin)
    spare = len(thin) // 50
    values = [*strong, *thin[spare : len(thin) - spare], *([] if panel.goal is None else [panel.goal])]
    low, high = min(values), max(values)
    if low >= 0 and low < 0.6 * high:
        low = 0.0
    return axis_of(low, high, most=4)


def _peak(panel: Panel, up: Axis, width: float) -> Markup | None:
    """A note of values that lie beyond the field."""
    values = [y for curve in panel.curves for _, y in _all(curve)]
    hair = (up.high - up.low) / 500
    notes = [f"↑ to {short(max(values))}"] if max(values) > up.high + hair else []
    notes += [f"↓ to {short(min(values))}"] if min(values) < up.low - hair else []
    return element("text", ", ".join(notes), x=width - 14, y=25, class_="peak") if notes else None


@dataclass(frozen=True, slots=True)
class _Field:
    """Where the lines of a panel are drawn."""

    across: Axis
    up: Axis
    width: float
    height: float

    def x(self, step: float) -> float:
        return self.across.place(step) * self.width

    def y(self, value: float) -> float:
        """Downwards; what lies far outside stops just beyond the edge."""
        return (1 - min(max(self.up.place(value), -1.0), 2.0)) * self.height

    def path(self, points: Points) -> str:
        """Through all points, to a tenth of a pixel."""
        places = (f"{number(round(self.x(x), 1))} {number(round(self.y(y), 1))}" for x, y in points)
        return f"M{'L'.join(places)}"


def _grid(field: _Field) -> Iterator[Markup]:
    for tick, label in zip(field.up.ticks, field.up.labels, strict=True):
        y = _TOP + field.y(tick)
        path = f"M{number(_LEFT)} {number(y)}h{number(field.width)}"
        yield element("path", d=path, class_="base" if tick == field.up.low else "grid")
        yield element("text", label, x=_LEFT - 8, y=y + 3.8, class_="tick y")
    bottom = _TOP + field.height
    for tick, label in zip(field.across.ticks, field.across.labels, strict=True):
        x = _LEFT + field.x(tick)
        yield element("path", d=f"M{number(x)} {number(bottom)}v4", class_="base")
        yield element("text", label, x=x, y=bottom + 17, class_="tick x")
    yield element("text", "step", x=_LEFT + field.width + _RIGHT - 14, y=bottom + 17, class_="axis")


def _lines(panel: Panel, field: _Field) -> Markup:
    inner: list[Markup | None] = []
    for curve in panel.curves:
        thin = curve.thin if len(panel.curves) <= FEW else ()
        inner += [_area(curve, field), _line(thin, field, f"thin {_shade(curve.shade)}")]
    if panel.goal is not None:
        inner.append(
            element("path", d=f"M0 {number(field.y(panel.goal))}h{number(field.width)}", class_="goal")
        )
    for curve in panel.curves:
        inner.append(_line(curve.strong, field, f"strong {_shade(curve.shade)}"))
        if len(curve.strong) == 1 or (curve.dots and len(curve.strong) <= _DOTS):
            dots = "".join(f"M{number(field.x(x))} {number(field.y(y))}h0" for x, y in curve.strong)
            kind = "dot" if len(curve.strong) > 1 else "lone"
            inner.append(element("path", d=dots, class_=f"{kind} s{curve.shade % SHADES}"))
    wide, high = field.width + 2 * _EDGE, field.height + 2 * _EDGE
    return element(
        "svg",
        inner,
        x=_LEFT - _EDGE,
        y=_TOP - _EDGE,
        width=wide,
        height=high,
        viewBox=f"{number(-_EDGE)} {number(-_EDGE)} {number(wide)} {number(high)}",
    )


def _line(points: Points, field: _Field, class_: str) -> Markup | None:
    if len(points) < 2:
        return None
    return element("path", d=field.path(_thinned(points)), class_=class_)


def _area(curve: Curve, field: _Field) -> Markup | None:
    if len(curve.band) < 2:
        return None
    upper = [(x, high) for x, _, high in curve.band]
    lower = [(x, low) for x, low, _ in reversed(curve.band)]
    return element("path", d=f"{field.path((*upper, *lower))}Z", class_=f"band s{curve.shade % SHADES}")


def _thinned(points: Points) -> Points:
    """At most so many points as are seen: of each stretch its least and its greatest value."""
    if len(points) <= _DETAIL:
        return points
    length = 2 * len(points) / _DETAIL
    cuts = [round(index * length) for index in range(_DETAIL // 2)]
    kept: dict[tuple[float, float], None] = {}
    for begin, end in zip(cuts, [*cuts[1:], len(points)], strict=True):
        stretch = points[begin:end]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept.update(dict.fromkeys(sorted(ends)))
    return [*kept, points[-1]]


def _ends(panel: Panel, field: _Field) -> Iterator[Markup]:
    """The last value of each line, in the margin at its height, moved apart where they would touch."""
    percent = panel.unit.startswith("%")
    curves = [curve for curve in panel.curves if curve.strong]
    if len(curves) > FEW:
        return
    wished = [(field.y(curve.strong[-1][1]), curve) for curve in curves]
    wished = [(min(max(y, 0.0), field.height), curve) for y, curve in wished]
    wished.sort(key=lambda pair: pair[0])
    for y, (_, curve) in zip(_apart([y for y, _ in wished], field.height), wished, strict=True):
        value = curve.strong[-1][1]
        label = f"{short(round(value, 1))}%" if percent else short(value)
        yield element(
            "text", label, x=_LEFT + field.width + 8, y=_TOP + y + 4, class_=f"last s{curve.shade % SHADES}"
        )


def _apart(wished: Sequence[float], height: float) -> list[float]:
    """Heights, a line of text apart, that are nearest to the wished ones (isotonic regression)."""
    blocks: list[tuple[float, int]] = []  # where the first line of a pile would begin, and how many share it
    for index, y in enumerate(wished):
        begin, lines = y - index * _LINE, 1
        while blocks and blocks[-1][0] > begin:
            above, more = blocks.pop()
            begin, lines = (above * more + begin * lines) / (more + lines), more + lines
        blocks.append((begin, lines))
    begins = [begin for begin, lines in blocks for _ in range(lines)]
    lowest = height - 4 - (len(wished) - 1) * _LINE
    return [min(max(begin, 0.0), lowest) + index * _LINE for index, begin in enumerate(begins)]


def _shade(shade: int) -> str:
    return f"s{shade % SHADES}{' later' if shade >= SHADES else ''}"
