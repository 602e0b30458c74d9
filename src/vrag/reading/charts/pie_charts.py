"""Slices of pies and rings with the number of each in it or beside it.

The areas of all slices are in the proportions of their numbers; percentages add up to a hundred.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from vrag.reading.charts.chart_tables import (
    TITLE,
    ChartNumber,
    ChartRow,
    ChartWords,
    PrintedChart,
    find_legend,
)
from vrag.reading.charts.drawn_parts import DrawnPart
from vrag.reading.tables.text_pieces import Piece
from vrag.reading.views.text_lines import Rect, around

MIN_SLICES, MAX_SLICES, MAX_PARTS = 2, 12, 60
"""Slices of a pie, and areas of a page that are looked at."""
MIN_RADIUS, THIN = 2.0, 0.4
"""Length and width of the smallest slice, in heights of the text."""
ROUND = 0.15
"""Difference of the width and the height of a pie, as a share of them."""
RING, CORNER = 0.25, 0.14
"""Share of its circle that a thin ring fills, and that of its width which is empty in its corners."""
APART = 0.06
"""Space between slices of one pie, in widths of the larger one."""
MISFIT = 0.02
"""Difference between the share of a slice in the area and that of its number in their sum."""
WHOLE = (98, 102)
"""The sum of percentages of a whole, which are rounded."""
BESIDE = 2.5
"""Distance of a number or a label outside of its slice, in heights of the text."""
MAX_LINES, LINE_GAP = 3, 0.9
"""Lines of a label, and the space between them, in heights of the text."""
NEARER = 2.0
"""How many times farther the next slice is than the one that a text belongs to."""
_LETTERS = re.compile(r"[^\W\d_]{2}|[^\W\d_].*\d|\d+\s?[-–+]")


def find_pie_charts(words: ChartWords, parts: Sequence[DrawnPart]) -> Iterator[PrintedChart]:
    """Yield the pies and rings whose slices, numbers and labels belong together."""
    unit = words.page.line_height
    slices = [
        part
        for part in parts
        if part.is_solid
        and max(part.rect.width, part.rect.height) >= MIN_RADIUS * unit
        and min(part.rect.width, part.rect.height) >= THIN * unit
    ]
    for group in _group_slices(slices):
        if len({part.color for part in group}) == len(group) and _is_round(group):
            chart = _read_pie(words, group, parts)
            if chart is not None:
                yield chart


def _group_slices(parts: Sequence[DrawnPart]) -> Iterator[list[DrawnPart]]:
    """Yield areas that lie close together and are no bars."""
    groups = [[part] for part in sorted(parts, key=lambda part: -part.area)[:MAX_PARTS]]
    while True:
        pair = next(
            (
                (one, other)
                for one, other in combinations(groups, 2)
                if any(_touch(a.rect, b.rect) for a in one for b in other)
            ),
            None,
        )
        if pair is None:
            break
        pair[0].extend(pair[1])
        groups.remove(pair[1])
    yield from (group for group in groups if MIN_SLICES <= len(group) <= MAX_SLICES)


def _touch(a: Rect, b: Rect) -> bool:
    space = APART * max(a.width, b.width, a.height, b.height)
    across = max(a.x1, b.x1) - min(a.x2, b.x2)
    return across <= space and max(a.y1, b.y1) - min(a.y2, b.y2) <= space


def _is_round(group: Sequence[DrawnPart]) -> bool:
    """Return whether areas fill a circle together, or a ring."""
    rect = around(part.rect for part in group)
    if rect is None or abs(rect.width - rect.height) > ROUND * max(rect.width, rect.height):
        return False
    share = sum(part.area for part in group) / (math.pi / 4 * rect.area)
    corner = CORNER * min(rect.width, rect.height)
    corners = [(x, y) for x in (rect.x1, rect.x2) for y in (rect.y1, rect.y2)]
    is_in_corner = any(
        (np.abs(part.points - np.asarray(place)).max(axis=1) < corner).any()
        for part in group
        for place in corners
    )
    return RING <= share <= 1.1 and not is_in_corner


def _read_pie(
    words: ChartWords, slices: Sequence[DrawnPart], parts: Sequence[DrawnPart]
) -> PrintedChart | None:
    numbers: list[list[ChartNumber]] = [[] for _ in slices]
    for number in words.numbers:
        at = _find_slice(number.piece, slices)
        if at is not None:
            numbers[at].append(number)
    if any(len(found) != 1 for found in numbers):
        return None
    found = [number for (number,) in numbers]
    if not _has_shares_of(slices, found):
        return None
    labels = _find_labels(words, slices, parts, {id(number.piece) for number in found})
    if len({" ".join(piece.text for piece in label) for label in labels}) < len(slices):
        return None
    rows = tuple(ChartRow(label, (number,)) for label, number in zip(labels, found, strict=True))
    return PrintedChart("pie chart", rows, (), tuple(slices))


def _has_shares_of(slices: Sequence[DrawnPart], numbers: Sequence[ChartNumber]) -> bool:
    """Return whether the areas of slices are in the proportions of numbers that are parts of one whole."""
    units, whole = {number.unit for number in numbers}, sum(number.value for number in numbers)
    if len(units) > 1 or not whole or (units == {"%"} and not WHOLE[0] <= whole <= WHOLE[1]):
        return False
    area = sum(part.area for part in slices)
    return all(
        abs(part.area / area - float(number.value / whole)) <= MISFIT
        for part, number in zip(slices, numbers, strict=True)
    )


def _find_slice(piece: Piece, slices: Sequence[DrawnPart]) -> int | None:
    """Return the number of the slice that a text stands in, or else clearly nearest to; None for none."""
    x, y = (piece.x1 + piece.x2) / 2, piece.middle
    for at, part in enumerate(slices):
        if part.holds(x, y):
            return at
    distances = [_measure_distance(piece, part) for part in slices]
    first, second = sorted(distances)[:2]
    is_clear = first <= BESIDE * piece.height and second >= max(NEARER * first, first + 0.5 * piece.height)
    return distances.index(first) if is_clear else None


def _measure_distance(piece: Piece, part: DrawnPart) -> float:
    """Return the distance between the rectangle of a text and the pixels of a slice."""
    points = part.points
    low, high = np.asarray([piece.x1, piece.y1]), np.asarray([piece.x2, piece.y2])
    outside = np.maximum(np.maximum(low - points, points - high), 0)
    return float(np.hypot(outside[:, 0], outside[:, 1]).min())


def _find_labels(
    words: ChartWords, slices: Sequence[DrawnPart], parts: Sequence[DrawnPart], taken: set[int]
) -> list[tuple[Piece, ...]]:
    """Return the labels of slices: the names of their colours, or the texts in them or beside them."""
    own = {id(part) for part in slices}
    others = (part for part in parts if id(part) not in own)
    if names := find_legend(words, others, (part.color for part in slices)):
        return [(names[part.color],) for part in slices]
    near = [
        (at, piece)
        for piece in words.labels
        if id(piece) not in taken and _LETTERS.search(piece.text)
        if (at := _find_slice(piece, slices)) is not None
    ]
    height = float(np.median([piece.height for _, piece in near])) if near else 0.0
    numbers = [number.piece for number in words.numbers if id(number.piece) in taken]
    labels: list[tuple[Piece, ...]] = []
    for number in range(len(slices)):
        lines = [piece for at, piece in near if at == number and piece.height < TITLE * height]
        labels.append(tuple(sorted(lines, key=lambda piece: piece.y1)))
    return labels if all(_is_label(lines, numbers) for lines in labels) else []


def _is_label(lines: Sequence[Piece], numbers: Sequence[Piece]) -> bool:
    """Return whether some texts are the lines of one label; its number may stand between them."""
    if not 0 < len(lines) <= MAX_LINES:
        return False
    for before, after in pairwise(lines):
        is_parted = any(before.y2 <= number.middle <= after.y1 for number in numbers)
        gap = LINE_GAP * before.height * (1 + is_parted) + before.height * is_parted
        if after.y1 - before.y2 > gap or before.x1 >= after.x2 or after.x1 >= before.x2:
            return False
    return True
