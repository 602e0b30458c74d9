"""The program that ends another one at its time limit, or when it waits and does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from vrag.corpus.workers import timeout_exec
from vrag.corpus.workers.timeout_exec import BLOCKED, CRASHED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
IMPATIENT = (
    "import sys; from vrag.corpus.workers import timeout_exec; "
    "timeout_exec.IDLE_SECONDS, timeout_exec.IDLE_USE = 1.0, 0.02; "  # on a loaded machine work is slow
    "sys.exit(timeout_exec.main(sys.argv[1:]))"
)


def run(folder: Path, program: str, seconds: int = 60) -> int:
    """Return the exit status of a program that waits for no longer than a second."""
    command = [sys.executable, "-c", IMPATIENT, str(seconds), str(folder), sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        return process.wait(timeout=60)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_program_that_waits_and_does_nothing_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    assert run(tmp_path, "import time; time.sleep(600)") == BLOCKED
    assert time.monotonic() - begin < 60


def test_a_program_that_works_for_longer_is_not_taken_for_one_that_waits(tmp_path: Path) -> None:
    work = "import time\nwhile time.process_time() < 2.5: pass\nraise SystemExit(7)"
    assert run(tmp_path, work) == 7


def test_work_of_processes_that_have_ended_counts(tmp_path: Path) -> None:
    child = "import time\nwhile time.process_time() < 1.5: pass"
    work = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', {child!r}])"
    assert run(tmp_path, work) == 0


def test_a_program_that_cannot_be_started_has_not_waited(tmp_path: Path) -> None:
    assert run(tmp_path, "raise SystemExit(126)") == CRASHED


def test_processor_time_of_a_running_session_is_known_or_none(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "sum(range(10**7)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        used = timeout_exec._running_seconds(process.pid)  # pyright: ignore[reportPrivateUsage]
        process.kill()
    assert used is None or used > 0
