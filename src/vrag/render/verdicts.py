"""Answers with the markers of their citations, and the verdicts on their claims, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.answers.verification import narrowest
from vrag.agent.runs.run_result import RunResult
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.text_format import count

VERDICT_NAMES: Mapping[ClaimVerdict, str] = {
    ClaimVerdict.SUPPORTED: "supported",
    ClaimVerdict.CONTRADICTED: "contradicted",
    ClaimVerdict.NOT_FOUND: "not found",
    ClaimVerdict.ONLY_VISIBLE: "only visible",
}
"""The verdicts in words, in the order in which they are counted."""
_ENDS = " .,:;!?。！？；："
"""Punctuation at the end of words that are quoted."""
_EMPHASIS = "*_`~|"
"""Markdown around words that are quoted."""
_NARROW_BLANK = "\u202f"
"""A blank at which no line breaks: no marker begins one."""
_MAX_QUOTE_CHARS = 200
"""Characters of a claim, and of the words of the evidence, in a line about it."""


def summarize_claims(claims: Sequence[CheckedClaim]) -> str:
    """Return how many claims were checked, and with which verdicts; empty without any."""
    counts = Counter(claim.verdict for claim in claims)
    verdicts = ", ".join(
        f"{counts[verdict]} {name}" for verdict, name in VERDICT_NAMES.items() if counts[verdict]
    )
    return f"{count(len(claims), 'claim')} checked: {verdicts}." if claims else ""


def notable_claims(claims: Iterable[CheckedClaim]) -> list[CheckedClaim]:
    """Return the claims that are not supported, in order; of those that overlap the narrowest."""
    return narrowest([claim for claim in claims if claim.verdict is not ClaimVerdict.SUPPORTED])


def describe_claim(answer: str, claim: CheckedClaim, label: str = "") -> str:
    """Return what the evidence says about a claim, as a sentence with the numbers of the evidence.

    `label` stands before each number.
    """
    words, found = f"“{_cut(answer[claim.start : claim.end])}”", _cut(claim.found)
    numbers = "".join(f"[{label}{number}]" for number in claim.numbers)
    at = f" {numbers}" if numbers else ""
    match claim.verdict:
        case ClaimVerdict.SUPPORTED:
            return f"Supported{at}: {words}."
        case ClaimVerdict.CONTRADICTED:
            said = f" says “{found}”{at}, not" if found else f"{at} contradicts"
            return f"The evidence{said} {words}."
        case ClaimVerdict.NOT_FOUND:
            return f"Not found in the evidence: {words}."
        case ClaimVerdict.ONLY_VISIBLE:
            return f"Only a look at the picture{at} can tell: {words}."


def claim_lines(run: RunResult, label: str = "") -> list[str]:
    """Return a sentence for each claim of a run that is not supported; see `describe_claim`."""
    return [describe_claim(run.checked_text, claim, label) for claim in notable_claims(run.claims)]


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer: words, or a marker."""

    text: str
    number: int = 0
    """The number of the evidence that a marker names; 0 for words."""
    claim: CheckedClaim | None = None
    """The claim that the words belong to, where it is not supported."""


def answer_pieces(run: RunResult) -> Iterator[AnswerPiece]:
    """Yield an answer with its markers in pieces, cut where a claim that is not supported begins or ends."""
    marked, claims = run.marked_answer, notable_claims(run.claims)
    at = plain = 0
    for marker in marked.markers:
        if words := marked.text[at : marker.start]:
            added = 2 if words.endswith("\n") else 1  # what separates words and markers
            shown = words if added > 1 else f"{words[:-1]}{_NARROW_BLANK}"
            yield from _split(shown, plain, claims)
            plain += len(words) - added
        yield AnswerPiece(marked.text[marker.start : marker.end], number=marker.number)
        at = marker.end
    yield from _split(marked.text[at:], plain, claims)


def _split(words: str, start: int, claims: Sequence[CheckedClaim]) -> Iterator[AnswerPiece]:
    """Yield words that begin at `start` in the answer without markers, cut at claims."""
    at = 0
    for claim in claims:
        first, last = max(claim.start - start, at), min(claim.end - start, len(words))
        if first >= last:
            continue
        if first > at:
            yield AnswerPiece(words[at:first])
        yield AnswerPiece(words[first:last], claim=claim)
        at = last
    if at < len(words):
        yield AnswerPiece(words[at:])


def _cut(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= _MAX_QUOTE_CHARS else f"{line[: _MAX_QUOTE_CHARS - 1]}…"
    return shown.strip(_EMPHASIS).rstrip(_ENDS)
