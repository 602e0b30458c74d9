"""Tables between ruling lines: grids, whose cells span where lines are missing, and areas between lines."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vrag.reading.tables.captions import NUMBERED_TITLE, TABLE_TITLE
from vrag.reading.tables.evidence import is_figure
from vrag.reading.tables.grid import Area, Grid, GridCell, cluster, connect, without_empty_places
from vrag.reading.tables.ruled.ruling_lines import RulingLines
from vrag.reading.tables.ruled.title_rows import split_stacked
from vrag.reading.tables.text_kinds import begins_with_number, is_number, is_year
from vrag.reading.tables.text_pieces import find_statements, split_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.reading.tables.ruled.ruling_lines import RulingLine
    from vrag.reading.tables.text_pieces import Piece, StraightWords

MAX_RULES = 1500
"""Rules of one direction that are connected, the longest first."""
MAX_PLACES = 20_000
"""Rows times columns of a grid."""
COVERAGE = 0.6
"""Share of a cell's side that a rule must cover to bound it."""
MAX_CELL_WORDS = 200
"""Words of one cell beyond which a grid is a layout of boxes."""
MIN_FILLED = 0.3
"""Share of the places of a grid that hold words."""
THROUGH = 0.6
"""Share of the extent of a grid that a line running through it covers."""
SMALL = 9
"""Places of a grid that must be nearly full."""
MIN_SMALL_FILLED = 0.7
"""Share of the places of a small grid that hold words."""
MIN_CELLS = 0.25
"""Cells of a grid, in places of it."""
MAX_SPANNING = 0.4
"""Share of the cells that may span: coloured panels of a slide make grids of cells that all span."""


def connect_rules(rules: RulingLines, tolerance: float) -> list[RulingLines]:
    """Group rules that meet or cross each other; rules that meet none are left out."""
    horizontal = sorted(rules.horizontal, key=lambda rule: -rule.length)[:MAX_RULES]
    vertical = sorted(rules.vertical, key=lambda rule: -rule.length)[:MAX_RULES]
    if not horizontal or not vertical:
        return []
    across, down = np.asarray(horizontal), np.asarray(vertical)
    meets = (across[:, 1, None] - tolerance <= down[None, :, 0]) & (
        down[None, :, 0] <= across[:, 2, None] + tolerance
    )
    meets &= (down[None, :, 1] - tolerance <= across[:, 0, None]) & (
        across[:, 0, None] <= down[None, :, 2] + tolerance
    )
    crossings = [(row, len(horizontal) + column) for row, column in np.argwhere(meets).tolist()]
    both = [*horizontal, *vertical]
    parts = (part for part in connect(len(both), crossings) if len(part) > 1)
    return [
        RulingLines(
            tuple(sorted(both[number] for number in part if number < len(horizontal))),
            tuple(sorted(both[number] for number in part if number >= len(horizontal))),
        )
        for part in parts
    ]


def build_grids(
    rules: RulingLines, page: StraightWords, words: Iterable[int], tolerance: float
) -> list[Grid]:
    """Build the grid of connected rules and put the words into its cells.

    Returns:
        The grid, or two and more where tables stand below each other in one grid, as on a sheet; none if the
        rules bound no table: fewer than two rows or columns with words.
    """
    ys, xs = (
        _places(rules.horizontal, rules.vertical, tolerance),
        _places(rules.vertical, rules.horizontal, tolerance),
    )
    height, width = len(ys) - 1, len(xs) - 1
    if height < 2 or width < 2 or height * width > MAX_PLACES:
        return []
    right = _walls(rules.vertical, xs, ys, tolerance)
    below = _walls(rules.horizontal, ys, xs, tolerance)
    if not (_mostly_through(below, xs) and _mostly_through(right, ys)):
        return []
    owners = _merge_places(height, width, right, below)
    contents: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in words:
        x, y = page.straight[index].reshape(2, 2).mean(axis=0).tolist()
        if xs[0] <= x <= xs[-1] and ys[0] <= y <= ys[-1]:
            row, column = bisect_right(ys, y) - 1, bisect_right(xs, x) - 1
            contents[owners[min(row, height - 1)][min(column, width - 1)]].append(index)
    spans = _spans(owners)
    cells = tuple(
        GridCell(row=row, column=column, rows=rows, columns=columns, words=_read(page, contents[row, column]))
        for (row, column), (rows, columns) in spans.items()
    )
    area = Area(xs[0], ys[0], xs[-1], ys[-1])
    ruled_below = frozenset(row for row in range(height) if sum(below[row + 1]) * 2 > width)
    whole = Grid(cells=cells, area=area, ruled_below=ruled_below, ruled=True)
    parts = [without_empty_places(part) for part in split_stacked(page, whole, ys)]
    if len(parts) > 1 and all(map(_is_table, parts)):
        return parts
    grid = without_empty_places(whole)
    return [grid] if _is_table(grid) else []


