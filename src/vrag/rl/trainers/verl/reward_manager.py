"""The reward manager, which returns the reward of the loop and invents none.

verl asks it about outputs without a reward. Its own managers would then score by the name of the data source.
"""

from __future__ import annotations

from typing import Any

from vrag.errors import TrainingError
from vrag.rl.trainers.verl import MANAGER
from vrag.rl.trainers.verl.options import library
from vrag.rl.trainers.verl.outputs import CREDIT

_PLACE = "verl.experimental.reward_loop.reward_manager"


def register() -> None:
    """Register the manager with verl."""
    base = library(f"{_PLACE}.base").RewardManagerBase

    class VragRewardManager(base):
        """Manager of loops that score themselves."""

        def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_more: Any) -> None:  # noqa: ANN401
            parent: Any = super()
            parent.__init__(config, tokenizer, compute_score)

        async def run_single(self, data: Any) -> dict[str, Any]:  # noqa: ANN401
            """Return the reward of the last row of a rollout, with its parts."""
            return reward_of(data[len(data) - 1].non_tensor_batch.get("tool_extra_fields"))

    library(f"{_PLACE}.registry").register(MANAGER)(VragRewardManager)


def reward_of(extra_fields: dict[str, Any] | None) -> dict[str, Any]:
    """Convert the facts of a row to the reward fields of verl.

    Raises:
        TrainingError: If there are none: then the group fails, and is not trained with an invented reward.
    """
    facts = (extra_fields or {}).get(CREDIT)
    if not facts or facts.get("total") is None:
        raise TrainingError(
            "A rollout has no reward of vrag.", "Set rollout.agent.default_agent_loop to vrag or vimrag."
        )
    info = (extra_fields or {}).get("reward_extra_info", {})
    return {"reward_score": float(facts["total"]), "reward_extra_info": info}
