"""The command line: one module or folder per command or group of commands."""

import os
import signal
import sys


def main() -> None:
    """Run the command line and end the process with its exit status.

    0: done. 1: failed. 2: wrong usage. 3: the documents have no answer. 4: another process is writing to the
    collection. 130: stopped by Ctrl-C, 143: by SIGTERM. 141: the reader of the output is gone, as with
    `| head`; nothing is printed about it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_before_start)
    try:
        from vrag.cli.terminal.process import prepare_stops

        prepare_stops(end_before_start)
        from vrag.cli.root import run  # slow import: Ctrl-C during it must be handled

        run()
    except (KeyboardInterrupt, SystemExit) as end:
        from vrag.cli.terminal.process import end_status

        sys.exit(end_status(end))


def end_before_start(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler
    """End the process on Ctrl-C before anything is loaded that could end it in order."""
    os.write(2, b"Stopped.\n")
    os._exit(128 + number)
