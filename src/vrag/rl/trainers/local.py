"""Reinforcement learning in one process, on a CPU or one GPU: rollouts, rewards, credit, an update, again.

Rollouts go through the same agent and the same environment as serving. With `together` (the default) a
training can be repeated bit by bit, and goes on from a checkpoint as if it had never stopped: what is
random is seeded by run, step, case and sample, and batches are joined at a barrier. This holds on the same
machine, with the same libraries and number of threads, on a CPU; for CUDA see `vrag.rl.determinism`. Without
it, runs advance on their own; no rollout is lost or counted twice, but batches, and so last bits, differ
from time to time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.policies.local_model import within_memory
from vrag.errors import TrainingError
from vrag.rl.batched_policy import BatchedGenerator
from vrag.rl.generation import SamplingOptions
from vrag.rl.objectives.credit import credit_of
from vrag.rl.objectives.ggpo import GgpoOptions, batch_credit
from vrag.rl.objectives.grpo import group_advantages
from vrag.rl.objectives.losses import LossOptions, RatioKind
from vrag.rl.rows import rows_of
from vrag.rl.sampler import in_turn
from vrag.rl.sft_rows import vocabulary_of
from vrag.rl.update import TrainBatch, UpdateOptions, Updates
from vrag.rollouts.rollout import RolloutAttempt, roll_out

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from vrag.agent.agent import Agent
    from vrag.agent.policy import Policy
    from vrag.reward.reward import Reward, Scorer
    from vrag.rl.checkpoints import Checkpoints, SavedCheckpoint
    from vrag.rl.metrics import MetricsFile
    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import Row, RunRows
    from vrag.rollouts.rollout import Rollout
    from vrag.types import Case

__all__ = ["ALGORITHMS", "Algorithm", "LocalTrainer", "RlOptions", "StepResult"]

Algorithm: TypeAlias = Literal["grpo", "ggpo", "ggpo-permuted"]
_BOUNDED = "eval/accuracy"
"""What a training may be stopped at."""
_WRITTEN = "Fewer replies at once (--batch), or shorter ones (--max-tokens)."
"""What to do where memory does not suffice."""
_JUDGED = 32
"""Rollouts that are scored at once, at most: a judge may be a server."""
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


class RlOptions(BaseModel):
    """How a model is trained by reinforcement."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    algorithm: Algorithm = Field(
        default="grpo", description="grpo, ggpo, or ggpo-permuted, a control for studies."
    )
    steps: int = Field(default=100, ge=1, description="Updates of the weights.")
    questions: int = Field(default=8, ge=1, description="Questions of a step.")
    group: int = Field(default=8, ge=2, description="Rollouts of a question.")
    seed: int = Field(default=0, ge=0)
    together: bool = Field(
        default=True,
        description="Join batches at a barrier: repeatable bit by bit, by the same machine and threads.",
    )
    temperature: float = Field(default=1.0, gt=0)
    max_tokens: int = Field(default=256, ge=1, description="Tokens of a reply at most.")
    scale: bool = Field(default=True, description="Divide by the deviation of the group; off: Dr. GRPO.")
    penalty: float | None = Field(
        default=None,
        ge=0,
        description="What a segment with an invalid action costs; none: 0.5, or 0 for grpo.",
    )
    ratio: RatioKind = Field(
        default=RatioKind.TOKEN,
        description="token (PPO) or segment (GSPO); with one update a batch, that of a segment is 1.",
    )
    kl: float = Field(default=0.0, ge=0, description="Weight of the divergence from the model it began as.")
    entropy: float = Field(default=0.0, ge=0, description="Weight of the entropy.")
    batch: int = Field(default=64, ge=1, description="Replies that are written together at most.")
    evaluate_every: int = Field(default=10, ge=1, description="Steps from one evaluation to the next.")
    evaluate_samples: int = Field(default=1, ge=1, description="Rollouts of a held-out question.")
    evaluate_temperature: float = Field(default=0.0, ge=0, description="Of those; 0: without sampling.")
    save_every: int = Field(default=10, ge=1, description="Steps from one checkpoint to the next.")
    stop_at: float | None = Field(default=None, gt=0, le=1, description="Held-out accuracy to stop at.")
    update: UpdateOptions = Field(default_factory=UpdateOptions)

    @property
    def credit(self) -> GgpoOptions:
        """Which masks are in force: none for GRPO."""
        graph = self.algorithm != "grpo"
        permute = self.algorithm == "ggpo-permuted"
        penalty = (GgpoOptions().penalty if graph else 0.0) if self.penalty is None else self.penalty
        return GgpoOptions(penalty=penalty, dead_ends=graph, evidence=graph, permute=permute)

    @property
    def loss(self) -> LossOptions:
        """The loss that goes with it."""
        return LossOptions(kind=self.ratio, kl=self.kl, entropy=self.entropy)


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that is done."""

    step: int
    values: Mapping[str, float]
    """What was measured; see `TrainingMetrics`."""


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredRollout:
    """A rollout and what it earned."""

    rollout: Rollout
    reward: Reward


@dataclass(slots=True, eq=False)
class LocalTrainer:
    """Trains a network on cases. See `train`."""

    network: TrainableModel
    agent: Callable[[Policy], Agent]
    """The agent whose policy that is: method, environment and limits as in serving."""
    scorer: Scorer
    cases: Sequence[Case]
    held_out: Sequence[Case]
    """Asked to evaluate, by default without sampling; none for no evaluation."""
    options: RlOptions
    checkpoints: Checkpoints
    metrics: MetricsFile
    reference: TrainableModel | None = None
    """The model it began as; needed where `kl` is above 0."""
    updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        if not self.cases:
            raise TrainingError("There are no cases to train on.", "Name a data set with some.")
        if self.options.kl and self.reference is None:
            raise TrainingError(
                "A divergence is asked for, and there is nothing to diverge from.",
                "Give the model it began as for `reference`, or no `kl`.",
            )
        self.updates = Updates(self.network, self.options.update)

    async def train(self, begun: SavedCheckpoint | None) -> AsyncGenerator[StepResult, None]:
        """Makes all steps that are left, and yields each when it is done and, in its turn, saved.

        Args:
            begun: The checkpoint to go on from, with which the network was opened; None to begin.
        """
        step = 0
        if begun is None:
            yield await self._measured(0, {})
        else:
            self.checkpoints.restore(begun, self.updates)
            step = begun.step
            if self._is_enough(begun.state):
                return
        while step < self.options.steps:
            step += 1
            values = await self._stepped(step)
            last = step == self.options.steps
            done = await self._measured(
                step, values, evaluate=last or step % self.options.evaluate_every == 0
            )
            stop = self._is_enough(done.values)
            if last or stop or step % self.options.save_every == 0:
                state = {name: value for name, value in done.values.items() if name == _BOUNDED}
                self.checkpoints.save(step, self.network, self.updates, state)
            yield done
            if stop:
                return

    async def evaluate(self, cases: Sequence[Case]) -> dict[str, float]:
        """Means over the rollouts of cases: `eval/accuracy`, `eval/reward`, its parts.

        The chance of an evaluation is the same at every step.
        """
        options = self.options
        samples = range(options.evaluate_samples)
        attempts = [RolloutAttempt(case=case, sample=sample) for case in cases for sample in samples]
        sampling = SamplingOptions(temperature=options.evaluate_temperature, max_tokens=options.max_tokens)
        scored = await self._score_rollouts(attempts, sampling, 0)
        return {f"eval/{name}": value for name, value in _means([one.reward for one in scored]).items()}

    async def _measured(self, step: int, values: dict[str, float], *, evaluate: bool = True) -> StepResult:
        """Writes down a step, with an evaluation where it is due."""
        if evaluate and self.held_out:
            values |= await self.evaluate(self.held_out)
        if values:
            self.metrics.write(step, values)
        return StepResult(step, values)

    def _is_enough(self, values: Mapping[str, float]) -> bool:
        bound = self.options.stop_at
        return bound is not None and values.get(_BOUNDED, 0.0) >= bound

    async def _stepped(self, step: int) -> dict[str, float]:
        """Rollouts, rewards, advantages, an update."""
        began = time.perf_counter()
        options = self.options
        attempts = [
            RolloutAttempt(case=case, sample=sample)
            for case in self._drawn(step)
            for sample in range(options.group)
        ]
        sampling = SamplingOptions(temperature=options.temperature, max_tokens=options.max_tokens)
        scored = await self._score_rollouts(attempts, sampling, step)
        rolled = time.perf_counter()
        rows = [self._rows(one) for one in scored]
        train_batch, masked = self._build_train_batch(scored, rows, step)
        files = {name: data for one in scored for name, data in one.rollout.files.items()}
        values = _means([one.reward for one in scored]) | _habits(scored) | masked
        values |= {"dropped": float(sum(len(made.dropped) for made in rows))}
        if train_batch.rows:
            values |= await asyncio.to_thread(self._improve, train_batch, files)
        now = time.perf_counter()
        return values | {
            "seconds": now - began,
            "seconds/rollouts": rolled - began,
            "seconds/update": now - rolled,
            "tokens_per_second/rollouts": values["tokens"] * len(scored) / (rolled - began),
            "tokens_per_second/update": values.pop("computed", 0.0) / (now - rolled),
        }

    def _improve(self, train_batch: TrainBatch, files: Mapping[str, bytes]) -> dict[str, float]:
        options = self.options
        return self.updates.improve(
            train_batch, files, options.loss, temperature=options.temperature, reference=self.reference
        )

    def _drawn(self, step: int) -> list[Case]:
        """The questions of a step."""
        return in_turn(self.cases, step, self.options.questions, (self.options.seed, 1))

    async def _score_rollouts(
        self, attempts: Sequence[RolloutAttempt], sampling: SamplingOptions, step: int
    ) -> list[_ScoredRollout]:
        """All attempts with their rewards, in their order.

        Raises:
            ModelError: If the memory does not suffice to write; other faults of writing as they are.
        """
        options = self.options
        generator = BatchedGenerator(self.network, sampling, together=options.together, most=options.batch)
        number = {id(attempt): at for at, attempt in enumerate(attempts)}

        def active_handles(attempt: RolloutAttempt) -> Agent:
            return self.agent(generator.open_handle((options.seed, 2, step, number[id(attempt)])))

        places = asyncio.Semaphore(_JUDGED)

        async def judged(rollout: Rollout) -> _ScoredRollout:
            async with places:
                return _ScoredRollout(
                    rollout, await self.scorer.score(rollout.attempt.case, rollout.trajectory)
                )

        judging: dict[int, asyncio.Task[_ScoredRollout]] = {}
        try:
            for chunk in _chunks(attempts, options.batch if options.together else len(attempts)):
                generator.expect(len(chunk))
                async with aclosing(roll_out(chunk, active_handles, concurrency=options.batch)) as rollouts:
                    async for rollout in rollouts:
                        generator.leave()
                        judging[number[id(rollout.attempt)]] = asyncio.create_task(judged(rollout))
                # A fault of the machine: nothing is to be learned of runs without replies.
                if generator.fault is not None:
                    with within_memory("the rollouts", _WRITTEN):
                        raise generator.fault
            return [await judging[at] for at in range(len(attempts))]
        finally:
            for task in judging.values():
                task.cancel()
            generator.close()

    def _rows(self, scored: _ScoredRollout) -> RunRows:
        return rows_of(scored.rollout.events, scored.rollout.files, vocabulary_of(self.network))

    def _build_train_batch(
        self, scored: Sequence[_ScoredRollout], rows: Sequence[RunRows], step: int
    ) -> tuple[TrainBatch, dict[str, float]]:
        """What the rows of a step are worth, and the share of segments that the graph masked."""
        options = self.options
        rewards = [
            np.nan if one.reward.total is None or not made.rows else one.reward.total
            for one, made in zip(scored, rows, strict=True)
        ]
        groups = [at // options.group for at in range(len(scored))]
        outcomes = group_advantages(rewards, groups, scale=options.scale)
        kept = [at for at, reward in enumerate(rewards) if not np.isnan(reward)]
        credited = batch_credit(
            outcomes[kept],
            [credit_of(scored[at].rollout.events, scored[at].rollout.attempt.case) for at in kept],
            [scored[at].reward.correct for at in kept],
            options=options.credit,
            random=np.random.default_rng((options.seed, 3, step)),
        )
        taken: list[Row] = []
        advantages: list[float] = []
        masked: list[bool] = []
        units: list[int] = []
        segments = 0
        for at, credit in zip(kept, credited, strict=True):
            for row in rows[at].rows:
                taken.append(row)
                advantages.append(float(credit.advantages[row.segment]))
                masked.append(bool(credit.masked[row.segment]))
                units.append(at if options.algorithm == "grpo" else segments + row.segment)
            segments += len(credit.masked)
        count = len(kept) if options.algorithm == "grpo" else segments
        share = float(sum(credit.masked.sum() for credit in credited)) / max(segments, 1)
        train_batch = TrainBatch(
            taken, np.array(advantages), np.array(masked, bool), np.array(units, int), count
        )
        return train_batch, {"masked": share}


def _chunks(attempts: Sequence[RolloutAttempt], size: int) -> Iterable[Sequence[RolloutAttempt]]:
    return (attempts[at : at + size] for at in range(0, len(attempts), size))


def _means(rewards: Sequence[Reward]) -> dict[str, float]:
    """Means over the rewards that are there."""
    given = [reward for reward in rewards if reward.total is not None]
    values: dict[str, float] = {"missing": float(len(rewards) - len(given))}
    if not given:
        return values
    values["reward"] = sum(reward.total or 0.0 for reward in given) / len(given)
    values["accuracy"] = sum(bool(reward.correct) for reward in given) / len(given)
    for name in given[0].parts:
        parts = [part for reward in given if (part := reward.parts[name]) is not None]
        if parts:
            values[f"reward/{name}"] = sum(parts) / len(parts)
    return values


def _habits(scored: Sequence[_ScoredRollout]) -> dict[str, float]:
    """How long rollouts are, how often an action is invalid, how many failed."""
    runs = [one.rollout.trajectory for one in scored]
    calls = sum(len(run.steps) for run in runs)
    tokens = sum(run.usage.completion_tokens or 0 for run in runs)
    return {
        "calls": calls / max(len(runs), 1),
        "tokens": tokens / max(len(runs), 1),
        "invalid": sum(step.invalid is not None for run in runs for step in run.steps) / max(calls, 1),
        "failed": float(sum(one.rollout.failure is not None for one in scored)),
    }
