"""Events as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from vrag.agent.events import GraphChanged
from vrag.render.graph_drawing import drawing_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from vrag.agent.events import Event
    from vrag.agent.memory.memory_graph import Graph, RememberedItem
    from vrag.agent.runs.run_store import RunState

__all__ = ["BEAT", "BEAT_SECONDS", "drawing_json", "end_frame", "event_frame", "with_beats"]

BEAT = b": beat\n\n"
"""A comment, so that nothing in between takes the connection for dead."""
BEAT_SECONDS = 15.0
_DRAWINGS = 512
"""That are remembered: all who follow a run are sent the same, and so are those who look at it again."""


def event_frame(event: Event) -> bytes:
    """An event under its `seq`; before one that changes the graph, the drawing of it.

    The drawing has no id and stands first: whoever resumes after an event has had its drawing, too.
    """
    drawing = b""
    if isinstance(event, GraphChanged):
        drawing = (
            b"event: drawing\ndata: "
            + _drawn(_Drawn(event.run_id, event.seq, event.ts, event.graph))
            + b"\n\n"
        )
    return drawing + f"id: {event.seq}\ndata: {event.model_dump_json()}\n\n".encode()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A graph, known by the event that has it: events do not change."""

    run: str
    seq: int
    ts: float
    graph: Graph = field(compare=False)


@lru_cache(_DRAWINGS)
def _drawn(of: _Drawn) -> bytes:
    return to_json(drawing_json(of.graph))


def end_frame(state: RunState) -> bytes:
    """The last frame: nothing comes any more."""
    return b"event: end\ndata: " + to_json({"state": state}) + b"\n\n"


def drawing_json(graph: Graph) -> dict[str, Any]:
    """A graph as figures; see `vrag.render.graph_drawing`."""
    thumbs = {node.id: sum(map(_is_seen, node.memory)) for node in graph.nodes}
    drawing = drawing_of(graph, thumbs)
    nodes = [
        {
            "id": card.node.id,
            "kind": card.node.kind,
            "title": card.title,
            "query": card.query,
            "summary": card.summary,
            "thumbs": card.thumbs,
            "x": card.place.x,
            "y": card.place.y,
            "width": card.place.width,
            "height": card.place.height,
            "leads": card.leads,
            "pending": card.node.pending,
        }
        for card in drawing.cards
    ]
    edges = [
        {"parent": line.parent, "child": line.child, "path": line.path, "leads": line.leads}
        for line in drawing.lines
    ]
    return {"width": drawing.width, "height": drawing.height, "nodes": nodes, "edges": edges}


def _is_seen(memo: RememberedItem) -> bool:
    """Whether a picture of it is remembered; texts live on in the summary."""
    return memo.useful and not memo.label.startswith("Text")


async def with_beats(
    events: AsyncGenerator[Event, None], seconds: float = BEAT_SECONDS
) -> AsyncGenerator[Event | None, None]:
    """The same events, and None whenever nothing came for some seconds."""
    async with aclosing(events):
        coming: asyncio.Future[Event | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(_next(events))
                done, _ = await asyncio.wait({coming}, timeout=seconds)
                if not done:
                    yield None
                    continue
                event, coming = coming.result(), None
                if event is None:
                    return
                yield event
        finally:
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await coming


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)
