"""Training of both agents on several GPUs by stock verl 0.9.1, without a fork.

The entry point group `verl.plugins` names `plugin`, which verl imports with itself, in every process. Nothing
here imports verl before verl imports the module that is extended; `plugin` waits for that and registers

- an agent loop for each agent, under its name, which makes scored rollouts and their rows: `agent_loops`;
- two trainers, synchronous and asynchronous, which give credit by trajectory or by node (GGPO): `trainer`;
- a reward manager, so that no other reward takes the place of a missing one.

All other modules need no verl: `options` is the section `vrag` of a configuration, and `policy` asks verl's
servers with the token ids of prompts.
"""

from __future__ import annotations

LOOPS = ("vrag", "vimrag")
"""Names of the agent loops: `actor_rollout_ref.rollout.agent.default_agent_loop`.

They are the trainable methods, named here because every process of verl imports this module: the methods take
longer to import.
"""
TRAINERS = {"vrag": "sync", "vrag_separate_async": "separate_async"}
"""Names of the trainers, `trainer.v1.trainer_mode`, and of those of verl that they extend."""
MANAGER = "vrag"
"""Name of the reward manager: `reward.reward_manager.name`."""
CREDIT = "vrag"
"""Key of an output's `extra_fields` with the facts of its row."""
VERSION = "0.9.1"
"""The tested version of verl."""
