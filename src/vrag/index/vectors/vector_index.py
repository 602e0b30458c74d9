"""Search over the vectors of a collection: caches of them are opened or made here, and a tier chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.index.vectors import int8_prefilter, pooled, rabitq
from vrag.index.vectors.array_cache import fetch, find, sweep
from vrag.index.vectors.dense import ExactDense, Vectors
from vrag.index.vectors.int8_prefilter import Int8Prefilter
from vrag.index.vectors.maxsim import ExactMaxSim, Pages
from vrag.index.vectors.maxsim_torch import DeviceMaxSim
from vrag.index.vectors.pooled import FACTOR, PooledMaxSim, PooledVectors
from vrag.index.vectors.rabitq import RabitqDense
from vrag.index.vectors.tiers import (
    MAX_EXACT_ITEMS,
    Tier,
    TierName,
    VectorOptions,
    is_installed,
    judged,
    plan,
)
from vrag.index.vectors.vector_files import LENGTHS, STARTS, VALID, VECTORS, gather

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.vectors.array_cache import ArrayContent, StoredArrays

__all__ = [
    "Tier",
    "TierName",
    "VectorIndex",
    "VectorOptions",
    "known_tier",
    "open_vectors",
    "planned_tier",
]

planned_tier = plan

_CACHES = "vectors-"
_DERIVED = {TierName.RABITQ: "rabitq", TierName.POOLED: f"pooled{FACTOR}"}
"""Names of what is made from the originals."""
_TYPICAL = 768
"""Vectors of a page, more or less, by the models that there are."""


class VectorIndex(Protocol):
    """Finds the items whose vectors match those of queries best. May be shared by threads."""

    @property
    def tier(self) -> Tier:
        """How it searches."""
        ...

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """For each query the best items that its mask lets through.

        Args:
            queries: Each (dimension,) for single vectors, (tokens, dimension) for multi.
            top_k: How many items at most.
            masks: For each query (items,): which items may be found.

        Returns:
            For each query ids and scores, best first, ties by id. Items without vectors, or with one
            that is not finite, are never among them; nothing is for a query that is empty or not finite.
        """
        ...


def open_vectors(
    collection: Collection, ids: Sequence[str], key: str, options: VectorOptions
) -> VectorIndex | None:
    """The vectors of a collection, ready to be searched: from the cache, or built and cached.

    Several processes may do so at once, and any of them be killed.

    Args:
        collection: Whose header names an embedder.
        ids: Of its items, sorted.
        key: Hash over them: names the cache.
        options: How to search.

    Returns:
        None when one of the items is no longer in the table: load the catalog again.

    Raises:
        SettingsError: If the tier asked for does not exist for this kind of vectors.
        MissingExtra: If it needs a package that is not installed.
        CollectionError: If the table cannot be read, or there is no room for the cache anywhere.
    """
    mark = collection.header.embedder
    assert mark is not None
    store = _CacheStore(collection.cache_dir, f"{_CACHES}{key}-")
    stored = store.fetch("originals", lambda directory: gather(collection, ids, directory))
    if stored is None:
        return None
    sweep(collection.cache_dir, _CACHES, store.prefix)
    tier = plan(mark.kind, len(ids), stored.facts["vectors"], options)
    if mark.kind is VectorKind.SINGLE:
        return _open_single(tier, ids, stored, store, options)
    return _open_multi(tier, ids, stored, store, options)


def known_tier(collection: Collection, items: int, key: str, options: VectorOptions) -> Tier:
    """The tier of a collection as far as it can be told at once: nothing is read or built but caches.

    How many vectors there are, and the recall, is known once the collection has been searched; until
    then 768 vectors are supposed for each item where an item has many.

    Args:
        collection: Whose header names an embedder.
        items: How many it has.
        key: Hash over them.
        options: How to search.

    Raises:
        SettingsError: If the tier asked for does not exist for this kind of vectors.
        MissingExtra: If it needs a package that is not installed.
    """
    mark = collection.header.embedder
    assert mark is not None
    store = _CacheStore(collection.cache_dir, f"{_CACHES}{key}-")
    stored = store.find("originals")
    guessed = items if mark.kind is VectorKind.SINGLE else items * _TYPICAL
    tier = plan(mark.kind, items, stored.facts["vectors"] if stored else guessed, options)
    if stored is None and mark.kind is VectorKind.MULTI and options.tier == "auto":
        tier = replace(tier, reason=f"about {tier.reason}; counted at the first search")
    made = store.find(_DERIVED[tier.name]) if tier.name in _DERIVED else None
    return judged(tier, made.facts["recall"], options) if made else tier


@dataclass(frozen=True, slots=True)
class _CacheStore:
    """Where the caches of one version of a collection are."""

    home: Path
    prefix: str

    def fetch(self, name: str, build: Callable[[Path], ArrayContent | None]) -> StoredArrays | None:
        return fetch(self.home / f"{self.prefix}{name}", build)

    def find(self, name: str) -> StoredArrays | None:
        return find(self.home / f"{self.prefix}{name}")

    def made(self, name: str, build: Callable[[Path], ArrayContent]) -> StoredArrays:
        """A cache that can always be made."""
        stored = self.fetch(name, build)
        assert stored is not None
        return stored


def _open_single(
    tier: Tier, ids: Sequence[str], stored: StoredArrays, store: _CacheStore, options: VectorOptions
) -> VectorIndex:
    valid = stored.arrays[VALID].astype(np.bool_)
    vectors = Vectors(stored.arrays[VECTORS], valid, float(stored.facts["norm"]))
    if tier.name is TierName.RABITQ and valid.any():
        made = store.made(_DERIVED[tier.name], lambda directory: rabitq.build(vectors.frugal(), directory))
        tier = judged(tier, made.facts["recall"], options)
        if tier.name is TierName.RABITQ:
            index = rabitq.load(made.arrays[rabitq.INDEX])
            return RabitqDense(tier, ids, vectors, index, made.facts["probe"])
    return ExactDense(tier, ids, vectors, _screen(vectors, store))


def _screen(vectors: Vectors, store: _CacheStore) -> Int8Prefilter | None:
    """Bytes to search first, where there are many vectors and a library to do it."""
    if len(vectors.valid) <= MAX_EXACT_ITEMS or not is_installed("faiss"):
        return None
    return Int8Prefilter(
        store.made("bytes", lambda directory: int8_prefilter.build(vectors.frugal(), directory))
    )


def _open_multi(
    tier: Tier, ids: Sequence[str], stored: StoredArrays, store: _CacheStore, options: VectorOptions
) -> VectorIndex:
    pages = Pages(stored.arrays[VECTORS], stored.arrays[STARTS], stored.arrays[LENGTHS])
    if tier.name is TierName.CUDA:
        return DeviceMaxSim(tier, ids, pages, options.device)
    if tier.name is TierName.POOLED:
        made = store.made(_DERIVED[tier.name], lambda directory: pooled.build(pages.frugal(), directory))
        tier = judged(tier, made.facts["recall"], options)
        if tier.name is TierName.POOLED:
            return PooledMaxSim(tier, ids, pages, PooledVectors.of(made.arrays), made.facts["candidates"])
    return ExactMaxSim(tier, ids, pages)
