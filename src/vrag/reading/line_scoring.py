"""Scores the lines of pages by where the words of a question come together.

For each term of the question the nearness of its nearest occurrence to a line counts, weighted by
how rare the term is; the weighted mean over the terms is the line's support, from 0 to 1. A term
that stands elsewhere on the page still counts a little, as the topic of the page does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrag.reading.page_text import PageText
from vrag.reading.questions.answer_types import AnswerKind
from vrag.reading.questions.pointers import match_page
from vrag.reading.questions.query_analysis import QuestionAnalysis
from vrag.text.terms import one_edit_apart, tokens

REACH = 0.05
"""Distance over which nearness falls by a factor of e, in heights of the page."""
ACROSS = 0.5
"""Weight of a distance along a line relative to one across lines: rows hold together."""
BELOW = 0.5
"""Weight of a distance downwards relative to one upwards: content follows its heading."""
BESIDE = 0.8
"""Weight of a term next to the line, not on it."""
TOPIC = 0.35
"""Weight of a term on the page that is not near the line."""
KEY = 1.5
"""Factor on the weight of names and numbers."""
FITTING = 0.06
"""Added to a line that holds the kind of thing asked for."""
POINTED = 0.5
"""Added to the caption of the figure or table, or to the page, that the question names."""
RANK = 0.06
"""Taken off per place down the ranking of the pages."""

MAX_PLACES = 256
"""Lines with one term that are looked at on one page; of more, an even sample."""

_PREFIXED_YEAR = re.compile(r"[a-z]{1,3}((?:19|20)\d\d)")
"""FY2023 means 2023."""
_DATE = re.compile(
    r"""\b(?:1[5-9]|20)\d\d\b | \b\d{1,2}[/.:]\d{1,2}\b | [年月日]
    | \b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b
    | \b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b | o’?'?clock\b | \bmid(?:night|day)\b | \bnoon\b
    | \b(?:morning|evening|night|spring|summer|autumn|winter)s?\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LINK = re.compile(r"https?:|www\.|\w\.(?:com|org|net|edu|gov|io|cn|de)\b", re.IGNORECASE)
_MAIL = re.compile(r"\S@\S")
_DIGIT = re.compile(r"\d")
_PERCENT = re.compile(r"\d\s?(?:%|per ?cent)", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z][a-z]+ (?:[A-Z]\. ?)?[A-Z][a-z]+|[\u4e00-\u9fff]{2,4}")

_NUMERIC = (AnswerKind.NUMBER, AnswerKind.COMPUTE, AnswerKind.PERCENT, AnswerKind.MONEY, AnswerKind.DURATION)
_FITS = {
    **dict.fromkeys((AnswerKind.DATE, AnswerKind.YEAR, AnswerKind.TIME), _DATE),
    **dict.fromkeys(_NUMERIC, _DIGIT),
    AnswerKind.EMAIL: _MAIL,
    AnswerKind.LINK: _LINK,
    AnswerKind.PERSON: _NAME,
}
_KINDS = {
    "email": _MAIL,
    "url": _LINK,
    "websit": _LINK,
    "link": _LINK,
    "dat": _DATE,
    "percentag": _PERCENT,
    "percent": _PERCENT,
}
"""Words of questions for which things of their kind stand on pages rather than the words themselves."""


@dataclass(slots=True)
class ScoredPage:
    """The support for an answer by the lines of one page."""

    page: PageText
    places: dict[str, list[int]]
    """Numbers of the lines that hold each term, for terms that occur."""
    weights: Mapping[str, float]
    """Share of each term of the question; they add up to 1."""
    support: NDArray[np.float64]
    """Per line: weighted share of the question's terms near it, 0 to 1."""
    score: NDArray[np.float64]
    """Per line: support with what else speaks for the line, for comparing lines."""
    title: frozenset[str]
    """Terms of the headings above and of the file's name."""
    pointed: bool
    """True if something that the question points at is captioned here, or is this page."""

    def holds(self, term: str) -> bool:
        """Return whether a term stands on the page, in the headings above or in the file's name."""
        return term in self.places or term in self.title

    def support_at(self, rects: NDArray[np.float64]) -> NDArray[np.float64]:
        """Support of any places of the page, given as rectangles of shape (n, 4)."""
        return _support(self.page, self.places, self.weights, rects)


