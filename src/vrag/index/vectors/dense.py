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

Many vectors (`RabitqDense`) get candidates by codes of one bit per number, then exact scores of those.
The codes are RaBitQ's (Gao and Long 2024, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
Error Bound for Approximate Nearest Neighbor Search") in inverted lists, by FAISS. How many lists are
searched is decided by measuring when they are built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from vrag.index.vectors.tiers import VectorIndex, best, shortlist
from vrag.storage.array_cache import ArrayContent, drop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import Tier
    from vrag.storage.array_cache import StoredArrays

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
_BATCH_SIZE = 32
"""Queries searched at once."""
_ADD_SIZE = 4096
"""Vectors added at once."""
_MAX_SAMPLE_BYTES = 256 << 20
"""Size of the vectors that the lists are trained on at most."""
_PER_LIST = 40
"""Vectors that each list is trained on; FAISS warns below 39."""
_ITERATIONS = 10
_SEED = 20_260_101

_TRIAL_QUERIES = 128
"""Queries that recall is measured with."""
_CLOSENESS = 0.7
"""Cosine of a trial query with the vector that it is made from."""
_ENOUGH_RECALL = 0.995
"""Recall at which no more lists are searched."""
_CANDIDATES = (100, 300)
"""Vectors that get exact scores; the greater number where the smaller is not enough."""


class Vectors:
    """The vectors of items: `numbers` (items, dimension), finite, and `valid` (items,), which have one.

    `norm` is the greatest length of a vector; with `frugal`, mapped memory is released after use.
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


class ExactDense(VectorIndex):
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


FaissIndex: TypeAlias = Any
"""A `faiss.IndexIVFRaBitQFastScan`."""


class Probe(NamedTuple):
    """Options of the search through the lists."""

    lists: int
    candidates: int


def build_rabitq(vectors: Vectors, directory: Path) -> ArrayContent:
    """Write the index of vectors, and measure the necessary effort; raises `OSError` if the disk refuses."""
    faiss: Any = importlib.import_module("faiss")
    rows = np.flatnonzero(vectors.valid)
    dimension = vectors.numbers.shape[1]
    # About the square root of the number of vectors, a power of two, as far as the sample allows.
    affordable = _MAX_SAMPLE_BYTES // (dimension * 4 * _PER_LIST)
    lists = 2 ** int(np.log2(max(1.0, min(np.sqrt(len(rows)), affordable, len(rows) / _PER_LIST))))
    index = faiss.index_factory(dimension, f"IVF{lists},RaBitQfs", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ITERATIONS, _SEED % 2**31
    chance = np.random.default_rng(_SEED)
    sample = np.sort(chance.choice(rows, min(len(rows), max(_PER_LIST * lists, 1000)), replace=False))
    index.train(vectors.rows(sample))
    for at in range(0, len(rows), _ADD_SIZE):
        part = rows[at : at + _ADD_SIZE]
        index.add_with_ids(vectors.rows(part), part)
    probe, recall = _measure(faiss, index, vectors)
    size = write_faiss_index(index, directory / _INDEX)
    return ArrayContent({_INDEX: (np.uint8, (size,))}, {"probe": list(probe), "recall": recall})


def _measure(faiss: Any, index: FaissIndex, vectors: Vectors) -> tuple[Probe, float]:  # noqa: ANN401
    """Return the least effort that finds enough of the exact best ten, and the share it finds."""
    rows = np.flatnonzero(vectors.valid)
    chance = np.random.default_rng(_SEED)
    chosen = vectors.rows(chance.choice(rows, min(_TRIAL_QUERIES, len(rows)), replace=False))
    lengths = np.linalg.norm(chosen, axis=1, keepdims=True) / np.sqrt(chosen.shape[1])
    noise = chance.standard_normal(chosen.shape, np.float32) * lengths * np.sqrt(1 / _CLOSENESS**2 - 1)
    queries = (chosen + noise).astype(np.float32)
    groups = (queries[at : at + _BATCH_SIZE] for at in range(0, len(queries), _BATCH_SIZE))
    best_ten = (hits for group in groups for hits in vectors.scan(group, 10, vectors.valid))
    exact = [{row for row, _ in hits} for hits in best_ten]
    probe, recall, lists = Probe(1, _CANDIDATES[0]), 0.0, int(index.nlist)
    steps = [number for power in range(3, 20) for number in (2**power, 3 * 2 ** (power - 1))]
    partial = [Probe(step, _CANDIDATES[0]) for step in steps if step < lists]
    for probe in (*partial, *(Probe(lists, candidates) for candidates in _CANDIDATES)):
        parameters = faiss.SearchParametersIVF(nprobe=probe.lists)
        _, candidates = index.search(queries, probe.candidates, params=parameters)
        shares = [
            len({row for row, _ in _rescore(vectors, query, found, 10)} & truth) / len(truth)
            for query, found, truth in zip(queries, candidates, exact, strict=True)
        ]
        recall = float(np.mean(shares))
        if recall >= _ENOUGH_RECALL:
            break
    return probe, recall


def _rescore(
    vectors: Vectors, query: NDArray[np.float32], found: NDArray[np.int64], top_k: int
) -> list[tuple[int, float]]:
    rows = np.sort(found[found >= 0])
    return best(rows, vectors.exact(query, rows), top_k)


class RabitqDense(VectorIndex):
    """A `VectorIndex` that finds candidates by the codes of `build_rabitq` and scores them exactly."""

    def __init__(self, tier: Tier, ids: Sequence[str], vectors: Vectors, stored: StoredArrays) -> None:
        super().__init__(tier, ids, _BATCH_SIZE)
        self._vectors = vectors
        faiss: Any = importlib.import_module("faiss")
        self._index: FaissIndex = faiss.deserialize_index(np.asarray(stored.arrays[_INDEX]))
        self._probe = Probe(*stored.facts["probe"])

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        stack, mask = np.stack(queries).astype(np.float32), masks[0]
        allowed = mask & self._vectors.valid
        count = int(allowed.sum())
        candidates = max(self._probe.candidates, top_k + top_k // 2)
        if count <= 10 * candidates:  # scoring them all costs no more
            return self._vectors.scan(stack, top_k, mask)
        # The fewer items a filter allows, the more lists are searched.
        faiss: Any = importlib.import_module("faiss")
        total = int(self._vectors.valid.sum())
        lists = min(int(self._index.nlist), -(-self._probe.lists * total // count))
        parameters = faiss.SearchParametersIVF(nprobe=lists)
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))  # FAISS keeps no reference
        if count < total:
            parameters.sel = selector
        found = self._index.search(stack, candidates, params=parameters)[1]  # −1 where there are no more
        return [
            _rescore(self._vectors, query, rows, top_k)
            if (rows >= 0).sum() >= top_k
            else self._vectors.scan(query[None], top_k, mask)[0]
            for query, rows in zip(stack, found, strict=True)
        ]
