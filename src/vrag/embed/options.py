"""How an embedder is opened, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DTYPES", "EmbedOptions", "EmbedSettings", "kept_settings"]

DTYPES = ("auto", "float32", "bfloat16", "float16")


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
    api_key: str | None = None
    """Bearer token of a remote server."""
    timeout: float = 120.0
    """Seconds that a remote server may take for one request."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise EmbedError(f"There is no precision {self.dtype!r}.", f"Known: {', '.join(DTYPES)}.")
        if self.batch < 1:
            raise EmbedError(f"A batch of {self.batch} embeds nothing.", "Ask for one or more.")
        least, most = self.min_pixels, self.max_pixels
        if any(bound is not None and bound < 1 for bound in (least, most)) or (
            least is not None and most is not None and least > most
        ):
            raise EmbedError(f"Pictures cannot have between {least} and {most} pixels.")

    def settings(self, dtype: str) -> dict[str, str | int]:
        """What decides vectors besides the weights: `Embedder.settings` of models that run here.

        Args:
            dtype: The precision that was settled on.
        """
        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        return {"dtype": dtype, **{name: limit for name, limit in limits.items() if limit is not None}}


class EmbedSettings(TypedDict, total=False):
    """Settings that vectors depend on, as `open_embedder` takes them."""

    dtype: str
    min_pixels: int
    max_pixels: int


def kept_settings(kept: Mapping[str, object]) -> EmbedSettings:
    """What to open an embedder with, so that it makes the vectors that a collection holds.

    Args:
        kept: The settings that the collection keeps of its embedder. Others than those named above are
            matters of embedders of other packages, and left out.
    """
    chosen = EmbedSettings()
    dtype, least, most = (kept.get(name) for name in ("dtype", "min_pixels", "max_pixels"))
    if isinstance(dtype, str):
        chosen["dtype"] = dtype
    if isinstance(least, int):
        chosen["min_pixels"] = least
    if isinstance(most, int):
        chosen["max_pixels"] = most
    return chosen
