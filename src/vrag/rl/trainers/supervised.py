"""Supervised training in one process: rows of recorded runs, in batches drawn by seed and step.

It can be repeated, and resumes from a checkpoint, bit by bit: on the same machine, with the same libraries
and number of threads, on a CPU; for CUDA see `vrag.rl.determinism`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from vrag.errors import TrainingError
from vrag.rl.determinism import in_turn
from vrag.rl.update import UpdateOptions, Updates

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from vrag.rl.checkpoints import Checkpoints, SavedCheckpoint
    from vrag.rl.metrics import MetricsFile
    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import Row


class SftOptions(BaseModel):
    """The options of supervised training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(default=100, ge=1, description="Updates of the weights.")
    batch: int = Field(default=16, ge=1, description="Rows of a step.")
    seed: int = Field(default=0, ge=0)
    save_every: int = Field(default=50, ge=1, description="Steps from one checkpoint to the next.")
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
    updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        if not self.rows:
            raise TrainingError("There are no rows to learn from.", "Record others: vrag data demonstrate.")
        self.updates = Updates(self.network, self.options.update)

    def train(self, begun: SavedCheckpoint | None) -> Generator[tuple[int, Mapping[str, float]], None, None]:
        """Make the remaining steps, and yield each with its measures.

        `begun` is the checkpoint to resume from, with which the network was opened; None for a new training.
        """
        step = 0
        if begun is not None:
            self.checkpoints.restore(begun, self.updates)
            step = begun.step
        while step < self.options.steps:
            step += 1
            began = time.perf_counter()
            values = self.updates.learn(self._draw(step), self.files)
            seconds = time.perf_counter() - began
            values |= {"seconds": seconds, "tokens_per_second/update": values.pop("computed") / seconds}
            self.metrics.write(step, values)
            if step == self.options.steps or step % self.options.save_every == 0:
                self.checkpoints.save(step, self.network, self.updates, {})
            yield step, values

    def _draw(self, step: int) -> list[Row]:
        return in_turn(self.rows, step, self.options.batch, (self.options.seed, 4))
