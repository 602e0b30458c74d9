"""`multi_hop`: one page names a partner, and the partner's page tells its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.synthesis.template import DocumentDraft, TemplateQuestion
from vrag.synthesis.templates.report import LEFT, MEASURES, draw_frame, some_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.geometry import Box
    from vrag.synthesis.canvas import Canvas
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.template import Supply

__all__ = ["MultiHop"]

ROLES = ("supplier", "landlord", "insurer", "builder", "printer", "carrier")


@dataclass(frozen=True, slots=True)
class _PartnerPage:
    """A page as drawn, and what questions need of it."""

    canvas: Canvas
    role: str
    """What the partner is to this page's house."""
    partner: Box
    """Where the partner is named."""
    measure: str
    value: str
    number: Box


@dataclass(frozen=True, slots=True)
class MultiHop:
    """Asks for a number of a partner that is named on another page."""

    name: str = "multi_hop"
    least_pages: int = 2

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name; each page's partner is the next, in a ring."""
        partners = [*names[1:], names[0]]
        values = some_numbers(supply.chance, len(names))
        pages = [
            _draw(name, partner, value, supply)
            for name, partner, value in zip(names, partners, values, strict=True)
        ]
        questions: list[TemplateQuestion] = []
        for at, (name, page) in enumerate(zip(names, pages, strict=True)):
            other = (at + 1) % len(names)
            told = pages[other]
            query = f"How many {told.measure} did the {page.role} of {name.title} count?"
            evidence = ((at + 1, page.partner), (other + 1, told.number))
            questions.append(TemplateQuestion(query, told.value, evidence, "Text"))
        return DocumentDraft([page.canvas for page in pages], questions)


def _draw(name: Name, partner: Name, value: str, supply: Supply) -> _PartnerPage:
    role, measure = supply.deal("role", ROLES), supply.deal("measure", MEASURES)
    canvas = draw_frame(name.title, [f"{name.title} works with others in the town."])
    named = canvas.write(LEFT, 240, f"Its {role} is {partner.title}.", 18)
    canvas.write(LEFT, 420, f"{name.title} counted this many {measure}:", 18)
    return _PartnerPage(canvas, role, named, measure, value, canvas.write(LEFT, 500, value, 60, bold=True))
