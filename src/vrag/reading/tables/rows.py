"""Rows of a table, from its lines of text: lines that belong to one row of cells are joined."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vrag.reading.tables.text_kinds import is_number, is_year

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.text_pieces import Piece

TIGHT = 1.16
"""Distance between lines of one cell, in distances of the closest lines."""
LOOSE = 1.28
"""Distance between rows of cells that have several lines, in distances of the closest lines."""
MIN_LOOSE = 0.2
"""Share of the distances that are loose in a table whose rows stand apart."""
INDENT = 0.4
"""How far a name begins left of the one above, in heights of the text, to be none of its lines."""
MIN_BESIDE = 2
"""Pieces of a line beside which a name may stand: the labels of two axes stand alone."""
BESIDE = 0.95
"""Distance of two lines whose words stand beside each other, in heights of the higher words."""
_OPEN_END = re.compile(
    r"(?:[-–—,/&(]|\b(?:and|or|of|the|for|in|to|with|by|from|on|a|an|und|der|von))$", re.IGNORECASE
)
_CONTINUES = re.compile(r"[a-z(&/]|(?:and|or|of)\b")


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line of text of a table."""

    middle: float
    """y of its centre."""
    entries: tuple[tuple[Piece, range], ...]
    """Its pieces, with the columns that each takes."""

    @property
    def filled(self) -> set[int]:
        """Columns with words."""
        return {column for _, place in self.entries for column in place}

    @property
    def numbers(self) -> set[int]:
        """Columns with a number."""
        return {place[0] for piece, place in self.entries if len(place) == 1 and is_number(piece.text)}

    @property
    def spans(self) -> bool:
        """True if a piece takes several columns."""
        return any(len(place) > 1 for _, place in self.entries)


def is_data_line(line: TableLine) -> bool:
    """Return whether at least half of a line's cells right of the first column are numbers, not years."""
    values = [piece.text for piece, place in line.entries if place[0] > 0]
    figures = sum(is_number(text) and not is_year(text) for text in values)
    return bool(values) and figures * 2 >= len(values)


def count_header_lines(lines: Sequence[TableLine], ruled: Sequence[bool]) -> int:
    """Return the number of lines above the body.

    Args:
        lines: The lines, from top to bottom.
        ruled: For each line whether a rule stands between it and the next.
    """
    first_data = next((number for number, line in enumerate(lines) if is_data_line(line)), None)
    first_rule = next((number + 1 for number, rule in enumerate(ruled[:-1]) if rule), None)
    last = len(lines) - 1 if first_data is None else first_data
    if first_rule is not None and first_rule <= min(last, 6):
        later = [number + 1 for number, rule in enumerate(ruled[: min(last, 6)]) if rule]
        count = later[-1] if first_data is not None and later else first_rule
        while count > 1 and len(lines[count - 1].entries) == 1 and lines[count - 1].entries[0][1][0] == 0:
            count -= 1
        return count
    if first_data is None:
        return 0 if not lines else 1
    # Lines with one piece directly above the body are heads of sections.
    count = first_data
    while count and len(lines[count - 1].entries) == 1 and lines[count - 1].entries[0][1][0] == 0:
        count -= 1
    return min(count, 8)


def group_lines(lines: Sequence[TableLine], ruled: Sequence[bool]) -> list[list[int]]:
    """Group the lines of each row.

    Args:
        lines: The lines, from top to bottom.
        ruled: For each line whether a rule stands between it and the next.
    """
    if not lines:
        return []
    if _rules_divide_rows(lines, ruled):
        figures = any(map(is_data_line, lines))
        heads = count_header_lines(lines, [False] * len(lines)) if figures else 0
        steps = [lower.middle - upper.middle for upper, lower in pairwise(lines)]
        apart = 0.93 * min(step for step, rule in zip(steps, ruled, strict=False) if rule)
        joins = [
            not rule and steps[number] < apart and number + 1 != heads
            for number, rule in enumerate(ruled[:-1])
        ]
    else:
        heads = count_header_lines(lines, ruled)
        apart = _stand_apart(lines, heads, ruled)
        joins = [
            not ruled[number] and _joins(lines, number, heads, apart) for number in range(len(lines) - 1)
        ]
    groups = [[0]]
    for number, join in enumerate(joins, 1):
        if join:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _rules_divide_rows(lines: Sequence[TableLine], ruled: Sequence[bool]) -> bool:
    """Return whether every row has a rule below it: lines without one share no column of numbers."""
    if sum(ruled[:-1]) < 3 or sum(ruled[:-1]) < 0.3 * (len(lines) - 1):
        return False
    pairs = zip(lines, lines[1:], ruled, strict=False)
    return not any(not rule and upper.numbers & lower.numbers for upper, lower, rule in pairs)


