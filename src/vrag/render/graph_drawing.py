"""The drawing of a memory graph: positions and texts of its cards, and the lines between them.

The exported page shows it as SVG; the web page draws it itself, from the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.agent.memory.memory_graph import Graph, NodeKind
from vrag.render.graph_layout import layered
from vrag.render.html import number
from vrag.render.text_format import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.agent.memory.memory_graph import Node
    from vrag.render.figures import ImageStore, StoredImage
    from vrag.render.graph_layout import Point
    from vrag.render.run_view import RunView

_KIND_NAMES = {
    NodeKind.ROOT: "Question",
    NodeKind.SEARCH: "Search",
    NodeKind.CROP: "Closer look",
    NodeKind.TOOL: "Tool",
    NodeKind.ANSWER: "Answer",
}
WIDTH, PADDING, THUMB = 236.0, 14.0, 42.0
"""Width of a card, its padding, and size of an image in it, in pixels."""
HEAD, QUERY, SUMMARY = (11.0, 16.0), (13.0, 18.0), (11.5, 15.5)
"""Font size and line height in pixels."""
_BOLD_FACTOR = 1.15
"""Width of bold letters relative to normal ones."""


@dataclass(frozen=True, slots=True)
class Card:
    """A node at its position."""

    id: str
    kind: NodeKind
    title: str
    """Its kind and the name that the model gave it, cut to one line."""
    query: tuple[str, ...]
    summary: tuple[str, ...]
    thumbs: int
    """Images for which there is room."""
    x: float
    y: float
    width: float
    height: float
    leads: bool
    """True if the answer rests on it."""
    pending: bool
    """True if its results are not summarised yet."""

    @property
    def text_lines(self) -> Iterator[tuple[str, float, str]]:
        """Text, baseline and CSS class of each line."""
        y = PADDING - 3 + HEAD[1]
        yield self.title, y - 4, "head"
        for line in self.query:
            y += QUERY[1]
            yield line, y - 3, "query"
        y += 8
        for line in self.summary:
            y += SUMMARY[1]
            yield line, y - 4, "summary"


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """An edge from a parent to a child."""

    parent: str
    child: str
    path: str
    """SVG path data, arrowhead included."""
    leads: bool
    """True if the answer rests on it."""


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A drawn graph with its upper left corner at 0, 0."""

    width: float
    height: float
    nodes: tuple[Card, ...]
    """In the order of the graph."""
    edges: tuple[DrawnLine, ...]
    """Those that lead to the answer come last, so that they are drawn over the others."""


def kind_name(node: Node) -> str:
    """The kind of a node in words; for custom tools, the name of the tool."""
    return node.tool or _KIND_NAMES[node.kind]


def drawing_of(graph: Graph, thumbs: Mapping[str, int]) -> GraphDrawing:
    """The drawing of a graph. Equal graphs give equal drawings.

    Args:
        graph: The graph of a run.
        thumbs: Number of images to leave room for, by node.
    """
    inside = WIDTH - 2 * PADDING
    texts: dict[str, tuple[list[str], list[str]]] = {}
    sizes: dict[str, tuple[float, float]] = {}
    for node in graph.nodes:
        query = wrapped(node.query, inside / QUERY[0] / _BOLD_FACTOR, 3)
        summary = wrapped(node.summary or "", inside / SUMMARY[0], 3)
        texts[node.id] = query, summary
        height = 2 * PADDING + HEAD[1] + len(query) * QUERY[1] + len(summary) * SUMMARY[1]
        height += (8 if summary else 0) + (THUMB + 10 if thumbs.get(node.id) else 0)
        sizes[node.id] = WIDTH, height
    layout = layered(sizes, [(parent, node.id) for node in graph.nodes for parent in node.parents])
    ends = [node.id for node in graph.nodes if node.kind is NodeKind.ANSWER]
    leading = {node.id for node in graph.ancestors(ends)} | set(ends)
    cards: list[Card] = []
    for node in graph.nodes:
        name = "" if node.kind in {NodeKind.ROOT, NodeKind.ANSWER} else f" · {node.id}"
        title = next(iter(wrapped(f"{kind_name(node).upper()}{name}", 15.5, 1)), "")
        place, (query, summary) = layout.places[node.id], texts[node.id]
        card = Card(
            id=node.id,
            kind=node.kind,
            title=title,
            query=tuple(query),
            summary=tuple(summary),
            thumbs=thumbs.get(node.id, 0),
            x=place.x,
            y=place.y,
            width=place.width,
            height=place.height,
            leads=node.id in leading,
            pending=node.pending,
        )
        cards.append(card)
    lines = [
        DrawnLine(parent, child, _arrow(route), {parent, child} <= leading)
        for (parent, child), route in layout.routes.items()
    ]
    lines.sort(key=lambda line: line.leads)
    return GraphDrawing(layout.width, layout.height, tuple(cards), tuple(lines))


def _arrow(route: Sequence[Point]) -> str:
    """The path of a line: straight down from point to point, or an S between two layers, and an arrowhead."""
    first, last = route[0], route[-1]
    path = f"M{number(first.x)} {number(first.y)}"
    for upper, lower in pairwise(route):
        x, y, middle = number(lower.x), number(lower.y), number((upper.y + lower.y) / 2)
        path += f"V{y}" if upper.x == lower.x else f"C{number(upper.x)} {middle} {x} {middle} {x} {y}"
    left, right, back = number(last.x - 4.5), number(last.x + 4.5), number(last.y - 8)
    return f"{path}M{left} {back}L{number(last.x)} {number(last.y - 1)}L{right} {back}"


@dataclass(frozen=True, slots=True)
class GraphFigure:
    """The drawing of the last state of the graph of a run, with the images of its nodes."""

    drawing: GraphDrawing
    images: Mapping[str, Sequence[StoredImage]]
    """Images of the useful items, by node."""

    @classmethod
    def of(cls, run: RunView, image_store: ImageStore) -> GraphFigure:
        """Draws the graph of a run."""
        graph = run.result.graph or Graph()
        images: dict[str, list[StoredImage]] = {node.id: [] for node in graph.nodes}
        for node in graph.nodes:
            for item in node.memory:
                seen = run.seen_at(node.id, item.label, item.item)
                moments = [shown for shown in seen if shown.seconds in item.seconds] or seen
                stored = [image_store.stored_images.get(shown.sha256) for shown in moments]
                image = next((image for image in stored if image is not None), None)
                images[node.id] += [image] if item.useful and image else []
        return cls(drawing_of(graph, {id: len(shown) for id, shown in images.items()}), images)
