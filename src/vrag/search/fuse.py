"""Several rankings of the same things become one."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["reciprocal_rank_fusion"]


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int = 60) -> list[tuple[str, float]]:
    """Fuses rankings by the reciprocal of the rank: score(d) = Σ 1 / (k + rank of d), ranks from 1.

    A ranking in which d is absent adds nothing. Cormack, Clarke and Büttcher 2009, "Reciprocal rank
    fusion outperforms Condorcet and individual rank learning methods", with their k = 60.

    Args:
        rankings: Ids, best first, distinct within each ranking. The order of the rankings is
            indifferent.
        k: How little the difference between the first places weighs.

    Returns:
        Each id once with its score, best first; ties by id.

    >>> [item for item, score in reciprocal_rank_fusion([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            shares[item].append(1 / (k + rank))
    scores = {item: math.fsum(parts) for item, parts in shares.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
