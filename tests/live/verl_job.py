# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN201, PT018
"""Run by the Python that has verl: both agents in real verl, with a scripted server in place of GPUs.

Usage: python verl_job.py FOLDER PART

It prints one line of JSON last: what the test looks at. The parts:

- `names`: what the entry point registers, and what `import verl` imports of ours;
- `configurations`: every shipped configuration, composed and validated by verl's own code;
- `advantages`: verl's GRPO beside ours on random groups;
- `engine`: verl's FSDP engine with the attention of torch, on a CPU: log-probabilities and one update;
- `step`: verl's agent loop worker, replay buffer and trainer, from prompts to advantages. Ray's processes and
  TransferQueue's are left out: the worker runs here, and a queue in memory has the functions of the real one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from verl_queue import Queue
from verl_scripts import ANSWER, VIMRAG, VRAG, Script

QUESTION = "How many passengers?"
GROUP = 4


def searcher():
    """What the agents search; named by the configuration."""
    from vrag.testing import tiny_corpus

    return tiny_corpus()


def configuration(folder: Path, agent: str, name: str = "qwen2_5_vl_7b", *more: str):
    """A shipped configuration, as verl composes it, for a tiny model."""
    from hydra import compose, initialize_config_dir

    overrides = [
        f"agent={agent}",
        f"actor_rollout_ref.model.path={folder}",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        f"actor_rollout_ref.rollout.n={GROUP}",
        "actor_rollout_ref.actor.use_kl_loss=true",
        "data.train_batch_size=1",
        "vrag.searcher=verl_job:searcher",
        f"vrag.records={folder.parent / 'records'}",
        *more,
    ]
    with initialize_config_dir(str(shipped()), version_base=None):
        return compose(name, overrides=overrides)


def shipped() -> Path:
    spec = importlib.util.find_spec("vrag.rl")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "configs"


def names(_folder: Path) -> dict[str, Any]:
    """What the entry point registers; this package is imported by nobody else."""
    import verl

    ours = sorted(name for name in sys.modules if name.startswith("vrag"))
    from importlib.metadata import entry_points

    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.v1 import PPOTrainerSync, get_trainer_cls

    return {
        "version": verl.__version__,
        "entries": [entry.value for entry in entry_points(group="verl.plugins") if entry.name == "vrag"],
        "imported": ours,
        "loops": {name: _agent_loop_registry[name]["_target_"] for name in ("vrag", "vimrag")},
        "trainer": issubclass(get_trainer_cls("vrag"), PPOTrainerSync),
        "manager": get_reward_manager_cls("vrag").__name__,
    }


def configurations(folder: Path) -> dict[str, Any]:
    """Every shipped configuration with each agent, made into verl's own dataclasses."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from vrag.rl.trainers.verl.options import read_options

    found: dict[str, Any] = {}
    for path in sorted(shipped().glob("*.yaml")):
        for agent in ("vrag", "vimrag"):
            with initialize_config_dir(str(shipped()), version_base=None):
                config = compose(path.stem, overrides=[f"agent={agent}"])
            resolved: Any = OmegaConf.to_container(config, resolve=True)
            options = read_options(resolved["vrag"])
            for section in ("actor", "rollout"):
                omega_conf_to_dataclass(config.actor_rollout_ref[section])
            omega_conf_to_dataclass(config.algorithm)
            lora = config.actor_rollout_ref.model.lora_rank > 0
            if not lora:  # that needs to ask vLLM for its greatest rank
                validate_config(config, need_reference_policy(config), need_critic(config))
            found[f"{path.stem}/{agent}"] = facts(config) | {"credit": options.credit, "validated": not lora}
    return found


