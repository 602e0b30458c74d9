"""The memory graph as a picture file that stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.drawing.graph import draw_graph
from vrag.render.html import stylesheet
from vrag.render.page_head import css
from vrag.render.run_page.image_store import ImageStore

if TYPE_CHECKING:
    from vrag.render.run_page.run_view import RunView

__all__ = ["graph_svg"]


def graph_svg(run_view: RunView, image_store: ImageStore | None = None) -> str:
    """The graph of a run as an SVG file, which runs no script and fetches nothing.

    Args:
        run_view: The run; one without a graph gives an empty picture.
        image_store: The pictures in its nodes; none when None.
    """
    pictures = image_store or ImageStore({}, {})
    drawn = draw_graph(run_view, pictures).html
    inside = f"{stylesheet(css('page.css'))}{pictures.definitions() if pictures.stored_images else ''}"
    opening, rest = drawn.split(">", 1)
    return f'<svg xmlns="http://www.w3.org/2000/svg"{opening.removeprefix("<svg")}>{inside}{rest}'
