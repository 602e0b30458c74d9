"""Items and documents that tests put into a collection without reading files."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from vrag.index.collection import Collection
from vrag.index.location import LocalLocation
from vrag.index.schema import blob_of
from vrag.index.store import store_vectors
from vrag.index.vectors.vector_index import read_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.types import Document, Item


def location_of(collection: Collection) -> LocalLocation:
    """Return the directory of a collection on this machine."""
    assert isinstance(collection.location, LocalLocation)
    return collection.location


def put_items(
    collection: Collection, items: Sequence[Item], vectors: Sequence[NDArray[Any] | None] | None = None
) -> None:
    """Commit items, with vectors if the collection has an embedder."""
    store = collection.store
    places = store_vectors(vectors or [None] * len(items), collection.header.embedder, store.blobs)
    with store.change() as change:
        change.put_items(zip(items, places, strict=True))


def put_files(collection: Collection, files: Iterable[tuple[Document, int]]) -> None:
    """Commit rows of the manifest, each with the number of its items."""
    with collection.store.change() as change:
        change.put_files(files)


def put_blob(collection: Collection, data: bytes, suffix: str = ".jpg") -> str:
    """Store a picture or clip; return the name that items have for it."""
    name = collection.store.blobs.put(data)
    collection.store.blobs.sync()
    return f"{name}{suffix}"


def blob_path(collection: Collection, name: str | None) -> Path:
    """Return the path of a picture or clip, by the name that items have for it."""
    return collection.store.blobs.path(blob_of(name or ""))


def change_header(directory: Path, **changes: object) -> None:
    """Change what a collection was built with."""
    with closing(Collection.open(directory)) as collection, collection.store.change() as change:
        change.put_header(json.dumps(json.loads(collection.header.to_json()) | changes))


def change_embedder(directory: Path, **changes: object) -> None:
    """Change what a collection remembers of its embedder."""
    with closing(Collection.open(directory)) as collection:
        embedder = json.loads(collection.header.to_json())["embedder"]
    change_header(directory, embedder=embedder | changes)


def forget_vectors(collection: Collection, *ids: str) -> None:
    """Leave items without vectors; all of them if none is named."""
    with collection.store.database.write() as connection:
        for id in ids or collection.store.read_items(["id"]).column("id"):
            connection.execute("UPDATE items SET vectors = NULL WHERE id = ?", (id,))


def delete_items(collection: Collection, *ids: str) -> None:
    """Delete items, whatever the manifest says of their documents."""
    with collection.store.change() as change:
        change.delete_items_by_id(ids)


def forget_document(collection: Collection, document: str) -> None:
    """Delete the rows of a document in the manifest; its items stay."""
    files = collection.store.files("document = ?", [document])
    with collection.store.change() as change:
        change.delete_files(file.document.path for file in files)


def count_items(collection: Collection) -> int:
    """Return the number of stored items."""
    return len(collection.store.read_items(["id"]).values)


def vectors_by_text(collection: Collection) -> dict[str, NDArray[Any]]:
    """Return the vectors of items, (vectors, dimension), by their texts."""
    texts = dict(collection.store.read_items(["id", "text"]).values)
    return {texts[id]: vectors for id, vectors in read_vectors(collection)}
