"""The progress of a build: of each document, and of all files with speed and remaining time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.corpus.converter import SourceFile


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
    """Name of the last file."""


class ProgressMeter:
    """Counts `files` to do, and reports at most every tenth of a second of a monotonic clock."""

    WINDOW = 30.0
    """Seconds over which the rate is taken."""
    INTERVAL = 0.1
    """Seconds between reports."""

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

    def counted(self, name: str, items: int, present: int) -> None:
        """Count a file that was opened; so many of its items are present already."""
        self._current = name
        self._items += items
        self._counted += 1
        self._items_done += present
        # What is already there costs no time: it must not count as speed.
        self._samples = deque((moment, done + present) for moment, done in self._samples)
        self._update()

    def made(self, name: str) -> None:
        """Count an item that was made."""
        self._current = name
        self._items_done += 1
        self._update()

    def failed(self, name: str) -> None:
        """Count a file or an item that could not be made."""
        self._current = name
        self._failed += 1
        self._update()

    def finished(self, files: int = 1) -> None:
        """Count files that are done."""
        self._files_done += files
        self._update()

    def close(self) -> None:
        """Report the end."""
        self._update(force=True)

    @property
    def progress(self) -> IndexProgress:
        """This moment."""
        since, done = self._samples[0]
        seconds = self._clock() - since
        rate = (self._items_done - done) / seconds if seconds > 0 else 0.0
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

    def _update(self, *, force: bool = False) -> None:
        now = self._clock()
        if not force and now - self._last < self.INTERVAL:
            return
        self._last = now
        self._samples.append((now, self._items_done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self.WINDOW:
            self._samples.popleft()
        if self._report is not None:
            self._report(self.progress)

    def _remaining(self, rate: float) -> float | None:
        if self._files_done >= self._files:
            return 0.0
        if rate <= 0 or not self._counted:
            return None
        unopened = max(self._files - max(self._counted, self._files_done), 0)
        expected = self._items + unopened * self._items / self._counted
        return max(expected - self._items_done, 0.0) / rate


@dataclass
class OpenDocument:
    """A content that is being converted."""

    source: SourceFile
    duplicates: list[SourceFile] = field(default_factory=list["SourceFile"])
    """Other files with the same bytes."""
    items: int = 0
    """Number of items of the content; 0 until it is opened."""
    rows: int = 0
    """Number of its stored items, those of earlier runs included."""
    _opened: bool = False
    _failure: str = ""
    """The reason why the whole file failed."""
    _failures: dict[int, str] = field(default_factory=dict[int, str])
    """Reasons by ordinal of the item."""

    def count(self, items: int, present: int) -> None:
        """Set the number of items, now that it is opened, and how many are present already."""
        self._opened = True
        self.items = items
        self.rows += present

    def fail(self, ordinal: int | None, reason: str) -> None:
        """Record that an item, or with None the whole file, could not be made."""
        if ordinal is None:
            self._failure = reason
        else:
            self._failures[ordinal] = reason

    def spoil(self, reason: str) -> None:
        """Discard what was made of it."""
        self.items = self.rows = 0
        self._failure = reason
        self._failures = {}

    def differs(self, other: SourceFile) -> bool:
        """Check whether another file with these bytes is read as another format, which may work."""
        return other.path.suffix.lower() != self.source.path.suffix.lower()

    def outcome(self) -> tuple[DocumentStatus, str]:
        """Return status and reason, now that nothing more comes."""
        missing = self.items - self.rows - len(self._failures)
        reason = self._reason(missing)
        if not reason:
            return DocumentStatus.READY, ""
        return (DocumentStatus.PARTIAL if self.rows else DocumentStatus.FAILED), reason

    def _reason(self, missing: int) -> str:
        if self._failure:
            return self._failure
        if not self._opened:
            return "Nothing came of it."
        ordinals_by_reason: dict[str, list[int]] = {}
        for ordinal, reason in sorted(self._failures.items()):
            ordinals_by_reason.setdefault(reason, []).append(ordinal)
        parts = [f"{format_ranges(ordinals)}: {reason}" for reason, ordinals in ordinals_by_reason.items()]
        if missing > 0 and not parts:
            parts = [f"{missing} of {self.items} are missing without a reason."]
        return " ".join(parts)


def format_ranges(numbers: Sequence[int]) -> str:
    """Format sorted numbers for people.

    >>> format_ranges([3, 5, 6, 7])
    'No. 3, 5–7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return "No. " + ", ".join("–".join(map(str, run)) for run in runs)
