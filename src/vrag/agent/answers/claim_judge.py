"""A model that looks at the evidence where rules cannot decide on a claim.

It judges the claims that the text of the evidence does not say, and those that it says where no second
reading has confirmed them. What is doubted, seen or computed stays, and so do all verdicts where the model
fails or its reply cannot be read.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.dialogue import Dialogue, cut_off, quoted
from vrag.agent.evidence import Evidence
from vrag.agent.prompts import prompt
from vrag.chat.messages import ChatImage, ChatModel, ChatPart, ChatText
from vrag.errors import JudgeError
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict

MAX_JUDGED_PIECES = 8
"""Pieces of evidence that the model is shown, the first ones."""
MAX_JUDGED_CLAIMS = 20
"""Claims that it is asked about; the verdicts on further ones stay."""
SECONDS = 120.0
"""Timeout of all its attempts."""
_WRITTEN = re.compile(
    r"<claim\s+number\s*=\s*[\"']?(\d{1,3})[\"']?\s*>\s*(shown|contradicted|not[ _]found)\s*</claim>",
    re.IGNORECASE,
)
_VERDICTS = {
    "shown": ClaimVerdict.SEEN,
    "contradicted": ClaimVerdict.DOUBTED,
    "not found": ClaimVerdict.UNVERIFIED,
}
"""The verdicts by the words of the model."""
log = logging.getLogger("vrag.agent")


@dataclass(frozen=True, slots=True)
class ClaimsToJudge:
    """An answer with its evidence, and the verdicts on its claims so far."""

    question: str
    answer: str
    claims: tuple[CheckedClaim, ...]
    citations: tuple[Citation, ...]
    evidence: tuple[Evidence, ...]
    """What is cited, by its numbers."""
    jpegs: Mapping[str, bytes]
    """The pictures of the evidence, by their hashes."""

    @property
    def shown(self) -> dict[int, Evidence]:
        """The evidence that a judge can be shown, by its numbers: that with a picture or words."""
        numbered = enumerate(self.evidence[:MAX_JUDGED_PIECES], 1)
        return {number: one for number, one in numbered if one.crop_sha256 in self.jpegs or one.quote}

    @property
    def undecided(self) -> tuple[CheckedClaim, ...]:
        """The claims to ask about, where all that they cite can be shown.

        They are those that the text does not say, and then those that it says beside a picture.
        """
        shown = self.shown.keys()
        pictures = {number for number, one in self.shown.items() if one.crop_sha256 in self.jpegs}
        unverified = [claim for claim in self.claims if claim.verdict is ClaimVerdict.UNVERIFIED]
        stated = [
            claim
            for claim in self.claims
            if claim.verdict is ClaimVerdict.STATED and pictures.intersection(claim.numbers)
        ]
        asked = (claim for claim in (*unverified, *stated) if self._numbers(claim) <= shown)
        return tuple(asked)[:MAX_JUDGED_CLAIMS]

    def _numbers(self, claim: CheckedClaim) -> set[int]:
        """Return the numbers that the part of a claim cites; those of all evidence where it cites nothing."""
        around = [
            part.numbers for part in self.citations if part.start < claim.end and claim.start < part.end
        ]
        return {number for numbers in around for number in numbers} or set(range(1, len(self.evidence) + 1))


class ClaimJudge(Protocol):
    """The protocol of judges of claims."""

    async def judge(self, claims: ClaimsToJudge) -> tuple[CheckedClaim, ...]:
        """Return all claims, those that were undecided with the judge's verdicts.

        Raises `JudgeError` if it fails, or its reply cannot be read.
        """
        ...

    async def aclose(self) -> None:
        """Release its resources of the running event loop; it can be used again."""
        ...


@dataclass(frozen=True, slots=True)
class ModelClaimJudge:
    """Asks a model that looks at the pictures of the evidence."""

    model: ChatModel

    async def judge(self, claims: ClaimsToJudge) -> tuple[CheckedClaim, ...]:
        """Return all claims with the model's verdicts on the undecided; see `ClaimJudge`."""
        asked = claims.undecided
        if not asked:
            return claims.claims
        words = [claims.answer[claim.start : claim.end] for claim in asked]
        question = prompt(
            "verify_claims.md",
            question=quoted(claims.question),
            answer=quoted(claims.answer),
            claims="\n".join(f"{number}. {quoted(text)}" for number, text in enumerate(words, 1)),
        )
        dialogue = Dialogue(self.model, "verdicts", attempts=2, seconds=SECONDS)
        verdicts = await dialogue.reply(
            question,
            prompt("verify_claims_again.md"),
            lambda text: read_verdicts(text, len(asked)),
            _show_evidence(claims),
        )
        judged = {
            claim: _judged(claim, verdict, self.model.name)
            for claim, verdict in zip(asked, verdicts, strict=True)
        }
        return tuple(judged.get(claim, claim) for claim in claims.claims)

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop."""
        await self.model.aclose()


def _judged(claim: CheckedClaim, verdict: ClaimVerdict, judge: str) -> CheckedClaim:
    """Return a claim with the verdict of a model; what the text says stays stated if the model misses it."""
    if claim.verdict is ClaimVerdict.STATED and verdict is ClaimVerdict.UNVERIFIED:
        return claim
    doubt = ClaimDoubt.MODEL if verdict is ClaimVerdict.DOUBTED else None
    found = claim.found if verdict is ClaimVerdict.SEEN else ""
    changes = {"verdict": verdict, "doubt": doubt, "found": found, "needs_picture": False, "judge": judge}
    return claim.model_copy(update=changes)


async def judge_claims(judge: ClaimJudge, claims: ClaimsToJudge) -> tuple[CheckedClaim, ...]:
    """Return the claims as a judge sees them, or as they are where it fails, which is logged."""
    try:
        return await judge.judge(claims)
    except JudgeError as error:
        log.warning("Claims are checked by rules alone: %s", error.message)
        return claims.claims


def read_verdicts(reply: str, count: int) -> tuple[ClaimVerdict, ...] | None:
    """Return the verdicts on claims 1 to `count` in a reply; None where one is missing or given twice.

    >>> read_verdicts('<claim number="1">not found</claim>', 1)
    (<ClaimVerdict.UNVERIFIED: 'unverified'>,)
    """
    if cut_off(reply):
        return None
    verdicts: dict[int, set[ClaimVerdict]] = {}
    for number, verdict in _WRITTEN.findall(reply):
        verdicts.setdefault(int(number), set()).add(_VERDICTS[verdict.lower().replace("_", " ")])
    if not all(len(verdicts.get(number, ())) == 1 for number in range(1, count + 1)):
        return None
    return tuple(next(iter(verdicts[number])) for number in range(1, count + 1))


def _show_evidence(claims: ClaimsToJudge) -> list[ChatPart]:
    """Return the pictures and passages of the evidence with their numbers."""
    parts: list[ChatPart] = []
    for number, evidence in claims.shown.items():
        document = quoted(evidence.document)
        jpeg = claims.jpegs.get(evidence.crop_sha256 or "")
        if jpeg is not None:
            parts.append(ChatText(prompt("verify_picture.md", number=number, document=document)))
            parts.append(ChatImage(f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"))
        else:
            text = quoted(evidence.quote)
            parts.append(ChatText(prompt("verify_text.md", number=number, document=document, text=text)))
    return parts
