"""Templates `emblem` and `emblem_pair`: a title of two words above a block of colour.

They are for models that see 64 × 64 pixels. The text layer holds the title alone, so that a search finds the
page and only its pixels answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.synthesis.canvas import Canvas
from vrag.synthesis.template import DocumentDraft, PageTemplate, TemplateQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.geometry import Box
    from vrag.synthesis.canvas import Colour
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

SIDE = 300.0
"""Points; the page is a square, so that every model sees it unstretched."""
TITLE_SHARE = 0.15


def draw_emblem(name: Name, colour: Colour) -> tuple[Canvas, Box]:
    """Draw a page; return it and its block, in fractions of the page."""
    canvas = Canvas(SIDE, SIDE)
    canvas.write(12, SIDE * TITLE_SHARE * 0.68, str(name), 28, bold=True)
    return canvas, canvas.fill(0, SIDE * TITLE_SHARE, SIDE, SIDE, colour)


class Emblem(PageTemplate):
    """Asks for the colour of one page."""

    name = "emblem"

    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page and ask for its colour."""
        colour = supply.colour()
        canvas, block = draw_emblem(name, supply.colours[colour])
        return canvas, [TemplateQuestion(f'colour of "{name}" ?', colour, ((page, block),), "Figure")]


class EmblemPair:
    """Asks for the colours of two pages of a document, in the order of the question."""

    name = "emblem_pair"
    least_pages = 2

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name; each page and the next, in a ring, make a question."""
        colours = [supply.colour() for _ in names]
        pages = [
            draw_emblem(name, supply.colours[colour]) for name, colour in zip(names, colours, strict=True)
        ]
        questions: list[TemplateQuestion] = []
        for first in range(len(names) if len(names) > 2 else 1):
            second = (first + 1) % len(names)
            query = f'colours of "{names[first]}" and "{names[second]}" ?'
            evidence = tuple((number + 1, pages[number][1]) for number in (first, second))
            answer = f"{colours[first]} {colours[second]}"
            questions.append(TemplateQuestion(query, answer, evidence, "Figure"))
        return DocumentDraft([canvas for canvas, _ in pages], questions)
