"""Training of the reader of running text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.calibration import fit_calibration
from vrag.reading.scorer import CandidateScorer, Group, TrainingOptions, train_scorer
from vrag.reading.spans.confidence import CONFIDENCE_FEATURES, confidence_features
from vrag.reading.spans.features import SPAN_FEATURES, Floats
from vrag.reading.spans.reader import (
    SpanModel,
    SpanStatistics,
    choice_scores,
    empty_statistics,
    span_candidates,
)
from vrag.reading.spans.span_types import GROUPS, SpanType
from vrag.reading.spans.tokens import tokenize
from vrag.reading.spans.word_weights import WordWeights, count_words
from vrag.reading.training.text_data import (
    LANGUAGES,
    TextQuestion,
    answer_f1,
    answer_words,
    read_cmrc,
    read_covid,
    read_jaquad,
    read_xquad,
)

_TYPES = slice(-1 - GROUPS - len(SpanType), -1 - GROUPS)
_GROUPS = slice(-1 - GROUPS, -1)


_NETWORK = TrainingOptions(units=64, epochs=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTrainingOptions:
    """Options of the training on running text."""

    languages: tuple[str, ...] = tuple(code for code in LANGUAGES if code not in ("th", "hi", "ar"))
    """Languages of XQuAD."""
    jaquad: int = 4000
    """Questions of JaQuAD, a random choice."""
    covid: int = 2000
    kept: int = 100
    """Candidates of a question in training: the right ones and a random choice."""
    folds: int = 5
    network: TrainingOptions = _NETWORK


class PreparedQuestion(NamedTuple):
    """The candidates of a question with their features and F1."""

    question: TextQuestion
    features: Floats
    f1: Floats
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


def count_statistics(questions: Iterable[TextQuestion]) -> WordWeights:
    """Count the words of all paragraphs, by data set and language."""
    texts: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for question in questions:
        texts[question.source][question.text] = None
    return count_words([_words_of(text) for text in paragraphs] for paragraphs in texts.values())


def _words_of(text: str) -> list[str]:
    """Return the stems of a text, and the pairs of characters that are compared like words."""
    stems = tokenize(text).stems
    return [*stems, *(a + b for a, b in pairwise(stems) if len(a) == len(b) == 1)]


def prepare_question(question: TextQuestion, words: WordWeights) -> PreparedQuestion:
    """Compute the candidates of a question, their features and their F1 with the best right answer."""
    statistics = SpanStatistics(words, empty_statistics().agreement)
    found = span_candidates(question.question, question.text, statistics=statistics)
    right = [answer_words(answer) for _, answer in question.answers]
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    words_of = [answer_words(question.text[start:end]) for start, end in spans]
    f1 = [max(answer_f1(words, answer) for answer in right) for words in words_of]
    return PreparedQuestion(question, found.features, np.asarray(f1, np.float32), found.starts, found.ends)


def gains_of(prepared: PreparedQuestion) -> Floats:
    """Return how right each candidate is: its F1, sharpened, and less where the place is another one."""
    place = np.zeros(len(prepared.f1), np.float32)
    for start, answer in prepared.question.answers:
        touches = (prepared.starts < start + len(answer)) & (prepared.ends > start)
        place = np.maximum(place, np.where(touches, 1.0, 0.2)).astype(np.float32)
    return (prepared.f1**3 * place).astype(np.float32)


def count_agreement(questions: Sequence[PreparedQuestion]) -> Floats:
    """Return how much oftener each type of span is right for each group of questions than chance."""
    right = np.zeros((GROUPS, len(SpanType)))
    chance = np.zeros((GROUPS, len(SpanType)))
    for prepared in questions:
        gains = gains_of(prepared)
        if not len(gains) or gains.max() < 0.3:
            continue
        group = int(prepared.features[0, _GROUPS].argmax())
        types = prepared.features[:, _TYPES]
        right[group] += gains @ types / gains.sum()
        chance[group] += types.mean(axis=0)
    rates = (right + 0.5) / (chance + 0.5)
    return np.log(rates).astype(np.float32)


def add_agreement(features: Floats, agreement: Floats) -> Floats:
    """Return features with the column of agreement filled."""
    filled = features.copy()
    if len(filled):
        group = int(filled[0, _GROUPS].argmax())
        filled[:, -1] = agreement[group, filled[:, _TYPES].argmax(axis=1)]
    return filled


def sample_group(
    prepared: PreparedQuestion, agreement: Floats, kept: int, random: np.random.Generator
) -> Group:
    """Choose candidates of a question for training: the best third by F1 and a random choice."""
    gains = gains_of(prepared)
    chosen = np.arange(len(gains))
    if len(gains) > kept:
        order = np.argsort(-gains, kind="stable")
        best = order[: kept // 3]
        chosen = np.concatenate([best, random.permutation(order[kept // 3 :])[: kept - len(best)]])
    return Group(add_agreement(prepared.features[chosen], agreement), gains[chosen])


def fit_spans(
    questions: Sequence[PreparedQuestion], words: WordWeights, options: SpanTrainingOptions
) -> SpanModel:
    """Train the model on prepared questions."""
    random = np.random.default_rng(options.network.seed)
    agreement = count_agreement(questions)
    usable = [prepared for prepared in questions if prepared.f1.max(initial=0) > 0.5]
    groups = [sample_group(prepared, agreement, options.kept, random) for prepared in usable]
    scorer = train_scorer(groups, SPAN_FEATURES, options.network)
    return SpanModel(scorer, SpanStatistics(words, agreement))


class SpanFigures(NamedTuple):
    """Measures of the best spans of some questions."""

    f1: float
    exact: float
    oracle: float
    questions: int


def measure_spans(questions: Sequence[PreparedQuestion], model: SpanModel) -> SpanFigures:
    """Measure F1 and exact match of the best span of each question, and the best that candidates allow."""
    scores: list[float] = []
    for prepared in questions:
        features = add_agreement(prepared.features, model.statistics.agreement)
        found = model.scorer.scores(features)
        choice = choice_scores(prepared.question.text, prepared.starts, prepared.ends, found)
        scores.append(float(prepared.f1[int(choice.argmax())]) if len(features) else 0.0)
    oracle = float(np.mean([prepared.f1.max(initial=0) for prepared in questions]))
    exact = float(np.mean([score == 1 for score in scores]))
    return SpanFigures(float(np.mean(scores)), exact, oracle, len(scores))


def add_calibration(
    model: SpanModel, answerable: Sequence[PreparedQuestion], unanswerable: Sequence[PreparedQuestion]
) -> SpanModel:
    """Return the model with a calibration fitted to questions that it was not trained on.

    `unanswerable` are questions with a wrong paragraph. An answer is right from an F1 of 0.5 on.
    """
    rows: list[NDArray[np.float64]] = []
    right: list[float] = []
    for prepared, has_answer in [*((p, 1) for p in answerable), *((p, 0) for p in unanswerable)]:
        if not len(prepared.f1):
            continue
        features = add_agreement(prepared.features, model.statistics.agreement)
        scores = model.scorer.scores(features)
        rows.append(confidence_features(features, scores, prepared.starts, prepared.ends))
        right.append(float(has_answer and prepared.f1[int(scores.argmax())] >= 0.5))
    fitted = fit_calibration(np.stack(rows), np.asarray(right), CONFIDENCE_FEATURES)
    return SpanModel(model.scorer, model.statistics, fitted)


def read_training_questions(folder: Path, options: SpanTrainingOptions) -> list[TextQuestion]:
    """Read XQuAD, the development set of CMRC 2018, and parts of JaQuAD and COVID-QA."""
    random = np.random.default_rng(0)
    jaquad, covid = read_jaquad(folder / "JaQuAD", "train"), read_covid(folder / "COVID-QA")
    questions = [question for code in options.languages for question in read_xquad(folder / "xquad", code)]
    questions += read_cmrc(folder / "cmrc2018", "dev")
    questions += [jaquad[k] for k in random.permutation(len(jaquad))[: options.jaquad]]
    return questions + [covid[k] for k in random.permutation(len(covid))[: options.covid]]


def train_span_scorer(
    folder: Path, options: SpanTrainingOptions
) -> tuple[CandidateScorer, dict[str, SpanFigures]]:
    """Train the scorer; measure it on the trial set of CMRC 2018 and the development set of JaQuAD."""
    model, figures = train_span_model(folder, options)
    return model.scorer, figures


def train_span_model(folder: Path, options: SpanTrainingOptions) -> tuple[SpanModel, dict[str, SpanFigures]]:
    """Train the whole model; `folder` holds the clones `xquad`, `cmrc2018`, `JaQuAD` and `COVID-QA`."""
    questions = read_training_questions(folder, options)
    words = count_statistics(questions)
    model = fit_spans([prepare_question(question, words) for question in questions], words, options)
    tests = {
        "cmrc-trial": read_cmrc(folder / "cmrc2018", "trial"),
        "jaquad-dev": read_jaquad(folder / "JaQuAD", "dev")[:1000],
    }
    figures = {
        name: measure_spans([prepare_question(question, words) for question in test], model)
        for name, test in tests.items()
    }
    return model, figures