def locate(question: QuestionAnalysis, pages: Sequence[PageText]) -> list[ScoredPage]:
    """Score every line of the pages, which come best first.

    A term weighs what its rarity among all lines says, more if it is a name or a number.
    """
    places = [_places(question, page) for page in pages]
    lines = sum(len(page.lines) for page in pages)
    weights: dict[str, float] = {}
    for term in question.terms:
        count = sum(len(page_places.get(term.text, ())) for page_places in places)
        weights[term.text] = math.log(1 + lines / (0.5 + count)) * (KEY if term.key else 1.0)
    total = sum(weights.values()) or 1.0
    weights = {term: weight / total for term, weight in weights.items()}
    return [
        _score_page(question, page, page_places, weights, rank)
        for rank, (page, page_places) in enumerate(zip(pages, places, strict=True))
    ]


def _score_page(
    question: QuestionAnalysis,
    page: PageText,
    places: dict[str, list[int]],
    weights: Mapping[str, float],
    rank: int,
) -> ScoredPage:
    text = page.item.text
    title = frozenset(token.term for token in tokens(f"{page.item.heading} {page.item.document_name}"))
    topic = TOPIC * sum(weight for term, weight in weights.items() if term in title and term not in places)
    support = topic + _support(page, places, weights, page.rects)
    score = support - RANK * rank

    captions = [pointer.caption for pointer in question.pointers if pointer.kind != "page"]
    pages = frozenset(pointer.number for pointer in question.pointers if pointer.kind == "page")
    pointed = [
        number
        for number, line in enumerate(page.lines)
        if any(caption.match(text, line.start) for caption in captions)
    ]
    if pointed:
        score += POINTED * nearness(page, pointed, page.rects)
    here = match_page(page.item, pages)
    score += POINTED * here

    if fits := _FITS.get(question.ask):
        score += np.asarray([FITTING * bool(fits.search(text, line.start, line.end)) for line in page.lines])
    return ScoredPage(page, places, weights, support, score, title, bool(pointed) or here > 0)


def _support(
    page: PageText,
    places: Mapping[str, Sequence[int]],
    weights: Mapping[str, float],
    rects: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the weighted share of the terms near each rectangle."""
    total = np.zeros(len(rects))
    for term, lines in places.items():
        total += weights[term] * (TOPIC + (1 - TOPIC) * nearness(page, lines, rects))
    return total


def _places(question: QuestionAnalysis, page: PageText) -> dict[str, list[int]]:
    """Return the lines that hold each term of the question, or the kind of thing that it names."""
    text = page.item.text
    words = page.line_terms
    places: dict[str, list[int]] = {}
    for term in dict.fromkeys(term.text for term in question.terms):
        holding = [number for number, line in enumerate(words) if term in line]
        if not holding and (variants := _variants(term, words)):
            holding = [number for number, line in enumerate(words) if not variants.isdisjoint(line)]
        if pattern := _KINDS.get(term):
            lines = enumerate(page.lines)
            matching = {number for number, line in lines if pattern.search(text, line.start, line.end)}
            holding = sorted(matching.union(holding))
        if holding:
            places[term] = holding
    return places


def _variants(term: str, words: Sequence[Sequence[str]]) -> set[str]:
    """Return words that a typo, poor recognition or a missing space may have made of a term."""
    if prefixed := _PREFIXED_YEAR.fullmatch(term):
        return {prefixed[1]}
    if len(term) < 5 or not term.isalpha():
        return set()
    vocabulary = {word for line in words for word in line}
    near = {
        word for word in vocabulary if len(word) >= 5 and word[0] == term[0] and one_edit_apart(term, word)
    }
    joined = {first for line in words for first, second in pairwise(line) if first + second == term}
    return near | joined | {word for word in vocabulary if term in word}


def nearness(page: PageText, places: Sequence[int], rects: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how near each rectangle is to the nearest of some lines of the page, from 0 to 1."""
    step = -(-len(places) // MAX_PLACES)
    lines = page.rects[np.asarray(places[::step])]
    left, right = lines[None, :, 0] - rects[:, None, 2], rects[:, None, 0] - lines[None, :, 2]
    above, below = lines[None, :, 1] - rects[:, None, 3], rects[:, None, 1] - lines[None, :, 3]
    across = np.maximum(0.0, np.maximum(left, right)) * page.aspect * ACROSS
    along = np.maximum(0.0, above) + np.maximum(0.0, below) * BELOW
    near = BESIDE * np.exp(-np.hypot(across, along).min(axis=1) / REACH)
    if rects is page.rects:  # boxes of neighbouring lines may overlap: only the line itself counts in full
        near[np.asarray(places)] = 1.0
    return near
