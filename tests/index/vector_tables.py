"""Collections with vectors that tests make up, and what exact search finds by definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from stored_items import put_items

from vrag.embed.embedder import Modality, VectorKind
from vrag.index.collection import Collection
from vrag.types import Item, ItemKind, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

DOCUMENT = "00ff" * 16


@dataclass(frozen=True)
class Mark:
    """As much of an embedder as a collection asks for."""

    kind: VectorKind
    dimension: int
    name: str = "fake"
    fingerprint: str = "fake"
    modalities: frozenset[Modality] = frozenset({Modality.IMAGE, Modality.TEXT})
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int])


def make(
    directory: Path, vectors: Sequence[NDArray[Any]], kind: VectorKind, *, commits: int = 3
) -> Collection:
    """A collection with one item for each vector, written in some commits and not in the order of ids."""
    collection = Collection.create(directory, embedder=Mark(kind, vectors[0].shape[-1]))
    order = np.random.default_rng(0).permutation(len(vectors))
    for part in np.array_split(order, commits):
        append(collection, {int(row): vectors[row] for row in part})
    return collection


def append(collection: Collection, vectors: dict[int, NDArray[Any]]) -> None:
    """Adds items by their numbers."""
    if vectors:
        items = [item(number) for number in vectors]
        put_items(collection, items, list(vectors.values()))


def item(number: int) -> Item:
    # Six digits: the order of ids is that of numbers.
    return Item(
        id=item_id(DOCUMENT, 100_000 + number),
        document=DOCUMENT,
        document_name="a.pdf",
        kind=ItemKind.PAGE,
        ordinal=100_000 + number,
    )


def names(count: int) -> list[str]:
    """Ids of the items with numbers below `count`."""
    return [item(number).id for number in range(count)]


def maxsim(query: NDArray[Any], page: NDArray[Any]) -> float:
    """By definition, one product at a time, in float64."""
    total = 0.0
    for token in query.astype(np.float64):
        total += max((float(np.sum(token * vector)) for vector in page.astype(np.float64)), default=-np.inf)
    return total


def ranked(scores: Sequence[float], mask: NDArray[np.bool_]) -> list[int]:
    """Numbers of the finite scores that a mask lets through, best first."""
    rows: list[int] = [row for row in np.flatnonzero(mask).tolist() if np.isfinite(scores[row])]
    return sorted(rows, key=lambda row: (-scores[row], row))


def clusters(count: int, dimension: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors in groups of about fifty that resemble each other."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((max(1, count // 50), dimension))
    made = centres[chance.integers(len(centres), size=count)] + 0.7 * chance.standard_normal(
        (count, dimension)
    )
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
