"""The words to quote as the answer and the region to crop around them, or the decision to abstain."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vrag.geometry import Box
from vrag.reading.evidence_region import FIRM, likeliest_line, region
from vrag.reading.line_scoring import ScoredPage, locate, says_kind
from vrag.reading.query_analysis import AnswerType, QuestionAnalysis, parse
from vrag.reading.text_layout import STOP_WORDS, PageLayout, is_cjk, layout, tokens
from vrag.types import Item

THRESHOLD = 0.3
"""Score under which nothing is quoted: the best mean of true and of avoided false abstention on the
development questions, each document judged by the others."""
MISSING_FACTOR = 0.3
"""Factor on the score for each kind of thing that the question names and no item contains."""
MAX_QUOTE_CHARS = 300
"""Characters that a quote grows to at most; one line may be longer."""
MIN_PROSE_SHARE = 0.2
"""Share of words such as "the" and "of" from which a block is prose and not rows or labels."""
MIN_PROSE_WORDS = 8
"""Words from which a block can be prose."""
MAX_FOLLOWING_LINES = 2
"""Lines added after a heading that says no more than the question."""

_STOP = re.compile(r"[.!?;](?=[\s\"”')\]]|$)|[。！？；]")


def span(page: PageLayout, number: int, asked: Collection[str]) -> tuple[int, int]:
    """Return the start and end in the item's text of what to quote for a line."""
    block = [page.lines[member] for member in page.blocks[page.lines[number].block]]
    texts = [page.item.text[line.start : line.end] for line in block]
    words = [text[token.start : token.end].lower() for text in texts for token in tokens(text)]
    empty = sum(is_cjk(word) or word in STOP_WORDS for word in words)
    if len(words) >= MIN_PROSE_WORDS and empty >= MIN_PROSE_SHARE * len(words):
        return _sentence(page, number, asked)  # the block is running text
    first, last = _row_around(page, number)
    start, end = page.lines[first].start, page.lines[last].end
    for line in page.lines[last + 1 : last + 1 + MAX_FOLLOWING_LINES]:
        terms = {token.term for token in tokens(page.item.text[start:end])}
        says_more = bool(terms.difference(asked, STOP_WORDS))
        if says_more or line.end - start > MAX_QUOTE_CHARS:
            break
        end = max(end, line.end)
    return start, end


def _sentence(page: PageLayout, number: int, asked: Collection[str]) -> tuple[int, int]:
    """Return the sentence on a line that holds most of the question, over the lines of text around it."""
    text = page.item.text
    line = page.lines[number]
    low = page.lines[_find_block_end(page, number, -1)].start
    high = page.lines[_find_block_end(page, number, +1)].end
    ends = [low, *(match.end() for match in _STOP.finditer(text, low, high)), high]
    sentences = [(a, b) for a, b in pairwise(ends) if a < line.end and b > line.start and text[a:b].strip()]

    def score(sentence: tuple[int, int]) -> tuple[int, int]:
        words = text[slice(*sentence)]
        return len({token.term for token in tokens(words)}.intersection(asked)), len(words)

    start, end = max(sentences, key=score, default=(line.start, line.end))
    start, end = max(start, line.end - MAX_QUOTE_CHARS), min(end, line.start + MAX_QUOTE_CHARS)
    quoted = text[start:end].strip()
    start = text.index(quoted, start)
    return start, start + len(quoted)


def _find_block_end(page: PageLayout, number: int, step: int) -> int:
    """Return the last line in one direction, in the order of the text, that is of the same block."""
    block = page.lines[number].block
    last = number
    while 0 <= last + step < len(page.lines) and page.lines[last + step].block == block:
        last += step
        if abs(page.lines[last].start - page.lines[number].start) > MAX_QUOTE_CHARS:
            break
    return last


def _row_around(page: PageLayout, number: int) -> tuple[int, int]:
    """Return the first and last of the lines that follow each other in the text and form one row."""
    first = last = number
    while (
        first > 0
        and _same_row(page, first - 1, number)
        and page.lines[last].end - page.lines[first - 1].start <= MAX_QUOTE_CHARS
    ):
        first -= 1
    while (
        last + 1 < len(page.lines)
        and _same_row(page, last + 1, number)
        and page.lines[last + 1].end - page.lines[first].start <= MAX_QUOTE_CHARS
    ):
        last += 1
    return first, last


def _same_row(page: PageLayout, a: int, b: int) -> bool:
    """Return whether two lines overlap in height by more than half of the lower one."""
    first, second = page.lines[a].rect, page.lines[b].rect
    return min(first.y2, second.y2) - max(first.y1, second.y1) > 0.5 * min(first.height, second.height)


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
    """The part of the question, 0 to 1, that comes together at the quote, less for names, numbers
    and figures of the question that stand nowhere on the items given."""
    literal: bool
    """True if a quotation can be the answer. False when the answer has to be counted, computed or seen
    in colour, and when a number, a date or an address is asked for and the words hold none besides the
    question's own: then the quote only says where to look."""


def best_quote(
    question: str, items: Sequence[Item], *, threshold: float = THRESHOLD
) -> SelectedAnswer | None:
    """Return the words that answer a question, with their place on the page; None to abstain."""
    analysis = parse(question)
    pages = locate(analysis, [layout(item) for item in items])
    lines = [(float(score), page, line) for page in pages for line, score in enumerate(page.score)]
    if not lines:
        return None
    _, page, line = max(lines, key=lambda entry: entry[0])
    keys = [term.text for term in analysis.terms if term.key]
    term_missing = any(not any(page.holds(key) for page in pages) for key in keys)
    pointer_missing = bool(analysis.pointers) and not any(page.pointed for page in pages)
    score = float(page.support[line]) * MISSING_FACTOR ** (term_missing + pointer_missing)
    return _quote(analysis, page, line, min(max(score, 0.0), 1.0)) if score >= threshold else None


def _quote(question: QuestionAnalysis, scored: ScoredPage, number: int, score: float) -> SelectedAnswer:
    """Make the quote; where the words will hardly answer, it points at the likeliest part of the page."""
    page = scored.page
    literal = question.ask not in {AnswerType.COUNT, AnswerType.COLOR, AnswerType.COMPUTE}
    firm = bool(scored.support[number] >= FIRM) and score >= THRESHOLD
    if page.words and not firm and not (literal and score >= THRESHOLD):
        number = likeliest_line(scored, number)
    asked = {term.text for term in question.terms}
    start, end = span(page, number, asked)
    tight = page.rect_of(start, end)
    return SelectedAnswer(
        item=page.item.id,
        start=start,
        end=end,
        text=page.item.text[start:end],
        box=region(scored, number, tight, firm=firm).box() if tight else None,
        answer_box=tight.box() if tight else None,
        score=score,
        literal=literal and says_kind(question.ask, page.item.text[start:end], asked),
    )
