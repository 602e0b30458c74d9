"""The statistics of an evaluation, beside what one would take for them instead, on the same numbers.

- Measures of rankings: pytrec_eval, which is trec_eval in C.
- 95 % intervals over documents: `scipy.stats.bootstrap` of the same ratio of sums, measure by measure.
- The paired test over documents: `scipy.stats.permutation_test`, as many signs.

1,000 questions about 200 documents, 30 measures, each side in this process, in turn. Before anything is timed
both must say the same: rankings to 1e-6, intervals and p to what so many draws tell.
"""

from __future__ import annotations

import importlib
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytrec_eval

from benchmarks.table import Comparison, compared, show
from vrag.evaluation.intervals import RESAMPLES, intervals, sample_of
from vrag.evaluation.significance import DRAWS, sign_flip
from vrag.metrics import ndcg, recall, reciprocal_rank

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

stats: Any = importlib.import_module("scipy.stats")
QUESTIONS, DOCUMENTS, MEASURES, DEPTH = 1_000, 200, 30, 100
RUNS = 5
Ranked = tuple[list[str], dict[str, int]]


def main() -> list[Comparison]:
    chance = np.random.default_rng(0)
    return [_rankings(chance), _intervals(chance), _test(chance)]


def _rankings(chance: np.random.Generator) -> Comparison:
    questions = [_ranked(chance) for _ in range(QUESTIONS)]
    gold = {str(number): grades for number, (_, grades) in enumerate(questions)}
    run = {
        str(number): {name: float(DEPTH - place) for place, name in enumerate(found)}
        for number, (found, _) in enumerate(questions)
    }
    evaluator = pytrec_eval.RelevanceEvaluator(gold, {"ndcg_cut.5,10", "recall.1,5,10", "recip_rank"})

    def ours() -> list[float]:
        return [measure for found, grades in questions for measure in _measures(found, grades)]

    def theirs() -> list[float]:
        names = ("ndcg_cut_5", "ndcg_cut_10", "recall_1", "recall_5", "recall_10", "recip_rank")
        told: dict[str, dict[str, float]] = evaluator.evaluate(run)
        return [told[uid][name] for uid in run for name in names]

    assert np.allclose(ours(), theirs(), atol=1e-6)
    return _timed("measures of 1,000 rankings / pytrec_eval", ours, theirs)


def _ranked(chance: np.random.Generator) -> Ranked:
    """A hundred pages found, and one to five gold ones, some of which are not among them; gold is 1."""
    found = [f"p{number}" for number in chance.permutation(4 * DEPTH)[:DEPTH]]
    return found, {f"p{number}": 1 for number in chance.integers(0, 4 * DEPTH, chance.integers(1, 6))}


def _measures(found: list[str], grades: dict[str, int]) -> list[float]:
    gold = grades.keys()
    return [
        ndcg(found, grades, 5),
        ndcg(found, grades, 10),
        recall(found, gold, 1),
        recall(found, gold, 5),
        recall(found, gold, 10),
        reciprocal_rank(found, gold),
    ]


def _intervals(chance: np.random.Generator) -> Comparison:
    documents = chance.integers(0, DOCUMENTS, QUESTIONS)
    columns = [chance.uniform(size=QUESTIONS) for _ in range(MEASURES)]

    def ours() -> list[tuple[float, float]]:
        made = intervals([sample_of(values, documents) for values in columns])
        return [(one.low, one.high) for one in made if one is not None]

    def theirs() -> list[tuple[float, float]]:
        return [_bootstrapped(values, documents) for values in columns]

    assert np.allclose(ours(), theirs(), atol=0.01)
    return _timed("95 % intervals of 30 measures / scipy.stats.bootstrap", ours, theirs)


def _bootstrapped(values: NDArray[np.float64], documents: NDArray[np.int64]) -> tuple[float, float]:
    sums = np.bincount(documents, values, minlength=DOCUMENTS)
    counts = np.bincount(documents, minlength=DOCUMENTS).astype(float)

    def mean(above: NDArray[np.float64], below: NDArray[np.float64], axis: int = -1) -> Any:  # noqa: ANN401
        return above.sum(axis=axis) / below.sum(axis=axis)

    made = stats.bootstrap(
        (sums, counts), mean, paired=True, n_resamples=RESAMPLES, method="percentile", rng=0
    )
    return float(made.confidence_interval.low), float(made.confidence_interval.high)


def _test(chance: np.random.Generator) -> Comparison:
    documents = chance.integers(0, DOCUMENTS, QUESTIONS)
    differences = chance.normal(0.03, 0.5, QUESTIONS)
    sums = np.bincount(documents, differences, minlength=DOCUMENTS)

    def ours() -> list[float]:
        return [sign_flip(differences.tolist(), documents.tolist()).p]

    def total(one: NDArray[np.float64], axis: int) -> Any:  # noqa: ANN401
        return one.sum(axis=axis)

    def theirs() -> list[float]:
        made = stats.permutation_test(
            (sums,), total, permutation_type="samples", vectorized=True, n_resamples=DRAWS, rng=0
        )
        return [float(made.pvalue)]

    assert np.allclose(ours(), theirs(), atol=0.02)
    return _timed("paired test over 200 documents / scipy.stats.permutation_test", ours, theirs)


def _timed(name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Comparison:
    """Medians of runs that take turns."""
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(RUNS):
        for work, taken in zip((ours, theirs), seconds, strict=True):
            begun = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begun)
    return compared(name, statistics.median(seconds[0]), statistics.median(seconds[1]), "s", RUNS)


if __name__ == "__main__":
    show(main())
