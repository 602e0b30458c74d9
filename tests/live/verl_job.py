# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN201
"""Run by the Python that has verl: both agents in real verl, with a scripted server in place of GPUs.

Usage: python verl_job.py FOLDER PART

It prints one line of JSON last: what the test looks at. The parts:

- `names`: what the entry point registers, and what `import verl` imports of ours;
- `configurations`: every shipped configuration, composed and validated by verl's own code;
- `doctor`: `vrag train doctor` of one configuration;
- `advantages`: verl's GRPO beside ours on random groups;
- `masks`: what verl's own functions make of masks, and of advantages of 0;
- `engine`: verl's FSDP engine with the attention of torch, on a CPU: log-probabilities and one update;
- `step`: verl's agent loop worker, replay buffer and trainer, from prompts to advantages. Ray's processes and
  TransferQueue's are left out: the worker runs here, and a queue in memory has the functions of the real one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from verl_queue import Queue
from verl_scripts import ANSWER, VIMRAG, VRAG, InterruptedScript, Script

QUESTION = "How many passengers?"
GROUP = 4


def searcher():
    """What the agents search; named by the configuration."""
    from vrag.testing import tiny_corpus

    return tiny_corpus()


class Shaped:
    """A scorer for whom wrong answers are worth more than right ones; named by the configuration."""

    def __init__(self, agent: str) -> None:
        self.agent = agent

    async def score(self, _case, run):
        from vrag.reward.reward import Reward

        right = run.answer == ANSWER
        return Reward(total=0.2 if right else 0.8, parts={}, correct=right)


def configuration(folder: Path, agent: str, name: str = "qwen2_5_vl_7b", *more: str):
    """A shipped configuration, as verl composes it, for a tiny model."""
    from vrag.rl.trainers.verl.options import compose

    overrides = [
        f"agent={agent}",
        f"actor_rollout_ref.model.path={folder}",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        f"actor_rollout_ref.rollout.n={GROUP}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=1",
        "data.train_batch_size=1",
        "vrag.searcher=verl_job:searcher",
        *more,
    ]
    return compose(name, overrides)


def names(_folder: Path) -> dict[str, Any]:
    """What the entry point registers; this package is imported by nobody else."""
    import verl

    ours = sorted(name for name in sys.modules if name.startswith("vrag"))
    from importlib.metadata import entry_points

    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.v1 import PPOTrainerSeparateAsync, PPOTrainerSync, get_trainer_cls

    return {
        "version": verl.__version__,
        "entries": [entry.value for entry in entry_points(group="verl.plugins") if entry.name == "vrag"],
        "imported": ours,
        "loops": {name: _agent_loop_registry[name]["_target_"] for name in ("vrag", "vimrag")},
        "trainers": [
            issubclass(get_trainer_cls("vrag"), PPOTrainerSync),
            issubclass(get_trainer_cls("vrag_separate_async"), PPOTrainerSeparateAsync),
        ],
        "manager": get_reward_manager_cls("vrag").__name__,
    }


def configurations(_folder: Path) -> dict[str, Any]:
    """Every shipped configuration with each agent, attention and trainer, checked by verl's own code."""
    from itertools import product

    from vrag.doctor.verl import VerlRun
    from vrag.rl.trainers.verl.options import options_of, shipped

    # For LoRA, verl asks a module that needs vLLM for the ranks that there are.
    for name in ("verl.workers.rollout.vllm_rollout", "verl.workers.rollout.vllm_rollout.utils"):
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name])["get_vllm_max_lora_rank"] = lambda rank: rank
    found: dict[str, Any] = {}
    for name in shipped():
        modes = ["null"] if name.startswith("lora") else ["null", "separate_async"]
        for agent, attention, mode in product(("vrag", "vimrag"), ("sdpa", "flash_attention_2"), modes):
            given = (
                f"agent={agent}",
                f"attention={attention}",
                *(() if mode == "null" else (f"mode={mode}",)),
            )
            run = VerlRun(name, given)
            check = run.check_configuration()
            found[f"{name} {' '.join(given)}"] = facts(run.config) | {
                "status": check.status,
                "credit": options_of(run.config).credit,
                "asked": [agent, attention, mode],
            }
    return found


