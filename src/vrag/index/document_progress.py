"""What becomes of a file while it is converted, and how it is recorded in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.corpus.converter import SourceFile

__all__ = ["OpenDocument", "ranges"]


@dataclass
class OpenDocument:
    """A content under way."""

    source: SourceFile
    duplicates: list[SourceFile] = field(default_factory=list["SourceFile"])
    """Other files with the same bytes."""
    items: int = 0
    """How many items the content has; 0 until it is opened."""
    rows: int = 0
    """How many of them are there, those of earlier runs included."""
    _opened: bool = False
    _whole: str = ""
    _failures: dict[int, str] = field(default_factory=dict[int, str])

    def count(self, items: int, had: int) -> None:
        """It was opened; `had` items are there already."""
        self._opened = True
        self.items = items
        self.rows += had

    def fail(self, ordinal: int | None, reason: str) -> None:
        """An item, or the whole file, could not be made."""
        if ordinal is None:
            self._whole = reason
        else:
            self._failures[ordinal] = reason

    def spoil(self, reason: str) -> None:
        """What was made of it does not count."""
        self.items = self.rows = 0
        self._whole = reason
        self._failures = {}

    def differs(self, other: SourceFile) -> bool:
        """Whether another file with these bytes may fare better, being read as another format."""
        return other.path.suffix.lower() != self.source.path.suffix.lower()

    def outcome(self) -> tuple[DocumentStatus, str]:
        """Status and reason, now that nothing more comes."""
        missing = self.items - self.rows - len(self._failures)
        reason = self._reason(missing)
        if not reason:
            return DocumentStatus.READY, ""
        return (DocumentStatus.PARTIAL if self.rows else DocumentStatus.FAILED), reason

    def _reason(self, missing: int) -> str:
        if self._whole:
            return self._whole
        if not self._opened:
            return "Nothing came of it."
        parts = [f"{ranges(ordinals)}: {reason}" for reason, ordinals in self._by_reason().items()]
        if missing > 0 and not parts:
            parts = [f"{missing} of {self.items} are missing without a reason."]
        return " ".join(parts)

    def _by_reason(self) -> dict[str, list[int]]:
        grouped: dict[str, list[int]] = {}
        for ordinal, reason in sorted(self._failures.items()):
            grouped.setdefault(reason, []).append(ordinal)
        return grouped


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers, for people.

    >>> ranges([3, 5, 6, 7])
    'No. 3, 5–7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return "No. " + ", ".join("–".join(map(str, run)) for run in runs)
