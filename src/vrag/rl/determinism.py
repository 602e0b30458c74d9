"""What it takes that a training can be repeated bit by bit, and where that ends.

The order in which floating-point numbers are added decides their last bits. On a CPU it is the same on the
same machine, with the same libraries and the same number of threads (`OMP_NUM_THREADS`), and with nothing
else. On CUDA some operations add in whatever order their threads arrive, unless torch is told not to: here
it is, strictly, so that an operation which cannot do otherwise is an error and no silent difference. It is
slower; attention too is repeatable only then. Another device, driver, or version still gives other bits.
The samplers' chance is not torch's: it is drawn beforehand, by run, step, case and sample.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vrag.embed.device import library
from vrag.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["repeatable"]

_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""Without it cuBLAS may choose another algorithm each time; read when it is first used."""


@contextmanager
def repeatable(device: str, *, wanted: bool = True) -> Generator[None]:
    """Inside, operations on CUDA are repeatable; on a CPU nothing is changed. To be entered before any use.

    It is said of the process: models that are used beside the training are slower as well.

    Args:
        device: As torch names it.
        wanted: Whether they shall be.

    Raises:
        TrainingError: If an operation is met that cannot be.
    """
    if not wanted or not device.startswith("cuda"):
        yield
        return
    torch = library("torch")
    os.environ.setdefault(*_WORKSPACE)
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise TrainingError(
            f"An operation on {device} cannot be repeated bit by bit: {error}.",
            "Train with --no-together, where that is not promised.",
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
