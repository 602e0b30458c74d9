"""Models that are trained: their inputs of images and text, and how they are saved."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cachetools import LRUCache
from PIL import Image

from vrag.agent.policies.local_model import Checkpoint, as_model_error, family_of, open_checkpoint
from vrag.embed.device import Device, library, open_device
from vrag.embed.models.loader import loading, rgb
from vrag.embed.options import EmbedOptions
from vrag.errors import ModelError, TrainingError
from vrag.model_profiles import write_profile

Autocast: TypeAlias = Literal["auto", "bfloat16", "off"]
"""The precision of layers while weights stay float32; `auto`: bfloat16 on CUDA devices that have it."""
AUTOCASTS: tuple[Autocast, ...] = get_args(Autocast)

MAX_CACHE_BYTES = 2**30
"""Of pixels that are kept: the same pages are shown again and again."""
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
    halved: bool = False
    """True if layers multiply in bfloat16, in sampling and in training. Weights and logits do not."""
    seen: LRUCache[str, VisionInputs] = field(
        default_factory=lambda: LRUCache(MAX_CACHE_BYTES, lambda image: image.bytes)
    )
    """Images by the hash of their file."""

    @property
    def model(self) -> Any:  # noqa: ANN401 - the library is not typed
        """The weights."""
        return self.checkpoint.model

    def trained(self, *, vision: bool = True) -> list[Any]:
        """List the trained weights in a fixed order, with or without the vision tower and its projector."""
        named = self.model.named_parameters()
        return [weight for name, weight in named if vision or ".visual." not in name]

    def computing(self) -> AbstractContextManager[None]:
        """Set the precision of layers; used by sampler and trainer alike."""
        if not self.halved:
            return nullcontext()
        torch = library("torch")
        return torch.autocast(self.checkpoint.device.name.partition(":")[0], dtype=torch.bfloat16)

    def recompute(self) -> None:
        """Let layers compute activations again in the backward pass: see `Scoring`."""
        model, options = self.model, {"use_reentrant": False, "preserve_rng_state": False}
        if hasattr(model, "activation_checkpointing_enable"):
            model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
        else:  # its name before
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
        model.disable_input_require_grads()  # a hook that this way does not need

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

    def save(self, folder: Path) -> None:
        """Write a checkpoint that transformers loads and `vrag ask --model local:` serves."""
        source = self.checkpoint
        with loading():
            source.model.save_pretrained(folder)
            source.tokenizer.save_pretrained(folder)
        for name, data in self.kept.items():
            (folder / name).write_bytes(data)
        write_profile(source.profile, folder)


def open_network(
    folder: Path, *, device: str = "auto", dtype: str = "float32", autocast: Autocast = "off"
) -> TrainableModel:
    """Load a checkpoint of a Qwen-VL family for training.

    `dtype` is that of the weights. In half precision small steps round away: a weight of 0.1 in bfloat16 does
    not notice a change of 1e-4. `autocast` is the precision of layers while weights stay float32.

    Raises `TrainingError` if there is no such folder, `ModelError` if it cannot be loaded, or there is no
    such device or precision.
    """
    if not folder.is_dir():
        raise TrainingError(f"There is no checkpoint {folder}.", "Make one: vrag train make-tiny.")
    place = place_of(device, dtype)
    halved = autocast_of(place, autocast) == "bfloat16"
    opened = open_checkpoint(folder, family_of(folder), place, folder.name)
    if halved:
        _keep_logits_precise(opened.model)
    kept = {name: (folder / name).read_bytes() for name in _FILES if (folder / name).is_file()}
    return TrainableModel(opened, int(opened.model.config.image_token_id), kept, halved)


def place_of(device: str, dtype: str) -> Device:
    """Open the device of a network; raise `ModelError` if there is no such device or precision."""
    with as_model_error():
        return open_device(EmbedOptions(device=device, dtype=dtype))


def autocast_of(device: Device, wanted: Autocast) -> Autocast:
    """Choose the precision of layers, `bfloat16` or `off`; raise `ModelError` if weights are not float32."""
    if wanted == "bfloat16" and device.dtype != "float32":
        raise ModelError(
            f"Weights are {device.dtype} already.", "Leave --autocast out, or --dtype: weights stay float32."
        )
    if wanted != "auto":
        return wanted
    supported = device.name.startswith("cuda") and library("torch").cuda.is_bf16_supported()
    return "bfloat16" if supported and device.dtype == "float32" else "off"


def _keep_logits_precise(model: Any) -> None:  # noqa: ANN401 - the library is not typed
    """Let the head multiply in float32, also where layers do not.

    A logit of 20 in bfloat16 is exact to 0.06, so that sampler and trainer, whose batches differ, would
    disagree by as much; arXiv 2506.13585 found so.
    """
    torch, head = library("torch"), model.lm_head
    plain = head.forward

    def forward(hidden: Any) -> Any:  # noqa: ANN401
        with torch.autocast(hidden.device.type, enabled=False):
            return plain(hidden.float())

    head.forward = forward
