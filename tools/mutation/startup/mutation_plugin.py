"""A pytest plugin that names the test in progress to the import hook, and writes what each test takes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mutants import STUDY, TEST

if TYPE_CHECKING:
    from collections.abc import Generator

_failed: set[str] = set()


def _processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write a line for each test that passes: its seconds, its tier and its name."""
    os.environ[TEST] = item.nodeid
    before, began = _processor_seconds(), time.monotonic()
    result = yield
    seconds = max(_processor_seconds() - before, 0.2 * (time.monotonic() - began))
    tier = 2 if item.get_closest_marker("slow") and not item.get_closest_marker("smoke") else 1
    if item.nodeid not in _failed:
        with (Path(os.environ[STUDY]) / "times" / str(os.getpid())).open("a", encoding="utf-8") as file:
            file.write(f"{seconds:.4f}\t{tier}\t{item.nodeid}\n")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the tests that do not pass: they find no mutants."""
    if report.outcome != "passed":
        _failed.add(report.nodeid)
