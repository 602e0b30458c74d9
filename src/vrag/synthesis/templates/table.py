"""`table`: an A4 page with a table of numbers, a row for each thing counted and a column for each year."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.template import Draft, Question
from vrag.synthesis.templates.report import LEFT, MEASURES, RIGHT, YEARS, draw_frame, some_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.geometry import Box
    from vrag.synthesis.deck import Name
    from vrag.synthesis.sheet import Sheet
    from vrag.synthesis.template import Supply

__all__ = ["Table"]

ASKED = 2
"""Cells of a table that are asked for."""
TOP, ROW, COLUMN = 260.0, 44.0, 78.0
"""Points: the base line of the headings, the height of a row, the width of a column."""
STRIPE, GRID = (232, 238, 246), (150, 160, 175)


@dataclass(frozen=True, slots=True)
class Table:
    """Asks for the cell where a row and a column meet."""

    name: str = "table"
    least_pages: int = 1

    def draft(self, names: Sequence[Name], supply: Supply) -> Draft:
        """Makes a document of one page for each name, and two questions for each page."""
        sheets: list[Sheet] = []
        questions: list[Question] = []
        for page, name in enumerate(names, 1):
            sheet = draw_frame(name.title, [f"The table gives what {name.title} counted, year by year."])
            values = some_numbers(supply.chance, len(MEASURES) * len(YEARS))
            cells = _draw(sheet, values)
            sheets.append(sheet)
            asked = {
                (supply.deal("measure", MEASURES), supply.deal("year", YEARS)): None for _ in range(ASKED)
            }
            for measure, year in asked:
                value, box = cells[measure, year]
                query = f"How many {measure} did {name.title} count in {year}?"
                questions.append(Question(query, value, ((page, box),), "Table"))
        return Draft(sheets, questions)


def _draw(sheet: Sheet, values: Sequence[str]) -> dict[tuple[str, str], tuple[str, Box]]:
    """Draws the table; each cell's value and place by its row and column."""
    for column, year in enumerate(YEARS):
        sheet.write(_end(column), TOP, year, 15, bold=True, end=True)
    sheet.fill(LEFT, TOP + 10, RIGHT, TOP + 11, GRID)
    cells: dict[tuple[str, str], tuple[str, Box]] = {}
    left = iter(values)
    for row, measure in enumerate(MEASURES):
        y = TOP + ROW * (row + 1)
        if row % 2:
            sheet.fill(LEFT, y - 28, RIGHT, y + 14, STRIPE)
        sheet.write(LEFT + 4, y, measure, 15)
        for column, year in enumerate(YEARS):
            value = next(left)
            cells[measure, year] = value, sheet.write(_end(column), y, value, 15, end=True)
    return cells


def _end(column: int) -> float:
    """Where the numbers of a column end."""
    return RIGHT - 6 - COLUMN * (len(YEARS) - 1 - column)
