"""Features by which the candidates of all sources are compared with each other, and with having no answer.

The first row of a question stands for having no answer. What is the same for all its candidates, such as
words of the question that stand nowhere, is said there alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrag.reading.labelled_values import LabelSide, MatchedValue
from vrag.reading.line_scoring import ScoredPage
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.questions.answer_types import AnswerKind, find_focus
from vrag.reading.questions.query_analysis import QuestionAnalysis
from vrag.reading.spans.span_types import AGREES, SpanType, type_of_span
from vrag.reading.table_answers.candidates import RankedAnswer
from vrag.reading.table_answers.features import TABLE_FEATURES
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.views.text_lines import Rect
from vrag.text.folding import fold
from vrag.text.numerals import DIGITS, parse_digits
from vrag.text.terms import is_number, tokens

Floats: TypeAlias = NDArray[np.float32]

_MATCHED = (
    *("matched", "unmatched", "unmatched names", "unmatched numbers", "unmatched in table"),
    *("rows weight", "rows coverage", "rows exact", "rows phrase", "rows ALL", "rows MATCH"),
    *("column weight", "column coverage", "column phrase", "value in question", "grid log"),
)
"""Features of the best program of a table that say how much of the question it accounts for."""
_MATCHED_COLUMNS = [TABLE_FEATURES.index(name) for name in _MATCHED]
_TABLE = tuple(
    f"table_{name}"
    for name in ("candidate", "probability", "below", "margin", "lookup", "computed", "list", "caption")
) + tuple(f"table {name}" for name in _MATCHED)
_VALUE = tuple(
    f"value_{name}" for name in ("candidate", "cover", "precision", "margin", "size", "gap", *LabelSide)
)
_SPAN = tuple(f"span_{name}" for name in ("candidate", "probability", "below", "margin", "share", "in_table"))
_KINDS_ASKED = (
    AnswerKind.COLOR,
    AnswerKind.COMPUTE,
    AnswerKind.COUNT,
    AnswerKind.NUMBER,
    AnswerKind.YES_NO,
    AnswerKind.LIST,
    AnswerKind.REASON,
    AnswerKind.PERSON,
)
_NUMERIC = frozenset(
    {
        AnswerKind.COMPUTE,
        AnswerKind.COUNT,
        AnswerKind.PERCENT,
        AnswerKind.MONEY,
        AnswerKind.DURATION,
        AnswerKind.TIME,
        AnswerKind.YEAR,
        AnswerKind.DATE,
        AnswerKind.NUMBER,
    }
)
_NO_ANSWER = (
    "none",
    "none_missing_names",
    "none_missing_numbers",
    "none_missing_words",
    "none_not_pointed",
    "none_support",
    "none_support_first",
    "none_pages",
    *(f"none_asks_{kind}" for kind in _KINDS_ASKED),
)
ANSWER_FEATURES: tuple[str, ...] = (
    *_NO_ANSWER,
    *_TABLE,
    *_VALUE,
    *_SPAN,
    *("support", "support_page", "support_below_best", "near_names", "near_numbers", "near_words"),
    *("rank", "first", "pointed", "missing_names", "missing_numbers", "missing_words"),
    *("agrees", "disagrees", "repeats_question", "length", "words", "votes", "table_yes_no"),
    *("percent_read", "percent_in_head", "percent_missing"),
)
"""Names of the columns."""
_NUMBER = re.compile(rf"(?P<minus>[-−])?(?P<digits>{DIGITS})")
_AMOUNTS = frozenset({SpanType.NUMBER, SpanType.QUANTITY, SpanType.MONEY, SpanType.PERCENT})
_LARGEST = 8.0
"""Bound of log odds."""
_LARGEST_MARGIN = 4.0
"""Bound of margins: on a page with one candidate, the next best tells nothing."""
_SPACE = re.compile(r"\s+")
_DIGIT = re.compile(r"\d")


def fold_answer(text: str) -> str:
    """Return an answer without differences of letters that are folded, spaces and final stops.

    >>> fold_answer("Six  Knots.")
    'six knots'
    """
    folded = _SPACE.sub(" ", fold(text)).strip()
    return folded.rstrip(".。")


def answer_key(text: str) -> str:
    """Return what is equal for answers that say the same: a number without its unit, or the folded text.

    >>> answer_key("1,150 t") == answer_key("1150"), answer_key("3 May 2027")
    (True, '3 may 2027')
    """
    numbers = list(_NUMBER.finditer(text))
    numeral = parse_digits(numbers[0]["digits"]) if len(numbers) == 1 else None
    if numeral and type_of_span(text) in _AMOUNTS:
        return ("-" if numbers[0]["minus"] else "") + numeral.digits
    return fold_answer(text)


def compute_answer_features(
    question: QuestionAnalysis, pages: Sequence[ScoredPage], candidates: Sequence[PageCandidate]
) -> Floats:
    """Return a row for having no answer, then one for each candidate; shape (1 + n, `ANSWER_FEATURES`)."""
    rows = np.zeros((1 + len(candidates), len(ANSWER_FEATURES)), np.float32)
    rows[0, : len(_NO_ANSWER)] = _describe_absence(question, pages)
    best = max((float(page.support.max(initial=0)) for page in pages), default=0.0)
    votes = Counter(answer_key(candidate.reading.text) for candidate in candidates)
    tops: dict[type, float] = {}
    for candidate in candidates:
        kind = type(candidate.source)
        tops[kind] = max(tops.get(kind, -math.inf), candidate.source.score)
    for number, candidate in enumerate(candidates, start=1):
        below = tops[type(candidate.source)] - candidate.source.score
        count = votes[answer_key(candidate.reading.text)]
        rows[number, len(_NO_ANSWER) :] = [
            *_describe_source(candidate, below),
            *_describe_place(question, pages[candidate.page], candidate, best),
            *_describe_text(question, candidate, count),
        ]
    return rows


def _describe_absence(question: QuestionAnalysis, pages: Sequence[ScoredPage]) -> list[float]:
    kind = find_focus(question.core).kind
    missing = _missing(question, lambda term: any(page.holds(term) for page in pages))
    supports = [float(page.support.max(initial=0)) for page in pages] or [0.0]
    return [
        1.0,
        *missing,
        float(bool(question.pointers) and not any(page.pointed for page in pages)),
        max(supports),
        supports[0],
        math.log1p(len(pages)),
        *(float(kind is asked) for asked in _KINDS_ASKED),
    ]


def _describe_source(candidate: PageCandidate, below: float) -> list[float]:
    """Return what the reader of the source found: columns of tables, of labelled values, and of spans.

    `below` is the distance to the best score of that kind of source on all pages: scores of one question
    only can be compared.
    """
    source = candidate.source
    table, value, span = ([0.0] * len(names) for names in (_TABLE, _VALUE, _SPAN))
    in_table = float(candidate.table is not None)
    margin = min(candidate.margin, _LARGEST_MARGIN)
    if isinstance(source, RankedAnswer):
        operation = source.candidate.operation
        is_read = operation in (TableOperation.LOOKUP, TableOperation.SPAN, TableOperation.NUMBER)
        caption = bool(candidate.table and candidate.table.caption)
        facts = [is_read, bool(source.candidate.arithmetic), len(source.candidate.values) > 1, caption]
        matched = source.candidate.features[_MATCHED_COLUMNS].tolist()
        table = [1.0, _log_odds(source.probability), below, margin, *map(float, facts), *matched]
    elif isinstance(source, MatchedValue):
        found = source.value
        sides = [float(found.side is side) for side in LabelSide]
        measures = [source.cover, source.precision, margin, math.log(max(found.size, 0.1)), found.gap]
        value = [1.0, *measures, *sides]
    else:
        share = math.log(max(source.share, 1e-4))
        span = [1.0, _log_odds(source.probability), below, margin, share, in_table]
    return [*table, *value, *span]


def _log_odds(probability: float) -> float:
    odds = max(probability, 1e-6) / max(1 - probability, 1e-6)
    return min(max(math.log(odds), -_LARGEST), _LARGEST)


def _describe_place(
    question: QuestionAnalysis, page: ScoredPage, candidate: PageCandidate, best: float
) -> list[float]:
    """Return how much of the question stands at and around the candidate."""
    frame = candidate.reading.frame
    whole = float(page.support.max(initial=0))
    support = whole
    if frame is not None:
        support = float(page.support_at(np.asarray([Rect(*frame.as_tuple())]))[0])
    around = {token.term for token in tokens(_surroundings(candidate, page))}
    near = _missing(question, lambda term: term in around)
    standing = [math.log1p(candidate.page), float(candidate.page == 0), float(page.pointed)]
    return [support, whole, best - support, *near, *standing, *_missing(question, page.holds)]


def _surroundings(candidate: PageCandidate, page: ScoredPage) -> str:
    caption = candidate.table.caption if candidate.table else ""
    item = page.page.item
    return f"{candidate.reading.context} {caption} {item.heading} {item.document_name}"


def _missing(question: QuestionAnalysis, holds: Callable[[str], bool]) -> tuple[float, float, float]:
    """Return the shares of the question's names, numbers and other words that are not held."""
    kinds: dict[str, list[bool]] = {"names": [], "numbers": [], "words": []}
    for term in question.terms:
        kind = "numbers" if is_number(term.text) else "names" if term.key else "words"
        kinds[kind].append(not holds(term.text))
    names, numbers, words = (sum(absent) / max(len(absent), 1) for absent in kinds.values())
    return names, numbers, words


