from __future__ import annotations

import pytest

from vrag.index.manifest import IndexProgress, ProgressMeter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_rate_and_remaining_time(clock: Clock) -> None:
    meter = ProgressMeter(None, 5, clock)
    for name in "abc":
        meter.counted(name, 10, 0)
        for _ in range(10):
            clock.now += 0.5
            meter.made(name)
        meter.finished()
    progress = meter.progress
    assert progress.rate == pytest.approx(2.0)
    assert progress.remaining_seconds == pytest.approx(20 / 2.0), "the other files count as the mean"


def test_the_rate_is_that_of_the_last_half_minute(clock: Clock) -> None:
    meter = ProgressMeter(None, 1, clock)
    meter.counted("a", 1000, 0)
    for _ in range(100):
        clock.now += 10
        meter.made("a")
    for _ in range(61):
        clock.now += 1
        meter.made("a")
    assert meter.progress.rate == pytest.approx(1.0, rel=0.05)


def test_what_was_there_before_is_done_but_not_speed(clock: Clock) -> None:
    meter = ProgressMeter(None, 1, clock)
    clock.now += 1
    meter.counted("a", 1000, 900)
    clock.now += 9
    for _ in range(10):
        meter.made("a")
    progress = meter.progress
    assert (progress.items_done, progress.items) == (910, 1000)
    assert progress.rate == pytest.approx(1.0)
    assert progress.remaining_seconds == pytest.approx(90)


def test_nothing_is_foretold_before_it_can_be_known(clock: Clock) -> None:
    meter = ProgressMeter(None, 4, clock)
    assert meter.progress.remaining_seconds is None
    meter.counted("a", 20, 0)
    for _ in range(19):
        clock.now += 1
        meter.made("a")
        assert meter.progress.remaining_seconds is None, "the other files are not known"
    for name in "bcd":
        meter.counted(name, 5, 0)
    assert meter.progress.remaining_seconds == pytest.approx(16.0)


def test_nor_from_the_first_items_or_for_what_ends_the_work(clock: Clock) -> None:
    meter = ProgressMeter(None, 1, clock)
    meter.counted("a", 8, 0)
    for number in range(8):
        clock.now += 0.5
        meter.made("a")
        known = meter.progress.remaining_seconds is not None
        assert known == (number in {5, 6}), "3 seconds have passed, and something is left"


def test_the_share_that_is_done_never_falls(clock: Clock) -> None:
    meter = ProgressMeter(None, 3, clock)
    shares = [meter.progress.share]
    for name, items in (("a", 2), ("b", 500), ("c", 10)):
        meter.counted(name, items, 0)
        shares.append(meter.progress.share)
        for _ in range(items):
            meter.made(name)
            shares.append(meter.progress.share)
        meter.finished()
    assert shares == sorted(shares)
    assert (shares[0], meter.progress.share) == (0.0, 1.0)


def test_reports_are_few_and_the_last_is_complete(clock: Clock) -> None:
    seen: list[IndexProgress] = []
    meter = ProgressMeter(seen.append, 1, clock)
    meter.counted("a", 500, 0)
    for _ in range(500):
        clock.now += 0.001
        meter.made("a")
    meter.finished()
    meter.close()
    assert len(seen) < 10
    assert (seen[-1].items_done, seen[-1].files_done, seen[-1].remaining_seconds) == (500, 1, 0.0)
