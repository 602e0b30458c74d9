"""Training of the scorer of answers over tables, and its figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.reading.scorer import CandidateScorer, Group, TrainingOptions, train_scorer
from vrag.reading.table_answers.candidates import AnsweredTable, solve_table, sum_by_answer
from vrag.reading.table_answers.features import TABLE_FEATURES
from vrag.reading.training.table_data import TableCase, matches_answer, read_tat_cases, read_wiki_cases
from vrag.reading.training.tat_measure import TatFigures, measure_tat

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrainingOptions:
    """Options of the training of the scorer of tables."""

    network: TrainingOptions = field(default_factory=lambda: TrainingOptions(units=64, epochs=12, decay=1e-3))
    wrong: int = 130
    """Wrong candidates of a question that are learnt from."""
    right: int = 30
    """Right candidates of a question that are learnt from."""
    cases: int | None = None
    """Questions of each data set; None for all."""
    operations: bool = True
    """True if programs may do more than look up cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """Measures of a scorer on questions that it has not seen."""

    questions: int
    accuracy: float
    """Share of questions whose likeliest answer is right."""
    oracle: float
    """Share of questions with a right answer among the candidates."""
    milliseconds: float
    """Mean time of a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrainingFigures:
    """Figures on the test sets, whose tables no training question shares."""

    wiki: TableFigures
    """The test set of WikiTableQuestions (`pristine-unseen-tables`)."""
    tat: TatFigures
    """The development set of TAT-QA; a quarter of its answers stand in running text."""


def train_table_scorer(
    folder: Path, options: TableTrainingOptions | None = None
) -> tuple[CandidateScorer, TableTrainingFigures]:
    """Train on the data sets in a folder and measure on their test sets.

    The folder holds copies of the repositories `WikiTableQuestions` and `TAT-QA`. TAT-QA's test set with
    answers is trained on and its development set measured.
    """
    options = options or TableTrainingOptions()
    wiki, tat = folder / "WikiTableQuestions", folder / "TAT-QA" / "dataset_raw"
    training = read_wiki_cases(wiki, "training")[: options.cases]
    training += read_tat_cases(tat / "tatqa_dataset_test_gold.json")[: options.cases]
    scorer = train_scorer(collect_groups(training, options), TABLE_FEATURES, options.network)
    unseen = read_wiki_cases(wiki, "pristine-unseen-tables")[: options.cases]
    development = read_tat_cases(tat / "tatqa_dataset_dev.json")[: options.cases]
    figures = TableTrainingFigures(
        wiki=measure_cases(scorer, unseen, operations=options.operations),
        tat=measure_tat(scorer, development),
    )
    return scorer, figures


def collect_groups(cases: Iterable[TableCase], options: TableTrainingOptions) -> list[Group]:
    """Return a sample of the candidates of each question that has a right one, in half precision."""
    random = np.random.default_rng(options.network.seed)
    groups: list[Group] = []
    for case in cases:
        answered = solve_table(case.question, case.table, operations=options.operations)
        right = find_right(answered, case)
        if not right.any() or right.all():
            continue
        good, bad = np.flatnonzero(right), np.flatnonzero(~right)
        good = random.permutation(good)[: options.right]
        bad = random.permutation(bad)[: options.wrong]
        chosen = np.concatenate([good, bad])
        features: NDArray[Any] = answered.features[chosen].astype(np.float16)
        groups.append(Group(features, right[chosen].astype(np.float32)))
    return groups


def find_right(answered: AnsweredTable, case: TableCase) -> Bools:
    """Return which programs give the right answer."""
    known: dict[object, bool] = {}
    for program in answered.programs:
        key = program.values or program.number
        if key not in known:
            known[key] = matches_answer(program.values, None if program.values else program.number, case)
    return np.asarray([known[program.values or program.number] for program in answered.programs], bool)


def choose_program(scorer: CandidateScorer, answered: AnsweredTable) -> tuple[int, float]:
    """Return the best program of the likeliest answer and the probability of the answer."""
    scores = scorer.scores(answered.features)
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, program in enumerate(answered.programs):
        groups.setdefault(program.denotation, []).append(number)
    return max(sum_by_answer(scores, list(groups.values())), key=lambda found: found[1])


def measure_cases(
    scorer: CandidateScorer, cases: Sequence[TableCase], *, operations: bool = True
) -> TableFigures:
    """Measure how often the likeliest answer is right."""
    begin = time.perf_counter()
    right = possible = 0
    for case in cases:
        answered = solve_table(case.question, case.table, operations=operations)
        if answered.programs:
            good = find_right(answered, case)
            possible += bool(good.any())
            right += bool(good[choose_program(scorer, answered)[0]])
    count = max(len(cases), 1)
    return TableFigures(
        questions=len(cases),
        accuracy=right / count,
        oracle=possible / count,
        milliseconds=1000 * (time.perf_counter() - begin) / count,
    )
