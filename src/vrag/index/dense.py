"""Exact search over one vector per item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.store import Collection

__all__ = ["Dense"]


class Dense:
    """Ranks items by the dot product of vectors, computed in float32 over all of them.

    Args:
        ids: Of the items, sorted.
        vectors: (items, dimension); an item whose vector is not finite ranks nowhere.
    """

    def __init__(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._ids = ids
        self._vectors = vectors

    @classmethod
    def load(cls, collection: Collection, ids: Sequence[str]) -> Dense | None:
        """Reads the vectors of items; None when one of the items is no longer there."""
        assert collection.header.embedder is not None
        data: Any = collection.scan(["id", "vector"]).data
        place = {name: number for number, name in enumerate(data["id"].to_pylist())}
        if not place.keys() >= set(ids):
            return None
        column: Any = data.take([place[name] for name in ids])["vector"].combine_chunks()
        flat = column.fill_null([np.nan] * collection.header.embedder.dimension).flatten()
        vectors = np.asarray(flat, np.float32).reshape(len(ids), collection.header.embedder.dimension)
        return cls(ids, vectors)

    def search(
        self, vector: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[str, float]]:
        """The best items where `mask` (items,) holds, best first, ties by id."""
        scores = self._vectors @ np.asarray(vector, np.float32)
        rows = np.flatnonzero(mask & np.isfinite(scores))
        scores = scores[rows]
        if len(rows) > top_k:
            least = np.partition(scores, -top_k)[-top_k]
            rows, scores = rows[scores >= least], scores[scores >= least]
        order = np.lexsort((rows, -scores))[:top_k]
        return [(self._ids[int(rows[i])], float(scores[i])) for i in order]
