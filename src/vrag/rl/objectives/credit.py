"""What graph-guided credit needs to know of a recorded trajectory.

A segment is all that the model wrote between two rebuilds of its context. VimRAG rebuilds it after every
completed node (`MemoryUpdated`); VRAG never does, and its trajectory is one segment.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from vrag.agent.actions import Flag
from vrag.agent.events import (
    AnswerGiven,
    GraphChanged,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    SearchReturned,
    StopReason,
)
from vrag.agent.memory.memory_graph import NodeKind
from vrag.cases import is_gold
from vrag.rl.objectives.ggpo import Segment, TrajectoryCredit, leading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.events import Event
    from vrag.agent.memory.memory_graph import Graph, Node
    from vrag.types import Case

__all__ = ["credit_of", "segment_numbers"]

_GIVEN = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
_OTHER = frozenset({NodeKind.ROOT, NodeKind.ANSWER})


def segment_numbers(events: Sequence[Event]) -> Mapping[int, int]:
    """The segment, from 0, of each step in which the model replied.

    The call that completes a node belongs to the segment of that node, with all that is told of it; the
    next one sees the new context.
    """
    ends = _ends(events)
    return {event.step: bisect_left(ends, event.step) for event in events if isinstance(event, ModelCalled)}


def credit_of(events: Sequence[Event], case: Case) -> TrajectoryCredit:
    """Segments of a run and the nodes on which its answer rests.

    `node` is what a segment added to the graph, also where an earlier action of it was invalid. `found` asks
    what its searches returned, never what memory shows; it is False throughout for a case without gold
    pages, whose R_val is unknown. A search that the model was refused returned nothing.

    Args:
        events: Of one run, in order.
        case: Its question; gold pages are matched by name of document and page.
    """
    called = segment_numbers(events)
    if not called:
        return TrajectoryCredit(())
    last = max(called.values())
    ends = _ends(events)
    by_segment: list[list[Event]] = [[] for _ in range(last + 1)]
    for event in events:
        by_segment[min(bisect_left(ends, event.step), last)].append(event)
    made = _made(by_segment)
    return TrajectoryCredit(
        tuple(_segment(those, nodes, case) for those, nodes in zip(by_segment, made, strict=True)),
        _leading(events),
    )


def _ends(events: Sequence[Event]) -> list[int]:
    """The steps after which the context was rebuilt, in order."""
    return [event.step for event in events if isinstance(event, MemoryUpdated)]


def _made(by_segment: Sequence[Sequence[Event]]) -> list[list[Node]]:
    """The nodes that each segment added to the graph."""
    known: set[str] = set()
    made: list[list[Node]] = []
    for events in by_segment:
        graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
        new = [node for node in graphs[-1].nodes if node.id not in known] if graphs else []
        known.update(node.id for node in new)
        made.append(new)
    return made


def _segment(events: Sequence[Event], made: Sequence[Node], case: Case) -> Segment:
    hits = (hit for event in events if isinstance(event, SearchReturned) for hit in event.hits)
    return Segment(
        node=next((node.id for node in made if node.kind not in _OTHER), None),
        answers=any(node.kind is NodeKind.ANSWER for node in made) or any(map(_answers, events)),
        found=any(is_gold(hit, case) for hit in hits),
        invalid=any(map(_breaks_grammar, events)),
    )


def _breaks_grammar(event: Event) -> bool:
    """Whether a reply was not carried out, or was only carried out because it was repaired."""
    repaired = isinstance(event, ModelCalled) and Flag.REPAIRED in event.flags
    return repaired or isinstance(event, InvalidAction)


def _answers(event: Event) -> bool:
    """Whether the run ends here with an answer; abstaining is one."""
    return isinstance(event, AnswerGiven) and event.stop_reason in _GIVEN


def _leading(events: Sequence[Event]) -> frozenset[str]:
    """P_ans, from the graph as it was last."""
    graph: Graph | None = None
    for event in events:
        if isinstance(event, GraphChanged):
            graph = event.graph
    if graph is None or graph.newest.kind is not NodeKind.ANSWER:
        return frozenset()
    return leading({node.id: node.parents for node in graph.nodes}, graph.newest.id)
