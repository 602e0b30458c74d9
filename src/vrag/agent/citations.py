"""The evidence on which an answer rests, apart from other items that the agent looked at.

An agent with a graph names the nodes that led to its answer, and one that was asked which of its evidence
counts has named that: then all evidence is meant. The others report everything that they were shown, the
last closer look first. There the closer looks are what the answer rests on, or the first page when there was
none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from vrag.agent.events import RunSettings
from vrag.agent.evidence import BoxSides, Evidence

__all__ = ["WHOLE", "Citations", "citations", "is_whole"]

WHOLE = 0.995
"""Part of each side of a page from which a box is the whole of it."""


@dataclass(frozen=True, slots=True)
class Citations:
    """The evidence of an answer, each place once."""

    rests: tuple[Evidence, ...]
    """On which the answer rests; where there is none, where the agent looked."""
    besides: tuple[Evidence, ...]
    """Items that were looked at, and of which nothing is among the others."""


def citations(evidence: Iterable[Evidence], settings: RunSettings, *, answered: bool = True) -> Citations:
    """Part the evidence of an answer.

    Args:
        evidence: As the answer has it.
        settings: Of its run.
        answered: Whether there is an answer; else it is where the agent looked, and all of it is told.
    """
    distinct = _first_of_each(evidence, lambda piece: (piece.item, piece.box, piece.seconds))
    if not answered or settings.agent == "vimrag" or settings.reselect:
        return Citations(distinct, ())
    closer = tuple(piece for piece in distinct if piece.box is not None and not is_whole(piece.box))
    rests = closer or distinct[:1]
    known = {piece.item for piece in rests}
    others = (piece for piece in distinct if piece.item not in known)
    return Citations(rests, _first_of_each(others, lambda piece: piece.item))


def is_whole(box: BoxSides) -> bool:
    """Return whether a box is as good as the whole page."""
    x1, y1, x2, y2 = box
    return min(x2 - x1, y2 - y1) >= WHOLE


def _first_of_each(evidence: Iterable[Evidence], key: Callable[[Evidence], Hashable]) -> tuple[Evidence, ...]:
    found: dict[Hashable, Evidence] = {}
    for piece in evidence:
        found.setdefault(key(piece), piece)
    return tuple(found.values())
