"""The choice of attention, the estimate of memory, the pins, and the correction of rows without pictures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vrag.errors import SettingsError
from vrag.rl.trainers.verl.launch import (
    FLASH,
    PINS,
    SDPA,
    VOCABULARY,
    choose_attention,
    count_parameters,
    least_memory,
    prepare_launch,
)
from vrag.rl.trainers.verl.plugin import unpack_features

ROOT = Path(__file__).parents[2]


def write_packages(folder: Path, flash: str, capabilities: list[int]) -> None:
    """A flash-attn and a torch with some GPUs, as far as the probe imports them."""
    (folder / "flash_attn").mkdir()
    (folder / "flash_attn" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "flash_attn" / "flash_attn_interface.py").write_text(flash, encoding="utf-8")
    (folder / "flash_attn" / "bert_padding.py").write_text("", encoding="utf-8")
    cuda = (
        f"majors = {capabilities}\nclass cuda:\n"
        "    is_available = staticmethod(lambda: bool(majors))\n"
        "    device_count = staticmethod(lambda: len(majors))\n"
        "    get_device_capability = staticmethod(lambda number: (majors[number], 0))\n"
    )
    (folder / "torch.py").write_text(cuda, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flash", "capabilities", "name", "reason"),
    [
        ("", [9, 8], FLASH, "every GPU supports it"),
        ("", [9, 7], SDPA, "needs compute capability 8.0, and a GPU has 7"),
        ("", [], SDPA, "no GPU is visible"),
        ("raise ImportError('undefined symbol: _ZN3c10')", [9], SDPA, "undefined symbol: _ZN3c10"),
    ],
)
def test_flash_attention_is_chosen_where_it_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flash: str,
    capabilities: list[int],
    name: str,
    reason: str,
) -> None:
    write_packages(tmp_path, flash, capabilities)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    chosen = choose_attention()
    assert chosen.name == name
    assert reason in chosen.reason


def test_without_flash_attn_torch_attends() -> None:
    assert "flash_attn" not in sys.modules
    chosen = choose_attention()
    assert (chosen.name, chosen.reason) == (SDPA, "flash-attn is not installed")


def test_the_choice_stands_in_the_command_and_what_was_asked_for_wins() -> None:
    assert "attention=sdpa" in prepare_launch("qwen2_5_vl_7b").command
    asked = prepare_launch("qwen2_5_vl_7b", attention=FLASH)
    assert asked.settings == ("agent=vrag", f"attention={FLASH}")
    override = prepare_launch("qwen2_5_vl_7b", overrides=("trainer.nnodes=2", f"attention={FLASH}"))
    assert override.settings == ("agent=vrag", "trainer.nnodes=2", f"attention={FLASH}")  # named once
    assert override.attention.name == FLASH


@pytest.mark.parametrize("given", [{"attention": "flash"}, {"overrides": ("attention=flash",)}])
def test_unknown_implementations_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="Known: auto, flash_attention_2, sdpa"):
        prepare_launch("qwen2_5_vl_7b", **given)


def test_the_pins_are_those_of_the_lock_file() -> None:
    lock = (ROOT / "requirements-verl.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    assert {name: locked[name.lower()] for name in PINS} == PINS
    assert "--index-url" not in lock
    assert "://" not in lock


CONFIG: dict[str, Any] = {
    "actor_rollout_ref": {
        "model": {"lora_rank": 0},
        "rollout": {"tensor_model_parallel_size": 2, "gpu_memory_utilization": 0.5},
        "actor": {"ppo_max_token_len_per_gpu": 300, "use_dynamic_bsz": False},
    },
    "trainer": {"n_gpus_per_node": 4, "nnodes": 2},
    "data": {"max_prompt_length": 80, "max_response_length": 20},
}


def test_memory_is_counted_by_hand() -> None:
    least = least_memory(CONFIG, 1000, 10)
    assert least.training == 16 * 1000 // 8 + 4 * 100 * 10  # a share of the states; logits of the longest row
    assert least.rollouts == 2 * 1000 // 2 * 2  # half of the weights, which take half of the GPU
    assert least.bytes == 6000
    packed = {**CONFIG, "actor_rollout_ref": {**CONFIG["actor_rollout_ref"]}}
    packed["actor_rollout_ref"]["actor"] = {"ppo_max_token_len_per_gpu": 300, "use_dynamic_bsz": True}
    packed["actor_rollout_ref"]["model"] = {"lora_rank": 32}
    assert least_memory(packed, 1000, 10).training == 2 * 1000 // 8 + 4 * 300 * 10


def test_parameters_are_counted_in_the_folder_or_known_by_name(tmp_path: Path) -> None:
    assert count_parameters("somebody/else") is None
    known = count_parameters("Qwen/Qwen2.5-VL-7B-Instruct")
    assert known is not None
    assert 8.2e9 < known[0] < 8.4e9
    assert count_parameters(str(tmp_path)) is None
    (tmp_path / "model-00001.safetensors").write_bytes(bytes(40))
    assert count_parameters(str(tmp_path)) == (20, VOCABULARY)
    settings = {"dtype": "float32", "text_config": {"vocab_size": 7}}
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert count_parameters(str(tmp_path)) == (10, 7)


def test_features_are_unpacked_before_verl_takes_their_mean() -> None:
    def embed(model: Any, ids: list[int], *, extra: int) -> float:  # noqa: ANN401
        return sum(model.get_input_embeddings()(ids)) + 0.0 * model.visual([1], grid_thw=2).mean() + extra

    def see(_pixels: list[int], grid_thw: int) -> SimpleNamespace:
        return SimpleNamespace(pooler_output=SimpleNamespace(mean=lambda: float(grid_thw)))

    see.dtype = "float32"  # pyright: ignore[reportFunctionMemberAccess]
    model = SimpleNamespace(get_input_embeddings=lambda: list, config=None, visual=see)
    with pytest.raises(AttributeError, match="mean"):
        embed(model, [1, 2], extra=4)
    corrected = unpack_features(embed, lambda output: (output.pooler_output, None))
    assert corrected(model, [1, 2], extra=4) == 7
