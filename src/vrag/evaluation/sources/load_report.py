"""What a loader dropped or mended, counted: one sentence for each kind, however often it was met."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

__all__ = ["Remarks"]

EXAMPLES = 5
"""Of each kind, that are named."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences about what was met while files are read; they are right at any moment."""

    notes: list[str] = field(default_factory=list[str])
    """The sentences, in the order of their first case: the `notes` of what was opened."""
    _met: dict[str, tuple[int, dict[str, None]]] = field(
        default_factory=dict[str, tuple[int, dict[str, None]]]
    )
    """By kind: at which place of `notes` it is told, and all its cases."""

    def say(self, sentence: str) -> None:
        """Adds a sentence as it is, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def count(self, kind: str, example: str) -> None:
        """Counts a case of a kind.

        Args:
            kind: What they are, as in "videos are missing".
            example: Which one this is. Counted once, however often it is met.

        >>> remarks = Remarks()
        >>> for key in ("a", "b", "a"):
        ...     remarks.count("videos are missing", key)
        >>> remarks.notes
        ['2 videos are missing: a, b.']
        """
        if kind not in self._met:
            self._met[kind] = (len(self.notes), {})
            self.notes.append("")
        place, met = self._met[kind]
        met[example] = None
        named = ", ".join(f"{each:.80}" for each in islice(met, EXAMPLES))
        more = ", …" if len(met) > EXAMPLES else ""
        self.notes[place] = f"{len(met):,} {kind}: {named}{more}."
