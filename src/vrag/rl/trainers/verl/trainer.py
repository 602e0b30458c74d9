"""verl's trainers, `sync` and `separate_async`, with our credit: by trajectory (GRPO) or by node (GGPO).

An advantage estimator of verl sees neither session nor node, so the step that calls it is overridden. Two
traps of verl 0.9.1 are avoided. Its `grpo` gives a group of one its raw reward, and one whose rewards hardly
differ their rounding errors: both are 0 here. Every other estimator of verl takes rows for trajectories, so
that long ones dominate their group: here each session counts once.

A mask of verl is 1 where a token is trained on: the opposite of mu of GGPO. A row with mu = 1 gets the
advantage 0 and keeps verl's mask. So it counts in the mean. Were its mask 0, and it the last row of its
session, verl's `grpo` would give the whole session the advantage 0; and masks edited after the rollout reach
`response_mask`, but not `loss_mask`, by which verl counts tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.errors import TrainingError
from vrag.rl.advantages import group_advantages, mask_applies, segment_advantages
from vrag.rl.trainers.verl import CREDIT, TRAINERS
from vrag.rl.trainers.verl.options import VerlOptions, library, options_of

_BASE = "verl.trainer.ppo.v1.trainer_base"


def register(name: str) -> None:
    """Register one of `TRAINERS` with verl."""
    library(_BASE).register_trainer(name)(trainer_class(name))


def trainer_class(name: str) -> type[Any]:
    """Make a subclass of the trainer of verl that one of `TRAINERS` extends."""
    mode = TRAINERS[name]
    base = library(_BASE).get_trainer_cls(mode)

    class VragTrainer(base):
        """Gives advantages by session, masked by node."""

        def __init__(self, config: Any) -> None:  # noqa: ANN401
            self.options = options_of(config)
            config.trainer.v1.trainer_mode = mode  # verl finds the options and the buffer of a trainer by it
            parent: Any = super()
            parent.__init__(config)

        def _balance_batch(self, batch: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
            """Fail with a reason without a single rollout, and do as verl otherwise."""
            if not batch.keys:
                raise TrainingError(
                    "No rollout of this step has a reward.",
                    f"{self.options.records or 'The log'} says why: check the judge and the search server.",
                )
            parent: Any = super()
            return parent._balance_batch(batch, *given, **named)  # noqa: SLF001

        def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:  # noqa: ANN401
            """Replace the advantages of verl's estimator with ours."""
            parent: Any = super()
            batch = parent._compute_advantage(batch, metrics)  # noqa: SLF001
            questions = self.config.data.train_batch_size // self.parameter_sync_step
            wanted = questions * self.config.actor_rollout_ref.rollout.n
            scale = bool(self.config.algorithm.get("norm_adv_by_std_in_grpo", True))
            credit = credited(batch, self.options, scale=scale)
            metrics.update(credit.metrics)
            metrics["vrag/missing"] = float(wanted - credit.metrics["vrag/sessions"])
            return batch

    return VragTrainer


