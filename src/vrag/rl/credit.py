"""Segments of a recorded trajectory, for graph-guided credit.

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
from vrag.rl.advantages import Segment, TrajectoryCredit, leading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.events import Event
    from vrag.types import Case


_ANSWERED = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
"""Ends with an answer; abstaining is one."""
_STRUCTURAL = frozenset({NodeKind.ROOT, NodeKind.ANSWER})


def segment_numbers(events: Sequence[Event]) -> Mapping[int, int]:
    """Number the segment, from 0, of each step in which the model replied.

    The call that completes a node belongs to the segment of that node, with its observations; the next one
    sees the new context.
    """
    ends = _ends(events)
    return {event.step: bisect_left(ends, event.step) for event in events if isinstance(event, ModelCalled)}


def credit_of(events: Sequence[Event], case: Case) -> TrajectoryCredit:
    """Return the segments of a run and the nodes on which its answer rests.

    `node` is the node that a segment added to the graph, also where an earlier action of it was invalid.
    `found` is about the hits of its searches, never about memory; it is False throughout for a case without
    gold pages, whose R_val is unknown. A refused search has no hits.

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
    known: set[str] = set()
    segments = tuple(_segment(own_events, known, case) for own_events in by_segment)
    graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
    if not graphs or graphs[-1].newest.kind is not NodeKind.ANSWER:
        return TrajectoryCredit(segments)
    graph = graphs[-1]
    parents = {node.id: node.parents for node in graph.nodes}
    return TrajectoryCredit(segments, leading(parents, graph.newest.id))


def _ends(events: Sequence[Event]) -> list[int]:
    """The steps after which the context was rebuilt, in order."""
    return [event.step for event in events if isinstance(event, MemoryUpdated)]


def _segment(events: Sequence[Event], known: set[str], case: Case) -> Segment:
    """Summarize a segment; the nodes that it added to the graph join `known`."""
    graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
    new = [node for node in graphs[-1].nodes if node.id not in known] if graphs else []
    known.update(node.id for node in new)
    hits = (hit for event in events if isinstance(event, SearchReturned) for hit in event.hits)
    answered = (event.stop_reason in _ANSWERED for event in events if isinstance(event, AnswerGiven))
    repaired = any(Flag.REPAIRED in event.flags for event in events if isinstance(event, ModelCalled))
    return Segment(
        node=next((node.id for node in new if node.kind not in _STRUCTURAL), None),
        answers=any(node.kind is NodeKind.ANSWER for node in new) or any(answered),
        found=any(is_gold(hit, case) for hit in hits),
        invalid=repaired or any(isinstance(event, InvalidAction) for event in events),
    )
