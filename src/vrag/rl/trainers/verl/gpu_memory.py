"""A lower bound of the GPU memory that a configuration takes: what can be said without a GPU.

Training and rollouts take turns on the same GPUs, so the larger of both counts. Not counted are activations,
the fragments of the allocator and what CUDA itself takes: a GPU of exactly this size is too small.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LeastMemory", "count_parameters", "least_memory"]

PARAMETERS = {
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_755_000_000,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_000_000,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_000_000,
}
"""Weights of the models that the configurations name, which may not lie on this machine."""
FULL_BYTES = 16
"""Of a trained weight: 4 each for the weight, its gradient and the two moments of Adam."""
HALF_BYTES = 2
"""Of a weight in bfloat16."""
VOCABULARY = 151_936
"""Of the Qwen families, where the checkpoint does not tell."""


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """Bytes of one GPU."""

    training: int
    """Its share of weights, gradients and optimizer, and the logits of a micro-batch with their gradient."""
    rollouts: int
    """The share of the weights of the server; its cache comes on top."""

    @property
    def bytes(self) -> int:
        """What a GPU must have."""
        return max(self.training, self.rollouts)


def least_memory(config: Any, parameters: int, vocabulary: int = VOCABULARY) -> LeastMemory:  # noqa: ANN401
    """Estimate what one GPU needs at least.

    Args:
        config: A composed configuration of verl.
        parameters: Weights of the model.
        vocabulary: Its tokens.
    """
    model, rollout = config["actor_rollout_ref"]["model"], config["actor_rollout_ref"]["rollout"]
    actor, trainer = config["actor_rollout_ref"]["actor"], config["trainer"]
    gpus = int(trainer["n_gpus_per_node"]) * int(trainer["nnodes"])
    each = HALF_BYTES if int(model["lora_rank"]) else FULL_BYTES
    longest = int(config["data"]["max_prompt_length"]) + int(config["data"]["max_response_length"])
    tokens = int(actor["ppo_max_token_len_per_gpu"]) if actor["use_dynamic_bsz"] else longest
    logits = 2 * HALF_BYTES * tokens * vocabulary
    share = HALF_BYTES * parameters // int(rollout["tensor_model_parallel_size"])
    return LeastMemory(
        training=each * parameters // gpus + logits,
        rollouts=int(share / float(rollout["gpu_memory_utilization"])),
    )


def count_parameters(model: str) -> tuple[int, int] | None:
    """Weights and vocabulary of a model; None if nothing tells.

    Args:
        model: A folder with a checkpoint, or a name of the hub that a configuration ships.
    """
    folder = Path(model).expanduser()
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    if not sizes:
        known = PARAMETERS.get(model)
        return None if known is None else (known, VOCABULARY)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return sum(sizes) // HALF_BYTES, VOCABULARY
    text = config.get("text_config", config)
    stored = str(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or "bfloat16")
    width = 4 if stored == "float32" else HALF_BYTES
    vocabulary = text.get("vocab_size") or config.get("vocab_size") or VOCABULARY
    return sum(sizes) // width, int(vocabulary)