def _describe_text(question: QuestionAnalysis, candidate: PageCandidate, votes: int) -> list[float]:
    """Return what the words of the answer tell."""
    text = candidate.reading.text
    kind = find_focus(question.core).kind
    wanted = AGREES.get(kind)
    agrees = wanted is not None and type_of_span(text) in wanted
    is_number_asked = kind in _NUMERIC
    disagrees = not agrees and (not _DIGIT.search(text) if is_number_asked else wanted is not None)
    asked = {term.text for term in question.terms}
    own = [token.term for token in tokens(text)]
    repeated = sum(term in asked for term in own) / max(len(own), 1)
    is_verdict = text.casefold() in {"yes", "no", "是", "否"}
    return [
        float(agrees),
        float(disagrees),
        repeated,
        math.log1p(len(text)),
        math.log1p(len(own)),
        math.log(votes),
        float(is_verdict and kind is not AnswerKind.YES_NO),
        *_describe_percentage(kind, candidate),
    ]


_PERCENT = re.compile(r"%|％|\bper ?cent", re.IGNORECASE)


def _describe_percentage(kind: AnswerKind, candidate: PageCandidate) -> list[float]:
    """Return whether a percentage that is asked for is one, is one by the heads around it, or is none."""
    if kind is not AnswerKind.PERCENT:
        return [0.0] * 3
    inside = _PERCENT.search(candidate.reading.text) is not None
    caption = candidate.table.caption if candidate.table else ""
    around = not inside and _PERCENT.search(f"{candidate.reading.context} {caption}") is not None
    return [float(inside), float(around), float(not inside and not around)]
