"""The reward manager: hands on the reward of the loop, and makes up none where there is none.

verl asks it about outputs without a reward. Its own managers would then score by the name of the data source.
"""

from __future__ import annotations

from typing import Any

from vrag.errors import TrainingError
from vrag.rl.trainers.verl import MANAGER
from vrag.rl.trainers.verl.engine import library
from vrag.rl.trainers.verl.outputs import CREDIT

__all__ = ["register", "reward_of"]

_PLACE = "verl.experimental.reward_loop.reward_manager"


def register() -> None:
    """Gives verl the manager by name."""
    base = library(f"{_PLACE}.base").RewardManagerBase

    class VragRewardManager(base):
        """Of loops that score themselves."""

        def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_more: Any) -> None:  # noqa: ANN401
            parent: Any = super()
            parent.__init__(config, tokenizer, compute_score)

        async def run_single(self, data: Any) -> dict[str, Any]:  # noqa: ANN401
            """The reward of the last row of a rollout, with its parts."""
            return reward_of(data[len(data) - 1].non_tensor_batch.get("tool_extra_fields"))

    library(f"{_PLACE}.registry").register(MANAGER)(VragRewardManager)


def reward_of(extra_fields: dict[str, Any] | None) -> dict[str, Any]:
    """What verl wants to know of a reward, from what the loop said of the row.

    Raises:
        TrainingError: If it said nothing: then the group fails, and is not trained with a made-up reward.
    """
    said = (extra_fields or {}).get(CREDIT)
    if not said or said.get("total") is None:
        raise TrainingError(
            "A rollout has no reward of ours.", "Set rollout.agent.default_agent_loop to vrag or vimrag."
        )
    info = (extra_fields or {}).get("reward_extra_info", {})
    return {"reward_score": float(said["total"]), "reward_extra_info": info}
