"""The advantages of a batch of verl's rows: by trajectory (GRPO) or by node (GGPO).

Two traps of verl 0.9.1 are gone round. Its `grpo` gives a group of one its raw reward, and one whose rewards
hardly differ their rounding errors: both are 0 here. Every other estimator of verl takes rows for
trajectories, so that long ones dominate their group: here each session counts once.

A row with mu = 1 gets the advantage 0 and keeps its mask: it counts in the mean, and verl reads masks in more
places than it would tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.rl.objectives.ggpo import segment_advantages
from vrag.rl.objectives.grpo import group_advantages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["BatchCredit", "RolloutSessions", "batch_credit", "sessions_of"]


@dataclass(frozen=True, slots=True, eq=False)
class RolloutSessions:
    """To which rollout each row belongs, from verl's keys `{uid}_{session}_{index}`."""

    of_row: NDArray[np.int64]
    """Number of the rollout of each row, shape (rows,); -1 for padding."""
    group: NDArray[np.int64]
    """Number of the question of each rollout, shape (rollouts,)."""
    last: NDArray[np.int64]
    """The last row of each rollout, shape (rollouts,): verl scores that one."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchCredit:
    """What the rows of a batch are trained with."""

    advantages: NDArray[np.float64]
    """Shape (rows,); 0 for padding."""
    masked: NDArray[np.bool_]
    """Where there is no gradient, neither of the advantage nor of the KL term, shape (rows,)."""
    metrics: Mapping[str, float]


def sessions_of(keys: Sequence[str], padding: Sequence[bool]) -> RolloutSessions:
    """Sorts rows by rollout.

    Args:
        keys: Of the rows, in the order of the batch.
        padding: Which rows fill up the batch and are nobody's.

    Raises:
        ValueError: If a key has another form.
    """
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
    """The advantage of every row.

    Args:
        sessions: See `sessions_of`.
        rewards: Of each row, shape (rows,); of a rollout the one of its last row counts.
        rows: What `outputs` says of each row: `masked`, `invalid`; None for padding.
        nodes: Whether credit is given by node (GGPO); otherwise `masked` and `invalid` say nothing (GRPO).
        penalty: c of GGPO.
        scale: Whether to divide by the deviation of the group: `norm_adv_by_std_in_grpo`.
    """
    outcomes = group_advantages(rewards[sessions.last], sessions.group, scale=scale)
    real = sessions.of_row >= 0
    spread = np.zeros(len(rows), np.float64)
    spread[real] = outcomes[sessions.of_row[real]]
    masked = np.array([nodes and bool(row and row["masked"]) for row in rows], np.bool_) & real
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
