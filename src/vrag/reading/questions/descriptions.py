"""Questions that describe a thing instead of naming it: "the ship that serves the busiest line".

Such a question takes two steps: which thing is it, and what is asked about it. English only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOUN = (
    r"(?P<noun>(?!(?:most|least|one|only)\b)[a-z][\w-]*(?:\s(?!of\b|in\b|on\b|to\b|for\b|by\b)[a-z][\w-]*)?)"
)
_CLAUSE = r"(?P<clause>[^?!;]+?)(?:,\s*(?=\b(?:what|which|who|when|where|how)\b)|[?!;]|\.?\s*$)"
_RELATIVE = r"(?P<relative>that|which|who|where|in\s+which|whose|with)"
_POSTPONED = re.compile(
    rf"\b(?:do|does|did|can|will|is|was|has)\s+(?P<thing>the\s+{_NOUN})\s+(?P<rest>[a-z]+)\s+(?:that|which|who)\s+{_CLAUSE}",
    re.IGNORECASE,
)
"""A description behind the verb: "does the ship hold that serves …"."""
_FOLLOWING = re.compile(rf"(?P<thing>\bthe\s+{_NOUN})\s+{_RELATIVE}\s+{_CLAUSE}", re.IGNORECASE)
"""A description behind its noun: "the city where the first mill stood"."""
_UNNAMED = re.compile(
    r"\b(?:what|which|who|whom|names?\s+of|do|does|did|is|are|was|were|has|have|had|can|will)(?:['’]s)?\s*$",
    re.IGNORECASE,
)
"""Words before a description that is itself what is asked for, or whose verb stands behind it."""
_NO_THINGS = frozenset(
    """amount average belief case chance claim condition conclusion date day degree difference evidence
    extent fact idea impact likelihood moment month number people percentage point probability proportion
    ratio reason result risk same share statement sum time total trend way year""".split()
)
"""Nouns whose description tells how much or how it is, and no thing that has a name."""


@dataclass(frozen=True, slots=True)
class Description:
    """A thing that a question describes."""

    question: str
    """The whole question."""
    start: int
    end: int
    """`question[start:end]` is the description."""
    text: str
    """The description in a row: "the ship that serves the line to Orla"."""
    kept: str
    """Words inside it that belong to what is asked about the thing."""
    inner: str
    """The question which thing it is."""

    def with_name(self, name: str) -> str:
        """Return the question with the name of the thing in place of its description."""
        return f"{self.question[: self.start]}{name}{self.kept}{self.question[self.end :]}"


def find_description(question: str) -> Description | None:
    """Return the thing that a question describes; None for a question without one.

    >>> found = find_description("How many people does the ship hold that serves the line to Orla?")
    >>> found.inner, found.with_name("Sanderling")
    ('Which ship serves the line to Orla?', 'How many people does Sanderling hold?')
    >>> found = find_description("What is the population of the city where the first mill stood?")
    >>> found.inner, found.with_name("Aurora")
    ('In which city the first mill stood?', 'What is the population of Aurora?')
    >>> find_description("What is the city where the first mill stood?") is None
    True
    """
    for match in _POSTPONED.finditer(question):
        if _has_name(match["noun"]):
            text = f"{match['thing']} that {match['clause']}"
            inner = _ask_which(match["noun"], "that", match["clause"])
            return Description(
                question, match.start("thing"), match.end("clause"), text, f" {match['rest']}", inner
            )
    for match in _FOLLOWING.finditer(question):
        start, end = match.start("thing"), match.end("clause")
        if _has_name(match["noun"]) and not _UNNAMED.search(question, 0, start):
            inner = _ask_which(match["noun"], match["relative"], match["clause"])
            return Description(question, start, end, question[start:end], "", inner)
    return None


def _has_name(noun: str) -> bool:
    """Return whether a noun is for one thing that may have a name."""
    word = noun.rsplit(maxsplit=1)[-1].casefold()
    is_several = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return not is_several and word not in _NO_THINGS


def _ask_which(noun: str, relative: str, clause: str) -> str:
    """Return the question which thing of a noun a relative clause describes."""
    clause = clause.strip().rstrip(",.")
    beginning = {"where": f"In which {noun}", "whose": f"Which {noun}'s", "with": f"Which {noun} has"}
    if relative.casefold().startswith("in"):
        relative = "where"
    return f"{beginning.get(relative.casefold(), f'Which {noun}')} {clause}?"
