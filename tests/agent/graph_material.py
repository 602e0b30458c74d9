"""Graphs for tests: written down step by step, or drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from vrag.agent.memory.memory_graph import ROOT, Graph, NodeKind, RememberedItem


@dataclass(frozen=True)
class Growing:
    """A graph to which summarised searches are added one by one."""

    graph: Graph

    def grow(self, name: str, *parents: str, memory: tuple[RememberedItem, ...] = ()) -> Growing:
        added = self.graph.add(
            id=name, kind=NodeKind.SEARCH, parents=parents or (ROOT,), query=f"query of {name}"
        )
        return Growing(added.complete("summary", memory))


def root() -> Growing:
    return Growing(Graph.of("?"))


def picture(number: int, *, priority: int = 3) -> RememberedItem:
    """Item p<number>, as the result of that number."""
    return RememberedItem(
        label=f"Picture {number}", item=f"p{number}", position=number - 1, priority=priority
    )


def video(number: int, seconds: tuple[float, ...], *, priority: int = 3) -> RememberedItem:
    """Item v<number>."""
    return RememberedItem(
        label=f"Video {number}", item=f"v{number}", position=number - 1, priority=priority, seconds=seconds
    )


@st.composite
def memories(draw: st.DrawFn) -> tuple[RememberedItem, ...]:
    """Up to four results among few items, so that nodes share some."""
    found: list[RememberedItem] = []
    for position in range(draw(st.integers(0, 4))):
        useful = draw(st.booleans())
        number = draw(st.integers(1, 6))
        is_video = number > 4
        whole = draw(st.booleans()) or is_video
        seconds = (
            tuple(sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))) if is_video else ()
        )
        found.append(
            RememberedItem(
                label=f"{'Video' if is_video else 'Picture'} {position + 1}",
                item=f"{'v' if is_video else 'p'}{number}",
                position=position,
                useful=useful,
                priority=draw(st.integers(1, 5)) if useful else 0,
                region=None if whole else draw(st.sampled_from([(0, 0, 90, 70), (10, 20, 900, 400)])),
                seconds=tuple(map(float, seconds)) if useful else (),
            )
        )
    return tuple(found)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine searches, each from any of those before it; the last may be open, or an answer be given."""
    growing = root()
    for order in range(1, draw(st.integers(1, 9)) + 1):
        earlier = [node.id for node in growing.graph.nodes]
        parents = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=3, unique=True))
        growing = growing.grow(f"n{order}", *parents, memory=draw(memories()))
    graph = growing.graph
    if draw(st.booleans()):
        graph = graph.add(id="open", kind=NodeKind.SEARCH, parents=(graph.newest.id,), query="more")
    elif draw(st.booleans()):
        graph = graph.answer((graph.newest.id,), "yes")
    return graph
