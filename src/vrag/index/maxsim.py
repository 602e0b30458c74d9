"""Late interaction: many vectors per item, compared by MaxSim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.tiers import Tier

__all__ = ["ExactMaxSim"]


class ExactMaxSim:
    """Ranks items by MaxSim over all of them. Σ over query vectors of max over item vectors of the dot product.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        pages: For each (vectors, dimension); an item without vectors ranks nowhere.
    """

    def __init__(self, tier: Tier, ids: Sequence[str], pages: Sequence[NDArray[np.floating]]) -> None:
        self.tier = tier
        self._ids = ids
        self._pages = pages

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        return [self._search(query, top_k, mask) for query, mask in zip(queries, masks, strict=True)]

    def _search(
        self, query: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[str, float]]:
        found = [(row, self._score(query, self._pages[row])) for row in np.flatnonzero(mask)]
        best = sorted((-score, int(row)) for row, score in found if np.isfinite(score))[:top_k]
        return [(self._ids[row], -score) for score, row in best]

    def _score(self, query: NDArray[np.float32], page: NDArray[np.floating]) -> float:
        if not len(page):
            return -np.inf
        return float((np.asarray(query, np.float32) @ page.astype(np.float32).T).max(axis=1).sum())
