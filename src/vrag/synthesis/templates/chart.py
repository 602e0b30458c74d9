"""`chart`: an A4 page with a bar chart. No value is written: it is read from a bar's height.

Each bar ends at a line of the grid, so that there is one right answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.template import DocumentDraft, TemplateQuestion
from vrag.synthesis.templates.report import LEFT, MEASURES, MONTHS, RIGHT, draw_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.geometry import Box
    from vrag.synthesis.canvas import Canvas
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["Chart"]

FOOT, STEP = 660.0, 40.0
"""Points: where the bars stand, and how far apart the lines of the grid are."""
LINES = 10
UNIT = 10
"""What one line of the grid stands for."""
GRID, BAR = (190, 195, 205), (200, 90, 20)


@dataclass(frozen=True, slots=True)
class Chart:
    """Asks for the height of a bar, and for the highest."""

    name: str = "chart"
    least_pages: int = 1

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name, and two questions for each page."""
        canvases: list[Canvas] = []
        questions: list[TemplateQuestion] = []
        for page, name in enumerate(names, 1):
            measure, month = supply.deal("measure", MEASURES), supply.deal("month", MONTHS)
            highest = supply.deal("highest month", MONTHS)
            heights = _heights(highest, supply)
            canvas = draw_frame(name.title, [f"Number of {measure} in the first half of the year, by month."])
            bars = _draw(canvas, heights)
            canvases.append(canvas)
            value = str(heights[month] * UNIT)
            one = f"According to the bar chart, how many {measure} did {name.title} count in {month}?"
            top = f"In which month did {name.title} count the most {measure}?"
            questions.append(TemplateQuestion(one, value, ((page, bars[month]),), "Chart"))
            questions.append(TemplateQuestion(top, highest, ((page, bars[highest]),), "Chart"))
        return DocumentDraft(canvases, questions)


def _heights(highest: str, supply: Supply) -> Mapping[str, int]:
    """Heights of the bars in lines of the grid; all different."""
    *others, most = sorted(supply.chance.sample(range(1, LINES + 1), len(MONTHS)))
    supply.chance.shuffle(others)
    left = iter(others)
    return {month: most if month == highest else next(left) for month in MONTHS}


def _draw(canvas: Canvas, heights: Mapping[str, int]) -> dict[str, Box]:
    """Draws the chart; the place of each bar by its month."""
    for line in range(LINES + 1):
        y = FOOT - line * STEP
        canvas.fill(LEFT + 34, y - 0.5, RIGHT, y + 0.5, GRID)
        canvas.write(LEFT + 26, y + 4, str(line * UNIT), 12, end=True)
    wide = (RIGHT - LEFT - 34) / len(heights)
    bars: dict[str, Box] = {}
    for at, (month, height) in enumerate(heights.items()):
        x = LEFT + 34 + at * wide
        bars[month] = canvas.fill(x + wide * 0.2, FOOT - height * STEP, x + wide * 0.8, FOOT, BAR)
        canvas.write(x + wide * 0.12, FOOT + 24, month, 12)
    return bars
