"""The memory graph as a drawing: what was asked, what came of it, and what is remembered of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.memory.memory_graph import Graph, Node, RememberedItem
from vrag.render.drawing.graph_geometry import (
    HEAD,
    MARGIN,
    PADDING,
    QUERY,
    SUMMARY,
    THUMB,
    drawing_of,
    kind_name,
)
from vrag.render.html import Markup, element, number
from vrag.render.run_page.image_store import ImageStore, StoredImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.render.drawing.graph_geometry import Card, DrawnLine
    from vrag.render.run_page.run_view import RunView

__all__ = ["anchor", "draw_graph"]

THUMBS = 4
LEAST = 0.72
"""How much smaller than drawn a graph may be shown before its window scrolls."""


def anchor(node: Node) -> str:
    """Id of the part of a page that tells about a node: by its order, since its name is the model's."""
    return f"node-{node.order}"


def draw_graph(run_view: RunView, image_store: ImageStore) -> Markup:
    """The graph of a run as a drawing; nodes are links to the parts that tell about them."""
    graph = run_view.graph or Graph()
    stored_images = {node.id: _leaves(run_view, image_store, node) for node in graph.nodes}
    drawing = drawing_of(graph, {name: len(shown) for name, shown in stored_images.items()})
    wide, high = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    return element(
        "svg",
        element("title", f"Memory graph of {len(graph.nodes)} nodes"),
        map(_edge, drawing.lines),
        (_node(card, stored_images[card.node.id]) for card in drawing.cards),
        viewBox=f"{number(-MARGIN)} {number(-MARGIN)} {number(wide)} {number(high)}",
        width=wide,
        height=high,
        style=f"min-width:{wide * LEAST:.0f}px",
        class_="graph",
    )


def _leaves(run_view: RunView, image_store: ImageStore, node: Node) -> list[StoredImage]:
    stored_images = (_leaf(run_view, image_store, node, memo) for memo in node.memory if memo.useful)
    return [stored_image for stored_image in stored_images if stored_image is not None]


def _leaf(run_view: RunView, image_store: ImageStore, node: Node, memo: RememberedItem) -> StoredImage | None:
    seen = run_view.seen_at(node.id, memo.label, memo.item)
    moments = [s for s in seen if s.seconds in memo.seconds] or seen
    return next(
        (image_store.stored_images[s.sha256] for s in moments if s.sha256 in image_store.stored_images), None
    )


def _edge(line: DrawnLine) -> Markup:
    return element("path", d=line.path, class_="edge lead" if line.leads else "edge")


def _node(card: Card, stored_images: Sequence[StoredImage]) -> Markup:
    node, place = card.node, card.place
    return element(
        "a",
        element("title", f"{kind_name(node)}: {node.query}"),
        element("rect", width=place.width, height=place.height, rx=10, class_="card"),
        element("path", d=f"M5 12V{number(place.height - 12)}", class_="kind"),
        _lines(card),
        _thumbs(stored_images, place.height - PADDING - THUMB),
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


def _thumbs(stored_images: Sequence[StoredImage], y: float) -> Iterator[Markup]:
    for index, stored_image in enumerate(stored_images[:THUMBS]):
        yield element(
            "svg",
            element("use", href=f"#{stored_image.id}"),
            x=PADDING + index * (THUMB + 6),
            y=y,
            width=THUMB,
            height=THUMB,
            viewBox=f"0 0 {stored_image.size.width} {stored_image.size.height}",
            preserveAspectRatio="xMidYMid slice",
        )
        yield element(
            "rect", x=PADDING + index * (THUMB + 6), y=y, width=THUMB, height=THUMB, rx=2, class_="thumb"
        )
    if more := len(stored_images[THUMBS:]):
        x = PADDING + THUMBS * (THUMB + 6)
        yield element("text", f"+{more}", x=x, y=y + THUMB / 2 + 4, class_="summary")
