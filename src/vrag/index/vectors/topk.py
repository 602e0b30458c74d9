"""The best of many scores in one deterministic order, and the base class of all vector indexes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import Tier


class BatchedIndex(ABC):
    """A `VectorIndex` that searches queries in batches. Subclasses find rows, of items sorted by id."""

    SHARES_MASK: ClassVar[bool] = True
    """True if all queries of a batch must have equal masks."""

    def __init__(self, tier: Tier, ids: Sequence[str], batch_size: int) -> None:
        self.tier = tier
        self._ids = ids
        self._batch_size = batch_size

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """Search as `VectorIndex` describes."""
        hits: list[list[tuple[str, float]]] = [[] for _ in queries]
        usable = [number for number, query in enumerate(queries) if len(query) and np.isfinite(query).all()]
        for batch in self._batches(usable, masks):
            found = self._search_rows([queries[n] for n in batch], top_k, [masks[n] for n in batch])
            for number, rows in zip(batch, found, strict=True):
                hits[number] = [(self._ids[row], score) for row, score in rows]
        return hits

    @abstractmethod
    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        """Return the best rows of each query with their scores, best first."""

    def _batches(self, usable: Sequence[int], masks: Sequence[NDArray[np.bool_]]) -> Iterator[list[int]]:
        groups: dict[bytes, list[int]] = {}
        for number in usable:
            groups.setdefault(masks[number].tobytes() if self.SHARES_MASK else b"", []).append(number)
        for numbers in groups.values():
            for start in range(0, len(numbers), self._batch_size):
                yield numbers[start : start + self._batch_size]


def best(rows: NDArray[np.int64], scores: NDArray[np.floating], top_k: int) -> list[tuple[int, float]]:
    """Return the `top_k` rows with the highest finite scores, best first, ties by row.

    >>> best(np.array([3, 5, 7]), np.array([1.0, 2.0, 1.0]), 2)
    [(5, 2.0), (3, 1.0)]
    """
    kept = shortlist(scores, top_k, 0.0)
    order = np.lexsort((rows[kept], -scores[kept]))[:top_k]
    return [(int(rows[at]), float(scores[at])) for at in kept[order]]


def shortlist(scores: NDArray[np.floating], top_k: int, margin: float) -> NDArray[np.int64]:
    """Return the places of the finite scores at most `margin` below the `top_k`-th highest, ascending."""
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite) <= top_k:
        return finite
    among = scores[finite]
    least = np.partition(among, len(among) - top_k)[len(among) - top_k]
    return finite[among >= least - margin]
