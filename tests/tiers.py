"""The two tiers of the tests, and the guard between them.

`make test` runs the first tier: what needs no process of its own, and one test of each kind of the others.
A test that starts processes (a browser, a server, LibreOffice, Node.js, Ray, a build) or takes seconds is of
the second tier, which `make test-all` runs, and bears the marker `slow`: by itself, as `pytestmark` of its
module, or from the `conftest.py` of its folder. One test of each kind bears `smoke`, and runs in the first.

The guard fails a test without one of the two markers that starts a process.
"""

from __future__ import annotations

import multiprocessing.util
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_STARTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "subprocess.Popen",
        "vrag.spawn",
    }
)
"""Audit events of a process that starts; the last is ours, of `multiprocessing`."""
_INQUIRIES = frozenset({"uname", "ldconfig", "/sbin/ldconfig", "fc-list"})
"""Programs by which Python's library asks what machine this is, and Matplotlib which fonts it has."""
_HINT = (
    "mark it @pytest.mark.slow, so that `make test-all` runs it, or test the same in this process "
    "(CONTRIBUTING.md, The tests)"
)

_ROOT = Path(__file__).parents[1]


@dataclass
class WatchedTest:
    """A test in progress."""

    may_start: bool
    """True if it may start processes."""
    started: list[str] = field(default_factory=list[str])
    """The processes that it has started though it may not, with the lines that did."""


watched: list[WatchedTest] = []
"""The test in progress; several where one runs pytest itself."""


def is_slow(item: pytest.Item) -> bool:
    """Return true for a test whose subject is a process, a browser or the like."""
    return item.get_closest_marker("slow") is not None


def may_start_processes(item: pytest.Item) -> bool:
    """Return true for a test of the second tier, and for one of its kind in the first."""
    return is_slow(item) or item.get_closest_marker("smoke") is not None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note that a process starts. Python calls this for each of its audit events, so it returns soon."""
    if event not in _STARTS or not watched or watched[-1].may_start:
        return
    program = str(arguments[0]) if arguments else event
    if program not in _INQUIRIES:
        watched[-1].started.append(f"{program}, from {_find_caller()}")


def _find_caller() -> str:
    """Find the line of the project that starts a process."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT) and path != Path(__file__) and ".venv" not in path.parts:
            return f"{path.relative_to(_ROOT)}:{frame.lineno}"
    return "a library"


def _audit_spawn() -> None:
    """Have `multiprocessing` tell of its processes, as `subprocess` does."""
    spawn = multiprocessing.util.spawnv_passfds

    def audited(path: bytes, *rest: Any) -> int:  # noqa: ANN401 - as `multiprocessing` calls it
        sys.audit("vrag.spawn", path)
        return spawn(path, *rest)

    multiprocessing.util.spawnv_passfds = audited


sys.addaudithook(_hear)
_audit_spawn()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a test, its fixtures included."""
    watched.append(WatchedTest(may_start_processes(item)))
    try:
        return (yield)
    finally:
        watched.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fail a test of the first tier that has started a process."""
    result = yield
    if started := watched[-1].started:
        pytest.fail(f"This test started a process ({started[0]}): {_HINT}.", pytrace=False)
    return result
