"""What belongs to a question: what came before it, its pictures, and notices about the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.html import Markup, element
from vrag.render.text_format import count

if TYPE_CHECKING:
    from vrag.agent.question import PreviousTurn
    from vrag.render.run_page.figures import Figures
    from vrag.render.run_page.run_view import RunView

__all__ = ["attached_pictures", "earlier_exchanges", "setup_notices"]

OPEN = 3
"""Earlier questions that are seen at once; of more, only how many there are."""


def earlier_exchanges(run_view: RunView) -> Markup | None:
    """The conversation before the question, the oldest first; None where there is none."""
    history = run_view.started.history
    if not history:
        return None
    title = f"Follows on {count(len(history), 'earlier question')}"
    listed = element("ol", map(_exchange, history))
    if len(history) <= OPEN:
        return element("div", element("p", title, class_="aside"), listed, class_="history")
    return element("details", element("summary", title), listed, class_="history")


def attached_pictures(run_view: RunView, page_figures: Figures) -> Markup | None:
    """The pictures that came with the question; None where there is none."""
    attached = run_view.started.attached
    if not attached:
        return None
    names = [f"Picture {number} that came with the question" for number in range(1, len(attached) + 1)]
    drawn = (
        page_figures.bare(sha256, name, f"attached-{number}", name)
        for number, (sha256, name) in enumerate(zip(attached, names, strict=True), 1)
    )
    return element("div", drawn, class_="plates attached")


def setup_notices(run_view: RunView) -> Markup | None:
    """What people must know about how the run was set up; None where there is nothing."""
    notices = run_view.started.notices
    return element("div", (element("p", notice) for notice in notices), class_="notices") if notices else None


def _exchange(exchange: PreviousTurn) -> Markup:
    said = element("p", exchange.answer, dir="auto") if exchange.answer is not None else None
    return element(
        "li",
        element("p", exchange.question, class_="asked", dir="auto"),
        said or element("p", "There was no answer.", class_="aside"),
    )
