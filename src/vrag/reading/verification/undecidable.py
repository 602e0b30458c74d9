"""Claims on which the text cannot decide: of other languages, bounds of computed numbers, names of pages.

Rules compare words. An answer in another language than its evidence has none of them, "more than 45,000"
follows from numbers that no rule combines, and "page 3" names a place rather than what stands there. Such
claims are not doubted for want of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck
from vrag.text.terms import is_cjk

MIN_HITS, MIN_MARGIN = 3, 1.5
"""Distinct function words of its language that a text must have, and how many times those of any other."""
_FUNCTION_WORDS = {
    "en": "the a an in of and to is are was were for on with that it by as at from not this which has",
    "de": "der die das in und ist sind war im den von zu mit nicht auf für ein eine wurde wird dem des",
    "fr": "le la les des et est sont dans du une pour que qui pas sur au aux ne ce par plus avec été",
    "es": "el los las del y es son en una por que se con para su al lo como más fue está",
    "it": "il lo gli della dei e è sono nel una per che di non con si al da come più è stato",
    "pt": "o os as da do dos e é são em uma por que não com para ao na no mais foi como",
    "nl": "de het een en is zijn van in op te dat voor met niet aan door bij als werd wordt",
}
"""Function words by language; words of several languages count for each."""
_LANGUAGES = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}
_WORD = re.compile(r"[^\W\d_]+")
_PLACE = re.compile(
    r"(?:pages?|pp?\.|figures?|fig\.|tables?|sections?|slides?|images?|pictures?|sources?|evidence|texts?)"
    r"\s{0,3}\d{1,4}|[\w ]{1,30}:|第?\d{1,4}[页頁]",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:\b(?:more|less|fewer|greater|higher|lower)\s{1,3}than"
    r"|\b(?:over|under|above|below|at least|at most|up to)|[<>≥≤]|超过|超過|不到|至少)\s{0,3}$",
    re.IGNORECASE,
)
_BEFORE_CHARS = 30
_UNSAID = frozenset({ClaimVerdict.UNVERIFIED, ClaimVerdict.DOUBTED})


def leave_undecidable(
    answer: str, checks: Sequence[ClaimCheck], texts: Iterable[str]
) -> tuple[ClaimCheck, ...]:
    """Return the checks without names of places; what the text cannot decide needs a look at the picture.

    Args:
        answer: The answer.
        checks: The verdicts of the rules.
        texts: The texts of the pages.
    """
    is_foreign = is_other_language(answer, texts)
    settled: list[ClaimCheck] = []
    changed: list[ClaimCheck] = []
    for check in checks:
        claim = check.claim
        if check.verdict is ClaimVerdict.UNVERIFIED and not check.needs_picture and is_place_name(claim.text):
            continue
        before = answer[max(0, claim.start - _BEFORE_CHARS) : claim.start]
        is_bound = claim.kind is ClaimKind.NUMBER and _BOUND.search(before) is not None
        is_worded = is_foreign and claim.kind is ClaimKind.SENTENCE
        if check.verdict in _UNSAID and (is_bound or is_worded):
            check = _leave_open(check)  # noqa: PLW2901
            changed.append(check)
        settled.append(check)
    return tuple(_leave_open(check) if _rests_on(check, changed, settled) else check for check in settled)


def is_place_name(text: str) -> bool:
    """Return whether words name a place of a document, as "page 3", and nothing that stands there."""
    return _PLACE.fullmatch(text.strip()) is not None


def is_other_language(answer: str, texts: Iterable[str]) -> bool:
    """Return whether an answer is in another language or script than the pages; False where none can tell.

    >>> is_other_language("Die Fähre ist im Winter nicht gefahren.", ["It is the ferry that was not at sea."])
    True
    """
    pages = " ".join(texts)
    own, other = _language(answer), _language(pages)
    return bool(own and other and own != other)


def _language(text: str) -> str:
    """Return the language of a text by its script or its function words; empty where they do not tell."""
    letters = [sign for sign in text if sign.isalpha()]
    if letters and sum(map(is_cjk, letters)) > len(letters) / 2:
        return "cjk"
    words = {word.lower() for word in _WORD.findall(text)}
    hits = sorted(((sum(word in known for word in words), name) for name, known in _LANGUAGES.items()))
    (second, _), (most, language) = hits[-2:]
    return language if most >= MIN_HITS and most >= MIN_MARGIN * second else ""


def _leave_open(check: ClaimCheck) -> ClaimCheck:
    """Return a claim that only a look at the picture can decide."""
    return ClaimCheck(check.claim, ClaimVerdict.UNVERIFIED, needs_picture=True)


def _rests_on(check: ClaimCheck, changed: Sequence[ClaimCheck], settled: Sequence[ClaimCheck]) -> bool:
    """Return whether a sentence is doubted for nothing but claims that cannot be decided."""
    if check.claim.kind is not ClaimKind.SENTENCE or check.verdict is not ClaimVerdict.DOUBTED:
        return False
    inside = [
        other
        for other in settled
        if other is not check
        and check.claim.start <= other.claim.start
        and other.claim.end <= check.claim.end
    ]
    return any(other in changed for other in inside) and all(
        other.verdict is not ClaimVerdict.DOUBTED for other in inside
    )
