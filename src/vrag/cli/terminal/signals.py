"""SIGTERM ends a command as Ctrl-C does, with an exit status of its own."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from vrag.cli import STOPPED

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["TERMINATED", "handle_sigterm", "sigterm_received", "stop_status"]

TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, as shells have it."""

_received = threading.Event()


def handle_sigterm() -> None:
    """Have SIGTERM do from now on what SIGINT does at that moment.

    What is begun is ended, kept and reported at one place for both. A process that ignores SIGINT, as shells
    start what runs in the background, blocks it instead: then an event loop takes SIGINT over as usual, and
    ends in order on SIGTERM.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def sigterm_received() -> bool:
    """Return whether SIGTERM is why the process stops."""
    return _received.is_set()


def stop_status() -> int:
    """Return the exit status of a command that was stopped: 143 after SIGTERM, 130 after Ctrl-C."""
    return TERMINATED if sigterm_received() else STOPPED


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a signal handler
    _received.set()
    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt):
        raise KeyboardInterrupt
    interrupt(signal.SIGINT, frame)
