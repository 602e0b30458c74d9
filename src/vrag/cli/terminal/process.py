"""Exit statuses, SIGTERM, and output that nobody reads any more."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

DONE, FAILED, BUSY = 0, 1, 4
"""Exit statuses; `BUSY` if another process is writing to the collection, or has the folder."""
STOPPED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit statuses after Ctrl-C and SIGTERM, as shells report them."""
OUTPUT_CLOSED = 141
"""Exit status if the reader of stdout is gone: 128 + SIGPIPE, as shells report it for other programs."""

_sigterm = threading.Event()


def handle_sigterm() -> None:
    """From now on, let SIGTERM do what SIGINT does at that moment.

    Work is then ended, saved and reported in one place for both. A process that ignores SIGINT, as shells
    start what runs in the background, blocks it instead: then an event loop takes SIGINT over as usual, and
    ends in order on SIGTERM.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        _sigterm.set()
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)


def sigterm_received() -> bool:
    """Return whether SIGTERM is the reason why the process stops."""
    return _sigterm.is_set()


def stop_status() -> int:
    """Return the exit status of a stopped command: 143 after SIGTERM, 130 after Ctrl-C."""
    return TERMINATED if sigterm_received() else STOPPED


@contextmanager
def handle_closed_output() -> Generator[None]:
    """End the process quietly with `OUTPUT_CLOSED` if the reader of stdout is gone, as with `| head -1`.

    SIGPIPE itself stays ignored, since it would also end servers whose clients leave. Typer and rich turn
    the error into exit status 1, with the error as its context. Short output is written here, by `flush`.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if _is_closed_output(error):
            _discard_output()
        raise
    except SystemExit as end:
        if _is_closed_output(end.__context__):
            _discard_output()
        raise


def _is_closed_output(error: BaseException | None) -> bool:
    """Return whether an error is that of writing to a pipe that nobody reads; Windows has EINVAL for it."""
    if sys.platform == "win32":
        return isinstance(error, OSError) and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError)


def _discard_output() -> None:
    """Discard what is still buffered, which the interpreter would write and complain about, and exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    sys.exit(OUTPUT_CLOSED)
