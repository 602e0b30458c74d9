"""Whether some process holds a lock, asked without being taken for one that does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_held"]

_SECONDS = 0.2
"""How long it is tried where asking takes the lock: another one who asks has it for less."""


def is_held(lock: Path) -> bool:
    """Whether some process holds the `FileLock` of this path; False where there is no such file.

    Any number may ask at one time: where the operating system has shared locks, those who ask share one.
    """
    try:
        return _is_held(lock)
    except OSError:  # none there, or none that can be asked
        return False


if sys.platform == "win32":

    def _is_held(lock: Path) -> bool:
        if not lock.exists():
            return False
        try:
            with FileLock(lock, timeout=_SECONDS, poll_interval=_SECONDS / 20, is_singleton=False):
                return False
        except Timeout:
            return True

else:
    import fcntl

    def _is_held(lock: Path) -> bool:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
