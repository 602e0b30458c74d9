"""What tests of rollouts share: agents with a script, attempts, and a served model that tells tokens."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chat_server import Asked, Say

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.model_profiles import PROFILES
from vrag.rollouts.rollout import Rollout, RolloutAttempt, roll_out
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from vrag.agent.events import Event
    from vrag.agent.method import Method
    from vrag.agent.policy import Policy

SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search>",
    "<think>Seen.</think><answer>48,200</answer>",
)
"""Of VRAG."""
GRAPH_SCRIPT = tuple(
    f"<think>So.</think>\n<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
    for name, arguments in (
        ("add_search_node", {"id": "found", "parent_ids": ["root"], "query": "ferry passengers"}),
        ("add_answer_node", {"parent_ids": ["root"], "answer": "48,200"}),
    )
)
"""Of VimRAG."""
PROMPT_IDS, IDS, LOGPROBS = (1, 2), (5, 6, 7), (-0.5, -0.25, -0.125)


def case(number: int, query: str = "") -> Case:
    return Case(
        uid=f"c{number}",
        query=query or f"How many, {number}?",
        reference_answer="48,200",
        file_name="ferry.pdf",
    )


def attempts(cases: int, samples: int = 1) -> list[RolloutAttempt]:
    return [
        RolloutAttempt(case=case(number), sample=sample)
        for number in range(cases)
        for sample in range(samples)
    ]


def environment() -> Environment:
    return Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))


def agent_of(policy: Policy, method: Method | None = None) -> Agent:
    return Agent(policy, environment(), method or VragMethod())


def scripted(*replies: str | Exception) -> Agent:
    return agent_of(ScriptedPolicy(replies or SCRIPT))


def graph_scripted() -> Agent:
    return agent_of(ScriptedPolicy(GRAPH_SCRIPT), Vimrag())


@dataclass(frozen=True)
class Raising:
    """An agent whose own code fails after so many events."""

    agent: Agent
    error: BaseException
    after: int = 2

    async def astream(self, *arguments: object, **named: object) -> AsyncGenerator[Event, None]:
        number = 0
        async for event in self.agent.astream(*arguments, **named):  # pyright: ignore[reportArgumentType]
            if number == self.after:
                raise self.error
            number += 1
            yield event


def raising(error: BaseException, after: int = 2) -> Agent:
    return Raising(scripted(), error, after)  # pyright: ignore[reportReturnType]


def number_of(question: str) -> int:
    """Which case asks it."""
    return int(question.rsplit(",", 1)[1].strip(" ?\n"))


def said(asked: Asked, *, first: float = 0.0) -> Say:
    """The script, from a server that tells tokens."""
    return Say(SCRIPT[asked.turn], first=first, prompt_ids=PROMPT_IDS, ids=IDS, logprobs=LOGPROBS)


async def all_of(
    made: Iterable[RolloutAttempt],
    agent: Callable[[RolloutAttempt], Agent],
    concurrency: int = 64,
    seconds: float | None = None,
) -> list[Rollout]:
    rolling = roll_out(made, agent, concurrency=concurrency, seconds=seconds)
    return [rollout async for rollout in rolling]


def rolled(
    made: Iterable[RolloutAttempt],
    agent: Callable[[RolloutAttempt], Agent],
    concurrency: int = 64,
    seconds: float | None = None,
) -> list[Rollout]:
    """As they finished."""
    return asyncio.run(all_of(made, agent, concurrency, seconds))