def _places(rules: Sequence[RulingLine], others: Sequence[RulingLine], tolerance: float) -> list[float]:
    """Return the positions of the lines of a grid, with the open sides that the other lines reach."""
    places = cluster((rule.at for rule in rules), tolerance)
    reach = 3 * tolerance
    starts = cluster((rule.start for rule in others if rule.start < places[0] - reach), tolerance)
    ends = cluster((rule.end for rule in others if rule.end > places[-1] + reach), tolerance)
    return [*starts[:1], *places, *ends[-1:]]


def _walls(
    rules: Sequence[RulingLine], places: Sequence[float], others: Sequence[float], tolerance: float
) -> list[list[bool]]:
    """Return for each line of the grid which of the intervals along it a rule covers."""
    covered = np.zeros((len(places), len(others) - 1))
    starts, ends = np.asarray(others[:-1]), np.asarray(others[1:])
    positions = np.asarray(places)
    for rule in rules:
        line = int(np.argmin(np.abs(positions - rule.at)))
        overlap = np.minimum(ends, rule.end + tolerance) - np.maximum(starts, rule.start - tolerance)
        covered[line] += np.maximum(overlap, 0)
    return (covered >= COVERAGE * (ends - starts)).tolist()


def _mostly_through(walls: Sequence[Sequence[bool]], others: Sequence[float]) -> bool:
    """Return whether at least half of the lines of a grid run through most of it: bars of charts do not.

    Args:
        walls: For each line the intervals along it that a rule covers.
        others: The positions of the lines across, which divide the intervals.
    """
    steps = [end - start for start, end in pairwise(others)]
    through = [
        sum(step for step, wall in zip(steps, line, strict=True) if wall) > THROUGH * sum(steps)
        for line in walls
        if any(line)
    ]
    return sum(through) * 2 >= len(through)


def _merge_places(
    height: int, width: int, right: Sequence[Sequence[bool]], below: Sequence[Sequence[bool]]
) -> list[list[tuple[int, int]]]:
    """Return the first place of the cell that each place belongs to: cells grow where no rule divides them.

    A cell grows to the right first, then down, as long as it stays a rectangle with rules around it.
    """
    owners: list[list[tuple[int, int] | None]] = [[None] * width for _ in range(height)]
    for row in range(height):
        for column in range(width):
            if owners[row][column] is not None:
                continue
            end = column + 1
            while end < width and owners[row][end] is None and not right[end][row]:
                end += 1
            bottom = row + 1
            while bottom < height and _continues(bottom, column, end, width, owners, right, below):
                bottom += 1
            for down in range(row, bottom):
                owners[down][column:end] = [(row, column)] * (end - column)
    return [[owner or (0, 0) for owner in line] for line in owners]


