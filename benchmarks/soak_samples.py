"""Samples of a soak: what a server and its child processes take, and what it leaves on the disk."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.soak_clients import Outcomes

__all__ = ["Resources", "children_of", "cpu_seconds", "disk_use", "sample"]

TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Resources:
    """What a process and its descendants take together."""

    rss_mib: float
    uss_mib: float
    """Memory that is theirs alone: what would be free without them."""
    server_uss_mib: float
    """Of the first process alone."""
    descriptors: int
    server_descriptors: int
    threads: int
    processes: int
    """The descendants."""
    cpu: float
    """Seconds of processor time so far; of descendants only those that live."""

    @classmethod
    def of(cls, pid: int) -> Resources:
        """Look into /proc."""
        own, *others = (found for one in (pid, *children_of(pid)) if (found := look(one)) is not None)
        every = [own, *others]
        return cls(
            rss_mib=round(sum(one.rss for one in every) / 1024, 1),
            uss_mib=round(sum(one.uss for one in every) / 1024, 1),
            server_uss_mib=round(own.uss / 1024, 1),
            descriptors=sum(one.descriptors for one in every),
            server_descriptors=own.descriptors,
            threads=sum(one.threads for one in every),
            processes=len(others),
            cpu=round(sum(one.cpu for one in every), 2),
        )


@dataclass(frozen=True)
class ProcessUse:
    """What one process takes; memory in KiB."""

    rss: int
    uss: int
    descriptors: int
    threads: int
    cpu: float


def look(pid: int) -> ProcessUse | None:
    """Look at one process; None if it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        memory = (folder / "smaps_rollup").read_text(encoding="utf-8")
        sizes = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", memory, re.MULTILINE)}
        threads = len(list((folder / "task").iterdir()))
        descriptors = len(list((folder / "fd").iterdir()))
        return ProcessUse(
            sizes["Rss"],
            sizes["Private_Clean"] + sizes["Private_Dirty"],
            descriptors,
            threads,
            cpu_seconds(pid),
        )
    except (OSError, KeyError):
        return None


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far, with that of children that it has waited for."""
    times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, times[11:15])) / TICK


def children_of(pid: int) -> list[int]:
    """List all descendants of a process."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8")
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found, last = list[int](), {pid}
    while last:
        last = {one for one, parent in parents.items() if parent in last}
        found += sorted(last)
    return found


def disk_use(folder: Path) -> tuple[int, int]:
    """Count the files of a folder and their bytes."""
    files = size = 0
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        files, size = files + 1, size + entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return files, size


def sample(seconds: float, pid: int, seen: Outcomes, folders: Mapping[str, Path]) -> dict[str, Any]:
    """Return one sample: what clients saw since the last one, and what the server takes now."""
    uses = {name: disk_use(folder) for name, folder in folders.items()}
    return {
        "seconds": round(seconds, 1),
        "requests": sum(len(times) for times in seen.seconds.values()),
        "errors": dict(seen.errors),
        "latency_ms": {kind: latency(times) for kind, times in sorted(seen.seconds.items())},
        "server": asdict(Resources.of(pid)),
        "files": {name: files for name, (files, _) in uses.items()},
        "mib": {name: round(size / 2**20, 2) for name, (_, size) in uses.items()},
        "load": os.getloadavg()[0],
    }


def latency(seconds: Iterable[float]) -> dict[str, float]:
    """Return number, median, 95th and 99th percentile and most, in milliseconds."""
    times = np.array(list(seconds)) * 1000
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    figures = {"p50": p50, "p95": p95, "p99": p99, "max": times.max()}
    return {"n": len(times)} | {name: round(float(value), 1) for name, value in figures.items()}
