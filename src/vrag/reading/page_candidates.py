"""The candidates for an answer on one page: from tables, labelled values and running text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vrag.geometry import Box
from vrag.reading.answer import FULL_READING, Mark, MarkRole, Reading, ReadingOptions
from vrag.reading.answer_checks import can_answer, repeats_number
from vrag.reading.labelled_values import LabelledValue, MatchedValue, match_values
from vrag.reading.line_scoring import ScoredPage
from vrag.reading.page_text import PageText
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.query_analysis import without_form
from vrag.reading.scorer import CandidateScorer
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.spans.whole_values import complete_value, skip_neighbour
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.question import analyse_question
from vrag.reading.table_answers.ranking import RankedAnswer, rank_answers
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.views.text_lines import Rect, around
from vrag.text.terms import STOP_WORDS, tokens
from vrag.types import Item

MAX_CONTEXT_CHARS = 300
"""Characters of the sentence or row around an answer."""
CERTAIN = 0.25
"""The probability from which a cell that the question names is certain."""
CERTAIN_TEXT = 0.8
"""The probability from which words of running text are certain."""
MIN_NAMED = 2 / 3
"""Share of the words of a question that the heads and the caption of a certain cell have."""
PER_TABLE = 5
"""Candidates of each table that are ranked with those of others."""
MAX_VALUES = 5
"""Labelled values of each page that are ranked with others."""
_SPACE = re.compile(r"\s+")
_NUMBERED = re.compile(
    r"""(?:\b(?:tables?|figures?|fig|charts?|pages?|sections?|chapters?|exhibits?|annex|appendix|slides?|units?
    |lessons?|modules?|parts?|volumes?|quiz(?:zes)?|questions?|items?|nos?|nr)\.?\s*\#? | [表图圖第]
    | \d[-–.] | \#)\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""The name of a numbered thing: what follows is its number and no answer."""

_SECTION = re.compile(r"\d+(?:\.\d+)+(?=\.?\s+[A-Z])|\d+\.\d+(?:\.\d+)+", re.ASCII)
"""The number of a section before its title, or of a version; neither is an amount."""
_LABEL_END = re.compile(r"\s?[:：]\s*(?:\n|$)")
"""The end of a heading that introduces what follows; it is no answer itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCandidate:
    """A possible answer, and what was found by the reader of its source."""

    reading: Reading
    """Without a probability yet."""
    page: int
    """Number of the page among those read, from 0."""
    source: RankedAnswer | MatchedValue | ScoredSpan
    margin: float
    """Score less that of the best other candidate of the same source."""
    table: DocumentTable | None = None
    """The table that it is from; of a span, the table that it stands in."""


def list_candidates(
    question: str,
    number: int,
    scored: ScoredPage,
    tables: Sequence[DocumentTable],
    spans: Sequence[ScoredSpan],
    table_scorer: CandidateScorer | None = None,
    options: ReadingOptions = FULL_READING,
) -> Iterator[PageCandidate]:
    """Yield the candidates of a page, the `number`-th of those read.

    `spans` are those of its text; `table_scorer` is None for that of the package.
    """
    page, kind = scored.page, find_focus(question).kind
    analysed = analyse_question(question)
    for table in tables:
        operations = options.operations and not table.is_part
        ranked = rank_answers(
            question, table, scorer=table_scorer, limit=2 * PER_TABLE, operations=operations
        )
        ranked = [answer for answer in ranked if analysed.asks_for(answer.candidate.operation)]
        pairs = [(_read_table(page.item.id, table, answer), answer) for answer in ranked]
        pairs = [
            (reading, answer) for reading, answer in pairs if can_answer(question, reading, table.caption)
        ]
        found = _with_margins(number, pairs[:PER_TABLE], table)
        yield from (candidate for candidate in found if _is_on_page(candidate.source))
    if options.values:
        values = match_values(page.values, scored.weights, MAX_VALUES)
        labelled = [(_read_value(page.item.id, match.value), match) for match in values]
        yield from _with_margins(number, [pair for pair in labelled if can_answer(question, pair[0])])
    whole = _complete_spans(page.item.text, spans, kind)
    places = {span: place for place, span in whole}
    stated = [(read_span(page, place, span.sentence), span) for place, span in whole]
    for candidate in _with_margins(number, [pair for pair in stated if can_answer(question, pair[0])]):
        yield replace(candidate, table=_find_table(candidate, places, tables))


def is_certain(question: str, candidate: PageCandidate, probability: float) -> bool:
    """Return whether a candidate is of the kind of answers that are right three times in four.

    It is running text with a high probability, or one cell that is read, and the question names it: all words
    of the head of its row, and some of its column, or the other way round. Heads and caption, and what the
    heads of rows are called in a table that the file has as such, have most words of the question and all its
    numbers, and it asks for nothing that has to be computed. Nor is it a number of the question: such
    candidates stay, since the probabilities of others were learnt beside them. Of other kinds a
    probability tells too little on documents that the reader has not learnt from; see docs/reading.md.
    """
    source, table = candidate.source, candidate.table
    if repeats_number(candidate.reading.text, question) and not candidate.reading.arithmetic:
        return False
    if isinstance(source, ScoredSpan):
        return probability >= CERTAIN_TEXT
    if not isinstance(source, RankedAnswer) or table is None or probability < CERTAIN:
        return False
    found = source.candidate
    if found.operation is not TableOperation.LOOKUP or len(found.cells) != 1:
        return False
    cell = found.cells[0]
    if cell.row < table.header_rows or cell.column < table.header_columns:
        return False
    asked = _content_terms([without_form(question)])
    row = _content_terms(head.text for head in table.row_heads(cell.row))
    title, heads = split_title(table, cell.column)
    column = _content_terms(heads)
    named = asked & (row | column | _content_terms([table.caption, *title, *_names_of_heads(table, cell)]))
    return (
        _names_cell(asked, row, column)
        and len(named) >= MIN_NAMED * len(asked)
        and not any(term[0].isdigit() for term in asked - named)
        and not asks_to_compute(question, row | column)
    )


def split_title(table: DocumentTable, column: int) -> tuple[list[str], list[str]]:
    """Return the heads of a column that stand over all columns with values, and the others.

    The former are a title: they name none of the columns.
    """
    title: list[str] = []
    heads: list[str] = []
    values = table.width - table.header_columns
    for head in table.column_heads(column):
        (title if head.columns >= values > 1 else heads).append(head.text)
    return (title, heads) if heads else ([], title)


def find_hidden_terms(items: Iterable[Item]) -> frozenset[str]:
    """Return the terms of the hidden text of items that they do not show too."""
    terms: set[str] = set()
    for item in items:
        if item.facts.hidden_text:
            terms |= _content_terms([item.facts.hidden_text]) - _content_terms([item.text])
    return frozenset(terms)


def asks_for_hidden(question: str, reading: Reading, hidden: frozenset[str], caption: str = "") -> bool:
    """Return whether a question has words that stand in hidden text alone, and not around an answer.

    A sheet with a hidden column "Purchase price" shows "Price": that is not what is asked for.
    """
    if not hidden:
        return False
    beside = _content_terms([reading.text, reading.context, caption])
    return not hidden.isdisjoint(_content_terms([question]) - beside)


def _names_of_heads(table: DocumentTable, cell: Cell) -> list[str]:
    """Return what the heads of rows are called, where the file itself says which cells are heads: "Line"."""
    if cell.span is None:
        return []
    return [head.text for column in range(table.header_columns) for head in table.column_heads(column)]


def _names_cell(asked: frozenset[str], row: frozenset[str], column: frozenset[str]) -> bool:
    """Return whether a question has all words of one head of a cell, and words of the other."""
    if not (row and column):
        return False
    return any(
        whole <= asked and not asked.isdisjoint(part - whole or part)
        for whole, part in ((row, column), (column, row))
    )


COMPUTED = "difference", "change", "ratio", "average", "percent", "than", "comparative", "total"
"""Triggers of questions for values that stand in no cell."""


def asks_to_compute(question: str, heads: frozenset[str]) -> bool:
    """Return whether a question asks for a value to be computed; a rate or a total may be named by a head."""
    analysed = analyse_question(question)
    named = {token.start for token in analysed.terms if token.term in heads}
    places = (place for name in COMPUTED for place in analysed.triggers.get(name, ()))
    return any(place not in named for place in places)


def _content_terms(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(
        token.term
        for text in texts
        for token in tokens(text)
        if STOP_WORDS.isdisjoint((token.term, text[token.start : token.end].lower()))
    )


def _complete_spans(
    text: str, spans: Sequence[ScoredSpan], kind: AnswerKind
) -> list[tuple[tuple[int, int], ScoredSpan]]:
    """Return the spans that may answer, best first, with the ranges of their whole values."""
    whole: dict[tuple[int, int], ScoredSpan] = {}
    for span in spans:
        start = skip_neighbour(text, span.start, span.end)
        place = complete_value(text, start, span.end, kind)
        is_number_of_thing = _NUMBERED.search(text, max(place[0] - 20, 0), place[0])
        is_section_number = _is_section_number(text, place, span.sentence)
        is_alone = span.sentence == place  # a page number, or a word without any context
        if not (is_number_of_thing or is_section_number or is_alone or _LABEL_END.match(text, place[1])):
            whole.setdefault(place, span)
    return list(whole.items())


def _is_section_number(text: str, place: tuple[int, int], sentence: tuple[int, int]) -> bool:
    """Return whether a range is the number that a title begins with, or that of a version."""
    match = _SECTION.match(text, place[0])
    if match is None or match.end() != place[1] or type_of_span(match[0]) is SpanType.DATE:
        return False
    return place[0] == sentence[0] or match[0].count(".") > 1


def _with_margins(
    page: int,
    pairs: Sequence[tuple[Reading, RankedAnswer | MatchedValue | ScoredSpan]],
    table: DocumentTable | None = None,
) -> Iterator[PageCandidate]:
    """Yield candidates of one source, best first, given as readings with what they were read from."""
    scores = [source.score for _, source in pairs]
    for place, (reading, source) in enumerate(pairs):
        others = scores[:place] + scores[place + 1 :]
        margin = scores[place] - max(others, default=scores[place])
        yield PageCandidate(reading=reading, page=page, source=source, margin=margin, table=table)


def _find_table(
    candidate: PageCandidate, places: Mapping[ScoredSpan, tuple[int, int]], tables: Sequence[DocumentTable]
) -> DocumentTable | None:
    """Return the table that the words of an answer stand in: `places` has those of spans."""
    if isinstance(candidate.source, ScoredSpan):
        start, end = places[candidate.source]
        for table in tables:
            own = (cell.span for cell in table.cells if cell.span and not cell.item)
            if any(first < end and start < last for first, last in own):
                return table
    for mark in candidate.reading.marks:
        x, y = mark.box.center
        for table in tables:
            if table.box is not None and table.box.covers(x, y):
                return table
    return None


def _is_on_page(source: RankedAnswer | MatchedValue | ScoredSpan) -> bool:
    """Return whether the first cell of an answer stands on the page whose table it is from.

    A table that goes on on other pages is read on each of them, and compared with itself as a whole.
    """
    if not isinstance(source, RankedAnswer):
        return True
    cells = (*source.candidate.cells, *source.candidate.operands)
    return not cells or not cells[0].item


def _read_table(item: str, table: DocumentTable, ranked: RankedAnswer) -> Reading:
    candidate = ranked.candidate
    cells = (*candidate.cells, *candidate.operands)
    roles = (
        (MarkRole.ANSWER, candidate.cells),
        (MarkRole.OPERAND, candidate.operands),
        (MarkRole.HEAD, candidate.heads),
    )
    marks = (
        Mark(role, cell.box)
        for role, marked in roles
        for cell in marked
        if cell.box is not None and not cell.item
    )
    return Reading(
        item=item,
        text=candidate.text,
        context=describe_rows(table, cells),
        arithmetic=candidate.arithmetic,
        frame=frame_rows(table, cells),
        marks=tuple(dict.fromkeys(marks)),
    )


def _read_value(item: str, value: LabelledValue) -> Reading:
    return Reading(
        item=item,
        text=value.text,
        context=_shorten(f"{value.text} · {value.label}"),
        frame=Box.around([mark.box for mark in value.marks]),
        marks=value.marks,
    )


def describe_rows(table: DocumentTable, cells: Sequence[Cell]) -> str:
    """Return the rows of some cells, as many as there is room for; each cell stands behind its head."""
    rows: list[str] = []
    for row in sorted({cell.row for cell in cells}):
        found = dict.fromkeys(filter(None, (table.cell_at(row, column) for column in range(table.width))))
        rows.append(" · ".join(_describe_cell(table, cell) for cell in found if cell.text))
    return _shorten("; ".join(rows))


def _describe_cell(table: DocumentTable, cell: Cell) -> str:
    if cell.column < table.header_columns or cell.row < table.header_rows:
        return cell.text
    heads = " ".join(head.text for head in table.column_heads(cell.column))
    return f"{heads}: {cell.text}" if heads else cell.text


def frame_rows(table: DocumentTable, cells: Sequence[Cell]) -> Box | None:
    """Return the rectangle around the rows of some cells."""
    rows = {cell.row for cell in cells}
    boxes = [cell.box for cell in table.cells if cell.row in rows and cell.box is not None and not cell.item]
    rect = around(Rect(*box.as_tuple()) for box in boxes)
    return rect.box() if rect else None


def read_span(page: PageText, span: tuple[int, int], sentence: tuple[int, int]) -> Reading:
    """Return a range of a page's text as an answer, with the sentence around it."""
    words, around_it = page.rect_of(*span), page.rect_of(*sentence)
    text = page.item.text
    return Reading(
        item=page.item.id,
        text=_SPACE.sub(" ", text[slice(*span)]).strip(),
        context=_shorten(_SPACE.sub(" ", text[slice(*sentence)]).strip()),
        frame=around_it.box() if around_it else None,
        marks=(Mark(MarkRole.ANSWER, words.box()),) if words else (),
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CONTEXT_CHARS else f"{text[: MAX_CONTEXT_CHARS - 1]}…"
