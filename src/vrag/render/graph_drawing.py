"""The drawing of a memory graph: its layout, the texts of its cards, and the lines between them.

The exported page shows it as SVG; the web page draws it itself, from the same numbers.

The layout has layers from top to bottom, few crossings and no overlaps. It is the method of Sugiyama,
Tagawa and Toda (1981) in its simplest form: longest-path layers, places reserved for edges that pass through
a layer, barycentre ordering, and positions by least squares under the order (pool adjacent violators).
Everything is deterministic: equal graphs give equal pictures.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vrag.agent.memory.memory_graph import Graph, Node, NodeKind
from vrag.render.figures import ImageStore, StoredImage
from vrag.render.markup import number
from vrag.render.run_view import RunView
from vrag.render.text_format import wrapped

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


@dataclass(frozen=True, slots=True)
class Point:
    """A point; y grows downwards."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The rectangle of a node."""

    x: float
    y: float
    width: float
    height: float

    @property
    def center(self) -> float:
        """The x coordinate of its middle."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """The y coordinate of its lower side."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Positions of nodes and routes of edges, from the upper left corner at 0, 0."""

    places: Mapping[str, NodePlace]
    routes: Mapping[tuple[str, str], tuple[Point, ...]]
    """Points of each edge, from the lower side of the parent to the upper side of the child. y never falls.
    Between two layers a route may bend; within one it is vertical and meets no node."""
    width: float
    height: float


Edge = tuple[str, str]
_Spot = tuple[str, ...]
"""A node (its id), or the place that an edge reserves in a layer: (parent, child, layer)."""
_Neighbours = defaultdict[_Spot, list[_Spot]]
"""The neighbours of each spot in the next layer."""


def layered(
    sizes: Mapping[str, tuple[float, float]],
    edges: Iterable[Edge],
    *,
    gap: float = 28.0,
    between: float = 44.0,
) -> GraphLayout:
    """Lay out nodes of these sizes, each after its parents, at least `gap` apart within a layer.

    `edges` lead from parents to children. One that does not lead from an earlier node to a later one is left
    out, so a graph with cycles is drawn without the edges that close them. `between` separates two layers.
    """
    order = {node: index for index, node in enumerate(sizes)}
    kept = [e for e in dict.fromkeys(edges) if e[0] in order and e[1] in order and order[e[0]] < order[e[1]]]
    layers, paths = _layers(order, kept)
    above, below = _Neighbours(list), _Neighbours(list)
    for path in paths.values():
        for upper, lower in pairwise(path):
            above[lower].append(upper)
            below[upper].append(lower)
    layers = _ordered(layers, above, below)
    lefts = _lefts(layers, above, below, {(node,): size[0] for node, size in sizes.items()}, gap)
    places: dict[str, NodePlace] = {}
    bands: dict[_Spot, tuple[float, float]] = {}
    top = bottom = 0.0
    for layer in layers:
        nodes = [spot for spot in layer if len(spot) == 1]
        bottom = top + max(sizes[node][1] for (node,) in nodes)
        places |= {node: NodePlace(lefts[node,], top, *sizes[node]) for (node,) in nodes}
        bands |= dict.fromkeys(layer, (top, bottom))
        top = bottom + between
    routes: dict[Edge, tuple[Point, ...]] = {}
    for (parent, child), path in paths.items():
        start, end = places[parent], places[child]
        points = [Point(start.center, start.bottom), Point(start.center, bands[path[0]][1])]
        points += [Point(lefts[spot], y) for spot in path[1:-1] for y in bands[spot]]
        routes[parent, child] = (*points, Point(end.center, end.y))
    width = max((place.x + place.width for place in places.values()), default=0.0)
    return GraphLayout({node: places[node] for node in sizes}, routes, width, bottom)


def _layers(
    order: Iterable[str], edges: Sequence[Edge]
) -> tuple[list[list[_Spot]], dict[Edge, tuple[_Spot, ...]]]:
    """Return the layers, each node below the lowest of its parents; and the spots of each edge, downwards."""
    parents: dict[str, list[str]] = {node: [] for node in order}
    for parent, child in edges:
        parents[child].append(parent)
    layer_of: dict[str, int] = {}
    for node, found in parents.items():
        layer_of[node] = 1 + max((layer_of[parent] for parent in found), default=-1)
    layers: list[list[_Spot]] = [[] for _ in range(1 + max(layer_of.values(), default=-1))]
    for node, layer in layer_of.items():
        layers[layer].append((node,))
    paths: dict[Edge, tuple[_Spot, ...]] = {}
    for parent, child in edges:
        passed: list[_Spot] = []
        for layer in range(layer_of[parent] + 1, layer_of[child]):
            passed.append((parent, child, str(layer)))
            layers[layer].append(passed[-1])
        paths[parent, child] = ((parent,), *passed, (child,))
    return layers, paths