@dataclass(frozen=True, slots=True, eq=False)
class RolloutSessions:
    """The rollout of each row, from verl's keys `{uid}_{session}_{index}`."""

    of_row: NDArray[np.int64]
    """Number of the rollout of each row, shape (rows,); -1 for padding."""
    group: NDArray[np.int64]
    """Number of the question of each rollout, shape (rollouts,)."""
    last: NDArray[np.int64]
    """The last row of each rollout, shape (rollouts,): verl scores that one."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchCredit:
    """Advantages and masks of the rows of a batch."""

    advantages: NDArray[np.float64]
    """Shape (rows,); 0 for padding."""
    masked: NDArray[np.bool_]
    """Mask of rows without a gradient of the advantage or of the KL term, shape (rows,)."""
    metrics: Mapping[str, float]


def sessions_of(keys: Sequence[str], padding: Sequence[bool]) -> RolloutSessions:
    """Group rows by rollout, except padding; raise ValueError if a key has another form."""
    rollouts: dict[tuple[str, str], int] = {}
    groups: dict[str, int] = {}
    of_row = np.full(len(keys), -1, np.int64)
    last: dict[int, tuple[int, int]] = {}
    for row, (key, pads) in enumerate(zip(keys, padding, strict=True)):
        if pads:
            continue
        uid, session, index = key.rsplit("_", 2)
        groups.setdefault(uid, len(groups))
        number = rollouts.setdefault((uid, session), len(rollouts))
        of_row[row] = number
        last[number] = max(last.get(number, (-1, -1)), (int(index), row))
    return RolloutSessions(
        of_row,
        np.array([groups[uid] for uid, _ in rollouts], np.int64),
        np.array([last[number][1] for number in range(len(rollouts))], np.int64),
    )


def batch_credit(
    sessions: RolloutSessions,
    rewards: NDArray[np.float64],
    rows: Sequence[Mapping[str, Any] | None],
    *,
    nodes: bool,
    penalty: float = 0.5,
    scale: bool = True,
) -> BatchCredit:
    """Compute the advantage of every row.

    `sessions` comes from `sessions_of`. `rewards` has shape (rows,); of a rollout the one of its last row
    counts. `rows` are `masked`, `invalid` and `correct` of each row, from `outputs`; None for padding. With
    `nodes`, credit is given by node (GGPO), and `penalty` is its c; otherwise the three are ignored (GRPO).
    `scale` divides by the deviation of the group: verl's `norm_adv_by_std_in_grpo`.
    """
    outcomes = group_advantages(rewards[sessions.last], sessions.group, scale=scale)
    real = sessions.of_row >= 0
    spread = np.zeros(len(rows), np.float64)
    spread[real] = outcomes[sessions.of_row[real]]
    masked = np.zeros(len(rows), np.bool_)
    for number, row in enumerate(rows):
        if nodes and row and row["masked"]:
            masked[number] = mask_applies(spread[number], correct=row["correct"])
    invalid = np.array([bool(row and row["invalid"]) for row in rows], np.bool_) & real
    advantages = segment_advantages(spread, masked, invalid, penalty=penalty) if nodes else spread
    count = max(1, int(real.sum()))
    return BatchCredit(
        advantages,
        masked,
        {
            "vrag/sessions": float(len(sessions.group)),
            "vrag/rows": float(real.sum()),
            "vrag/masked": float(masked.sum()) / count,
            "vrag/invalid": float(invalid.sum()) / count,
            "vrag/without_signal": float((outcomes == 0).mean()) if len(outcomes) else 0.0,
        },
    )


def credited(batch: Any, options: VerlOptions, *, scale: bool = True) -> BatchCredit:  # noqa: ANN401
    """Put our advantages for the rows of a batch (a `KVBatchMeta`) into verl's queue.

    Where a row has no gradient, the log-probabilities of the reference become those of the policy before the
    step: the low-variance KL and its gradient are 0 there.
    """
    queue = library("transfer_queue")
    columns = ["response_mask", "rm_scores", "extra_fields", "old_log_probs", "ref_log_prob"]
    data = queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=columns)
    padding = [bool(tag.get("is_padding", False)) for tag in batch.tags]
    extra = [getattr(fields, "data", fields) for fields in data["extra_fields"]]  # tensordict may wrap them
    rows = [None if pads else fields[CREDIT] for pads, fields in zip(padding, extra, strict=True)]
    rewards = np.array([float(scores.sum()) for scores in data["rm_scores"].unbind()])
    credit = batch_credit(
        sessions_of(batch.keys, padding),
        rewards,
        rows,
        nodes=options.credit == "node",
        penalty=options.penalty,
        scale=scale,
    )
    _write(queue, batch, data, credit)
    return credit


def _write(queue: Any, batch: Any, data: Any, credit: BatchCredit) -> None:  # noqa: ANN401
    """Write the advantages, one value for each token that the model sampled."""
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
