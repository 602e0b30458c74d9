"""Two programs that do the same work in turn, each in a process of its own, and what they used.

Both get the same number of threads. A program prints a JSON object when it is ready, and one more for
each line it is told; seconds of processor time are its own, as the operating system counts them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

__all__ = ["PRELUDE", "Contender", "contest", "medians", "threads"]

PRELUDE = '''
import json, resource, sys, time

def say(**facts):
    print(json.dumps(facts), flush=True)

def memory(what):
    """Memory in MB: VmHWM the most so far, RssAnon what is held now and stands in no file.

    Not from getrusage: there the memory of the parent counts as well.
    """
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) / 1024

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def timed(work, times=1):
    """What `work` returns the last time, and processor and wall-clock milliseconds of each time."""
    before, begun = cpu(), time.perf_counter()
    for _ in range(times):
        result = work()
    return result, 1000 * (cpu() - before) / times, 1000 * (time.perf_counter() - begun) / times
'''
"""Comes before the code of a program."""


def threads() -> str:
    """How many threads each program may use."""
    return os.environ.get("OMP_NUM_THREADS", "1")


class Contender:
    """A running program.

    Args:
        code: In Python; `PRELUDE` comes before it.
        arguments: `sys.argv[1:]` of it.
        python: The interpreter of its environment.
    """

    def __init__(self, code: str, arguments: Sequence[object], python: str = sys.executable) -> None:
        limits = {f"{name}_NUM_THREADS": threads() for name in ("OMP", "OPENBLAS", "MKL", "RAYON")}
        self._process = subprocess.Popen(
            [python, "-c", PRELUDE + code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **limits},
        )
        self.ready = self._answer()
        """What it said when it was ready."""

    def do(self, what: object) -> dict[str, Any]:
        """Tells it to do something, and returns what it says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Lets it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"A program of this comparison ended with status {self._process.wait()}.")
        return json.loads(line)


@contextmanager
def contest(*contenders: Contender) -> Generator[None]:
    """Ends the programs when the comparison is over."""
    try:
        yield
    finally:
        for contender in contenders:
            contender.end()


def medians(contenders: Sequence[Contender], what: object, runs: int) -> Iterator[dict[str, Any]]:
    """Has the programs do the same in turn, so many times; for each the medians of its numbers."""
    for contender in contenders:
        contender.do(what)  # warms up
    said: list[list[dict[str, Any]]] = [[] for _ in contenders]
    for _ in range(runs):
        for contender, answers in zip(contenders, said, strict=True):
            answers.append(contender.do(what))
    for answers in said:
        yield {
            name: statistics.median(answer[name] for answer in answers)
            if isinstance(value, int | float)
            else value
            for name, value in answers[0].items()
        }
