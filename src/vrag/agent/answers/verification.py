"""The verdicts on the claims of an answer, and what a run does about those that are in doubt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.answers.conflicts import ConflictJudgement
from vrag.agent.prompts import prompt
from vrag.agent.replies.reply_text import unquoted
from vrag.reading.verification.claim import ClaimDoubt, ClaimKind, ClaimVerdict

MAX_REPORTED_CLAIMS = 6
"""Claims in doubt that the model is told about."""
_JUDGED = re.compile(
    r"<conflict(?:\s+number\s*=\s*\\?[\"']?(?P<number>\d{1,2})\\?[\"']?)?\s*>"
    r"\s*(?P<judgement>differ|same|unclear)\s*</conflict\s*>",
    re.IGNORECASE,
)
_CONFLICT_TAG = re.compile(
    r"<conflict\b[^<>]{0,60}>[^<>]{0,60}</conflict\s*>|</?conflict\b[^<>]{0,60}>", re.IGNORECASE
)
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


def read_judgements(reply: str, count: int) -> tuple[ConflictJudgement | None, ...]:
    """Return the judgements on conflicts 1 to `count` in a reply; None for what is missing or given twice.

    Thoughts and quotes hold none. A single conflict needs no number.

    >>> read_judgements('<conflict number="2">differ</conflict><answer>12</answer>', 2)
    (None, <ConflictJudgement.DIFFER: 'differ'>)
    """
    judged: dict[int, set[str]] = {}
    for found in _JUDGED.finditer(unquoted(reply) or ""):
        number = int(found["number"] or (1 if count == 1 else 0))
        judged.setdefault(number, set()).add(found["judgement"].lower())
    words = (judged.get(number, set[str]()) for number in range(1, count + 1))
    return tuple(ConflictJudgement(next(iter(said))) if len(said) == 1 else None for said in words)


def hide_judgements(reply: str) -> str:
    """Return the reply with blanks in place of judgements on conflicts; positions stay the same.

    >>> hide_judgements("<conflict>same</conflict><answer>12</answer>").strip()
    '<answer>12</answer>'
    """
    return _CONFLICT_TAG.sub(lambda found: " " * len(found[0]), reply)
