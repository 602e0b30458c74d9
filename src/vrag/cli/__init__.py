"""The command line: one file per command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.cli.root import app

__all__ = ["app", "main"]

DONE, FAILED, STOPPED = 0, 1, 130
"""Exit statuses; the last after Ctrl-C, as shells have it."""


def main() -> None:
    """Runs the command line; ends the process with its exit status.

    Status 0: done. 1: failed. 2: wrong use. 3: the documents hold no answer. 130: stopped by Ctrl-C, 143: by
    SIGTERM. 141: the reader of its output has left, as with `| head`; nothing is printed about it.
    """
    from vrag.cli.terminal.signals import handle_sigterm, stop_status

    try:
        handle_sigterm()
        from vrag.cli.root import run  # here, since it takes a while, in which somebody may press Ctrl-C

        run()
    except KeyboardInterrupt:
        sys.exit(stop_status())
    except SystemExit as end:
        if end.code == STOPPED:  # of commands, and of typer, which know of Ctrl-C alone
            sys.exit(stop_status())
        raise


def __getattr__(name: str) -> object:
    """`app`: all commands, loaded when they are asked for."""
    if name == "app":
        from vrag.cli.root import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
