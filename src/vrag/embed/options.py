"""How an embedder is opened, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass

from vrag.errors import EmbedError

__all__ = ["DTYPES", "EmbedOptions"]

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
