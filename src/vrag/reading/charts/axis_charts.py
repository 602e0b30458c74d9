"""Bars and points over an axis of labels, with the number of each beside it.

Both directions are read alike: along the axis of labels, and up from it, to where numbers grow. A bar has its
number at its end or in it, and its label below it; a point has a number near it and a label in the row of the
axis. All lengths of bars are in the proportions of their numbers, and all heights of numbers at points rise
with these; where one does not, nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vrag.reading.charts.chart_tables import (
    MIN_NUMBERS,
    ChartNumber,
    ChartRow,
    ChartWords,
    PrintedChart,
    are_alike,
    find_legend,
    measure_misfit,
)
from vrag.reading.charts.drawn_parts import DrawnPart
from vrag.reading.tables.text_pieces import Piece

MIN_POINTS = 4
"""Points of a line without bars, whose labels alone show the proportions."""
MAX_SERIES, MAX_BARS = 5, 300
"""Bars at one label, and areas of a page that are looked at."""
MIN_THICKNESS = 4.0
"""Thickness of the thinnest bar, in pixels."""
SAME_EDGE, SAME_THICKNESS = 3.0, 0.12
"""Distance of two edges at one place, in pixels, and the share by which bars of one chart differ."""
MISFIT, MISFIT_PIXELS = 0.02, 4.0
"""Difference of a bar from its proportion, as a share of the longest one, and at least in pixels."""
POINT_MISFIT, POINT_RANGE = 0.35, 3.0
"""Difference of a number at a point from its proportion, and the least difference of the highest and the
lowest one, in heights of the text."""
END_GAP = 2.0
"""Space between the end of a bar and its number, in heights of the text."""
LABEL_GAP = {True: 3.0, False: 8.0}
"""Space between an axis and its labels, in heights of the text, by whether bars are upright."""
CENTRED = 0.3
"""Distance between the middles of a bar and of its label, in distances of labels."""
UNEVEN = 0.15
"""Difference of the distances of labels on one axis, as a share of them."""
LINE_GAP = 0.9
"""Space between two lines of a label, in heights of the text."""


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """A rectangle as seen from an axis of labels, in pixels."""

    first: float
    last: float
    """Its sides along the axis."""
    low: float
    high: float
    """Its sides away from the axis, to where numbers grow."""

    @classmethod
    def of(cls, x1: float, y1: float, x2: float, y2: float, *, is_upright: bool) -> AxisSpan:
        """Turn a rectangle; numbers grow upwards where bars are upright, else to the right."""
        return cls(x1, x2, -y2, -y1) if is_upright else cls(y1, y2, x1, x2)

    @property
    def middle(self) -> float:
        """The middle along the axis."""
        return (self.first + self.last) / 2

    @property
    def thickness(self) -> float:
        """The extent along the axis."""
        return self.last - self.first

    @property
    def length(self) -> float:
        """The extent away from the axis."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class _Bar:
    span: AxisSpan
    part: DrawnPart


def find_bar_charts(words: ChartWords, parts: Sequence[DrawnPart]) -> Iterator[PrintedChart]:
    """Yield the charts whose bars, numbers and labels belong together."""
    for is_upright in (True, False):
        bars = _list_bars(parts, is_upright=is_upright)
        for group in _group_bars(bars):
            if not any(_continues(bar, group) for bar in bars):
                chart = _read_bars(words, group, parts, is_upright=is_upright)
                if chart is not None:
                    yield chart


def _list_bars(parts: Iterable[DrawnPart], *, is_upright: bool) -> list[_Bar]:
    """Return the largest areas that may be bars."""
    thick = [
        part for part in parts if part.is_bar and min(part.rect.width, part.rect.height) >= MIN_THICKNESS
    ]
    largest = sorted(thick, key=lambda part: -part.area)[:MAX_BARS]
    return [_Bar(AxisSpan.of(*part.rect, is_upright=is_upright), part) for part in largest]


