"""The pages beside a page: their way of writing numbers is its own, and its tables may go on there.

A table that goes on on the next page is one table: its rows have the heads of its first part, and its largest
value or its sum is that of all parts. Pages are opened only where a table may go on, or where a number such
as 84.210 may be read in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vrag.reading.answer import ReadPage
from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.table_answers.scales import states_measure
from vrag.reading.tables.captions import NUMBERED_TITLE
from vrag.reading.tables.evidence import is_figure
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.views.text_lines import CELL_GAP, Rect, around
from vrag.text.folding import fold
from vrag.text.numerals import NumberStyle, find_number_style, is_ambiguous

MAX_PARTS = 40
"""Pages of one table that are joined."""
STYLE_REACH = 2
"""Pages on each side whose numbers tell how those of a page are written, where its own do not."""
SAME_PLACE = 0.012
"""Distance of two edges of columns at the same place, as a share of the width of the page."""
MIN_COLUMNS = 0.6
"""Share of the columns of a table that another part of it has: empty ones are not found."""
MARGIN = 0.08
"""Share of the height of a page at its top and its bottom where running titles and notes stand."""
NOTE_LINES, NOTE_WORDS, NOTE_REACH = 3, 14, 0.1
"""Lines above a table of which one may state the scale of its numbers, their words, and the space between
them, as a share of the height of the page."""
_CONTINUED = re.compile(
    r"\bcont(?:inued|\.|['’]d)(?!\w)|\bfortsetzung\b|\bfortgesetzt\b|\bsuite\b|\bcontinuación\b"
    r"|[续續]表|（[续續]）|\([续續]\)|続き",
    re.IGNORECASE,
)
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.|第)\s*)?[\divxlc]{1,6}(?:\s*(?:of|/|von|de|页|頁)\s*\d*)?\W*", re.IGNORECASE
)


def read_number_style(page: ReadPage) -> NumberStyle:
    """Return the way in which the document of a page writes numbers, by the page and those near it."""
    style = find_number_style([page.item.text])
    if style.decimal_sign or not is_ambiguous(page.item.text):
        return style
    steps = [sign * step for step in range(1, STYLE_REACH + 1) for sign in (1, -1)]
    near = [beside.item.text for step in steps if (beside := page.beside(step)) is not None]
    return find_number_style([page.item.text, *near])


def read_tables(page: ReadPage) -> tuple[DocumentTable, ...]:
    """Return the tables of a page, those that go on with all their rows, and its charts as tables.

    Cells on other pages tell where they stand (`Cell.item`); the box is that of the part on this page. A
    table of which rows may stand elsewhere is a part.
    """
    text = read_page_text(page.item)
    tables, charts = text.tables(page.picture), text.charts(page.picture)
    if not (tables or charts):
        return ()
    tables = tuple(replace(table, measure_note=_find_measure_note(text, table)) for table in tables)
    joined = read_part(
        UnreadPart.TABLES, page.item, lambda: [_join_parts(page, table) for table in tables], tables
    )
    style = read_number_style(page)
    return tuple(replace(table, number_style=style) for table in (*joined, *charts))


def _find_measure_note(text: PageText, table: DocumentTable) -> str:
    """Return the short line closely above a table that states the scale or the currency of its numbers."""
    if table.box is None or not text.words:
        return ""
    x1, edge, x2, _ = table.box.as_tuple()
    above = sorted((line for line in text.lines if line.rect.y2 <= edge), key=lambda line: -line.rect.y2)
    for line in above[:NOTE_LINES]:
        words = text.text[line.start : line.end]
        if edge - line.rect.y2 > NOTE_REACH or len(words.split()) > NOTE_WORDS:
            break
        if line.rect.x1 < x2 and x1 < line.rect.x2 and states_measure(words):
            return words
        edge = line.rect.y1
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class _TablePart:
    """A table on one page."""

    page: ReadPage
    table: DocumentTable

    @property
    def text(self) -> PageText:
        return read_page_text(self.page.item)

    def is_last(self) -> bool:
        """Return whether nothing but a running title stands below it."""
        bottom = self.rect.y2
        below = [line for line in self.text.lines if line.rect.y1 >= bottom - 0.5 * line.rect.height]
        return all(_is_margin_line(self.text.text[line.start : line.end], line.rect) for line in below)

    def is_first(self) -> bool:
        """Return whether nothing but a running title and its own caption stands above it."""
        top, caption = self.rect.y1, _fold(self.table.caption)
        above = [line for line in self.text.lines if line.rect.y2 <= top + 0.5 * line.rect.height]
        texts = ((self.text.text[line.start : line.end], line.rect) for line in above)
        return all(_is_margin_line(text, rect) or _fold(text) in caption for text, rect in texts)

    @property
    def rect(self) -> Rect:
        """The rectangle of the table, which has one."""
        return Rect(*self.table.box.as_tuple()) if self.table.box else Rect(0.0, 0.0, 0.0, 0.0)


def _is_margin_line(text: str, rect: Rect) -> bool:
    """Return whether a line is a running title, a page number or a remark that a table goes on."""
    is_in_margin = rect.y1 >= 1 - MARGIN or rect.y2 <= MARGIN
    return is_in_margin or _PAGE_NUMBER.fullmatch(text) is not None or _CONTINUED.search(text) is not None


def _fold(text: str) -> str:
    return " ".join(_CONTINUED.sub("", fold(text)).replace("()", "").split())


def _join_parts(page: ReadPage, table: DocumentTable) -> DocumentTable:
    """Return a table with its parts on the pages before and behind."""
    if table.box is None or not page.item.words:
        return table
    here = _TablePart(page, table)
    before = list(_find_before(here))[::-1]
    behind, is_whole = _find_behind(here)
    parts = [*before, here, *behind]
    if len(parts) == 1:
        return table if is_whole else replace(table, is_part=True)
    is_part = not is_whole or any(part.table.is_part for part in parts) or len(parts) > MAX_PARTS
    return replace(_join(parts, page.item.id), box=table.box, is_part=is_part)


def _find_before(part: _TablePart) -> Iterator[_TablePart]:
    """Yield the parts on earlier pages, the nearest first."""
    for _ in range(MAX_PARTS):
        previous = part.page.beside(-1) if part.is_first() else None
        if previous is None:
            return
        found = next(
            (other for other in _list_parts(previous) if other.is_last() and _goes_on(other, part)), None
        )
        if found is None:
            return
        yield found
        part = found


def _find_behind(part: _TablePart) -> tuple[list[_TablePart], bool]:
    """Return the parts on later pages, and whether there can be no others."""
    found: list[_TablePart] = []
    while part.is_last() and (following := part.page.beside(1)) is not None:
        if len(found) == MAX_PARTS:
            return found, False
        parts = _list_parts(following)
        later = next((other for other in parts if other.is_first() and _goes_on(part, other)), None)
        if later is None:
            has_first = any(other.is_first() for other in parts)
            return found, has_first or not _begins_with_row(part.table, read_page_text(following.item))
        found.append(later)
        part = later
    return found, True


def _list_parts(page: ReadPage) -> list[_TablePart]:
    tables = read_page_text(page.item).tables(page.picture)
    return [_TablePart(page, table) for table in tables if table.box is not None and page.item.words]


def _goes_on(first: _TablePart, later: _TablePart) -> bool:
    """Return whether a table goes on in another one that is the first of the next page."""
    one, other = first.table, later.table
    if first.page.item.facts.worksheet != later.page.item.facts.worksheet or _map_columns(one, other) is None:
        return False
    says_so = _CONTINUED.search(other.caption) is not None
    if not says_so and _has_own_title(first, other):
        return False
    if says_so or (other.header_rows and _has_same_heads(one, other)):
        return True
    return one.header_rows > 0 and (not other.header_rows or not (_has_figures(one) or _has_figures(other)))


def _has_own_title(first: _TablePart, later: DocumentTable) -> bool:
    """Return whether a table has a caption that is neither that of the first one nor runs over all pages."""
    caption = _fold(later.caption)
    if not caption or caption == _fold(first.table.caption):
        return False
    return NUMBERED_TITLE.match(later.caption) is not None or caption not in _fold(first.text.text)


def _has_same_heads(one: DocumentTable, other: DocumentTable) -> bool:
    """Return whether the heads of two tables are the same, the columns apart that one of them lacks."""
    heads = [
        {_fold(head.text) for head in table.cells if head.row < table.header_rows} - {""}
        for table in (one, other)
    ]
    return bool(heads[1]) and heads[1] <= heads[0]


def _has_figures(table: DocumentTable) -> bool:
    """Return whether a column of the body has figures: then its heads can be told from its rows."""
    body = [cell for cell in table.cells if cell.row >= table.header_rows and cell.column]
    return any(is_figure(cell.text) for cell in body)


def _map_columns(one: DocumentTable, other: DocumentTable) -> tuple[int, ...] | None:
    """Return for each column of a table that of another at the same place; None if they are others."""
    places, others = _column_places(one), _column_places(other)
    if not MIN_COLUMNS * one.width <= len(others) <= one.width or len(others) < min(2, one.width):
        return None
    found: list[int] = []
    for place in others:
        start = found[-1] + 1 if found else 0
        same = (at for at in range(start, len(places)) if _is_same_place(places[at], place))
        if (at := next(same, None)) is None:
            return None
        found.append(at)
    return tuple(found)


def _column_places(table: DocumentTable) -> list[Rect | None]:
    """Return the rectangle of the cells of each column."""
    boxes: list[list[Rect]] = [[] for _ in range(table.width)]
    for cell in table.cells:
        if cell.columns == 1 and cell.box is not None and cell.text:
            boxes[cell.column].append(Rect(*cell.box.as_tuple()))
    return [around(rects) for rects in boxes]


def _is_same_place(one: Rect | None, other: Rect | None) -> bool:
    """Return whether two columns begin, end or have their middle at the same place."""
    if one is None or other is None:
        return False
    edges = (one.x1, other.x1), (one.x2, other.x2), ((one.x1 + one.x2) / 2, (other.x1 + other.x2) / 2)
    return any(abs(a - b) <= SAME_PLACE for a, b in edges)


def _begins_with_row(table: DocumentTable, page: PageText) -> bool:
    """Return whether a page begins with words at the places of several columns: a row that was not found."""
    body = [line for line in page.lines if not _is_margin_line(page.text[line.start : line.end], line.rect)]
    first = min(body, key=lambda line: line.rect.y1, default=None)
    if first is None:
        return False
    middle = (first.rect.y1 + first.rect.y2) / 2
    words = sorted(rect for _, _, rect in page.words if rect.y1 <= middle <= rect.y2)
    pieces: list[Rect] = []
    for rect in words:
        is_near = bool(pieces) and (rect.x1 - pieces[-1].x2) * page.aspect <= CELL_GAP * rect.height
        pieces[-1:] = [around([pieces[-1], rect]) or rect] if is_near else [*pieces[-1:], rect]
    places = _column_places(table)
    taken = {at for piece in pieces for at, place in enumerate(places) if _is_same_place(place, piece)}
    return len(pieces) > 1 and len(taken) >= len(pieces)


def _join(parts: Sequence[_TablePart], here: str) -> DocumentTable:
    """Return one table of several parts as the page with the id `here` has it: with its own heads, if any."""
    first = parts[0].table
    heads = next(part for part in parts if part.page.item.id == here)
    if not _repeats_heads(first, heads.table):
        heads = parts[0]
    offset = heads.table.header_rows
    cells = list(_move_rows(heads, range(offset), 0, first, here))
    sections: set[int] = set()
    for part in parts:
        table = part.table
        skipped = table.header_rows if _repeats_heads(first, table) else 0
        cells += _move_rows(part, range(skipped, table.height), offset - skipped, first, here)
        sections |= {row + offset - skipped for row in table.sections if row >= skipped}
        offset += table.height - skipped
    header_rows = heads.table.header_rows
    return replace(first, cells=tuple(cells), header_rows=header_rows, sections=frozenset(sections))


def _repeats_heads(first: DocumentTable, table: DocumentTable) -> bool:
    """Return whether the heads of a part are those of the whole table."""
    return table is first or _has_same_heads(first, table)


def _move_rows(
    part: _TablePart, rows: range, distance: int, first: DocumentTable, here: str
) -> Iterator[Cell]:
    """Yield the cells of some rows of a part at their places in the whole table."""
    is_first = part.table is first
    columns = range(first.width) if is_first else _map_columns(first, part.table) or ()
    item = "" if part.page.item.id == here else part.page.item.id
    for cell in part.table.cells:
        if cell.row in rows:
            yield _move(cell, distance, columns, item)


def _move(cell: Cell, rows: int, columns: Sequence[int], item: str) -> Cell:
    """Return a cell of a part at its place in the whole table."""
    last = columns[cell.column + cell.columns - 1]
    column = columns[cell.column]
    return replace(cell, row=cell.row + rows, column=column, columns=last - column + 1, item=item)
