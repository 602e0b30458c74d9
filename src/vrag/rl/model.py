"""A checkpoint that is trained: how pictures and rows become its input, and how it is saved."""

from __future__ import annotations

import io
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from PIL import Image

from vrag.agent.policies.local_model import as_model_error, family_of, open_checkpoint
from vrag.embed.device import library, open_device
from vrag.embed.models.loader import loading, rgb
from vrag.embed.options import EmbedOptions
from vrag.errors import ModelError, TrainingError
from vrag.model_profiles import write_profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vrag.agent.policies.local_model import Checkpoint
    from vrag.embed.device import Device

__all__ = [
    "AUTOCASTS",
    "Autocast",
    "TrainableModel",
    "VisionInputs",
    "autocast_of",
    "open_network",
    "place_of",
]

Autocast: TypeAlias = Literal["auto", "bfloat16", "off"]
"""In what layers multiply while weights stay float32; `auto`: bfloat16 on CUDA devices that have it."""
AUTOCASTS: tuple[Autocast, ...] = get_args(Autocast)

_MAX_BYTES = 2**30
"""Of pixels that are kept: the same pages are shown again and again."""
_FILES = ("preprocessor_config.json", "chat_template.jinja")
"""Files of a checkpoint that training does not change."""


@dataclass(frozen=True, slots=True, eq=False)
class VisionInputs:
    """A picture as the network takes it."""

    pixels: Any
    """Tensor (patches, channels × temporal × patch²)."""
    grid: tuple[int, int, int]
    """Patches: in time, from top to bottom, from left to right."""
    tokens: int
    """How many tokens of a prompt stand for it."""

    @property
    def bytes(self) -> int:
        """Of its pixels in memory."""
        return int(self.pixels.numel() * self.pixels.element_size())


@dataclass(frozen=True, slots=True, eq=False)
class TrainableModel:
    """A checkpoint in memory, to be sampled from and to be changed. Not for several threads at once."""

    checkpoint: Checkpoint
    image_token: int
    """The placeholder of pictures."""
    kept: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that training does not change, by name: their folder may be gone when it is saved."""
    halved: bool = False
    """Whether layers multiply in bfloat16, when sampling as when learning. Weights and logits do not."""
    seen: dict[str, VisionInputs] = field(default_factory=dict[str, VisionInputs])
    """By the hash of their file, pictures that were shown before."""

    @property
    def model(self) -> Any:  # noqa: ANN401 - the library is not typed
        """The weights."""
        return self.checkpoint.model

    def trained(self, *, vision: bool = True) -> list[Any]:
        """The weights that are changed, in an order that stays the same.

        Args:
            vision: Whether the vision tower and its projector are among them.
        """
        kept = [
            (name, weight)
            for name, weight in self.model.named_parameters()
            if vision or ".visual." not in name
        ]
        return [weight for _, weight in kept]

    def computing(self) -> AbstractContextManager[None]:
        """Inside, layers compute as precisely as they shall; entered by sampler and trainer alike."""
        if not self.halved:
            return nullcontext()
        torch = library("torch")
        return torch.autocast(self.checkpoint.device.name.partition(":")[0], dtype=torch.bfloat16)

    def recompute(self) -> None:
        """From now on layers can make again, in the backward pass, what they passed on: see `Scoring`."""
        model, how = self.model, {"use_reentrant": False, "preserve_rng_state": False}
        if hasattr(model, "activation_checkpointing_enable"):
            model.activation_checkpointing_enable(activation_checkpointing_kwargs=how)
        else:  # its name before
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)
        model.disable_input_require_grads()  # a hook for the other way, which this one does not need

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; special tokens in it are such."""
        return self.checkpoint.tokenizer(text, add_special_tokens=False)["input_ids"]

    def see(self, sha256: str, jpeg: bytes) -> VisionInputs:
        """A picture as the network takes it.

        Args:
            sha256: Of its file.
            jpeg: The file.
        """
        if sha256 not in self.seen:
            part = self.checkpoint.processor.image_processor
            with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
                made = part(images=[rgb(image)], return_tensors="pt")
            grid: tuple[int, int, int] = tuple(made["image_grid_thw"][0].tolist())
            tokens = grid[0] * grid[1] * grid[2] // part.merge_size**2
            self._keep(sha256, VisionInputs(made["pixel_values"], grid, tokens))
        return self.seen[sha256]

    def _keep(self, sha256: str, picture: VisionInputs) -> None:
        """Keeps one more; the oldest are forgotten where there are too many."""
        self.seen[sha256] = picture
        kept = sum(one.bytes for one in self.seen.values())
        for oldest in list(self.seen)[:-1]:
            if kept <= _MAX_BYTES:
                return
            kept -= self.seen.pop(oldest).bytes

    def save(self, folder: Path) -> None:
        """Writes a checkpoint that transformers loads and `vrag ask --model local:` serves."""
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
    """Loads a checkpoint for training.

    Args:
        folder: Of a Qwen-VL family, as transformers saves it.
        device: `auto`, `cpu`, `cuda`, `cuda:1`.
        dtype: Of the weights: `float32`, `bfloat16`, `float16`. In half precision small steps round away: a
            weight of 0.1 in bfloat16 does not notice a change of 1e-4.
        autocast: In what layers multiply while weights stay float32.

    Raises:
        TrainingError: If there is no such folder.
        ModelError: If it cannot be loaded, or there is no such device or precision.
        MissingExtra: Without torch and transformers.
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
    """Where a network computes and how precise its weights are.

    Raises:
        ModelError: If there is no such device or precision.
        MissingExtra: Without torch.
    """
    with as_model_error():
        return open_device(EmbedOptions(device=device, dtype=dtype))


def autocast_of(place: Device, asked: Autocast) -> Autocast:
    """In what layers multiply there: `bfloat16`, or `off`.

    Raises:
        ModelError: If weights in half precision shall be multiplied in another one.
    """
    if asked == "bfloat16" and place.dtype != "float32":
        raise ModelError(
            f"Weights are {place.dtype} already.", "Leave --autocast out, or --dtype: weights stay float32."
        )
    if asked != "auto":
        return asked
    able = place.name.startswith("cuda") and library("torch").cuda.is_bf16_supported()
    return "bfloat16" if able and place.dtype == "float32" else "off"


def _keep_logits_precise(model: Any) -> None:  # noqa: ANN401 - the library is not typed
    """Has the head multiply in float32, also where layers do not.

    A logit of 20 in bfloat16 is exact to 0.06, so that sampler and trainer, whose batches differ, would
    disagree by as much; arXiv 2506.13585 found so.
    """
    torch, head = library("torch"), model.lm_head
    plain = head.forward

    def forward(hidden: Any) -> Any:  # noqa: ANN401
        with torch.autocast(hidden.device.type, enabled=False):
            return plain(hidden.float())

    head.forward = forward
