"""The time that a thread takes, whatever else its process does and holds."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Fails if what is done meanwhile takes the thread longer.

    Garbage is not collected meanwhile: that takes the longer the more objects the process holds.
    """
    gc.disable()
    begun = time.thread_time()
    try:
        yield
        taken = time.thread_time() - begun
    finally:
        gc.enable()
    assert taken < seconds, f"it took {taken:.1f} s"
