"""Both agents in stock verl 0.9.1, without a fork: training on several GPUs.

The entry point group `verl.plugins` names `plugin`, which verl imports with itself, in every process. Nothing
here imports verl before verl imports the place where it is wanted; `plugin` waits for that and registers

- an agent loop for each agent, under its name: `loops`;
- a trainer, which gives credit by trajectory or by node (GGPO): `trainer`;
- a reward manager, so that no other reward takes the place of a missing one: `manager`.

The rest needs no verl: `options` is the section `vrag` of a configuration, `prompts` the tokens that a
server is given, `serving` the policy that asks it, `playing` one scored rollout, `outputs` its rows as verl
takes them, `credit` the advantages of a batch.
"""

from __future__ import annotations

__all__ = ["LOOPS", "MANAGER", "TRAINER", "VERSION"]

LOOPS = ("vrag", "vimrag")
"""Names of the agent loops: `actor_rollout_ref.rollout.agent.default_agent_loop`."""
TRAINER = "vrag"
"""Name of the trainer: `trainer.v1.trainer_mode`."""
MANAGER = "vrag"
"""Name of the reward manager: `reward.reward_manager.name`."""
VERSION = "0.9.1"
"""The verl that all of this is tested with."""
