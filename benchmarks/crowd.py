"""Questions at once over one agent, beside one after the other: the same questions, the same server.

The model's server is a real one over HTTP with scripted replies, at the pace of a small model on a GPU that
has room for many: 200 ms to the first token, 20 ms between pieces. Search, pictures and messages are ours
in both. What is compared is questions a second by the clock.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.table import Comparison, compared, show
from tests.chat_server import Asked, ChatServer, Say
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.chat import ChatPolicy
from vrag.chat import OpenAIChat
from vrag.model_profiles import PROFILES
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from vrag.agent.method import Method

__all__ = ["main"]

QUESTIONS = 64
ALONE = 4
"""Of them, asked one after the other: the rest would take as long each."""
RUNS = 3
FIRST, BETWEEN = 0.2, 0.02
"""Seconds to the first piece of a reply, and from one to the next."""


def vrag_reply(asked: Asked) -> Say:
    """Search, crop, answer."""
    said = (
        "<think>It needs looking up.</think><search>ferry passengers</search>",
        "<think>A closer look.</think><bbox>[0, 0, 266, 120]</bbox>",
        "<think>Seen.</think><answer>48,200</answer>",
    )[asked.turn]
    return Say(said, pause=BETWEEN, first=FIRST)


def vimrag_reply(asked: Asked) -> Say:
    """Search, memorise, answer."""
    if '"summary":"The' in asked.text:
        return _call("add_answer_node", parent_ids=["node"], answer="48,200")
    if asked.turn == 0:
        return _call("add_search_node", id="node", parent_ids=["root"], query="ferry passengers")
    labels = [
        label for label in ("Text 1", "Picture 1", "Picture 2", "Picture 3") if f"{label}" in asked.text
    ]
    notes = [{"information_id": one, "is_useful": one != "Text 1", "priority_score": 3} for one in labels]
    return _call("summarize_and_memorize", summarize="The report says 48,200.", memorize=notes)


def _call(name: str, **arguments: object) -> Say:
    call = json.dumps({"name": name, "arguments": arguments})
    return Say(f"<think>So.</think><tool_call>{call}</tool_call>", pause=BETWEEN, first=FIRST, piece=40)


async def _asked(agent: Agent, number: int, at_once: bool) -> float:
    """Seconds that so many questions take."""
    begun = time.perf_counter()
    if at_once:
        runs = await asyncio.gather(*(agent.arun(f"Question {n}?") for n in range(number)))
    else:
        runs = [await agent.arun(f"Question {n}?") for n in range(number)]
    taken = time.perf_counter() - begun
    await agent.aclose()
    assert all(run.answer == "48,200" for run in runs), [run.failure for run in runs if not run.answer]
    return taken


def main() -> list[Comparison]:
    """Both agents, both ways, in turn."""
    rows: list[Comparison] = []
    methods: tuple[tuple[Method, object], ...] = ((VragMethod(), vrag_reply), (Vimrag(), vimrag_reply))
    for method, script in methods:
        with ChatServer(script) as server:  # pyright: ignore[reportArgumentType] - a function of what is asked
            policy = ChatPolicy(OpenAIChat(server.url, "scripted"))
            environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))
            agent = Agent(policy, environment, method)
            asyncio.run(_asked(agent, 2, at_once=True))
            crowd: list[float] = []
            alone: list[float] = []
            for _ in range(RUNS):
                crowd.append(QUESTIONS / asyncio.run(_asked(agent, QUESTIONS, at_once=True)))
                alone.append(ALONE / asyncio.run(_asked(agent, ALONE, at_once=False)))
        name = f"crowd: {method.name}, {QUESTIONS} questions at once / one after the other"
        rows.append(compared(name, statistics.median(crowd), statistics.median(alone), "questions/s", RUNS))
    return rows


if __name__ == "__main__":
    show(main())
