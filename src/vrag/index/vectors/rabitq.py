"""Search over many single vectors: candidates by codes of one bit per number, then exact scores of those.

The codes are RaBitQ's (Gao and Long 2024, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
Error Bound for Approximate Nearest Neighbor Search") in inverted lists, by FAISS. How many lists are
searched is decided by measuring when they are built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from vrag.index.vectors.array_cache import ArrayContent
from vrag.index.vectors.dense import write_faiss_index
from vrag.index.vectors.topk import BatchedIndex, best

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.dense import Vectors
    from vrag.index.vectors.tiers import Tier

FaissIndex: TypeAlias = Any
"""A `faiss.IndexIVFRaBitQFastScan`."""

INDEX = "index"
"""The file of the FAISS index."""
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


class Probe(NamedTuple):
    """Options of the search through the lists."""

    lists: int
    candidates: int


def build(vectors: Vectors, directory: Path) -> ArrayContent:
    """Write the index of vectors, and measure the necessary effort; raises `OSError` if the disk refuses."""
    faiss: Any = importlib.import_module("faiss")
    rows = np.flatnonzero(vectors.valid)
    dimension = vectors.numbers.shape[1]
    lists = _count_lists(len(rows), dimension)
    index = faiss.index_factory(dimension, f"IVF{lists},RaBitQfs", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ITERATIONS, _SEED % 2**31
    chance = np.random.default_rng(_SEED)
    sample = np.sort(chance.choice(rows, min(len(rows), max(_PER_LIST * lists, 1000)), replace=False))
    index.train(vectors.rows(sample))
    for at in range(0, len(rows), _ADD_SIZE):
        part = rows[at : at + _ADD_SIZE]
        index.add_with_ids(vectors.rows(part), part)
    probe, recall = _measure(faiss, index, vectors)
    size = write_faiss_index(index, directory / INDEX)
    return ArrayContent({INDEX: (np.uint8, (size,))}, {"probe": list(probe), "recall": recall})


def load(stored: NDArray[np.uint8]) -> FaissIndex:
    """Load the index from the bytes that `build` has written."""
    faiss: Any = importlib.import_module("faiss")
    return faiss.deserialize_index(np.asarray(stored))


def _count_lists(count: int, dimension: int) -> int:
    """About the square root of the number of vectors, a power of two, as far as the sample allows."""
    affordable = _MAX_SAMPLE_BYTES // (dimension * 4 * _PER_LIST)
    wanted = min(np.sqrt(count), affordable, count / _PER_LIST)
    return 2 ** int(np.log2(max(1.0, wanted)))


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
    probe, recall = Probe(1, _CANDIDATES[0]), 0.0
    for probe in _probes(int(index.nlist)):
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


def _probes(lists: int) -> list[Probe]:
    """From little effort to all that is possible."""
    steps = [number for power in range(3, 20) for number in (2**power, 3 * 2 ** (power - 1))]
    partial = [Probe(step, _CANDIDATES[0]) for step in steps if step < lists]
    return [*partial, *(Probe(lists, candidates) for candidates in _CANDIDATES)]


def _rescore(
    vectors: Vectors, query: NDArray[np.float32], found: NDArray[np.int64], top_k: int
) -> list[tuple[int, float]]:
    rows = np.sort(found[found >= 0])
    return best(rows, vectors.exact(query, rows), top_k)


class RabitqDense(BatchedIndex):
    """A `VectorIndex` that finds candidates by their codes and scores them exactly.

    `probe` is how thoroughly to search: lists and candidates.
    """

    def __init__(
        self, tier: Tier, ids: Sequence[str], vectors: Vectors, index: FaissIndex, probe: Sequence[int]
    ) -> None:
        super().__init__(tier, ids, _BATCH_SIZE)
        self._vectors = vectors
        self._index = index
        self._probe = Probe(*probe)

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        stack, mask = np.stack(queries).astype(np.float32), masks[0]
        allowed = mask & self._vectors.valid
        count = int(allowed.sum())
        candidates = max(self._probe.candidates, top_k + top_k // 2)
        if count <= 10 * candidates:  # scoring them all costs no more
            return self._vectors.scan(stack, top_k, mask)
        found = self._find_candidates(stack, candidates, allowed, count)
        return [
            _rescore(self._vectors, query, rows, top_k)
            if (rows >= 0).sum() >= top_k
            else self._vectors.scan(query[None], top_k, mask)[0]
            for query, rows in zip(stack, found, strict=True)
        ]

    def _find_candidates(
        self, queries: NDArray[np.float32], candidates: int, allowed: NDArray[np.bool_], count: int
    ) -> NDArray[np.int64]:
        """Return candidates for each query, (queries, candidates); −1 where there are no more.

        The fewer items a filter allows, the more lists are searched.
        """
        faiss: Any = importlib.import_module("faiss")
        total = int(self._vectors.valid.sum())
        lists = min(int(self._index.nlist), -(-self._probe.lists * total // count))
        parameters = faiss.SearchParametersIVF(nprobe=lists)
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))  # FAISS keeps no reference
        if count < total:
            parameters.sel = selector
        return self._index.search(queries, candidates, params=parameters)[1]
