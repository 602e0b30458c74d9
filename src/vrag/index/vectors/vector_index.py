"""Vector search over a collection: opens or builds the caches of its vectors, and chooses a tier.

The table is the source of truth; it is read once, some rows at a time, into files mapped into memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.index.array_cache import ArrayContent, fetch, find, sweep
from vrag.index.schema import STORED
from vrag.index.vectors import pooled
from vrag.index.vectors.dense import ExactDense, Int8Prefilter, RabitqDense, Vectors, build_int8, build_rabitq
from vrag.index.vectors.maxsim import DeviceMaxSim, ExactMaxSim, Pages
from vrag.index.vectors.tiers import (
    MAX_EXACT_ITEMS,
    Tier,
    TierName,
    VectorOptions,
    choose_tier,
    is_installed,
    judge_tier,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.array_cache import StoredArrays
    from vrag.index.collection import Collection
    from vrag.index.vectors.tiers import VectorIndex

VECTORS = "vectors"
"""Single: (items, dimension) float32, those that are missing or not finite as zeros. Multi: (vectors,
dimension) float16, each item's in one piece, in the order of the table."""
VALID = "valid"
"""Single: (items,) uint8, whether the item has a vector and all of it is finite."""
STARTS = "starts"
"""Multi: (items,) int64, where the vectors of an item begin."""
LENGTHS = "lengths"
"""Multi: (items,) int64, how many there are; 0 also where one of them is not finite."""

_CACHES = "vectors-"
_DERIVED = {TierName.RABITQ: "rabitq", TierName.POOLED: f"pooled{pooled.FACTOR}"}
"""Names of the caches that are made from the originals."""
_TYPICAL_VECTORS = 768
"""Vectors of a page, more or less, by the models that there are."""
_BATCH_BYTES = 8 << 20
_BATCH_VECTORS = {VectorKind.SINGLE: 1, VectorKind.MULTI: 1024}
"""Vectors of an item, as assumed for how many rows to read at a time."""

_Derive: TypeAlias = "Callable[[str, Callable[[Path], ArrayContent]], StoredArrays]"
"""Opens a cache that is made from the vectors, by its name; builds it first if there is none."""


def _cache_path(collection: Collection, key: str, name: str) -> Path:
    return collection.cache_dir / f"{_CACHES}{key}-{name}"


def open_vectors(
    collection: Collection, ids: Sequence[str], key: str, options: VectorOptions
) -> VectorIndex | None:
    """Open the vectors of a collection with an embedder: from the cache, or built and cached.

    Several processes may do so at once, and any of them be killed. `ids` are those of its items, sorted, and
    `key` is a hash over them that names the cache. Returns None when one of the items is no longer in the
    table: load the catalog again. Raises `SettingsError` if the requested tier does not exist for this kind
    of vectors, `MissingExtra` if it needs a package that is not installed, and `CollectionError` if the table
    cannot be read, or there is no disk space for the cache anywhere.
    """
    embedder = collection.header.embedder
    assert embedder is not None
    originals = _cache_path(collection, key, "originals")
    stored = fetch(originals, lambda directory: gather(collection, ids, directory))
    if stored is None:
        return None
    sweep(collection.cache_dir, _CACHES, f"{_CACHES}{key}-")

    def derive(name: str, build: Callable[[Path], ArrayContent]) -> StoredArrays:
        derived = fetch(_cache_path(collection, key, name), build)
        assert derived is not None
        return derived

    tier = choose_tier(embedder.kind, len(ids), stored.facts["vectors"], options)
    if embedder.kind is VectorKind.SINGLE:
        return _open_single(tier, ids, stored, derive, options)
    return _open_multi(tier, ids, stored, derive, options)


