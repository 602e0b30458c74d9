"""Repeatable trainings: deterministic operations, and an order that depends on nothing but seed and step.

The order in which floating-point numbers are added decides their last bits. On a CPU it is the same on the
same machine, with the same libraries and the same number of threads (`OMP_NUM_THREADS`), and with nothing
else. On CUDA some operations add in whatever order their threads arrive, unless torch is told not to: here
it is, strictly, so that an operation which cannot do otherwise is an error and no silent difference. It is
slower; attention too is repeatable only then. Another device, driver, or version still gives other bits.
The samplers' randomness is not torch's: it is drawn beforehand, by run, step, case and sample.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vrag.embed.device import library
from vrag.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

T = TypeVar("T")
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""Without it cuBLAS may choose another algorithm each time; read when it is first used."""


@contextmanager
def repeatable(device: str, *, wanted: bool = True) -> Generator[None]:
    """Make operations on CUDA deterministic; on a CPU, or unless `wanted`, do nothing. Enter before any use.

    It applies to the process: other models in it are slower as well.

    Raises:
        TrainingError: If an operation cannot be.
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
            "Train with --no-together, which does not promise that.",
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def in_turn(things: Sequence[T], step: int, each: int, seed: tuple[int, ...]) -> list[T]:
    """Select the things of a step: all in turn, in an order that is drawn again for each round.

    It depends on nothing but the arguments, so that a resumed training takes what it would have taken.

    Args:
        things: All of them, at least one.
        step: The step, from 1.
        each: Number of things in a step; where there are fewer, some come twice.
        seed: Of the order, together with the number of the round.

    >>> sorted(in_turn("abc", 1, 2, (0,)) + in_turn("abc", 2, 2, (0,))[:1])
    ['a', 'b', 'c']
    """
    count = len(things)
    places = range((step - 1) * each, step * each)
    rounds = {place // count for place in places}
    orders = {turn: np.random.default_rng((*seed, turn)).permutation(count) for turn in rounds}
    return [things[int(orders[place // count][place % count])] for place in places]
