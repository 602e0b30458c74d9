"""The command line: one module or folder per command or group of commands."""

import sys


def main() -> None:
    """Run the command line and end the process with its exit status.

    0: done. 1: failed. 2: wrong usage. 3: the documents have no answer. 4: another process is writing to the
    collection. 130: stopped by Ctrl-C, 143: by SIGTERM. 141: the reader of the output is gone, as with
    `| head`; nothing is printed about it.
    """
    from vrag.cli.terminal.process import STOPPED, handle_sigterm, stop_status

    try:
        handle_sigterm()
        from vrag.cli.root import run  # slow import: Ctrl-C during it must be handled

        run()
    except KeyboardInterrupt:
        sys.exit(stop_status())
    except SystemExit as end:
        if end.code == STOPPED:  # from commands and from typer, which only know Ctrl-C
            sys.exit(stop_status())
        raise
