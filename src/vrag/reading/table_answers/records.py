"""The body of a table as records: its rows with their columns, or its columns with their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vrag.reading.table_answers.values import (
    CellValue,
    Quantity,
    expand_season,
    find_quantities,
    parse_cell,
)
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.text.numerals import UNKNOWN_STYLE, NumberStyle
from vrag.text.terms import tokens

MAX_COLUMNS = 40
"""Columns of a table that are looked at."""
MAX_RECORDS = 5000
"""Rows of a table that are looked at."""
_EMPTY = CellValue()
_TOTALS = frozenset("total totals sum average overall mean all 合计 总计 小计 共计 平均".split())


@dataclass(frozen=True, slots=True, eq=False)
class GridColumn:
    """One attribute of the records: a column of the table, or a row where columns are the records."""

    index: int
    """Its place among the columns of the grid."""
    name: str
    heads: tuple[Cell, ...]
    terms: tuple[str, ...]
    """Terms of its heads."""
    cells: tuple[Cell | None, ...]
    """One for each record."""
    texts: tuple[str, ...]
    values: tuple[CellValue, ...]
    positions: NDArray[np.float64]
    """Values by which the column orders the records; nan where the cell has none."""
    numeric: float
    """Share of the filled cells that are numbers."""
    dated: float
    """Share of the filled cells that are dates or years."""
    leads: float
    """Share of the filled cells that begin with a number and go on."""
    distinct: float
    """Share of distinct texts among the filled cells."""
    filled: float
    is_head: bool = False
    """True if it holds the heads of the records."""
    members: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The records of each text, folded."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordGrid:
    """Records and their attributes."""

    table: DocumentTable
    columns: tuple[GridColumn, ...]
    size: int
    """Number of records."""
    across: bool
    """True if the records are columns of the table."""
    totals: frozenset[int]
    """Records that sum up others."""
    vocabulary: dict[str, int]
    """For each term, the number of cells and heads that have it."""


def make_column(
    index: int,
    heads: tuple[Cell, ...],
    cells: Sequence[Cell | None],
    *,
    is_head: bool = False,
    name: str = "",
    style: NumberStyle = UNKNOWN_STYLE,
) -> GridColumn:
    """Parse the cells of an attribute."""
    texts = tuple(cell.text if cell else "" for cell in cells)
    values = tuple(parse_cell(text, style) if text else _EMPTY for text in texts)
    name = name or " ".join(head.text for head in heads)
    filled = [value for text, value in zip(texts, values, strict=True) if text.strip(" -–—")]
    count = max(len(filled), 1)
    folded = [fold(text) for text in texts]
    members: dict[str, list[int]] = {}
    for record, text in enumerate(folded):
        if text:
            members.setdefault(text, []).append(record)
    years = sum(value.whole and value.number is not None and is_year(value.number) for value in filled)
    return GridColumn(
        index=index,
        name=name,
        heads=heads,
        terms=cell_terms(name),
        cells=tuple(cells),
        texts=texts,
        values=values,
        positions=np.asarray([value.position for value in values], np.float64),
        numeric=sum(value.whole for value in filled) / count,
        dated=(sum(value.day is not None or value.clock is not None for value in filled) + years) / count,
        leads=sum(value.number is not None and not value.whole for value in filled) / count,
        distinct=len(members) / count,
        filled=len(filled) / max(len(texts), 1),
        is_head=is_head,
        members={text: tuple(records) for text, records in members.items()},
    )


@lru_cache(maxsize=65_536)
def cell_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a cell; both years of a season such as 1999-00."""
    return tuple(token.term for token in tokens(expand_season(text[:400])))


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """Return a text without case and outer spaces and dashes that stand for nothing."""
    folded = " ".join(text.casefold().split())
    return "" if folded in {"-", "–", "—", "n/a"} else folded


@lru_cache(maxsize=1024)
def head_quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers of a head, such as the years of a range."""
    return tuple(find_quantities(text))


def is_year(number: Decimal) -> bool:
    """Return whether a number may be a year."""
    return number == int(number) and 1400 <= number <= 2100


@lru_cache(maxsize=8)
def read_grid(table: DocumentTable) -> RecordGrid:
    """Return the rows of a table as records."""
    rows = [r for r in range(table.header_rows, table.height) if r not in table.sections][:MAX_RECORDS]
    width = min(table.width, MAX_COLUMNS)
    columns = [
        make_column(
            column,
            table.column_heads(column),
            [table.cell_at(row, column) for row in rows],
            is_head=column < table.header_columns,
            style=table.number_style,
        )
        for column in range(width)
    ]
    if table.sections or table.header_columns > 1:
        paths = [table.row_heads(row) for row in rows]
        cells = [
            Cell(row=row, column=width, text=" ".join(head.text for head in path))
            for row, path in zip(rows, paths, strict=True)
        ]
        columns.append(make_column(width, (), cells, is_head=True))
    return _grid(table, columns, len(rows), across=False)


@lru_cache(maxsize=8)
def read_transposed(table: DocumentTable) -> RecordGrid | None:
    """Return the columns of a table as records; None if its rows have no heads or it is too long."""
    rows = [r for r in range(table.header_rows, table.height) if r not in table.sections]
    inner = range(table.header_columns, min(table.width, MAX_COLUMNS))
    if not table.header_columns or not table.header_rows or len(rows) > 60 or not inner:
        return None
    tops = [table.column_heads(column) for column in inner]
    columns = _head_columns(table, inner)
    for row in rows:
        path = table.row_heads(row)
        cells = [table.cell_at(row, column) for column in inner]
        columns.append(make_column(len(columns), path, cells, style=table.number_style))
    if any(len(top) > 1 for top in tops):
        joined = [
            Cell(row=0, column=column, text=" ".join(head.text for head in top))
            for column, top in zip(inner, tops, strict=True)
        ]
        columns.append(make_column(len(columns), (), joined, is_head=True))
    return _grid(table, columns, len(inner), across=True)


def _head_columns(table: DocumentTable, inner: range) -> list[GridColumn]:
    """Return the rows of heads as attributes, those that tell the columns apart best first."""
    levels = [[table.cell_at(row, column) for column in inner] for row in range(table.header_rows)]
    levels = [cells for cells in reversed(levels) if any(cell and cell.text for cell in cells)]
    levels.sort(key=lambda cells: -len({cell.text for cell in cells if cell}))
    return [make_column(number, (), cells, is_head=True) for number, cells in enumerate(levels)]


def _grid(table: DocumentTable, columns: Sequence[GridColumn], size: int, *, across: bool) -> RecordGrid:
    vocabulary: Counter[str] = Counter()
    totals: set[int] = set()
    for column in columns:
        vocabulary.update(set(column.terms))
        for text in set(column.texts[:400]):
            vocabulary.update(set(cell_terms(text)))
    for column in columns[:2]:
        totals |= {
            record
            for record, text in enumerate(column.texts)
            if fold(text).split(" ")[0].strip(":") in _TOTALS
        }
    return RecordGrid(table, tuple(columns), size, across, frozenset(totals), dict(vocabulary))
