"""Training in one process, on a CPU or one GPU: by reinforcement, and supervised by recorded runs.

Rollouts go through the same agent and the same environment as serving. With `together` (the default) a
training can be repeated bit by bit, and resumes from a checkpoint as if it had never stopped: randomness
is seeded by run, step, case and sample, and batches are joined at a barrier. This holds on the same
machine, with the same libraries and number of threads, on a CPU; for CUDA see `vrag.rl.checkpoints`. Without
it, runs advance on their own; no rollout is lost or counted twice, but batches, and so last bits, differ
from time to time. Supervised batches are drawn by seed and step, and so always repeatable in this sense.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.agent import Agent
from vrag.agent.policy import Policy
from vrag.errors import TrainingError
from vrag.reward.reward import Scorer
from vrag.rl.advantages import GgpoOptions, batch_credit, group_advantages
from vrag.rl.checkpoints import Checkpoints, SavedCheckpoint, in_turn
from vrag.rl.kept_rollouts import KeptRollouts
from vrag.rl.losses import LossOptions, RatioKind
from vrag.rl.metrics import MetricsFile
from vrag.rl.model import TrainableModel
from vrag.rl.rows import Row, RunRows, credit_of, rows_of
from vrag.rl.scored_rollouts import (
    RolloutOptions,
    ScoredRollout,
    ScoredRollouts,
    mean_behaviour,
    mean_evaluation,
    mean_rewards,
)
from vrag.rl.sft_dataset import vocabulary_of
from vrag.rl.update import TrainBatch, UpdateOptions, Updates
from vrag.rollouts.rollout import attempts_of
from vrag.types import Case

Algorithm: TypeAlias = Literal["grpo", "ggpo", "ggpo-permuted"]
_STOP_MEASURE = "eval/accuracy"
"""The measure of `stop_at`."""
FOUND_MEASURE = "eval/reward/retrieval"
"""The measure of `until_found`."""
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


class RlOptions(BaseModel):
    """The options of reinforcement learning."""

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
    truncate: float | None = Field(
        default=None, gt=0, description="Bound of importance weights, trainer over sampler; none: no weights."
    )
    batch: int = Field(default=64, ge=1, description="Maximum of replies in a batch.")
    evaluate_every: int = Field(default=10, ge=1, description="Steps from one evaluation to the next.")
    evaluate_samples: int = Field(default=1, ge=1, description="Rollouts of a held-out question.")
    evaluate_temperature: float = Field(default=0.0, ge=0, description="Of those; 0: without sampling.")
    save_every: int = Field(default=10, ge=1, description="Steps from one checkpoint to the next.")
    stop_at: float | None = Field(default=None, gt=0, le=1, description="Held-out accuracy to stop at.")
    keep_every: int = Field(
        default=20,
        ge=0,
        description="Steps between those whose rollouts are kept; the last is, too. 0: none.",
    )
    keep_size: int = Field(default=1000, ge=1, description="Megabytes of kept rollouts at most.")
    update: UpdateOptions = Field(default_factory=UpdateOptions)

    @property
    def sampling(self) -> RolloutOptions:
        """The options of rollouts."""
        names = RolloutOptions.model_fields
        return RolloutOptions(**{name: getattr(self, name) for name in names})

    @property
    def credit(self) -> GgpoOptions:
        """The rules of credit: no masks for GRPO."""
        graph = self.algorithm != "grpo"
        permute = self.algorithm == "ggpo-permuted"
        penalty = (GgpoOptions().penalty if graph else 0.0) if self.penalty is None else self.penalty
        return GgpoOptions(penalty=penalty, dead_ends=graph, evidence=graph, permute=permute)

    @property
    def loss(self) -> LossOptions:
        """The options of the loss."""
        return LossOptions(kind=self.ratio, kl=self.kl, entropy=self.entropy, truncate=self.truncate)


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step."""

    step: int
    values: Mapping[str, float]
    """Its measures; see `vrag.rl.metrics.TrainingMetrics`."""