def known_tier(collection: Collection, items: int, key: str, options: VectorOptions) -> Tier:
    """Return the tier as far as it is known: nothing is read or built but caches.

    How many vectors there are, and the recall, is known once the collection has been searched; until
    then 768 vectors are assumed for each item where an item has many.
    """
    embedder = collection.header.embedder
    assert embedder is not None
    stored = find(_cache_path(collection, key, "originals"))
    is_multi = embedder.kind is VectorKind.MULTI
    vectors = stored.facts["vectors"] if stored else items * (_TYPICAL_VECTORS if is_multi else 1)
    tier = choose_tier(embedder.kind, items, vectors, options)
    if stored is None and is_multi and options.tier == "auto":
        tier = replace(tier, reason=f"about {tier.reason}; counted at the first search")
    name = _DERIVED.get(tier.name)
    derived = find(_cache_path(collection, key, name)) if name else None
    return judge_tier(tier, derived.facts["recall"], options) if derived else tier


def _open_single(
    tier: Tier, ids: Sequence[str], stored: StoredArrays, derive: _Derive, options: VectorOptions
) -> VectorIndex:
    valid = stored.arrays[VALID].astype(np.bool_)
    vectors = Vectors(stored.arrays[VECTORS], valid, float(stored.facts["norm"]))
    if tier.name is TierName.RABITQ and valid.any():
        derived = derive(_DERIVED[tier.name], lambda folder: build_rabitq(vectors.frugal(), folder))
        tier = judge_tier(tier, derived.facts["recall"], options)
        if tier.name is TierName.RABITQ:
            return RabitqDense(tier, ids, vectors, derived)
    prefilter = None
    if len(valid) > MAX_EXACT_ITEMS and is_installed("faiss"):
        derived = derive("bytes", lambda folder: build_int8(vectors.frugal(), folder))
        prefilter = Int8Prefilter(derived)
    return ExactDense(tier, ids, vectors, prefilter)


def _open_multi(
    tier: Tier, ids: Sequence[str], stored: StoredArrays, derive: _Derive, options: VectorOptions
) -> VectorIndex:
    pages = Pages(stored.arrays[VECTORS], stored.arrays[STARTS], stored.arrays[LENGTHS])
    if tier.name is TierName.CUDA:
        return DeviceMaxSim(tier, ids, pages, options.device)
    if tier.name is TierName.POOLED:
        derived = derive(_DERIVED[tier.name], lambda folder: pooled.build(pages.frugal(), folder))
        tier = judge_tier(tier, derived.facts["recall"], options)
        if tier.name is TierName.POOLED:
            averages = pooled.PooledVectors.of(derived.arrays)
            return pooled.PooledMaxSim(tier, ids, pages, averages, derived.facts["candidates"])
    return ExactMaxSim(tier, ids, pages)


def gather(collection: Collection, ids: Sequence[str], directory: Path) -> ArrayContent | None:
    """Write the vectors of items into a directory, in the order of `ids`.

    Memory stays within some batches of rows, whatever the size of the collection. Returns None when one of
    the items is not in the table.
    """
    embedder = collection.header.embedder
    assert embedder is not None
    column, dtype = STORED[embedder.kind]
    row_bytes = embedder.dimension * np.dtype(dtype).itemsize * _BATCH_VECTORS[embedder.kind]
    writer = _WRITERS[embedder.kind](directory, len(ids), embedder.dimension)
    places = {id: row for row, id in enumerate(ids)}
    try:
        for batch in collection.item_table.batches(["id", column], max(1, _BATCH_BYTES // row_bytes)):
            # A row that came already comes again when the table was compacted meanwhile.
            rows = np.asarray([places.pop(id, -1) for id in batch["id"].to_pylist()], np.int64)
            writer.add(rows, batch[column].combine_chunks())
    finally:
        writer.close()
    return None if places else writer.content()


class _SingleWriter:
    """A writer that puts the vector of each item into its row."""

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
        present = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        filled = vectors.fill_null([0.0] * dimension) if not present.all() else vectors
        numbers = np.array(filled.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(-1, dimension)
        good = present & np.isfinite(numbers).all(axis=1)
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


class _MultiWriter:
    """A writer that appends the vectors of one item after the other."""

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
        present = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        for at in np.flatnonzero((rows >= 0) & present):
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
        vectors = np.float16, (self._written, self._dimension)
        arrays = {VECTORS: vectors, STARTS: (np.int64, items), LENGTHS: (np.int64, items)}
        return ArrayContent(arrays, {"vectors": self._written})


_WRITERS = {VectorKind.SINGLE: _SingleWriter, VectorKind.MULTI: _MultiWriter}
