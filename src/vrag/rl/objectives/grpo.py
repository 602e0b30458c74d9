"""Advantages within a group: GRPO (Shao et al. 2024, "DeepSeekMath", arXiv 2402.03300, section 4.1).

A group is the rollouts of one question. Pure functions of arrays; the loss is in `vrag.rl.objectives.losses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SPREAD = 1e-6
"""Least difference of rewards in a group that says anything; also added to the deviation."""


def group_advantages(rewards: ArrayLike, groups: ArrayLike, *, scale: bool = True) -> NDArray[np.float64]:
    """Compute how much better each rollout did than its group: (r - mean) / (std + 1e-6), std unbiased.

    Where the paper is silent, and differing from others: a group whose rewards are all but equal says
    nothing, and neither does a group of one, whose raw reward some trainers take for its advantage.

    Args:
        rewards: One for each rollout, shape (n,); NaN where there is none: that rollout leaves its group.
        groups: Which question each rollout answers, shape (n,); any values that compare.
        scale: Whether to divide by the deviation; without it this is Dr. GRPO (Liu et al. 2025,
            arXiv 2503.20783), which does not favour questions that are nearly always or never answered.

    Returns:
        Shape (n,); 0 for rollouts without a reward, and for groups of which fewer than two have one or
        whose rewards differ by less than 1e-6.

    Raises:
        ValueError: If the two are not one-dimensional and of one length, or a reward is infinite.

    >>> group_advantages([1.0, 0.0, np.nan], [7, 7, 7]).round(3).tolist()
    [0.707, -0.707, 0.0]
    """
    given, named = np.asarray(rewards, dtype=np.float64), np.asarray(groups)
    if given.ndim != 1 or given.shape != named.shape:
        raise ValueError(f"{given.shape} rewards are not one for each of {named.shape} groups")
    if np.isinf(given).any():
        raise ValueError("a reward is infinite")
    _, of = np.unique(named, return_inverse=True)
    advantages = np.zeros_like(given)
    for group in range(int(of.max(initial=-1)) + 1):
        rows = np.flatnonzero((of == group) & ~np.isnan(given))
        advantages[rows] = _within(given[rows], scale=scale)
    return advantages


def _within(rewards: NDArray[np.float64], *, scale: bool) -> NDArray[np.float64]:
    """Compute the same within one group."""
    if len(rewards) < 2 or np.ptp(rewards) < SPREAD:
        return np.zeros_like(rewards)
    centred = rewards - rewards.mean()
    return centred / (rewards.std(ddof=1) + SPREAD) if scale else centred
