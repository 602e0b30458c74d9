"""The vectors of a collection as they are stored, in files that can be mapped into memory.

The table is the source of truth; it is read once, some rows at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.index.tables.schema import STORED
from vrag.index.vectors.array_cache import ArrayContent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.collection import Collection

__all__ = ["LENGTHS", "STARTS", "VALID", "VECTORS", "gather"]

VECTORS = "vectors"
"""Single: (items, dimension) float32, those that are missing or not finite as zeros. Multi: (vectors,
dimension) float16, each item's in one piece, in the order of the table."""
VALID = "valid"
"""Single: (items,) uint8, whether the item has a vector and all of it is finite."""
STARTS = "starts"
"""Multi: (items,) int64, where the vectors of an item begin."""
LENGTHS = "lengths"
"""Multi: (items,) int64, how many there are; 0 also where one of them is not finite."""

_BATCH_BYTES = 8 << 20
_TYPICAL = {VectorKind.SINGLE: 1, VectorKind.MULTI: 1024}
"""Vectors of an item, as far as it matters for how many rows to read at a time."""


def gather(collection: Collection, ids: Sequence[str], directory: Path) -> ArrayContent | None:
    """Writes the vectors of items into a directory.

    Memory stays within some batches of rows, whatever the size of the collection.

    Args:
        collection: Whose header names an embedder.
        ids: Of the items; the order of rows.
        directory: Where to.

    Returns:
        None when one of the items is not in the table.

    Raises:
        OSError: If it cannot be written.
        CollectionError: If the table cannot be read.
    """
    assert collection.header.embedder is not None
    kind = collection.header.embedder.kind
    writer = _SINGLE_OR_MULTI[kind](directory, len(ids), collection.header.embedder.dimension)
    place = {name: row for row, name in enumerate(ids)}
    try:
        for names, vectors in _rows(collection):
            # A row that came already comes again when the table was compacted meanwhile.
            rows = np.asarray([place.pop(name, -1) for name in names], np.int64)
            writer.add(rows, vectors)
    finally:
        writer.close()
    return None if place else writer.content()


def _rows(collection: Collection) -> Iterator[tuple[list[str], Any]]:
    """Ids and the Arrow array of their vectors, some at a time."""
    mark = collection.header.embedder
    assert mark is not None
    column, number = STORED[mark.kind]
    size = mark.dimension * np.dtype(number).itemsize * _TYPICAL[mark.kind]
    for batch in collection.item_table.batches(["id", column], max(1, _BATCH_BYTES // size)):
        yield batch["id"].to_pylist(), batch[column].combine_chunks()


class _Single:
    """Each vector to its row."""

    def __init__(self, directory: Path, items: int, dimension: int) -> None:
        self._shape = items, dimension
        self._valid = np.zeros(items, np.uint8)
        self._norm = 0.0
        self._directory = directory
        self._file = (directory / VECTORS).open("wb")
        self._file.truncate(items * dimension * 4)

    def add(self, rows: NDArray[np.int64], vectors: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        wanted = np.flatnonzero(rows >= 0)
        dimension = self._shape[1]
        there = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        filled = vectors.fill_null([0.0] * dimension) if not there.all() else vectors
        numbers = np.array(filled.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(-1, dimension)
        good = there & np.isfinite(numbers).all(axis=1)
        numbers[~good] = 0
        self._norm = max(self._norm, float(np.linalg.norm(numbers, axis=1).max(initial=0.0)))
        wanted = wanted[np.argsort(rows[wanted])]
        for run in np.split(wanted, np.flatnonzero(np.diff(rows[wanted]) != 1) + 1):
            if len(run):
                self._file.seek(int(rows[run[0]]) * dimension * 4)
                self._file.write(numbers[run].data)
        self._valid[rows[wanted]] = good[wanted]

    def close(self) -> None:
        self._file.close()

    def content(self) -> ArrayContent:
        self._valid.tofile(self._directory / VALID)
        arrays = {VECTORS: (np.float32, self._shape), VALID: (np.uint8, self._shape[:1])}
        return ArrayContent(arrays, {"vectors": int(self._valid.sum()), "norm": self._norm})


class _Multi:
    """The vectors of one item after those of another."""

    def __init__(self, directory: Path, items: int, dimension: int) -> None:
        self._dimension = dimension
        self._starts = np.zeros(items, np.int64)
        self._lengths = np.zeros(items, np.int64)
        self._written = 0
        self._directory = directory
        self._file = (directory / VECTORS).open("wb")

    def add(self, rows: NDArray[np.int64], vectors: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        flat = vectors.values.values.to_numpy(zero_copy_only=False).reshape(-1, self._dimension)
        ends = vectors.offsets.to_numpy()
        there = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        for at in np.flatnonzero((rows >= 0) & there):
            numbers = flat[ends[at] : ends[at + 1]]
            if len(numbers) and np.isfinite(numbers).all():
                self._starts[rows[at]], self._lengths[rows[at]] = self._written, len(numbers)
                self._written += len(numbers)
                self._file.write(np.ascontiguousarray(numbers).data)

    def close(self) -> None:
        self._file.close()

    def content(self) -> ArrayContent:
        self._starts.tofile(self._directory / STARTS)
        self._lengths.tofile(self._directory / LENGTHS)
        items = self._starts.shape
        arrays = {
            VECTORS: (np.float16, (self._written, self._dimension)),
            STARTS: (np.int64, items),
            LENGTHS: (np.int64, items),
        }
        return ArrayContent(arrays, {"vectors": self._written})


_SINGLE_OR_MULTI = {VectorKind.SINGLE: _Single, VectorKind.MULTI: _Multi}