def _group_bars(bars: Iterable[_Bar]) -> Iterator[list[_Bar]]:
    """Yield bars that stand on one axis and are equally thick, in the order of the axis."""
    groups: list[list[_Bar]] = []
    for bar in bars:
        for group in groups:
            first, span = group[0].span, bar.span
            is_same = abs(first.low - span.low) <= SAME_EDGE
            difference = abs(first.thickness - span.thickness)
            if is_same and difference <= max(SAME_EDGE, SAME_THICKNESS * first.thickness):
                group.append(bar)
                break
        else:
            groups.append([bar])
    for group in groups:
        ordered = sorted(group, key=lambda bar: bar.span.first)
        is_apart = all(one.span.last <= other.span.first + SAME_EDGE for one, other in pairwise(ordered))
        if len(ordered) >= MIN_NUMBERS and is_apart:
            yield ordered


def _continues(bar: _Bar, group: Sequence[_Bar]) -> bool:
    """Return whether a bar goes on where one of a group ends: these are parts of stacked bars."""
    return any(
        bar is not other
        and abs(bar.span.low - other.span.high) <= SAME_EDGE
        and abs(bar.span.middle - other.span.middle) <= SAME_EDGE
        and abs(bar.span.thickness - other.span.thickness) <= 2 * SAME_EDGE
        for other in group
    )


def _read_bars(
    words: ChartWords, bars: Sequence[_Bar], parts: Sequence[DrawnPart], *, is_upright: bool
) -> PrintedChart | None:
    numbers = [_find_number(words, bar.span, is_upright=is_upright) for bar in bars]
    found = [number for number in numbers if number is not None]
    if len(found) < len(bars) or len({id(number) for number in found}) < len(bars) or not are_alike(found):
        return None
    lengths = [bar.span.length for bar in bars]
    misfit = measure_misfit(lengths, [number.value for number in found], from_zero=True)
    if misfit > max(MISFIT_PIXELS, MISFIT * max(lengths)):
        return None
    spans = [_turn(number.piece, is_upright=is_upright) for number in found]
    area = AxisSpan(
        bars[0].span.first, bars[-1].span.last, bars[0].span.low, max(span.high for span in spans)
    )
    if _find_others(words.numbers, found, area, is_upright=is_upright):
        return None
    taken = {id(number.piece) for number in found}
    labels = [piece for piece in words.labels if id(piece) not in taken]
    for count in range(1, MAX_SERIES + 1):
        if len(bars) % count or len(bars) // count < 2:
            continue
        groups = [bars[at : at + count] for at in range(0, len(bars), count)]
        names = _find_labels(groups, labels, is_upright=is_upright)
        series = _find_series(words, groups, parts) if names and count > 1 else ()
        if names and (count == 1 or series):
            rows = tuple(
                ChartRow(name, tuple(found[at * count : (at + 1) * count])) for at, name in enumerate(names)
            )
            return PrintedChart("bar chart", rows, series, tuple(bar.part for bar in bars))
    return None


def _find_number(words: ChartWords, bar: AxisSpan, *, is_upright: bool) -> ChartNumber | None:
    """Return the only number at the end of a bar or in it."""
    found: list[ChartNumber] = []
    for number in words.numbers:
        span, height = _turn(number.piece, is_upright=is_upright), number.piece.height
        if not bar.first <= span.middle <= bar.last:
            continue
        is_beyond = -0.5 * height <= span.low - bar.high <= END_GAP * height
        is_inside = span.low >= bar.low - 0.3 * height and span.high <= bar.high + 0.5 * height
        if is_beyond or is_inside:
            found.append(number)
    return found[0] if len(found) == 1 else None


def _find_others(
    numbers: Sequence[ChartNumber], chosen: Sequence[ChartNumber], area: AxisSpan, *, is_upright: bool
) -> list[ChartNumber]:
    """Return the numbers in the area of a chart that are not chosen, such as those of another series.

    Numbers of an axis, which stand in a column, or a row of bars that lie, are none.
    """
    others: list[tuple[AxisSpan, ChartNumber]] = []
    for number in numbers:
        span = _turn(number.piece, is_upright=is_upright)
        is_inside = area.first <= span.middle <= area.last and span.low >= area.low and span.high <= area.high
        if is_inside and not any(number is one for one in chosen):
            others.append((span, number))
    in_line = [
        sum(abs(span.last - other.last) <= SAME_EDGE for other, _ in others) >= MIN_NUMBERS
        for span, _ in others
    ]
    return [number for (_, number), is_tick in zip(others, in_line, strict=True) if not is_tick]