def _continues(
    row: int,
    column: int,
    end: int,
    width: int,
    owners: Sequence[Sequence[tuple[int, int] | None]],
    right: Sequence[Sequence[bool]],
    below: Sequence[Sequence[bool]],
) -> bool:
    """Return whether a cell over some columns goes on in a row."""
    if any(below[row][column:end]) or any(right[inner][row] for inner in range(column + 1, end)):
        return False
    if any(owner is not None for owner in owners[row][column:end]):
        return False
    return (column == 0 or right[column][row]) and (end == width or right[end][row])


def _spans(owners: Sequence[Sequence[tuple[int, int]]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return rows and columns of the cell that begins at each place."""
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for row, line in enumerate(owners):
        for column, owner in enumerate(line):
            last[owner] = (row, column)
    return {
        (row, column): (bottom - row + 1, right - column + 1)
        for (row, column), (bottom, right) in last.items()
    }


def _read(page: StraightWords, words: Sequence[int]) -> tuple[int, ...]:
    """Return the words of a cell in reading order."""
    if len(words) < 2:
        return tuple(words)
    return tuple(index for row in split_pieces(page, words) for piece in row for index in piece.words)


def _is_table(grid: Grid) -> bool:
    """Return whether a grid holds enough words in enough rows and columns, and not too many in one cell."""
    if grid.height < 2 or grid.width < 2 or len(grid.cells) < 4:
        return False
    filled = sum(cell.rows * cell.columns for cell in grid.cells)
    places = grid.height * grid.width
    if filled < (MIN_FILLED if places > SMALL else MIN_SMALL_FILLED) * places:
        return False
    counts = [len(cell.words) for cell in grid.cells]
    if max(counts) > MAX_CELL_WORDS:
        return False
    spanning = sum(cell.rows > 1 or cell.columns > 1 for cell in grid.cells)
    if len(grid.cells) < MIN_CELLS * grid.height * grid.width or spanning > MAX_SPANNING * len(grid.cells):
        return False
    several: dict[int, int] = defaultdict(int)
    for cell in grid.cells:
        several[cell.row] += 1
    return sum(count > 1 for count in several.values()) >= 2


def has_hidden_cells(grid: Grid, page: StraightWords) -> bool:
    """Return whether cells hold rows or columns without rules between them.

    That is so if cells of one column hold pieces side by side, or a cell several lines of numbers.
    """
    divided: dict[int, int] = defaultdict(int)
    filled: dict[int, int] = defaultdict(int)
    stacked = 0
    for cell in grid.cells:
        if cell.columns > 1:
            continue
        rows = split_pieces(page, cell.words)
        texts = [piece.text for row in rows for piece in row]
        filled[cell.column] += max(len(rows), 1)
        divided[cell.column] += sum(len(row) > 1 for row in rows)
        stacked += len(rows) > 1 and sum(map(begins_with_number, texts)) > 0.7 * len(texts)
    side_by_side = any(divided[column] > max(2, 0.5 * filled[column]) for column in filled)
    return side_by_side or stacked > 0.08 * len(grid.cells)


MIN_SEVERAL = 0.4
"""Share of the rows between two rules that have several pieces."""
MAX_TITLE_LINES = 3
"""Lines above a table among which its title begins."""
MIN_HEADS = 3
"""Heads in a row above a rule that may begin a table."""
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
    statements = find_statements(rows)
    for group in groups.values():
        if _are_under_same_heads(group, rows, unit):
            areas += [Area(rule.start, rule.at, rule.end, rule.at) for rule in group]
            continue
        run = [group[0]]
        for rule in group[1:]:
            if not _is_below_heads(run, rule, rows) and _divides_prose(
                run[-1], rule, rows, prose, statements
            ):
                areas += _area(run, rows)
                run = []
            run.append(rule)
        areas += _area(run, rows)
    return [area for area in areas if not _is_part(area, rows, prose, unit)]


def _are_under_same_heads(rules: Sequence[RulingLine], rows: Sequence[Sequence[Piece]], unit: float) -> bool:
    """Return whether each of several rules stands under a row of heads that begins with the same name."""
    names: set[str] = set()
    for rule in rules:
        above = [row for row in rows if row[0].y2 <= rule.at + 2]
        inside = [
            piece for row in above[-1:] for piece in row if piece.x1 < rule.end and rule.start < piece.x2
        ]
        if len(inside) < MIN_HEADS or rule.at - inside[0].y2 > 1.2 * unit:
            return False
        names.add(inside[0].text)
    return len(rules) > 1 and len(names) == 1 and not any(map(is_number, names))


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


def _is_below_heads(run: Sequence[RulingLine], rule: RulingLine, rows: Sequence[Sequence[Piece]]) -> bool:
    """Return whether a rule ends a table of text: a numbered title and a row of heads stand above it."""
    if len(run) != 2:
        return False
    above = [row for row in rows if row[0].middle < run[0].at][-MAX_TITLE_LINES:]
    heads = [row for row in rows if run[0].at < row[0].middle < run[1].at]
    body = [row for row in rows if run[1].at < row[0].middle < rule.at]
    titled = any(TABLE_TITLE.match(row[0].text) for row in above)
    headed = len(heads) == 1 and len(heads[0]) > 1 and not any(is_number(piece.text) for piece in heads[0])
    several = sum(len(row) == len(heads[0]) for row in body) if headed else 0
    return titled and several > 0 and several >= MIN_SEVERAL * len(body)


def _same_extent(a: RulingLine, b: RulingLine, tolerance: float) -> bool:
    return abs(a.start - b.start) < tolerance and abs(a.end - b.end) < tolerance


def _divides_prose(
    upper: RulingLine,
    lower: RulingLine,
    rows: Sequence[Sequence[Piece]],
    prose: set[int],
    statements: set[int],
) -> bool:
    """Return whether a title, running text or a sentence stands between two rules, or hardly anything."""
    between = [
        piece
        for row in rows
        if row and upper.at - 2 <= row[0].middle <= lower.at + 2
        for piece in row
        if upper.at <= piece.middle <= lower.at and upper.start - 5 <= piece.x1 and piece.x2 <= upper.end + 5
    ]
    if any(TABLE_TITLE.match(piece.text) for piece in between):
        return True
    sentence = max((piece.middle for piece in between if id(piece) in statements), default=None)
    if sentence is not None and any(piece.middle > sentence and id(piece) not in prose for piece in between):
        return True  # a sentence below a table, its source, divides nothing
    lines = [piece for piece in between if id(piece) in prose]
    running = sum(len(piece.text) for piece in lines)
    return (len(lines) > 1 and running > 0.4 * sum(len(piece.text) for piece in between)) or (
        not between and lower.at - upper.at > 40
    )


def _area(run: Sequence[RulingLine], rows: Sequence[Sequence[Piece]]) -> list[Area]:
    """Return the area between rules; none between just two, as those of a page, that hold single pieces."""
    if len(run) < 2:
        return []
    area = Area(min(rule.start for rule in run), run[0].at, max(rule.end for rule in run), run[-1].at)
    if len(run) == 2:
        inside = [row for row in rows if area.y1 < row[0].middle < area.y2]
        if sum(len(row) > 1 for row in inside) < MIN_SEVERAL * len(inside):
            return []
    return [area]


def extend_area(area: Area, rows: Sequence[Sequence[Piece]], prose: set[int], unit: float) -> Area:
    """Return an area between rules with the rows of figures and of heads above it, and those below it.

    Args:
        area: The area between horizontal rules.
        rows: Rows of pieces of the page.
        prose: `id` of each piece of running text.
        unit: Height of the text.
    """
    top, bottom = area.y1, area.y2
    headed = False
    for row in reversed(rows):
        if row[0].middle < top and (edge := _table_row(row, area, prose)):
            if top - edge[1] > 1.2 * unit or headed:
                break
            top = edge[0] - 2
            headed = not any(is_number(piece.text) and not is_year(piece.text) for piece in row)
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
