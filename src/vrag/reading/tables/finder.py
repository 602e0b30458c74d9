"""The tables of a page, from the boxes of its words and the ruling lines of its picture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.reading.charts.axis_charts import find_bar_charts, find_point_charts
from vrag.reading.charts.chart_tables import MIN_NUMBERS, ChartWords, build_table
from vrag.reading.charts.drawn_parts import find_drawn_parts
from vrag.reading.charts.pie_charts import find_pie_charts
from vrag.reading.tables.aligned_tables import build_aligned_grid, connect_pieces
from vrag.reading.tables.captions import find_caption
from vrag.reading.tables.evidence import PageGround, has_evidence, is_drawing
from vrag.reading.tables.grid import Area
from vrag.reading.tables.head_block import divide_repeated_heads
from vrag.reading.tables.heads import add_head_rows, find_first_figures, has_heads, is_head_of, make_table
from vrag.reading.tables.ruled.ruled_tables import (
    build_grids,
    connect_rules,
    extend_area,
    has_hidden_cells,
    ruled_areas,
)
from vrag.reading.tables.ruled.ruling_lines import RulingLine, RulingLines, find_rules
from vrag.reading.tables.ruled.title_rows import without_title_and_notes
from vrag.reading.tables.text_pieces import (
    MAX_WORDS,
    find_running_text,
    list_straight_views,
    split_pieces,
    straighten_words,
)
from vrag.reading.tables.typed_text import is_typed_rule
from vrag.reading.text_tables import read_text_tables
from vrag.reading.views.raised_marks import leave_out_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from PIL.Image import Image

    from vrag.reading.tables.grid import Grid
    from vrag.reading.tables.table import DocumentTable
    from vrag.reading.tables.text_pieces import Piece, StraightView, StraightWords
    from vrag.reading.views.turned_text import UprightView
    from vrag.types import Item

MIN_WORDS = 6
"""Words below which a page has no table."""
TOLERANCE = 0.35
"""Distance of two rules that count as one, in heights of the text."""

MIN_SHADED_COLUMNS = 3
"""Columns of a table whose heads may be shaded as blocks."""
MIN_SHADED_RULES = 0.5
"""Rules below rows of such a table, in rows."""
REACH = 2.0
"""Distance of two rules that belong to one table, in distances of those that count as one."""


def find_tables(
    item: Item, picture: Image | None, views: Sequence[StraightView] = ()
) -> tuple[DocumentTable, ...]:
    """Find the tables of a page: those of its file, or of its words, turned ones first, from top to bottom.

    Args:
        item: The page, with the boxes of its words.
        picture: Its stored picture, for the ruling lines; None if there is none.
        views: `list_straight_views` of it, if its marks of footnotes are left out already.
    """
    if item.facts.tables:
        return read_text_tables(item)
    if not views:
        item = leave_out_marks(item)
        views = list_straight_views(item)
    (upright, words), *others = views
    turned: list[DocumentTable] = []
    for view, turned_words in others:
        shown = None if picture is None else view.turn_picture(picture)
        turned += (_on_picture(table, view) for table in _find_upright_tables(turned_words, shown))
    # Turned words among many that are not are heads of columns.
    mostly_turned = 2 * len(upright.item.words) < len(item.words)
    rest = _without_words_in(upright.item if mostly_turned else item, turned)
    if rest is not upright.item:
        words = straighten_words(rest)
    return (*turned, *_find_upright_tables(words, picture))


def find_charts(
    item: Item,
    picture: Callable[[], Image | None],
    tables: Sequence[DocumentTable],
    views: Sequence[StraightView],
) -> tuple[DocumentTable, ...]:
    """Find the charts of a page whose printed numbers belong to their labels, as tables.

    Args:
        item: The page, with the boxes of its words.
        picture: Opens its stored picture, which is looked at where numbers stand apart.
        tables: Its tables, whose words belong to no chart.
        views: `list_straight_views` of it.
    """
    if item.facts.tables or item.facts.worksheet or not views or views[0].words.slope:
        return ()
    words = ChartWords.of(straighten_words(_without_words_in(views[0].upright.item, tables)))
    shown = picture() if len(words.numbers) >= MIN_NUMBERS else None
    if shown is None:
        return ()
    factor = words.page.width / shown.width
    parts = find_drawn_parts(shown, factor)
    charts = [*find_bar_charts(words, parts), *find_pie_charts(words, parts)]
    taken = [number.piece for chart in charts for row in chart.rows for number in row.numbers]
    charts += find_point_charts(words, parts, taken)
    return tuple(build_table(words, chart) for chart in charts)


def _on_picture(table: DocumentTable, view: UprightView) -> DocumentTable:
    """Return a table of a view with its rectangles on the picture of the item."""
    cells = (replace(cell, box=cell.box and view.on_picture(cell.box)) for cell in table.cells)
    return replace(table, cells=tuple(cells), box=table.box and view.on_picture(table.box))


def _without_words_in(item: Item, tables: Sequence[DocumentTable]) -> Item:
    """Return an item without the words that some tables have."""
    boxes = [table.box for table in tables if table.box is not None]
    if not boxes:
        return item
    words = (word for word in item.words if not any(box.covers(*word.box.center) for box in boxes))
    return replace(item, words=tuple(words))


def _find_upright_tables(page: StraightWords, picture: Image | None) -> tuple[DocumentTable, ...]:
    if len(page.numbers) < MIN_WORDS:
        return ()
    rules = RulingLines((), ())
    if picture is not None:
        shortest = min(max(1.2 * page.line_height, 0.008 * page.height), 0.03 * page.height)
        rules = find_rules(picture, page.width, page.height, page.boxes, shortest, page.slope)
    rules = RulingLines(tuple(sorted((*rules.horizontal, *find_typed_rules(page)))), rules.vertical)
    grids = [grid for grid in _find_grids(page, rules) if grid.cells]
    if not grids:
        return ()
    below = [*grids[1:], None]
    grids = [grid for grid, next_one in zip(grids, below, strict=True) if not _is_head(page, grid, next_one)]
    grids = [add_head_rows(page, grid, _free_rows(page, grids), rules.horizontal) for grid in grids]
    grids = [part for grid in grids for part in divide_repeated_heads(page, grid)]
    rows = _free_rows(page, grids)
    captions = [find_caption(_area_of_words(page, grid), rows, page.line_height) for grid in grids]
    ground = None if picture is None else PageGround(picture, page)
    return tuple(
        make_table(page, grid, caption)
        for grid, caption in zip(grids, captions, strict=True)
        if _is_supported(page, grid, caption, ground)
    )


def find_typed_rules(page: StraightWords) -> list[RulingLine]:
    """Return the rules of dashes or underscores that are typed among the words, set straight."""
    found: list[RulingLine] = []
    for word in page.item.words[:MAX_WORDS]:
        if is_typed_rule(page.item.text[word.start : word.end]):
            x1, y1, x2, y2 = word.box.as_tuple()
            middle = page.height * (y1 + y2) / 2 - page.slope * page.width * (x1 + x2) / 2
            found.append(RulingLine(middle, x1 * page.width, x2 * page.width))
    return found


def _is_head(page: StraightWords, grid: Grid, below: Grid | None) -> bool:
    return below is not None and is_head_of(page, grid, below)


def _free_rows(page: StraightWords, grids: Iterable[Grid]) -> list[list[Piece]]:
    """Return the rows of the words that no table has."""
    inside = {index for grid in grids for cell in grid.cells for index in cell.words}
    return split_pieces(page, [index for index in range(len(page.numbers)) if index not in inside])


def _is_supported(page: StraightWords, grid: Grid, caption: str, ground: PageGround | None) -> bool:
    """Return whether a grid is no part of a drawing and has evidence for a table."""
    if ground is not None and is_drawing(grid, ground.measure_drawing(_area_of_words(page, grid))):
        # Heads may be shaded as blocks, over and beside white ones: the rows below the rule under them tell.
        body = _below_heads(page, grid)
        if body is None or is_drawing(grid, ground.measure_drawing(_area_of_words(page, body))):
            return False
    return grid.ruled or has_evidence(grid, page, caption)


def _below_heads(page: StraightWords, grid: Grid) -> Grid | None:
    """Return the rows with figures below the heads of a grid; None if no rules divide its rows."""
    first = find_first_figures(page, grid)
    if not first or first - 1 not in grid.ruled_below or grid.width < MIN_SHADED_COLUMNS:
        return None
    if len(grid.ruled_below) < MIN_SHADED_RULES * (grid.height - 1):
        return None
    cells = tuple(replace(cell, row=cell.row - first) for cell in grid.cells if cell.row >= first)
    return replace(grid, cells=cells)


def _find_grids(page: StraightWords, rules: RulingLines) -> list[Grid]:
    """Find grids of rules first, then aligned words between horizontal rules, then aligned words alone."""
    grids: list[Grid] = []
    free = set(range(len(page.numbers)))
    tolerance = max(TOLERANCE * page.line_height, 3.0)
    for framed in _ruled_grids(page, rules, free, tolerance):
        grid = without_title_and_notes(framed, page)
        if not has_heads(grid, page):
            continue
        if not has_hidden_cells(grid, page):
            grids.append(grid)
            free -= _words_in(page, grid.area, free)
        else:
            inside = sorted(_words_in(page, grid.area, free))
            pieces = [piece for row in split_pieces(page, inside) for piece in row]
            hidden = build_aligned_grid(page, pieces, rules, grid.area)
            grids.append(hidden or grid)
            free -= set(inside)
    return sorted(grids + _find_aligned(page, rules, free), key=lambda grid: (grid.area.y1, grid.area.x1))


def _ruled_grids(page: StraightWords, rules: RulingLines, free: set[int], tolerance: float) -> Iterator[Grid]:
    """Yield the grids of connected rules.

    Rules that nearly meet are connected first; where that gives no grid, only those that do meet.
    """
    for loose in connect_rules(rules, REACH * tolerance):
        if grids := build_grids(loose, page, free, tolerance):
            yield from grids
            continue
        for connected in connect_rules(loose, tolerance):
            yield from build_grids(connected, page, free, tolerance)


def _find_aligned(page: StraightWords, rules: RulingLines, free: set[int]) -> list[Grid]:
    grids: list[Grid] = []
    rows = split_pieces(page, sorted(free))
    prose = find_running_text(rows)
    unit = page.line_height
    for ruled in ruled_areas(rules.horizontal, rows, prose, unit):
        area = extend_area(ruled, rows, prose, unit)
        wide = Area(area.x1 - 0.5 * unit, area.y1, area.x2 + 0.5 * unit, area.y2)
        inside = _words_in(page, wide, free)
        pieces = [piece for row in rows for piece in row if not inside.isdisjoint(piece.words)]
        if grid := build_aligned_grid(page, pieces, rules, area):
            grids.append(grid)
            free -= {index for piece in pieces for index in piece.words}
    left = [
        [piece for piece in row if id(piece) not in prose and free.issuperset(piece.words)] for row in rows
    ]
    groups = connect_pieces([row for row in left if row], unit)
    found = (build_aligned_grid(page, pieces, rules, None) for pieces in groups)
    return grids + [grid for grid in found if grid is not None]


def _area_of_words(page: StraightWords, grid: Grid) -> Area:
    boxes = page.straight[[index for cell in grid.cells for index in cell.words]]
    return Area(*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist())


def _words_in(page: StraightWords, area: Area, chosen: Iterable[int]) -> set[int]:
    """Return the words whose centres lie in an area."""
    centers = (page.straight[:, :2] + page.straight[:, 2:]) / 2
    inside = (area.x1 <= centers[:, 0]) & (centers[:, 0] <= area.x2)
    inside &= (area.y1 <= centers[:, 1]) & (centers[:, 1] <= area.y2)
    return set(inside.nonzero()[0].tolist()) & set(chosen)