def doctor(folder: Path) -> dict[str, Any]:
    """The checks of one run, by name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from vrag.doctor.verl import examine_verl

    row = {
        "id": "x",
        "prompt": [{"role": "user", "content": QUESTION}],
        "data_source": "rag",
        "reward_model": {"style": "rule", "ground_truth": ANSWER},
        "extra_info": {"question": QUESTION, "index": 0},
        "file_name": "ferry.pdf",
        "reference_page": [2],
    }
    path = folder.parent / "train.parquet"
    pq.write_table(pa.Table.from_pylist([row]), path)
    given = ["mode=separate_async", f"data.train_files={path}", f"data.val_files=[{path},{path}]"]
    given += ["vrag.searcher=verl_job:searcher"]
    good = {check.name: [check.status, check.message] for check in examine_verl("qwen2_5_vl_7b", given, 120)}
    wrong = {}
    for name, setting in WRONG.items():
        checks = {check.name: check for check in examine_verl("qwen2_5_vl_7b", [setting], 120)}
        wrong[name] = [checks["qwen2_5_vl_7b"].status, checks["qwen2_5_vl_7b"].message]
    return {"good": good, "wrong": wrong}


WRONG = {
    "no section has it": "trainer.epochs=3",
    "no key of ours": "+vrag.seconds_left=3",
    "verl's own check": "data.train_batch_size=3",
    "its trainer's": "trainer.v1.trainer_mode=vrag_separate_async",
    "packed without flash-attn": "actor_rollout_ref.model.use_remove_padding=true",
}
"""Settings that cannot work."""


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
        "rollout_gpus": config.actor_rollout_ref.rollout.nnodes
        * config.actor_rollout_ref.rollout.n_gpus_per_node,
        "mode": config.trainer.v1.trainer_mode,
        "correction": config.algorithm.rollout_correction.rollout_is,
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


def masks(folder: Path) -> dict[str, Any]:
    """A session whose last row has no token to train on, a rejected token, and a row without an advantage."""
    import torch
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

    ratio = torch.tensor([[0.0, 2.0, 0.0]])
    kept, _ = compute_rollout_rejection_mask(ratio, torch.tensor([[1, 1, 0]]), "token_k1", "0.5_2.0")
    return {
        "sessions": {name: session_advantages(last) for name, last in {"kept": 1.0, "masked": 0.0}.items()},
        "rejected": kept.tolist(),
        "gradients": {agent: gradients(configuration(folder, agent)) for agent in ("vrag", "vimrag")},
    }


def session_advantages(last: float) -> list[float]:
    """By verl's `grpo`: of a right session of two rows, the last with such a mask, and of a wrong one."""
    import numpy as np
    import torch
    from verl.protocol import DataProto
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    mask = torch.ones(3, 2)
    mask[1] = last
    rewards = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    data = DataProto.from_dict(
        {"response_mask": mask, "token_level_rewards": rewards},
        non_tensors={"uid": np.array(["a"] * 3, dtype=object)},
    )
    made = compute_advantage_for_multi_trajectories(data, ["a_0_0", "a_0_1", "a_1_0"], "grpo")
    return made.batch["advantages"][:, 0].tolist()


def gradients(config) -> dict[str, Any]:
    """Of verl's loss by the log-probabilities of two rows, the second without advantage or without mask."""
    import torch
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
    from verl.utils.config import omega_conf_to_dataclass

    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    actor.global_batch_info.update(
        dp_size=1, batch_num_tokens=None, global_batch_size=2, loss_scale_factor=None
    )
    old = torch.tensor([[-1.0, -2.0, -0.5], [-0.3, -0.7, -1.5]])
    reference = old - 0.25
    found: dict[str, Any] = {"loss": actor.policy_loss.loss_mode}
    for name, advantage, mask in (("zeroed", 0.0, 1.0), ("masked", 0.7, 0.0)):
        log_prob = old.clone().requires_grad_()
        spread, masks = torch.full((2, 3), 0.7), torch.ones(2, 3)
        spread[1], masks[1] = advantage, mask
        ref = reference.clone()
        ref[1] = old[1]  # as the trainer sets it
        mode = actor.loss_agg_mode
        loss, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
            old, log_prob, spread, masks, mode, actor, None
        )
        kl = kl_penalty(log_prob, ref, actor.kl_loss_type)
        (loss + 0.01 * agg_loss(kl, masks, mode, **actor.global_batch_info)).backward()
        assert log_prob.grad is not None
        found[name] = log_prob.grad.tolist()
    return found


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


