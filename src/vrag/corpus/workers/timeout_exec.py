"""A program that runs another one with a time limit and reliably ends it.

Usage: `timeout_exec.py SECONDS FOLDER PROGRAM ARGUMENT…`. The program starts in FOLDER: it may run as another
user, who may not enter the folder of the caller. So its path is absolute.
The limit is one of processor time, for each process of the program. What uses none for a minute waits for
something that will not come, such as an answer to a question, and is ended then; where that cannot be seen
(without `/proc`), after ten times the limit. Where the system has no such limit (Windows) it is one of the
time that passes.

It runs as a separate process because a worker is killed without warning at its time limit and could not
stop the program itself. The end of file on standard input is the sign that the worker is gone: all
that the program started is killed and FOLDER removed. Imports nothing of vrag: it starts in some
twenty milliseconds.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

if sys.platform != "win32":
    import resource

WALL_FACTOR = 10.0
"""Wall-clock time that a program may take, as a multiple of its limit of processor time."""
IDLE_SECONDS, IDLE_USE = 60.0, 0.1
"""Wall-clock time in which a program uses less processor time than this is one in which it waits."""
_NEAR_LIMIT = 0.85
"""Fraction of the limit from which a failed program counts as too slow: clocks of the system differ a
little, and who ended the processes that a program started is not known."""
MAX_SECONDS = 1e9
"""A limit of processor time that means none."""

LATE = 124
"""Exit status when the time limit was over."""
CRASHED = 125
"""Exit status when the program was ended by a signal."""
BLOCKED = 126
"""Exit status when the program waited and did nothing."""
GRACE_SECONDS = 2.0
"""Time for killed processes to release their files."""


def main(arguments: list[str]) -> int:
    """Run a command to its end, its time limit or the end of the caller: `SECONDS FOLDER COMMAND…`.

    Returns the command's exit status, `LATE`, `BLOCKED` or `CRASHED`.
    """
    seconds, folder, *command = arguments
    limited = set_processor_limit(float(seconds))
    null = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 - the command is our parent's
        command, cwd=folder, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    is_gone = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process, folder, is_gone), daemon=True)
    watcher.start()
    status = _wait(process, float(seconds) * (WALL_FACTOR if limited else 1.0))
    if is_over_limit(status) or (status and _processor_seconds() >= _NEAR_LIMIT * float(seconds)):
        status = LATE
    _end(process)
    if is_gone.is_set():  # it removes the folder, and ends this process
        watcher.join()
    return status if 0 <= status <= LATE or status == BLOCKED else CRASHED


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Wait for the end of a process, and return its exit status, `LATE` or `BLOCKED`."""
    end = time.monotonic() + seconds
    used_before = 0.0
    while (left := end - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(min(left, IDLE_SECONDS))
            return CRASHED if status == BLOCKED else status  # of the program, for which 126 says nothing
        used = _running_seconds(process.pid)
        if left > IDLE_SECONDS and used is not None and abs(used - used_before) < IDLE_USE:
            return BLOCKED
        used_before = used or 0.0
    return LATE


def _running_seconds(session: int) -> float | None:
    """Return the processor time of a session's processes that run, and of children that they have waited for.

    None where `/proc` does not tell.
    """
    ticks, is_known = 0, False
    for process in os.scandir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH112
        if not process.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError), open(f"{process.path}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
            if int(fields[3]) == session:
                ticks, is_known = ticks + sum(map(int, fields[11:15])), True
    return ticks / os.sysconf("SC_CLK_TCK") if is_known else None


def set_processor_limit(seconds: float) -> bool:
    """Limit the processor time of this process, and of each that it starts; False where the system cannot."""
    if sys.platform == "win32":
        return False
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(min(seconds, MAX_SECONDS)), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    return True


def is_over_limit(status: int) -> bool:
    """Return whether an exit status is that of a process which the limit of processor time has ended."""
    return sys.platform != "win32" and status in {-signal.SIGXCPU, 128 + signal.SIGXCPU}


def _processor_seconds() -> float:
    """Return the processor time of all that was started and has ended."""
    if sys.platform == "win32":
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: subprocess.Popen[bytes], folder: str, is_gone: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    is_gone.set()
    _end(process)
    limit = time.monotonic() + GRACE_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the folder above, when ours was the last in it
        os.rmdir(os.path.dirname(folder))  # noqa: PTH106, PTH120 - pathlib takes long to import
    os._exit(CRASHED)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it has started."""
    if sys.platform == "win32":
        null, tree = subprocess.DEVNULL, ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(tree, stdin=null, stdout=null, stderr=null, check=False)  # noqa: S603
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once, since a thread still reads standard input
