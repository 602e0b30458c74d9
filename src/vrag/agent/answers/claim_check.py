"""The claims of an answer beside what its parts cite; citations that name the wrong place are corrected.

A part is first compared with the evidence that it cites. What that does not say is looked for on the rest of
the evidence: where another piece says all of it, the citation moves there, and is no longer the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.answers.support import SupportedAnswer
from vrag.agent.environment import Environment
from vrag.agent.evidence import Evidence
from vrag.agent.page_reading import open_page
from vrag.agent.question import Question
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box
from vrag.reading import completed
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck
from vrag.reading.verification.verifier import ClaimSource, check_claims

MAX_SOURCES = 12
"""Pieces of evidence that claims are compared with."""
_UNSAID = frozenset({ClaimVerdict.DOUBTED, ClaimVerdict.UNVERIFIED})


def check_citations(
    question: Question, answer: str, supported: SupportedAnswer, environment: Environment
) -> tuple[SupportedAnswer, tuple[ClaimCheck, ...]]:
    """Compare the claims of an answer with its evidence.

    Returns the answer with corrected citations, and the verdicts on its claims, whose `sources` are numbers
    of the evidence from 1; none where a page cannot be opened.
    """
    try:
        sources = [_open_source(entry, environment) for entry in supported.evidence[:MAX_SOURCES]]
    except (SearchError, CollectionError):
        return supported, ()
    whole = completed(question.text, [turn.question for turn in question.history])
    check = _CitationCheck(whole, answer, sources)
    claims: list[ClaimCheck] = []
    citations: list[Citation] = []
    for citation in supported.citations:
        found = check.claims_of(citation)
        is_doubted = any(_is_unsaid(claim) for claim in found)
        better = check.better_citation(citation) if is_doubted else None
        citations.append(better or citation)
        claims += check.claims_of(better) if better is not None else found
    everywhere = check.claims(range(1, len(supported.cited) + 1))
    claims = [_opposed(claim, everywhere) for claim in claims]
    claims += [claim for claim in everywhere if not _is_inside(claim, citations)]
    claims.sort(key=lambda check: (check.claim.start, -check.claim.end))
    return _renumber(supported, citations, claims)


def as_checked(check: ClaimCheck) -> CheckedClaim:
    """Return a verdict as it is recorded; `sources` are numbers of the evidence from 1."""
    return CheckedClaim(
        kind=check.claim.kind,
        start=check.claim.start,
        end=check.claim.end,
        verdict=check.verdict,
        numbers=check.sources,
        found=check.found,
        doubt=check.doubt,
        needs_picture=check.needs_picture,
    )


def _is_unsaid(check: ClaimCheck) -> bool:
    """Return whether the text of the evidence, which could decide, does not say a claim."""
    return check.verdict in _UNSAID and not check.needs_picture


def _opposed(check: ClaimCheck, everywhere: Iterable[ClaimCheck]) -> ClaimCheck:
    """Return a claim, as doubted where another cited piece says something else than its own."""
    other = next((other for other in everywhere if other.claim == check.claim), None)
    if (
        other is None
        or check.verdict is not ClaimVerdict.STATED
        or other.verdict is not ClaimVerdict.DOUBTED
        or set(other.sources) <= set(check.sources)
    ):
        return check
    return replace(other, doubt=ClaimDoubt.OTHER_EVIDENCE)


def correct_citation(
    question: Question,
    answer: str,
    citation: Citation,
    evidence: Sequence[Evidence],
    environment: Environment,
) -> Evidence | None:
    """Return the piece of evidence that says all of a part, where what the part cites does not; else None."""
    try:
        sources = [_open_source(entry, environment) for entry in evidence[:MAX_SOURCES]]
    except (SearchError, CollectionError):
        return None
    whole = completed(question.text, [turn.question for turn in question.history])
    part = " " * citation.start + answer[citation.start : citation.end]
    check = _CitationCheck(whole, part, sources)
    if not any(_is_unsaid(claim) for claim in check.claims_of(citation)):
        return None
    better = check.better_citation(citation)
    return None if better is None else evidence[better.numbers[0] - 1]


def _open_source(entry: Evidence, environment: Environment) -> ClaimSource:
    page = open_page(environment.searcher, environment.item(entry.item))
    return ClaimSource(page, None if entry.box is None else Box.unit(*entry.box))


@dataclass(frozen=True, slots=True)
class _CitationCheck:
    """An answer, and the sources of its evidence by their numbers."""

    question: str
    answer: str
    sources: Sequence[ClaimSource]
    known: dict[tuple[int, ...], list[ClaimCheck]] = field(
        default_factory=dict[tuple[int, ...], list[ClaimCheck]]
    )
    """The claims beside evidence that was compared with them before, by its numbers."""

    def claims(self, numbers: Iterable[int]) -> list[ClaimCheck]:
        """Return all claims of the answer beside some evidence."""
        chosen = tuple(number for number in numbers if number <= len(self.sources))
        if chosen not in self.known:
            self.known[chosen] = self._compare(chosen)
        return self.known[chosen]

    def _compare(self, known: tuple[int, ...]) -> list[ClaimCheck]:
        checks = check_claims(self.question, self.answer, [self.sources[number - 1] for number in known])
        return [replace(check, sources=tuple(known[at] for at in check.sources)) for check in checks]

    def claims_of(self, citation: Citation) -> list[ClaimCheck]:
        """Return the claims of a part beside what it cites."""
        return [claim for claim in self.claims(citation.numbers) if _is_inside(claim, [citation])]

    def better_citation(self, citation: Citation) -> Citation | None:
        """Return the citation of the first other piece that says all of a part; None where none does."""
        others = (number for number in range(1, len(self.sources) + 1) if number not in citation.numbers)
        for number in others:
            other = citation.model_copy(update={"numbers": (number,), "source": "matched"})
            verdicts = {claim.verdict for claim in self.claims_of(other)}
            if verdicts == {ClaimVerdict.STATED}:
                return other
        return None


def _is_inside(check: ClaimCheck, citations: Sequence[Citation]) -> bool:
    """Return whether the middle of a claim lies in one of some parts."""
    middle = (check.claim.start + check.claim.end) / 2
    return any(citation.start <= middle <= citation.end for citation in citations)


def _renumber(
    supported: SupportedAnswer, citations: Sequence[Citation], claims: Sequence[ClaimCheck]
) -> tuple[SupportedAnswer, tuple[ClaimCheck, ...]]:
    """Return the answer with its evidence in the order of the citations, and all numbers changed alike."""
    cited = dict.fromkeys(number for citation in citations for number in citation.numbers)
    order = [*cited, *(number for number in range(1, len(supported.evidence) + 1) if number not in cited)]
    new = {old: number for number, old in enumerate(order, 1)}
    ordered = tuple(
        citation.model_copy(update={"numbers": tuple(sorted(new[number] for number in citation.numbers))})
        for citation in citations
    )
    renumbered = tuple(
        replace(claim, sources=tuple(new[number] for number in claim.sources)) for claim in claims
    )
    evidence = tuple(supported.evidence[number - 1] for number in order)
    return replace(supported, evidence=evidence, citations=ordered), renumbered
