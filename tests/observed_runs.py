"""Runs to observe, in which people, models and documents all say the same secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Delta, FinishReason, Reply, Retry, Tokens
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, ScriptedPolicy, page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.agent.budget import Limits
    from vrag.agent.events import Event
    from vrag.agent.policy import Message, Policy

SECRET = "Xylophone"
"""Stands in all that people, models and documents say."""
SCRIPT = (
    f"<think>{SECRET}</think><search>ferry {SECRET}</search>",
    f"<think>{SECRET}</think><bbox>[0, 0, 400, {SECRET}]</bbox>",
    f"<think>{SECRET}</think><bbox>[0, 0, 400, 60]</bbox>",
    f"<think>{SECRET}</think><answer>48,200 {SECRET}</answer>",
)
CORPUS = MemorySearcher((page(f"{SECRET}.pdf", 1, f"The ferry carried 48,200 {SECRET}"),))
ENVIRONMENT = Environment(CORPUS, PROFILES["qwen2.5-vl"])
SAMPLING = {"model": "qwen", "temperature": 0, "top_p": 0.9, "seed": 7, "max_tokens": 512, "thinking": "on"}


class Telling:
    """A policy that tells its tokens and is asked twice for its first reply."""

    name, sampling = "chat:qwen", SAMPLING

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        if turn == 1:
            yield Retry(f"It said {SECRET}.", 0.5)
        yield Delta(SCRIPT[turn - 1])
        yield Reply(
            SCRIPT[turn - 1], FinishReason.STOP, Tokens(prompt=100 * turn, completion=turn, cached=10)
        )

    async def aclose(self) -> None:
        pass


def run(
    policy: Policy | None = None, environment: Environment = ENVIRONMENT, limits: Limits | None = None
) -> list[Event]:
    agent = Agent(policy or Telling(), environment, VragMethod(), limits)
    return list(agent.stream(f"How many {SECRET}?"))


def ns(ts: float) -> int:
    return round(ts * 1e9)


RUNS = (run(), run(ScriptedPolicy(SCRIPT[:2])))
