"""Many things are computed at once, as many as memory allows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from vrag.embed.device import library
from vrag.errors import EmbedderGone, EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Batches", "is_out_of_memory", "refusal"]

_MEMORY = ("out of memory", "allocate memory", "status_alloc_failed")
_DEVICE_FAULT = re.compile(
    r"(CUDA|cuDNN|cuBLAS|HIP|NCCL) (driver )?error|CU(BLAS|DNN|SOLVER)_STATUS_", re.IGNORECASE
)

Thing = TypeVar("Thing")
Result = TypeVar("Result")


class Batches:
    """Runs a function over batches, halving the batch whenever memory does not suffice.

    The size that went through is remembered for later calls; it does not grow again, since what
    filled the memory once will do so again.

    Args:
        size: How many to begin with.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def run(
        self, things: Sequence[Thing], function: Callable[[Sequence[Thing]], Sequence[Result]]
    ) -> list[Result]:
        """What the function makes of the things, in their order.

        Raises:
            EmbedError: If memory does not suffice for one thing alone.
        """
        made: list[Result] = []
        while len(made) < len(things):
            batch = things[len(made) : len(made) + self.size]
            try:
                made.extend(function(batch))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise EmbedError(
                        f"Memory does not suffice for item {len(made) + 1} of {len(things)} alone.",
                        "Lower max_pixels, or use another device or precision.",
                    ) from error
                self.size = (len(batch) + 1) // 2
            else:
                continue
            _free()  # outside of `except`: the traceback holds the tensors that filled the memory
        return made


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory, of the machine or of a device, did not suffice."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _MEMORY)


def refusal(name: str, error: BaseException) -> EmbedError:
    """What to raise when a model fails on a batch for another reason than memory.

    Args:
        name: The model.
        error: What it raised.

    Returns:
        An `EmbedderGone` when the device failed: after a CUDA error every further call fails, too.
    """
    reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
    if isinstance(error, library("torch").AcceleratorError) or _DEVICE_FAULT.match(reason):
        return EmbedderGone(f"The device that {name} runs on failed: {reason}", "Look at the device's state.")
    return EmbedError(f"{name} cannot take it: {reason}")


def _free() -> None:
    """Gives what torch keeps for later back to the device."""
    torch = library("torch")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
