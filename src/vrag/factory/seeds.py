"""Seeds of rollout attempts, so that every run of an experiment can be reproduced."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.agent.policies.local import LocalPolicy
from vrag.factory.agents import open_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.agent.agent import Agent
    from vrag.agent.policy import Policy
    from vrag.rollouts.rollout import RolloutAttempt
    from vrag.settings import Settings

__all__ = ["agent_by_seed", "seed_of"]


def agent_by_seed(settings: Settings, agent: Agent) -> Callable[[RolloutAttempt], Agent]:
    """Return a function from an attempt to its agent, with a seed of its own if the settings have one.

    With one seed for all, every sample of a question would be the same.

    Args:
        settings: The settings of the agent.
        agent: The agent without a seed.
    """
    seed = settings.seed
    if seed is None or not settings.model:
        return lambda _: agent
    return lambda attempt: replace(agent, policy=_policy(settings, agent, seed_of(seed, attempt)))


def seed_of(seed: int, attempt: RolloutAttempt) -> int:
    """Return the seed of an attempt, 0 to 2³¹ - 1; the same for the same seed, case and sample."""
    text = f"{seed}\n{attempt.case.uid}\n{attempt.sample}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4]) >> 1


def _policy(settings: Settings, agent: Agent, seed: int) -> Policy:
    if isinstance(agent.policy, LocalPolicy):
        return agent.policy.seeded(seed)
    return open_policy(settings.model_copy(update={"seed": seed}), agent.environment)
