"""Many runs are scored at once, with a bound."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.runs.trajectory import Trajectory
    from vrag.reward.reward import Reward, Scorer
    from vrag.types import Case

__all__ = ["score_all"]


async def score_all(
    scorer: Scorer, runs: Iterable[tuple[Case, Trajectory]], *, concurrency: int = 32
) -> list[Reward]:
    """The rewards of these runs, in their order.

    Args:
        scorer: Gives them.
        runs: Each with the case that it is about; read only as fast as they are scored.
        concurrency: How many are scored at once, at most.

    Raises:
        ValueError: If that is under 1.
    """
    if concurrency < 1:
        raise ValueError(f"nothing is scored {concurrency} at a time")
    waiting = enumerate(runs)
    rewards: dict[int, Reward] = {}

    async def work() -> None:
        for at, (case, run) in waiting:
            rewards[at] = await scorer.score(case, run)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return [rewards[at] for at in sorted(rewards)]
