"""The places that several answers rest on, each with one number in the whole of a report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.citations import is_whole
from vrag.render.run_page.answer import where
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.agent.evidence import BoxSides, Evidence
    from vrag.types import ItemKind

__all__ = ["NumberedSource", "SourceNumbers", "besides", "extent"]

Key = tuple[str, str, "ItemKind", int, tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A page, a passage, or a stretch of a video."""

    number: int
    """In the report, from 1."""
    document: str
    """File name."""
    where: str
    """In the document, in words."""
    questions: tuple[int, ...]
    """Numbers of the questions that it was seen for."""


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """All places of a report, in the order in which they come up."""

    listed: tuple[NumberedSource, ...]
    numbers: dict[Key, int]

    @classmethod
    def of(cls, questions: Sequence[Iterable[Evidence]]) -> SourceNumbers:
        """Numbers the places of the evidence of each question, the first question first."""
        seen: dict[Key, tuple[Evidence, list[int]]] = {}
        for question, evidence in enumerate(questions, 1):
            for one in evidence:
                asked = seen.setdefault(_key(one), (one, []))[1]
                asked.extend([question] if question not in asked else [])
        listed = (
            NumberedSource(number, one.document, where(one), tuple(asked))
            for number, (one, asked) in enumerate(seen.values(), 1)
        )
        return cls(tuple(listed), {key: number for number, key in enumerate(seen, 1)})

    def number(self, evidence: Evidence) -> int:
        """The number of a place that is among them."""
        return self.numbers[_key(evidence)]

    @property
    def told(self) -> str:
        """How many there are, in words."""
        documents = len({key[:2] for key in self.numbers})
        return f"{count(len(self.listed), 'place')} in {count(documents, 'document')}"


def extent(evidence: Evidence) -> str:
    """Page or stretch of a piece of evidence, with the part of the page that is meant.

    The part is told in percent of the page, from its left and from its top.
    """
    box = evidence.box and _percent(evidence.box)
    return f"{where(evidence)}, {box}" if box else where(evidence)


def besides(evidence: Iterable[Evidence]) -> str:
    """Items that were looked at, in a line: document by document."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in evidence:
        places.setdefault((one.document_id, one.document), []).append(where(one).lower())
    return "; ".join(f"{name}, {', '.join(inside)}" for (_, name), inside in places.items())


def _key(evidence: Evidence) -> Key:
    return (evidence.document_id, evidence.document, evidence.kind, evidence.page, evidence.seconds)


def _percent(box: BoxSides) -> str:
    if not all(map(math.isfinite, box)) or is_whole(box):
        return ""
    left, top, right, bottom = (f"{100 * side:.0f}" for side in box)
    return f"{left}–{right} % across, {top}–{bottom} % down"
