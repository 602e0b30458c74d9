"""The candidates of a table in the order of their probability, by the weights that come with the package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.scorer import CandidateScorer
from vrag.reading.table_answers.candidates import TableCandidate, solve_table, write_candidate
from vrag.reading.table_answers.features import TABLE_FEATURES
from vrag.reading.tables.table import DocumentTable

WEIGHTS = Path(__file__).parent.parent / "weights" / "table.npz"
"""The trained scorer of the package."""


class RankedAnswer(NamedTuple):
    """A candidate and how likely it is the answer, if the table answers the question at all."""

    candidate: TableCandidate
    probability: float
    """The sum over all programs that give the same answer."""
    score: float
    """The scorer's score of the best of these programs; it can be compared between tables."""


@lru_cache(maxsize=1)
def load_table_scorer() -> CandidateScorer:
    """Load the scorer of the package. Raises `ValueError` if it was trained for other features."""
    scorer = CandidateScorer.load(WEIGHTS)
    if scorer.names != TABLE_FEATURES:
        raise ValueError(f"{WEIGHTS.name} was trained for other features")
    return scorer


def rank_answers(
    question: str,
    table: DocumentTable,
    *,
    scorer: CandidateScorer | None = None,
    limit: int = 10,
    operations: bool = True,
) -> list[RankedAnswer]:
    """Return the likeliest answers to a question over a table, best first.

    Without `operations` cells are only looked up.
    """
    answered = solve_table(question, table, operations=operations)
    if not answered.programs:
        return []
    scores = (scorer or load_table_scorer()).scores(answered.features)
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, program in enumerate(answered.programs):
        groups.setdefault(program.denotation, []).append(number)
    ranked = sorted(sum_by_answer(scores, list(groups.values())), key=lambda found: -found[1])
    return [
        RankedAnswer(write_candidate(answered, best), probability, float(scores[best]))
        for best, probability in ranked[:limit]
    ]


def sum_by_answer(scores: NDArray[np.floating], groups: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Return for each group of candidates its best one and the sum of its probabilities."""
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    found: list[tuple[int, float]] = []
    for members in groups:
        numbers = np.asarray(members)
        found.append((int(numbers[scores[numbers].argmax()]), float(shares[numbers].sum())))
    return found
