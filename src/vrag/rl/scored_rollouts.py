"""Rollouts of a network that is trained: sampled in batches, scored, and averaged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.agent import Agent
from vrag.agent.policies.local_model import within_memory
from vrag.agent.policy import Policy
from vrag.reward.reward import Scorer
from vrag.rl.batched_policy import BatchedGenerator
from vrag.rl.generation import SamplingOptions
from vrag.rl.model import TrainableModel
from vrag.rollouts.rollout import Rollout, RolloutAttempt, ScoredRollout, attempts_of, roll_out
from vrag.types import Case

_USE_LESS = "Sample fewer replies at once (--batch), or shorter ones (--max-tokens)."
"""Advice where memory does not suffice."""
MAX_SCORED = 32
"""Rollouts that are scored at once: a judge may be a server."""


class RolloutOptions(BaseModel):
    """The options of rollouts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(default=0, ge=0)
    together: bool = Field(
        default=True,
        description="Join batches at a barrier: repeatable bit by bit, by the same machine and threads.",
    )
    max_tokens: int = Field(default=256, ge=1, description="Tokens of a reply at most.")
    batch: int = Field(default=64, ge=1, description="Maximum of replies in a batch.")


@dataclass(slots=True, eq=False)
class ScoredRollouts:
    """Makes and scores rollouts of a network. A reply ends with the tag that ends its action."""

    network: TrainableModel
    agent: Callable[[Policy], Agent]
    """Makes the agent of a policy: method, environment and limits as in serving."""
    scorer: Scorer
    options: RolloutOptions
    end_tags: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.end_tags = self.agent(BatchedGenerator(self.network, SamplingOptions()).open_handle(())).end_tags

    async def evaluate(
        self, cases: Sequence[Case], samples: int = 1, temperature: float = 0.0
    ) -> list[ScoredRollout]:
        """Make and score rollouts of cases; its random numbers are the same at every step."""
        return await self.make(attempts_of(cases, samples), temperature, 0)

    async def make(
        self, attempts: Sequence[RolloutAttempt], temperature: float, step: int
    ) -> list[ScoredRollout]:
        """Make all attempts and score them, in order; raise `ModelError` if the memory does not suffice."""
        options = self.options
        sampling = SamplingOptions(temperature=temperature, max_tokens=options.max_tokens, stop=self.end_tags)
        generator = BatchedGenerator(self.network, sampling, together=options.together, most=options.batch)
        number = {id(attempt): at for at, attempt in enumerate(attempts)}

        def open_agent(attempt: RolloutAttempt) -> Agent:
            return self.agent(generator.open_handle((options.seed, 2, step, number[id(attempt)])))

        slots = asyncio.Semaphore(MAX_SCORED)

        async def score(rollout: Rollout) -> ScoredRollout:
            async with slots:
                reward = await self.scorer.score(rollout.attempt.case, rollout.trajectory)
            return ScoredRollout(rollout, reward)

        scoring: dict[int, asyncio.Task[ScoredRollout]] = {}
        size = options.batch if options.together else max(len(attempts), 1)
        try:
            for start in range(0, len(attempts), size):
                chunk = attempts[start : start + size]
                generator.expect(len(chunk))
                async with aclosing(roll_out(chunk, open_agent, concurrency=options.batch)) as rollouts:
                    async for rollout in rollouts:
                        generator.leave()
                        scoring[number[id(rollout.attempt)]] = asyncio.create_task(score(rollout))
                # A fault of the machine: runs without replies teach nothing.
                if generator.fault is not None:
                    with within_memory("the rollouts", _USE_LESS):
                        raise generator.fault
            return [await scoring[at] for at in range(len(attempts))]
        finally:
            for task in scoring.values():
                task.cancel()
            generator.close()


def mean_rewards(scored: Sequence[ScoredRollout]) -> dict[str, float]:
    """Average the rewards that are not missing."""
    given = [result.reward for result in scored if result.reward.total is not None]
    values: dict[str, float] = {"missing": float(len(scored) - len(given))}
    if not given:
        return values
    values["reward"] = sum(reward.total or 0.0 for reward in given) / len(given)
    values["accuracy"] = sum(bool(reward.correct) for reward in given) / len(given)
    for name in given[0].parts:
        parts = [part for reward in given if (part := reward.parts[name]) is not None]
        if parts:
            values[f"reward/{name}"] = sum(parts) / len(parts)
    return values


def mean_evaluation(scored: Sequence[ScoredRollout]) -> dict[str, float]:
    """Average the rewards of an evaluation: `eval/accuracy`, `eval/reward`, its parts."""
    return {f"eval/{name}": value for name, value in mean_rewards(scored).items()}


def mean_behaviour(scored: Sequence[ScoredRollout]) -> dict[str, float]:
    """Average the length of rollouts and the share of invalid actions; count failures."""
    runs = [result.rollout.trajectory for result in scored]
    calls = sum(len(run.steps) for run in runs)
    tokens = sum(run.usage.completion_tokens or 0 for run in runs)
    return {
        "calls": calls / max(len(runs), 1),
        "tokens": tokens / max(len(runs), 1),
        "invalid": sum(step.invalid is not None for run in runs for step in run.steps) / max(calls, 1),
        "failed": float(sum(result.rollout.failure is not None for result in scored)),
    }
