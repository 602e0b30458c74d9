"""The shape of the two tables, and how items and documents become rows and come back."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.geometry import Box, Size
from vrag.index.tables.arrow import arrow
from vrag.types import Clip, Document, DocumentStatus, Item, ItemKind, TextSource, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.index.collection_json import EmbedderRecord
    from vrag.index.tables.arrow import ArrowSchema, ArrowTable

__all__ = [
    "FILE_COLUMNS",
    "ITEM_COLUMNS",
    "STORED",
    "document_of",
    "file_key",
    "file_rows",
    "file_schema",
    "item_of",
    "item_rows",
    "item_schema",
    "vector_column",
]

ITEM_COLUMNS = (
    "id",
    "document",
    "document_name",
    "kind",
    "ordinal",
    "text",
    "spans",
    "boxes",
    "text_source",
    "width",
    "height",
    "image",
    "heading",
    "clip_path",
    "clip_start",
    "clip_end",
    "clip_frames",
    "uid",
)
"""The columns an `Item` is made from; a table with an embedder has `vector` or `vectors` besides."""

FILE_COLUMNS = ("path", "id", "name", "size", "mtime_ns", "status", "items", "reason")
"""The columns a `Document` is made from; the table has `key` and `rows` besides."""

STORED: Mapping[VectorKind, tuple[str, type[np.floating[Any]]]] = {
    VectorKind.SINGLE: ("vector", np.float32),
    VectorKind.MULTI: ("vectors", np.float16),
}
"""How vectors are stored: the column, and the precision that "exact" scores refer to."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def vector_column(kind: VectorKind) -> str:
    """The column that holds vectors of this kind."""
    return STORED[kind][0]


def item_schema(embedder: EmbedderRecord | None) -> ArrowSchema:
    """The Arrow schema of the items.

    `spans` holds start and end of each word one after the other, `boxes` x1, y1, x2, y2 of each
    word in fractions of the picture. Times of clips are in seconds of the video.

    Args:
        embedder: Whose vectors the collection holds; None for a collection without any.
    """
    pa = arrow()
    text, number = pa.string(), pa.int32()
    fields = [
        pa.field("id", text, nullable=False),
        pa.field("document", text, nullable=False),
        pa.field("document_name", text, nullable=False),
        pa.field("kind", text, nullable=False),
        pa.field("ordinal", number, nullable=False),
        pa.field("text", text, nullable=False),
        pa.field("spans", pa.list_(number), nullable=False),
        pa.field("boxes", pa.list_(pa.float32()), nullable=False),
        pa.field("text_source", text, nullable=False),
        pa.field("width", number),
        pa.field("height", number),
        pa.field("image", text),
        pa.field("heading", text, nullable=False),
        pa.field("clip_path", text),
        pa.field("clip_start", pa.float64()),
        pa.field("clip_end", pa.float64()),
        pa.field("clip_frames", pa.list_(pa.float64())),
        pa.field("uid", text, nullable=False),
    ]
    if embedder is not None:
        fields.append(pa.field(vector_column(embedder.kind), _vector_type(embedder)))
    return pa.schema(fields)


def _vector_type(embedder: EmbedderRecord) -> Any:  # noqa: ANN401 - pyarrow has no types
    pa = arrow()
    if embedder.kind is VectorKind.SINGLE:
        return pa.list_(pa.float32(), embedder.dimension)
    return pa.list_(pa.list_(pa.float16(), embedder.dimension))


def file_schema() -> ArrowSchema:
    """The Arrow schema of the manifest: one row per path."""
    pa = arrow()
    text, number = pa.string(), pa.int64()
    return pa.schema(
        [
            pa.field("key", text, nullable=False),
            pa.field("path", pa.binary(), nullable=False),
            pa.field("id", text, nullable=False),
            pa.field("name", text, nullable=False),
            pa.field("size", number, nullable=False),
            pa.field("mtime_ns", number, nullable=False),
            pa.field("status", text, nullable=False),
            pa.field("items", number, nullable=False),
            pa.field("rows", number, nullable=False),
            pa.field("reason", text, nullable=False),
        ]
    )


def item_rows(
    items: Sequence[Item],
    vectors: Sequence[NDArray[Any]] | None = None,
    embedder: EmbedderRecord | None = None,
) -> ArrowTable:
    """Items as an Arrow table of `item_schema(embedder)`.

    Args:
        items: The items.
        vectors: For each item (dimension,) or (vectors, dimension); None when there is no embedder.
        embedder: Whose vectors they are.
    """
    pa = arrow()
    table = pa.Table.from_pylist([_item_row(item) for item in items], schema=item_schema(None))
    if embedder is None:
        return table
    assert vectors is not None
    column = _vector_array(vectors, embedder)
    return table.append_column(pa.field(vector_column(embedder.kind), column.type), column)


