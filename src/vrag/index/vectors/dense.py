"""Search over one vector per item, by the dot product.

Scores are dot products of the stored float32 vectors, summed in float64 and rounded to float32: they do
not depend on how many queries are asked at once nor on where a vector lies, and equal vectors tie. What
comes first is a product in float32, of which all that rounding could have moved are scored again.

Single queries over many vectors read a quarter of the bytes first (`Int8Prefilter`). A product with all
vectors takes as long as reading them. There each number is one byte, with a scale per dimension; the query
is quantised too, and FAISS finds the best by integers. By Cauchy and Schwarz no vector scores more than
its bytes do, plus |q| times the greatest distance of a vector from its bytes, plus the distance of the
query from its bytes times the length of the longest vector in bytes. So once the last candidate, with that
much added, stays below the worst of the `top_k` that are found, no other vector can be among the best; if
it does not, more candidates are taken, and finally all vectors are scored.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.index.vectors.array_cache import ArrayContent, drop
from vrag.index.vectors.topk import BatchedIndex, best, shortlist

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.array_cache import StoredArrays
    from vrag.index.vectors.tiers import Tier

BLOCK_SIZE = 8192
"""Vectors multiplied at once."""
_FETCH_SIZE = 1024
"""Vectors fetched at once from scattered places: reading one maps its neighbours too."""
_MIN_PRODUCT_QUERIES = 5
"""Queries from which one product with all vectors costs less than going over their bytes for each."""
_MAX_SCORES = 1 << 24
"""Scores kept at once: 64 MB."""

_INDEX, _SCALES = "index", "scales"
_BYTES_BLOCK_SIZE = 4096
_FIRST_CANDIDATES = 200
"""Candidates at first: their exact scores cost a fiftieth of the product that is saved."""
_MIN_VECTORS_PER_CANDIDATE = 8
"""Below this many vectors per candidate, scoring all vectors is no slower."""


class Vectors:
    """The vectors of items.

    Args:
        numbers: (items, dimension), finite.
        valid: (items,) which items have a vector.
        norm: The greatest length of a vector.
        frugal: Whether to release mapped memory after use: for going over all of it once.
    """

    def __init__(
        self, numbers: NDArray[np.float32], valid: NDArray[np.bool_], norm: float, *, frugal: bool = False
    ) -> None:
        self.numbers = numbers
        self.valid = valid
        self._norm = norm
        self._frugal = frugal

    def frugal(self) -> Vectors:
        """Return the same vectors for a single pass over all of them."""
        return Vectors(self.numbers, self.valid, self._norm, frugal=True)

    def release(self) -> None:
        """Release the memory of what was read, where the vectors are frugal."""
        if self._frugal:
            drop(self.numbers)

    def rows(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some items, (rows, dimension)."""
        vectors = np.empty((len(rows), self.numbers.shape[1]), np.float32)
        for at in range(0, len(rows), _FETCH_SIZE):
            vectors[at : at + _FETCH_SIZE] = self.numbers[rows[at : at + _FETCH_SIZE]]
            self.release()
        return vectors

    def margin(self, query: NDArray[np.float32]) -> float:
        """Bound how far two dot products in float32 can be off together: n·u·|q|·|v| each, in any order.

        Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1, to first order.
        """
        return 2 * len(query) * 2.0**-24 * self._norm * float(np.linalg.norm(query))

    def exact(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the exact scores of some rows, (rows,)."""
        parts = [np.zeros(0, np.float32)]
        for at in range(0, len(rows), BLOCK_SIZE):
            block = self.rows(rows[at : at + BLOCK_SIZE]).astype(np.float64)
            parts.append((block @ query.astype(np.float64)).astype(np.float32))
        return np.concatenate(parts)

    def approximate(
        self, queries: NDArray[np.float32], rows: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        """Return products in float32, (queries, rows); of all items when `rows` is None."""
        count = len(self.numbers) if rows is None else len(rows)
        scores = np.empty((len(queries), count), np.float32)
        for at in range(0, count, BLOCK_SIZE):
            part = slice(at, min(at + BLOCK_SIZE, count))
            block = self.numbers[part] if rows is None else self.rows(rows[part])
            scores[:, part] = (block @ queries.T).T
            self.release()
        return scores

    def scan(
        self, queries: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[list[tuple[int, float]]]:
        """Return the best rows that the mask allows for each of the queries (queries, dimension)."""
        allowed = np.flatnonzero(mask & self.valid)
        few = len(allowed) * 4 < len(mask)  # then fetching them costs less than multiplying all
        scores = self.approximate(queries, allowed if few else None)
        hits: list[list[tuple[int, float]]] = []
        for query, row_scores in zip(queries, scores, strict=True):
            allowed_scores = row_scores if few else row_scores[allowed]
            rows = allowed[shortlist(allowed_scores, top_k, self.margin(query))]
            hits.append(best(rows, self.exact(query, rows), top_k))
        return hits


class ExactDense(BatchedIndex):
    """A `VectorIndex` that scores every vector, or first those of a prefilter for queries that come alone."""

    def __init__(
        self, tier: Tier, ids: Sequence[str], vectors: Vectors, prefilter: Int8Prefilter | None = None
    ) -> None:
        super().__init__(tier, ids, max(1, _MAX_SCORES // max(1, len(ids))))
        self._vectors = vectors
        self._prefilter = prefilter

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        stack, mask = np.stack(queries).astype(np.float32), masks[0]
        if self._prefilter is None or len(stack) >= _MIN_PRODUCT_QUERIES:
            return self._vectors.scan(stack, top_k, mask)
        proven = [self._prefilter.search(self._vectors, query, top_k, mask) for query in stack]
        return [
            self._vectors.scan(query[None], top_k, mask)[0] if hits is None else hits
            for query, hits in zip(stack, proven, strict=True)
        ]


class Int8Prefilter:
    """Vectors as bytes, written by `build_int8`: see the docstring of this module."""

    def __init__(self, stored: StoredArrays) -> None:
        faiss: Any = importlib.import_module("faiss")
        self._index: Any = faiss.deserialize_index(np.asarray(stored.arrays[_INDEX]))
        self._scales: NDArray[np.float32] = stored.arrays[_SCALES]
        self._distance = float(stored.facts["distance"])
        self._longest = float(stored.facts["longest"])

    def search(
        self, vectors: Vectors, query: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[int, float]] | None:
        """Return the best rows that a mask allows; None when that is not proven cheaply: score them all."""
        allowed = mask & vectors.valid
        weighted = query * self._scales
        step = float(np.abs(weighted).max()) / 127 or 1.0
        steps = np.rint(weighted / step).astype(np.float32)
        rounding = float(np.linalg.norm(weighted - step * steps)) * self._longest
        reach = float(np.linalg.norm(query)) * self._distance + rounding + vectors.margin(query)
        wanted = max(_FIRST_CANDIDATES, 2 * top_k) / max(allowed.mean(), 1e-9)
        while wanted * _MIN_VECTORS_PER_CANDIDATE <= len(mask):
            scores, found = self._index.search(steps[None], int(wanted))
            rows = np.sort(found[0][allowed[found[0]]])
            hits = best(rows, vectors.exact(query, rows), top_k)
            if len(hits) == top_k and hits[-1][1] > step * float(scores[0, -1]) + reach:
                return hits
            wanted *= 4
        return None


def build_int8(vectors: Vectors, directory: Path) -> ArrayContent:
    """Write vectors as bytes; raises `OSError` if the disk refuses."""
    faiss: Any = importlib.import_module("faiss")
    count, dimension = vectors.numbers.shape
    largest = np.zeros(dimension, np.float32)
    for at in range(0, count, _BYTES_BLOCK_SIZE):
        largest = np.maximum(largest, np.abs(vectors.numbers[at : at + _BYTES_BLOCK_SIZE]).max(axis=0))
        vectors.release()
    scales = (np.where(largest > 0, largest, 1.0) / 127).astype(np.float32)
    kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
    index = faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)
    distance = longest = 0.0
    for at in range(0, count, _BYTES_BLOCK_SIZE):
        block = vectors.numbers[at : at + _BYTES_BLOCK_SIZE]
        steps = np.rint(block / scales)
        index.add(steps)
        distance = max(distance, float(np.linalg.norm(block - steps * scales, axis=1).max()))
        longest = max(longest, float(np.linalg.norm(steps, axis=1).max()))
        vectors.release()
    size = write_faiss_index(index, directory / _INDEX)
    scales.tofile(directory / _SCALES)
    arrays = {_INDEX: (np.uint8, (size,)), _SCALES: (np.float32, (dimension,))}
    return ArrayContent(arrays, {"distance": distance, "longest": longest})


def write_faiss_index(index: Any, path: Path) -> int:  # noqa: ANN401 - FAISS has no types
    """Write a FAISS index and return its size in bytes; a full disk raises an `OSError`."""
    faiss: Any = importlib.import_module("faiss")
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
    return path.stat().st_size
