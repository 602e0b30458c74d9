"""Exact search over one vector per item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.store import Collection
    from vrag.index.tiers import Tier

__all__ = ["Dense", "ExactDense"]


class ExactDense:
    """Ranks items by the dot product of vectors, computed in float32 over all of them.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        vectors: (items, dimension); an item whose vector is not finite ranks nowhere.
    """

    def __init__(self, tier: Tier, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.tier = tier
        self._ids = ids
        self._vectors = vectors

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        return [self._search(query, top_k, mask) for query, mask in zip(queries, masks, strict=True)]

    def _search(
        self, vector: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[str, float]]:
        scores = self._vectors @ np.asarray(vector, np.float32)
        rows = np.flatnonzero(mask & np.isfinite(scores))
        scores = scores[rows]
        if len(rows) > top_k:
            least = np.partition(scores, -top_k)[-top_k]
            rows, scores = rows[scores >= least], scores[scores >= least]
        order = np.lexsort((rows, -scores))[:top_k]
        return [(self._ids[int(rows[i])], float(scores[i])) for i in order]


class Dense(ExactDense):
    """What the engine uses until it opens vectors through `open_vectors`."""

    @classmethod
    def load(cls, collection: Collection, ids: Sequence[str]) -> Dense | None:
        """Reads the vectors of items; None when one of the items is no longer there."""
        from vrag.index.tiers import Tier, TierName

        assert collection.header.embedder is not None
        data = collection.scan(["id", "vector"]).data
        place = {name: number for number, name in enumerate(data["id"].to_pylist())}
        if not place.keys() >= set(ids):
            return None
        column = data.take([place[name] for name in ids])["vector"].combine_chunks()
        flat = column.fill_null([np.nan] * collection.header.embedder.dimension).flatten()
        vectors = np.asarray(flat, np.float32).reshape(len(ids), collection.header.embedder.dimension)
        return cls(Tier(TierName.EXACT, ""), ids, vectors)

    def search(  # type: ignore[override]
        self, vector: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[str, float]]:
        """The best items where `mask` (items,) holds, best first, ties by id."""
        return self._search(vector, top_k, mask)
