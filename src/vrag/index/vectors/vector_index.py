"""Vector search over a collection: opens or builds the caches of its vectors, and chooses a tier.

The blobs of vectors are the source of truth; they are read once, one at a time, into files mapped into
memory.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError
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
from vrag.storage.array_cache import ArrayContent, fetch, find, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.vectors.tiers import VectorIndex
    from vrag.storage.array_cache import StoredArrays

VECTORS = "vectors"
"""Single: (items, dimension) float32, those that are missing or not finite as zeros. Multi: (vectors,
dimension) float16, each item's in one piece."""
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

_Derive: TypeAlias = "Callable[[str, Callable[[Path], ArrayContent]], StoredArrays]"
"""Opens a cache that is made from the vectors, by its name; builds it first if there is none."""


def _cache_path(collection: Collection, key: str, name: str) -> Path:
    return collection.cache_dir / f"{_CACHES}{key}-{name}"


def open_vectors(
    collection: Collection, ids: Sequence[str], key: str, options: VectorOptions
) -> VectorIndex | None:
    """Open the vectors of a collection with an embedder: from the cache, or built and cached.

    Several processes may do so at once, and any of them be killed. `ids` are those of its items, sorted, and
    `key` is a hash over them that names the cache. Returns None when one of the items is gone: load the
    catalog again. Raises `SettingsError` if the requested tier does not exist for this kind of vectors,
    `MissingExtra` if it needs a package that is not installed, and `CollectionError` if vectors cannot be
    read, or there is no disk space for the cache anywhere.
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

    Memory stays within a blob, whatever the size of the collection. Returns None when one of the items is
    gone, also where it is removed meanwhile. Raises `CollectionError` if a blob is damaged.
    """
    embedder = collection.header.embedder
    assert embedder is not None
    places = {id: row for row, id in enumerate(ids)}

    def has_all() -> bool:
        return places.keys() <= set(collection.store.read_items(["id"]).column("id"))

    if not has_all():
        return None
    writer = _WRITERS[embedder.kind](directory, len(ids), embedder.dimension)
    try:
        for id, vectors in read_vectors(collection):
            if id in places:
                writer.add(places[id], vectors)
    except CollectionError:
        if has_all():
            raise
        return None
    finally:
        writer.close()
    return writer.content()


def read_vectors(collection: Collection) -> Generator[tuple[str, NDArray[np.floating[Any]]]]:
    """Yield the ids of items and their vectors, (vectors, dimension), in the order of blobs.

    Items without vectors are left out. Raises `CollectionError` if a blob is gone or damaged.
    """
    embedder = collection.header.embedder
    assert embedder is not None
    columns = ("id", "vectors", "vectors_start", "vectors_count")
    rows = collection.store.read_items(columns, "vectors IS NOT NULL ORDER BY vectors, vectors_start")
    for chunk, entries in groupby(rows.values, key=itemgetter(1)):
        data = collection.store.read_blob(chunk, "The vectors of items")
        vectors = np.frombuffer(data, STORED[embedder.kind]).reshape(-1, embedder.dimension)
        for id, _, start, count in entries:
            yield id, vectors[start : start + count]


class _SingleWriter:
    """A writer that puts the vector of each item into its row."""

    def __init__(self, directory: Path, items: int, dimension: int) -> None:
        self._shape = items, dimension
        self._valid = np.zeros(items, np.uint8)
        self._norm = 0.0
        self._directory = directory
        self._file = (directory / VECTORS).open("wb")
        self._file.truncate(items * dimension * 4)

    def add(self, row: int, vectors: NDArray[np.floating[Any]]) -> None:
        if not np.isfinite(vectors).all():
            return
        self._norm = max(self._norm, float(np.linalg.norm(vectors)))
        self._file.seek(row * self._shape[1] * 4)
        self._file.write(np.ascontiguousarray(vectors).data)
        self._valid[row] = 1

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

    def add(self, row: int, vectors: NDArray[np.floating[Any]]) -> None:
        if len(vectors) and np.isfinite(vectors).all():
            self._starts[row], self._lengths[row] = self._written, len(vectors)
            self._written += len(vectors)
            self._file.write(np.ascontiguousarray(vectors).data)

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
