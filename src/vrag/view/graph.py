"""The memory graph as a drawing: what was asked, what came of it, and what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from vrag.agent.graph import Graph, Memo, Node, NodeKind
from vrag.view.layout import Layout, Place, Point, layered
from vrag.view.lettering import wrapped
from vrag.view.markup import Markup, element, number
from vrag.view.pictures import Album, Leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vrag.view.story import Story

__all__ = ["anchor", "draw_graph", "kind_name"]

_KIND_NAMES = {
    NodeKind.ROOT: "Question",
    NodeKind.SEARCH: "Search",
    NodeKind.CROP: "Closer look",
    NodeKind.TOOL: "Tool",
    NodeKind.ANSWER: "Answer",
}
WIDTH, PADDING, THUMB, MARGIN = 236.0, 14.0, 42.0, 6.0
"""Of a node, inside it, of a picture in it, and around the graph; in pixels."""
HEAD, QUERY, SUMMARY = (11.0, 16.0), (13.0, 18.0), (11.5, 15.5)
"""Size of letters and height of a line, in pixels."""
THUMBS = 4
LEAST = 0.72
"""How much smaller than drawn a graph may be shown before its window scrolls."""
BOLD = 1.15
"""How much wider bold letters are."""


@dataclass(frozen=True, slots=True)
class _Card:
    """A node before it has its place."""

    node: Node
    query: Sequence[str]
    summary: Sequence[str]
    thumbs: Sequence[Leaf]
    more: int
    """Remembered items for whose pictures there is no room."""

    @property
    def height(self) -> float:
        text = HEAD[1] + len(self.query) * QUERY[1] + len(self.summary) * SUMMARY[1]
        return 2 * PADDING + text + (8 if self.summary else 0) + (THUMB + 10 if self.thumbs else 0)


def kind_name(node: Node) -> str:
    """What a node is, for people; of an action of others its name."""
    return node.tool or _KIND_NAMES[node.kind]


def anchor(node: Node) -> str:
    """Id of the part of a page that tells about a node: by its order, since its name is the model's."""
    return f"node-{node.order}"


def draw_graph(story: Story, album: Album) -> Markup:
    """The graph of a run as a drawing; nodes are links to the parts that tell about them."""
    graph = story.graph or Graph()
    cards = {
        node.id: _card(node, lambda memo, node=node: _leaf(story, album, node, memo)) for node in graph.nodes
    }
    edges = [(parent, node.id) for node in graph.nodes for parent in node.parents]
    layout = layered({name: (WIDTH, card.height) for name, card in cards.items()}, edges)
    ends = [node.id for node in graph.nodes if node.kind is NodeKind.ANSWER]
    leading = {node.id for node in graph.ancestors(ends)}
    wide, high = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    return element(
        "svg",
        element("title", f"Memory graph of {len(graph.nodes)} nodes"),
        (_edge(layout.routes[e], leads=set(e) <= leading) for e in _lead_last(layout, leading)),
        (_node(card, layout.places[name]) for name, card in cards.items()),
        viewBox=f"{number(-MARGIN)} {number(-MARGIN)} {number(wide)} {number(high)}",
        width=wide,
        height=high,
        style=f"min-width:{wide * LEAST:.0f}px",
        class_="graph",
    )


def _leaf(story: Story, album: Album, node: Node, memo: Memo) -> Leaf | None:
    seen = story.seen_at(node.id, memo.label, memo.item)
    moments = [s for s in seen if s.seconds in memo.seconds] or seen
    return next((album.leaves[s.sha256] for s in moments if s.sha256 in album.leaves), None)


def _card(node: Node, leaf_of: Callable[[Memo], Leaf | None]) -> _Card:
    inside = WIDTH - 2 * PADDING
    pictures = [leaf for memo in node.memory if memo.useful and (leaf := leaf_of(memo)) is not None]
    query = wrapped(node.query, inside / QUERY[0] / BOLD, 3)
    summary = wrapped(node.summary or "", inside / SUMMARY[0], 3)
    return _Card(node, query, summary, pictures[:THUMBS], len(pictures[THUMBS:]))


def _lead_last(layout: Layout, leading: set[str]) -> list[tuple[str, str]]:
    """The edges, those that lead to the answer drawn over the others."""
    return sorted(layout.routes, key=lambda edge: set(edge) <= leading)


def _edge(route: Sequence[Point], *, leads: bool) -> Markup:
    first, last = route[0], route[-1]
    steps = [f"M{number(first.x)} {number(first.y)}"]
    steps += [_bend(upper, lower) for upper, lower in pairwise(route)]
    tip = f"M{number(last.x - 4.5)} {number(last.y - 8)}L{number(last.x)} {number(last.y - 1)}"
    tip += f"L{number(last.x + 4.5)} {number(last.y - 8)}"
    return element("path", d="".join(steps) + tip, class_="edge lead" if leads else "edge")


def _bend(upper: Point, lower: Point) -> str:
    """From one point of a route to the next: straight down, or an S between two layers."""
    if upper.x == lower.x:
        return f"V{number(lower.y)}"
    middle = number((upper.y + lower.y) / 2)
    x, y = number(lower.x), number(lower.y)
    return f"C{number(upper.x)} {middle} {x} {middle} {x} {y}"


def _node(card: _Card, place: Place) -> Markup:
    node = card.node
    return element(
        "a",
        element("title", f"{kind_name(node)}: {node.query}"),
        element("rect", width=place.width, height=place.height, rx=10, class_="card"),
        element("path", d=f"M5 12V{number(place.height - 12)}", class_="kind"),
        _lines(card),
        _thumbs(card, place.height - PADDING - THUMB),
        href=f"#{anchor(node)}",
        transform=f"translate({number(place.x)} {number(place.y)})",
        class_=f"node {node.kind.value}{' pending' if node.pending else ''}",
    )


def _lines(card: _Card) -> Iterator[Markup]:
    name = card.node.id if card.node.kind not in {NodeKind.ROOT, NodeKind.ANSWER} else ""
    head = wrapped(f"{kind_name(card.node).upper()}{f' · {name}' if name else ''}", 15.5, 1)
    y = PADDING - 3
    for line in head:
        y += HEAD[1]
        yield element("text", line, x=PADDING, y=y - 4, class_="head")
    for line in card.query:
        y += QUERY[1]
        yield element("text", line, x=PADDING, y=y - 3, class_="query")
    y += 8
    for line in card.summary:
        y += SUMMARY[1]
        yield element("text", line, x=PADDING, y=y - 4, class_="summary")


def _thumbs(card: _Card, y: float) -> Iterator[Markup]:
    for index, leaf in enumerate(card.thumbs):
        yield element(
            "svg",
            element("use", href=f"#{leaf.id}"),
            x=PADDING + index * (THUMB + 6),
            y=y,
            width=THUMB,
            height=THUMB,
            viewBox=f"0 0 {leaf.size.width} {leaf.size.height}",
            preserveAspectRatio="xMidYMid slice",
        )
        yield element(
            "rect", x=PADDING + index * (THUMB + 6), y=y, width=THUMB, height=THUMB, rx=2, class_="thumb"
        )
    if card.more:
        x = PADDING + len(card.thumbs) * (THUMB + 6)
        yield element("text", f"+{card.more}", x=x, y=y + THUMB / 2 + 4, class_="summary")
