"""Tables whose columns are aligned words: without rules, or with horizontal or vertical rules only."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vrag.reading.tables.captions import NOTE, NUMBERED_TITLE
from vrag.reading.tables.columns import find_columns, touched_columns
from vrag.reading.tables.grid import Area, Grid, GridCell, connect, without_empty_places
from vrag.reading.tables.head_block import place_heads, span_columns, span_section
from vrag.reading.tables.heads import has_heads
from vrag.reading.tables.rows import TableLine, count_header_lines, group_lines, is_data_line
from vrag.reading.tables.text_kinds import count_words, is_code, is_list_marker, is_number
from vrag.reading.tables.text_pieces import split_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.reading.tables.columns import ColumnExtent
    from vrag.reading.tables.ruled.ruling_lines import RulingLine, RulingLines
    from vrag.reading.tables.text_pieces import Piece, StraightWords

ROW_GAP = 2.6
"""Space between two rows of one table, in heights of the text."""
BESIDE_GAP = 30.0
"""Space between two cells of one row, in heights of the text."""
MAX_ABOVE = 60
"""Pieces above a piece that it can belong to."""
MAX_SIZE_RATIO = 1.4
"""Height of the largest line of a table without rules, in heights of the median."""
MAX_CODE = 0.25
"""Share of the texts of a table that may look like program code or entries of a list."""
MIN_ALIGNED = 0.6
"""Share of the cells of a column whose left sides, right sides or centres stand below each other."""
MIN_RULED_FILLED = 0.55
"""Share of the places between rules with a cell; words that fill fewer must look as without rules."""
_PART = re.compile(r"(?:item|part|chapter|section|article|appendix)\s[\dIVX]+[A-Z]?\.?$", re.IGNORECASE)
_MARK = re.compile(r"\(\w{1,2}\)|\[\w{1,2}\]|[*†‡]{1,3}|\d")
MAX_MARKED = 4
"""Words beyond which a text behind a mark is a note."""
_SENTENCE_END = re.compile(r"[^\W\d_]{2}[.!?]\s+[A-ZÀ-ÞА-Я]")
_LAST_SIGN = re.compile(r"(?:\w\w|[\d)\]”])[.:;!?]")
MAX_HEAD_WORDS = 3
"""Words of a piece on average, beyond which a line that ends as a sentence does is none of heads."""
MAX_TEXT_ROWS = 0.2
"""Share of the rows of a table that look like running text, beyond which its cells are sentences."""
MIN_FILLED = 0.42
"""Share of the places that hold words."""


def connect_pieces(rows: Sequence[Sequence[Piece]], unit: float) -> list[list[Piece]]:
    """Group the pieces that stand beside each other, or below each other without much space.

    Args:
        rows: Rows of pieces without running text; none is empty.
        unit: Height of the text.
    """
    pieces = [piece for row in rows for piece in row]
    links = list(_links(rows, unit))
    return [[pieces[number] for number in members] for members in connect(len(pieces), links)]


def _links(rows: Sequence[Sequence[Piece]], unit: float) -> Iterator[tuple[int, int]]:
    """Yield the numbers of pieces that belong together, counted over all rows."""
    pieces = [piece for row in rows for piece in row]
    start = 0
    above: list[int] = []
    for row in rows:
        current = range(start, start + len(row))
        start += len(row)
        for left, right in pairwise(current):
            if pieces[right].x1 - pieces[left].x2 < BESIDE_GAP * unit:
                yield left, right
        above = [other for other in above[-MAX_ABOVE:] if row[0].y1 - pieces[other].y2 < ROW_GAP * unit]
        for number in current:
            piece = pieces[number]
            for other in above:
                if pieces[other].x1 < piece.x2 and piece.x1 < pieces[other].x2:
                    yield other, number
        above += current


def build_aligned_grid(
    page: StraightWords, pieces: Sequence[Piece], rules: RulingLines, area: Area | None
) -> Grid | None:
    """Build the grid of pieces in aligned columns; None if they make no table.

    Args:
        page: The words of the page.
        pieces: Pieces of the table, or of what looks like one.
        rules: The ruling lines of the page.
        area: The area between horizontal rules, where they bound the table.
    """
    words = [index for piece in pieces for index in piece.words]
    if not words:
        return None
    x1, y1 = page.straight[words, :2].min(axis=0).tolist()
    x2, y2 = page.straight[words, 2:].max(axis=0).tolist()
    bounds = area or Area(x1, y1, x2, y2)
    vertical = [(rule.at, rule.start, rule.end) for rule in rules.vertical if _inside(rule, bounds)]
    rows = split_pieces(page, words, vertical)
    rows = _between_titles(rows)
    rows = _trim(rows) if area is None else _without_notes(rows)
    while len(rows) > 1 and _is_marked_note(rows[-1]):
        rows.pop()
    long_rules = [at for at, start, end in vertical if end - start > 0.6 * (bounds.y2 - bounds.y1)]
    columns = find_columns([row for row in rows if len(row) > 1] or rows, long_rules)
    if len(rows) < (2 if area else 3) or len(columns) < 2:
        return None
    lines = [_line(row, columns) for row in rows]
    heads = next((number for number, line in enumerate(lines) if is_data_line(line)), 0)
    lines[:heads] = [span_columns(line, columns, rules.horizontal) for line in lines[:heads]]
    ruled = _ruled_between(lines, rules.horizontal, bounds)
    body = count_header_lines(lines, ruled)
    lines[body:] = [span_section(line, columns) for line in lines[body:]]
    grid = _make_grid(lines, ruled, rules.horizontal, bounds if area else _bounds(rows))
    bounded = area is not None and any(ruled[:-1])
    return grid if _is_table(grid, page, columns, lines, ruled=bounded) else None


def _inside(rule: RulingLine, bounds: Area) -> bool:
    overlap = min(rule.end, bounds.y2) - max(rule.start, bounds.y1)
    return bounds.x1 < rule.at < bounds.x2 and overlap > 0


def _bounds(rows: Sequence[Sequence[Piece]]) -> Area:
    sides = [(piece.x1, piece.y1, piece.x2, piece.y2) for row in rows for piece in row]
    x1, y1, x2, y2 = zip(*sides, strict=True)
    return Area(min(x1), min(y1), max(x2), max(y2))


def _between_titles(rows: list[list[Piece]]) -> list[list[Piece]]:
    """Return the rows below the last numbered title in the upper half and above the first in the lower."""
    titles = [
        number
        for number, row in enumerate(rows)
        if len(row) < 3 and any(NUMBERED_TITLE.match(piece.text) for piece in row)
    ]
    first = max((number + 1 for number in titles if number < len(rows) // 2), default=0)
    last = min((number for number in titles if number >= len(rows) // 2), default=len(rows))
    return rows[first:last]


def _trim(rows: list[list[Piece]]) -> list[list[Piece]]:
    """Return the rows from the first to the last with several pieces, without running text above them."""
    rows = rows[_count_text_rows(rows) :]
    several = [number for number, row in enumerate(rows) if len(row) > 1]
    return rows[several[0] : several[-1] + 1] if several else []


def _count_text_rows(rows: Sequence[Sequence[Piece]]) -> int:
    """Count the lines of running text above a table; none if its own cells have such texts."""
    is_text = [_is_running_text(row) for row in rows]
    count = next((number for number, row in enumerate(rows) if not is_text[number] and not _is_wordy(row)), 0)
    while count and not is_text[count - 1]:
        count -= 1
    return count if sum(is_text[count:]) <= MAX_TEXT_ROWS * (len(rows) - count) else 0


def _is_running_text(row: Sequence[Piece]) -> bool:
    """Return whether a line is one of running text: a sentence ends within it, or long pieces at its end."""
    if any(_SENTENCE_END.search(piece.text) for piece in row):
        return True
    return _LAST_SIGN.fullmatch(row[-1].text[-3:]) is not None and _is_wordy(row)


def _is_wordy(row: Sequence[Piece]) -> bool:
    """Return whether the pieces of a row are longer than heads on average."""
    return sum(count_words(piece.text) for piece in row) > MAX_HEAD_WORDS * len(row)


def _without_notes(rows: list[list[Piece]]) -> list[list[Piece]]:
    """Return rows between rules without titles at the top, and without sources and page numbers below."""
    several = [number for number, row in enumerate(rows) if len(row) > 1]
    if not several:
        return rows
    first, last = 0, len(rows) - 1
    left = min(piece.x1 for row in rows for piece in row)
    while first < several[0] and rows[first][0].x1 < left + rows[first][0].height:
        first += 1
    note = next((number for number in range(several[-1] + 1, last + 1) if _is_note(rows, number)), last + 1)
    return rows[first:note]


def _is_marked_note(row: Sequence[Piece]) -> bool:
    """Return whether a row is a note behind its mark: `(1)` and a text of several words."""
    if len(row) != 2 or row[1].text.startswith(("=", ":")):
        return False
    return _MARK.fullmatch(row[0].text) is not None and count_words(row[1].text) > MAX_MARKED


def _is_note(rows: Sequence[Sequence[Piece]], number: int) -> bool:
    """Return whether a line below a table is no part of its last row."""
    piece, above = rows[number][0], rows[number - 1]
    space = piece.y1 - max(other.y2 for other in above)
    return space > 0.9 * piece.height or NOTE.match(piece.text) is not None or is_number(piece.text)


def _line(row: Sequence[Piece], columns: Sequence[ColumnExtent]) -> TableLine:
    """Place the pieces of a row in columns; pieces without one take the nearest."""
    entries: list[tuple[Piece, range]] = []
    centers = [(column.x1 + column.x2) / 2 for column in columns]
    for piece in row:
        place = touched_columns(columns, piece.x1, piece.x2)
        if not place:
            near = min(
                range(len(columns)), key=lambda number: abs(centers[number] - (piece.x1 + piece.x2) / 2)
            )
            place = range(near, near + 1)
        entries.append((piece, place))
    middle = sum(piece.middle for piece in row) / len(row)
    return TableLine(middle, tuple(entries))


def _ruled_between(lines: Sequence[TableLine], rules: Sequence[RulingLine], bounds: Area) -> list[bool]:
    """Return for each line whether a rule over most of the table stands between it and the next."""
    middles = [line.middle for line in lines]
    covered = [0.0] * len(lines)
    for rule in rules[bisect_left(rules, (bounds.y1 - 5,)) : bisect_right(rules, (bounds.y2 + 5,))]:
        number = bisect_left(middles, rule.at) - 1
        overlap = min(rule.end, bounds.x2) - max(rule.start, bounds.x1)
        if 0 <= number < len(lines) - 1 and overlap > 0:
            covered[number] += overlap
    return [share > 0.5 * (bounds.x2 - bounds.x1) for share in covered]


def _make_grid(
    lines: Sequence[TableLine], ruled: Sequence[bool], rules: Sequence[RulingLine], bounds: Area
) -> Grid:
    """Make the grid of lines: of their heads by columns, if some span several, and of the body by lines."""
    groups = group_lines(lines, ruled)
    count = count_header_lines(lines, ruled)
    spanning = count > 1 and any(line.spans for line in lines[:count])
    cells: list[GridCell] = []
    below: set[int] = set()
    height = 0
    if spanning:
        heads = place_heads(lines[:count], rules)
        cells = [cell for row in heads for cell in row]
        height = len(heads)
        groups = [group for group in groups if group[0] >= count]
        below = {height - 1} if ruled[count - 1] else below
    for row, group in enumerate(groups, height):
        cells += _row_cells(row, [lines[number] for number in group])
    below |= {row for row, group in enumerate(groups, height) if ruled[group[-1]]}
    return without_empty_places(Grid(cells=tuple(cells), area=bounds, ruled_below=frozenset(below)))


def _row_cells(row: int, lines: Sequence[TableLine]) -> list[GridCell]:
    """Return the cells of a row of some lines: pieces that share a column are one cell."""
    extents: list[tuple[int, int]] = []
    for first, last in sorted((place[0], place[-1]) for line in lines for _, place in line.entries):
        if extents and first <= extents[-1][1]:
            extents[-1] = (extents[-1][0], max(extents[-1][1], last))
        else:
            extents.append((first, last))
    return [
        GridCell(
            row=row,
            column=first,
            columns=last - first + 1,
            words=tuple(
                index
                for line in lines
                for piece, place in line.entries
                if first <= place[0] <= last
                for index in piece.words
            ),
        )
        for first, last in extents
    ]


def _is_table(
    grid: Grid,
    page: StraightWords,
    columns: Sequence[ColumnExtent],
    lines: Sequence[TableLine],
    *,
    ruled: bool,
) -> bool:
    """Return whether aligned pieces are a table and not a list, running text or the labels of a figure."""
    if not _is_filled(grid, ruled=ruled):
        return False
    texts: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        for piece, place in line.entries:
            if len(place) == 1:
                texts[place[0]].append(piece.text)
    if (
        _is_code([piece.text for line in lines for piece, _ in line.entries])
        or _is_list(texts, len(columns))
        or _is_contents(texts, len(columns))
    ):
        return False
    first = next((number for number, line in enumerate(lines) if is_data_line(line)), 0)
    body = lines[first:] if first <= len(lines) / 2 else lines
    aligned = (ruled and len(body) == 1) or _is_aligned(columns, body if len(body) > 1 else lines)
    if not aligned or not has_heads(grid, page) or not _is_even(lines):
        return False
    if ruled and len(grid.cells) >= MIN_RULED_FILLED * grid.height * grid.width:
        return True
    return _looks_tabular(texts, grid)


def _is_even(lines: Sequence[TableLine]) -> bool:
    """Return whether the lines of a short table have letters of about the same size."""
    heights = [float(np.median([piece.height for piece, _ in line.entries])) for line in lines]
    return len(lines) > 6 or max(heights) < MAX_SIZE_RATIO * float(np.median(heights))


def _is_filled(grid: Grid, *, ruled: bool) -> bool:
    """Return whether enough rows hold several cells, and enough places hold words."""
    if grid.height < (2 if ruled else 3) or grid.width < 2:
        return False
    several: dict[int, int] = defaultdict(int)
    for cell in grid.cells:
        several[cell.row] += 1
    full_rows = sum(count > 1 for count in several.values())
    if full_rows < max(2, (0.4 if ruled else 0.5) * grid.height):
        return False
    filled = sum(cell.columns for cell in grid.cells)
    return filled >= (0.3 if ruled else MIN_FILLED) * grid.height * grid.width


def _is_code(texts: Sequence[str]) -> bool:
    """Return whether many texts are program code or entries behind bullets."""
    everything = [text for text in texts if not is_number(text)]
    if any(text.startswith(">>>") for text in everything):
        return True
    return sum(map(is_code, everything)) > MAX_CODE * len(everything)


def _is_list(texts: dict[int, list[str]], width: int) -> bool:
    first = texts.get(0, [])
    markers = sum(map(is_list_marker, first))
    bullets = sum(not text[0].isalnum() and not text.startswith("(") for text in first)
    return markers > 0.5 * len(first) and (width == 2 or bullets > 0.5 * len(first))


def _is_contents(texts: dict[int, list[str]], width: int) -> bool:
    """Return whether the first column names parts of a text, or the last one holds page numbers in order."""
    first, titles = texts.get(0, []), texts.get(1, [])
    parts = sum(_PART.match(text) is not None for text in first)
    if width < 4 and parts > 0.6 * len(first) and not any(map(is_number, titles)):
        return True
    last = texts.get(width - 1, [])
    pages = [int(text) for text in last if text.isdigit() and len(text) < 5]
    if width > 3 or len(pages) < 4 or len(pages) < 0.8 * len(last):
        return False
    return sum(a <= b for a, b in pairwise(pages)) >= 0.9 * (len(pages) - 1)


def _is_aligned(columns: Sequence[ColumnExtent], lines: Sequence[TableLine]) -> bool:
    """Return whether the pieces of most columns share a left side, a right side or a centre."""
    sides: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for line in lines:
        for piece, place in line.entries:
            if len(place) == 1:
                sides[place[0]].append((piece.x1, (piece.x1 + piece.x2) / 2, piece.x2))
    unit = float(np.median([piece.height for line in lines for piece, _ in line.entries]))
    shares: list[float] = []
    for number in range(len(columns)):
        if len(sides[number]) > 1:
            values = np.asarray(sides[number])
            near = np.abs(values - np.median(values, axis=0)) < 0.45 * unit
            shares.append(float(near.mean(axis=0).max()))
    return bool(shares) and float(np.mean(shares)) >= MIN_ALIGNED


def _looks_tabular(texts: dict[int, list[str]], grid: Grid) -> bool:
    """Return whether cells without rules are short, and numbers or many enough."""
    everything = [text for column in texts.values() for text in column]
    figures = sum(map(is_number, everything)) / max(len(everything), 1)
    words = float(np.median([count_words(text) for text in everything])) if everything else 9.0
    if figures > 0.25:
        return True
    if sum(text[0].islower() for text in everything) > 0.5 * len(everything):
        return False
    return words <= (4 if grid.width == 2 else 6) and grid.height >= (4 if grid.width == 2 else 3)
