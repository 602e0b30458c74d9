"""Training of the scorer that compares answers of tables and of running text, and abstains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.answer_features import ANSWER_FEATURES
from vrag.reading.calibration import ReliabilityBin, measure_reliability
from vrag.reading.reader import load_text_reader, weigh_candidates
from vrag.reading.scorer import CandidateScorer, Group, TrainingOptions, train_scorer
from vrag.reading.text_layout import PageLayout, layout
from vrag.reading.text_reader import TextReader
from vrag.reading.training.answer_data import PageQuestion, read_answer_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTrainingOptions:
    """Options of the training of the scorer of answers."""

    network: TrainingOptions = field(default_factory=lambda: TrainingOptions(units=0, epochs=20, decay=3e-3))
    cases: int = 400
    """Questions of each data set."""
    held_out: float = 0.2
    """Share of the questions that are measured and not learnt from."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTraining:
    """A trained scorer and its figures."""

    scorer: CandidateScorer
    figures: AnswerFigures


class _Weighed(NamedTuple):
    features: NDArray[np.float32]
    gains: NDArray[np.float32]
    shown: bool
    """True if the page with the answer is among the pages."""


def train_answer_scorer(
    folder: Path,
    options: AnswerTrainingOptions | None = None,
    text_reader: TextReader | None = None,
    table_scorer: CandidateScorer | None = None,
) -> AnswerTraining:
    """Train on the data sets in a folder, and measure on held-out questions.

    The folder holds copies of the repositories that `read_answer_questions` names. `text_reader` and
    `table_scorer` read the sources, None for those of the package; so they are trained first. Raises
    `ValueError` if there is no question to learn from.
    """
    options = options or AnswerTrainingOptions()
    seed = options.network.seed
    questions = read_answer_questions(folder, options.cases, seed)
    weighed = list(weigh_questions(questions, text_reader or load_text_reader(), table_scorer))
    order: list[int] = np.random.default_rng(seed).permutation(len(weighed)).tolist()
    held_out = int(options.held_out * len(weighed))
    learnt = [weighed[number] for number in order[held_out:]]
    groups = [Group(one.features, _with_absence(one.gains)) for one in learnt]
    scorer = train_scorer(groups, ANSWER_FEATURES, options.network)
    return AnswerTraining(
        scorer=scorer, figures=measure_answers(scorer, [weighed[number] for number in order[:held_out]])
    )


def weigh_questions(
    questions: Iterable[PageQuestion], text_reader: TextReader, table_scorer: CandidateScorer | None
) -> Iterator[_Weighed]:
    """Yield the features of each question's candidates, and what they are worth."""
    layouts: dict[str, PageLayout] = {}
    for question in questions:
        for page in question.pages:
            layouts.setdefault(page.item.id, layout(page.item))
        pages = [(layouts[page.item.id], page.tables) for page in question.pages]
        candidates, features = weigh_candidates(question.question, pages, text_reader, table_scorer)
        gains = np.asarray([0.0, *map(question.gain, candidates)], np.float32)
        shown = any(page.item.id == question.gold for page in question.pages)
        yield _Weighed(features, gains, shown)


def _with_absence(gains: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gains where having no answer is right if nothing else is."""
    if gains.max() > 0:
        return gains
    absent = gains.copy()
    absent[0] = 1
    return absent


def measure_answers(scorer: CandidateScorer, questions: Sequence[_Weighed]) -> AnswerFigures:
    """Measure the best answer of each question, at several thresholds of its probability."""
    best: list[tuple[float, float]] = []
    for question in questions:
        scores: NDArray[Any] = scorer.scores(question.features).astype(np.float64)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        number = 1 + int(shares[1:].argmax()) if len(shares) > 1 else 0
        best.append((float(shares[number]), float(question.gains[number])) if number else (0.0, 0.0))
    probabilities, worth = np.asarray(best or [(0.0, 0.0)], np.float64).T
    shown = np.asarray([question.shown for question in questions] or [True])
    return AnswerFigures(
        questions=len(questions),
        possible=float(np.mean([question.gains.max() > 0 for question in questions] or [0.0])),
        right=float(worth.mean()),
        reliability=tuple(measure_reliability(probabilities, worth)),
        coverage=tuple(
            _measure_coverage(probabilities, worth, shown, threshold)
            for threshold in np.linspace(0, 0.9, 19).round(2).tolist()
        ),
    )


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
