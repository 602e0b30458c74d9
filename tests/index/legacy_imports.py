"""What tests of imported indexes share: entries, vectors, an import, and what it stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.index.collection import Collection
from vrag.index.reference.index_import import ImportReport, import_indexes
from vrag.index.vectors.vector_index import read_vectors
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import Embedder
    from vrag.types import Item

OPTIONS = CorpusOptions(ocr="never", workers=1)
SINGLE = HashEmbedder(VectorKind.SINGLE, 16)


def vectors(rows: int, dimension: int = 16, seed: int = 0) -> NDArray[np.float32]:
    made = np.random.default_rng(seed).standard_normal((rows, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def text(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "text", "file_path": f"/far/notes/{number}.txt", "content": f"Note {number}", **fields}


def picture(path: str | Path) -> dict[str, Any]:
    return {"type": "image", "file_path": str(path)}


def take(
    target: Path, *paths: Path, files: Path | None = None, embedder: Embedder | None = None
) -> ImportReport:
    return import_indexes(target, paths, OPTIONS, files=files, embedder=embedder)


def stored(target: Path) -> dict[str, tuple[Item, NDArray[np.float64]]]:
    """Items and vectors by the name of their document."""
    collection = Collection.open(target)
    mark = collection.header.embedder
    assert mark is not None
    vectors: dict[str, NDArray[Any]] = {id: np.array(each) for id, each in read_vectors(collection)}
    if mark.kind is VectorKind.SINGLE:
        vectors = {id: each[0] for id, each in vectors.items()}
    items = collection.items(list(vectors))
    return {item.document_name: (item, vectors[id]) for id, item in items.items()}


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
