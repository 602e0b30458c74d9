"""The command line: one module or folder per command or group of commands."""

import signal
import sys

from vrag.cli.terminal import end_before_start


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
