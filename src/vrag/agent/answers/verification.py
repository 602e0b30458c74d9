"""The verdicts on the claims of an answer, and what a run does about those that are in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.prompts import prompt
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict

MAX_REPORTED_CLAIMS = 6
"""Claims in doubt that the model is told about."""


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


def doubted(claims: Iterable[CheckedClaim]) -> tuple[CheckedClaim, ...]:
    """Return the claims that the evidence contradicts, and the numbers, names and dates that it does not say.

    A sentence that is not found by itself is no doubt: it may say the same in other words.
    """
    return tuple(
        claim
        for claim in claims
        if claim.verdict is ClaimVerdict.CONTRADICTED
        or (claim.verdict is ClaimVerdict.NOT_FOUND and claim.kind is not ClaimKind.SENTENCE)
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
        if claim.verdict is ClaimVerdict.CONTRADICTED and claim.found:
            lines.append(prompt("doubt_contradicted.md", words=words, found=claim.found))
        else:
            lines.append(prompt("doubt_not_found.md", words=words))
    return "\n".join(lines)
