"""SkyRL-gym: the environment `vrag`, for VRAG. Importing this module registers it."""

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from vrag.rl import Episode


class VragEnv(BaseTextEnv):
    """One episode: its case is in `extras`, the section `vrag` of docs/verl.md in the configuration.

    SkyRL knows no missing reward. It is `missing` of the configuration, 0 by default; the metric `missing`
    counts it.
    """

    def __init__(self, env_config: Any, extras: dict[str, Any]) -> None:
        super().__init__()
        options = dict(env_config or {})
        self.missing = float(options.pop("missing", 0.0))
        self.case, self.episode = extras["case"], Episode.of(options, images="url")

    def init(self, prompt: Any = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the episode; the agent's own prompt takes the place of that of the data set."""
        return self.episode.reset(self.case), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Carry out a reply; `metadata` has the reward with its parts."""
        _, reward, done = self.episode.step(action)
        final = self.missing if reward is None else reward
        return BaseTextEnvStepOutput(
            observations=self.episode.observation,
            reward=final if done else 0.0,
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


if "vrag" not in skyrl_gym.registry:
    skyrl_gym.register("vrag", "vrag_skyrl:VragEnv")
