"""Late interaction over many pages: candidates by averaged neighbours, then exact scores of those.

Each group of `FACTOR` consecutive vectors of an item becomes one: their mean, brought to their mean
length. Averages are kept as bytes with one scale per item, and multiplied by queries of seven bits.
Candidates get exact scores from the stored vectors, so that what is found is ranked as exact search
would rank it; what can be missed is measured when the averages are made.

`benchmarks/pooling.py` prints what factor, length and bits cost in recall.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.index.vectors.maxsim import BATCH_SIZE, Queries, map_threads, multiply_int8, runs
from vrag.index.vectors.tiers import VectorIndex, best, shortlist
from vrag.storage.array_cache import ArrayContent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.maxsim import PageRun, Pages
    from vrag.index.vectors.tiers import Tier

FACTOR = 8
"""Vectors that become one. Of 1,000 pages, 100 candidates hold 98.8 to 100 % of the exact best ten."""
MIN_CANDIDATES = 100
"""Items that get exact scores at least: some 8 ms of one core where they have 768 vectors each."""
MAX_CANDIDATES = 1000
_BLOCK_SIZE = 8192
"""Vectors pooled or multiplied at once."""
_CODES, _STARTS, _LENGTHS, _SCALES = "codes", "starts", "lengths", "scales"
_ZERO = 128
"""The byte that stands for 0."""
MAX_STEPS = 63
"""Greatest number in a query: see `multiply_int8`."""

_TRIAL_QUERIES = 24
"""Queries that recall is measured with."""
_TRIAL_VECTORS = 16
_NEIGHBOURS = 8
"""Consecutive vectors that every other trial query is made from."""
_CLOSENESS = 0.7
"""Cosine of a vector of a trial query with the vector of an item that it is made from."""


def pool(vectors: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    """Average consecutive vectors: (vectors, dimension) to (⌈vectors / factor⌉, dimension).

    >>> pool(np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 2.0]], np.float32), 2).tolist()
    [[4.0, 0.0], [0.0, 2.0]]
    """
    return _average(vectors, np.arange(0, len(vectors), factor))


def _average(vectors: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Average each group that begins at one of `starts`, at the mean length of its vectors."""
    counts = np.diff(starts, append=len(vectors)).astype(np.float32)
    sums = np.add.reduceat(vectors, starts, axis=0)
    lengths = np.add.reduceat(np.linalg.norm(vectors, axis=1), starts) / counts
    norms = np.linalg.norm(sums, axis=1)
    return sums * (lengths / np.where(norms > 0, norms, 1.0)).astype(np.float32)[:, None]


class PooledVectors:
    """Averaged vectors of items as bytes: `codes` (averages, dimension), those of each item in one piece.

    For each item, (items,), `starts` says where they begin, `lengths` how many there are, and `scales` what a
    step of a byte stands for.
    """

    def __init__(
        self,
        codes: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        scales: NDArray[np.float32],
    ) -> None:
        self._codes = codes
        self._scales = scales
        self._runs = list(runs(starts, lengths, np.flatnonzero(lengths > 0), _BLOCK_SIZE))

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> PooledVectors:
        """Use what `build` has written."""
        return cls(arrays[_CODES], arrays[_STARTS], arrays[_LENGTHS], arrays[_SCALES])

    def scores(self, queries: Queries) -> NDArray[np.float32]:
        """Compute MaxSim with the averages, (items, queries); −inf for items without vectors."""
        steps = np.abs(queries.columns).max(axis=0) / MAX_STEPS
        codes = np.rint(queries.columns / np.where(steps > 0, steps, 1.0)).astype(np.int8)
        zero = _ZERO * codes.sum(axis=0, dtype=np.int32)

        def score(run: PageRun) -> NDArray[np.float64]:
            product = multiply_int8(self._codes[run.begin : run.end], codes)
            maxima = (np.maximum.reduceat(product, run.starts, axis=0) - zero) * steps
            return queries.sums(maxima) * self._scales[run.rows, None]

        scores = np.full((len(self._scales), queries.count), -np.inf, np.float32)
        for run, part in zip(self._runs, map_threads(score, self._runs), strict=True):
            scores[run.rows] = part
        return scores


