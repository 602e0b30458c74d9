"""Processes that are forked from one with everything imported: to start one costs some milliseconds.

The parent opens no database and has no threads, so that a fork is as good as a new process: whatever needs
a database, comparisons too, runs in a child.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MAX_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a child."""

    status: int
    """0, 1 after an exception, or a negative signal."""
    acknowledged: list[str]
    """What it said was done, in order."""
    error: str
    seconds: float

    @property
    def is_killed(self) -> bool:
        """Whether it was killed."""
        return self.status == -signal.SIGKILL


class Child:
    """A forked process, in a session of its own. `Child.pid` is that of its group."""

    def __init__(self, work: Callable[[Callable[[str], None]], object]) -> None:
        """`work` gets a function by which it says what is done."""
        self._said, said = os.pipe()
        self._failed, failed = os.pipe()
        self._began = time.monotonic()
        self.pid = os.fork()
        if self.pid:
            os.close(said)
            os.close(failed)
            return
        status = 1
        try:
            os.setsid()
            os.close(self._said)
            os.close(self._failed)
            work(lambda text: void(os.write(said, f"{text}\n".encode())))
            status = 0
        except BaseException:  # noqa: BLE001 - told to the parent
            os.write(failed, traceback.format_exc().encode()[-60_000:])
        finally:
            os._exit(status)

    def kill(self) -> None:
        """Send SIGKILL to its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def end(self, kill_after: float | None = None) -> Outcome:
        """Wait for the end, or kill it after some seconds."""
        limit = self._began + (MAX_SECONDS if kill_after is None else kill_after)
        said, failed = bytearray(), bytearray()
        streams = {self._said: said, self._failed: failed}
        is_late = False
        while streams:
            ready, _, _ = select.select(list(streams), [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                if is_late:
                    break  # a process that left the group holds the pipe
                is_late = True
                self.kill()
                limit = time.monotonic() + 5
            for stream in ready:
                if data := os.read(stream, 1 << 16):
                    streams[stream] += data
                else:
                    del streams[stream]
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self._began
        self.kill()  # what it started
        os.close(self._said)
        os.close(self._failed)
        if is_late and kill_after is None:
            return Outcome(1, [], f"It did not end within {MAX_SECONDS:g} s.", seconds)
        lines = said.decode().split("\n")[:-1]
        return Outcome(os.waitstatus_to_exitcode(status), lines, failed.decode(errors="replace"), seconds)


def void(_: object) -> None:
    """Return nothing."""


def compute(work: Callable[[], T]) -> T:
    """Return what a function returns in a child. Raises `RuntimeError` if it fails there."""
    got, give = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(got)
        try:
            result: Any = True, work()
        except BaseException:  # noqa: BLE001 - raised in the parent
            result = False, traceback.format_exc()
        with os.fdopen(give, "wb") as stream:
            pickle.dump(result, stream)
        os._exit(0)
    os.close(give)
    with os.fdopen(got, "rb") as stream:
        data = stream.read()
    os.waitpid(pid, 0)
    is_done: bool
    value: Any
    is_done, value = pickle.loads(data) if data else (False, "It died.")
    if not is_done:
        raise RuntimeError(value)
    return value
