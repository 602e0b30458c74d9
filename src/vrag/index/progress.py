"""How far a build has come, how fast it goes and how long it will take."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IndexProgress", "ProgressMeter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProgress:
    """A moment of a build."""

    files_done: int
    files: int
    """Files that are new or have changed."""
    items_done: int
    items: int
    """Items known so far: of files not yet opened the number is unknown."""
    failed: int
    """Files and items that could not be made."""
    rate: float
    """Items per second over the last half minute."""
    remaining_seconds: float | None
    """None while too little is known. Files not yet opened count as the mean of those that were."""
    current: str
    """Name of the file last worked at."""


class ProgressMeter:
    """Counts, and reports at most every tenth of a second.

    Args:
        report: Receives the reports.
        files: How many files there are to do.
        clock: Seconds of a clock that never goes back.
    """

    WINDOW = 30.0
    """Seconds over which the rate is taken."""
    INTERVAL = 0.1

    def __init__(
        self,
        report: Callable[[IndexProgress], None] | None,
        files: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._clock = clock
        self._files = files
        self._files_done = self._items_done = self._failed = 0
        self._items = self._counted = 0
        self._current = ""
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._last = float("-inf")

    def counted(self, name: str, items: int, had: int) -> None:
        """A file was opened; `had` of its items are there already."""
        self._current = name
        self._items += items
        self._counted += 1
        self._items_done += had
        # What is already there costs no time: it must not count as speed.
        self._samples = deque((moment, done + had) for moment, done in self._samples)
        self._tell()

    def made(self, name: str) -> None:
        """An item was made."""
        self._current = name
        self._items_done += 1
        self._tell()

    def failed(self, name: str) -> None:
        """A file or an item could not be made."""
        self._current = name
        self._failed += 1
        self._tell()

    def finished(self, files: int = 1) -> None:
        """Files are done."""
        self._files_done += files
        self._tell()

    def close(self) -> None:
        """Reports the end."""
        self._tell(force=True)

    @property
    def progress(self) -> IndexProgress:
        """This moment."""
        rate = self._rate()
        return IndexProgress(
            files_done=self._files_done,
            files=self._files,
            items_done=self._items_done,
            items=self._items,
            failed=self._failed,
            rate=rate,
            remaining_seconds=self._remaining(rate),
            current=self._current,
        )

    def _tell(self, *, force: bool = False) -> None:
        now = self._clock()
        if not force and now - self._last < self.INTERVAL:
            return
        self._last = now
        self._samples.append((now, self._items_done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self.WINDOW:
            self._samples.popleft()
        if self._report is not None:
            self._report(self.progress)

    def _rate(self) -> float:
        since, done = self._samples[0]
        seconds = self._clock() - since
        return (self._items_done - done) / seconds if seconds > 0 else 0.0

    def _remaining(self, rate: float) -> float | None:
        if self._files_done >= self._files:
            return 0.0
        if rate <= 0 or not self._counted:
            return None
        unopened = max(self._files - max(self._counted, self._files_done), 0)
        expected = self._items + unopened * self._items / self._counted
        return max(expected - self._items_done, 0.0) / rate
