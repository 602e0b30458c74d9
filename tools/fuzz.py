"""Searches for failing examples: runs the property tests with new random seeds until the time is up.

The test suite takes the same examples everywhere. This looks for others. Failures are printed with the
seed and, by Hypothesis, with the code that reproduces them; a test that failed is left out of later rounds.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_NO_TESTS = 5
"""Exit status of pytest when every test was deselected."""


def run_round(paths: list[str], seed: int, workers: int, skipped: list[str], seconds: float) -> str | None:
    """Run the property tests once.

    Returns:
        The output of pytest; None if time ran out before the last test.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-m", "hypothesis", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}", "-n", str(workers)]
    command += ["--dist=worksteal", *(f"--deselect={test}" for test in skipped), *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate()
            return output if _FAILED.search(output) else None
    if process.returncode not in {0, 1, _NO_TESTS}:
        sys.exit(output)
    return output


def main() -> None:
    """Run rounds until the time is up; exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="Time budget in minutes. Default: 10.")
    parser.add_argument("--workers", type=int, default=2, help="Processes. Default: 2.")
    parser.add_argument("paths", nargs="*", help="Tests to run. Default: all property tests.")
    arguments = parser.parse_args()
    failed: list[str] = []
    with suppress(KeyboardInterrupt):
        search(arguments.paths, arguments.minutes * 60, arguments.workers, failed)
    print(f"Failed tests: {len(failed)}", *failed, sep="\n  ")
    sys.exit(bool(failed))


def search(paths: list[str], seconds: float, workers: int, failed: list[str]) -> None:
    """Run rounds for so many seconds; print each and append the tests that fail to `failed`."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        seed = random.getrandbits(32)
        output = run_round(paths, seed, workers, failed, left)
        if output is None:
            return
        found = _FAILED.findall(output)
        print(f"Seed {seed}: {output.strip().splitlines()[-1]}", flush=True)
        if found:
            print(output, flush=True)
        failed += found


if __name__ == "__main__":
    main()
