"""Charts as tables: labels, printed numbers and series with their places, and the proof that they agree.

A number is tied to a bar, a point or a slice only where the drawing agrees with it: lengths of bars, heights
of points and areas of slices are in the proportions of all numbers of the chart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from vrag.geometry import Box
from vrag.reading.table_answers.values import parse_cell
from vrag.reading.tables.captions import find_caption
from vrag.reading.tables.grid import Area
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.tables.text_pieces import Piece, StraightWords, make_piece, split_pieces, word_text

if TYPE_CHECKING:
    from vrag.reading.charts.drawn_parts import DrawnPart

MIN_NUMBERS = 3
"""Printed numbers of a chart below which nothing proves that they belong to its marks."""
TITLE = 1.15
"""Height of a title above a chart, in heights of its labels."""
TOP = 0.15
"""Share of the height of a slide at whose top its title stands."""
LEGEND_GAP, LEGEND_SIZE = 2.0, 2.5
"""Space between a swatch and its name, and the largest swatch, in heights of the name."""
MAX_LABEL_CHARS = 80
_PERCENTAGE = re.compile(r"\(?\d[\d.,]*[%％]\)?")
_UNITED = re.compile(r"[-+−–]?\s?(?:US\$|[$€£¥])?\s?\d[\d.,'’\s]*(?:[%％]|[kKmMbB]n?|million|billion)?")


@dataclass(frozen=True, slots=True)
class ChartNumber:
    """A printed number of a chart."""

    piece: Piece
    value: Decimal
    unit: str


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A label of a chart with a number for each series."""

    label: tuple[Piece, ...]
    """Its lines."""
    numbers: tuple[ChartNumber, ...]

    @property
    def text(self) -> str:
        """The label in one line."""
        return " ".join(piece.text for piece in self.label)


