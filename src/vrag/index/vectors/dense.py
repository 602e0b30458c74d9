"""Search over one vector per item, by the dot product.

Scores are dot products of the stored float32 vectors, summed in float64 and rounded to float32: they do
not depend on how many queries are asked at once nor on where a vector lies, and equal vectors tie. What
comes first is a product in float32, of which all that rounding could have moved are scored again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vrag.index.vectors.array_cache import drop
from vrag.index.vectors.topk import alike, best, named, shortlist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.int8_prefilter import Int8Prefilter
    from vrag.index.vectors.tiers import Tier

__all__ = ["ExactDense", "Vectors"]

_BLOCK = 8192
"""Vectors multiplied at once."""
_FETCHED = 1024
"""Vectors fetched at once from here and there: reading one maps its neighbours too."""
_MANY = 5
"""Queries from which one product with all vectors costs less than going over their bytes for each."""
_SCORES = 1 << 24
"""Scores kept at once: 64 MB."""


class Vectors:
    """The vectors of items.

    Args:
        numbers: (items, dimension), finite.
        valid: (items,) which items have a vector.
        norm: The greatest length of a vector.
        frugal: Whether to let go of mapped memory when it has been used: for going over all of it once.
    """

    def __init__(
        self, numbers: NDArray[np.float32], valid: NDArray[np.bool_], norm: float, *, frugal: bool = False
    ) -> None:
        self.numbers = numbers
        self.valid = valid
        self._norm = norm
        self._frugal = frugal

    def frugal(self) -> Vectors:
        """The same, to be gone over once."""
        return Vectors(self.numbers, self.valid, self._norm, frugal=True)

    def used(self) -> None:
        """Is told that what was read is no longer needed."""
        if self._frugal:
            drop(self.numbers)

    def rows(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of some items, (rows, dimension)."""
        made = np.empty((len(rows), self.numbers.shape[1]), np.float32)
        for at in range(0, len(rows), _FETCHED):
            made[at : at + _FETCHED] = self.numbers[rows[at : at + _FETCHED]]
            self.used()
        return made

    def margin(self, query: NDArray[np.float32]) -> float:
        """How far two dot products in float32 can be off together: n·u·|q|·|v| each, whatever the order.

        Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1, to first order.
        """
        return 2 * len(query) * 2.0**-24 * self._norm * float(np.linalg.norm(query))

    def exact(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of some rows, (rows,)."""
        parts = [np.zeros(0, np.float32)]
        for at in range(0, len(rows), _BLOCK):
            block = self.rows(rows[at : at + _BLOCK]).astype(np.float64)
            parts.append((block @ query.astype(np.float64)).astype(np.float32))
        return np.concatenate(parts)

    def near(self, queries: NDArray[np.float32], rows: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Products in float32, (queries, rows); of all items when `rows` is None."""
        count = len(self.numbers) if rows is None else len(rows)
        scores = np.empty((len(queries), count), np.float32)
        for at in range(0, count, _BLOCK):
            part = slice(at, min(at + _BLOCK, count))
            block = self.numbers[part] if rows is None else self.rows(rows[part])
            scores[:, part] = (block @ queries.T).T
            self.used()
        return scores

    def scan(
        self, queries: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[list[tuple[int, float]]]:
        """For each query (queries, dimension) the best rows that one mask lets through."""
        allowed = np.flatnonzero(mask & self.valid)
        few = len(allowed) * 4 < len(mask)  # then fetching them costs less than multiplying all
        scores = self.near(queries, allowed if few else None)
        found: list[list[tuple[int, float]]] = []
        for query, row_scores in zip(queries, scores, strict=True):
            among = row_scores if few else row_scores[allowed]
            rows = allowed[shortlist(among, top_k, self.margin(query))]
            found.append(best(rows, self.exact(query, rows), top_k))
        return found


class ExactDense:
    """A `VectorIndex` that scores every vector.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        vectors: Their vectors.
        screen: The same as bytes, for queries that come alone; None to multiply all of them always.
    """

    def __init__(
        self, tier: Tier, ids: Sequence[str], vectors: Vectors, screen: Int8Prefilter | None = None
    ) -> None:
        self.tier = tier
        self._ids = ids
        self._vectors = vectors
        self._screen = screen

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        asked = [number for number, query in enumerate(queries) if np.isfinite(query).all()]
        for group in alike([masks[number] for number in asked], max(1, _SCORES // max(1, len(self._ids)))):
            numbers = [asked[at] for at in group]
            stack = np.stack([queries[number] for number in numbers]).astype(np.float32)
            for number, rows in zip(numbers, self._scan(stack, top_k, masks[numbers[0]]), strict=True):
                found[number] = named(self._ids, rows)
        return found

    def _scan(
        self, queries: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[list[tuple[int, float]]]:
        if self._screen is None or len(queries) >= _MANY:
            return self._vectors.scan(queries, top_k, mask)
        screened = [self._screen.search(self._vectors, query, top_k, mask) for query in queries]
        return [
            self._vectors.scan(query[None], top_k, mask)[0] if found is None else found
            for query, found in zip(queries, screened, strict=True)
        ]
