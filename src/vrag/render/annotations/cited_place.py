"""The places that answers cite, numbered, with what is to be written beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import RunResult, is_whole
from vrag.agent.runs.run_store import StoredRun
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict, worst_verdict
from vrag.render.text_format import extent, printable
from vrag.render.verdicts import describe_claim, list_claims

MAX_ANSWER_CHARS = 1500
"""Characters of an answer in a note; the run has the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedPlace:
    """A place that an answer cites."""

    number: str
    """The number of the citation, `2`; among several questions with that of the question, `1.2`."""
    evidence: Evidence
    question: str
    answer: str
    withdrawn: bool = False
    """True if the answer was withdrawn, since its evidence does not support it."""
    parts: tuple[str, ...] = ()
    """The parts of the answer that rest on it."""
    verdict: ClaimVerdict | None = None
    """The worst verdict on the claims that were compared with it; None where none was."""
    verdict_lines: tuple[str, ...] = ()
    """The verdicts in words, a sentence for each claim."""
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
    def title(self) -> str:
        """Its number, document and place."""
        place = extent(self.evidence)
        return f"[{self.number}] {_line(self.evidence.document)}, {place[:1].lower()}{place[1:]}"

    @property
    def note(self) -> str:
        """The text written beside the place: number, question, answer, verdicts and quote."""
        answer = "Withdrawn answer" if self.withdrawn else "Answer"
        lines = [self.title, f"Question: {_line(self.question)}", f"{answer}: {_shortened(self.answer)}"]
        lines += [f"Cited for: {_shortened(part)}" for part in self.parts if part != self.answer.strip()]
        lines += [printable(line) for line in self.verdict_lines]
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
    text = result.checked_text
    return [_place_of(result, number, prefix) for number in range(1, result.cited + 1)] if text else []


def _place_of(result: RunResult, number: int, prefix: str) -> CitedPlace:
    text = result.checked_text
    parts = [part for part in result.citations if number in part.numbers]
    claims = [claim for claim in _narrowest(list_claims(result)) if _concerns(claim, number, parts)]
    return CitedPlace(
        number=f"{prefix}{number}",
        evidence=result.evidence[number - 1],
        question=result.question,
        answer=text,
        withdrawn=result.answer is None,
        parts=tuple(filter(None, (text[part.start : part.end].strip() for part in parts))),
        verdict=worst_verdict(claim.verdict for claim in claims),
        verdict_lines=tuple(describe_claim(text, claim, prefix) for claim in claims),
        run=result.run_id,
        asked=result.started.ts,
    )


def _narrowest(claims: Sequence[CheckedClaim]) -> list[CheckedClaim]:
    """Return the claims without the sentences that have others in them."""
    parts = [claim for claim in claims if claim.kind is not ClaimKind.SENTENCE]
    return [
        claim
        for claim in claims
        if claim.kind is not ClaimKind.SENTENCE
        or not any(claim.start <= part.start < claim.end for part in parts)
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
