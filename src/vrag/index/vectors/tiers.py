"""Tiers of vector search: how vectors are searched, and why."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from enum import StrEnum

from vrag.embed.embedder import VectorKind
from vrag.errors import MissingExtra, SettingsError

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

    Raises:
        SettingsError: If the requested tier does not exist for this kind of vectors.
        MissingExtra: If it was requested by name and needs a package that is not installed.
    """
    if options.tier != _AUTO:
        return _requested_tier(kind, options.tier)
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


def _requested_tier(kind: VectorKind, name: str) -> Tier:
    names = _TIERS[kind]
    if name not in names:
        known = ", ".join((_AUTO, *names))
        raise SettingsError(
            f"There is no tier {name!r} for collections with {kind} vectors.", f"Choose one of: {known}."
        )
    package, extra = _PACKAGES.get(TierName(name), ("numpy", ""))
    if not is_installed(package):
        raise MissingExtra(package, extra)
    return Tier(TierName(name), "it was asked for")


def is_installed(package: str) -> bool:
    """Check whether a package can be imported."""
    return importlib.util.find_spec(package) is not None
