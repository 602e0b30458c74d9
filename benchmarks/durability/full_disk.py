"""A full disk at every point of operations: what was acknowledged stays, and with space the rest is made.

The disk is a file system in memory of limited size. It is filled so far that an operation finds a random
part of the space that it needs; or, by the library, full from a random call on, which reaches the calls
that need little space. The operation may fail, by an error that names the reason. Then the space is freed,
and it runs again.
"""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault
from benchmarks.durability.operations import DONE
from benchmarks.durability.processes import Child, compute

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from benchmarks.durability.faults import Faults
    from benchmarks.durability.operations import Bench, Operation

DISK_MEGABYTES = 640
"""More than the 512 that a server of uploads keeps free."""
_EXPECTED = ("CollectionError", "RunError", "No space left", "disk is full", "Free some disk space")
"""One of these is in the last lines of an error that is understood."""


@contextmanager
def small_disk(folder: Path) -> Generator[bool]:
    """Mount a file system of limited size on a folder; return whether that is permitted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(folder)]
    is_mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class FullDiskStudy:
    """Cases of full disks, by number."""

    def __init__(
        self,
        bench: Bench,
        faults: Faults,
        operations: Sequence[Callable[[Bench], Operation]],
        seed: int,
        *,
        is_mounted: bool,
    ) -> None:
        self._bench, self._faults, self._seed = bench, faults, seed
        self._ways = ["small disk", "from a call on"] if is_mounted else ["from a call on"]
        faults.arm(Fault.NONE)
        self._operations = [make(bench) for make in operations]
        self._sizes = [self._measure(operation) for operation in self._operations]

    def case(self, number: int) -> dict[str, Any]:
        """Fill the disk, run an operation, check, free the space, run it to its end, and compare."""
        chance = random.Random(f"{self._seed} {number}")
        place = number // len(self._ways) % len(self._operations)
        operation, (calls, size) = self._operations[place], self._sizes[place]
        way = self._ways[number % len(self._ways)]
        operation.prepare()
        ballast = self._bench.disk / "ballast"
        facts: dict[str, Any] = {"group": operation.name, "way": way}
        if way == "small disk":
            facts["free"] = free = int(chance.uniform(0, 1.05) * size)
            fill(ballast, free)
            self._faults.arm(Fault.NONE)
        else:
            facts["at"] = chance.randint(1, calls)
            self._faults.arm(Fault.FULL, facts["at"])
        outcome = Child(operation.run).end()
        refused = self._faults.refused > 0 or (way == "small disk" and outcome.status != 0)
        self._faults.arm(Fault.NONE)
        wrong = [] if outcome.status in {0, 1} else [f"It was ended by signal {-outcome.status}."]
        reason = outcome.error.strip().split("\n")[-1]
        if outcome.status == 1 and not any(word in outcome.error[-3000:] for word in _EXPECTED):
            wrong.append(f"It failed in another way: {reason[:200]}")
            facts["error"] = outcome.error
        facts["reason"] = reason[:300]
        for free in (False, True):
            if free:
                ballast.unlink(missing_ok=True)
            wrong += self._look(lambda: operation.check(outcome.acknowledged))
        if not wrong:
            wrong += self._look(operation.finish)
        counts = {
            "full": int(refused),
            "failed": int(outcome.status == 1),
            "done": int(DONE in outcome.acknowledged),
        }
        return facts | {"counts": counts, "wrong": wrong}

    def _look(self, work: Callable[[], list[str]]) -> list[str]:
        try:
            return compute(work)
        except RuntimeError as error:
            return [str(error)[-1500:]]

    def _measure(self, operation: Operation) -> tuple[int, int]:
        """Return the calls of an undisturbed run, and the bytes that it adds to the disk at most."""
        operation.prepare()
        before = _used(self._bench.disk)
        self._faults.arm(Fault.COUNT)
        outcome = Child(operation.run).end()
        calls = self._faults.calls
        self._faults.arm(Fault.NONE)
        if outcome.status != 0:
            raise RuntimeError(f"{operation.name} does not work undisturbed: {outcome.error}")
        size = max(_used(self._bench.disk) - before, 256 * 1024)
        print(f"{operation.name}: {calls} calls, {size:,} bytes", flush=True)
        return calls, size


def fill(ballast: Path, free: int) -> None:
    """Fill a disk with a file up to some bytes."""
    with ballast.open("wb") as file:
        status = os.statvfs(ballast)
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - free))


def _used(folder: Path) -> int:
    status = os.statvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
