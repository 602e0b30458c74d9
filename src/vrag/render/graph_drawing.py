"""The drawing of a memory graph: positions and texts of its cards, and the lines between them.

The exported page shows it as SVG; the web page draws it itself, from the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.agent.memory.memory_graph import Graph, NodeKind
from vrag.render.figures import ImageStore
from vrag.render.graph_layout import GraphLayout, NodePlace, Point, layered
from vrag.render.html import number
from vrag.render.text_format import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.agent.memory.memory_graph import Node
    from vrag.render.figures import StoredImage
    from vrag.render.run_view import RunView

_KIND_NAMES = {
    NodeKind.ROOT: "Question",
    NodeKind.SEARCH: "Search",
    NodeKind.CROP: "Closer look",
    NodeKind.TOOL: "Tool",
    NodeKind.ANSWER: "Answer",
}
WIDTH, PADDING, THUMB, MARGIN = 236.0, 14.0, 42.0, 6.0
"""Width of a card, its padding, size of an image in it, and margin of the graph, in pixels."""
HEAD, QUERY, SUMMARY = (11.0, 16.0), (13.0, 18.0), (11.5, 15.5)
"""Font size and line height in pixels."""
_BOLD_FACTOR = 1.15
"""Width of bold letters relative to normal ones."""
MAX_THUMBS = 4
"""Images of a card that are shown."""


@dataclass(frozen=True, slots=True)
class Card:
    """A node at its position."""

    node: Node
    title: str
    """Its kind and the name that the model gave it, cut to one line."""
    query: tuple[str, ...]
    summary: tuple[str, ...]
    thumbs: int
    """Images for which there is room."""
    place: NodePlace
    leads: bool
    """True if the answer rests on it."""

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

    cards: tuple[Card, ...]
    """In the order of the graph."""
    lines: tuple[DrawnLine, ...]
    """Those that lead to the answer come last, so that they are drawn over the others."""
    width: float
    height: float


def kind_name(node: Node) -> str:
    """The kind of a node in words; for custom tools, the name of the tool."""
    return node.tool or _KIND_NAMES[node.kind]


def drawing_of(graph: Graph, thumbs: Mapping[str, int] | None = None) -> GraphDrawing:
    """The drawing of a graph. Equal graphs give equal drawings.

    Args:
        graph: The graph of a run.
        thumbs: Number of images to leave room for, by node.
    """
    thumbs = thumbs or {}
    texts = {node.id: _texts(node) for node in graph.nodes}
    heights = {name: _height(*text, thumbs.get(name, 0)) for name, text in texts.items()}
    edges = [(parent, node.id) for node in graph.nodes for parent in node.parents]
    layout = layered({name: (WIDTH, height) for name, height in heights.items()}, edges)
    ends = [node.id for node in graph.nodes if node.kind is NodeKind.ANSWER]
    leading = {node.id for node in graph.ancestors(ends)} | set(ends)
    cards = tuple(
        Card(
            node,
            _title(node),
            *texts[node.id],
            thumbs.get(node.id, 0),
            layout.places[node.id],
            node.id in leading,
        )
        for node in graph.nodes
    )
    return GraphDrawing(cards, _lines(layout, leading), layout.width, layout.height)


def _texts(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    inside = WIDTH - 2 * PADDING
    query = wrapped(node.query, inside / QUERY[0] / _BOLD_FACTOR, 3)
    return tuple(query), tuple(wrapped(node.summary or "", inside / SUMMARY[0], 3))


def _height(query: Sequence[str], summary: Sequence[str], thumbs: int) -> float:
    text = HEAD[1] + len(query) * QUERY[1] + len(summary) * SUMMARY[1]
    return 2 * PADDING + text + (8 if summary else 0) + (THUMB + 10 if thumbs else 0)


def _title(node: Node) -> str:
    name = node.id if node.kind not in {NodeKind.ROOT, NodeKind.ANSWER} else ""
    return next(iter(wrapped(f"{kind_name(node).upper()}{f' · {name}' if name else ''}", 15.5, 1)), "")


def _lines(layout: GraphLayout, leading: set[str]) -> tuple[DrawnLine, ...]:
    lines = [
        DrawnLine(parent, child, _path(route), {parent, child} <= leading)
        for (parent, child), route in layout.routes.items()
    ]
    return tuple(sorted(lines, key=lambda line: line.leads))


def _path(route: Sequence[Point]) -> str:
    first, last = route[0], route[-1]
    steps = [f"M{number(first.x)} {number(first.y)}"]
    steps += [_bend(upper, lower) for upper, lower in pairwise(route)]
    tip = f"M{number(last.x - 4.5)} {number(last.y - 8)}L{number(last.x)} {number(last.y - 1)}"
    return "".join(steps) + tip + f"L{number(last.x + 4.5)} {number(last.y - 8)}"


def _bend(upper: Point, lower: Point) -> str:
    """From one point of a route to the next: straight down, or an S between two layers."""
    if upper.x == lower.x:
        return f"V{number(lower.y)}"
    middle = number((upper.y + lower.y) / 2)
    x, y = number(lower.x), number(lower.y)
    return f"C{number(upper.x)} {middle} {x} {middle} {x} {y}"


def anchor(node: Node) -> str:
    """Id of the section about a node: by its order, since its name is the model's."""
    return f"node-{node.order}"


@dataclass(frozen=True, slots=True)
class GraphFigure:
    """The drawing of the graph of a run, with the images of its nodes."""

    drawing: GraphDrawing
    images: Mapping[str, Sequence[StoredImage]]
    """By node."""

    @classmethod
    def of(cls, run: RunView, image_store: ImageStore) -> GraphFigure:
        """Draws the last state of the graph of a run."""
        graph = run.result.graph or Graph()
        images = {node.id: list(_node_images(node, run, image_store)) for node in graph.nodes}
        return cls(drawing_of(graph, {name: len(shown) for name, shown in images.items()}), images)


def _node_images(node: Node, run: RunView, image_store: ImageStore) -> Iterator[StoredImage]:
    """The images of the useful items of a node."""
    for item in node.memory:
        seen = run.seen_at(node.id, item.label, item.item)
        moments = [shown for shown in seen if shown.seconds in item.seconds] or seen
        images = (image_store.stored_images.get(shown.sha256) for shown in moments)
        image = next((image for image in images if image is not None), None)
        if item.useful and image is not None:
            yield image
