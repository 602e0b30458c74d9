"""Training of the reader of running text."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.scorer import Group, TrainingOptions, train_scorer
from vrag.reading.spans.calibration import (
    CONFIDENCE_FEATURES,
    confidence_features,
    expected_error,
    fit_calibration,
    measure_reliability,
)
from vrag.reading.spans.features import SPAN_FEATURES
from vrag.reading.spans.reader import (
    SpanModel,
    SpanStatistics,
    choice_scores,
    empty_statistics,
    span_candidates,
)
from vrag.reading.spans.span_context import Floats
from vrag.reading.spans.span_types import GROUPS, SpanType
from vrag.reading.spans.tokens import tokenize
from vrag.reading.spans.word_patterns import CODES, Codes
from vrag.reading.spans.word_weights import count_words
from vrag.reading.training.span_sets import HELD_OUT, pair_with_wrong_paragraphs, read_span_sets
from vrag.reading.training.text_data import TextQuestion, answer_f1, answer_words
from vrag.reading.training.word_clusters import group_words

_TYPES = slice(-1 - GROUPS - len(SpanType), -1 - GROUPS)
_GROUPS = slice(-1 - GROUPS, -1)
_MEASURED = frozenset({"xquad-en", "xquad-zh"})
"""Languages of XQuAD whose paragraphs do not count for the weights of words: other sets have them."""


_FIRST = 6
"""Every so many-th question trains a first model, which finds the candidates that are hard to tell apart."""
_NETWORK = TrainingOptions(units=128, epochs=8, codes=CODES, code_rate=0.5, code_decay=1e-3)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTrainingOptions:
    """Options of the training on running text."""

    share: float = 1.0
    """Part of the questions of each set that is used."""
    kept: int = 100
    """Candidates of a question in training: right ones, those with the highest scores and a random choice."""
    network: TrainingOptions = _NETWORK


class PreparedQuestion(NamedTuple):
    """The candidates of a question with their features and F1."""

    question: TextQuestion
    features: Floats
    codes: Codes
    f1: Floats
    """With the nearest of the right answers."""
    gains: Floats
    """What is learnt: a mean over the right answers, sharpened, and less where the place is another one."""
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    offsets: Floats
    """Logarithm of the number of candidates that each stands for in training."""


def count_statistics(questions: Iterable[TextQuestion]) -> SpanStatistics:
    """Weigh the words of all paragraphs by data set, and class them and those of the questions."""
    texts: defaultdict[str, dict[str, None]] = defaultdict(dict)
    asked: dict[str, None] = {}
    for question in questions:
        texts[question.source][question.text] = None
        asked[question.question] = None
    paragraphs = {source: list(found) for source, found in texts.items()}
    words = count_words([_words_of(text) for text in found] for found in paragraphs.values())
    classes = group_words(
        tokenize(text).words for text in (*(text for found in paragraphs.values() for text in found), *asked)
    )
    return SpanStatistics(words, empty_statistics().agreement, classes)


def _words_of(text: str) -> list[str]:
    """Return the stems of a text, and the pairs of characters that are compared like words."""
    stems = tokenize(text).stems
    return [*stems, *(a + b for a, b in pairwise(stems) if len(a) == len(b) == 1)]


def prepare_question(question: TextQuestion, statistics: SpanStatistics) -> PreparedQuestion:
    """Compute the candidates of a question, their features and how right they are."""
    statistics = replace(statistics, agreement=empty_statistics().agreement)
    found = span_candidates(question.question, question.text, statistics=statistics)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    words_of = [answer_words(question.text[start:end]) for start, end in spans]
    answers = Counter(question.answers)
    f1, gains = np.zeros(len(found), np.float32), np.zeros(len(found), np.float32)
    for (start, answer), votes in answers.items():
        right = answer_words(answer)
        known = frozenset(right)
        same = np.fromiter(
            (0 if right and known.isdisjoint(words) else answer_f1(words, right) for words in words_of),
            np.float32,
            len(words_of),
        )
        place = (found.starts < start + len(answer)) & (found.ends > start)
        f1 = np.maximum(f1, same)
        gains += votes / answers.total() * same**3 * np.where(place, 1.0, 0.2).astype(np.float32)
    offsets = np.zeros(len(found), np.float32)
    return PreparedQuestion(
        question, found.features, found.codes, f1, gains, found.starts, found.ends, offsets
    )


def thin_question(
    prepared: PreparedQuestion, kept: int, random: np.random.Generator, model: SpanModel | None = None
) -> PreparedQuestion:
    """Keep some candidates of a question for training, in half precision.

    They are the best ones, those that a model that is already trained scores highest, and a random choice of
    the others, each of which stands for several.
    """
    chosen, offsets = _choose_candidates(prepared, kept, random, model)
    half: Any = prepared.features[chosen].astype(np.float16)
    return prepared._replace(
        features=half,
        codes=prepared.codes[chosen],
        f1=prepared.f1[chosen],
        gains=prepared.gains[chosen],
        starts=prepared.starts[chosen],
        ends=prepared.ends[chosen],
        offsets=offsets,
    )


def _choose_candidates(
    prepared: PreparedQuestion, kept: int, random: np.random.Generator, model: SpanModel | None
) -> tuple[NDArray[np.int64], Floats]:
    size = len(prepared.f1)
    if size <= kept:
        return np.arange(size), np.zeros(size, np.float32)
    order = np.argsort(-prepared.gains, kind="stable")
    fixed = kept // 3
    if model is not None:
        best, others = np.split(order, [kept // 5])
        hardest = np.argsort(-_score_question(prepared, model)[others], kind="stable")
        fixed = len(best) + 3 * kept // 5
        order = np.concatenate([best, others[hardest]])
    drawn = random.permutation(order[fixed:])[: kept - fixed]
    offsets = np.zeros(kept, np.float32)
    offsets[fixed:] = np.log((size - fixed) / len(drawn))
    return np.concatenate([order[:fixed], drawn]), offsets


def _score_question(prepared: PreparedQuestion, model: SpanModel) -> Floats:
    features = add_agreement(prepared.features, model.statistics.agreement)
    return model.scorer.scores(features, prepared.codes)


def count_agreement(questions: Sequence[PreparedQuestion]) -> Floats:
    """Return how much oftener each type of span is right for each group of questions than chance."""
    right = np.zeros((GROUPS, len(SpanType)))
    chance = np.zeros((GROUPS, len(SpanType)))
    for prepared in questions:
        gains = prepared.gains
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


def fit_spans(
    questions: Sequence[PreparedQuestion], statistics: SpanStatistics, options: SpanTrainingOptions
) -> SpanModel:
    """Train the model on prepared questions."""
    agreement = count_agreement(questions)
    groups = [
        Group(add_agreement(prepared.features, agreement), prepared.gains, prepared.codes, prepared.offsets)
        for prepared in questions
        if prepared.f1.max(initial=0) > 0.5
    ]
    scorer = train_scorer(groups, SPAN_FEATURES, options.network)
    return SpanModel(scorer, replace(statistics, agreement=agreement))


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
        found = _score_question(prepared, model)
        choice = choice_scores(prepared.question.text, prepared.starts, prepared.ends, found)
        scores.append(float(prepared.f1[int(choice.argmax())]) if len(found) else 0.0)
    oracle = float(np.mean([prepared.f1.max(initial=0) for prepared in questions]))
    exact = float(np.mean([score == 1 for score in scores]))
    return SpanFigures(float(np.mean(scores)), exact, oracle, len(scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCalibrationFigures:
    """Measures of the probabilities, on questions that neither the scorer nor the calibration has seen."""

    questions: int
    """Half with their own paragraph and half with a wrong one."""
    right: float
    """Share of the answers that are right (F1 of 0.5 or more in the right paragraph)."""
    area: float
    """Area under the curve of true and false positives."""
    error: float
    """Expected calibration error in ten bins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReport:
    """Figures of a training."""

    figures: dict[str, SpanFigures]
    """By test set; none of their paragraphs has been learnt from."""
    calibration: SpanCalibrationFigures | None
    questions: int
    """Questions that were learnt from."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTraining:
    """A trained reader of running text and its figures."""

    model: SpanModel
    """Write it with `model.save(path)`, read it with `SpanModel.load(path)`."""
    report: SpanReport


def train_span_reader(folder: Path, options: SpanTrainingOptions | None = None) -> SpanTraining:
    """Train the reader of running text on the question sets in a folder, and measure it.

    The folder holds copies of the repositories `squadshifts`, `COVID-QA`, `cmrc2018`, `DRCD`, `JaQuAD` and
    `xquad`, or some of them. A first model, which has seen nothing of XQuAD, is measured on the test sets; a
    second one learns from XQuAD too and is returned, with a calibration fitted to articles that neither has
    seen. Raises `FileNotFoundError` if there is no set to train with.
    """
    begin = time.perf_counter()
    options = options or SpanTrainingOptions()
    sets = read_span_sets(folder, share=options.share)
    statistics = count_statistics(
        [*sets.training, *(q for q in sets.translated if q.source not in _MEASURED)]
    )
    random = np.random.default_rng(options.network.seed)

    def prepare(questions: Sequence[TextQuestion], model: SpanModel | None = None) -> list[PreparedQuestion]:
        return [
            thin_question(prepare_question(question, statistics), options.kept, random, model)
            for question in questions
        ]

    training = prepare(sets.training[::_FIRST])
    first = fit_spans(training, statistics, options)
    training += prepare([q for at, q in enumerate(sets.training) if at % _FIRST], first)
    model = fit_spans(training, statistics, options)
    figures = {
        name: measure_spans([prepare_question(question, statistics) for question in questions], model)
        for name, questions in sets.tests.items()
    }
    if sets.translated:
        training += prepare(sets.translated, first)
        model = fit_spans(training, statistics, options)
    model, calibration = calibrate_spans(model, sets.calibration)
    seconds = time.perf_counter() - begin
    report = SpanReport(figures=figures, calibration=calibration, questions=len(training), seconds=seconds)
    return SpanTraining(model=model, report=report)


def calibrate_spans(
    model: SpanModel, questions: Sequence[TextQuestion]
) -> tuple[SpanModel, SpanCalibrationFigures | None]:
    """Return the model with a calibration, and figures of another one fitted to half of the articles.

    Every question is asked of its own paragraph and of a wrong one.
    """
    cases = [*questions, *pair_with_wrong_paragraphs(questions)]
    rows, right, odd = list[NDArray[np.float64]](), list[float](), list[bool]()
    for case in cases:
        prepared = prepare_question(case, model.statistics)
        if len(prepared.f1):
            features = add_agreement(prepared.features, model.statistics.agreement)
            scores = model.scorer.scores(features, prepared.codes)
            chosen = int(choice_scores(case.text, prepared.starts, prepared.ends, scores).argmax())
            rows.append(confidence_features(features, scores, prepared.starts, prepared.ends, chosen))
            right.append(float(prepared.f1[chosen] >= 0.5))
            odd.append(case.article // HELD_OUT % 2 == 1)
    if not 0 < sum(right) < len(right):
        return model, None
    table, targets, tested = np.stack(rows), np.asarray(right), np.asarray(odd)
    figures = None
    if 0 < targets[tested].sum() < tested.sum() and not tested.all():
        half = fit_calibration(table[~tested], targets[~tested], CONFIDENCE_FEATURES)
        figures = _measure_probabilities(half.probabilities(table[tested]), targets[tested])
    calibration = fit_calibration(table, targets, CONFIDENCE_FEATURES)
    return SpanModel(model.scorer, model.statistics, calibration), figures


def _measure_probabilities(
    probabilities: NDArray[np.float64], right: NDArray[np.float64]
) -> SpanCalibrationFigures:
    good, bad = probabilities[right == 1], np.sort(probabilities[right == 0])
    below = np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")
    return SpanCalibrationFigures(
        questions=len(right),
        right=float(right.mean()),
        area=float(below.mean() / 2 / len(bad)),
        error=expected_error(measure_reliability(probabilities, right)),
    )
