"""Tables: cells in rows and columns, with their heads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.text.numerals import UNKNOWN_STYLE, NumberStyle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.geometry import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a table, which may span several rows and columns."""

    row: int
    """Number of its first row, from 0."""
    column: int
    """Number of its first column, from 0."""
    rows: int = 1
    """Rows that it spans."""
    columns: int = 1
    """Columns that it spans."""
    text: str = ""
    """Its words, with single spaces; footnote marks are left out."""
    box: Box | None = None
    """The rectangle around its words, in `Space.UNIT`; None without a picture or without words."""
    span: tuple[int, int] | None = None
    """Where it stands in the text of its item; None where only its box is known."""
    item: str = ""
    """Id of the page that it stands on where that is another page than the one of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTable:
    """A table of a page or of a file.

    Raises `ValueError` if two cells cover the same place.
    """

    cells: tuple[Cell, ...]
    """The cells by row and column. Places that no cell covers are empty."""
    header_rows: int = 0
    """Rows at the top that hold the heads of columns."""
    header_columns: int = 0
    """Columns at the left that hold the heads of rows."""
    sections: frozenset[int] = frozenset()
    """Rows in the body that are heads of the rows below them, down to the next one."""
    caption: str = ""
    """The caption and the lines about units that stand beside the table."""
    measure_note: str = ""
    """A line above that states the scale or the currency of its numbers, where the caption does not."""
    box: Box | None = None
    """The rectangle around the table, in `Space.UNIT`; None without a picture."""
    is_part: bool = False
    """True if other items have more rows of it, so that nothing can be counted or added up."""
    chart: str = ""
    """The kind of the chart whose labels and printed numbers it has: "bar chart"; empty for a table."""
    number_style: NumberStyle = UNKNOWN_STYLE
    """The way in which its document writes numbers."""
    _places: dict[tuple[int, int], Cell] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[tuple[int, int], Cell] = {}
        for cell in self.cells:
            for row in range(cell.row, cell.row + cell.rows):
                for column in range(cell.column, cell.column + cell.columns):
                    if places.setdefault((row, column), cell) is not cell:
                        raise ValueError(f"two cells cover row {row}, column {column}")
        object.__setattr__(self, "_places", places)

    @property
    def height(self) -> int:
        """Number of rows."""
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def width(self) -> int:
        """Number of columns."""
        return max((cell.column + cell.columns for cell in self.cells), default=0)

    def cell_at(self, row: int, column: int) -> Cell | None:
        """Return the cell that covers a place; None if the place is empty."""
        return self._places.get((row, column))

    def column_heads(self, column: int) -> tuple[Cell, ...]:
        """Return the heads of a column, outermost first; a cell that spans several rows stands once."""
        return self._distinct((row, column) for row in range(self.header_rows))

    def row_heads(self, row: int) -> tuple[Cell, ...]:
        """Return the heads of a row, outermost first: of its section, then those at its left."""
        section = max((number for number in self.sections if number < row), default=None)
        above = [] if section is None else [(section, column) for column in range(self.width)]
        return self._distinct([*above, *((row, column) for column in range(self.header_columns))])

    def _distinct(self, places: Iterable[tuple[int, int]]) -> tuple[Cell, ...]:
        found = (self._places.get(place) for place in places)
        return tuple(dict.fromkeys(cell for cell in found if cell is not None and cell.text))
