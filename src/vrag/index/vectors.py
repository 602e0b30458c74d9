"""Search over the vectors of a collection: which way is chosen here, by a plain rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from vrag.embed.base import VectorKind
from vrag.index.dense import ExactDense
from vrag.index.maxsim import ExactMaxSim
from vrag.index.rows import STORED
from vrag.index.tiers import Tier, TierName, VectorOptions, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.store import Collection

__all__ = ["Tier", "TierName", "VectorIndex", "VectorOptions", "open_vectors", "planned_tier"]

planned_tier = plan


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
            that is not finite, are never among them.
        """
        ...


def open_vectors(
    collection: Collection, ids: Sequence[str], key: str, options: VectorOptions
) -> VectorIndex | None:
    """The vectors of a collection, ready to be searched: from the cache, or built and cached.

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
        CollectionError: If the table cannot be read.
    """
    mark = collection.header.embedder
    assert mark is not None
    column, number = STORED[mark.kind]
    found: dict[str, NDArray[np.floating]] = {}
    for batch in collection.item_table.batches(["id", column], 64):
        values = batch[column].combine_chunks()
        for name, value in zip(batch["id"].to_pylist(), values, strict=True):
            flat = [] if not value.is_valid else value.values
            if mark.kind is VectorKind.MULTI and value.is_valid:
                flat = flat.flatten()
            found[name] = np.asarray(flat, number).reshape(-1, mark.dimension)
    if not found.keys() >= set(ids):
        return None
    pages = [found[name] for name in ids]
    tier = plan(mark.kind, len(ids), sum(map(len, pages)), options)
    if mark.kind is VectorKind.SINGLE:
        missing = np.full((1, mark.dimension), np.nan, np.float32)
        return ExactDense(
            tier, ids, np.concatenate([p if len(p) else missing for p in pages] or [missing[:0]])
        )
    return ExactMaxSim(tier, ids, pages)
