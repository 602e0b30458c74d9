from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vrag.server.http.background import Threads

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def held() -> Generator[threading.Event]:
    """Holds up work until it is set."""
    event = threading.Event()
    yield event
    event.set()


def test_work_is_done_in_as_many_threads_as_there_are() -> None:
    def work() -> str:
        time.sleep(0.01)
        return threading.current_thread().name

    async def many() -> set[str]:
        threads = Threads(2, "desk")
        names = await asyncio.gather(*(threads.run(work) for _ in range(20)))
        await threads.close(5)
        return set(names)

    assert asyncio.run(many()) == {"desk-0", "desk-1"}


def test_what_work_raises_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ZeroDivisionError

    async def one() -> str:
        threads = Threads(1, "desk")
        with pytest.raises(ZeroDivisionError):
            await threads.run(work)
        name = await threads.run(lambda: threading.current_thread().name)
        await threads.close(5)
        return name

    assert asyncio.run(one()) == "desk-0"


def test_cancelled_work_is_not_begun(held: threading.Event) -> None:
    begun: list[int] = []

    async def some() -> None:
        threads = Threads(1, "desk")
        first = threads.run(lambda: held.wait(10))
        second = threads.run(lambda: begun.append(2))
        third = threads.run(lambda: begun.append(3))
        second.cancel()
        await asyncio.sleep(0)  # an asyncio future tells the one it wraps in the loop's next turn
        held.set()
        await first
        await third
        await threads.close(5)

    asyncio.run(some())
    assert begun == [3]


def test_closing_ends_the_threads_and_they_can_begin_again() -> None:
    async def twice() -> None:
        threads = Threads(2, "closing-desk")
        for _ in range(2):
            await threads.run(lambda: None)
            await threads.close(5)
            deadline = time.monotonic() + 60
            while any(thread.name.startswith("closing-desk") for thread in threading.enumerate()):
                assert time.monotonic() < deadline
                time.sleep(0.001)  # noqa: ASYNC251 - nothing else runs here

    asyncio.run(twice())


def test_closing_leaves_behind_what_hangs_and_gives_up_what_waits(
    held: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    async def some() -> float:
        threads = Threads(1, "hanging-pool")
        first = threads.run(lambda: held.wait(30))
        second = threads.run(lambda: None)
        await asyncio.sleep(0.05)
        started = time.monotonic()
        await threads.close(0.2)
        took = time.monotonic() - started
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        return took

    assert asyncio.run(some()) < 2
    assert "hanging-pool is still busy" in caplog.text
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("hanging-pool"))
