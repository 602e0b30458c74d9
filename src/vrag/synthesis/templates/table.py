"""`table`: an A4 page with a table of numbers, a row for each thing counted and a column for each year."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.template import DocumentDraft, TemplateQuestion
from vrag.synthesis.templates.report import LEFT, MEASURES, RIGHT, YEARS, draw_frame, some_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.geometry import Box
    from vrag.synthesis.canvas import Canvas
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["TableTemplate"]

ASKED = 2
"""Cells of a table that are asked for."""
TOP, ROW, COLUMN = 260.0, 44.0, 78.0
"""Points: the base line of the headings, the height of a row, the width of a column."""
STRIPE, GRID = (232, 238, 246), (150, 160, 175)


@dataclass(frozen=True, slots=True)
class TableTemplate:
    """Asks for the cell where a row and a column meet."""

    name: str = "table"
    least_pages: int = 1

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name, and two questions for each page."""
        canvases: list[Canvas] = []
        questions: list[TemplateQuestion] = []
        for page, name in enumerate(names, 1):
            canvas = draw_frame(name.title, [f"The table gives what {name.title} counted, year by year."])
            values = some_numbers(supply.chance, len(MEASURES) * len(YEARS))
            cells = _draw(canvas, values)
            canvases.append(canvas)
            asked = {
                (supply.deal("measure", MEASURES), supply.deal("year", YEARS)): None for _ in range(ASKED)
            }
            for measure, year in asked:
                value, box = cells[measure, year]
                query = f"How many {measure} did {name.title} count in {year}?"
                questions.append(TemplateQuestion(query, value, ((page, box),), "Table"))
        return DocumentDraft(canvases, questions)


def _draw(canvas: Canvas, values: Sequence[str]) -> dict[tuple[str, str], tuple[str, Box]]:
    """Draws the table; each cell's value and place by its row and column."""
    for column, year in enumerate(YEARS):
        canvas.write(_end(column), TOP, year, 15, bold=True, end=True)
    canvas.fill(LEFT, TOP + 10, RIGHT, TOP + 11, GRID)
    cells: dict[tuple[str, str], tuple[str, Box]] = {}
    left = iter(values)
    for row, measure in enumerate(MEASURES):
        y = TOP + ROW * (row + 1)
        if row % 2:
            canvas.fill(LEFT, y - 28, RIGHT, y + 14, STRIPE)
        canvas.write(LEFT + 4, y, measure, 15)
        for column, year in enumerate(YEARS):
            value = next(left)
            cells[measure, year] = value, canvas.write(_end(column), y, value, 15, end=True)
    return cells


def _end(column: int) -> float:
    """Where the numbers of a column end."""
    return RIGHT - 6 - COLUMN * (len(YEARS) - 1 - column)
