"""Devices and precisions of models, and batches that fit into their memory; the only import of torch."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.errors import EmbedderFailedError, EmbedError, MissingExtra, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.embed.options import EmbedOptions

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_OUT_OF_MEMORY = ("out of memory", "allocate memory", "status_alloc_failed")
_DEVICE_FAULT = re.compile(
    r"(CUDA|cuDNN|cuBLAS|HIP|NCCL) (driver )?error|CU(BLAS|DNN|SOLVER)_STATUS_", re.IGNORECASE
)

Input = TypeVar("Input")
Output = TypeVar("Output")


@dataclass(frozen=True, slots=True)
class Device:
    """An available device, and the precision computed with on it."""

    name: str
    """torch's name: `cpu`, `cuda:0`."""
    dtype: str
    """`float32`, `bfloat16` or `float16`."""

    @property
    def precision(self) -> str:
        """The part of the precision that shows in vectors: `full` or `half`.

        bfloat16 and float16 vectors of one model differ among themselves as those of two devices do,
        by about 1e-2 at most; from float32 both differ as much.
        """
        return "full" if self.dtype == "float32" else "half"


def library(name: str) -> Any:  # noqa: ANN401 - these libraries are not typed
    """Import a library of the extra `models`. Raises `MissingExtra` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        root = name.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise
        raise MissingExtra(root.replace("_", "-"), "models") from error


def open_device(options: EmbedOptions) -> Device:
    """Choose the device and the precision that the options ask for.

    Raises `EmbedError` if the device is not available or cannot compute that way and `MissingExtra` if torch
    is not installed.
    """
    torch = library("torch")
    name = options.device
    if not _DEVICE.fullmatch(name):
        raise EmbedError(f"Unknown device {name!r}.", "Known: auto, cpu, cuda, cuda:N, mps.")
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    elif name.startswith("cuda"):
        name = _find_cuda(torch, name)
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


def _find_cuda(torch: Any, name: str) -> str:  # noqa: ANN401
    if not torch.cuda.is_available():
        reason = "is built without CUDA" if torch.version.cuda is None else "finds no CUDA device"
        raise EmbedError(
            f"The device {name} is not available: torch {torch.__version__} {reason}.",
            "Set the device to cpu, or install the CUDA build of torch and the driver.",
        )
    number = int(name.partition(":")[2] or 0)
    count = torch.cuda.device_count()
    if number >= count:
        raise EmbedError(f"There is no device {name}.", f"The last one is cuda:{count - 1}.")
    return f"cuda:{number}"


class Batches:
    """A runner of functions over batches, which halves the batch whenever memory does not suffice.

    The size that worked is remembered for later calls; it does not grow again, since what
    filled the memory once will do so again. `size` is the number of inputs in the first batch.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def run(
        self, inputs: Sequence[Input], function: Callable[[Sequence[Input]], Sequence[Output]]
    ) -> list[Output]:
        """Apply the function to all inputs, in their order.

        Raises `EmbedError` if memory does not suffice for a single input.
        """
        outputs: list[Output] = []
        while len(outputs) < len(inputs):
            batch = inputs[len(outputs) : len(outputs) + self.size]
            try:
                outputs.extend(function(batch))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise EmbedError(
                        f"Memory does not suffice for item {len(outputs) + 1} of {len(inputs)} alone.",
                        "Lower max_pixels, or use another device or precision.",
                    ) from error
                self.size = (len(batch) + 1) // 2
            else:
                continue
            # Outside of `except`: the traceback holds the tensors that filled the memory.
            torch = library("torch")
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return outputs


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that the memory of the machine or of a device did not suffice."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)


def refusal(name: str, error: BaseException) -> EmbedError:
    """Convert an error of the model `name`, other than one of memory, to an `EmbedError`.

    It is an `EmbedderFailedError` when the device failed: after a CUDA error every further call fails, too.
    """
    reason = first_line(error)
    if isinstance(error, library("torch").AcceleratorError) or _DEVICE_FAULT.match(reason):
        return EmbedderFailedError(f"The device of {name} failed: {reason}.", "Check the device.")
    return EmbedError(f"{name} cannot embed this: {reason}.")
