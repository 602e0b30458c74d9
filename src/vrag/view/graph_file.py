"""The memory graph as a picture file that stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.view.graph import draw_graph
from vrag.view.head import css
from vrag.view.markup import stylesheet
from vrag.view.pictures import Album

if TYPE_CHECKING:
    from vrag.view.story import Story

__all__ = ["graph_svg"]


def graph_svg(story: Story, album: Album | None = None) -> str:
    """The graph of a run as an SVG file, which runs no script and fetches nothing.

    Args:
        story: The run; one without a graph gives an empty picture.
        album: The pictures in its nodes; none when None.
    """
    pictures = album or Album({}, {})
    drawn = draw_graph(story, pictures).html
    inside = f"{stylesheet(css('page.css'))}{pictures.definitions() if pictures.leaves else ''}"
    opening, rest = drawn.split(">", 1)
    return f'<svg xmlns="http://www.w3.org/2000/svg"{opening.removeprefix("<svg")}>{inside}{rest}'