@dataclass(slots=True, eq=False)
class LocalTrainer:
    """Trains a network on cases. See `train`."""

    network: TrainableModel
    agent: Callable[[Policy], Agent]
    """Makes the agent of a policy: method, environment and limits as in serving."""
    scorer: Scorer
    cases: Sequence[Case]
    held_out: Sequence[Case]
    """For the evaluation, by default without sampling; none for no evaluation."""
    options: RlOptions
    checkpoints: Checkpoints
    metrics: MetricsFile
    reference: TrainableModel | None = None
    """The initial model; needed where `kl` is above 0."""
    kept: KeptRollouts | None = None
    """Where rollouts are kept; None for none."""
    updates: Updates = field(init=False)
    rollouts: ScoredRollouts = field(init=False)
    _made: dict[bool, Sequence[ScoredRollout]] = field(
        init=False, default_factory=dict[bool, "Sequence[ScoredRollout]"]
    )
    """The rollouts of the latest step, by whether they are held out."""

    def __post_init__(self) -> None:
        if not self.cases:
            raise TrainingError("There are no cases to train on.", "Use a data set with some.")
        if self.options.kl and self.reference is None:
            raise TrainingError(
                "`kl` needs a reference model.",
                "Pass the initial model as `reference`, or set `kl` to 0.",
            )
        self.updates = Updates(self.network, self.options.update)
        self.rollouts = ScoredRollouts(self.network, self.agent, self.scorer, self.options.sampling)

    async def train(self, begun: SavedCheckpoint | None) -> AsyncGenerator[StepResult, None]:
        """Make the remaining steps, and yield each when it is done and, where it is due, saved.

        `begun` is the checkpoint to resume from, with which the network was opened; None for a new training.
        """
        step = 0
        if begun is None:
            first = await self._write_step(0, {}, evaluate=True)
            self._keep_rollouts(0, last=False)
            yield first
        else:
            self.checkpoints.restore(begun, self.updates)
            step = begun.step
            if self._is_enough(begun.state):
                return
        while step < self.options.steps:
            step += 1
            values = await self._make_step(step)
            last = step == self.options.steps
            due = last or step % self.options.evaluate_every == 0
            done = await self._write_step(step, values, evaluate=due)
            stop = self._is_enough(done.values)
            self._keep_rollouts(step, last=last or stop)
            if last or stop or step % self.options.save_every == 0:
                state = {name: value for name, value in done.values.items() if name == _STOP_MEASURE}
                self.checkpoints.save(step, self.network, self.updates, state)
            yield done
            if stop:
                return

    async def _write_step(self, step: int, values: dict[str, float], *, evaluate: bool) -> StepResult:
        """Write the measures of a step, with an evaluation where it is due."""
        if evaluate and self.held_out:
            scored = self._made[True] = await self.rollouts.evaluate(
                self.held_out, self.options.evaluate_samples, self.options.evaluate_temperature
            )
            values |= mean_evaluation(scored)
        if values:
            self.metrics.write(step, values)
        return StepResult(step, values)

    def _keep_rollouts(self, step: int, *, last: bool) -> None:
        """Keep the rollouts of a step where it is due."""
        made, self._made = self._made, {}
        every = self.options.keep_every
        if self.kept is not None and every and (last or step % every == 0):
            for held_out, scored in made.items():
                pairs = [(result.rollout, result.reward) for result in scored]
                self.kept.keep(step, pairs, held_out=held_out)

    def _is_enough(self, values: Mapping[str, float]) -> bool:
        bound = self.options.stop_at
        return bound is not None and values.get(_STOP_MEASURE, 0.0) >= bound

    async def _make_step(self, step: int) -> dict[str, float]:
        """Make rollouts, rewards, advantages, and an update."""
        began = time.perf_counter()
        options = self.options
        attempts = attempts_of(self._draw(step), options.group)
        scored = self._made[False] = await self.rollouts.make(attempts, options.temperature, step)
        rolled = time.perf_counter()
        vocabulary = vocabulary_of(self.network)
        rows = [rows_of(result.rollout.events, result.rollout.files, vocabulary) for result in scored]
        train_batch, masked = self._build_train_batch(scored, rows, step)
        files = {name: data for result in scored for name, data in result.rollout.files.items()}
        values = mean_rewards(scored) | mean_behaviour(scored) | masked
        values |= {"dropped": float(sum(len(made.dropped) for made in rows))}
        if train_batch.rows:
            values |= await asyncio.to_thread(
                self.updates.improve,
                train_batch,
                files,
                options.loss,
                temperature=options.temperature,
                reference=self.reference,
            )
        now = time.perf_counter()
        return values | {
            "seconds": now - began,
            "seconds/rollouts": rolled - began,
            "seconds/update": now - rolled,
            "tokens_per_second/rollouts": values["tokens"] * len(scored) / (rolled - began),
            "tokens_per_second/update": values.pop("computed", 0.0) / (now - rolled),
        }

    def _draw(self, step: int) -> list[Case]:
        return in_turn(self.cases, step, self.options.questions, (self.options.seed, 1))

    def _build_train_batch(
        self, scored: Sequence[ScoredRollout], rows: Sequence[RunRows], step: int
    ) -> tuple[TrainBatch, dict[str, float]]:
        """Return the rows of a step with their advantages, and the share of masked segments."""
        options = self.options
        rewards = [
            np.nan if result.reward.total is None or not made.rows else result.reward.total
            for result, made in zip(scored, rows, strict=True)
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


class SftOptions(BaseModel):
    """The options of supervised training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(default=100, ge=1, description="Updates of the weights.")
    batch: int = Field(default=16, ge=1, description="Rows of a step.")
    seed: int = Field(default=0, ge=0)
    save_every: int = Field(default=50, ge=1, description="Steps from one checkpoint to the next.")
    evaluate_every: int = Field(default=50, ge=1, description="Steps from one evaluation to the next.")
    until_found: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Retrieval reward on held-out cases at which the model is taught.",
    )
    update: UpdateOptions = Field(default_factory=lambda: UpdateOptions(lr=1e-5))


@dataclass(slots=True, eq=False)
class SupervisedTrainer:
    """Trains a network on the replies of recorded runs. See `train`."""

    network: TrainableModel
    rows: Sequence[Row]
    files: Mapping[str, bytes]
    """Images of the rows, `<sha256>.jpg`."""
    options: SftOptions
    checkpoints: Checkpoints
    metrics: MetricsFile
    evaluate: Callable[[], Mapping[str, float]] | None = None
    """Measures the model by its rollouts of held-out cases; needed where `until_found` is set."""
    updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        if not self.rows:
            raise TrainingError("There are no rows to learn from.", "Record others: vrag data demonstrate.")
        if self.options.until_found is not None and self.evaluate is None:
            raise TrainingError(
                "`until_found` needs held-out cases.", "Pass `evaluate`, or leave `until_found` out."
            )
        self.updates = Updates(self.network, self.options.update)

    def train(self, begun: SavedCheckpoint | None) -> Generator[tuple[int, Mapping[str, float]], None, None]:
        """Make the remaining steps, and yield each with its measures.

        With `until_found`, the training ends at the first evaluation that reaches it: what was to be learned
        is measured, since the number of steps that it takes differs by machine and seed.

        `begun` is the checkpoint to resume from, with which the network was opened; None for a new training.
        Raises `TrainingError` if the steps end before `until_found` is reached.
        """
        step, state = 0, {}
        if begun is not None:
            self.checkpoints.restore(begun, self.updates)
            step, state = begun.step, begun.state
        while not self._is_taught(state) and step < self.options.steps:
            step += 1
            began = time.perf_counter()
            values = self.updates.learn(self._draw(step), self.files)
            seconds = time.perf_counter() - began
            values |= {"seconds": seconds, "tokens_per_second/update": values.pop("computed") / seconds}
            last = step == self.options.steps
            if self.evaluate is not None and (last or step % self.options.evaluate_every == 0):
                values |= self.evaluate()
            state = {name: value for name, value in values.items() if name == FOUND_MEASURE}
            self.metrics.write(step, values)
            if last or self._is_taught(state) or step % self.options.save_every == 0:
                self.checkpoints.save(step, self.network, self.updates, state)
            yield step, values
        self._check_taught(state)

    def _is_taught(self, state: Mapping[str, float]) -> bool:
        bound = self.options.until_found
        return bound is not None and state.get(FOUND_MEASURE, 0.0) >= bound

    def _check_taught(self, state: Mapping[str, float]) -> None:
        if self.options.until_found is None or self._is_taught(state):
            return
        found = state.get(FOUND_MEASURE, 0.0)
        raise TrainingError(
            f"After {self.options.steps} steps the model's own searches find {found:.0%} of the pages of "
            f"held-out questions; {self.options.until_found:.0%} are wanted.",
            "The same command with more --steps continues. More demonstrations or another --lr may help.",
        )

    def _draw(self, step: int) -> list[Row]:
        return in_turn(self.rows, step, self.options.batch, (self.options.seed, 4))
