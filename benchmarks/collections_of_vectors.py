"""Collections filled with vectors that nobody embedded, to measure search with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrag.index.collection import Collection
from vrag.index.store import store_vectors
from vrag.types import Item, ItemKind, item_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import Modality, VectorKind

__all__ = ["commit_items", "fill", "made_collection"]

_PAGES = 20
"""Of a document."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """As much of an embedder as a collection keeps."""

    kind: VectorKind
    dimension: int
    name: str = "benchmark"
    fingerprint: str = "benchmark"
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    modalities: frozenset[Modality] = frozenset()


def made_collection(directory: Path, kind: VectorKind, dimension: int) -> Collection:
    """An empty collection for such vectors."""
    return Collection.create(directory, embedder=_Mark(kind, dimension))


def fill(collection: Collection, vectors: Iterable[NDArray[Any]], count: int, commit: int = 512) -> None:
    """Adds an item for each of the vectors."""
    waiting: list[tuple[Item, NDArray[Any]]] = []
    for number, vector in enumerate(vectors):
        waiting.append((_item(number), vector))
        if len(waiting) == commit or number == count - 1:
            items, parts = zip(*waiting, strict=True)
            commit_items(collection, items, parts)
            waiting = []


def commit_items(collection: Collection, items: Sequence[Item], vectors: Sequence[NDArray[Any]]) -> None:
    """Adds items with their vectors, in one commit."""
    store = collection.store
    places = store_vectors(vectors, collection.header.embedder, store.blobs)
    with store.change() as change:
        change.put_items(zip(items, places, strict=True))


def _item(number: int) -> Item:
    document = hashlib.sha256(str(number // _PAGES).encode()).hexdigest()
    ordinal = number % _PAGES + 1
    return Item(
        id=item_id(document, ordinal),
        document=document,
        document_name=f"{number // _PAGES}.pdf",
        kind=ItemKind.PAGE,
        ordinal=ordinal,
    )
