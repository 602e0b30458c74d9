"""A claim of an answer, and the ladder of verdicts on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ClaimKind(StrEnum):
    """The kind of a claim."""

    NUMBER = "number"
    """A number with its unit, sign and scale."""
    DATE = "date"
    """A date, a time or a year."""
    SENTENCE = "sentence"
    """A sentence as a whole, with the names in it."""


class ClaimVerdict(StrEnum):
    """The verdict of the evidence on a claim."""

    SEEN = "seen"
    """A second reading of the picture, which knows nothing of the stored text, shows it."""
    COMPUTED = "computed"
    """It follows from numbers that are all seen, of a table that is complete."""
    STATED = "stated"
    """The text of the evidence says it; the picture was not read again, or could not be."""
    DOUBTED = "doubted"
    """Something else stands in its place; `ClaimDoubt` says where."""
    UNVERIFIED = "unverified"
    """It was not found on the evidence."""


VERIFIED = frozenset({ClaimVerdict.SEEN, ClaimVerdict.COMPUTED})
"""The verdicts that rest on the picture, and not on the stored text alone."""
HELD = VERIFIED | {ClaimVerdict.STATED}
"""The verdicts on claims that the evidence says, by its picture or its text."""


_WORST_FIRST = (
    ClaimVerdict.DOUBTED,
    ClaimVerdict.UNVERIFIED,
    ClaimVerdict.STATED,
    ClaimVerdict.COMPUTED,
    ClaimVerdict.SEEN,
)


def worst_verdict(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict | None:
    """Return the worst of some verdicts; None without any."""
    return min(verdicts, key=_WORST_FIRST.index, default=None)


class ClaimDoubt(StrEnum):
    """A reason against a claim."""

    READING = "second_reading"
    """The picture shows another number than the stored text."""
    VALUE = "value"
    """Another number stands in its place."""
    UNIT = "unit"
    """The same number stands there with another unit, scale or sign."""
    DATE = "date"
    """Another date, year or time stands in its place."""
    SUBJECT = "subject"
    """What it is about is not named on the evidence, or what it says stands there of something else."""
    OPPOSITE = "opposite"
    """The statement says the opposite."""
    OTHER_EVIDENCE = "other_evidence"
    """Another piece of the cited evidence says something else."""
    MODEL = "model"
    """A model that looked at the picture sees something else."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer that can be true or false by itself."""

    kind: ClaimKind
    start: int
    """Start in the text of the answer, in characters."""
    end: int
    text: str