STEPS = {
    "vrag": ("vrag", ()),
    "vimrag": ("vimrag", ()),
    "shaped": ("vimrag", ("vrag.scorer=verl_job:Shaped",)),
    "separate_async": ("vimrag", ("mode=separate_async",)),
}
"""Agent and settings."""


def step(folder: Path) -> dict[str, Any]:
    """From prompts to advantages, once for each agent, and in two more ways."""
    Queue().install()
    return {name: asyncio.run(one_step(folder, name)) for name in STEPS}


async def one_step(folder: Path, name: str) -> dict[str, Any]:
    """One question, one group of rollouts, one step up to where the GPUs would begin."""
    import transfer_queue as tq
    from verl.trainer.ppo.v1 import AgentLoopWorkerTQ, get_trainer_cls

    agent, more = STEPS[name]
    records = folder.parent / name
    config = configuration(folder, agent, "qwen2_5_vl_7b", f"vrag.records={records}", *more)
    scripted = InterruptedScript if name == "separate_async" else Script
    client = scripted(str(folder), VRAG if agent == "vrag" else VIMRAG)
    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config=config, llm_client=client)
    trainer = trainer_without_gpus(config, get_trainer_cls(config.trainer.v1.trainer_mode))
    uid = f"question{name.replace('_', '')}"
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 7}]
    tq.kv_batch_put(keys=[uid], partition_id="train", tags=tags)
    await worker.generate_sequences(prompts([uid]))
    await asyncio.gather(*worker.background_tasks)
    batch, _ = trainer.replay_buffer.sample(global_steps=8, partition_id="train", batch_size=1)
    rows = read_rows(batch)
    batch = padded(batch, trainer)
    give_log_probabilities(batch)
    metrics: dict[str, Any] = {}
    batch = trainer._compute_advantage(batch, metrics)
    found = {
        "mode": trainer.trainer_mode,
        "buffer": type(trainer.replay_buffer).__name__,
        "calls": client.calls,
        "rows": rows,
        "after": read_advantages(batch),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "records": [
            json.loads(line) for path in records.glob("*.jsonl") for line in path.read_text().splitlines()
        ],
    }
    if name == "separate_async":
        config.algorithm.rollout_correction.rollout_rs = (
            "token_k1"  # rejects all tokens: their ratio is e^-0.75
        )
        config.algorithm.rollout_correction.rollout_rs_threshold = "0.9_1.1"
        found["rejected"] = read_advantages(trainer._compute_advantage(batch, {}))
    return found


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
        fields = ["advantages", "response_mask", "loss_mask", "ref_log_prob", "rollout_is_weights"]
        data = tq.kv_batch_get(keys=[key], partition_id=batch.partition_id, select_fields=fields)[0]
        mask = data["response_mask"].bool()
        found[key] = {
            "padding": bool(tag.get("is_padding", False)),
            "own": sorted(set(data["advantages"][mask].tolist())),
            "told": sorted(set(data["advantages"][~mask].tolist())),
            "ref": sorted(set(data["ref_log_prob"].tolist())),
            "masked_in": int(mask.sum()),
            "counted": int(data["loss_mask"].sum()),
            "weights": sorted(set(data["rollout_is_weights"][mask].tolist()))
            if "rollout_is_weights" in data
            else [],
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
    "doctor": doctor,
    "advantages": advantages,
    "masks": masks,
    "engine": engine,
    "step": step,
}

if __name__ == "__main__":
    sys.modules.setdefault("verl_job", sys.modules["__main__"])
    sys.stdout.write(json.dumps(PARTS[sys.argv[2]](Path(sys.argv[1]))) + "\n")
