"""`key_figure`: an A4 page with three large numbers, each above what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.geometry import Box
from vrag.synthesis.template import DocumentDraft, TemplateQuestion
from vrag.synthesis.templates.report import LEFT, MEASURES, draw_frame, some_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.synthesis.canvas import Canvas
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["KeyFigure"]

ASKED, SHOWN = 2, 3
"""How many of the numbers on a page are asked for, and how many there are."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """Asks for a number that stands large on one page."""

    name: str = "key_figure"
    least_pages: int = 1

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name, and two questions for each page."""
        canvases: list[Canvas] = []
        questions: list[TemplateQuestion] = []
        for page, name in enumerate(names, 1):
            canvas = draw_frame(name.title, [f"{name.title} at a glance: the figures of the year."])
            asked = [supply.deal("measure", MEASURES) for _ in range(ASKED)]
            canvases.append(canvas)
            questions += _questions(canvas, page, name, tuple(dict.fromkeys(asked)), supply)
        return DocumentDraft(canvases, questions)


def _questions(
    canvas: Canvas, page: int, name: Name, asked: Sequence[str], supply: Supply
) -> list[TemplateQuestion]:
    others = [measure for measure in MEASURES if measure not in asked]
    shown = [*asked, *supply.chance.sample(others, SHOWN - len(asked))]
    made: list[TemplateQuestion] = []
    spots = supply.chance.sample(range(SHOWN), SHOWN)
    for spot, measure, value in zip(spots, shown, some_numbers(supply.chance, SHOWN), strict=True):
        y = 300 + 170 * spot
        number = canvas.write(LEFT, y, value, 60, bold=True)
        label = canvas.write(LEFT, y + 30, measure, 18)
        if measure in asked:
            query = f"How many {measure} did {name.title} count?"
            made.append(TemplateQuestion(query, value, ((page, Box.around([number, label])),), "Text"))
    return made
