"""The end of a command whose output nobody reads any more, such as `vrag search … | head -1`."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["OUTPUT_CLOSED", "handle_closed_output"]

OUTPUT_CLOSED = 141
"""Exit status when the reader of stdout has left: 128 + SIGPIPE, as shells show it for other programs."""


@contextmanager
def handle_closed_output() -> Generator[None]:
    """End the process quietly with `OUTPUT_CLOSED` if stdout is a pipe that its reader has closed.

    SIGPIPE itself stays ignored, since it would also end servers whose clients leave. Typer and rich turn
    the error into exit status 1, with the error as its context. Short output is written here, by `flush`.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _leave()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            _leave()
        raise


def _leave() -> None:
    """Discard what is still buffered, which the interpreter would write and complain about, and exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    sys.exit(OUTPUT_CLOSED)
