"""Runs of VimRAG, and what they came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_scripts import events_of, memorizes, note, of, searches

from vrag.agent.events import AnswerGiven, GraphChanged
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.environment import Environment
    from vrag.agent.events import Event
    from vrag.agent.memory.memory_graph import Graph

METHOD = Vimrag()
WITHOUT_CROPS = Vimrag(memory=MemoryOptions(crop_nodes=False))
SEARCH = searches("report")
"""Finds, in this order: a text, page 2 as Picture 1, page 1 as Picture 2."""
KEEP = memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 2))


def said(*replies: str, method: Vimrag = METHOD, where: Environment | None = None) -> list[Event]:
    return events_of(method, *replies, where=where)[0]


def end_of(events: Sequence[Event]) -> AnswerGiven:
    assert isinstance(events[-1], AnswerGiven), events[-1]
    return events[-1]


def graph_of(events: Sequence[Event]) -> Graph:
    return of(GraphChanged, events)[-1].graph