def facts(config) -> dict[str, Any]:
    """What a composed configuration says."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    return {
        "loop": rollout.agent.default_agent_loop,
        "group": rollout.n,
        "questions": config.data.train_batch_size,
        "lengths": [rollout.prompt_length, rollout.response_length],
        "lr": actor.optim.lr,
        "warmup": actor.optim.lr_warmup_steps,
        "kl": [actor.kl_loss_type, actor.kl_loss_coef, actor.use_kl_loss],
        "clip": actor.clip_ratio_high,
        "loss": actor.policy_loss.loss_mode,
        "temperature": rollout.temperature,
        "attention": config.actor_rollout_ref.model.override_config.attn_implementation,
        "packed": config.actor_rollout_ref.model.use_remove_padding,
        "gpus": config.trainer.n_gpus_per_node,
        "lora": config.actor_rollout_ref.model.lora_rank,
    }


def advantages(_folder: Path) -> dict[str, Any]:
    """verl's `compute_grpo_outcome_advantage` beside `group_advantages`, on random groups.

    Left out: groups of one and groups of equal rewards, which verl does not leave without a signal.
    """
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    from vrag.rl.advantages import group_advantages

    random = np.random.default_rng(0)
    worst = {True: 0.0, False: 0.0}
    compared = 0
    for _ in range(200):
        sizes = random.integers(1, 9, size=random.integers(1, 7))
        groups = np.repeat(np.arange(len(sizes)), sizes)
        shuffled = random.permutation(groups)
        rewards = random.choice([0.0, 0.1, 0.3, 0.7, 0.9, 1.0, random.random()], size=len(shuffled))
        mask = torch.ones(len(shuffled), 3)
        tokens = torch.zeros(len(shuffled), 3)
        tokens[:, -1] = torch.tensor(rewards, dtype=torch.float32)
        clear = [np.ptp(rewards[shuffled == group]) >= 1e-6 for group in shuffled]
        for scale in (True, False):
            theirs, _ = compute_grpo_outcome_advantage(
                tokens.clone(), mask, shuffled.astype(object), norm_adv_by_std_in_grpo=scale
            )
            ours = group_advantages(rewards, shuffled, scale=scale)
            both = np.abs(theirs[:, 0].numpy() - ours)[clear]
            worst[scale] = max(worst[scale], float(both.max(initial=0.0)))
        compared += int(sum(clear))
    alone, _ = compute_grpo_outcome_advantage(torch.tensor([[0.0, 0.9]]), torch.ones(1, 2), np.array(["a"]))
    return {
        "worst": worst[True],
        "worst_unscaled": worst[False],
        "compared": compared,
        "alone": {"verl": float(alone[0, 0]), "ours": float(group_advantages([0.9], [0])[0])},
    }


def prompts(uids: list[str]):
    """Prompts as the trainer takes them from the parquet, one for each question."""
    import numpy as np
    from verl.utils import tensordict_utils as tu

    count = len(uids)
    columns = {
        "uid": uids,
        "id": [f"case-{number}" for number in range(count)],
        "raw_prompt": [[{"role": "user", "content": QUESTION}]] * count,
        "data_source": ["rag"] * count,
        "reward_model": [{"style": "rule", "ground_truth": ANSWER}] * count,
        "extra_info": [{"split": "train", "index": number, "question": QUESTION} for number in range(count)],
        "file_name": ["ferry.pdf"] * count,
        "reference_page": [[2]] * count,
        "index": list(range(count)),
    }
    arrays = {}
    for name, values in columns.items():
        arrays[name] = np.empty(count, dtype=object)
        arrays[name][:] = values
    batch = tu.get_tensordict(arrays)
    tu.assign_non_tensor_data(batch, "global_steps", 7)
    return batch


def step(folder: Path) -> dict[str, Any]:
    """From prompts to advantages, once for each agent."""
    Queue().install()
    return {agent: asyncio.run(one_step(folder, agent)) for agent in ("vrag", "vimrag")}


async def one_step(folder: Path, agent: str) -> dict[str, Any]:
    """One question, one group of rollouts, one step up to where the GPUs would begin."""
    import transfer_queue as tq
    from verl.trainer.ppo.v1 import AgentLoopWorkerTQ, get_trainer_cls

    config = configuration(folder, agent)
    client = Script(str(folder), VRAG if agent == "vrag" else VIMRAG)
    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config=config, llm_client=client)
    trainer = trainer_without_gpus(config, get_trainer_cls(config.trainer.v1.trainer_mode))
    uid = f"question{agent}"
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 7}]
    tq.kv_batch_put(keys=[uid], partition_id="train", tags=tags)
    await worker.generate_sequences(prompts([uid]))
    await asyncio.gather(*worker.background_tasks)
    batch, _ = trainer.replay_buffer.sample(global_steps=7, partition_id="train", batch_size=1)
    rows = read_rows(batch)
    batch = padded(batch, trainer)
    give_log_probabilities(batch)
    metrics: dict[str, Any] = {}
    batch = trainer._compute_advantage(batch, metrics)
    return {
        "mode": trainer.trainer_mode,
        "buffer": type(trainer.replay_buffer).__name__,
        "calls": client.calls,
        "rows": rows,
        "after": read_advantages(batch),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "records": [
            json.loads(line)
            for path in (folder.parent / "records").glob("*.jsonl")
            for line in path.read_text().splitlines()
            if json.loads(line)["agent"] == agent
        ],
    }


def trainer_without_gpus(config, kind):
    """The registered trainer, as far as its constructor goes: workers would be started after that."""

    class Tokenizer:
        eos_token_id = 0

    trainer = kind(config)
    trainer.global_steps = 7
    trainer.tokenizer = Tokenizer()
    return trainer


def read_rows(batch) -> list[dict[str, Any]]:
    """What lies in the queue for each row."""
    import transfer_queue as tq

    fields = ["prompts", "responses", "response_mask", "rm_scores", "rollout_log_probs", "position_ids"]
    more = ["extra_fields", "multi_modal_inputs"]
    found = []
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        data = tq.kv_batch_get(keys=[key], partition_id=batch.partition_id, select_fields=[*fields, *more])[0]
        pictures = data["multi_modal_inputs"]
        grid = pictures.get("image_grid_thw")
        mask = data["response_mask"].tolist()
        found.append(
            {
                "key": key,
                "prompt": data["prompts"].tolist(),
                "response": data["responses"].tolist(),
                "mask": mask,
                "logprobs": data["rollout_log_probs"].tolist(),
                "reward": float(data["rm_scores"].sum()),
                "features": 0 if grid is None else int((grid.prod(-1) // 4).sum()),
                "positions": list(data["position_ids"].shape),
                "said": data["extra_fields"]["vrag"],
                "info": data["extra_fields"]["reward_extra_info"],
                "versions": [tag["min_global_steps"], tag["max_global_steps"]],
            }
        )
    return sorted(found, key=lambda one: one["key"])


def padded(batch, trainer):
    """As the trainer fills a batch up, so that the rows that it adds are seen too."""
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size

    return upsample_batch_to_divisible_size(batch, 4, trainer.tokenizer.eos_token_id)


def give_log_probabilities(batch) -> None:
    """What the actor and the reference would have computed on GPUs."""
    import torch
    import transfer_queue as tq
    from tensordict import TensorDict

    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"])
    masks = list(data["response_mask"].unbind())
    made = {
        "old_log_probs": nested([torch.full(mask.shape, -1.0) for mask in masks]),
        "ref_log_prob": nested([torch.full(mask.shape, -2.0) for mask in masks]),
    }
    fields = TensorDict(made, batch_size=len(batch.keys))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def nested(tensors):
    import torch

    return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)


def read_advantages(batch) -> dict[str, Any]:
    """By key: the advantages of a row's tokens, and the reference's log-probabilities."""
    import transfer_queue as tq

    found = {}
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        fields = ["advantages", "returns", "response_mask", "ref_log_prob"]
        data = tq.kv_batch_get(keys=[key], partition_id=batch.partition_id, select_fields=fields)[0]
        mask = data["response_mask"].bool()
        found[key] = {
            "padding": bool(tag.get("is_padding", False)),
            "own": sorted(set(data["advantages"][mask].tolist())),
            "told": sorted(set(data["advantages"][~mask].tolist())),
            "ref": sorted(set(data["ref_log_prob"].tolist())),
            "masked_in": int(mask.sum()),
        }
    return found


def engine(folder: Path) -> dict[str, Any]:
    """verl's engine on rows with and without pictures, beside transformers alone."""
    import verl_engine as fsdp
    from transformers import AutoProcessor

    fsdp.install_platform()
    processor: Any = AutoProcessor.from_pretrained(folder)
    rows = fsdp.make_rows(processor, processor.tokenizer)
    reference = fsdp.reference_log_probs(folder, rows)
    more = (
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",
        "actor_rollout_ref.actor.optim.lr=1e-2",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
        "actor_rollout_ref.actor.optim.total_training_steps=10",
    )
    config = configuration(folder, "vrag", "qwen2_5_vl_7b", *more)
    made, actor, model = fsdp.make_engine(config)
    found = {str(size): fsdp.log_probs(made, rows, size, model) for size in (1, 4)}
    return {
        "attention": model.hf_config._attn_implementation,
        "packed": model.use_remove_padding,
        "micro_batch": actor.ppo_micro_batch_size_per_gpu,
        "reference": reference,
        "found": found,
        "update": fsdp.train(made, actor, rows, model, [1.0, -1.0, 1.0, 0.0]),
    }


PARTS = {
    "names": names,
    "configurations": configurations,
    "advantages": advantages,
    "engine": engine,
    "step": step,
}

if __name__ == "__main__":
    sys.modules.setdefault("verl_job", sys.modules["__main__"])
    sys.stdout.write(json.dumps(PARTS[sys.argv[2]](Path(sys.argv[1]))) + "\n")
