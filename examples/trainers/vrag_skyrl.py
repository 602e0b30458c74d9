"""SkyRL-gym: the environment `vrag`, for VRAG. Call `register` where a run begins."""

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from vrag.rl import Episode


class VragEnv(BaseTextEnv):
    """One episode; its case is the column `case` of the data set. `options` are as in docs/verl.md.

    SkyRL knows no missing reward: it is 0, and the metric `missing` counts it.
    """

    def __init__(self, env_config: Any, extras: dict[str, Any], options: dict[str, Any]) -> None:
        super().__init__()
        self.case, self.episode = extras["case"], Episode.of(options, images="url")

    def init(self, prompt: Any = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the episode; the agent's own prompt takes the place of that of the data set."""
        return self.episode.reset(self.case), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Carry out a reply; `metadata` has the reward with its parts."""
        _, reward, done = self.episode.step(action)
        return BaseTextEnvStepOutput(
            observations=self.episode.observation,
            reward=reward or 0.0,
            done=done,
            metadata=self.episode.reward.as_dict() if done else {},
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return the parts of the reward, and whether it is missing."""
        reward = self.episode.reward
        known = {name: value for name, value in reward.parts.items() if value is not None} if reward else {}
        return known | {"missing": float(reward is None or reward.missing)}

    def close(self) -> None:
        """Cancel the run, if it goes on."""
        self.episode.close()


def register(options: dict[str, Any]) -> None:
    """Register the environment, with its options."""
    skyrl_gym.register("vrag", "vrag_skyrl:VragEnv", kwargs={"options": options})
