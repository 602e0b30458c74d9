"""When long work is given up, and what is said of work that was stopped by Ctrl-C."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vrag.cli.terminal.console import warn

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["GOES_ON", "hopeless", "stoppable"]

GOES_ON = "What was finished is kept; the same command goes on from there."
"""Of work that is kept piece by piece."""
_LEAST_IN_A_ROW, _IN_A_ROW = 8, 2
"""Failures in a row at which it is given up: at least so many, and so many times the concurrency."""


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


def hopeless(in_a_row: int, concurrency: int) -> bool:
    """Whether so many runs failed one after the other that the rest would as well: the server is gone.

    Args:
        in_a_row: Of the latest runs, how many failed.
        concurrency: Runs at once.
    """
    return in_a_row >= max(_LEAST_IN_A_ROW, _IN_A_ROW * concurrency)
