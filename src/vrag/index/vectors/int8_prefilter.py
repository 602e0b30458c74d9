"""Exact search over many single vectors that reads a quarter of them: bytes first, then proof.

A product with all vectors takes as long as reading them. Here each number is one byte, with a scale per
dimension; the query is made bytes too, and FAISS finds the best by integers. By Cauchy and Schwarz no
vector scores more than its bytes do, plus |q| times the greatest distance of a vector from its bytes,
plus the distance of the query from its bytes times the length of the longest vector in bytes. So once
the last candidate, with that much added, stays below the worst of the `top_k` that are found, no other
vector can be among the best; if it does not, more candidates are taken, and in the end all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.index.vectors.array_cache import ArrayContent
from vrag.index.vectors.topk import best

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.vectors.array_cache import StoredArrays
    from vrag.index.vectors.dense import Vectors

__all__ = ["Int8Prefilter", "build"]

FaissIndex: TypeAlias = Any
"""A `faiss.IndexScalarQuantizer`."""

_INDEX, _SCALES = "index", "scales"
_BLOCK = 4096
_FIRST = 200
"""Candidates at first: their exact scores cost a fiftieth of the product that is saved."""
_LAST = 8
"""Share of the vectors, one in so many, from which scoring all costs no more."""


def build(vectors: Vectors, directory: Path) -> ArrayContent:
    """Writes vectors as bytes.

    Raises:
        OSError: If they cannot be written.
    """
    lib: Any = importlib.import_module("faiss")
    count, dimension = vectors.numbers.shape
    most = np.zeros(dimension, np.float32)
    for at in range(0, count, _BLOCK):
        most = np.maximum(most, np.abs(vectors.numbers[at : at + _BLOCK]).max(axis=0))
        vectors.used()
    scales = (np.where(most > 0, most, 1.0) / 127).astype(np.float32)
    kind = lib.ScalarQuantizer.QT_8bit_direct_signed
    index = lib.IndexScalarQuantizer(dimension, kind, lib.METRIC_INNER_PRODUCT)
    distance = longest = 0.0
    for at in range(0, count, _BLOCK):
        block = vectors.numbers[at : at + _BLOCK]
        steps = np.rint(block / scales)
        index.add(steps)
        distance = max(distance, float(np.linalg.norm(block - steps * scales, axis=1).max()))
        longest = max(longest, float(np.linalg.norm(steps, axis=1).max()))
        vectors.used()
    try:
        lib.write_index(index, str(directory / _INDEX))
    except RuntimeError as error:  # FAISS says so when the disk is full
        raise OSError(str(error)) from error
    scales.tofile(directory / _SCALES)
    size = (directory / _INDEX).stat().st_size
    arrays = {_INDEX: (np.uint8, (size,)), _SCALES: (np.float32, (dimension,))}
    return ArrayContent(arrays, {"distance": distance, "longest": longest})


class Int8Prefilter:
    """Vectors as bytes.

    Args:
        stored: What `build` has written.
    """

    def __init__(self, stored: StoredArrays) -> None:
        lib: Any = importlib.import_module("faiss")
        self._index: FaissIndex = lib.deserialize_index(np.asarray(stored.arrays[_INDEX]))
        self._scales: NDArray[np.float32] = stored.arrays[_SCALES]
        self._distance = float(stored.facts["distance"])
        self._longest = float(stored.facts["longest"])

    def search(
        self, vectors: Vectors, query: NDArray[np.float32], top_k: int, mask: NDArray[np.bool_]
    ) -> list[tuple[int, float]] | None:
        """The best rows that a mask lets through; None when that is not proven cheaply: score them all.

        Args:
            vectors: What the bytes were made from.
            query: (dimension,).
            top_k: How many at most.
            mask: (items,) which may be found.
        """
        allowed = mask & vectors.valid
        share = allowed.mean()
        step, steps, off = self._steps(query)
        reach = float(np.linalg.norm(query)) * self._distance + off + vectors.margin(query)
        wanted = max(_FIRST, 2 * top_k) / max(share, 1e-9)
        while wanted * _LAST <= len(mask):
            near, found = self._index.search(steps[None], int(wanted))
            rows = np.sort(found[0][allowed[found[0]]])
            chosen = best(rows, vectors.exact(query, rows), top_k)
            if len(chosen) == top_k and chosen[-1][1] > step * float(near[0, -1]) + reach:
                return chosen
            wanted *= 4
        return None

    def _steps(self, query: NDArray[np.float32]) -> tuple[float, NDArray[np.float32], float]:
        """A query as a step times whole numbers up to 127, and how far that can move a score."""
        weighted = query * self._scales
        step = float(np.abs(weighted).max()) / 127 or 1.0
        steps = np.rint(weighted / step).astype(np.float32)
        return step, steps, float(np.linalg.norm(weighted - step * steps)) * self._longest
