"""Work that several threads share: numpy and onnxruntime let others run while they multiply."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["executor", "spread"]

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """What `work` makes of each thing, in their order, by as many threads as BLAS would use.

    That is OMP_NUM_THREADS, or one for each core this process may run on.
    """
    count = min(_threads(), len(things))
    if count <= 1:
        return [work(thing) for thing in things]
    cuts = [len(things) * part // count for part in range(count + 1)]
    parts = [things[begin:end] for begin, end in pairwise(cuts)]

    def done(part: Sequence[T]) -> list[R]:
        return [work(thing) for thing in part]

    return [result for made in executor().map(done, parts) for result in made]


def _threads() -> int:
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def executor() -> ThreadPoolExecutor:
    """The threads of this process. A forked one does not inherit them and makes its own."""
    return ThreadPoolExecutor(_threads(), thread_name_prefix="vrag-scores")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=executor.cache_clear)
