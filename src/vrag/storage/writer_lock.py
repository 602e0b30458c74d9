"""A lock for the one writer of a directory, among threads and processes."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from vrag.errors import VragError

log = logging.getLogger("vrag")
_POLL_SECONDS = 0.01


class WriterLock:
    """A lock that the operating system frees with the process, however that ends.

    Whoever waits is the next one: two lock files are taken one after the other, and the first is given back
    only with the second in hand. A writer that takes the lock again and again, as a build does for each
    commit, finds the first one taken and waits in turn. May be shared by threads; it is not reentrant.
    """

    def __init__(
        self,
        directory: Path,
        wait: float,
        busy: Callable[[str, float], VragError],
        name: str = "writer",
        *,
        is_long: bool = False,
    ) -> None:
        """Wait for others up to `wait` seconds.

        `busy` makes the error after so much waiting, given a sentence that names the process with the lock.
        Locks of other names in a directory are others. `is_long` is for one that is held for more than a
        moment: it notes which process holds it, and waiting for it is logged as a warning. A note is a file
        that comes and goes, which would make each commit wait longer for the disk.
        """
        self._directory, self._wait, self._busy, self._is_long = directory, wait, busy, is_long
        self._name, self._holder = name, directory / f"{name}.json"
        self._level = logging.WARNING if is_long else logging.DEBUG

    @contextmanager
    def hold(self, wait: float | None = None) -> Generator[None]:
        """Hold the lock. `wait` as for the lock itself; None for its own.

        Raises the error of `busy` if others hold it for longer, and `OSError` if nothing can be written
        there.
        """
        wait = self._wait if wait is None else wait
        with ExitStack() as held:
            with ExitStack() as queue:
                end = time.monotonic() + wait
                self._take(queue, f"{self._name}-next.lock", wait, end)
                self._take(held, f"{self._name}.lock", wait, end)
            if self._is_long:
                held.callback(self._holder.unlink, missing_ok=True)
                content = {"pid": os.getpid(), "host": socket.gethostname()}
                self._holder.write_text(json.dumps(content), encoding="utf-8")
            yield

    @property
    def is_held(self) -> bool:
        """True while a process holds the lock; one on another machine is believed to be alive."""
        match self._read_holder():
            case {"pid": int(pid), "host": str(host)}:
                return host != socket.gethostname() or _may_run(pid)
            case _:
                return False

    def _take(self, stack: ExitStack, name: str, wait: float, end: float) -> None:
        lock = FileLock(self._directory / name, is_singleton=False)
        try:
            try:
                stack.enter_context(lock.acquire(0))
            except Timeout:
                if wait <= 0:
                    raise
                log.log(self._level, "%s Waiting for it, up to %g s.", self._describe_holder(), wait)
                stack.enter_context(lock.acquire(max(end - time.monotonic(), 0), poll_interval=_POLL_SECONDS))
        except Timeout as error:
            raise self._busy(self._describe_holder(), wait) from error

    def _describe_holder(self) -> str:
        match self._read_holder():
            case {"pid": int(pid), "host": str(host)}:
                process = f" (process {pid} on {host:.255})"
            case _:
                process = ""
        return f"Another process is writing to {self._directory}{process}."

    def _read_holder(self) -> object:
        with suppress(OSError, ValueError):
            return parse_json(self._holder.read_bytes())
        return None


class RefusedLock(WriterLock):
    """The lock of what is only read: it cannot be held."""

    def __init__(self, error: VragError) -> None:
        """`error` is what an attempt to write raises."""
        self._error = error

    @contextmanager
    def hold(self, wait: float | None = None) -> Generator[None]:  # noqa: ARG002 - the lock's
        """Refuse to write."""
        raise self._error
        yield

    @property
    def is_held(self) -> bool:
        """False: nobody writes."""
        return False


def _may_run(pid: int) -> bool:
    """Return whether there is a process with this id; Windows cannot be asked without a handle."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:  # somebody else's
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0
