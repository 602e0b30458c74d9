"""Fusion of several rankings into one."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], k: int = 60) -> list[tuple[str, float]]:
    """Fuse rankings by the reciprocal of the rank: score(d) = Σ 1 / (k + rank of d), ranks from 1.

    A ranking in which d is absent adds nothing. Cormack, Clarke and Büttcher 2009, "Reciprocal rank
    fusion outperforms Condorcet and individual rank learning methods", with their k = 60.

    Each ranking has distinct ids, best first; the order of the rankings does not matter. The greater `k`, the
    less the difference between the first places weighs. Each id is returned once with its score, best first;
    ties by id.

    >>> [item for item, score in reciprocal_rank_fusion([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    depth = max(map(len, rankings), default=0)
    weights, unit = _weights(k, 1 << depth.bit_length())
    sums: defaultdict[str, int] = defaultdict(int)
    for ranking in rankings:
        for item, weight in zip(ranking, weights, strict=False):
            sums[item] += weight
    best = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(item, total / unit) for item, total in best]


@lru_cache(maxsize=16)
def _weights(k: int, depth: int) -> tuple[list[int], int]:
    """1 / (k + rank) for ranks from 1, as whole multiples of 1 / unit, and the unit.

    Sums of them are exact: rounding neither makes ties nor parts them.
    """
    unit = math.lcm(*range(k + 1, k + depth + 1))
    return [unit // (k + rank) for rank in range(1, depth + 1)], unit
