"""verl's synchronous trainer with our credit: by trajectory, or by node.

An advantage estimator of verl sees neither session nor node, so the step that calls it is overridden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.errors import TrainingError
from vrag.rl.trainers.verl import TRAINER
from vrag.rl.trainers.verl.credit import batch_credit, sessions_of
from vrag.rl.trainers.verl.engine import library, options_of
from vrag.rl.trainers.verl.outputs import CREDIT

if TYPE_CHECKING:
    from vrag.rl.trainers.verl.credit import BatchCredit
    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["credited", "register", "trainer_class"]

_BASE = "verl.trainer.ppo.v1.trainer_base"


def register() -> None:
    """Gives verl the trainer by name."""
    library(_BASE).register_trainer(TRAINER)(trainer_class())


def trainer_class() -> type[Any]:
    """A subclass of verl's `PPOTrainerSync`.

    Raises:
        MissingExtra: Without verl.
    """
    base = library("verl.trainer.ppo.v1.trainer_sync").PPOTrainerSync

    class VragTrainer(base):
        """Gives advantages by session, masked by node."""

        def __init__(self, config: Any) -> None:  # noqa: ANN401
            self.options = options_of(config)
            parent: Any = super()
            parent.__init__(config)

        def _build_replay_buffer(self) -> Any:  # noqa: ANN401
            """Verl's own: it takes every trainer that is not called `sync` for an asynchronous one."""
            self.trainer_mode = "sync"
            parent: Any = super()
            return parent._build_replay_buffer()  # noqa: SLF001 - of this class

        def _balance_batch(self, batch: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
            """As verl does; without a single rollout it would fail in a place that says nothing."""
            if not batch.keys:
                raise TrainingError(
                    "No rollout of this step has a reward.",
                    f"{self.options.records or 'The log'} says why: look at the judge and the search server.",
                )
            parent: Any = super()
            return parent._balance_batch(batch, *given, **named)  # noqa: SLF001

        def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:  # noqa: ANN401
            """As verl does, with our advantages in place of those of its estimator."""
            parent: Any = super()
            batch = parent._compute_advantage(batch, metrics)  # noqa: SLF001
            wanted = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
            scale = bool(self.config.algorithm.get("norm_adv_by_std_in_grpo", True))
            credit = credited(batch, self.options, scale=scale)
            metrics.update(credit.metrics)
            metrics["vrag/missing"] = float(wanted - credit.metrics["vrag/sessions"])
            return batch

    return VragTrainer


def credited(batch: Any, options: VerlOptions, *, scale: bool = True) -> BatchCredit:  # noqa: ANN401
    """Puts our advantages into verl's queue, for the rows of a batch.

    Where a row has no gradient, the log-probabilities of the reference become those of the policy before the
    step: the low-variance KL and its gradient are 0 there.

    Args:
        batch: A `KVBatchMeta`.
        options: How credit is given.
        scale: Whether to divide by the deviation of the group.
    """
    queue = library("transfer_queue")
    fields = ["response_mask", "rm_scores", "extra_fields", "old_log_probs", "ref_log_prob"]
    data = queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    padding = [bool(tag.get("is_padding", False)) for tag in batch.tags]
    extra = [getattr(said, "data", said) for said in data["extra_fields"]]  # bare, or wrapped by tensordict
    rows = [None if pads else said[CREDIT] for pads, said in zip(padding, extra, strict=True)]
    rewards = np.array([float(scores.sum()) for scores in data["rm_scores"].unbind()])
    credit = batch_credit(
        sessions_of(batch.keys, padding),
        rewards,
        rows,
        nodes=options.credit == "node",
        penalty=options.penalty,
        scale=scale,
    )
    _put(queue, batch, data, credit)
    return credit


def _put(queue: Any, batch: Any, data: Any, credit: BatchCredit) -> None:  # noqa: ANN401
    """Writes the advantages, one value for each token that the model sampled."""
    torch, tensordict = library("torch"), library("tensordict")
    masks = list(data["response_mask"].unbind())
    values = zip(masks, credit.advantages.tolist(), strict=True)
    spread = torch.nested.as_nested_tensor(
        [mask.float() * value for mask, value in values], layout=torch.jagged
    )
    fields = {"advantages": spread, "returns": spread}
    if "ref_log_prob" in data.keys() and credit.masked.any():  # noqa: SIM118 - a TensorDict
        both = zip(
            data["old_log_probs"].unbind(), data["ref_log_prob"].unbind(), credit.masked.tolist(), strict=True
        )
        fields["ref_log_prob"] = torch.nested.as_nested_tensor(
            [old if masked else ref for old, ref, masked in both], layout=torch.jagged
        )
    made = tensordict.TensorDict(fields, batch_size=len(batch.keys))
    queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=made)
