"""Events as server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from vrag.agent.events import GraphChanged, ThoughtDelta
from vrag.agent.memory.memory_graph import Graph
from vrag.agent.runs.run_store import RunState
from vrag.server.runs.sse import end_frame, event_frame, with_beats

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from vrag.agent.events import Event


def _delta(seq: int, text: str = "…") -> ThoughtDelta:
    return ThoughtDelta(run_id="1", seq=seq, ts=1.0, step=1, text=text)


def test_an_event_stands_under_its_number_in_one_line() -> None:
    frame = event_frame(_delta(7, "a\n\ndata: forged\r\nid: 9")).decode()
    assert frame.startswith("data: {")
    assert frame.endswith("}\nid: 7\n\n")
    assert frame.count("\n") == 3
    assert "\r" not in frame


def test_the_drawing_of_a_graph_stands_before_it_and_has_no_number() -> None:
    graph = Graph.of("Who?")
    frame = event_frame(GraphChanged(run_id="1", seq=3, ts=1.0, step=1, graph=graph)).decode()
    drawing, event, rest = frame.split("\n\n")
    assert drawing.startswith("event: drawing\ndata: {")
    assert "id:" not in drawing.split("\n")[0]
    assert event.endswith("\nid: 3")
    assert rest == ""
    figures = json.loads(drawing.split("data: ", 1)[1])
    assert [node["id"] for node in figures["nodes"]] == [node.id for node in graph.nodes]


def test_the_end_says_how_the_run_is() -> None:
    assert end_frame(RunState.INTERRUPTED) == b'event: end\ndata: {"state":"interrupted"}\n\n'


def test_beats_come_while_nothing_happens_and_lose_no_event() -> None:
    go = asyncio.Event()

    async def slow() -> AsyncGenerator[Event, None]:
        yield _delta(0)
        await go.wait()
        yield _delta(1)

    async def told() -> list[int | None]:
        seen: list[int | None] = []
        async for event in with_beats(slow(), 0.01):
            seen.append(event and event.seq)
            if seen.count(None) == 3:
                go.set()
        return seen

    seen = asyncio.run(told())
    assert seen[0] == 0
    assert seen[-1] == 1
    assert seen.count(None) >= 3


def test_whoever_stops_listening_ends_what_is_listened_to() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncGenerator[Event, None]:
        try:
            yield _delta(0)
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def some() -> None:
        events = with_beats(endless(), 0.01)
        await anext(events)
        await anext(events)
        await events.aclose()

    asyncio.run(some())
    assert closed == [True]
