"""Answers with the markers of their citations, and the verdicts on their claims, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.answers.verification import narrowest
from vrag.agent.runs.run_result import BY_READER, LOOK_WHETHER, RunResult
from vrag.reading.verification.claim import HELD, VERIFIED, ClaimDoubt, ClaimKind, ClaimVerdict
from vrag.text.numerals import count

VERDICT_NAMES: Mapping[ClaimVerdict, str] = {
    ClaimVerdict.SEEN: "seen on the page",
    ClaimVerdict.COMPUTED: "computed from what is seen",
    ClaimVerdict.STATED: "stated in the text",
    ClaimVerdict.DOUBTED: "doubted",
    ClaimVerdict.UNVERIFIED: "not found",
}
"""The verdicts in words, in the order in which they are counted."""
_ENDS = " .,:;!?。！？；："
"""Punctuation at the end of words that are quoted."""
_EMPHASIS = "*_`~|"
"""Markdown around words that are quoted."""
_NARROW_BLANK = "\u202f"
"""A blank at which no line breaks: no marker begins one."""
_WITNESSES: Mapping[ClaimDoubt | None, str] = {
    ClaimDoubt.READING: "The picture, read again,",
    ClaimDoubt.OTHER_EVIDENCE: "Another piece of the evidence",
    ClaimDoubt.MODEL: "The picture",
}
"""What says something else than a claim, where it is not the text of its evidence."""
_MAX_QUOTE_CHARS = 200
"""Characters of a claim, and of the words of the evidence, in a line about it."""


def trust_line(run: RunResult) -> str:
    """Return the line of trust under an answer: how much of it is verified; empty where nothing was checked.

    Without a model nothing is verified: the line says how the words were found.
    """
    if not run.is_without_model:
        return summarize_claims(run.claims)
    if run.answer is None:
        return ""
    return _describe_reading_twice(run) or BY_READER


def summarize_claims(claims: Sequence[CheckedClaim]) -> str:
    """Return how many statements are verified, and what is known of the others; empty without any."""
    counts = Counter(claim.verdict for claim in list_statements(claims))
    total, verified = counts.total(), sum(counts[verdict] for verdict in VERIFIED)
    if total == 1:
        (verdict,) = counts
        return f"1 statement, {'verified on the page' if verdict in VERIFIED else VERDICT_NAMES[verdict]}."
    others = [
        f"{counts[verdict]} {name}"
        for verdict, name in VERDICT_NAMES.items()
        if verdict not in VERIFIED and counts[verdict]
    ]
    number = str(verified) if verified else "None"
    line = f"{number} of {count(total, 'statement')} verified on the page"
    return f"{', '.join([line, *others])}." if total else ""


def list_statements(claims: Sequence[CheckedClaim]) -> list[CheckedClaim]:
    """Return the sentences, and the numbers and dates that stand alone."""
    sentences = [claim for claim in claims if claim.kind is ClaimKind.SENTENCE]
    return [
        claim
        for claim in claims
        if claim.kind is ClaimKind.SENTENCE
        or not any(whole.start <= claim.start and claim.end <= whole.end for whole in sentences)
    ]


def _describe_reading_twice(run: RunResult) -> str:
    """Return where the words of an answer without a model stand; empty unless both readings have them."""
    if not run.claims or not all(claim.verdict in VERIFIED for claim in run.claims):
        return ""
    numbers = sorted({number for claim in run.claims for number in claim.numbers})
    pages = list(dict.fromkeys(run.evidence[number - 1].page_name for number in numbers))
    places = " and ".join(pages) or "the page"
    return f"These words stand on {places} (read twice: as text and as a picture). {LOOK_WHETHER}"


def list_claims(run: RunResult) -> tuple[CheckedClaim, ...]:
    """Return the claims of a run that are shown; none without a model, which says no more than the page."""
    return () if run.is_without_model else run.claims


def notable_claims(claims: Iterable[CheckedClaim]) -> list[CheckedClaim]:
    """Return the claims that the evidence does not say, in order; of those that overlap the narrowest."""
    return narrowest([claim for claim in claims if claim.verdict not in HELD])


def describe_claim(answer: str, claim: CheckedClaim, label: str = "") -> str:
    """Return what the evidence says about a claim, as a sentence with the numbers of the evidence.

    `label` stands before each number.
    """
    words, found = f"“{_cut(answer[claim.start : claim.end])}”", _cut(claim.found)
    numbers = "".join(f"[{label}{number}]" for number in claim.numbers)
    at = f" {numbers}" if numbers else ""
    match claim.verdict:
        case ClaimVerdict.SEEN:
            return f"Seen on the page{at}: {words}."
        case ClaimVerdict.COMPUTED:
            return f"Computed from what is seen on the page{at}: {words}, from {found}."
        case ClaimVerdict.STATED:
            return f"Stated in the text{at}: {words}."
        case ClaimVerdict.DOUBTED:
            who = _WITNESSES.get(claim.doubt, "The evidence")
            said = f" says “{found}”{at}, not" if found else f"{at} contradicts"
            return f"{who}{said} {words}."
        case ClaimVerdict.UNVERIFIED if claim.needs_picture:
            return f"Only a look at the picture can tell: {words}."
        case ClaimVerdict.UNVERIFIED:
            return f"Not found in the evidence: {words}."


def claim_lines(run: RunResult, label: str = "") -> list[str]:
    """Return a sentence for each claim of a run that the evidence does not say; see `describe_claim`."""
    claims = notable_claims(list_claims(run))
    return [describe_claim(run.checked_text, claim, label) for claim in claims]


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer: words, or a marker."""

    text: str
    number: int = 0
    """The number of the evidence that a marker names; 0 for words."""
    claim: CheckedClaim | None = None
    """The claim that the words belong to, where the evidence does not say it."""


def answer_pieces(run: RunResult) -> Iterator[AnswerPiece]:
    """Yield an answer with its markers in pieces, cut where a claim in doubt begins or ends."""
    marked, claims = run.marked_answer, notable_claims(list_claims(run))
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
