"""A claim of an answer, and the verdicts on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ClaimKind(StrEnum):
    """The kind of a claim."""

    NUMBER = "number"
    """A number with its unit, sign and scale."""
    NAME = "name"
    """A name or a term that stands for one thing."""
    DATE = "date"
    """A date, a time or a year."""
    SENTENCE = "sentence"
    """A sentence as a whole."""


class ClaimVerdict(StrEnum):
    """The verdict of the evidence on a claim."""

    SUPPORTED = "supported"
    """The evidence says it."""
    CONTRADICTED = "contradicted"
    """The evidence says something else in its place."""
    NOT_FOUND = "not_found"
    """The evidence has text, and it does not say it."""
    ONLY_VISIBLE = "only_visible"
    """The evidence has too little text to tell: only a look at its picture can."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer that can be true or false by itself."""

    kind: ClaimKind
    start: int
    """Start in the text of the answer, in characters."""
    end: int
    text: str
