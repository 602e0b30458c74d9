"""The heads, texts and boxes of a found table; heads of columns that stand apart above it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.geometry import Box
from vrag.reading.tables.grid import GridCell
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.tables.text_kinds import count_words, is_date, is_number, is_range, is_year
from vrag.reading.tables.text_pieces import join_words, make_piece
from vrag.reading.tables.typed_text import without_leader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.reading.tables.grid import Grid
    from vrag.reading.tables.ruled.ruling_lines import RulingLine
    from vrag.reading.tables.text_pieces import Piece, StraightWords

MAX_HEADER_ROWS = 6
"""Rows at the top that are looked at for heads."""
MAX_LOOSE_ROWS = 3
"""Rows above a table that may be its heads."""
LOOSE_GAP = 1.8
"""Space between a table and its heads, in heights of the text."""
MIN_COUNTED = 3
"""Consecutive numbers in the first row that are heads of columns."""
MAX_HEAD_WORDS = 8
_MARKS = re.compile(r"(?<=[\d%)])\s?(?:[¹²³⁴-⁹†‡§*]|\([a-z]\)|\[[a-z\d]{1,2}\])+$")
"""Marks at the end of a number. One at a time: a run can then be read in one way only, in linear time."""


def make_table(page: StraightWords, grid: Grid, caption: str) -> DocumentTable:
    """Make the table of a grid: with texts, boxes, heads, sections and caption.

    Args:
        page: The words of the page.
        grid: The grid.
        caption: Its caption.
    """
    cells = [
        Cell(
            row=cell.row,
            column=cell.column,
            rows=cell.rows,
            columns=cell.columns,
            text=without_marks(without_leader(_text(page, cell))),
            box=_box_of(page, cell.words),
        )
        for cell in grid.cells
    ]
    cells.sort(key=lambda cell: (cell.row, cell.column))
    header_rows = count_header_rows(cells, grid)
    header_columns = count_header_columns(cells, header_rows, grid.width)
    sections = find_sections(cells, header_rows, grid.width)
    words = sorted({index for cell in grid.cells for index in cell.words})
    return DocumentTable(
        cells=tuple(cells),
        header_rows=header_rows,
        header_columns=header_columns,
        sections=sections,
        caption=caption,
        box=_box_of(page, words),
    )


def without_marks(text: str) -> str:
    """Return the text of a cell without the marks of footnotes after a number.

    >>> [without_marks(text) for text in ("84,210¹", "12.3*", "(1.5)(a)", "2019 [b]", "Total (a)")]
    ['84,210', '12.3', '(1.5)', '2019', 'Total (a)']
    """
    stripped = _MARKS.sub("", text)
    return stripped if is_number(stripped) else text


def count_header_rows(cells: Sequence[Cell], grid: Grid) -> int:
    """Return the number of rows at the top that hold heads of columns.

    They end above the first row with figures, or at the first rule where no row has figures.
    """
    height = grid.height
    texts = [(cell, cell.text) for cell in cells]
    if grid.width == 2 and all(text.startswith("=") for cell, text in texts if cell.column == 1):
        return 0
    first_data = next((row for row in range(height) if is_data_row(texts, row)), None)
    last = min(height - 1, MAX_HEADER_ROWS) if first_data is None else min(first_data, MAX_HEADER_ROWS)
    count = last if first_data is not None else min(1, last)
    if count > 1 and grid.ruled and _is_full_row(cells, 0, grid.width):
        count = 1
    if first_data == 0 and _counts_up(cells, grid.width):
        return 1
    rules = sorted(row + 1 for row in grid.ruled_below if row + 1 <= last)
    if rules and not grid.ruled:
        count = rules[-1] if first_data is not None else rules[0]
    if first_data is not None:
        while count > 1 and _is_section(cells, count - 1, grid.width):
            count -= 1
    # A head that spans rows or columns has its own heads below; a note beside a table may span its figures.
    spans = [
        cell.row + cell.rows
        for cell in cells
        if cell.row < max(count, 1) and cell.rows > 1
        if cell.column == 0 or first_data is None or cell.row + cell.rows <= first_data
    ]
    count = max([count, *(end for end in spans if end <= MAX_HEADER_ROWS and end < height)])
    if first_data is None and any(cell.row == 0 and cell.columns > 1 for cell in cells):
        count = max(count, min(2, height - 1))
    return min(count, height - 1) if count else 0


def _is_full_row(cells: Sequence[Cell], row: int, width: int) -> bool:
    """Return whether each column has its own text in a row."""
    filled = [cell for cell in cells if cell.row == row and cell.text]
    return len(filled) == width and all(cell.rows == cell.columns == 1 for cell in filled)


def _counts_up(cells: Sequence[Cell], width: int) -> bool:
    """Return whether the first row holds a word and consecutive numbers, and no row below does."""
    first, *others = (
        [cell.text for cell in sorted(cells, key=lambda cell: cell.column) if cell.row == row]
        for row in range(max((cell.row for cell in cells), default=-1) + 1)
    )
    return width > MIN_COUNTED and _is_count(first) and not any(map(_is_count, others))


def _is_count(texts: Sequence[str]) -> bool:
    values = texts[1:]
    if len(values) < MIN_COUNTED or is_number(texts[0]) or not all(text.isdigit() for text in values):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(values))


def is_data_row(cells: Sequence[tuple[Cell | GridCell, str]], row: int) -> bool:
    """Return whether at least half of a row's cells right of the first column are numbers, not years.

    Each cell stands with its text.
    """
    values = [text for cell, text in cells if cell.row == row and cell.column > 0 and text]
    figures = sum(_holds_figures(text) for text in values)
    return bool(values) and figures * 2 >= len(values)


def _holds_figures(text: str) -> bool:
    """Return whether a cell holds a number, or several in lines below each other."""
    return not is_year(text) and (is_number(text) or all(map(is_number, text.split())))


def count_header_columns(cells: Sequence[Cell], header_rows: int, width: int) -> int:
    """Return the number of columns at the left that hold heads of rows: words beside figures or dates."""
    count = 0
    for column in range(min(width - 1, 3)):
        texts = [
            cell.text for cell in cells if cell.column == column and cell.row >= header_rows and cell.text
        ]
        figures = sum(is_number(text) and not is_year(text) and not is_range(text) for text in texts)
        if not texts or figures > 0.3 * len(texts):
            break
        count += 1
        if count == 1 and _has_figures(cells, header_rows, 1):
            break
    if count > 1 and not _has_figures(cells, header_rows, count):
        return 1
    return count


def _has_figures(cells: Sequence[Cell], header_rows: int, column: int) -> bool:
    texts = [cell.text for cell in cells if cell.column == column and cell.row >= header_rows and cell.text]
    return sum(is_number(text) or is_date(text) for text in texts) > 0.3 * len(texts)


def find_sections(cells: Sequence[Cell], header_rows: int, width: int) -> frozenset[int]:
    """Return the rows of the body with one cell at the left, or over all columns, above rows with more."""
    height = max((cell.row + cell.rows for cell in cells), default=0)
    if width < 3:
        return frozenset()
    rows = [row for row in range(header_rows, height) if _is_section(cells, row, width)]
    return frozenset(row for row in rows if row + 1 < height and row + 1 not in rows)


def _is_section(cells: Sequence[Cell], row: int, width: int) -> bool:
    inside = [cell for cell in cells if cell.row <= row < cell.row + cell.rows and cell.text]
    return (
        len(inside) == 1
        and inside[0].rows == 1
        and (inside[0].column == 0 or inside[0].columns > width // 2)
        and not is_number(inside[0].text)
    )


def _box_of(page: StraightWords, words: Sequence[int]) -> Box | None:
    """Return the rectangle around words, as they stand on the picture."""
    if not words:
        return None
    boxes = page.boxes[list(words)]
    x1, y1 = boxes[:, :2].min(axis=0).tolist()
    x2, y2 = boxes[:, 2:].max(axis=0).tolist()
    return Box.unit(x1 / page.width, y1 / page.height, x2 / page.width, y2 / page.height)


def has_heads(grid: Grid, page: StraightWords) -> bool:
    """Return whether the first row or column holds words or years: the labels of charts are all figures.

    A word in the corner, beside figures over a rule, names both.
    """
    edges = [cell for cell in grid.cells if cell.row == 0 or cell.column == 0]
    texts = [_text(page, cell) for cell in edges]
    if sum(is_year(text) or not is_number(text) for text in texts) > 0.3 * len(texts):
        return True
    corner = next((_text(page, cell) for cell in edges if cell.row == cell.column == 0), "")
    over = sum(cell.columns for cell in edges if cell.row == 0)
    return bool(count_words(corner)) and over == grid.width > MIN_COUNTED and 0 in grid.ruled_below


def add_head_rows(
    page: StraightWords, grid: Grid, rows: Sequence[Sequence[Piece]], rules: Sequence[RulingLine]
) -> Grid:
    """Return a table with the heads that stand above it: lines of its first heads, and heads over them.

    Args:
        page: The words of the page.
        grid: The table.
        rows: Rows of the pieces that belong to no table, from the top of the page down.
        rules: Horizontal rules of the page.
    """
    columns = _column_ranges(page, grid)
    if len(columns) < 2:
        return grid
    first = [cell for cell in grid.cells if cell.row == 0]
    edge = min(float(page.straight[list(cell.words), 1].min()) for cell in first)
    headless = has_figures_first(page, grid)
    levels = [_HeadRow([], {}) if headless else _HeadRow.of(page, first)]
    for row in reversed([row for row in rows if row[0].middle < edge]):
        inside = [piece for piece in row if piece.x1 < columns[-1][1] and columns[0][0] < piece.x2]
        if not inside:
            continue
        near = edge - max(piece.y2 for piece in inside) <= LOOSE_GAP * page.line_height
        if not near or not all(map(_is_head_text, inside)) or len(levels) > MAX_LOOSE_ROWS:
            break
        near_rules = [rule for rule in rules if rule.at < edge + page.line_height]
        first_row = headless and len(levels) == 1
        if first_row and (cells := _place_heads(inside, columns)):
            levels.append(_HeadRow.of(page, cells))
        elif not _place_over(inside, columns, levels, near_rules):
            if not headless or first_row or not (cells := _place_heads(inside, columns)):
                break
            levels.append(_HeadRow.of(page, cells))
        edge = min(piece.y1 for piece in inside)
    while len(levels) > 1 and all(
        cell.column == 0 for cell in levels[-1].cells
    ):  # a title rather than a head
        levels.pop()
    return _prepend(grid, levels, headless=headless)


@dataclass(slots=True)
class _HeadRow:
    """The heads of one row, and the lines of text on top of each column."""

    cells: list[GridCell]
    tops: dict[int, tuple[int, Piece]]
    """For each column the number of its cell, and the highest line of that cell."""

    @classmethod
    def of(cls, page: StraightWords, cells: Sequence[GridCell]) -> _HeadRow:
        row = cls([], {})
        for cell in cells:
            top = min(cell.words, key=lambda index: page.straight[index, 1])
            line = [
                index for index in cell.words if page.straight[index, 1] < page.straight[top, [1, 3]].mean()
            ]
            row.add(cell, make_piece(page, line))
        return row

    def add(self, cell: GridCell, line: Piece) -> None:
        """Add a head that begins with a line."""
        for column in range(cell.column, cell.column + cell.columns):
            self.tops[column] = len(self.cells), line
        self.cells.append(cell)

    def put_above(self, number: int, line: Piece) -> None:
        """Put a line above the others of a head."""
        cell = self.cells[number]
        self.cells[number] = replace(cell, words=(*line.words, *cell.words))
        for column in range(cell.column, cell.column + cell.columns):
            self.tops[column] = number, line


def _is_head_text(piece: Piece) -> bool:
    return (
        count_words(piece.text) <= MAX_HEAD_WORDS
        and not _is_figure(piece.text)
        and piece.text[-1] not in ":."
    )


def _place_over(
    pieces: Sequence[Piece],
    columns: Sequence[tuple[float, float]],
    levels: list[_HeadRow],
    rules: Sequence[RulingLine],
) -> bool:
    """Place the pieces of a row above heads: lines of the heads below, or heads over several columns.

    Returns:
        Whether every piece has a place; if not, nothing is placed.
    """
    top = levels[-1]
    wrapped: list[tuple[int, Piece]] = []
    over = _HeadRow([], {})
    for piece in pieces:
        number = _continued_head(piece, top, columns, rules)
        if number is not None and all(other != number for other, _ in wrapped):
            wrapped.append((number, piece))
            continue
        place = _ruled_columns(piece, columns, rules) or (
            _centred_columns(piece, columns) if len(pieces) > 1 else None
        )
        if place is None or any(column in over.tops for column in place):
            return False
        over.add(GridCell(row=0, column=place[0], columns=len(place), words=piece.words), piece)
    for number, piece in wrapped:
        top.put_above(number, piece)
    if over.cells:
        levels.append(over)
    return True


def _continued_head(
    piece: Piece, row: _HeadRow, columns: Sequence[tuple[float, float]], rules: Sequence[RulingLine]
) -> int | None:
    """Return the number of the head whose first line stands close below a piece and is aligned with it.

    No rule divides the two, and the piece stands over no other column.
    """
    over = {n for n, (left, right) in enumerate(columns) if left < piece.x2 and piece.x1 < right}
    middle = (piece.x1 + piece.x2) / 2
    for number, line in row.tops.values():
        height = max(piece.height, line.height)
        sides = (
            piece.x1 - line.x1,
            piece.x2 - line.x2,
            (piece.x1 + piece.x2 - line.x1 - line.x2) / 2,
        )
        divided = any(
            piece.middle < rule.at < line.middle and rule.start < middle < rule.end for rule in rules
        )
        close = 0 <= line.middle - piece.middle < 1.75 * height
        cell = row.cells[number]
        own = over <= set(range(cell.column, cell.column + cell.columns))
        if close and own and not divided and min(map(abs, sides)) < 0.5 * height:
            return number
    return None


def _ruled_columns(
    piece: Piece, columns: Sequence[tuple[float, float]], rules: Sequence[RulingLine]
) -> range | None:
    """Return the columns below the rule under a piece, if it is as long as them and not as the table."""
    middle = (piece.x1 + piece.x2) / 2
    for rule in rules:
        if not (piece.middle < rule.at < piece.y2 + piece.height and rule.start < middle < rule.end):
            continue
        inside = [n for n, (left, right) in enumerate(columns) if rule.start < (left + right) / 2 < rule.end]
        if inside and inside[0] > 0 and abs((rule.start + rule.end) / 2 - middle) < 2 * piece.height:
            return range(inside[0], inside[-1] + 1)
    return None


def _centred_columns(piece: Piece, columns: Sequence[tuple[float, float]]) -> range | None:
    """Return the columns, two or more, on whose centre a piece stands."""
    middle = (piece.x1 + piece.x2) / 2
    found: list[tuple[float, range]] = []
    for first in range(1, len(columns)):
        for last in range(first + 1, len(columns)):
            away = abs((columns[first][0] + columns[last][1]) / 2 - middle)
            if away < piece.height and columns[first][0] < piece.x2 and piece.x1 < columns[last][1]:
                found.append((away, range(first, last + 1)))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def has_figures_first(page: StraightWords, grid: Grid) -> bool:
    """Return whether the first row of a table holds figures rather than heads."""
    return find_first_figures(page, grid) == 0


def find_first_figures(page: StraightWords, grid: Grid) -> int | None:
    """Return the first row of a table that holds figures; None if no row does."""
    texts = [(cell, _text(page, cell)) for cell in grid.cells]
    return next((row for row in range(grid.height) if is_data_row(texts, row)), None)


def is_head_of(page: StraightWords, upper: Grid, lower: Grid) -> bool:
    """Return whether a found table is but the heads of the one below it."""
    if upper.height > MAX_LOOSE_ROWS:
        return False
    reach = 2 * LOOSE_GAP if has_figures_first(page, lower) else 1.0
    texts = [(cell, _text(page, cell)) for cell in upper.cells]
    space = lower.area.y1 - upper.area.y2
    shared = min(upper.area.x2, lower.area.x2) - max(upper.area.x1, lower.area.x1)
    return (
        -page.line_height < space <= reach * page.line_height
        and shared > 0.5 * (lower.area.x2 - lower.area.x1)
        and not any(is_data_row(texts, row) for row in range(upper.height))
    )


def _text(page: StraightWords, cell: GridCell) -> str:
    return join_words(page.item, [page.numbers[index] for index in cell.words])


def _column_ranges(page: StraightWords, grid: Grid) -> list[tuple[float, float]]:
    """Return the range of x that the words of each column take, from left to right."""
    words: dict[int, list[int]] = {}
    for cell in grid.cells:
        if cell.columns == 1:
            words.setdefault(cell.column, []).extend(cell.words)
    if sorted(words) != list(range(grid.width)) or not all(words.values()):
        return []
    boxes = [page.straight[words[column]] for column in range(grid.width)]
    return [(float(box[:, 0].min()), float(box[:, 2].max())) for box in boxes]


def _place_heads(pieces: Sequence[Piece], columns: Sequence[tuple[float, float]]) -> tuple[GridCell, ...]:
    """Return the pieces of a row as heads, each over its columns; nothing if the row is none of heads."""
    if any(count_words(piece.text) > MAX_HEAD_WORDS or _is_figure(piece.text) for piece in pieces):
        return ()
    middles = [(left + right) / 2 for left, right in columns]
    left = [piece for piece in pieces if piece.x1 < columns[0][1] and piece.x2 < columns[1][0]]
    over = [piece for piece in pieces if piece not in left]
    if len(left) > 1 or len(over) == 1:
        return ()
    if not over:
        return tuple(GridCell(row=0, column=0, words=piece.words) for piece in left)
    centres = [(piece.x1 + piece.x2) / 2 for piece in over]
    nearest = [
        min(range(len(over)), key=lambda number: abs(centres[number] - middle)) for middle in middles[1:]
    ]
    if sorted(nearest) != nearest or set(nearest) != set(range(len(over))):
        return ()
    cells = [GridCell(row=0, column=0, words=piece.words) for piece in left]
    for number, piece in enumerate(over):
        first = 1 + nearest.index(number)
        cells.append(GridCell(row=0, column=first, columns=nearest.count(number), words=piece.words))
    return tuple(cells)


def _is_figure(text: str) -> bool:
    return is_number(text) and not is_year(text)


def _prepend(grid: Grid, levels: Sequence[_HeadRow], *, headless: bool) -> Grid:
    """Return the table with heads, given from its first row upwards; a rule separates new rows from it."""
    above = levels[:0:-1]
    count = len(above)
    cells = [replace(cell, row=row) for row, level in enumerate(above) for cell in level.cells]
    first = [] if headless else levels[0].cells
    cells += [replace(cell, row=count) for cell in first]
    cells += [replace(cell, row=cell.row + count) for cell in grid.cells if cell.row > 0 or headless]
    below = {row + count for row in grid.ruled_below}
    if count:
        below.add(count - 1)
    return replace(grid, cells=tuple(cells), ruled_below=frozenset(below))
