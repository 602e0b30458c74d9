"""Measures of a ranking against gold: nDCG, recall, reciprocal rank. Pure functions.

A ranking is a sequence of distinct names of pages, best first. Should a name come up again, it counts
once, where it stands first; the later place is taken up all the same. Relevance is binary.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["ndcg", "recall", "reciprocal_rank"]


def ndcg(ranking: Sequence[Hashable], gold: AbstractSet[Hashable], k: int | None = None) -> float:
    """Normalised discounted cumulative gain of the first `k` places, 0 to 1.

    DCG@k = Σ rel(i) / log2(i + 1) over the ranks i = 1 … k; nDCG@k = DCG@k / IDCG@k, where IDCG@k is
    the DCG of a ranking that begins with min(k, |gold|) gold pages. Järvelin and Kekäläinen 2002,
    "Cumulated gain-based evaluation of IR techniques", with the discount of trec_eval.

    Args:
        ranking: Names of pages, best first.
        gold: Names of the gold pages; without any the result is 0.
        k: How many places count; None for all, with the ideal over all of `gold`.

    >>> ndcg(["a", "b", "c"], {"a", "c"}, k=3) == (1 + 1 / 2) / (1 + 1 / math.log2(3))
    True
    >>> ndcg(["a", "b", "c"], {"a", "c"}, k=1)
    1.0
    """
    ideal = len(gold) if k is None else min(k, len(gold))
    best = math.fsum(_discount(rank) for rank in range(1, ideal + 1))
    gain = math.fsum(_discount(rank) for rank in _gold_ranks(ranking, gold, k))
    return gain / best if best > 0 else 0.0


def recall(ranking: Sequence[Hashable], gold: AbstractSet[Hashable], k: int | None = None) -> float:
    """Share of the gold pages among the first `k` places: |gold ∩ ranking[:k]| / |gold|, 0 without gold.

    >>> recall(["a", "b", "c"], {"a", "c"}, k=2)
    0.5
    """
    return len(_gold_ranks(ranking, gold, k)) / len(gold) if gold else 0.0


def reciprocal_rank(ranking: Sequence[Hashable], gold: AbstractSet[Hashable]) -> float:
    """1 / rank of the first gold page, 0 when there is none; its mean over questions is the MRR.

    >>> reciprocal_rank(["a", "b", "c"], {"b", "c"})
    0.5
    """
    return next((1 / rank for rank in _gold_ranks(ranking, gold, None)), 0.0)


def _gold_ranks(ranking: Sequence[Hashable], gold: AbstractSet[Hashable], k: int | None) -> list[int]:
    """Ranks, from 1 and ascending, at which a gold page stands for the first time."""
    first: dict[Hashable, int] = {}
    for rank, name in enumerate(ranking[:k], start=1):
        if name in gold:
            first.setdefault(name, rank)
    return list(first.values())


def _discount(rank: int) -> float:
    """What a gold page at `rank` (from 1) is worth."""
    return 1 / math.log2(rank + 1)
