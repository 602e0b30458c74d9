"""Search over many single vectors: candidates by codes of one bit per number, then exact scores of those.

The codes are RaBitQ's (Gao and Long 2024, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
Error Bound for Approximate Nearest Neighbor Search") in inverted lists, by FAISS. How many lists are
looked through is settled by measuring when they are made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from vrag.index.vectors.array_cache import ArrayContent
from vrag.index.vectors.topk import alike, best, named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.dense import Vectors
    from vrag.index.vectors.tiers import Tier

__all__ = ["INDEX", "FaissIndex", "RabitqDense", "build", "load"]

FaissLibrary: TypeAlias = Any
FaissIndex: TypeAlias = Any
"""A `faiss.IndexIVFRaBitQFastScan`."""

INDEX = "index"
"""The FAISS index, as FAISS writes it."""
_TOGETHER = 32
"""Queries asked at once."""
_ADDED = 4096
"""Vectors added at once."""
_SAMPLE_BYTES = 256 << 20
"""Size of the vectors that lists are learnt from at most."""
_PER_LIST = 40
"""Vectors that each list is learnt from; FAISS warns below 39."""
_ITERATIONS = 10
_SEED = 20_260_101

_TRIALS = 128
"""Queries that recall is measured with."""
_CLOSENESS = 0.7
"""Cosine of a query made for trial with the vector that it is made from."""
_ENOUGH = 0.995
"""Recall at which no more lists are looked through."""
_CANDIDATES = (100, 300)
"""Vectors that get exact scores; the greater number where the smaller is not enough."""


class Probe(NamedTuple):
    """How thoroughly the lists are searched."""

    lists: int
    candidates: int


def faiss() -> FaissLibrary:
    """The module `faiss`."""
    return importlib.import_module("faiss")


def build(vectors: Vectors, directory: Path) -> ArrayContent:
    """Writes the index of vectors, and measures how thoroughly it has to be searched.

    Raises:
        OSError: If it cannot be written.
    """
    lib = faiss()
    index = _filled(lib, vectors)
    probe, recall = _trial(lib, index, vectors)
    try:
        lib.write_index(index, str(directory / INDEX))
    except RuntimeError as error:  # FAISS says so when the disk is full
        raise OSError(str(error)) from error
    size = (directory / INDEX).stat().st_size
    return ArrayContent({INDEX: (np.uint8, (size,))}, {"probe": list(probe), "recall": recall})


def load(stored: NDArray[np.uint8]) -> FaissIndex:
    """The index from what was written."""
    return faiss().deserialize_index(np.asarray(stored))


def _filled(lib: FaissLibrary, vectors: Vectors) -> FaissIndex:
    rows = np.flatnonzero(vectors.valid)
    dimension = vectors.numbers.shape[1]
    lists = _lists(len(rows), dimension)
    index = lib.index_factory(dimension, f"IVF{lists},RaBitQfs", lib.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ITERATIONS, _SEED % 2**31
    chance = np.random.default_rng(_SEED)
    sample = np.sort(chance.choice(rows, min(len(rows), max(_PER_LIST * lists, 1000)), replace=False))
    index.train(vectors.rows(sample))
    for at in range(0, len(rows), _ADDED):
        part = rows[at : at + _ADDED]
        index.add_with_ids(vectors.rows(part), part)
    return index


def _lists(count: int, dimension: int) -> int:
    """About the square root of the number of vectors, a power of two, as far as the sample allows."""
    affordable = _SAMPLE_BYTES // (dimension * 4 * _PER_LIST)
    wanted = min(np.sqrt(count), affordable, count / _PER_LIST)
    return 2 ** int(np.log2(max(1.0, wanted)))


def _trial(lib: FaissLibrary, index: FaissIndex, vectors: Vectors) -> tuple[Probe, float]:
    """The least effort that finds enough of the exact best ten, and the share it finds."""
    rows = np.flatnonzero(vectors.valid)
    chance = np.random.default_rng(_SEED)
    chosen = vectors.rows(chance.choice(rows, min(_TRIALS, len(rows)), replace=False))
    lengths = np.linalg.norm(chosen, axis=1, keepdims=True) / np.sqrt(chosen.shape[1])
    noise = chance.standard_normal(chosen.shape, np.float32) * lengths * np.sqrt(1 / _CLOSENESS**2 - 1)
    queries = (chosen + noise).astype(np.float32)
    groups = (queries[at : at + _TOGETHER] for at in range(0, len(queries), _TOGETHER))
    best_ten = (found for group in groups for found in vectors.scan(group, 10, vectors.valid))
    exact = [{row for row, _ in found} for found in best_ten]
    probe, recall = Probe(1, _CANDIDATES[0]), 0.0
    for probe in _probes(int(index.nlist)):
        parameters = lib.SearchParametersIVF(nprobe=probe.lists)
        _, near = index.search(queries, probe.candidates, params=parameters)
        shares = [
            len({row for row, _ in _rescored(vectors, query, found, 10)} & truth) / len(truth)
            for query, found, truth in zip(queries, near, exact, strict=True)
        ]
        recall = float(np.mean(shares))
        if recall >= _ENOUGH:
            break
    return probe, recall


def _probes(lists: int) -> list[Probe]:
    """From little effort to all that is possible."""
    steps = [number for power in range(3, 20) for number in (2**power, 3 * 2 ** (power - 1))]
    return [Probe(step, _CANDIDATES[0]) for step in steps if step < lists] + [
        Probe(lists, c) for c in _CANDIDATES
    ]


def _rescored(
    vectors: Vectors, query: NDArray[np.float32], found: NDArray[np.int64], top_k: int
) -> list[tuple[int, float]]:
    rows = np.sort(found[found >= 0])
    return best(rows, vectors.exact(query, rows), top_k)


class RabitqDense:
    """A `VectorIndex` that finds candidates by their codes and scores them exactly.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        vectors: Their vectors.
        index: Made from them.
        probe: How thoroughly to search it: lists and candidates.
    """

    def __init__(
        self,
        tier: Tier,
        ids: Sequence[str],
        vectors: Vectors,
        index: FaissIndex,
        probe: Sequence[int],
    ) -> None:
        self.tier = tier
        self._ids = ids
        self._vectors = vectors
        self._index = index
        self._probe = Probe(*probe)

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        asked = [number for number, query in enumerate(queries) if np.isfinite(query).all()]
        for group in alike([masks[number] for number in asked], _TOGETHER):
            numbers = [asked[at] for at in group]
            stack = np.stack([queries[number] for number in numbers]).astype(np.float32)
            for number, rows in zip(numbers, self._search(stack, top_k, masks[numbers[0]]), strict=True):
                found[number] = named(self._ids, rows)
        return found

    def _search(
        self, queries: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[list[tuple[int, float]]]:
        allowed = mask & self._vectors.valid
        count = int(allowed.sum())
        candidates = max(self._probe.candidates, top_k + top_k // 2)
        if count <= 10 * candidates:  # scoring them all costs no more
            return self._vectors.scan(queries, top_k, mask)
        near = self._near(queries, candidates, allowed, count)
        return [
            _rescored(self._vectors, query, rows, top_k)
            if (rows >= 0).sum() >= top_k
            else self._vectors.scan(query[None], top_k, mask)[0]
            for query, rows in zip(queries, near, strict=True)
        ]

    def _near(
        self, queries: NDArray[np.float32], candidates: int, allowed: NDArray[np.bool_], count: int
    ) -> NDArray[np.int64]:
        """Candidates for each query, (queries, candidates); −1 where there are no more.

        The fewer items a filter lets through, the more lists are looked through.
        """
        lib = faiss()
        total = int(self._vectors.valid.sum())
        lists = min(int(self._index.nlist), -(-self._probe.lists * total // count))
        parameters = lib.SearchParametersIVF(nprobe=lists)
        selector = lib.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))  # FAISS keeps no hold of it
        if count < total:
            parameters.sel = selector
        return self._index.search(queries, candidates, params=parameters)[1]
