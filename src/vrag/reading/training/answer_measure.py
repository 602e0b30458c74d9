"""Figures of the best answers of all sources, by their probability, and of the reader without a part."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.answer import FULL_READING, ReadingOptions
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.reader import LINE_THRESHOLD, THRESHOLD, rank_different_answers, weigh_candidates
from vrag.reading.scorer import CandidateScorer
from vrag.reading.spans.calibration import ReliabilityBin, measure_reliability
from vrag.reading.text_reader import TextReader
from vrag.reading.training.answer_data import PageQuestion


@dataclass(frozen=True, slots=True)
class ReaderVariant:
    """The reader, or what is left of it without one of its parts."""

    name: str
    options: ReadingOptions = FULL_READING
    threshold: float = THRESHOLD
    """The probability from which it answers."""


VARIANTS = (
    ReaderVariant("all"),
    ReaderVariant("without tables", ReadingOptions(tables=False)),
    ReaderVariant("without computed answers", ReadingOptions(operations=False)),
    ReaderVariant("without labelled values", ReadingOptions(values=False)),
    ReaderVariant("without running text", ReadingOptions(text=False)),
    ReaderVariant("without the learnt scorer", ReadingOptions(learnt=False), LINE_THRESHOLD),
)
"""The reader and its ablations. Nothing is trained again for them."""


class Coverage(NamedTuple):
    """The outcome of answering from a probability on."""

    threshold: float
    answered: float
    """Share of the questions that are answered."""
    right: float
    """Share of these answers that is right; 0 without one."""
    abstained: float
    """Share of the questions whose answer stands on no page shown that are not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigures:
    """Measures of the best answers to questions that were not learnt from."""

    questions: int
    possible: float
    """Share with a right answer among the candidates."""
    right: float
    """Share whose best answer is right."""
    reliability: tuple[ReliabilityBin, ...]
    coverage: tuple[Coverage, ...]
    at_threshold: Coverage
    """The outcome of answering as the reader does."""
    milliseconds: float = 0.0
    """Mean time of a question, without finding tables; 0 where it was not measured."""


class WeighedQuestion(NamedTuple):
    """The candidates of a question, and what they are worth."""

    features: NDArray[np.float32]
    """As `weigh_candidates` returns them."""
    gains: NDArray[np.float32]
    """Of having no answer, which is 0 here, and of each candidate."""
    shown: bool
    """True if the page with the answer is among the pages."""
    candidates: tuple[PageCandidate, ...]


def weigh_questions(
    questions: Iterable[PageQuestion],
    text_reader: TextReader,
    table_scorer: CandidateScorer | None,
    options: ReadingOptions = FULL_READING,
) -> Iterator[WeighedQuestion]:
    """Yield the features of each question's candidates, and what they are worth."""
    texts: dict[str, PageText] = {}
    for question in questions:
        for page in question.pages:
            texts.setdefault(page.item.id, read_page_text(page.item))
        pages = [(texts[page.item.id], page.tables) for page in question.pages]
        candidates, features = weigh_candidates(question.question, pages, text_reader, table_scorer, options)
        gains = np.asarray([0.0, *map(question.gain, candidates)], np.float32)
        shown = any(page.item.id == question.gold for page in question.pages)
        yield WeighedQuestion(features, gains, shown, tuple(candidates))


def measure_answers(
    scorer: CandidateScorer | None, questions: Sequence[WeighedQuestion], threshold: float = THRESHOLD
) -> AnswerFigures:
    """Measure the best answer of each question, at several thresholds of its probability and at that given.

    Without a scorer, candidates are compared by `score_by_lines`.
    """
    best: list[tuple[float, float]] = []
    for question in questions:
        ranked = rank_different_answers(question.candidates, question.features, scorer)
        best += [(probability, float(question.gains[1 + number])) for number, probability in ranked[:1]]
        best += [(0.0, 0.0)] * (not ranked)
    probabilities, worth = np.asarray(best or [(0.0, 0.0)], np.float64).T
    shown = np.asarray([question.shown for question in questions] or [True])
    at_threshold, *coverage = (
        _measure_coverage(probabilities, worth, shown, least)
        for least in (threshold, *np.linspace(0, 0.9, 19).round(2).tolist())
    )
    return AnswerFigures(
        questions=len(questions),
        possible=float(np.mean([question.gains.max() > 0 for question in questions] or [0.0])),
        right=float(worth.mean()),
        reliability=tuple(measure_reliability(probabilities, worth)),
        coverage=tuple(coverage),
        at_threshold=at_threshold,
    )


def measure_variants(
    questions: Sequence[PageQuestion],
    scorer: CandidateScorer,
    text_reader: TextReader,
    table_scorer: CandidateScorer | None,
    variants: Iterable[ReaderVariant] = VARIANTS[:1],
) -> Iterator[tuple[ReaderVariant, AnswerFigures]]:
    """Yield what each variant of the reader answers to the same questions."""
    for variant in variants:
        begin = time.perf_counter()
        weighed = list(weigh_questions(questions, text_reader, table_scorer, variant.options))
        seconds = time.perf_counter() - begin
        figures = measure_answers(scorer if variant.options.learnt else None, weighed, variant.threshold)
        yield variant, replace(figures, milliseconds=1000 * seconds / max(len(questions), 1))


def _measure_coverage(
    probabilities: NDArray[np.float64], worth: NDArray[np.float64], shown: NDArray[np.bool_], threshold: float
) -> Coverage:
    given = probabilities >= threshold
    return Coverage(
        threshold=threshold,
        answered=float(given.mean()),
        right=float(worth[given].mean()) if given.any() else 0.0,
        abstained=float((~given[~shown]).mean()) if (~shown).any() else 0.0,
    )