def _ordered(layers: list[list[_Spot]], above: _Neighbours, below: _Neighbours) -> list[list[_Spot]]:
    """Return the layers in the order with the fewest crossings of those tried, down and up in turn.

    Twice as many passes left as many crossings in 200 graphs of 30 nodes.
    """
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(12):
        if fewest == 0:
            break
        layers = _swept(layers, above) if sweep % 2 == 0 else _swept(layers[::-1], below)[::-1]
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _swept(layers: list[list[_Spot]], towards: _Neighbours) -> list[list[_Spot]]:
    """Sort each layer by the mean position of its neighbours in the layer before it."""
    done = layers[:1]
    for layer in layers[1:]:
        position = {spot: float(index) for index, spot in enumerate(done[-1])}
        means = {spot: _mean(towards[spot], position, float(own)) for own, spot in enumerate(layer)}
        done.append(sorted(layer, key=means.__getitem__))
    return done


def _mean(spots: Sequence[_Spot], position: Mapping[_Spot, float], otherwise: float) -> float:
    return sum(position[spot] for spot in spots) / len(spots) if spots else otherwise


def _crossings(layers: Sequence[Sequence[_Spot]], below: _Neighbours) -> int:
    """Return the number of pairs of edges that cross between two layers."""
    count = 0
    for upper, lower in pairwise(layers):
        position = {spot: index for index, spot in enumerate(lower)}
        passed: list[int] = []
        for spot in upper:
            ends = sorted(position[end] for end in below[spot])
            count += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return count


def _lefts(
    layers: Sequence[Sequence[_Spot]],
    above: _Neighbours,
    below: _Neighbours,
    widths: Mapping[_Spot, float],
    gap: float,
) -> dict[_Spot, float]:
    """Return the left side of each spot, from 0: near its neighbours, in the order of its layer."""
    centers: dict[_Spot, float] = {}
    up, down = (layers[::-1], below), (layers, above)
    for layers_in_turn, towards in (down, up, down, up):
        for layer in layers_in_turn:
            wanted = [_mean(towards[spot], centers, centers.get(spot, 0.0)) for spot in layer]
            centers.update(_spread(layer, wanted, widths, gap))
    lefts = {spot: center - widths.get(spot, 0.0) / 2 for spot, center in centers.items()}
    leftmost = min(lefts.values(), default=0.0)
    return {spot: left - leftmost for spot, left in lefts.items()}


def _spread(
    layer: Sequence[_Spot], wanted: Sequence[float], widths: Mapping[_Spot, float], gap: float
) -> dict[_Spot, float]:
    """Return the centres closest to the wanted ones, by least squares, that keep the order and the gaps.

    Without the minimum distances, the centres must only not decrease: isotonic regression, solved by
    pooling adjacent violators.
    """
    offsets = [0.0]
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (widths.get(left, 0.0) + widths.get(right, 0.0)) / 2 + gap)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=False):
        pool = (value - offset, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, count = pools.pop()
            total = count + pool[1]
            pool = ((mean * count + pool[0] * pool[1]) / total, total)
        pools.append(pool)
    fitted = [mean for mean, count in pools for _ in range(count)]
    return {spot: mean + offset for spot, mean, offset in zip(layer, fitted, offsets, strict=False)}


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

    @property
    def leading(self) -> int:
        """The number of nodes that the answer rests on; 0 without an answer."""
        return sum(card.leads for card in self.nodes)


def kind_name(node: Node) -> str:
    """Return the kind of a node in words; for custom tools, the name of the tool."""
    return node.tool or _KIND_NAMES[node.kind]


def drawing_of(graph: Graph, thumbs: Mapping[str, int]) -> GraphDrawing:
    """Draw a graph; equal graphs give equal drawings.

    `thumbs` is the number of images of each node, by its id. A card leaves one row of room for them; nodes
    that are not in the mapping have no images.
    """
    inside = WIDTH - 2 * PADDING
    texts: dict[str, tuple[list[str], list[str]]] = {}
    sizes: dict[str, tuple[float, float]] = {}
    for node in graph.nodes:
        query = wrapped(node.query, inside / QUERY[0] / 1.15, 3)  # bold letters are wider
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
    """Draw a line straight down from point to point, or as an S between two layers, with an arrowhead."""
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
        """Draw the graph of a run."""
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
