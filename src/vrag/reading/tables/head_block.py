"""The heads of a table without walls, of which some stand over several columns.

A head is the lines that stand close below each other over the same columns. One with nothing above it takes
all rows up to the top: the name of a single column stands beside the heads over its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vrag.reading.tables.grid import GridCell, without_empty_places
from vrag.reading.tables.rows import TableLine
from vrag.reading.tables.text_kinds import is_number, is_year
from vrag.reading.tables.text_pieces import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.columns import ColumnExtent
    from vrag.reading.tables.grid import Grid
    from vrag.reading.tables.ruled.ruling_lines import RulingLine
    from vrag.reading.tables.text_pieces import Piece, StraightWords

MIN_SECTION_COLUMNS = 4
"""Columns of a table in which a centred line stands over all columns of values."""
MAX_SPAN = 3
"""Columns at each side of its own that a head may span."""
CLOSE = 1.75
"""Distance of two lines of one head, in heights of the text."""
CENTRED = 2.0
"""Distance of a head from the centre of the rule under it, in heights of the text."""
WHOLE = 0.95
"""Share of the width of a table from which a rule is none of single heads."""


@dataclass(slots=True)
class _Head:
    """A head: its columns and its lines, from top to bottom."""

    columns: range
    lines: list[Piece] = field(default_factory=list["Piece"])
    level: int = 0
    """Rows of heads below it."""


def span_columns(line: TableLine, columns: Sequence[ColumnExtent], rules: Sequence[RulingLine]) -> TableLine:
    """Return a line of heads whose pieces take the columns over the rule under them, or at their sides.

    Args:
        line: The line.
        columns: The columns of the table.
        rules: Horizontal rules of the page, by y.
    """
    return _span_centred_columns(_span_ruled_columns(line, columns, rules), columns)


def _span_ruled_columns(
    line: TableLine, columns: Sequence[ColumnExtent], rules: Sequence[RulingLine]
) -> TableLine:
    entries = tuple((piece, _ruled_columns(piece, columns, rules) or place) for piece, place in line.entries)
    filled = [column for _, place in entries for column in place]
    return line if len(set(filled)) < len(filled) else TableLine(line.middle, entries)


def _ruled_columns(
    piece: Piece, columns: Sequence[ColumnExtent], rules: Sequence[RulingLine]
) -> range | None:
    """Return the columns over the rule on whose centre a piece stands; None without such a rule."""
    middle = (piece.x1 + piece.x2) / 2
    width = columns[-1].x2 - columns[0].x1
    for rule in _rules_between(rules, piece.middle, piece.y2 + piece.height):
        if not rule.start <= middle <= rule.end or rule.length > WHOLE * width:
            continue
        if abs((rule.start + rule.end) / 2 - middle) > CENTRED * piece.height:
            continue
        inside = [
            number
            for number, column in enumerate(columns)
            if rule.start < (column.x1 + column.x2) / 2 < rule.end
        ]
        if len(inside) > 1:
            return range(inside[0], inside[-1] + 1)
    return None


def _span_centred_columns(line: TableLine, columns: Sequence[ColumnExtent]) -> TableLine:
    """Return a line of heads whose pieces span the columns, if several, on whose centre they stand.

    A piece that is aligned with a column, or beside which another one stands over the columns, spans none.
    """
    few = len(line.entries) <= len(columns) / 2
    taken = line.filled
    entries = [
        (piece, place) if len(place) > 1 else (piece, _centred_columns(piece, place, columns, taken, few=few))
        for piece, place in line.entries
    ]
    return TableLine(line.middle, tuple(entries)) if len(entries) > 1 else line


def span_section(line: TableLine, columns: Sequence[ColumnExtent]) -> TableLine:
    """Return a line of the body whose only piece stands on the centre of all columns of values."""
    if len(line.entries) != 1 or len(columns) < MIN_SECTION_COLUMNS:
        return line
    ((piece, place),) = line.entries
    middle = (piece.x1 + piece.x2) / 2
    if place[0] == 0 or is_number(piece.text):
        return line
    for first in (1, 0):
        if abs((columns[first].x1 + columns[-1].x2) / 2 - middle) < piece.height:
            return TableLine(line.middle, ((piece, range(first, len(columns))),))
    return line


def _centred_columns(
    piece: Piece, place: range, columns: Sequence[ColumnExtent], taken: set[int], *, few: bool
) -> range:
    """Return the columns on whose centre a head stands: its own, or several around it that no other head has.

    Args:
        piece: The head.
        place: Its column.
        columns: All columns.
        taken: Columns below the heads of the line.
        few: True if the line has few heads: one that ends where its column ends may still span others.
    """
    own, middle = columns[place[0]], (piece.x1 + piece.x2) / 2
    sides = [piece.x1 - own.x1, middle - (own.x1 + own.x2) / 2, *([] if few else [piece.x2 - own.x2])]
    if place[0] == 0 or min(map(abs, sides)) < 0.6 * piece.height:
        return place
    wider = [
        range(first, last + 1)
        for first in range(max(place[0] - MAX_SPAN, 1), place[0] + 1)
        for last in range(max(place[0], first + 1), min(place[0] + MAX_SPAN + 1, len(columns)))
        if abs((columns[first].x1 + columns[last].x2) / 2 - middle) < piece.height
        and taken.isdisjoint(set(range(first, last + 1)) - set(place))
    ]
    return min(wider, key=len, default=place)


def _rules_between(rules: Sequence[RulingLine], top: float, bottom: float) -> Sequence[RulingLine]:
    return rules[bisect_right(rules, top, key=_height) : bisect_left(rules, bottom, key=_height)]


def _height(rule: RulingLine) -> float:
    return rule.at


def place_heads(lines: Sequence[TableLine], rules: Sequence[RulingLine]) -> list[list[GridCell]]:
    """Return the rows of cells of the lines above the body, from top to bottom.

    Args:
        lines: The lines, each with its pieces and their columns.
        rules: Horizontal rules of the page, by y.
    """
    heads: list[_Head] = []
    for line in lines:
        for piece, place in line.entries:
            above = next(
                (head for head in reversed(heads) if _goes_on(head, piece, place, heads, rules)), None
            )
            if above is None:
                heads.append(_Head(place, [piece]))
            else:
                above.lines.append(piece)
    for number in range(len(heads) - 1, -1, -1):
        below = [other for other in heads[number + 1 :] if _share(other.columns, heads[number].columns)]
        heads[number].level = max((other.level + 1 for other in below), default=0)
    height = max((head.level + 1 for head in heads), default=0)
    rows: list[list[GridCell]] = [[] for _ in range(height)]
    for number, head in enumerate(heads):
        above = [other.level for other in heads[:number] if _share(other.columns, head.columns)]
        free = min(above, default=height)
        rows[height - free].append(_cell(head, height - free, free - head.level))
    return rows


def _goes_on(
    head: _Head, piece: Piece, place: range, heads: Sequence[_Head], rules: Sequence[RulingLine]
) -> bool:
    """Return whether a piece is the next line of a head: over the same columns, with nothing between."""
    last = head.lines[-1]
    height = max(piece.height, last.height)
    if head.columns != place or piece.middle - last.middle > CLOSE * height:
        return False
    lowest = next(other for other in reversed(heads) if _share(other.columns, place))
    middle = (piece.x1 + piece.x2) / 2
    between = _rules_between(rules, last.middle, piece.middle)
    divided = any(rule.start < middle < rule.end for rule in between)
    return lowest is head and not divided


def _share(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _cell(head: _Head, row: int, rows: int) -> GridCell:
    words = tuple(index for line in head.lines for index in line.words)
    return GridCell(row=row, column=head.columns.start, rows=rows, columns=len(head.columns), words=words)


def divide_repeated_heads(page: StraightWords, grid: Grid) -> list[Grid]:
    """Return the tables that stand side by side or below each other in a grid, each with the same heads.

    Args:
        page: The words of the page.
        grid: The grid.
    """
    texts = {
        cell.column: join_words(page.item, [page.numbers[index] for index in cell.words])
        for cell in grid.cells
        if cell.row == 0
    }
    heads = [texts.get(column, "") for column in range(grid.width)]
    for width in range(2, grid.width // 2 + 1):
        blocks = [range(first, first + width) for first in range(0, grid.width, width)]
        if grid.width % width == 0 and _repeats(heads, width) and _is_divided(grid, blocks):
            return [_take_columns(page, grid, block) for block in blocks]
    return [grid]


def _repeats(heads: Sequence[str], width: int) -> bool:
    """Return whether the same different names stand over each block of columns, the first one no number."""
    names = heads[:width]
    return (
        all(names)
        and len(set(names)) == width
        and not is_number(names[0])
        and not is_year(names[0])
        and list(heads) == list(names) * (len(heads) // width)
    )


def _is_divided(grid: Grid, blocks: Sequence[range]) -> bool:
    """Return whether no cell stands in two blocks, and each has words below its heads."""
    columns = [range(cell.column, cell.column + cell.columns) for cell in grid.cells]
    inside = all(any(set(place) <= set(block) for block in blocks) for place in columns)
    return inside and all(
        sum(cell.row > 0 and cell.column in block for cell in grid.cells) >= len(block) for block in blocks
    )


def _take_columns(page: StraightWords, grid: Grid, block: range) -> Grid:
    cells = tuple(
        replace(cell, column=cell.column - block.start) for cell in grid.cells if cell.column in block
    )
    boxes = page.straight[[index for cell in cells for index in cell.words]]
    area = grid.area._replace(x1=float(boxes[:, 0].min()), x2=float(boxes[:, 2].max()))
    return without_empty_places(replace(grid, cells=cells, area=area))
