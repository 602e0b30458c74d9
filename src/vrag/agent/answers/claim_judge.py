"""A judge of claims that looks at the pictures of the evidence: a language model that sees.

It decides what the rules of `vrag.reading.verification` cannot: claims that only a look at the picture can
tell, and those that the words of the evidence do not say. A judge that fails, or whose reply cannot be read,
leaves every verdict as it is, and the reason is returned.
"""

from __future__ import annotations

import asyncio
import base64
import html
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from vrag.agent.prompts import encodable, material, prompt, spoken
from vrag.chat.messages import ChatImage, ChatMessage, ChatModel, ChatOptions, ChatPart, ChatReply, ChatText
from vrag.errors import JudgeError, ModelError
from vrag.reading.verification.claim import ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck

log = logging.getLogger("vrag.agent")

OPTIONS = ChatOptions(temperature=0.0, max_tokens=2048)
MAX_CLAIMS = 24
"""Claims of one request; the verdicts on further ones stay as they are."""
MAX_SOURCES = 6
"""Pictures and texts of one request; further ones are not shown."""
MAX_TEXT_CHARS = 4000
"""Characters of a text that are shown."""
MAX_REPLY_CHARS = 4000
"""Characters of a reply that the model is shown again."""
JUDGED = frozenset({ClaimVerdict.ONLY_VISIBLE, ClaimVerdict.NOT_FOUND})
"""The verdicts by rules that a judge is asked about."""
_TAGS = "question", "answer", "claim", "text", "verdict"
_THOUGHT = re.compile(r"<think\b", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
_VERDICT = re.compile(
    r"""<verdict\s+claim=["']?(?P<claim>\d{1,3})["']?(?:\s+source=["']?(?P<source>\d{0,3})["']?)?\s*>\s*
    (?P<word>supported|contradicted|not[ _]found)\s*</verdict>""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class JudgedSource:
    """A piece of evidence as the judge sees it: a picture, or a text where there is none."""

    number: int
    """Its position among the sources of the checks."""
    jpeg: bytes = b""
    """The picture as a JPEG file; empty for a passage."""
    text: str = ""
    """The text of a passage."""


class JudgedClaim(NamedTuple):
    """What a judge says about a claim."""

    verdict: ClaimVerdict
    source: int | None
    """Position in the list of sources that it was shown; None where it names none."""


class ClaimJudge(Protocol):
    """A judge of the claims of an answer."""

    @property
    def name(self) -> str:
        """Its name in events and reports."""
        ...

    async def judge(
        self, question: str, answer: str, claims: Sequence[str], sources: Sequence[JudgedSource]
    ) -> Mapping[int, JudgedClaim]:
        """Return verdicts by the position of the claim; claims that it says nothing about are left out.

        Raises `JudgeError` if there is no verdict at all.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatClaimJudge:
    """A `ClaimJudge` that asks a language model which sees pictures."""

    model: ChatModel
    """It retries failed calls by itself, boundedly."""
    options: ChatOptions = OPTIONS
    attempts: int = 2
    """Maximum of replies, until one can be read."""
    seconds: float = 60.0
    """Timeout of all attempts together."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    async def judge(
        self, question: str, answer: str, claims: Sequence[str], sources: Sequence[JudgedSource]
    ) -> Mapping[int, JudgedClaim]:
        """Ask the model once about all claims, again if nothing of its reply can be read.

        Raises `JudgeError` if the model fails, takes too long, or gives no verdict.
        """
        first = ChatMessage(
            "user", (*_show_sources(sources), ChatText(_write(question, answer, claims, sources)))
        )
        try:
            async with asyncio.timeout(self.seconds):
                return await self._ask(first, len(claims), len(sources))
        except ModelError as error:
            raise JudgeError(f"The judge {self.name} failed: {error.message}", error.hint) from error
        except TimeoutError as error:
            raise JudgeError(
                f"The judge {self.name} gave no verdict within {self.seconds:g} s.", "Give it more time."
            ) from error

    async def _ask(self, first: ChatMessage, claims: int, sources: int) -> Mapping[int, JudgedClaim]:
        text, messages = "", [first]
        for _ in range(self.attempts):
            text = await self._complete(messages)
            if found := read_verdicts(text, claims, sources):
                return found
            quote = ChatText(spoken(text[:MAX_REPLY_CHARS]) or "…")
            again = ChatMessage("user", (ChatText(prompt("claims_judge_again.md")),))
            messages = [first, ChatMessage("assistant", (quote,)), again]
        raise JudgeError(
            f"The judge {self.name} gave no verdict in {self.attempts} attempts: {text[-200:]!r}.",
            "Use a model that sees pictures and follows instructions.",
        )

    async def _complete(self, messages: list[ChatMessage]) -> str:
        """Return the reply of the model without its thoughts."""
        async with aclosing(self.model.stream(messages, self.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatReply):
                    text = _THOUGHT_END.split(encodable(part.text))[-1].strip()
                    return "" if _THOUGHT.search(text) else text  # a thought without an end says nothing
        raise ModelError("It ended without a reply.")


@dataclass(frozen=True, slots=True)
class JudgedChecks:
    """The checks of an answer after a judge has seen them."""

    checks: tuple[ClaimCheck, ...]
    reason: str = ""
    """Why the judge could not be asked or read, for people; empty if it said something."""


async def judge_claims(
    judge: ClaimJudge,
    question: str,
    answer: str,
    checks: Sequence[ClaimCheck],
    sources: Sequence[JudgedSource],
    *,
    asked: Collection[ClaimVerdict] = JUDGED,
) -> JudgedChecks:
    """Return the checks with the verdicts of a judge on those that the rules left open.

    Args:
        judge: The judge.
        question: The question, completed if it follows others.
        answer: Its answer, without markers.
        checks: What the rules say.
        sources: The pictures and texts of the evidence.
        asked: The verdicts by rules that it is asked about.
    """
    kept = tuple(checks)
    open_checks = [at for at, check in enumerate(kept) if check.verdict in asked][:MAX_CLAIMS]
    shown = list(sources[:MAX_SOURCES])
    if not open_checks or not shown:
        return JudgedChecks(kept)
    claims = [kept[at].claim.text for at in open_checks]
    try:
        verdicts = await judge.judge(question, answer, claims, shown)
    except JudgeError as error:
        log.warning("the claims of an answer were checked by rules only: %s", error.message)
        return JudgedChecks(kept, error.message)
    judged = list(kept)
    for number, verdict in verdicts.items():
        at = open_checks[number]
        judged[at] = _with_verdict(kept[at], verdict, shown, judge.name)
    return JudgedChecks(tuple(judged))


def _with_verdict(
    check: ClaimCheck, verdict: JudgedClaim, shown: Sequence[JudgedSource], judge: str
) -> ClaimCheck:
    """Return a check with the verdict of a judge, which knows no words and no place on the page."""
    numbers = () if verdict.source is None else (shown[verdict.source].number,)
    if verdict.verdict is ClaimVerdict.NOT_FOUND:
        numbers = ()
    return replace(
        check,
        verdict=verdict.verdict,
        sources=numbers,
        found="",
        item="",
        boxes=(),
        outside=False,
        reason="",
        judge=judge,
    )


def read_verdicts(text: str, claims: int, sources: int) -> dict[int, JudgedClaim]:
    """Return the verdicts of a reply by the position of their claims; the last one on a claim counts.

    >>> read_verdicts('<verdict claim="2" source="1">not found</verdict>', 2, 1)
    {1: JudgedClaim(verdict=<ClaimVerdict.NOT_FOUND: 'not_found'>, source=0)}
    """
    found: dict[int, JudgedClaim] = {}
    for match in _VERDICT.finditer(text):
        number, source = int(match["claim"]) - 1, int(match["source"] or 0) - 1
        if 0 <= number < claims:
            verdict = ClaimVerdict(match["word"].lower().replace(" ", "_"))
            place = source if 0 <= source < sources else (0 if sources == 1 else None)
            found[number] = JudgedClaim(verdict, place)
    return found


def _show_sources(sources: Sequence[JudgedSource]) -> list[ChatPart]:
    """Return the pictures with their numbers."""
    parts: list[ChatPart] = []
    for number, source in enumerate(sources, start=1):
        if source.jpeg:
            url = f"data:image/jpeg;base64,{base64.b64encode(source.jpeg).decode()}"
            parts += (ChatText(f"Picture {number}:"), ChatImage(url))
    return parts


def _write(question: str, answer: str, claims: Sequence[str], sources: Sequence[JudgedSource]) -> str:
    texts = (
        f'<text number="{number}">\n{_quote(source.text[:MAX_TEXT_CHARS])}\n</text>\n'
        for number, source in enumerate(sources, start=1)
        if not source.jpeg
    )
    lines = (
        f'<claim number="{number}">{_quote(text)}</claim>' for number, text in enumerate(claims, start=1)
    )
    return prompt(
        "claims_judge.md",
        question=_quote(question),
        answer=_quote(answer),
        texts="\n".join(texts),
        claims="\n".join(lines),
    )


def _quote(text: str) -> str:
    """Quote text as data: without a tag, and without a token of a chat template."""
    return html.escape(material(encodable(text), _TAGS), quote=False).strip()
