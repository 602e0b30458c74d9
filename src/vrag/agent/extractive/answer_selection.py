"""Decides what to quote and what to cut out, or to say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrag.agent.extractive.answer_span import span
from vrag.agent.extractive.answer_type import AnswerType
from vrag.agent.extractive.evidence_region import FIRM, likeliest_line, region
from vrag.agent.extractive.line_scoring import LocatedLine, locate, says_kind
from vrag.agent.extractive.query_analysis import QuestionAnalysis, parse
from vrag.agent.extractive.text_layout import layout
from vrag.geometry import Box
from vrag.types import Item

THRESHOLD = 0.3
"""Score under which nothing is quoted: the best mean of true and of avoided false abstention on the
development questions, each document judged by the others."""
ABSENT = 0.3
"""What remains of the score for each thing that the question names and that stands nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedAnswer:
    """Words of an item that may answer a question."""

    item: str
    """Id of the item."""
    start: int
    end: int
    text: str
    """The words quoted: `item.text[start:end]`."""
    box: Box | None
    """The region to crop to see them in their place, in `Space.UNIT`; None for an item without word boxes."""
    answer_box: Box | None
    """The region of the quoted words alone, in `Space.UNIT`."""
    score: float
    """From 0 to 1: how much of the question comes together at the quote, less for names, numbers
    and figures of the question that stand nowhere on the items given."""
    literal: bool
    """Whether such words can be the answer. False when the answer has to be counted, computed or seen
    in colour, and when a number, a date or an address is asked for and the words hold none beside the
    question's own: then the quote only says where to look."""


def best_quote(
    question: str, items: Sequence[Item], *, threshold: float = THRESHOLD
) -> SelectedAnswer | None:
    """Return the words that answer a question, with their place on the page; None to abstain."""
    asked = parse(question)
    found = locate(asked, [layout(item) for item in items])
    places = [(float(score), page, line) for page in found for line, score in enumerate(page.score)]
    if not places:
        return None
    _, page, line = max(places, key=lambda place: place[0])
    score = float(page.support[line]) * ABSENT ** _absences(asked, found)
    return _quote(asked, page, line, min(max(score, 0.0), 1.0)) if score >= threshold else None


def _absences(question: QuestionAnalysis, found: Sequence[LocatedLine]) -> int:
    """Count the kinds of things in the question that stand nowhere: words, and numbered things."""
    names = any(term.key and not any(page.holds(term.text) for page in found) for term in question.terms)
    pointers = bool(question.pointers) and not any(page.pointed for page in found)
    return names + pointers


def _quote(question: QuestionAnalysis, found: LocatedLine, number: int, score: float) -> SelectedAnswer:
    """Make the quote; where the words will hardly answer, it points at the likeliest part of the page."""
    page = found.page
    literal = question.ask not in {AnswerType.COUNT, AnswerType.COLOR, AnswerType.COMPUTE}
    firm = bool(found.support[number] >= FIRM) and score >= THRESHOLD
    if page.words and not firm and not (literal and score >= THRESHOLD):
        number = likeliest_line(found, number)
    asked = {term.text for term in question.terms}
    start, end = span(page, number, asked)
    tight = page.rect_of(start, end)
    return SelectedAnswer(
        item=page.item.id,
        start=start,
        end=end,
        text=page.item.text[start:end],
        box=region(found, number, tight, firm=firm).box() if tight else None,
        answer_box=tight.box() if tight else None,
        score=score,
        literal=literal and says_kind(question.ask, page.item.text[start:end], asked),
    )
