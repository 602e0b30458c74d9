"""Exit statuses, Ctrl-C and SIGTERM, and output that nobody reads any more.

Ctrl-C prints "Stopped." once, whenever it comes. While commands are loaded it ends the process at once, since
libraries turn an interrupted import into other errors. While a command runs it raises `KeyboardInterrupt`, so
that work is saved. While the process ends, it ends it at once again.
"""

from __future__ import annotations

import _thread
import atexit
import errno
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from sys import UnraisableHookArgs

    from vrag.storage.database import Database

DONE, FAILED, BUSY = 0, 1, 4
"""Exit statuses; `BUSY` if another process is writing to the collection, or has the folder."""
STOPPED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit statuses after Ctrl-C and SIGTERM, as shells report them."""
OUTPUT_CLOSED = 141
"""Exit status if the reader of stdout is gone: 128 + SIGPIPE, as shells report it for other programs."""

INTERRUPT_RETRY_SECONDS = 0.05
"""Time after which Ctrl-C is repeated that came where Python ignores exceptions."""

_sigterm = threading.Event()
_reported = threading.Event()
"""Set once it was printed that the command was stopped."""


def prepare_stops(early: Callable[[int, object], None]) -> None:
    """Handle Ctrl-C and SIGTERM from now on; until `raise_interrupts`, they end the process at once.

    `early` is the handler of Ctrl-C until now.
    """
    handle_sigterm()
    if signal.getsignal(signal.SIGINT) is early:
        signal.signal(signal.SIGINT, stop_at_once)
    stop_at_once_on_interrupt()
    sys.unraisablehook = _handle_unraisable


def raise_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on."""
    _reported.clear()
    if signal.getsignal(signal.SIGINT) is stop_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def stop_at_once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
    """End the process at once, and print that it was stopped if nothing was printed about it."""
    if not _reported.is_set():
        os.write(2, b"Stopped.\n")
    os._exit(stop_status())


def mark_stop_reported() -> None:
    """Remember that a message has said that the command was stopped."""
    _reported.set()


def report_stop() -> None:
    """Print that the command was stopped, unless a message has said so."""
    if not _reported.is_set():
        _reported.set()
        sys.stderr.write("Stopped.\n")


def end_status(end: KeyboardInterrupt | SystemExit) -> str | int | None:
    """Return the exit status of a process that ends; after a stop, the rest of it ends without messages."""
    stop_at_once_on_interrupt()
    if signal.getsignal(signal.SIGINT) is stop_at_once:  # the interpreter removes it at its very end
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    if isinstance(end, SystemExit) and end.code != STOPPED:
        return end.code
    report_stop()
    if "logging" in sys.modules:
        sys.modules["logging"].disable(100)
    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None
    return stop_status()


@contextmanager
def close_databases() -> Generator[None]:
    """Close the databases that a command opens, when it ends: nothing is left in their logs then."""
    before = set(_find_databases())
    try:
        yield
    finally:
        for database in set(_find_databases()) - before:
            database.finish()


def _find_databases() -> list[Database]:
    """Return the databases of this process; most commands have none, and do not load the engine for it."""
    module = sys.modules.get("vrag.storage.database")
    return [] if module is None else module.open_databases()


def stop_at_once_on_interrupt() -> None:
    """Let Ctrl-C end the process at once from now on, as while Python shuts down."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop_at_once)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is the cause of an error: libraries turn it into errors of their own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _handle_unraisable(unraisable: UnraisableHookArgs) -> None:
    """Repeat Ctrl-C that came in a destructor or a callback, where Python would only print it."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        timer = threading.Timer(INTERRUPT_RETRY_SECONDS, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


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