def _find_labels(
    groups: Sequence[Sequence[_Bar]], labels: Sequence[Piece], *, is_upright: bool
) -> list[tuple[Piece, ...]]:
    """Return the label of each group of bars, below its middle; nothing where one lacks or is left over."""
    middles = [(group[0].span.first + group[-1].span.last) / 2 for group in groups]
    steps = [after - before for before, after in pairwise(middles)]
    step, low = min(steps), min(bar.span.low for group in groups for bar in group)
    if max(steps) - step > UNEVEN * max(steps) + 2 * SAME_EDGE:
        return []
    near = [
        (span, piece)
        for piece in labels
        for span in [_turn(piece, is_upright=is_upright)]
        if -0.1 * piece.height <= low - span.high <= LABEL_GAP[is_upright] * piece.height
        and middles[0] - 1.5 * step <= span.middle <= middles[-1] + 1.5 * step
    ]
    first_lines = _choose_nearest(near, middles, step, is_upright=is_upright)
    found: list[tuple[Piece, ...]] = []
    used = 0
    for middle in middles:
        lines = [(span, piece) for span, piece in first_lines if abs(span.middle - middle) <= 0.5 * step]
        used += len(lines)
        name = _join_lines(lines, labels, is_upright=is_upright)
        if not name or abs(_middle_of(name, is_upright=is_upright) - middle) > CENTRED * step:
            return []
        found.append(name)
    texts = {" ".join(piece.text for piece in name) for name in found}
    return found if used == len(first_lines) and len(texts) == len(found) else []


def _choose_nearest(
    near: Sequence[tuple[AxisSpan, Piece]], middles: Sequence[float], step: float, *, is_upright: bool
) -> list[tuple[AxisSpan, Piece]]:
    """Return what stands as near to an axis as its labels: upright, in their row; else, in their column."""
    if is_upright:
        edge = max((span.high for span, _ in near), default=0.0)
        return [(span, piece) for span, piece in near if edge - span.high <= 0.6 * piece.height]
    nearest = [
        max((span for span, _ in near if abs(span.middle - middle) <= 0.5 * step), default=None, key=_high)
        for middle in middles
    ]
    left = min((span.low for span in nearest if span is not None), default=0.0)
    return [(span, piece) for span, piece in near if span.high > left]


def _high(span: AxisSpan) -> float:
    return span.high


def _join_lines(
    lines: Sequence[tuple[AxisSpan, Piece]], labels: Sequence[Piece], *, is_upright: bool
) -> tuple[Piece, ...]:
    """Return the lines of one label from its first ones; nothing where they do not stand together."""
    if not is_upright:
        pieces = sorted((piece for _, piece in lines), key=lambda piece: piece.y1)
        is_close = all(
            -0.3 * one.height <= other.y1 - one.y2 <= LINE_GAP * one.height for one, other in pairwise(pieces)
        )
        return tuple(pieces) if is_close else ()
    if len(lines) != 1:
        return ()
    joined = [lines[0][1]]
    while True:
        last = joined[-1]
        below = [
            piece
            for piece in labels
            if -0.3 * last.height <= piece.y1 - last.y2 <= 0.5 * last.height
            and piece.x1 < last.x2
            and last.x1 < piece.x2
            and abs(piece.x1 + piece.x2 - last.x1 - last.x2) <= last.height
            and piece not in joined
        ]
        if len(below) != 1 or len(joined) > 3:
            return tuple(joined)
        joined.append(below[0])


def _find_series(
    words: ChartWords, groups: Sequence[Sequence[_Bar]], parts: Sequence[DrawnPart]
) -> tuple[Piece, ...]:
    """Return the names of the series by the colours of bars, which are the same in each group."""
    colors = [bar.part.color for bar in groups[0]]
    is_same = all([bar.part.color for bar in group] == colors for group in groups)
    if not is_same or len(set(colors)) < len(colors):
        return ()
    bars = {id(bar.part) for group in groups for bar in group}
    names = find_legend(words, (part for part in parts if id(part) not in bars), colors)
    return tuple(names[color] for color in colors) if names else ()


