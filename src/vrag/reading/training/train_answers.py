"""Training of the scorer that compares answers of tables and of running text, and abstains."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrag.reading.answer_features import ANSWER_FEATURES
from vrag.reading.reader import load_text_reader
from vrag.reading.scorer import CandidateScorer, Group, TrainingOptions, train_scorer
from vrag.reading.text_reader import TextReader
from vrag.reading.training.answer_data import PageQuestion, read_answer_questions
from vrag.reading.training.answer_measure import AnswerFigures, measure_answers, weigh_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTrainingOptions:
    """Options of the training of the scorer of answers."""

    network: TrainingOptions = field(default_factory=lambda: TrainingOptions(units=0, epochs=20, decay=3e-3))
    cases: int = 400
    """Questions of each data set."""
    held_out: float = 0.2
    """Share of the tables and texts whose questions are measured and not learnt from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTraining:
    """A trained scorer and its figures."""

    scorer: CandidateScorer
    figures: AnswerFigures


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
    questions = list(read_answer_questions(folder, options.cases, options.network.seed))
    held_out, learnt = _split(questions, options)
    reader = text_reader or load_text_reader()
    groups = [
        Group(question.features, _with_absence(question.gains))
        for question in weigh_questions(learnt, reader, table_scorer)
    ]
    scorer = train_scorer(groups, ANSWER_FEATURES, options.network)
    weighed = list(weigh_questions(held_out, reader, table_scorer))
    return AnswerTraining(scorer=scorer, figures=measure_answers(scorer, weighed))


def read_held_out(folder: Path, options: AnswerTrainingOptions | None = None) -> list[PageQuestion]:
    """Return the questions that a training with these options did not learn from."""
    options = options or AnswerTrainingOptions()
    questions = list(read_answer_questions(folder, options.cases, options.network.seed))
    return _split(questions, options)[0]


def limit_by_source(questions: Iterable[PageQuestion], count: int | None) -> list[PageQuestion]:
    """Return the first `count` questions of each data set; all for None."""
    if count is None:
        return list(questions)
    seen: Counter[str] = Counter()
    kept: list[PageQuestion] = []
    for question in questions:
        seen[question.source] += 1
        if seen[question.source] <= count:
            kept.append(question)
    return kept


def _split(
    questions: Sequence[PageQuestion], options: AnswerTrainingOptions
) -> tuple[list[PageQuestion], list[PageQuestion]]:
    """Return the questions to measure on and those to learn from; none of both are about one topic.

    Where a topic goes depends on its name and the seed alone, not on which sets a folder has.
    """
    held_out: list[PageQuestion] = []
    learnt: list[PageQuestion] = []
    for question in questions:
        digest = hashlib.sha256(f"{options.network.seed} {question.topic}".encode()).digest()
        share = int.from_bytes(digest[:8]) / 2**64
        (held_out if share < options.held_out else learnt).append(question)
    return held_out, learnt


def _with_absence(gains: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gains where having no answer is right if nothing else is."""
    if gains.max() > 0:
        return gains
    absent = gains.copy()
    absent[0] = 1
    return absent
