"""Tiers of vector search: how vectors are searched and why, and the base class of all vector indexes."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_EXACT_ITEMS = 20_000
"""Single vectors up to which all of them are scored: about 9 ms of one core at 2048 dimensions."""
MAX_EXACT_VECTORS = 200_000
"""Vectors of pages up to which all of them are scored: some 260 pages of 768, about 25 ms of one core."""
MIN_RECALL = 0.9
"""Recall below which a tier is not used unless it was requested by name."""
_AUTO = "auto"


class TierName(StrEnum):
    """A way to search vectors."""

    EXACT = "exact"
    """Every vector is scored."""
    RABITQ = "rabitq"
    """Single vectors: candidates by codes of one bit per number, then exact scores of those (faiss)."""
    POOLED = "pooled"
    """Many vectors per item: candidates by averaged neighbours, then exact scores of those."""
    CUDA = "cuda"
    """Many vectors per item: every vector is scored, on an accelerator (torch)."""


@dataclass(frozen=True, slots=True)
class Tier:
    """The way vectors are searched, as `index status` shows it."""

    name: TierName
    reason: str
    """The reason for this choice, for people."""
    recall: float | None = None
    """Share of the exact best ten that it finds, measured when it was built; None for exact search."""


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """Options of vector search."""

    tier: str = _AUTO
    """A `TierName`, or `auto`: by the size of the collection."""
    device: str = "cpu"
    """Device of torch for the tier `cuda`: `cuda`, `cuda:1`. Anything but `cpu` chooses that tier."""


_TIERS = {
    VectorKind.SINGLE: (TierName.EXACT, TierName.RABITQ),
    VectorKind.MULTI: (TierName.EXACT, TierName.POOLED, TierName.CUDA),
}
_PACKAGES = {TierName.RABITQ: ("faiss", "faiss"), TierName.CUDA: ("torch", "models")}
"""The package that a tier needs, and the extra that installs it."""


def choose_tier(kind: VectorKind, items: int, vectors: int, options: VectorOptions) -> Tier:
    """Choose the tier for so many items, which have so many vectors together. Reads and builds nothing.

    Raises `SettingsError` if the requested tier does not exist for this kind of vectors, and `MissingExtra`
    if it was requested by name and needs a package that is not installed.
    """
    if options.tier != _AUTO:
        if options.tier not in _TIERS[kind]:
            known = ", ".join((_AUTO, *_TIERS[kind]))
            raise SettingsError(
                f"There is no tier {options.tier!r} for collections with {kind} vectors.",
                f"Choose one of: {known}.",
            )
        package, extra = _PACKAGES.get(TierName(options.tier), ("numpy", ""))
        if not is_installed(package):
            raise MissingExtra(package, extra)
        return Tier(TierName(options.tier), "it was asked for")
    if kind is VectorKind.MULTI and options.device != "cpu":
        return Tier(TierName.CUDA, f"the device is {options.device}")
    count, limit = (items, MAX_EXACT_ITEMS) if kind is VectorKind.SINGLE else (vectors, MAX_EXACT_VECTORS)
    if count <= limit:
        return Tier(TierName.EXACT, f"{count:,} vectors are no more than {limit:,}")
    if kind is VectorKind.MULTI:
        return Tier(TierName.POOLED, f"{count:,} vectors are more than {limit:,}")
    if not is_installed("faiss"):
        hint = MissingExtra("faiss", "faiss").hint
        return Tier(TierName.EXACT, f"{count:,} vectors are many, but faiss is not installed. {hint}")
    return Tier(TierName.RABITQ, f"{count:,} vectors are more than {limit:,}")


def judge_tier(tier: Tier, recall: float, options: VectorOptions) -> Tier:
    """Return the tier to use now that its recall is measured: exact search if that is too low."""
    if recall >= MIN_RECALL or options.tier != _AUTO:
        return replace(tier, recall=recall)
    finding = f"the tier {tier.name} finds only {recall:.0%} of the exact best ten here"
    return Tier(TierName.EXACT, f"{tier.reason}, but {finding}")


def is_installed(package: str) -> bool:
    """Check whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


class VectorIndex(ABC):
    """An index that finds the items whose vectors match those of queries best. May be shared by threads.

    Queries are searched in batches. Subclasses find rows, of items sorted by id.
    """

    SHARES_MASK: ClassVar[bool] = True
    """True if all queries of a batch must have equal masks."""

    def __init__(self, tier: Tier, ids: Sequence[str], batch_size: int) -> None:
        self.tier = tier
        self._ids = ids
        self._batch_size = batch_size

    def search(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[str, float]]]:
        """Find for each query the best `top_k` items that its mask (items,) allows.

        Queries are (dimension,) for single vectors, (tokens, dimension) for multi. Ids and scores are best
        first, ties by id. Items without vectors, or with one that is not finite, are never among them; a
        query that is empty or not finite finds nothing.
        """
        hits: list[list[tuple[str, float]]] = [[] for _ in queries]
        usable = [number for number, query in enumerate(queries) if len(query) and np.isfinite(query).all()]
        groups: dict[bytes, list[int]] = {}
        for number in usable:
            groups.setdefault(masks[number].tobytes() if self.SHARES_MASK else b"", []).append(number)
        for numbers in groups.values():
            for start in range(0, len(numbers), self._batch_size):
                batch = numbers[start : start + self._batch_size]
                found = self._search_rows([queries[n] for n in batch], top_k, [masks[n] for n in batch])
                for number, rows in zip(batch, found, strict=True):
                    hits[number] = [(self._ids[row], score) for row, score in rows]
        return hits

    @abstractmethod
    def _search_rows(
        self, queries: Sequence[NDArray[np.float32]], top_k: int, masks: Sequence[NDArray[np.bool_]]
    ) -> list[list[tuple[int, float]]]:
        """Return the best rows of each query with their scores, best first."""


def best(rows: NDArray[np.int64], scores: NDArray[np.floating], top_k: int) -> list[tuple[int, float]]:
    """Return the `top_k` rows with the highest finite scores, best first, ties by row.

    >>> best(np.array([3, 5, 7]), np.array([1.0, 2.0, 1.0]), 2)
    [(5, 2.0), (3, 1.0)]
    """
    kept = shortlist(scores, top_k, 0.0)
    order = np.lexsort((rows[kept], -scores[kept]))[:top_k]
    return [(int(rows[at]), float(scores[at])) for at in kept[order]]


def shortlist(scores: NDArray[np.floating], top_k: int, margin: float) -> NDArray[np.int64]:
    """Return the places of the finite scores at most `margin` below the `top_k`-th highest, ascending."""
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite) <= top_k:
        return finite
    among = scores[finite]
    least = np.partition(among, len(among) - top_k)[len(among) - top_k]
    return finite[among >= least - margin]