@dataclass(frozen=True, slots=True)
class PrintedChart:
    """A chart whose numbers belong to its labels."""

    kind: str
    """"bar chart", "pie chart", or "chart" for points."""
    rows: tuple[ChartRow, ...]
    series: tuple[Piece, ...] = ()
    """The names of the series in a legend; empty for one series."""
    drawn: tuple[DrawnPart, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ChartWords:
    """The words of a page that belong to no table, as pieces of lines."""

    page: StraightWords
    rows: tuple[tuple[Piece, ...], ...]
    numbers: tuple[ChartNumber, ...]
    labels: tuple[Piece, ...]
    """All pieces that may be labels; years are numbers too."""

    @classmethod
    def of(cls, page: StraightWords) -> ChartWords:
        """Divide the words of a page; figures beside each other are numbers of their own."""
        rows = [
            tuple(part for piece in row for part in _split_figures(page, piece))
            for row in split_pieces(page, range(len(page.numbers)))
        ]
        pieces = [piece for row in rows for piece in row]
        read = [number for piece in pieces if (number := read_number(piece))]
        labels = tuple(piece for piece in pieces if len(piece.text) <= MAX_LABEL_CHARS)
        return cls(page, tuple(rows), tuple(read), labels)


def _split_figures(page: StraightWords, piece: Piece) -> list[Piece]:
    """Return the figures of a piece that is nothing else, or a text and the percentage behind it."""
    texts = [word_text(page, word) for word in piece.words]
    if len(texts) > 1 and all(text[:1].isdigit() for text in texts):
        return [make_piece(page, [word]) for word in piece.words]
    if len(texts) > 1 and _PERCENTAGE.fullmatch(texts[-1]):
        return [make_piece(page, piece.words[:-1]), make_piece(page, piece.words[-1:])]
    return [piece]


def read_number(piece: Piece) -> ChartNumber | None:
    """Return the number that a piece is; None for any other text, and below zero."""
    text = piece.text.strip()
    text = text.strip("()") if _PERCENTAGE.fullmatch(text) else text
    if not _UNITED.fullmatch(text):
        return None
    value = parse_cell(text)
    if value.number is None or not value.whole or value.number < 0:
        return None
    return ChartNumber(piece, value.number, value.unit)


def are_alike(numbers: Sequence[ChartNumber]) -> bool:
    """Return whether numbers may be those of one chart: in one unit, and not all the same."""
    return len({number.unit for number in numbers}) == 1 and len({number.value for number in numbers}) > 1


def measure_misfit(sizes: Sequence[float], values: Sequence[Decimal | int], *, from_zero: bool) -> float:
    """Return how far sizes are from the proportions of values, the worst one, in units of the sizes.

    With `from_zero` a size of nothing stands for zero, else for any number.

    >>> round(measure_misfit([10, 20, 40], [1, 2, 4], from_zero=True), 6)
    0.0
    >>> measure_misfit([10, 20, 40], [4, 2, 1], from_zero=False) > 5
    True
    """
    columns = [np.asarray(values, np.float64)]
    columns += [] if from_zero else [np.ones(len(values))]
    matrix = np.stack(columns, axis=1)
    measured = np.asarray(sizes, np.float64)
    solution, *_ = np.linalg.lstsq(matrix, measured, rcond=None)
    if solution[0] <= 0:
        return float("inf")
    return float(np.abs(matrix @ solution - measured).max())


def find_legend(words: ChartWords, parts: Iterable[DrawnPart], colors: Iterable[int]) -> dict[int, Piece]:
    """Return the name of each colour where exactly one swatch of it has a name at its right; else nothing."""
    wanted = set(colors)
    names: dict[int, list[Piece]] = {color: [] for color in wanted}
    for part in parts:
        if part.color in wanted and (name := _find_name(words, part)):
            names[part.color].append(name)
    found = {color: pieces[0] for color, pieces in names.items() if len(pieces) == 1}
    is_whole = len(found) == len(wanted) and len({piece.text for piece in found.values()}) == len(wanted)
    return found if is_whole else {}


def _find_name(words: ChartWords, part: DrawnPart) -> Piece | None:
    rect, middle = part.rect, (part.rect.y1 + part.rect.y2) / 2
    for piece in words.labels:
        is_beside = 0 <= piece.x1 - rect.x2 <= LEGEND_GAP * piece.height
        is_small = max(rect.height, rect.width / 2) <= LEGEND_SIZE * piece.height
        if is_beside and is_small and abs(piece.middle - middle) <= 0.5 * piece.height:
            return piece
    return None


def build_table(words: ChartWords, chart: PrintedChart) -> DocumentTable:
    """Return a chart as a table: a row for each label, a column for each series or one below the title."""
    used = {word for row in chart.rows for piece in row.label for word in piece.words}
    used |= {word for row in chart.rows for number in row.numbers for word in number.piece.words}
    used |= {word for piece in chart.series for word in piece.words}
    pieces = [piece for row in words.rows for piece in row if not used.isdisjoint(piece.words)]
    sides = [(piece.x1, piece.y1, piece.x2, piece.y2) for piece in pieces]
    sides += [part.rect for part in chart.drawn]
    corners = np.asarray(sides, np.float64)
    area = Area(*corners[:, :2].min(axis=0).tolist(), *corners[:, 2:].max(axis=0).tolist())
    free = [[piece for piece in row if used.isdisjoint(piece.words)] for row in words.rows]
    caption = find_caption(area, [row for row in free if row], words.page.line_height)
    title = _find_title(words, area, pieces)
    heads = [(piece,) for piece in chart.series] or [title]
    cells = [_make_cell(words, 0, column, head) for column, head in enumerate(heads, start=1) if head]
    for number, row in enumerate(chart.rows, start=1):
        cells.append(_make_cell(words, number, 0, row.label))
        cells += (
            _make_cell(words, number, column, [value.piece])
            for column, value in enumerate(row.numbers, start=1)
        )
    titled = " ".join(piece.text for piece in title)
    return DocumentTable(
        cells=tuple(cells),
        header_rows=1,
        header_columns=1,
        caption=caption if titled in caption else f"{titled} {caption}".strip(),
        box=_box(words.page, area),
        chart=chart.kind,
    )


def _find_title(words: ChartWords, area: Area, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return the lines of the nearest title above a chart: text that is larger than its labels."""
    height = float(np.median([piece.height for piece in pieces]))
    lines = [
        piece
        for row in words.rows
        for piece in row
        if piece.y2 <= area.y1 + 0.5 * height and piece.height >= TITLE * height and not read_number(piece)
    ]
    above = [piece for piece in lines if piece.x1 < area.x2 and area.x1 < piece.x2] or lines
    if not above:
        return _find_title_of_slide(words)
    last = max(above, key=lambda piece: piece.y2)
    return tuple(
        piece
        for piece in above
        if piece is last
        or (
            0 < last.y1 - piece.y1 <= 1.6 * last.height
            and abs(piece.height - last.height) < 0.2 * last.height
        )
    )


def _find_title_of_slide(words: ChartWords) -> tuple[Piece, ...]:
    """Return the line at the top of a page that is wider than high; nothing for others."""
    page = words.page
    first = words.rows[0] if words.rows and page.width > page.height else ()
    is_title = len(first) == 1 and first[0].y2 <= TOP * page.height and not read_number(first[0])
    return first if is_title else ()


def _make_cell(words: ChartWords, row: int, column: int, pieces: Sequence[Piece]) -> Cell:
    boxes = np.asarray(words.page.boxes[[word for piece in pieces for word in piece.words]])
    area = Area(*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist())
    text = " ".join(piece.text for piece in pieces)
    return Cell(row=row, column=column, text=text, box=_box(words.page, area))


def _box(page: StraightWords, area: Area) -> Box:
    sides = area.x1 / page.width, area.y1 / page.height, area.x2 / page.width, area.y2 / page.height
    return Box.unit(*(min(max(side, 0.0), 1.0) for side in sides))
