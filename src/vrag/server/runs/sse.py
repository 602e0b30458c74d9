"""Events of runs as server-sent events (WHATWG HTML, section 9.2).

FastAPI's `EventSourceResponse` serves only endpoints that are generators: it cannot answer one request with
JSON and another with a stream, as the OpenAI interface does. Its wire format is used, its keep-alive is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from fastapi.sse import format_sse_event
from pydantic_core import to_json

from vrag.agent.events import Event, GraphChanged
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.runs.run_store import RunState
from vrag.render.graph_drawing import drawing_of
from vrag.server.runs.run_queue import QueuePosition

T = TypeVar("T")
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Proxies neither keep nor collect an event stream."""
BEAT = format_sse_event(comment="beat")
"""A comment, so that nothing in between takes the connection for dead."""
RETRY = format_sse_event(retry=1000)


def event_frame(event: Event) -> bytes:
    """Encode an event under its `seq`; before one that changes the graph, the drawing of the graph.

    The drawing has no id and stands first: whoever resumes after an event has had its drawing, too.
    """
    drawing = b""
    if isinstance(event, GraphChanged):
        drawing = _drawing_frame(_GraphVersion(event.run_id, event.seq, event.ts, event.graph))
    return drawing + format_sse_event(id=str(event.seq), data_str=event.model_dump_json())


def queue_frame(place: QueuePosition) -> bytes:
    """Encode the position of a waiting run; without an id: a client that resumes gets the present one."""
    return format_sse_event(event="queue", data_str=to_json(place._asdict()).decode())


def end_frame(state: RunState) -> bytes:
    """Encode the last frame: nothing comes any more."""
    return format_sse_event(event="end", data_str=to_json({"state": state}).decode())


@dataclass(frozen=True, slots=True)
class _GraphVersion:
    """A graph, identified by its event: events do not change."""

    run: str
    seq: int
    ts: float
    graph: Graph = field(compare=False)


@lru_cache(512)  # all who follow a run are sent the same, and so are those who open it again
def _drawing_frame(version: _GraphVersion) -> bytes:
    return format_sse_event(event="drawing", data_str=to_json(drawing_json(version.graph)).decode())


def drawing_json(graph: Graph) -> dict[str, Any]:
    """Describe the drawing of a graph by numbers; see `vrag.render.graph_drawing`."""
    # Pictures that are remembered; texts live on in the summary.
    thumbs = {
        node.id: sum(item.useful and not item.label.startswith("Text") for item in node.memory)
        for node in graph.nodes
    }
    return asdict(drawing_of(graph, thumbs))


async def with_beats(
    events: AsyncGenerator[T, None], seconds: float = 15.0
) -> AsyncGenerator[T | None, None]:
    """Yield the same events, and None whenever nothing came for so many seconds."""
    async with aclosing(events):
        coming: asyncio.Task[T | None] | None = None

        async def next_event() -> T | None:
            return await anext(events, None)

        try:
            while True:
                coming = coming or asyncio.create_task(next_event())
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