def find_point_charts(
    words: ChartWords, parts: Sequence[DrawnPart], taken: Iterable[Piece]
) -> Iterator[PrintedChart]:
    """Yield the charts whose numbers rise and fall over a row of labels as their values do.

    `taken` are the numbers of other charts.
    """
    bars = list(_group_bars(_list_bars(parts, is_upright=True)))
    used = {id(piece) for piece in taken}
    numbers = [number for number in words.numbers if id(number.piece) not in used]
    for row in words.rows:
        for labels in _list_even_runs([piece for piece in row if id(piece) not in used]):
            found = _find_points(labels, numbers)
            if found and not any(_has_other_bars(group, labels, found) for group in bars):
                rows = (ChartRow((label,), (number,)) for label, number in zip(labels, found, strict=True))
                yield PrintedChart("chart", tuple(rows))


def _has_other_bars(bars: Sequence[_Bar], labels: Sequence[Piece], numbers: Sequence[ChartNumber]) -> bool:
    """Return whether more or fewer bars stand over labels than there are, as those of two series."""
    first, last = labels[0].x1, labels[-1].x2
    top, bottom = min(number.piece.y1 for number in numbers), max(label.y2 for label in labels)
    over = [bar for bar in bars if first <= bar.span.middle <= last and top <= -bar.span.low <= bottom]
    return len(over) >= MIN_NUMBERS and len(over) != len(labels)


def _list_even_runs(row: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Yield the longest parts of a row whose texts stand at equal distances, as the labels of an axis."""
    middles = [(piece.x1 + piece.x2) / 2 for piece in row]
    first = 0
    for end in range(2, len(row) + 1):
        steps = [after - before for before, after in pairwise(middles[first : end + 1])]
        if end < len(row) and max(steps) - min(steps) <= UNEVEN * max(steps):
            continue
        run = row[first:end]
        if len(run) >= MIN_POINTS and len({piece.text for piece in run}) == len(run):
            yield run
        first = end - 1


def _find_points(labels: Sequence[Piece], numbers: Sequence[ChartNumber]) -> list[ChartNumber]:
    """Return the only number over each label, where their heights are in the proportions of their values."""
    step = (labels[-1].x1 + labels[-1].x2 - labels[0].x1 - labels[0].x2) / 2 / (len(labels) - 1)
    top = min(label.y1 for label in labels)
    columns: list[list[ChartNumber]] = []
    for label in labels:
        middle = (label.x1 + label.x2) / 2
        columns.append(
            [
                number
                for number in numbers
                if abs((number.piece.x1 + number.piece.x2) / 2 - middle) <= CENTRED * step
                and number.piece.y2 <= top
            ]
        )
    if not all(columns):
        return []
    chosen = [max(column, key=lambda number: number.piece.y2) for column in columns]
    height = max(number.piece.height for number in chosen)
    highest = min(number.piece.y1 for number in chosen)
    counts = [
        sum(number.piece.y1 >= highest - POINT_RANGE * height for number in column) for column in columns
    ]
    area = AxisSpan(
        (labels[0].x1 + labels[0].x2 - step) / 2,
        (labels[-1].x1 + labels[-1].x2 + step) / 2,
        -top,
        POINT_RANGE * height - highest,
    )
    heights = [-number.piece.middle for number in chosen]
    values = [number.value for number in chosen]
    if max(counts) > 1 or not are_alike(chosen) or len(set(values)) < MIN_NUMBERS:
        return []
    if _find_others(numbers, chosen, area, is_upright=True):
        return []
    is_flat = max(heights) - min(heights) < POINT_RANGE * height
    misfit = measure_misfit(heights, values, from_zero=False)
    return [] if is_flat or misfit > POINT_MISFIT * height else chosen


def _turn(piece: Piece, *, is_upright: bool) -> AxisSpan:
    return AxisSpan.of(piece.x1, piece.y1, piece.x2, piece.y2, is_upright=is_upright)


def _middle_of(pieces: Sequence[Piece], *, is_upright: bool) -> float:
    """Return the middle of a label along the axis."""
    spans = [_turn(piece, is_upright=is_upright) for piece in pieces]
    return (min(span.first for span in spans) + max(span.last for span in spans)) / 2
