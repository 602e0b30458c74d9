"""Search over many vectors per item, by late interaction.

MaxSim(query, item) = Σ over query vectors of the max over item vectors of their dot product (Khattab and
Zaharia 2020, "ColBERT", equation 3). There is no division by lengths. Vectors are stored as float16;
exact scores are those of the stored vectors, multiplied in float32. Items have as many vectors as they
have: nothing is padded. An item without vectors is found by no query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vrag.index.vectors.array_cache import drop
from vrag.index.vectors.onnx_matmul import product_of_halves
from vrag.index.vectors.threads import spread
from vrag.index.vectors.topk import alike, best, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.vectors.tiers import Tier

__all__ = ["ExactMaxSim", "PageRun", "Pages", "Queries", "runs"]

_BLOCK = 3072
"""Vectors multiplied at once: 1.5 MB as float32 stay near the processor."""
_TOGETHER = 16
"""Queries multiplied at once."""


class PageRun(NamedTuple):
    """Items whose vectors lie one after the other."""

    begin: int
    """Of the vectors of the first."""
    end: int
    """Of those of the last."""
    rows: NDArray[np.int64]
    """The items."""
    starts: NDArray[np.int64]
    """Where the vectors of each begin, from that of the run."""


def runs(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64], block: int
) -> Iterator[PageRun]:
    """Cuts items into runs of about `block` vectors at most, in the order in which they are stored.

    Args:
        starts: (items,) where the vectors of each begin.
        lengths: (items,) how many there are; at least 1 for those among `rows`.
        rows: Which items.
        block: Vectors of a run at most, unless those of one item are more.
    """
    rows = rows[np.argsort(starts[rows], kind="stable")]
    begins, ends = starts[rows], starts[rows] + lengths[rows]
    gaps: list[int] = (np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist()
    first = 0
    for last in [*gaps, len(rows)]:
        while first < last:
            fits: int = np.searchsorted(ends[first:last], int(begins[first]) + block, side="right").item()
            after = first + max(1, fits)
            part = slice(first, after)
            yield PageRun(int(begins[first]), int(ends[after - 1]), rows[part], begins[part] - begins[first])
            first = after


class Queries:
    """Queries side by side, to be multiplied at once.

    Args:
        queries: Each (vectors, dimension) with at least one vector, all of them finite.
    """

    def __init__(self, queries: Sequence[NDArray[np.float32]]) -> None:
        self.count = len(queries)
        lengths = [len(query) for query in queries]
        self._starts = np.cumsum([0, *lengths[:-1]])
        self.columns = np.ascontiguousarray(np.concatenate(queries).T, dtype=np.float32)
        """(dimension, vectors of all queries)."""

    def sums(self, most: NDArray[np.floating]) -> NDArray[np.float64]:
        """Adds up what each query's vectors found: (items, vectors of all queries) to (items, queries)."""
        return np.add.reduceat(most, self._starts, axis=1, dtype=np.float64)


class Pages:
    """The vectors of items as they are stored.

    Args:
        vectors: (vectors, dimension), finite.
        starts: (items,) where those of each item begin.
        lengths: (items,) how many it has.
        frugal: Whether to let go of mapped memory when it has been used: for going over all of it once.
    """

    def __init__(
        self,
        vectors: NDArray[np.float16],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        *,
        frugal: bool = False,
    ) -> None:
        self.vectors = vectors
        self.starts = starts
        self.lengths = lengths
        self._frugal = frugal

    def frugal(self) -> Pages:
        """The same, to be gone over once."""
        return Pages(self.vectors, self.starts, self.lengths, frugal=True)

    def used(self) -> None:
        """Is told that what was read is no longer needed."""
        if self._frugal:
            drop(self.vectors)

    def page(self, row: int) -> NDArray[np.float16]:
        """The vectors of one item, (vectors, dimension)."""
        return self.vectors[self.starts[row] : self.starts[row] + self.lengths[row]]

    def scores(
        self, queries: Queries, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """MaxSim of queries with some items, at least one, all of which have vectors.

        Returns:
            The rows in the order in which they are stored, and scores (rows, queries).
        """
        todo = list(runs(self.starts, self.lengths, rows, _BLOCK))
        scores = spread(lambda run: self._scored(run, queries), todo)
        return np.concatenate([run.rows for run in todo]), np.concatenate(scores).astype(np.float32)

    def _scored(self, run: PageRun, queries: Queries) -> NDArray[np.float64]:
        product = product_of_halves(self.vectors[run.begin : run.end], queries.columns)
        scores = queries.sums(np.maximum.reduceat(product, run.starts, axis=0))
        self.used()
        return scores


class ExactMaxSim:
    """A `VectorIndex` that scores every vector of every item.

    Args:
        tier: How it came to be chosen.
        ids: Of the items, sorted.
        pages: Their vectors.
    """

    def __init__(self, tier: Tier, ids: Sequence[str], pages: Pages) -> None:
        self.tier = tier
        self._ids = ids
        self._pages = pages

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """See `VectorIndex`."""
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        asked = [number for number, query in enumerate(queries) if len(query) and np.isfinite(query).all()]
        for group in alike([masks[number] for number in asked], _TOGETHER):
            numbers = [asked[at] for at in group]
            best_of = self._search([queries[number] for number in numbers], top_k, masks[numbers[0]])
            for number, rows in zip(numbers, best_of, strict=True):
                found[number] = named(self._ids, rows)
        return found

    def _search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, mask: NDArray[np.bool_]
    ) -> list[list[tuple[int, float]]]:
        rows = np.flatnonzero(mask & (self._pages.lengths > 0))
        if not len(rows):
            return [[] for _ in queries]
        order, scores = self._pages.scores(Queries(queries), rows)
        return [best(order, scores[:, number], top_k) for number in range(len(queries))]
