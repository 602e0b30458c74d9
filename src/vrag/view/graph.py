"""The memory graph as a drawing: what was asked, what came of it, and what is remembered of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.graph import Graph, Memo, Node
from vrag.view.drawing import HEAD, MARGIN, PADDING, QUERY, SUMMARY, THUMB, drawing_of, kind_name
from vrag.view.markup import Markup, element, number
from vrag.view.pictures import Album, Leaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.view.drawing import Card, Line
    from vrag.view.story import Story

__all__ = ["anchor", "draw_graph"]

THUMBS = 4
LEAST = 0.72
"""How much smaller than drawn a graph may be shown before its window scrolls."""


def anchor(node: Node) -> str:
    """Id of the part of a page that tells about a node: by its order, since its name is the model's."""
    return f"node-{node.order}"


def draw_graph(story: Story, album: Album) -> Markup:
    """The graph of a run as a drawing; nodes are links to the parts that tell about them."""
    graph = story.graph or Graph()
    leaves = {node.id: _leaves(story, album, node) for node in graph.nodes}
    drawing = drawing_of(graph, {name: len(shown) for name, shown in leaves.items()})
    wide, high = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    return element(
        "svg",
        element("title", f"Memory graph of {len(graph.nodes)} nodes"),
        map(_edge, drawing.lines),
        (_node(card, leaves[card.node.id]) for card in drawing.cards),
        viewBox=f"{number(-MARGIN)} {number(-MARGIN)} {number(wide)} {number(high)}",
        width=wide,
        height=high,
        style=f"min-width:{wide * LEAST:.0f}px",
        class_="graph",
    )


def _leaves(story: Story, album: Album, node: Node) -> list[Leaf]:
    leaves = (_leaf(story, album, node, memo) for memo in node.memory if memo.useful)
    return [leaf for leaf in leaves if leaf is not None]


def _leaf(story: Story, album: Album, node: Node, memo: Memo) -> Leaf | None:
    seen = story.seen_at(node.id, memo.label, memo.item)
    moments = [s for s in seen if s.seconds in memo.seconds] or seen
    return next((album.leaves[s.sha256] for s in moments if s.sha256 in album.leaves), None)


def _edge(line: Line) -> Markup:
    return element("path", d=line.path, class_="edge lead" if line.leads else "edge")


def _node(card: Card, leaves: Sequence[Leaf]) -> Markup:
    node, place = card.node, card.place
    return element(
        "a",
        element("title", f"{kind_name(node)}: {node.query}"),
        element("rect", width=place.width, height=place.height, rx=10, class_="card"),
        element("path", d=f"M5 12V{number(place.height - 12)}", class_="kind"),
        _lines(card),
        _thumbs(leaves, place.height - PADDING - THUMB),
        href=f"#{anchor(node)}",
        transform=f"translate({number(place.x)} {number(place.y)})",
        class_=f"node {node.kind.value}{' pending' if node.pending else ''}",
    )


def _lines(card: Card) -> Iterator[Markup]:
    y = PADDING - 3 + HEAD[1]
    yield element("text", card.title, x=PADDING, y=y - 4, class_="head")
    for line in card.query:
        y += QUERY[1]
        yield element("text", line, x=PADDING, y=y - 3, class_="query")
    y += 8
    for line in card.summary:
        y += SUMMARY[1]
        yield element("text", line, x=PADDING, y=y - 4, class_="summary")


def _thumbs(leaves: Sequence[Leaf], y: float) -> Iterator[Markup]:
    for index, leaf in enumerate(leaves[:THUMBS]):
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
    if more := len(leaves[THUMBS:]):
        x = PADDING + THUMBS * (THUMB + 6)
        yield element("text", f"+{more}", x=x, y=y + THUMB / 2 + 4, class_="summary")
