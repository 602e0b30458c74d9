"""Options of embedders, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES = ("auto", "float32", "bfloat16", "float16")
MAX_FRAMES = 768
"""Limit of the frames of a video in Qwen's own code."""
VISUAL_TOKENS = 768
"""Limit of the visual tokens of an image for models of many vectors, with which ColQwen2 was trained and
measured (Faysse et al. 2024, "ColPali"). Its published preprocessor allows 16,384; a page of 2,000 × 1,600
pixels would have 4,100 vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """Options of an embedder: device, precision, batch, sizes of images, and access to a server.

    Raises `EmbedError` if a value is out of range.
    """

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes the first CUDA device that there is."""
    dtype: str = "auto"
    """`float32`, `bfloat16` or `float16`; `auto` is float32 on a CPU and bfloat16 elsewhere."""
    batch: int = 8
    """Contents embedded at once. Halved, and remembered, whenever memory does not suffice."""
    min_pixels: int | None = None
    """Images of fewer pixels are enlarged; None for the model's own."""
    max_pixels: int | None = None
    """Images of more pixels are reduced; None for the model's own."""
    frames: int | None = None
    """Maximum of the frames of a video; None for the model's own."""
    query_instruction: str = ""
    """Instruction for queries; empty for the model's own. Changes queries alone."""
    document_instruction: str = ""
    """Instruction for items. Changes their vectors, and is therefore part of the fingerprint."""
    visual_tokens: int = VISUAL_TOKENS
    """Maximum of the visual tokens of an image, for models of many vectors; 0 for the model's own.
    `max_pixels` outweighs it."""
    api_key: str | None = field(default=None, repr=False)
    """Bearer token of a remote server."""
    timeout: float = 120.0
    """Seconds that a remote server may take for one request."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise EmbedError(f"Unknown precision {self.dtype!r}.", f"Known: {', '.join(DTYPES)}.")
        if self.batch < 1:
            raise EmbedError(f"A batch cannot hold {self.batch} items.", "Set batch to 1 or more.")
        if self.frames is not None and not 2 <= self.frames <= MAX_FRAMES:
            raise EmbedError(
                f"{self.frames} frames of a video cannot be embedded.", f"Use 2 to {MAX_FRAMES}."
            )
        least, most = self.min_pixels, self.max_pixels
        if any(bound is not None and bound < 1 for bound in (least, most)) or (
            least is not None and most is not None and least > most
        ):
            raise EmbedError(f"Images cannot have between {least} and {most} pixels.")
        if self.visual_tokens < 0:
            raise EmbedError(
                f"An image cannot have {self.visual_tokens} visual tokens.",
                "Set visual_tokens to 1 or more, or to 0 for as many as the model allows.",
            )

    def settings(self, dtype: str) -> dict[str, str | int]:
        """Return the settings that vectors depend on, with the precision in use: `Embedder.settings`."""
        chosen = {
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "frames": self.frames,
            "document_instruction": self.document_instruction or None,
        }
        return {"dtype": dtype, **{name: value for name, value in chosen.items() if value is not None}}

    def refuse_instructions(self, name: str) -> None:
        """Refuse instructions for the embedder `name`, which takes none.

        Raises `EmbedError` if an instruction is set.
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
    """Convert the settings that a collection keeps of its embedder to those that open it again.

    Settings of embedders of other packages are left out. A collection without `visual_tokens` is of a model
    that needs no limit, or was made before there was one: the model's own stands.
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