def build(pages: Pages, directory: Path) -> ArrayContent:
    """Write averages of the vectors and measure their recall; raises `OSError` if the disk refuses."""
    items = len(pages.lengths)
    lengths = -(-pages.lengths // FACTOR)
    starts = np.zeros(items, np.int64)
    scales = np.zeros(items, np.float32)
    written = 0
    with (directory / _CODES).open("wb") as file:
        for run in runs(pages.starts, pages.lengths, np.flatnonzero(pages.lengths > 0), _BLOCK_SIZE):
            counts = lengths[run.rows]
            ends = np.cumsum(counts)
            starts[run.rows] = written + ends - counts
            codes, scales[run.rows] = _encode(pages, run, counts)
            file.write(codes.data)
            written += len(codes)
            pages.release()
    shape = written, pages.vectors.shape[1]
    arrays: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {_CODES: (np.uint8, shape)}
    for name, array in {_STARTS: starts, _LENGTHS: lengths, _SCALES: scales}.items():
        array.tofile(directory / name)
        arrays[name] = array.dtype.type, array.shape
    codes = np.zeros(shape, np.uint8)
    if written:
        codes = np.memmap(directory / _CODES, np.uint8, "r", shape=shape)
    candidates, recall = _measure(pages, PooledVectors(codes, starts, lengths, scales))
    return ArrayContent(arrays, {"candidates": candidates, "recall": recall})


def _encode(
    pages: Pages, run: PageRun, counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return the averages of a run of items as bytes, and the scale of each item."""
    first = np.cumsum(counts) - counts
    within: NDArray[np.int64] = np.arange(int(counts.sum())) - np.repeat(first, counts)
    vectors = pages.vectors[run.begin : run.end].astype(np.float32)
    averages = _average(vectors, np.repeat(run.starts, counts) + FACTOR * within)
    largest = np.maximum.reduceat(np.abs(averages).max(axis=1), first)
    scales = (np.where(largest > 0, largest, 1.0) / (_ZERO - 1)).astype(np.float32)
    return (np.rint(averages / np.repeat(scales, counts)[:, None]) + _ZERO).astype(np.uint8), scales


def _measure(pages: Pages, averages: PooledVectors) -> tuple[int, float]:
    """Find the number of candidates that hold 99 % of the exact best ten, within bounds, and their share."""
    rows = np.flatnonzero(pages.lengths > 0)
    if not len(rows):
        return MIN_CANDIDATES, 1.0
    trials = _trial_queries(pages, rows)
    queries = Queries([query for _, query in zip(range(_TRIAL_QUERIES), trials, strict=False)])
    order, exact = pages.scores(queries, rows)
    near = averages.scores(queries)
    ranks: list[int] = []
    for number in range(queries.count):
        for row, _ in best(order, exact[:, number], 10):
            ranks.append(int((near[:, number] > near[row, number]).sum()) + 1)
    needed = int(np.ceil(np.quantile(ranks, 0.99) / 50) * 50)
    candidates = min(max(needed, MIN_CANDIDATES), MAX_CANDIDATES)
    return candidates, float(np.mean(np.asarray(ranks) <= candidates))


def _trial_queries(pages: Pages, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
    """Make queries from items: some of the vectors of one, with noise; the same at every build.

    In turn from anywhere, and all from some neighbours: a query may ask for one cell of a table.
    """
    chance = np.random.default_rng(len(rows))
    for within in cycle((None, _NEIGHBOURS)):
        page = pages.page(int(chance.choice(rows)))
        if within is not None:
            start = int(chance.integers(max(1, len(page) - within + 1)))
            page = page[start : start + within]
        places = chance.choice(len(page), min(_TRIAL_VECTORS, len(page)), replace=False)
        chosen = page[places].astype(np.float32)
        noise = chance.standard_normal(chosen.shape, np.float32) / np.sqrt(chosen.shape[1])
        lengths = np.linalg.norm(chosen, axis=1, keepdims=True)
        yield chosen + noise * lengths * np.float32(np.sqrt(1 / _CLOSENESS**2 - 1))


class PooledMaxSim(VectorIndex):
    """A `VectorIndex` that finds candidates by averages and scores at least so many exactly."""

    SHARES_MASK = False

    def __init__(
        self, tier: Tier, ids: Sequence[str], pages: Pages, averages: PooledVectors, candidates: int
    ) -> None:
        super().__init__(tier, ids, BATCH_SIZE)
        self._pages = pages
        self.averages = averages
        self._candidates = candidates

    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        scores = self.averages.scores(Queries(queries))
        has_vectors = self._pages.lengths > 0
        found: list[list[tuple[int, float]]] = []
        for query, near, mask in zip(queries, scores.T, masks, strict=True):
            allowed = np.flatnonzero(mask & has_vectors)
            count = max(self._candidates, top_k + top_k // 2)
            rows = allowed[shortlist(near[allowed], count, 0.0)]
            exact = np.zeros((0, 1), np.float32)
            if len(rows):
                rows, exact = self._pages.scores(Queries([query]), rows)
            found.append(best(rows, exact[:, 0], top_k))
        return found
