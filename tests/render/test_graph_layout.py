"""A drawn graph: nothing overlaps, everything leads downwards, and the same graph looks the same."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.render.graph_drawing import NodePlace, layered

if TYPE_CHECKING:
    from vrag.render.graph_drawing import GraphLayout

SLACK = 1e-6
Graph = tuple[dict[str, tuple[float, float]], list[tuple[str, str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Acyclic graphs: nodes in the order of creation, edges from earlier ones to later ones."""
    count = draw(st.integers(1, 14))
    names = [f"n{number}" for number in range(count)]
    length = st.floats(1, 300)
    sizes = {name: (draw(length), draw(length)) for name in names}
    pairs = list(combinations(names, 2))
    return sizes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []


def apart(one: NodePlace, other: NodePlace) -> bool:
    return (
        one.x + one.width <= other.x + SLACK
        or other.x + other.width <= one.x + SLACK
        or one.bottom <= other.y + SLACK
        or other.bottom <= one.y + SLACK
    )


def drawn(graph: Graph) -> GraphLayout:
    return layered(graph[0], graph[1])


@given(graphs())
def test_no_two_nodes_overlap(graph: Graph) -> None:
    assert all(apart(*pair) for pair in combinations(drawn(graph).places.values(), 2))


@given(graphs())
def test_nodes_of_one_layer_keep_their_distance(graph: Graph) -> None:
    layout = layered(graph[0], graph[1], gap=28)
    for one, other in combinations(sorted(layout.places.values(), key=lambda place: place.x), 2):
        if one.y == other.y:
            assert other.x - (one.x + one.width) >= 28 - SLACK


@given(graphs())
def test_every_edge_goes_down_from_its_parent_to_its_child(graph: Graph) -> None:
    layout = drawn(graph)
    assert set(layout.routes) == set(graph[1])
    for (parent, child), route in layout.routes.items():
        assert (route[0].x, route[0].y) == (layout.places[parent].center, layout.places[parent].bottom)
        assert (route[-1].x, route[-1].y) == (layout.places[child].center, layout.places[child].y)
        assert all(upper.y <= lower.y for upper, lower in pairwise(route))
        assert route[0].y < route[-1].y


@given(graphs())
def test_no_edge_runs_through_a_node(graph: Graph) -> None:
    layout = drawn(graph)
    for edge, route in layout.routes.items():
        for name, place in layout.places.items():
            if name not in edge:
                assert not any(_meets(place, *segment) for segment in pairwise(route)), (edge, name)


def _meets(place: NodePlace, upper: object, lower: object) -> bool:
    """Whether the box around a stretch of a route overlaps a node."""
    xs, ys = zip(*((point.x, point.y) for point in (upper, lower)), strict=True)  # type: ignore[attr-defined]
    beside = max(xs) <= place.x + SLACK or min(xs) >= place.x + place.width - SLACK
    return not (beside or max(ys) <= place.y + SLACK or min(ys) >= place.bottom - SLACK)


@given(graphs())
def test_all_of_it_lies_inside_the_drawing(graph: Graph) -> None:
    layout = drawn(graph)
    for place in layout.places.values():
        assert place.x >= -SLACK
        assert place.y >= 0
        assert place.x + place.width <= layout.width + SLACK
        assert place.bottom <= layout.height + SLACK


@given(graphs())
def test_the_same_graph_is_drawn_the_same(graph: Graph) -> None:
    sizes, edges = graph
    assert layered(sizes, edges) == layered(dict(sizes), [*edges, *edges])


@given(graphs())
def test_a_child_stands_below_all_its_parents(graph: Graph) -> None:
    layout = drawn(graph)
    for parent, child in graph[1]:
        assert layout.places[child].y > layout.places[parent].bottom


def test_edges_that_would_close_a_circle_or_lead_nowhere_are_left_out() -> None:
    layout = layered({"a": (10, 10), "b": (10, 10)}, [("a", "b"), ("b", "a"), ("a", "a"), ("a", "gone")])
    assert list(layout.routes) == [("a", "b")]


def test_a_chain_is_a_straight_line() -> None:
    layout = layered(dict.fromkeys("abc", (100, 40)), [("a", "b"), ("b", "c")], between=20)
    assert [(place.x, place.y) for place in layout.places.values()] == [(0, 0), (0, 60), (0, 120)]


def test_two_chains_that_are_named_crosswise_do_not_cross() -> None:
    layout = layered(dict.fromkeys("abcd", (10, 10)), [("a", "d"), ("b", "c")])
    places = layout.places
    assert (places["a"].x < places["b"].x) == (places["d"].x < places["c"].x)


def test_a_diamond_stands_in_the_middle() -> None:
    layout = layered(
        dict.fromkeys("abcd", (100, 40)), [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], gap=20
    )
    assert [layout.places[name].center for name in "abcd"] == pytest.approx([110, 50, 170, 110])


def test_an_empty_graph_takes_no_room() -> None:
    layout = layered({}, [])
    assert (layout.width, layout.height) == (0, 0)