def _vector_array(vectors: Sequence[NDArray[Any]], embedder: EmbedderRecord) -> Any:  # noqa: ANN401
    """The vectors as an Arrow array: numbers are copied whole, never one by one."""
    pa = arrow()
    parts = [
        np.asarray(vector, STORED[embedder.kind][1]).reshape(-1, embedder.dimension) for vector in vectors
    ]
    flat = np.concatenate(parts) if parts else np.zeros((0, embedder.dimension), STORED[embedder.kind][1])
    rows = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), embedder.dimension)
    if embedder.kind is VectorKind.SINGLE:
        return rows
    ends = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), rows)


def item_of(row: dict[str, Any]) -> Item:
    """The item of a row with `ITEM_COLUMNS`."""
    width, height = row["width"], row["height"]
    return Item(
        id=row["id"],
        document=row["document"],
        document_name=row["document_name"],
        kind=ItemKind(row["kind"]),
        ordinal=row["ordinal"],
        text=row["text"],
        words=_words(row["spans"], row["boxes"]),
        text_source=TextSource(row["text_source"]),
        size=None if width is None or height is None else Size(width, height),
        image=row["image"],
        heading=row["heading"],
        clip=None if row["clip_path"] is None else _clip(row),
        uid=row["uid"],
    )


def _clip(row: dict[str, Any]) -> Clip:
    return Clip(row["clip_path"], row["clip_start"], row["clip_end"], tuple(row["clip_frames"] or ()))


def file_key(path: str) -> str:
    """The key of a path in the manifest: safe in SQL whatever bytes the path is made of.

    >>> file_key("/reports/it's.pdf")
    'dff7bff128c1c85e5e28a117b08b916f'
    """
    return hashlib.sha256(_path_bytes(path)).hexdigest()[:32]


def file_rows(documents: Iterable[tuple[Document, int]]) -> ArrowTable:
    """Rows of the manifest as an Arrow table.

    Args:
        documents: Each with the number of its item rows, which for a partial document is less
            than its `items`.
    """
    pa = arrow()
    rows = [_file_row(document, rows) for document, rows in documents]
    return pa.Table.from_pylist(rows, schema=file_schema())


def document_of(row: dict[str, Any]) -> Document:
    """The document of a row with `FILE_COLUMNS`."""
    return Document(
        path=row["path"].decode("utf-8", "surrogateescape"),
        id=row["id"],
        name=row["name"],
        size=row["size"],
        mtime_ns=row["mtime_ns"],
        status=DocumentStatus(row["status"]),
        items=row["items"],
        reason=row["reason"],
    )


def _item_row(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "document": item.document,
        "document_name": _valid(item.document_name),
        "kind": item.kind.value,
        "ordinal": item.ordinal,
        "text": _valid(item.text),
        "spans": [number for word in item.words for number in (word.start, word.end)],
        "boxes": [side for word in item.words for side in word.box.as_tuple()],
        "text_source": item.text_source.value,
        "width": item.size.width if item.size else None,
        "height": item.size.height if item.size else None,
        "image": item.image,
        "heading": _valid(item.heading),
        "clip_path": item.clip.path if item.clip else None,
        "clip_start": item.clip.start if item.clip else None,
        "clip_end": item.clip.end if item.clip else None,
        "clip_frames": list(item.clip.frames) if item.clip else None,
        "uid": _valid(item.uid),
    }


def _file_row(document: Document, rows: int) -> dict[str, Any]:
    return {
        "key": file_key(document.path),
        "path": _path_bytes(document.path),
        "id": document.id,
        "name": _valid(document.name),
        "size": document.size,
        "mtime_ns": document.mtime_ns,
        "status": document.status.value,
        "items": document.items,
        "rows": rows,
        "reason": _valid(document.reason),
    }


def _words(spans: Sequence[int], boxes: Sequence[float]) -> tuple[Word, ...]:
    return tuple(
        Word(spans[2 * i], spans[2 * i + 1], Box.unit(*boxes[4 * i : 4 * i + 4]))
        for i in range(min(len(spans) // 2, len(boxes) // 4))
    )


def _path_bytes(path: str) -> bytes:
    """The bytes of a path, also of one that is not valid Unicode on disk."""
    return path.encode("utf-8", "surrogateescape")


def _valid(text: str) -> str:
    """The text with what cannot be stored replaced, one character by one: word spans stay right."""
    return _SURROGATES.sub("\ufffd", text)
