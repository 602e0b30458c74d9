"""The cells of a found table before their texts are made, for tables with ruling lines and without."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Area(NamedTuple):
    """A rectangle in pixels of the page, set straight."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """A cell: the place it takes, and its words."""

    row: int
    column: int
    rows: int = 1
    columns: int = 1
    words: tuple[int, ...] = ()
    """Indices of its words in the text of the page, in reading order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cells of one table."""

    cells: tuple[GridCell, ...]
    area: Area
    ruled_below: frozenset[int] = frozenset()
    """Rows with a horizontal rule below them."""
    ruled: bool = False
    """True if rules surround its cells."""

    @property
    def height(self) -> int:
        """Number of rows."""
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def width(self) -> int:
        """Number of columns."""
        return max((cell.column + cell.columns for cell in self.cells), default=0)


def without_empty_places(grid: Grid) -> Grid:
    """Return the grid without rows and columns in which no cell with words begins and ends."""
    rows = _kept(((cell.row, cell.rows) for cell in grid.cells if cell.words), grid.height)
    columns = _kept(((cell.column, cell.columns) for cell in grid.cells if cell.words), grid.width)
    cells: list[GridCell] = []
    for cell in grid.cells:
        row, bottom = rows[cell.row], rows[cell.row + cell.rows]
        column, right = columns[cell.column], columns[cell.column + cell.columns]
        if cell.words and bottom > row and right > column:
            cells.append(replace(cell, row=row, column=column, rows=bottom - row, columns=right - column))
    below = {rows[row + 1] - 1 for row in grid.ruled_below if row < grid.height}
    return replace(grid, cells=tuple(cells), ruled_below=frozenset(row for row in below if row >= 0))


def _kept(spans: Iterable[tuple[int, int]], count: int) -> list[int]:
    """Number the places that are needed: those that a cell of one place fills, or that alone make a span."""
    spans = list(spans)
    full = {start for start, length in spans if length == 1}
    for start, length in sorted(spans, key=lambda span: span[1]):
        if not any(place in full for place in range(start, start + length)):
            full.add(start)
    numbers = [0]
    for place in range(count):
        numbers.append(numbers[-1] + (place in full))
    return numbers


def connect(count: int, links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected parts of a graph of numbered nodes, each with its nodes in order."""
    sparse: Any = importlib.import_module("scipy.sparse")
    csgraph: Any = importlib.import_module("scipy.sparse.csgraph")
    ends = np.asarray(links, dtype=np.int64).reshape(-1, 2)
    graph = sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    labels: list[int] = csgraph.connected_components(graph, directed=False)[1].tolist()
    parts: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        parts.setdefault(label, []).append(node)
    return list(parts.values())


def cluster(values: Iterable[float], tolerance: float) -> list[float]:
    """Return the means of values that lie close together, ascending."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= tolerance:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]
