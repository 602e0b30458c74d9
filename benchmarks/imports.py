"""Seconds to import `vrag` in a new process, beside `pydantic`, which many programs import anyway."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.table import Comparison, compared, show

RUNS = 11


def main() -> list[Comparison]:
    """Imports each in turn, in processes of their own."""
    times: dict[str, list[float]] = {"vrag": [], "pydantic": []}
    for _ in range(RUNS):
        for package, seconds in times.items():
            seconds.append(_import_seconds(package))
    ours, theirs = (statistics.median(seconds) for seconds in times.values())
    return [compared("import vrag / import pydantic", ours, theirs, "s", RUNS)]


def _import_seconds(package: str) -> float:
    code = f"import time; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    show(main())
