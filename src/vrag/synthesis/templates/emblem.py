"""`emblem`: a title of two words above a block of colour, for models that see 64 × 64 pixels.

The text layer holds the title alone, so that a search finds the page and only its pixels answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.canvas import Canvas
from vrag.synthesis.template import DocumentDraft, TemplateQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.geometry import Box
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["Emblem", "draw_emblem"]

SIDE = 300.0
"""Points; the page is a square, so that every model sees it unstretched."""
TITLE_SHARE = 0.15


def draw_emblem(name: Name, colour: tuple[int, int, int]) -> tuple[Canvas, Box]:
    """A page and the place of its block.

    Returns:
        The page, and the block in fractions of it.
    """
    canvas = Canvas(SIDE, SIDE)
    canvas.write(12, SIDE * TITLE_SHARE * 0.68, str(name), 28, bold=True)
    return canvas, canvas.fill(0, SIDE * TITLE_SHARE, SIDE, SIDE, colour)


@dataclass(frozen=True, slots=True)
class Emblem:
    """Asks for the colour of one page."""

    name: str = "emblem"
    least_pages: int = 1

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name, and one question for each page."""
        canvases: list[Canvas] = []
        questions: list[TemplateQuestion] = []
        for page, name in enumerate(names, 1):
            colour = supply.colour()
            canvas, block = draw_emblem(name, supply.colours[colour])
            canvases.append(canvas)
            questions.append(TemplateQuestion(f'colour of "{name}" ?', colour, ((page, block),), "Figure"))
        return DocumentDraft(canvases, questions)
