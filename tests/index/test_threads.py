from __future__ import annotations

import threading

import pytest

from vrag.index import threads
from vrag.index.threads import spread


@pytest.mark.parametrize("told", ["1", "3", "", "2,1", "none"])
@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_results_come_in_the_order_of_things(count: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    threads._pool.cache_clear()
    assert spread(lambda number: number * number, list(range(count))) == [n * n for n in range(count)]
    threads._pool.cache_clear()


def test_threads_work_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads._pool.cache_clear()
    both = threading.Barrier(2, timeout=10)
    assert len(spread(lambda _: both.wait(), [0, 1])) == 2
    threads._pool.cache_clear()


def test_an_error_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads._pool.cache_clear()
    with pytest.raises(ZeroDivisionError):
        spread(lambda number: 1 / number, [1, 0, 2])
    threads._pool.cache_clear()
