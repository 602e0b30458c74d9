"""The answer of one reply while the model writes it, without its markers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from vrag.agent.actions import ABSTENTION
from vrag.agent.answers.certain_markers import take_certain_markers
from vrag.agent.answers.markers import ModelMarker, take_markers
from vrag.agent.replies.answer_reader import AnswerReader


class DraftPiece(NamedTuple):
    """The text that a piece of a reply adds to its answer."""

    text: str
    follows_marker: bool
    """True if the model cites something right before it."""


@dataclass(slots=True)
class AnswerDraft:
    """The answer of a reply as far as it is certain. What was given out stays the beginning of it."""

    reader: AnswerReader
    describe: Callable[[str], str | None]
    """The words for what a reference of the model stands for; see `take_markers`."""
    text: str = ""
    markers: tuple[ModelMarker, ...] = ()
    """The markers of the model in it."""
    _written: str = ""
    """The answer with its markers, as far as it is written."""
    _known: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The words for references: nothing is shown while a reply is written, so they stay the same."""

    def add(self, piece: str) -> list[DraftPiece]:
        """Add a piece of the reply, and return what it adds to the answer, divided at markers."""
        was_complete = self.reader.is_complete
        written = self.reader.add(piece)
        is_complete = self.reader.is_complete and not was_complete
        if written == self._written and not is_complete:
            return []
        self._written = written
        take = take_markers if is_complete else take_certain_markers
        unmarked = take(written, self._describe)
        if not unmarked.text.startswith(self.text) or _may_abstain(unmarked.text, is_complete=is_complete):
            return []
        start, self.text, self.markers = len(self.text), unmarked.text, unmarked.markers
        cuts = sorted({marker.at for marker in self.markers if start < marker.at < len(self.text)})
        places = {marker.at for marker in self.markers}
        bounds = [start, *cuts, len(self.text)]
        return [
            DraftPiece(self.text[first:last], first in places)
            for first, last in pairwise(bounds)
            if first < last
        ]

    def _describe(self, reference: str) -> str | None:
        if reference not in self._known:
            self._known[reference] = self.describe(reference)
        return self._known[reference]


def _may_abstain(text: str, *, is_complete: bool) -> bool:
    """Return whether an answer may be the one that says that there is none."""
    plain, abstention = text.rstrip(".").casefold(), ABSTENTION.casefold()
    return plain == abstention if is_complete else abstention.startswith(plain)
