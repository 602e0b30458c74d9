"""Models that are trained: their inputs of images and text, and how they are saved."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cachetools import LRUCache
from PIL import Image

from vrag.agent.policies.local_model import Checkpoint, as_model_error, family_of, open_checkpoint
from vrag.embed.device import Device, library, open_device
from vrag.embed.models.loader import loading, rgb
from vrag.embed.options import EmbedOptions
from vrag.errors import TrainingError
from vrag.model_profiles import write_profile

MAX_CACHE_BYTES = 2**30
"""Of pixels that are kept: the same pages are shown again and again."""
_ADAPTED = r".*\.language_model\..*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
"""The layers that get adapters: all linear ones of the language model but its head."""
_LORA, _BASE = ".lora_", ".base_layer"
"""Parts of the names of weights in layers with adapters."""
_FILES = ("preprocessor_config.json", "chat_template.jinja")
"""Files of a checkpoint that training does not change."""


@dataclass(frozen=True, slots=True, eq=False)
class VisionInputs:
    """An image as the network takes it."""

    pixels: Any
    """Tensor (patches, channels × temporal × patch²)."""
    grid: tuple[int, int, int]
    """Patches: in time, from top to bottom, from left to right."""
    tokens: int
    """Its number of tokens in a prompt."""

    @property
    def bytes(self) -> int:
        """Size of its pixels in memory."""
        return int(self.pixels.numel() * self.pixels.element_size())


@dataclass(frozen=True, slots=True, eq=False)
class TrainableModel:
    """A checkpoint in memory, for sampling and training. Not for several threads at once."""

    checkpoint: Checkpoint
    image_token: int
    """The placeholder of images."""
    kept: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that training does not change, by name: their folder may be gone when the model is saved."""
    seen: LRUCache[str, VisionInputs] = field(
        default_factory=lambda: LRUCache(MAX_CACHE_BYTES, lambda image: image.bytes)
    )
    """Images by the hash of their file."""

    @property
    def model(self) -> Any:  # noqa: ANN401 - the library is not typed
        """The weights."""
        return self.checkpoint.model

    def trained(self, *, vision: bool = True) -> list[Any]:
        """List the trained weights in a fixed order: those of the adapters, if there are any.

        Otherwise all weights, with or without the vision tower and its projector.
        """
        adapters = self.adapters()
        if adapters:
            return list(adapters.values())
        named = self.model.named_parameters()
        return [weight for name, weight in named if vision or ".visual." not in name]

    def add_adapters(self, rank: int) -> None:
        """Add LoRA adapters (arXiv 2106.09685) to the language model, with alpha twice the rank.

        The model computes as before until they are trained. Raises `MissingExtra` without peft.
        """
        torch, peft = library("torch"), library("peft")
        config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_ADAPTED)
        with torch.random.fork_rng(devices=[]):  # keep the random state of others
            torch.manual_seed(0)
            peft.inject_adapter_in_model(config, self.model)

    def adapters(self) -> dict[str, Any]:
        """Return the weights of the adapters by name; none without adapters."""
        return {name: weight for name, weight in self.model.named_parameters() if _LORA in name}

    def encode(self, text: str) -> list[int]:
        """Encode a text; special tokens in it are recognized."""
        return self.checkpoint.tokenizer(text, add_special_tokens=False)["input_ids"]

    def see(self, sha256: str, jpeg: bytes) -> VisionInputs:
        """Convert the JPEG file of an image, whose hash is `sha256`."""
        if (known := self.seen.get(sha256)) is not None:
            return known
        processor = self.checkpoint.processor.image_processor
        with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
            made = processor(images=[rgb(image)], return_tensors="pt")
        grid: tuple[int, int, int] = tuple(made["image_grid_thw"][0].tolist())
        tokens = grid[0] * grid[1] * grid[2] // processor.merge_size**2
        inputs = VisionInputs(made["pixel_values"], grid, tokens)
        if inputs.bytes <= self.seen.maxsize:
            self.seen[sha256] = inputs
        return inputs

    def save(self, folder: Path, *, merged: bool = True) -> None:
        """Write a checkpoint that transformers loads and `vrag ask --model local:` serves.

        Adapters are added to the weights that they adapt; if not `merged`, they are left out.
        """
        source = self.checkpoint
        with loading():
            source.model.save_pretrained(folder, state_dict=self._state(merged=merged))
            source.tokenizer.save_pretrained(folder)
        for name, data in self.kept.items():
            (folder / name).write_bytes(data)
        write_profile(source.profile, folder)

    def _state(self, *, merged: bool) -> dict[str, Any] | None:
        """Return the weights under the names that they have without adapters; None if there are none."""
        if not self.adapters():
            return None
        state = self.model.state_dict()
        plain = {name.replace(_BASE, ""): value for name, value in state.items() if _LORA not in name}
        for name, module in self.model.named_modules():
            if merged and hasattr(module, "get_delta_weight"):
                plain[f"{name}.weight"] = module.base_layer.weight + module.get_delta_weight("default")
        return {name: value.detach() for name, value in plain.items()}


def open_network(folder: Path, *, device: str = "auto") -> TrainableModel:
    """Load a checkpoint of a Qwen-VL family for training, with weights in float32.

    In half precision small steps round away: a weight of 0.1 in bfloat16 does not notice a change of 1e-4.

    Raises `TrainingError` if there is no such folder, `ModelError` if it cannot be loaded, or there is no
    such device.
    """
    if not folder.is_dir():
        raise TrainingError(f"There is no checkpoint {folder}.", "Make one: vrag train make-tiny.")
    opened = open_checkpoint(folder, family_of(folder), place_of(device), folder.name)
    kept = {name: (folder / name).read_bytes() for name in _FILES if (folder / name).is_file()}
    return TrainableModel(opened, int(opened.model.config.image_token_id), kept)


def place_of(device: str) -> Device:
    """Open the device of a network; raise `ModelError` if there is no such device."""
    with as_model_error():
        return open_device(EmbedOptions(device=device, dtype="float32"))
