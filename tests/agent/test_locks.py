"""Asking whether somebody writes tells who writes, and never who asks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from filelock import FileLock

from vrag.agent.runs.run_database import is_held

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_held_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_held(lock), "there is none"
    with FileLock(lock, is_singleton=False):
        assert is_held(lock)
        assert is_held(lock), "asking does not free it"
    lock.touch()
    assert not is_held(lock)


def test_any_number_may_ask_at_once(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    begin = threading.Barrier(8)

    def ask(_: int) -> int:
        begin.wait()
        return sum(is_held(lock) for _ in range(2000))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 0


def test_what_cannot_be_asked_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    assert not is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "none" / "lock")
