from __future__ import annotations

import os
import signal
import threading

import pytest

from vrag.index.vectors import maxsim
from vrag.index.vectors.maxsim import map_threads


@pytest.mark.parametrize("setting", ["1", "3", "", "2,1", "none"])
@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_results_come_in_the_order_of_things(
    count: int, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    maxsim.executor.cache_clear()
    assert map_threads(lambda number: number * number, list(range(count))) == [n * n for n in range(count)]
    maxsim.executor.cache_clear()


def test_threads_work_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    maxsim.executor.cache_clear()
    both = threading.Barrier(2, timeout=120)
    assert len(map_threads(lambda _: both.wait(), [0, 1])) == 2
    maxsim.executor.cache_clear()


def test_an_error_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    maxsim.executor.cache_clear()
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda number: 1 / number, [1, 0, 2])
    maxsim.executor.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    maxsim.executor.cache_clear()
    assert map_threads(str, [1, 2, 3]) == ["1", "2", "3"]
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(0 if map_threads(str, [4, 5, 6]) == ["4", "5", "6"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    maxsim.executor.cache_clear()
