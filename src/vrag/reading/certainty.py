"""The answers that are given without a model: those of kinds that are right at least three times in four.

A candidate is certain by its probability and by what the question asks for: an answer of another kind, from
another page than the one named, or to a question that no short answer fits is none. The thresholds are those
of the curves in docs/reading.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vrag.reading.answer import Reading
from vrag.reading.answer_checks import repeats_number
from vrag.reading.page_candidates import PageCandidate, asks_to_compute, split_title
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.overview import fits_no_answer
from vrag.reading.questions.query_analysis import parse, without_form
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.spans.span_types import AGREES, VALUE_TYPES, SpanType, type_of_span
from vrag.reading.table_answers.candidates import RankedAnswer, TableCandidate
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.values import find_day
from vrag.reading.tables.table import Cell, DocumentTable
from vrag.reading.verification.text_values import find_values
from vrag.text.folding import fold
from vrag.text.terms import STOP_WORDS, tokens
from vrag.types import Item


class CandidateKind(StrEnum):
    """Where a candidate is from, which says how far its probability can be trusted."""

    CELL = "cell"
    """A cell that the question names."""
    CHART = "chart"
    """A number of a chart whose label and title the question names."""
    COMPUTED = "computed"
    """A number that follows from cells."""
    VALUE = "value"
    """An amount or a date in running text, where the question asks for one."""
    SPAN = "span"
    """Other words of running text."""
    OTHER = "other"
    """A label beside a value, several cells, or a cell that the question does not name."""


THRESHOLDS: Mapping[CandidateKind, float] = {
    CandidateKind.CELL: 0.25,
    CandidateKind.CHART: 0.25,
    CandidateKind.COMPUTED: 0.5,
    CandidateKind.VALUE: 0.39,
    CandidateKind.SPAN: 0.7,
}
"""The probability from which candidates are certain; others never are."""
WHOLLY_NAMED = 0.12
"""The same for a cell on a page that has all words of the question."""
MIN_NAMED = 2 / 3
"""Share of the words of a question that the heads and the caption of a certain cell have."""
_FRAME = frozenset(
    token.term
    for token in tokens(
        "mean represent correspond indicate stand signify denote have give state achieve score"
    )
)
"""Verbs of questions that say nothing of what is asked for."""
_PREFIXED_YEAR = re.compile(r"^(?:fy|cy)((?:19|20)\d\d)$")
_CHART_TERMS = frozenset(
    token.term
    for token in tokens("chart graph figure bar column line pie slice percent percentage share value")
)
"""Words of questions about a chart that its labels need not have."""
_DERIVED = frozenset(token.term for token in tokens("growth change increase decrease difference density"))
"""Words of heads of what is derived from a number, such as population growth, and not the number itself."""
AROUND = 40
"""Characters before and behind an answer in which the rest of a range is looked for."""
MIN_NAME_CHARS = 3
"""Letters of a word that names a document."""
COMMON_WEIGHT = 0.5
"""Weight of a named word of the document's subject beside other words of a question."""
MIN_PAGES, COMMON = 4, 0.6
"""Pages that are read, and the share of them, from which a word on them is one of the document's subject."""
_SEVERAL = re.compile(
    r"""\b(?:both | respectively | each\ of | list\ (?:all|the|them|down|no) | list\ format | as\ a\ list
    | what\ are | which\ (?:of\ the\ )?\w+s\ (?:are|were|do|have|has|did|can|must|should))\b
    | \band\s+\w+\s*\?\s*$ | 哪些 | 分别""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of questions that several things answer."""
_LOOKED_AT = re.compile(
    r"""\b(?:photo(?:graph)?s? | pictures? | images? | icons? | logos? | screenshots? | drawn | map | font
    | shape[sd]? | how\ many\ (?:[\w-]+\ ){0,3}?(?:pages? | tables? | figures? | charts? | chapters?
    | sections? | slides? | quizzes | examples? | types? | kinds?))\b | 照片 | 图片""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of questions that a look at the pages answers, or counting what stands on them."""
_NUMBER_ASKED = re.compile(
    r"""\b(?:number | no\. | percent | share | rate | ratio | score | year | amount | sum | total | how | size
    | level | age | code | id | price | cost | fee | fare | value | rank | version | date | when
    | time | degree)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words with which "what" and "which" ask for something that has a number."""
_SHARE_ASKED = re.compile(
    r"""\b(?:percent\w* | share | rate | ratio | proportion | fraction | margin | growth | score | accuracy
    | how\ (?:much|large|high)
    | chang\w+ | rise | rose | fall(?!\s(?:of\s)?\d) | fell | grow\w* | (?:in|de)crease\w*)\b
    | % | 百分 | 占比""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words of questions that a percentage answers."""
_AMOUNT_ASKED = re.compile(r"\b(?:total|amount|sum)\b", re.IGNORECASE)
"""Words of questions that no percentage answers, unless they ask for a share too."""
_MEASURE = re.compile(
    r"\bhow\s+(?:much|many|[a-z]+(?=\s+(?:is|are|was|were|do|does|did|has|have)\b))", re.IGNORECASE
)
"""The words that ask for a measure, as in "How long is": its unit says the same in an answer."""
_CAPITAL = re.compile(r"(?<=[\w,’'\")-] )(?!(?:FY|CY)\d)[A-Z][\w’'-]+")
"""A name in a question or a sentence: a word with a capital letter that does not begin it; FY2023 is none."""
_COMPARES = re.compile(
    r"\b(?:more|less|fewer|higher|lower|larger|smaller|greater|longer|shorter|older)\b.*?\bthan\b",
    re.IGNORECASE | re.DOTALL,
)
"""Words of a comparison of two things."""
_PRICE_ASKED = re.compile(r"\b(?:price|cost|fee|salary|wage|rent|fare)s?\b", re.IGNORECASE)
"""Words of questions that an amount of money answers."""
_COUNTED = re.compile(r"\bhow many (?:[\w-]+ ){0,2}?(\w+?)s\b", re.IGNORECASE)
"""What a question asks to count, in the singular."""
_NEVER = frozenset(
    {AnswerKind.REASON, AnswerKind.MANNER, AnswerKind.LIST, AnswerKind.COLOR, AnswerKind.YES_NO}
)
"""Kinds of questions that a short answer of running text seldom answers."""


@dataclass(frozen=True, slots=True)
class CertaintyCheck:
    """The check whether candidates for one question are certain."""

    question: str
    hidden: frozenset[str]
    """Terms that the pages have in hidden text alone."""
    subject: frozenset[str]
    """Terms that stand on most pages: they need not stand in the heads of a cell."""
    names: frozenset[str]
    """Terms of the question that name the document: they tell no row from another."""
    is_pointing: bool
    """True if the question names a page, a figure or a table."""
    texts: Mapping[str, str]
    """The texts of the items by their ids."""

    @classmethod
    def of(cls, question: str, items: Sequence[Item]) -> CertaintyCheck:
        """Prepare the check for a question that is read from some items."""
        pointers = parse(question).pointers
        names = find_name_terms(question, items)
        texts = {item.id: item.text for item in items}
        return cls(
            question, find_hidden_terms(items), find_subject_terms(items), names, bool(pointers), texts
        )

    def is_certain(self, candidate: PageCandidate, probability: float) -> bool:
        """Return whether a candidate is of a kind of answers that are right three times in four.

        Of numbers that the question itself has none is: such candidates stay, since the probabilities of
        others were learnt beside them.
        """
        reading, caption = candidate.reading, candidate.table.caption if candidate.table else ""
        source = self.find_source(candidate)
        return (
            probability >= self._find_threshold(source, candidate.absent)
            and not fits_no_answer(self.question)
            and not (repeats_number(reading.text, self.question) and not reading.arithmetic)
            and (candidate.is_pointed or not self.is_pointing)
            and not asks_for_hidden(self.question, reading, self.hidden, caption)
        )

    def _find_threshold(self, source: CandidateKind, absent: frozenset[str]) -> float:
        """Return the probability from which candidates of a source are certain."""
        if source is CandidateKind.CELL and self._asked_terms().isdisjoint(absent):
            return WHOLLY_NAMED
        return THRESHOLDS.get(source, math.inf)

    def find_source(self, candidate: PageCandidate) -> CandidateKind:
        """Return the source of a candidate; `OTHER` where it does not fit the question."""
        source, table = candidate.source, candidate.table
        if isinstance(source, ScoredSpan):
            reading = candidate.reading
            around = self.texts.get(reading.item, "")[max(source.start - AROUND, 0) : source.end + AROUND]
            is_computed = _COMPARES.search(self.question) and not _COMPARES.search(reading.context)
            if is_computed or self._is_of_another(reading) or is_cut(self.question, reading.text, around):
                return CandidateKind.OTHER
            return self._find_span_source(reading.text, candidate.absent)
        if not isinstance(source, RankedAnswer) or table is None:
            return CandidateKind.OTHER
        found = source.candidate
        if found.operation is TableOperation.LOOKUP and self._is_named(found, table):
            return CandidateKind.CHART if table.chart else CandidateKind.CELL
        is_single = bool(found.arithmetic) and _SEVERAL.search(self.question) is None
        if is_single and self._names_operands(found, table):
            return CandidateKind.COMPUTED
        return CandidateKind.OTHER

    def _find_span_source(self, text: str, absent: frozenset[str]) -> CandidateKind:
        """Return the source of words of running text: a value if they are of the kind that is asked for.

        The page of a value has most words of the question.
        """
        kind, found = find_focus(self.question).kind, type_of_span(text)
        if kind in _NEVER or _SEVERAL.search(self.question) or _LOOKED_AT.search(self.question):
            return CandidateKind.SPAN
        if found is SpanType.PERCENT and not _SHARE_ASKED.search(self.question):
            return CandidateKind.OTHER if _AMOUNT_ASKED.search(self.question) else CandidateKind.SPAN
        asked = content_terms([_MEASURE.sub(" ", without_form(self.question))]) - _FRAME
        if len(asked - absent) < MIN_NAMED * len(asked):
            return CandidateKind.SPAN
        if kind is AnswerKind.DATE and found is not SpanType.YEAR and find_day(text) is None:
            return CandidateKind.SPAN
        wanted = AGREES.get(kind)
        is_asked = _NUMBER_ASKED.search(self.question) is not None if wanted is None else found in wanted
        return CandidateKind.VALUE if is_asked and found in VALUE_TYPES else CandidateKind.SPAN

    def _is_named(self, found: TableCandidate, table: DocumentTable) -> bool:
        """Return whether a question names the one cell of a candidate.

        It has all words of the head of its row, and some of its column, or the other way round. Heads and
        caption, and what the heads of rows are called in a table that the file has as such, have most words
        of the question and all its numbers, and it asks for nothing that has to be computed.
        """
        if len(found.cells) != 1:
            return False
        cell = found.cells[0]
        if cell.row < table.header_rows or cell.column < table.header_columns:
            return False
        asked = self._asked_terms()
        row = content_terms(_find_row_heads(table, cell))
        title, heads = split_title(table, cell.column)
        column = content_terms(heads)
        around = row | column | content_terms([table.caption, *title, *_names_of_heads(table, cell)])
        stated = _CHART_TERMS if table.chart else frozenset[str]()
        measured = stated if "%" in cell.text else frozenset[str]()
        return (
            _names_cell(asked, row, column)
            and not (row & asked) <= self.names
            and self._accounts_for(asked, around | stated)
            and (table.chart != "" or _DERIVED.isdisjoint(around - asked))
            and not self._find_missing_names(around)
            and not _find_rivals(asked, row, column, cell, table)
            and not asks_to_compute(self.question, row | column | measured)
        )

    def _asked_terms(self) -> frozenset[str]:
        """Return the content words of the question; FY2023 is 2023."""
        asked = content_terms([without_form(self.question)]) - _FRAME
        return frozenset(_PREFIXED_YEAR.sub(r"\1", term) for term in asked)

    def _names_operands(self, found: TableCandidate, table: DocumentTable) -> bool:
        """Return whether heads and caption account for a question that asks for a computation in words."""
        asked = self._asked_terms()
        cells = (*found.cells, *found.operands)
        heads = [head.text for cell in cells for head in table.row_heads(cell.row)]
        heads += [head.text for cell in cells for head in table.column_heads(cell.column)]
        heads += [cell.text for cell in cells]
        around = content_terms([table.caption, *heads])
        return asks_to_compute(self.question, frozenset()) and self._accounts_for(asked, around)

    def _find_missing_names(self, around: frozenset[str]) -> frozenset[str]:
        """Return the names of the question, but those of its document, that are not among some words."""
        text = without_form(self.question)
        named = frozenset[str]() if text.isupper() else content_terms(_CAPITAL.findall(text))
        return named - self.subject - self.names - around

    def _is_of_another(self, reading: Reading) -> bool:
        """Return whether the sentence of an answer has another name or number than the question in its place.

        So has a sentence with no word of the question, and a price that counts what the question names.
        """
        question, sentence = without_form(self.question), reading.context
        asked, around = content_terms([question]), content_terms([sentence])
        words = frozenset(term for term in asked if not term[0].isdigit())
        if words.isdisjoint(around) and find_focus(question).kind is not AnswerKind.DATE:
            return bool(words)
        if _PRICE_ASKED.search(question):
            counted = {term for term in content_terms([reading.text]) if not term[0].isdigit()}
            if counted and counted <= asked:
                return True
        others = content_terms(_CAPITAL.findall(sentence)) - asked
        is_named_otherwise = (
            bool(self._find_missing_names(around)) and not others <= self.subject | self.names
        )
        return is_named_otherwise or has_other_number(question, sentence, reading.text)

    def _accounts_for(self, asked: frozenset[str], around: frozenset[str]) -> bool:
        """Return whether words around cells are most words of a question, and all its numbers."""
        named, missing = asked & around, asked - around
        common = len((named & self.subject) - self.names)
        telling = len(named - self.subject - self.names) + COMMON_WEIGHT * common
        untold = len(missing - self.subject - self.names)
        is_number_missing = any(term[0].isdigit() for term in missing)
        return telling >= MIN_NAMED * (telling + untold) and not is_number_missing


def is_cut(question: str, text: str, around: str) -> bool:
    """Return whether an answer is half of a range in the text around it, or the number of one thing.

    >>> is_cut("What is the salary range?", "32,534", "It is 32,534 to 42,290 a year.")
    True
    >>> is_cut("How many levels are there?", "1", "P1 stands for a level 1 contributor.")
    True
    """
    value = rf"(?<![\w.,]){re.escape(text)}(?![\w,]|\.\d)"
    ranged = rf"{value}\s?(?:[-–—]|to\b)\s?[$€£]?\d|\d\s?%?\s?(?:[–—]|-(?=\s)|to\s)\s?[$€£]?{value}"
    counted = _COUNTED.search(question)
    numbered = rf"|\b{re.escape(counted[1])}s?[ -]{value}" if counted and text.isdigit() else ""
    return re.search(ranged + numbered, around, re.IGNORECASE) is not None


def has_other_number(question: str, sentence: str, answer: str) -> bool:
    """Return whether a sentence has another amount of money or share in place of one of the question.

    >>> has_other_number("How much was raised at a cap of $5m?", "$168 was raised at a cap of $6m.", "$168")
    True
    """
    measured = [value for value in find_values(question) if value.units and value.amount is not None]
    stated = [value for value in find_values(sentence) if value.amount is not None]
    given = {value.amount for value in find_values(answer)}
    return any(
        value.amount not in {other.amount for other in stated}
        and any(other.units == value.units and other.amount not in given for other in stated)
        for value in measured
    )


def find_subject_terms(items: Sequence[Item]) -> frozenset[str]:
    """Return the terms that stand on most of some items."""
    if len(items) < MIN_PAGES:
        return frozenset()
    counts = Counter(term for item in items for term in content_terms([item.text]))
    return frozenset(term for term, count in counts.items() if count >= COMMON * len(items))


def find_name_terms(question: str, items: Iterable[Item]) -> frozenset[str]:
    """Return the words of a question that are in the file name of an item: Best Buy in `BESTBUY_10K.pdf`."""
    names = {re.sub(r"\W|_", "", fold(item.document_name)) for item in items}
    return frozenset(
        term
        for term in content_terms([question])
        if term.isalpha() and len(term) >= MIN_NAME_CHARS and any(term in name for name in names)
    )


def find_hidden_terms(items: Iterable[Item]) -> frozenset[str]:
    """Return the terms of the hidden text of items that they do not show too."""
    terms: set[str] = set()
    for item in items:
        if item.facts.hidden_text:
            terms |= content_terms([item.facts.hidden_text]) - content_terms([item.text])
    return frozenset(terms)


def asks_for_hidden(question: str, reading: Reading, hidden: frozenset[str], caption: str = "") -> bool:
    """Return whether a question has words that stand in hidden text alone, and not around an answer.

    A sheet with a hidden column "Purchase price" shows "Price": that is not what is asked for.
    """
    if not hidden:
        return False
    beside = content_terms([reading.text, reading.context, caption])
    return not hidden.isdisjoint(content_terms([question]) - beside)


def _find_row_heads(table: DocumentTable, cell: Cell) -> list[str]:
    """Return the heads of a cell's row: its first cell where no column has heads, as in a list of codes."""
    heads = [head.text for head in table.row_heads(cell.row)]
    first = table.cell_at(cell.row, 0)
    return heads if table.header_columns or first is None or first == cell else [first.text]


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


def _find_rivals(
    asked: frozenset[str], row: frozenset[str], column: frozenset[str], cell: Cell, table: DocumentTable
) -> list[Cell]:
    """Return the other cells of a row whose columns the question names as well as that of a cell.

    They have the words of the question that its column has, hardly more others, and a value of the same type.
    """
    named, others = asked & column, len(column - asked)
    return [
        rival
        for rival in table.cells
        if rival.row == cell.row
        and rival.column >= table.header_columns
        and rival.text != cell.text
        and type_of_span(rival.text) is type_of_span(cell.text)
        and named <= (heads := content_terms(split_title(table, rival.column)[1]) - row)
        and len(heads - asked) <= others + (others > 0)
        and named
    ]


def content_terms(texts: Iterable[str]) -> frozenset[str]:
    """Return the terms of some texts that are no stop words."""
    return frozenset(
        token.term
        for text in texts
        for token in tokens(text)
        if STOP_WORDS.isdisjoint((token.term, text[token.start : token.end].lower()))
    )
