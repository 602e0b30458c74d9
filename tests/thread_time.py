"""Limits of the processor time of a thread, whatever else its process does."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Fails if the block takes its thread longer than so many seconds of processor time.

    The garbage collector is off meanwhile: its time grows with the number of objects in the process.
    """
    gc.disable()
    begun = time.thread_time()
    try:
        yield
        taken = time.thread_time() - begun
    finally:
        gc.enable()
    assert taken < seconds, f"It took {taken:.1f} s of processor time."


def thread_seconds(work: Callable[[], object]) -> float:
    """The processor time of this thread that some work takes, without the garbage collector."""
    gc.disable()
    try:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun
    finally:
        gc.enable()
