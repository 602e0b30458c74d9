"""Citations of an answer: which part of its text rests on which evidence, and the text with markers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vrag.reading.verification.claim import ClaimDoubt, ClaimKind, ClaimVerdict

_BLOCK_ENDS = ("```", "$$")
"""Ends of Markdown blocks; a marker behind one belongs into a paragraph of its own."""
_ROW = re.compile(r"\s*\|.*\|\s*")
"""A row of a table, in whose last cell a marker stands."""


CitationSource = Literal["model", "matched", "looked_at"]
"""Why a part cites its evidence: `model` if the model wrote the markers, `matched` if the words of the part
led to the evidence, `looked_at` if they stand nowhere and the agent looked there, or none was recorded."""


class Citation(BaseModel):
    """A part of the answer, and the evidence that it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: int = Field(ge=0)
    """Start of the part in the text of the answer, in characters."""
    end: int = Field(ge=0)
    """Its end; a marker stands there."""
    numbers: tuple[int, ...]
    """Numbers of the evidence, from 1, as the answer lists it."""
    source: CitationSource


class CheckedClaim(BaseModel):
    """A claim of the answer, and what its evidence says about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClaimKind
    start: int = Field(ge=0)
    """Start of the claim in the text of the answer, in characters."""
    end: int = Field(ge=0)
    verdict: ClaimVerdict
    numbers: tuple[int, ...] = ()
    """Numbers of the evidence that says it, or something else in its place, from 1; empty where none does."""
    found: str = ""
    """The words of the evidence that say so; of a computed number the computation, and where the second
    reading differs what it reads. Empty where there are none."""
    doubt: ClaimDoubt | None = None
    """What speaks against it; None where nothing does."""
    needs_picture: bool = False
    """True where the text of the evidence cannot tell, so that only a look at its picture can."""
    judge: str = ""
    """Name of the model that judged it; empty for a verdict by rules."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker such as `[2]` in a text."""

    number: int
    start: int
    """In characters of the text with markers."""
    end: int


@dataclass(frozen=True, slots=True)
class MarkedText:
    """An answer with the markers of its citations."""

    text: str
    markers: tuple[Marker, ...]


def with_markers(text: str, citations: Sequence[Citation]) -> MarkedText:
    """Return an answer with its markers: after a word and a blank, before the full stop that ends a part.

    >>> with_markers("It rose. It fell.", [Citation(start=0, end=8, numbers=(1, 2), source="matched")]).text
    'It rose [1][2]. It fell.'
    """
    pieces: list[str] = []
    markers: list[Marker] = []
    length = at = 0
    for citation in sorted(citations, key=lambda citation: citation.end):
        place = marker_place(text, citation)
        place = max(place, at)
        before = text[at:place]
        ends_block = not text[place:].strip() and before.rstrip().endswith(_BLOCK_ENDS)
        before += "\n\n" if ends_block else " "
        pieces.append(before)
        length += len(before)
        at = place
        for number in citation.numbers:
            marker = f"[{number}]"
            markers.append(Marker(number, length, length + len(marker)))
            pieces.append(marker)
            length += len(marker)
    return MarkedText("".join([*pieces, text[at:]]), tuple(markers))


def marker_place(text: str, citation: Citation) -> int:
    """Return where the markers of a citation stand: at its end, before punctuation and the end of a row."""
    part = text[: citation.end].rstrip()
    place = len(part.rstrip(".!?。！？;；"))
    place = place if place > citation.start else len(part)
    line = text[text.rfind("\n", 0, place) + 1 : place]
    if _ROW.fullmatch(line) and not text[place:].partition("\n")[0].strip():
        place = len(text[: place - (len(line) - line.rindex("|"))].rstrip())
    return place
