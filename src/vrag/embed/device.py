"""Where a model computes and how precisely; the one door to torch."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.errors import EmbedError, MissingExtra

if TYPE_CHECKING:
    from vrag.embed.options import EmbedOptions

__all__ = ["Device", "library", "open_device"]

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


@dataclass(frozen=True, slots=True)
class Device:
    """A device that is there, and the precision computed with on it."""

    name: str
    """As torch names it: `cpu`, `cuda:0`."""
    dtype: str
    """`float32`, `bfloat16` or `float16`."""

    @property
    def precision(self) -> str:
        """What of the precision shows in vectors: `full` or `half`.

        bfloat16 and float16 vectors of one model differ among themselves as those of two devices do,
        by about 1e-2 at most; from float32 both differ as much.
        """
        return "full" if self.dtype == "float32" else "half"


def library(name: str) -> Any:  # noqa: ANN401 - these libraries are not typed
    """One of the libraries of the extra `models`.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        root = name.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise
        raise MissingExtra(root.replace("_", "-"), "models") from error


def open_device(options: EmbedOptions) -> Device:
    """The device and the precision that are asked for.

    Raises:
        EmbedError: If the device is not there or cannot compute that way.
        MissingExtra: If torch is not installed.
    """
    torch = library("torch")
    name = options.device
    if not _DEVICE.fullmatch(name):
        raise EmbedError(f"There is no device {name!r}.", "Known: auto, cpu, cuda, cuda:N, mps.")
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    elif name.startswith("cuda"):
        name = _cuda(torch, name)
    elif name == "mps" and not torch.backends.mps.is_available():
        raise EmbedError("This machine has no Apple GPU.", "Set the device to cpu.")
    dtype = options.dtype
    if dtype == "auto":
        dtype = "float32" if name == "cpu" else "bfloat16"
    if dtype == "bfloat16" and name.startswith("cuda") and not torch.cuda.is_bf16_supported():
        if options.dtype != "auto":
            raise EmbedError(f"The device {name} has no bfloat16.", "Set the precision to float16.")
        dtype = "float16"
    return Device(name, dtype)


def _cuda(torch: Any, name: str) -> str:  # noqa: ANN401
    """The CUDA device of that name, with its number."""
    if not torch.cuda.is_available():
        built = "is built without CUDA" if torch.version.cuda is None else "finds no CUDA device"
        raise EmbedError(
            f"The device {name} was asked for, and torch {torch.__version__} {built}.",
            "Set the device to cpu, or install the CUDA build of torch and the driver.",
        )
    number = int(name.partition(":")[2] or 0)
    count = torch.cuda.device_count()
    if number >= count:
        raise EmbedError(f"There is no device {name}.", f"The last one is cuda:{count - 1}.")
    return f"cuda:{number}"
