"""Areas between horizontal ruling lines that bound tables without vertical lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.reading.tables.evidence import is_figure
from vrag.reading.tables.grid import Area
from vrag.reading.tables.page_text.captions import NUMBERED_TITLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.page_text.text_pieces import Piece
    from vrag.reading.tables.ruling_lines import RulingLine

PART_GAP = 14.0
"""Space between rules and figures at the right that belong to the same table, in heights of the text."""


def ruled_areas(
    rules: Sequence[RulingLine], rows: Sequence[Sequence[Piece]], prose: set[int], unit: float
) -> list[Area]:
    """Return the areas between horizontal rules of one extent that stand below each other around table rows.

    Args:
        rules: Horizontal rules.
        rows: Rows of pieces of the page.
        prose: `id` of each piece of running text.
        unit: Height of the text.
    """
    groups: dict[tuple[int, int], list[RulingLine]] = {}
    for rule in sorted(rules, key=lambda rule: rule.at):
        if rule.length < 8 * unit:
            continue
        key = next((key for key, group in groups.items() if _same_extent(group[-1], rule, 1.2 * unit)), None)
        if key is None:
            groups[len(groups), 0] = [rule]
        else:
            groups[key].append(rule)
    areas: list[Area] = []
    for group in groups.values():
        run = [group[0]]
        for rule in group[1:]:
            if _divides_prose(run[-1], rule, rows, prose):
                areas += _area(run)
                run = []
            run.append(rule)
        areas += _area(run)
    return [area for area in areas if not _is_part(area, rows, prose, unit)]


def _is_part(area: Area, rows: Sequence[Sequence[Piece]], prose: set[int], unit: float) -> bool:
    """Return whether rules underline some columns only: rows go on at the left, or at the right with figures.

    Rows that go on at the left count if they begin with figures between the rules.
    """
    inner = going_on = 0
    for row in rows:
        if not area.y1 < row[0].middle < area.y2:
            continue
        free = [piece for piece in row if id(piece) not in prose]
        inside = [piece for piece in free if piece.x1 < area.x2 and area.x1 < piece.x2]
        if not inside:
            continue
        inner += 1
        left = any(piece.x2 <= area.x1 for piece in free) and is_figure(inside[0].text)
        right = [piece for piece in free if area.x2 <= piece.x1 < area.x2 + PART_GAP * unit]
        going_on += left or (bool(right) and is_figure(right[0].text))
    return going_on > 0.5 * inner


def _same_extent(a: RulingLine, b: RulingLine, tolerance: float) -> bool:
    return abs(a.start - b.start) < tolerance and abs(a.end - b.end) < tolerance


def _divides_prose(
    upper: RulingLine, lower: RulingLine, rows: Sequence[Sequence[Piece]], prose: set[int]
) -> bool:
    """Return whether running text stands between two rules, or hardly anything."""
    between = [
        piece
        for row in rows
        if row and upper.at - 2 <= row[0].middle <= lower.at + 2
        for piece in row
        if upper.at <= piece.middle <= lower.at and upper.start - 5 <= piece.x1 and piece.x2 <= upper.end + 5
    ]
    lines = [piece for piece in between if id(piece) in prose]
    running = sum(len(piece.text) for piece in lines)
    return (len(lines) > 1 and running > 0.4 * sum(len(piece.text) for piece in between)) or (
        not between and lower.at - upper.at > 40
    )


def _area(run: Sequence[RulingLine]) -> list[Area]:
    if len(run) < 2:
        return []
    return [Area(min(rule.start for rule in run), run[0].at, max(rule.end for rule in run), run[-1].at)]


def extend_area(area: Area, rows: Sequence[Sequence[Piece]], prose: set[int], unit: float) -> Area:
    """Return an area between rules with the row of heads above it, and the rows that go on below it.

    Args:
        area: The area between horizontal rules.
        rows: Rows of pieces of the page.
        prose: `id` of each piece of running text.
        unit: Height of the text.
    """
    top, bottom = area.y1, area.y2
    for row in reversed(rows):
        if row[0].middle < top and (edge := _table_row(row, area, prose)):
            if top - edge[1] > 1.2 * unit or top < area.y1:
                break
            top = edge[0] - 2
        elif row[0].middle < top:
            break
    for row in rows:
        if row[0].middle > bottom:
            edge = _table_row(row, area, prose)
            if edge is None or edge[0] - bottom > 1.2 * unit:
                break
            bottom = edge[1] + 2
    return Area(area.x1, top, area.x2, bottom)


def _table_row(row: Sequence[Piece], area: Area, prose: set[int]) -> tuple[float, float] | None:
    """Return top and bottom of the pieces of a row in an area; None if they are no row of a table."""
    inside = [piece for piece in row if piece.x1 < area.x2 and area.x1 < piece.x2]
    if len(inside) < 2 or any(id(piece) in prose or NUMBERED_TITLE.match(piece.text) for piece in inside):
        return None
    return min(piece.y1 for piece in inside), max(piece.y2 for piece in inside)
