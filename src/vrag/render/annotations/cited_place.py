"""The places that answers cite, numbered, with what is to be written beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import RunResult, citations, is_whole
from vrag.agent.runs.run_store import StoredRun
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.text_format import extent, printable

VERDICTS = {
    ClaimVerdict.SUPPORTED: "supported",
    ClaimVerdict.CONTRADICTED: "contradicted",
    ClaimVerdict.NOT_FOUND: "not found in the text",
    ClaimVerdict.ONLY_VISIBLE: "only visible in the picture",
}
"""Verdicts in words."""
_WORST_FIRST = (
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_FOUND,
    ClaimVerdict.ONLY_VISIBLE,
    ClaimVerdict.SUPPORTED,
)
MAX_ANSWER_CHARS = 1500
"""Characters of an answer in a note; the run has the whole."""


@dataclass(frozen=True, slots=True)
class JudgedText:
    """A claim of an answer in its own words, and the verdict on it."""

    text: str
    verdict: ClaimVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedPlace:
    """A place that an answer cites."""

    number: str
    """The number of the citation, `2`; among several questions with that of the question, `1.2`."""
    evidence: Evidence
    question: str
    answer: str
    parts: tuple[str, ...] = ()
    """The parts of the answer that rest on it; empty where the run does not tell."""
    claims: tuple[JudgedText, ...] = ()
    """The claims of the answer that were compared with it."""
    run: str
    """Id of the run."""
    asked: float
    """Time of the question, in seconds since 1970."""

    @property
    def box(self) -> Box | None:
        """The rectangle as fractions of the page; None for a passage, and for a whole page."""
        sides = self.evidence.box
        return None if sides is None or is_whole(sides) else Box.unit(*sides)

    @property
    def verdict(self) -> ClaimVerdict | None:
        """The worst verdict on its claims; None where none was judged."""
        found = {claim.verdict for claim in self.claims}
        return next((verdict for verdict in _WORST_FIRST if verdict in found), None)

    @property
    def verdict_lines(self) -> tuple[str, ...]:
        """The verdict on each claim, in words."""
        return tuple(f"“{_line(claim.text)}”: {VERDICTS[claim.verdict]}" for claim in self.claims)

    @property
    def title(self) -> str:
        """Its number, document and place."""
        return f"[{self.number}] {_line(self.evidence.document)}, {extent(self.evidence).lower()}"

    @property
    def note(self) -> str:
        """What is written beside it: number, question, answer, verdicts and quote."""
        lines = [self.title, f"Question: {_line(self.question)}", f"Answer: {_shortened(self.answer)}"]
        lines += [f"Cited for: {_shortened(part)}" for part in self.parts if part != self.answer.strip()]
        lines += [f"Checked: {line}" for line in self.verdict_lines]
        lines += [f"Quote: {printable(self.evidence.quote)}"] if self.evidence.quote else []
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        """Its number and what it is cited for, on a line."""
        return f"[{self.number}] {_shortened(_line(' … '.join(self.parts) or self.answer))}"


def cited_places(runs: Sequence[StoredRun]) -> tuple[CitedPlace, ...]:
    """Return the places that the answers of runs cite, in order; runs without an answer cite nothing.

    Raises `RunError` if the events of one do not begin with the start of a run.
    """
    several = len(runs) > 1
    return tuple(
        place
        for question, stored in enumerate(runs, 1)
        for place in _places_of(stored.result, f"{question}." if several else "")
    )


def _places_of(result: RunResult, prefix: str) -> list[CitedPlace]:
    if result.answer is None:
        return []
    answer = result.answer
    cited = citations(result.evidence, result.started.settings)
    numbers = range(1, len(cited.rests) + 1)
    parts = {number: [part for part in result.citations if number in part.numbers] for number in numbers}
    claims = {
        number: [claim for claim in result.claims if _concerns(claim, number, parts[number])]
        for number in numbers
    }
    return [
        CitedPlace(
            number=f"{prefix}{number}",
            evidence=evidence,
            question=result.question,
            answer=answer,
            parts=tuple(filter(None, (answer[part.start : part.end].strip() for part in parts[number]))),
            claims=tuple(
                JudgedText(answer[claim.start : claim.end], claim.verdict) for claim in claims[number]
            ),
            run=result.run_id,
            asked=result.started.ts,
        )
        for number, evidence in enumerate(cited.rests, 1)
    ]


def _concerns(claim: CheckedClaim, number: int, parts: Sequence[Citation]) -> bool:
    """Return whether a verdict is about this evidence: by its numbers, or else because its words cite it."""
    return (
        number in claim.numbers
        if claim.numbers
        else any(part.start <= claim.start < part.end for part in parts)
    )


def _line(text: str) -> str:
    return " ".join(printable(text).split())


def _shortened(text: str) -> str:
    text = printable(text).strip()
    return text if len(text) <= MAX_ANSWER_CHARS else f"{text[:MAX_ANSWER_CHARS].rstrip()}…"
