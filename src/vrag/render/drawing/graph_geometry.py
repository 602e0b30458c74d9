"""The memory graph as figures: where its cards stand, what they say, how they are joined.

The exported page writes them as SVG; the web page draws them itself, from the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.agent.memory.memory_graph import NodeKind
from vrag.render.drawing.graph_layout import GraphLayout, NodePlace, Point, layered
from vrag.render.drawing.text_width import wrapped
from vrag.render.html import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.memory.memory_graph import Graph, Node

__all__ = [
    "HEAD",
    "MARGIN",
    "PADDING",
    "QUERY",
    "SUMMARY",
    "THUMB",
    "WIDTH",
    "Card",
    "DrawnLine",
    "GraphDrawing",
    "drawing_of",
    "kind_name",
]

_KIND_NAMES = {
    NodeKind.ROOT: "Question",
    NodeKind.SEARCH: "Search",
    NodeKind.CROP: "Closer look",
    NodeKind.TOOL: "Tool",
    NodeKind.ANSWER: "Answer",
}
WIDTH, PADDING, THUMB, MARGIN = 236.0, 14.0, 42.0, 6.0
"""Of a card, inside it, of a picture in it, and around the graph; in pixels."""
HEAD, QUERY, SUMMARY = (11.0, 16.0), (13.0, 18.0), (11.5, 15.5)
"""Size of letters and height of a line, in pixels."""
BOLD = 1.15
"""How much wider bold letters are."""


@dataclass(frozen=True, slots=True)
class Card:
    """A node, in its place."""

    node: Node
    title: str
    """What it is and how the model calls it, cut to one line."""
    query: tuple[str, ...]
    summary: tuple[str, ...]
    thumbs: int
    """Pictures for which there is room."""
    place: NodePlace
    leads: bool
    """Whether the answer rests on it."""


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """An edge, from a parent to a child."""

    parent: str
    child: str
    path: str
    """Path data of SVG, tip included."""
    leads: bool
    """Whether it is part of what the answer rests on."""


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A graph as figures, with its left upper corner at 0, 0."""

    cards: tuple[Card, ...]
    """In the order of the graph."""
    lines: tuple[DrawnLine, ...]
    """Those that lead last, so that they are drawn over the others."""
    width: float
    height: float


def kind_name(node: Node) -> str:
    """What a node is, for people; of an action of others its name."""
    return node.tool or _KIND_NAMES[node.kind]


def drawing_of(graph: Graph, thumbs: Mapping[str, int] | None = None) -> GraphDrawing:
    """The drawing of a graph. Equal graphs give equal drawings.

    Args:
        graph: Of a run, under way or over.
        thumbs: Pictures to leave room for, by node; None for none.
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
    query = wrapped(node.query, inside / QUERY[0] / BOLD, 3)
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
