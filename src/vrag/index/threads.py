"""Work that several threads share: numpy and onnxruntime let others run while they multiply."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["spread"]

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
    parts = [things[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
    made = _pool().map(lambda part: [work(thing) for thing in part], parts)
    return [result for part in made for result in part]


def _threads() -> int:
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="vrag-scores")
