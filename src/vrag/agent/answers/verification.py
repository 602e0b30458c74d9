"""The verdicts on the claims of an answer, and what a run does about those that are in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.prompts import prompt
from vrag.reading.verification.claim import ClaimDoubt, ClaimKind, ClaimVerdict

MAX_REPORTED_CLAIMS = 6
"""Claims in doubt that the model is told about."""
_PROMPTS: Mapping[ClaimDoubt | None, str] = {
    ClaimDoubt.READING: "doubt_reading.md",
    ClaimDoubt.OTHER_EVIDENCE: "doubt_other_evidence.md",
}
"""Prompts for what speaks against a claim, where it is not that its evidence says something else."""


class VerifyMode(StrEnum):
    """The treatment of claims that the evidence does not support."""

    OFF = "off"
    """Claims are not checked."""
    TELL = "tell"
    """The verdicts are shown with the answer."""
    REPAIR = "repair"
    """The model is told once what is in doubt, and may look again and answer anew."""
    WITHDRAW = "withdraw"
    """An answer with a claim in doubt is withdrawn: the run abstains."""


def claims_in_doubt(claims: Iterable[CheckedClaim]) -> tuple[CheckedClaim, ...]:
    """Return the claims that are doubted, and the numbers, dates and names that the text does not say.

    A sentence that is not found by itself is not in doubt, since it may say the same in other words; nor is
    what only a look at the picture can tell.
    """
    return tuple(
        claim
        for claim in claims
        if claim.verdict is ClaimVerdict.DOUBTED
        or (
            claim.verdict is ClaimVerdict.UNVERIFIED
            and not claim.needs_picture
            and (claim.kind is not ClaimKind.SENTENCE or claim.doubt is ClaimDoubt.SUBJECT)
        )
    )


def narrowest(claims: Sequence[CheckedClaim]) -> list[CheckedClaim]:
    """Return claims in order, without sentences that have another of them inside."""
    narrow = [claim for claim in claims if claim.kind is not ClaimKind.SENTENCE]
    whole = (
        claim
        for claim in claims
        if claim.kind is ClaimKind.SENTENCE
        and not any(claim.start < part.end and part.start < claim.end for part in narrow)
    )
    return sorted([*narrow, *whole], key=lambda claim: (claim.start, claim.end))


def describe_doubts(answer: str, claims: Sequence[CheckedClaim]) -> str:
    """Return the claims in doubt as lines for the model."""
    lines: list[str] = []
    for claim in narrowest(claims)[:MAX_REPORTED_CLAIMS]:
        words = answer[claim.start : claim.end]
        if claim.verdict is ClaimVerdict.DOUBTED and claim.found:
            name = _PROMPTS.get(claim.doubt, "doubt_value.md")
            lines.append(prompt(name, words=words, found=claim.found))
        else:
            lines.append(prompt("doubt_not_found.md", words=words))
    return "\n".join(lines)