def _stand_apart(lines: Sequence[TableLine], heads: int, ruled: Sequence[bool]) -> float:
    """Return the distance below which lines belong to one row; 0 if the distances do not tell."""
    body = range(heads, len(lines) - 1)
    steps = {number: lines[number + 1].middle - lines[number].middle for number in body if not ruled[number]}
    if len(steps) < 3:
        return 0.0
    closest = float(np.quantile(list(steps.values()), 0.1))
    tight = [number for number, step in steps.items() if step <= TIGHT * closest]
    loose = [number for number, step in steps.items() if step >= LOOSE * closest]
    if len(loose) < MIN_LOOSE * len(steps) or len(tight) + len(loose) < 0.9 * len(steps):
        return 0.0
    conflicts = [number for number in tight if _conflict(lines[number], lines[number + 1])]
    return 0.0 if len(conflicts) > 0.1 * len(tight) else TIGHT * closest


def _conflict(upper: TableLine, lower: TableLine) -> bool:
    """Return whether two lines must be two rows: both have a number in one column."""
    return bool(upper.numbers & lower.numbers)


def _stand_beside(upper: TableLine, lower: TableLine) -> bool:
    """Return whether two lines overlap in height: values at the middle of a name of several lines do."""
    if max(len(upper.entries), len(lower.entries)) < MIN_BESIDE:
        return False
    heights = [piece.height for piece, _ in (*upper.entries, *lower.entries)]
    return lower.middle - upper.middle < BESIDE * max(heights) and upper.filled.isdisjoint(lower.filled)


def _is_between_rows(lines: Sequence[TableLine], number: int) -> bool:
    """Return whether a line or the next stands at the middle of two rows of figures: a name of both."""
    upper, lower = lines[number], lines[number + 1]
    above = lines[number - 1] if number else None
    below = lines[number + 2] if number + 2 < len(lines) else None
    return (above is not None and _stand_beside(above, upper) and _share_values(above, lower)) or (
        below is not None and _stand_beside(lower, below) and _share_values(upper, below)
    )


def _share_values(upper: TableLine, lower: TableLine) -> bool:
    """Return whether two lines have numbers in one column, or words in several right of the first."""
    return _conflict(upper, lower) or len(upper.filled & lower.filled - {0}) > 1


def _begins_left(upper: TableLine, lower: TableLine) -> bool:
    """Return whether the only piece of a line is a name that begins left of the one above."""
    if len(lower.entries) != 1 or lower.filled != {0} or 0 not in upper.filled:
        return False
    name, above = lower.entries[0][0], next(piece for piece, place in upper.entries if place[0] == 0)
    return name.text[0].isupper() and above.x1 - name.x1 > INDENT * name.height


def _joins(lines: Sequence[TableLine], number: int, heads: int, apart: float) -> bool:
    """Return whether a line and the next belong to one row."""
    upper, lower = lines[number], lines[number + 1]
    beside = number >= heads and _stand_beside(upper, lower)
    between = beside and _is_between_rows(lines, number)
    if beside and not between:
        return True
    if number + 1 <= heads:
        return number + 1 < heads and _joins_heads(upper, lower)
    if _conflict(upper, lower) or _begins_left(upper, lower):
        return False
    if apart:
        return lower.middle - upper.middle <= apart and not between
    return _continues_text(upper, lower)


def _joins_heads(upper: TableLine, lower: TableLine) -> bool:
    """Return whether two lines of heads are one row: none spans, and one fills columns of the other."""
    if upper.spans or lower.spans:
        return False
    height = max(piece.height for piece, _ in (*upper.entries, *lower.entries))
    return lower.middle - upper.middle < 1.9 * height


def _continues_text(upper: TableLine, lower: TableLine) -> bool:
    """Return whether the text of a line goes on in the next, where the distances do not tell."""
    height = max(piece.height for piece, _ in (*upper.entries, *lower.entries))
    if lower.middle - upper.middle > 1.9 * height:
        return False
    above = {place[0]: piece.text for piece, place in upper.entries}
    below = {place[0]: piece.text for piece, place in lower.entries}
    if lower.filled < upper.filled and not lower.numbers:
        return all(
            _CONTINUES.match(text) is not None or _OPEN_END.search(above.get(column, "")) is not None
            for column, text in below.items()
        )
    if len(above) == 1 and not upper.numbers and upper.filled < lower.filled:
        ((column, text),) = above.items()
        following = below.get(column, "")
        return _CONTINUES.match(following) is not None or _OPEN_END.search(text) is not None
    return False
