# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN201
"""verl's FSDP engine on a CPU, for `verl_job.py`: FSDP2 in a process group of one, over gloo.

verl knows no platform without an accelerator: one is made here from its own for CUDA, with the functions of
a CPU.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from verl.plugin.platform import platform_manager
from verl.plugin.platform.platform_cuda import PlatformCUDA

PADDING = 128
"""Tokens of the rows with which verl fills a batch up."""


class PlatformCPU(PlatformCUDA):
    """As far as the engine asks."""

    device_name = "cpu"

    @property
    def device_module(self):
        """In the place of `torch.cuda`."""
        nothing = {name: lambda *_: 0 for name in ("memory_allocated", "memory_reserved", "empty_cache")}
        more = {"mem_get_info": lambda *_: (1, 1), "max_memory_allocated": lambda *_: 0}
        return SimpleNamespace(current_device=lambda: torch.device("cpu"), **nothing, **more)

    def is_available(self):
        return True

    def current_device(self):
        return torch.device("cpu")

    def communication_backend_name(self):
        return "gloo"


def install_platform():
    """Have verl take the CPU for its accelerator."""
    platform_manager.set_platform(PlatformCPU())
    store = torch.distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def make_rows(processor, tokenizer) -> list[dict[str, Any]]:
    """Rows of several lengths: with one picture, with two, without any, and one of padding."""
    from verl.models.transformers.qwen2_vl import get_rope_index

    rows = []
    texts = [("What is this, asked at some length?", [(112, 84)]), ("Both?", [(56, 56), (140, 56)])]
    for number, (text, sizes) in enumerate([*texts, ("Without any picture.", []), ("", [])]):
        random = np.random.default_rng(number)
        images = [Image.fromarray(random.integers(0, 255, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
        marks = "<|vision_start|><|image_pad|><|vision_end|>" * len(images)
        made = processor(
            text=[f"<|im_start|>user\n{marks}{text}"], images=images or None, return_tensors="pt"
        )
        ids = made["input_ids"][0] if text else torch.full((PADDING,), tokenizer.eos_token_id)
        pictures = {name: made[name] for name in ("pixel_values", "image_grid_thw") if name in made}
        plain = torch.arange(len(ids))[None]
        grid = pictures.get("image_grid_thw")
        spatial = plain.expand(3, -1) if grid is None else get_rope_index(processor, ids, image_grid_thw=grid)
        rows.append({"ids": ids, "positions": torch.cat([plain, spatial]), "pictures": pictures})
    return rows


def reference_log_probs(folder, rows) -> list[list[float]]:
    """Of each next token, by transformers alone: one row at a time, without verl's changes."""
    from transformers import Qwen2_5_VLForConditionalGeneration

    kind = Qwen2_5_VLForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    found = []
    for row in rows:
        positions = row["positions"][1:, None]
        with torch.no_grad():
            logits = model(input_ids=row["ids"][None], position_ids=positions, **row["pictures"]).logits[0]
        chosen = logits[:-1].log_softmax(-1).gather(1, row["ids"][1:, None])
        found.append(chosen[:, 0].tolist())
    return found


def make_engine(config):
    """verl's FSDP engine for the actor of a configuration, and the actor's settings."""
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    engine = FSDPEngineWithLMHead(
        model_config=model,
        engine_config=actor.engine,
        optimizer_config=actor.optim,
        checkpoint_config=actor.checkpoint,
    )
    engine.initialize()
    return engine, actor, model


def make_batch(rows, micro_batch: int, model):
    """The rows as verl's worker hands them to its engine, with prompts of one token, two, three and four."""
    from verl.utils import tensordict_utils as tu
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict
    from verl.workers.engine.base import maybe_fix_3d_position_ids

    batch = list_of_dict_to_tensordict(
        [
            {
                "input_ids": row["ids"],
                "position_ids": row["positions"],
                "prompts": row["ids"][:first],
                "responses": row["ids"][first:],
                "response_mask": torch.ones(len(row["ids"]) - first, dtype=torch.int64),
                "loss_mask": torch.ones(len(row["ids"]) - first, dtype=torch.int64),
                "multi_modal_inputs": row["pictures"],
                **row.get("more", {}),
            }
            for first, row in enumerate(rows, start=1)
        ]
    )
    tu.assign_non_tensor(
        batch,
        use_remove_padding=model.use_remove_padding,
        use_dynamic_bsz=False,
        micro_batch_size_per_gpu=micro_batch,
        use_fused_kernels=False,
        calculate_entropy=False,
        temperature=1.0,
        global_batch_size=len(rows),
        dp_size=1,
        pad_token_id=model.tokenizer.pad_token_id,
    )
    maybe_fix_3d_position_ids(batch)
    return batch


def log_probs(engine, rows, micro_batch: int, model) -> list[list[float]]:
    """Of each next token, by verl's engine."""
    with engine.eval_mode():
        output = engine.infer_batch(make_batch(rows, micro_batch, model), loss_function=None)
    return [found[:-1].tolist() for found in output["model_output"]["log_probs"].unbind()]


def train(engine, actor, rows, model, advantages) -> dict[str, Any]:
    """One update with verl's own loss, at micro-batches of one row."""
    from verl.workers.utils.losses import ppo_loss

    before = log_probs(engine, rows, 1, model)
    for number, (row, known, advantage) in enumerate(zip(rows, before, advantages, strict=True)):
        old = torch.tensor(known[number:])
        spread = torch.full_like(old, advantage)
        row["more"] = {"old_log_probs": old, "ref_log_prob": old.clone(), "advantages": spread}
    batch = make_batch(rows, 1, model)
    with engine.train_mode():
        output = engine.train_batch(batch, loss_function=partial(ppo_loss, config=actor))
        engine.lr_scheduler_step()
    metrics = output["metrics"]
    after = log_probs(engine, rows, 1, model)
    gains = [float(np.mean(new) - np.mean(old)) for new, old in zip(after, before, strict=True)]
    return {
        "gains": gains,
        "grad_norm": float(metrics["grad_norm"]),
        "loss": [float(x) for x in output["loss"]],
    }
