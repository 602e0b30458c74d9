"""How an embedder is opened, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DTYPES",
    "MAX_FRAMES",
    "VISUAL_TOKENS",
    "EmbedArguments",
    "EmbedOptions",
    "EmbedSettings",
    "kept_settings",
]

DTYPES = ("auto", "float32", "bfloat16", "float16")
MAX_FRAMES = 768
"""Frames of a video at most: the limit of Qwen's own code."""
VISUAL_TOKENS = 768
"""Visual tokens of a picture at most, for models of many vectors: what ColQwen2 was trained and measured with
(Faysse et al. 2024, "ColPali"). Its published preprocessor allows 16,384; a page of 2,000 × 1,600 pixels
would have 4,100 vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """Device, precision, batch, sizes of pictures, and the ways of a server.

    Raises:
        EmbedError: If a value is out of range.
    """

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes the first CUDA device that there is."""
    dtype: str = "auto"
    """`float32`, `bfloat16` or `float16`; `auto` is float32 on a CPU and bfloat16 elsewhere."""
    batch: int = 8
    """Contents embedded at once. Halved, and remembered, whenever memory does not suffice."""
    min_pixels: int | None = None
    """Pictures smaller than this many pixels are enlarged; None for what the model says."""
    max_pixels: int | None = None
    """Pictures larger than this many pixels are reduced; None for what the model says."""
    frames: int | None = None
    """Frames of a video that are looked at, at most; None for what the model says."""
    query_instruction: str = ""
    """What the model is asked to do with a query; empty for its own sentence. Changes queries alone."""
    document_instruction: str = ""
    """The same for items. Decides their vectors, and is therefore part of the fingerprint."""
    visual_tokens: int = VISUAL_TOKENS
    """Visual tokens of a picture at most, for models of many vectors; 0 for what the model says. Where
    `max_pixels` is given, it decides."""
    api_key: str | None = None
    """Bearer token of a remote server."""
    timeout: float = 120.0
    """Seconds that a remote server may take for one request."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise EmbedError(f"There is no precision {self.dtype!r}.", f"Known: {', '.join(DTYPES)}.")
        if self.batch < 1:
            raise EmbedError(f"A batch of {self.batch} embeds nothing.", "Ask for one or more.")
        if self.frames is not None and not 2 <= self.frames <= MAX_FRAMES:
            raise EmbedError(
                f"{self.frames} frames of a video cannot be embedded.", f"Use 2 to {MAX_FRAMES}."
            )
        least, most = self.min_pixels, self.max_pixels
        if any(bound is not None and bound < 1 for bound in (least, most)) or (
            least is not None and most is not None and least > most
        ):
            raise EmbedError(f"Pictures cannot have between {least} and {most} pixels.")
        if self.visual_tokens < 0:
            raise EmbedError(
                f"A picture cannot have {self.visual_tokens} visual tokens.",
                "Ask for one or more, or for 0: as many as the model allows.",
            )

    def settings(self, dtype: str) -> dict[str, str | int]:
        """What decides vectors besides the weights: `Embedder.settings` of models that run here.

        Args:
            dtype: The precision that was settled on.
        """
        chosen = {
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "frames": self.frames,
            "document_instruction": self.document_instruction or None,
        }
        return {"dtype": dtype, **{name: value for name, value in chosen.items() if value is not None}}

    def refuse_instructions(self, name: str) -> None:
        """Refuse instructions for an embedder that has no place for them.

        Args:
            name: The embedder, for the message.

        Raises:
            EmbedError: If an instruction is set.
        """
        if self.query_instruction or self.document_instruction:
            raise EmbedError(
                f"{name} takes no instruction.",
                "Unset embed_query_instruction and embed_document_instruction, or use Qwen3-VL-Embedding.",
            )


class EmbedSettings(TypedDict, total=False):
    """Settings that vectors depend on, as `open_embedder` takes them."""

    dtype: str
    min_pixels: int | None
    max_pixels: int | None
    frames: int | None
    visual_tokens: int
    document_instruction: str


class EmbedArguments(EmbedSettings, total=False):
    """The fields of `EmbedOptions` by name."""

    device: str
    batch: int
    query_instruction: str
    api_key: str | None
    timeout: float


def kept_settings(kept: Mapping[str, object]) -> EmbedSettings:
    """What to open an embedder with, so that it makes the vectors that a collection holds.

    Args:
        kept: The settings that the collection keeps of its embedder. Others than those named above are
            matters of embedders of other packages, and left out. A collection without `visual_tokens` is
            of a model that needs no limit, or was made before there was one: the model's own stands.
    """
    dtype, instruction, tokens = map(kept.get, ("dtype", "document_instruction", "visual_tokens"))
    chosen = EmbedSettings(visual_tokens=tokens if isinstance(tokens, int) else 0)
    if isinstance(dtype, str):
        chosen["dtype"] = dtype
    if isinstance(instruction, str):
        chosen["document_instruction"] = instruction
    for name in ("min_pixels", "max_pixels", "frames"):
        limit = kept.get(name)
        if isinstance(limit, int):
            chosen[name] = limit
    return chosen
