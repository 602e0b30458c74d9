"""Runs another program for a worker and ends it for certain: `guard.py SECONDS FOLDER PROGRAM ARGUMENT…`.

A process of its own between the two, because a worker is killed without warning when its time is up,
and could then end nothing. The end of file on standard input is the sign that the worker is gone: all
that the program started is killed and FOLDER removed. Imports nothing of vrag: it starts in some
twenty milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

__all__ = ["CRASHED", "LATE", "main"]

LATE = 124
"""Exit status when the time limit was over."""
CRASHED = 125
"""Exit status when the program was ended by a signal."""
GRACE_SECONDS = 2.0
"""How long the killed may take to let go of their files."""


def main(arguments: list[str]) -> int:
    """Runs the program to its end, or to that of its time or of whoever asked for it.

    Args:
        arguments: Seconds, folder, and the command.

    Returns:
        The program's exit status, `LATE` or `CRASHED`.
    """
    seconds, folder, *command = arguments
    null = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 - the command is our parent's
        command, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    threading.Thread(target=_watch, args=(process, folder), daemon=True).start()
    try:
        status = process.wait(float(seconds))
    except subprocess.TimeoutExpired:
        status = LATE
    _end(process)
    return status if 0 <= status <= LATE else CRASHED


def _watch(process: subprocess.Popen[bytes], folder: str) -> None:
    while os.read(0, 1024):
        pass
    _end(process)
    limit = time.monotonic() + GRACE_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the folder above, when ours was the last in it
        os.rmdir(os.path.dirname(folder))  # noqa: PTH106, PTH120 - pathlib takes long to import
    os._exit(CRASHED)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the program and what it started."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows
            process.kill()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once, since a thread still reads standard input
