"""Ctrl-C: what is said of work that was stopped."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vrag.cli.display import warn

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["GOES_ON", "stoppable"]

GOES_ON = "What was finished is kept; the same command goes on from there."
"""Of work that is kept piece by piece."""


@contextmanager
def stoppable(left: str) -> Generator[None]:
    """Says on Ctrl-C what is left of the work, and lets it end the command.

    Args:
        left: In a sentence.
    """
    try:
        yield
    except KeyboardInterrupt:
        warn(f"Stopped. {left}")
        raise
