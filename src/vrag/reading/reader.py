"""Short answers from pages, without a model: the best of all candidates of tables and of running text.

`read` ranks the candidates of all pages by the estimated probability that they are right. `find_answer` finds
the place of an answer that something else has given, such as a model, by the same ranking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrag.errors import VragError
from vrag.reading.answer import FULL_READING, Reading, ReadingOptions, ReadPage
from vrag.reading.answer_features import (
    ANSWER_FEATURES,
    Floats,
    answer_key,
    compute_answer_features,
    fold_answer,
)
from vrag.reading.certainty import CertaintyCheck, asks_for_hidden, find_hidden_terms
from vrag.reading.line_scoring import FITTING, RANK, locate
from vrag.reading.page_candidates import PageCandidate, list_candidates
from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.field_answers import find_field_answer
from vrag.reading.places.named_cells import find_named_cell, find_named_ratio
from vrag.reading.places.phrases import is_part_of_phrase, is_same_phrase
from vrag.reading.places.written_answers import find_written_answer, mark_words
from vrag.reading.questions.answer_form import AnswerForm, measure_answer, read_form, write_answer
from vrag.reading.questions.descriptions import Description, find_description
from vrag.reading.questions.query_analysis import parse
from vrag.reading.scorer import CandidateScorer
from vrag.reading.spans.reader import load_span_model
from vrag.reading.spans.span_types import VALUE_TYPES, type_of_span
from vrag.reading.table_answers.candidates import RankedAnswer
from vrag.reading.table_answers.ratios import names_other_company
from vrag.reading.tables.table import DocumentTable
from vrag.reading.text_reader import SpanReader, TextReader
from vrag.reading.views.neighbour_pages import read_tables
from vrag.text.numerals import UNKNOWN_STYLE

WEIGHTS = Path(__file__).parent / "weights" / "answer.npz"
"""The trained scorer of the package."""
THRESHOLD = 0.1
"""The probability from which an answer is given: two of five are right on held-out training questions."""
LIKELY_NUMBER = 0.05
"""The probability from which a number of one or two digits is marked as an answer."""
DOUBTFUL = 0.02
"""The probability below which a place with most words of the question is right more often."""
_SMALL_NUMBER = re.compile(r"\d{1,2}")
MAX_NAMES = 2
"""Names of a described thing that are tried, and answers for each that are kept."""
LINE_THRESHOLD = 0.3
"""What takes the place of `THRESHOLD` where candidates are compared by `score_by_lines`."""
ABSENT_FACTOR = 0.3
"""Factor on what `score_by_lines` gives for each kind of thing that the question names and no page holds."""


@lru_cache(maxsize=1)
def load_answer_scorer() -> CandidateScorer:
    """Load the scorer of the package. Raises `ValueError` if it was trained for other features."""
    scorer = CandidateScorer.load(WEIGHTS)
    if scorer.names != ANSWER_FEATURES:
        raise ValueError(f"{WEIGHTS.name} was trained for other features")
    return scorer


@lru_cache(maxsize=1)
def load_text_reader() -> TextReader:
    """Return the reader of running text of the package."""
    return SpanReader(load_span_model())


def read(
    question: str,
    pages: Sequence[ReadPage],
    *,
    text_reader: TextReader | None = None,
    options: ReadingOptions = FULL_READING,
) -> list[Reading]:
    """Return the candidates for the answer on some pages, given best first; the likeliest comes first.

    A page on which the reader fails is left out, see `page_faults`. `text_reader` reads the running text;
    None for the reader of the package.
    """

    def read_pages(chosen: Sequence[ReadPage]) -> list[Reading]:
        return _read_pages(question, chosen, text_reader or load_text_reader(), options)

    try:
        return read_pages(pages)
    except (VragError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - found again, and told, on the page that it comes from
        first = error
    alone = [
        read_part(UnreadPart.ANSWERS, page.item, partial(read_pages, [page]), None) is not None
        for page in pages
    ]
    readable = [page for page, is_readable in zip(pages, alone, strict=True) if is_readable]
    if len(readable) == len(pages):  # no page is to blame alone
        raise first
    return read_pages(readable)


def _read_pages(
    question: str,
    pages: Sequence[ReadPage],
    text_reader: TextReader,
    options: ReadingOptions,
) -> list[Reading]:
    texts = [read_page_text(page.item) for page in pages]
    placed = [
        (text, read_tables(page) if options.tables else ()) for page, text in zip(pages, texts, strict=True)
    ]
    items = [page.item for page in pages]

    def rank(asked: str) -> list[Reading]:
        candidates, features = weigh_candidates(asked, placed, text_reader, options=options)
        scorer = load_answer_scorer() if options.learnt else None
        form, check = read_form(asked), CertaintyCheck.of(asked, items)
        return [
            _write_reading(candidates[number], probability, form, check)
            for number, probability in rank_different_answers(candidates, features, scorer)
        ]

    description = find_description(question) if options.operations else None
    readings = rank(question) if description is None else _read_in_steps(description, rank)
    stated = find_field_answer(question, items) if options.values else None
    if stated is None and options.tables:
        named = list(zip(items, (tables for _, tables in placed), strict=True))
        stated = find_named_cell(question, named)
        if stated is None and options.operations:
            stated = find_named_ratio(question, named)
    other = {item.id for item in items if names_other_company(question, item.document_name, item.text)}
    readings = [replace(found, is_certain=False) if found.item in other else found for found in readings]
    if stated is None or asks_for_hidden(question, stated, find_hidden_terms(items)):
        return readings
    return _with_stated(stated, readings)


def _with_stated(stated: Reading, readings: Sequence[Reading]) -> list[Reading]:
    """Return readings with one that the data of a file gives, which takes the place of the same answer."""
    others = [reading for reading in readings if fold_answer(reading.text) != fold_answer(stated.text)]
    return sorted((stated, *others), key=lambda reading: -reading.probability)


def _read_in_steps(description: Description, rank: Callable[[str], list[Reading]]) -> list[Reading]:
    """Rank answers to a question about a described thing, read at once and for its likeliest names.

    An answer for a name is as likely as both steps together. The thing itself is no answer; what its own row
    or sentence says takes no second step.
    """
    names = [
        named
        for named in rank(description.inner)[:MAX_NAMES]
        if named.probability >= THRESHOLD and type_of_span(named.text) not in VALUE_TYPES
    ]
    readings = rank(description.question)
    for named in names:
        derivation = f"{description.text}: {named.text}"
        readings += (
            replace(
                found,
                arithmetic=" · ".join(filter(None, (derivation, found.arithmetic))),
                probability=named.probability * found.probability,
                is_certain=False,
            )
            for found in rank(description.with_name(named.text))[:MAX_NAMES]
            if (found.item, found.frame) != (named.item, named.frame)
        )
    form = read_form(description.question)
    things = {fold_answer(write_answer(named.text, form)) for named in names}
    answers = (reading for reading in readings if fold_answer(reading.text) not in things)
    return sorted(answers, key=lambda reading: -reading.probability)


def _write_reading(
    candidate: PageCandidate, probability: float, form: AnswerForm, check: CertaintyCheck
) -> Reading:
    """Return the reading of a candidate with its probability, its answer in the form that is wanted."""
    reading, source = candidate.reading, candidate.source
    if isinstance(source, RankedAnswer):
        found, style = source.candidate, candidate.table.number_style if candidate.table else UNKNOWN_STYLE
        text = write_answer(reading.text, form, number=found.number, scale=found.scale)
        measured = measure_answer(text, form, found.measure, number=found.number, style=style)
        arithmetic = " · ".join(filter(None, (reading.arithmetic, measured.arithmetic)))
        reading = replace(reading, text=measured.text, measure=measured.measure, arithmetic=arithmetic)
    else:
        reading = replace(reading, text=write_answer(reading.text, form))
    certain = check.is_certain(candidate, probability)
    return replace(reading, probability=probability, is_certain=certain)


def rank_different_answers(
    candidates: Sequence[PageCandidate], features: Floats, scorer: CandidateScorer | None
) -> list[tuple[int, float]]:
    """Return the number of the best candidate of each different answer, with the answer's probability.

    The likeliest answer comes first. An answer is as likely as all candidates that give it together. Without
    a scorer it has the score of the best of them, which is no probability: see `score_by_lines`.
    """
    groups: dict[str, list[int]] = {}
    for number, candidate in enumerate(candidates):
        groups.setdefault(answer_key(candidate.reading.text), []).append(number)
    shares = _share_probability(features, scorer) if scorer else score_by_lines(features)
    found: list[tuple[int, float]] = []
    for members in groups.values():
        best = max(members, key=lambda number: shares[number])
        found.append((best, float(shares[members].sum() if scorer else shares[best])))
    return sorted(found, key=lambda answer: -answer[1])


def _share_probability(features: Floats, scorer: CandidateScorer) -> NDArray[np.float64]:
    """Return the probability of each candidate to be right; what is left is that of having no answer."""
    scores = scorer.scores(features).astype(np.float64)
    shares = np.exp(scores - scores.max())
    return shares[1:] / shares.sum()


def score_by_lines(features: Floats) -> NDArray[np.float64]:
    """Return how much of the question stands around each candidate, 0 to 1, as before anything was learnt.

    Candidates of the kind asked for get a little more, those of later pages less. All get less if a name or
    number of the question, or what it points at, is on no page. Equal ones are in the order of their source.
    """
    column = {name: features[:, number] for number, name in enumerate(ANSWER_FEATURES)}
    pages_before = np.round(np.expm1(column["rank"][1:]))
    scores = column["support"][1:] + FITTING * column["agrees"][1:] - RANK * pages_before
    is_named_missing = max(column["none_missing_names"][0], column["none_missing_numbers"][0]) > 0
    absent = int(is_named_missing) + int(column["none_not_pointed"][0] > 0)
    return np.clip(scores * ABSENT_FACTOR**absent, 0, 1).astype(np.float64)


def weigh_candidates(
    question: str,
    pages: Sequence[tuple[PageText, Sequence[DocumentTable]]],
    text_reader: TextReader,
    table_scorer: CandidateScorer | None = None,
    options: ReadingOptions = FULL_READING,
) -> tuple[list[PageCandidate], Floats]:
    """Return the candidates of some pages, and their features as `compute_answer_features` gives them.

    `table_scorer` ranks answers of tables; None for that of the package.
    """
    analysis = parse(question)
    placed_texts = [placed for placed, _ in pages]
    segments = [placed.segments for placed in placed_texts]
    texts = [placed.item.text for placed in placed_texts]
    spans = text_reader.read(question, texts, segments) if options.text else ((),) * len(texts)
    scored = locate(analysis, placed_texts)
    absent = [frozenset(term.text for term in analysis.terms if not page.holds(term.text)) for page in scored]
    candidates = [
        replace(candidate, is_pointed=page.pointed, absent=absent[number])
        for number, (page, (_, tables), found) in enumerate(zip(scored, pages, spans, strict=True))
        for candidate in list_candidates(
            question, number, page, tables if options.tables else (), found, table_scorer, options
        )
    ]
    return candidates, compute_answer_features(analysis, scored, candidates)


def _says(reading: Reading, answer: str) -> bool:
    """Return whether a reading is an answer, said with or without its measure."""
    return is_same_phrase(reading.text, answer) or is_same_phrase(reading.answer, answer)


def find_answer(
    question: str,
    answer: str,
    pages: Sequence[ReadPage],
    *,
    text_reader: TextReader | None = None,
) -> Reading | None:
    """Return the likeliest place of an answer on some pages; None where they do not hold it.

    It is a candidate of the reader, or where that is very unlikely, the place with the same words around
    which most of the question stands; the probability of the latter is 0. Small numbers stand everywhere, so
    that one which the reader finds unlikely, such as the number of things that were counted, has no place;
    nor has a word of the question that it finds unlikely, such as one of two things to choose from.
    """
    readings = read(question, pages, text_reader=text_reader)
    found = next((one for one in readings if _says(one, answer)), None)
    likely = found.probability if found is not None else 0.0
    if _SMALL_NUMBER.fullmatch(fold_answer(answer)):
        return found if likely >= LIKELY_NUMBER else None
    if likely < THRESHOLD and is_part_of_phrase(answer, question):
        return None
    words = [read_page_text(page.item) for page in pages]
    written = find_written_answer(question, answer, words) if likely < DOUBTFUL else None
    return written or (found and mark_words(found, answer, words))
