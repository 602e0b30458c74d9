"""`emblem_pair`: the pages of `emblem`, and questions that need two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.template import DocumentDraft, TemplateQuestion
from vrag.synthesis.templates.emblem import draw_emblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["EmblemPair"]


@dataclass(frozen=True, slots=True)
class EmblemPair:
    """Asks for the colours of two pages of a document, in the order of the question."""

    name: str = "emblem_pair"
    least_pages: int = 2

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name; each page and the next, in a ring, make a question."""
        colours = [supply.colour() for _ in names]
        drawn = [
            draw_emblem(name, supply.colours[colour]) for name, colour in zip(names, colours, strict=True)
        ]
        questions: list[TemplateQuestion] = []
        for one in range(len(names) if len(names) > 2 else 1):
            other = (one + 1) % len(names)
            query = f'colours of "{names[one]}" and "{names[other]}" ?'
            evidence = tuple((at + 1, drawn[at][1]) for at in (one, other))
            questions.append(TemplateQuestion(query, f"{colours[one]} {colours[other]}", evidence, "Figure"))
        return DocumentDraft([canvas for canvas, _ in drawn], questions)
