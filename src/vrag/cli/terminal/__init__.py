"""The terminal that all commands share: console, options, output files, paths, signals."""

import os


def end_before_start(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler
    """End the process on Ctrl-C before anything is loaded that could end it in order."""
    os.write(2, b"Stopped.\n")
    os._exit(128 + number)
