"""The schemas of the two tables, and the conversion of items and documents to rows and back.

pyarrow ships no types and takes a tenth of a second to import: it is imported by `arrow` where it is needed.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from vrag.embed.embedder import EmbedderInfo, VectorKind
from vrag.errors import CollectionError
from vrag.geometry import Box, Size
from vrag.index.integrity.checksums import CHECKSUMS, RowPart, file_checksum, part_checksums
from vrag.item_facts import decode_facts, encode_facts
from vrag.types import Clip, Document, DocumentStatus, Item, ItemKind, TextSource, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

ArrowLibrary: TypeAlias = Any
ArrowSchema: TypeAlias = Any
"""A `pyarrow.Schema`."""
ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`."""

_ITEM_TYPES = {
    "id": "text",
    "document": "text",
    "document_name": "text",
    "kind": "text",
    "ordinal": "int32",
    "text": "text",
    "spans": "list<int32>",
    "boxes": "list<float32>",
    "text_source": "text",
    "width": "int32",
    "height": "int32",
    "image": "text",
    "heading": "text",
    "clip_path": "text",
    "clip_start": "float64",
    "clip_end": "float64",
    "clip_frames": "list<float64>",
    "uid": "text",
    "facts": "text",
}
ADDED_COLUMNS = frozenset({"facts"})
"""Columns of items that tables of earlier versions of vrag do not have; null there."""
ITEM_COLUMNS = tuple(_ITEM_TYPES)
"""The columns an `Item` is made from; a table with an embedder has `vector` or `vectors` besides."""
_NAME_CHECKSUM = "name_checksum"
"""A column of its own: the name is the one thing that is changed, for all items of a document at once."""
_FACTS_CHECKSUM = "facts_checksum"
"""A column of its own, since tables of earlier versions have no facts."""
_ENTRY = RowPart("entry", ("id", "document", "kind", "ordinal"), place=0)
_MEDIA_COLUMNS = (
    *("id", "text_source", "width", "height", "image"),
    *("clip_path", "clip_start", "clip_end", "clip_frames", "uid"),
)
TEXT = RowPart("text", ("id", "heading", "text"), place=1)
WORDS = RowPart("words", ("id", "spans", "boxes"), place=2)
PICTURE = RowPart("picture", (), place=4)
CLIP = RowPart("clip", (), place=5)
FACTS = RowPart("facts", ("id", "facts"), column=_FACTS_CHECKSUM)
NAME = RowPart("file name", ("document", "document_name"), column=_NAME_CHECKSUM)
ITEM_PARTS = (
    _ENTRY,
    TEXT,
    WORDS,
    RowPart("media", _MEDIA_COLUMNS, place=3),
    PICTURE,
    CLIP,
    *(RowPart("vector", ("id", column), place=6, is_small=False) for column in ("vector", "vectors")),
    FACTS,
    NAME,
)
"""The columns that each checksum of an item covers; a table has at most one of the two columns of vectors."""
STORED_FILES = {PICTURE: "image", CLIP: "clip_path"}
"""The parts of an item that are files, and the columns with their names."""
_NULLABLE = {"facts", "width", "height", "image", "clip_path", "clip_start", "clip_end", "clip_frames"}

_FILE_TYPES = {
    "key": "text",
    "path": "bytes",
    "id": "text",
    "name": "text",
    "size": "int64",
    "mtime_ns": "int64",
    "status": "text",
    "items": "int64",
    "rows": "int64",
    "reason": "text",
}
FILE_PARTS = (
    RowPart("entry", ("key", "id", "status", "items", "rows"), place=0),
    RowPart("file", ("key", "path", "name", "size", "mtime_ns", "reason"), place=1),
)
"""The columns that each checksum of a row of the manifest covers."""
FILE_COLUMNS = ("path", "id", "name", "size", "mtime_ns", "status", "items", "reason")
"""The columns a `Document` is made from; the table has `key` and `rows` besides."""

STORED: Mapping[VectorKind, tuple[str, type[np.floating[Any]]]] = {
    VectorKind.SINGLE: ("vector", np.float32),
    VectorKind.MULTI: ("vectors", np.float16),
}
"""The column that holds vectors of a kind, and the precision that "exact" scores refer to."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def arrow() -> ArrowLibrary:
    """Import the module `pyarrow`, with its submodule `compute`."""
    importlib.import_module("pyarrow.compute")
    return importlib.import_module("pyarrow")


def to_numpy_int32(array: Any) -> NDArray[np.int32]:  # noqa: ANN401 - pyarrow has no types
    """View an Arrow array of 32-bit integers without nulls, (n,): its own `to_numpy` imports pandas."""
    values: NDArray[Any] = np.from_dlpack(array)
    return values


def to_arrow_int64(values: Sequence[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Make an Arrow array of 64-bit integers from a buffer: `pyarrow.array` imports pandas."""
    pa = arrow()
    buffer = pa.py_buffer(np.asarray(values, np.int64).tobytes())
    return pa.Array.from_buffers(pa.int64(), len(values), [None, buffer])


def vector_column(kind: VectorKind) -> str:
    """Return the column that holds vectors of this kind."""
    return STORED[kind][0]


def _fields(columns: Mapping[str, str]) -> list[Any]:
    pa = arrow()
    types = {
        "text": pa.string(),
        "bytes": pa.binary(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "list<int32>": pa.list_(pa.int32()),
        "list<float32>": pa.list_(pa.float32()),
        "list<float64>": pa.list_(pa.float64()),
    }
    return [pa.field(name, types[kind], nullable=name in _NULLABLE) for name, kind in columns.items()]


def item_schema(embedder: EmbedderInfo | None) -> ArrowSchema:
    """Return the Arrow schema of the items, with vectors if there is an embedder.

    `spans` holds start and end of each word one after the other, `boxes` x1, y1, x2, y2 of each
    word in fractions of the picture. Times of clips are in seconds of the video. `checksums` are those of
    `ITEM_PARTS`; rows of earlier versions of vrag have none.
    """
    pa = arrow()
    fields = [*_fields(_ITEM_TYPES), *checksum_fields(ITEM_PARTS)]
    if embedder is not None:
        if embedder.kind is VectorKind.SINGLE:
            vectors = pa.list_(pa.float32(), embedder.dimension)
        else:
            vectors = pa.list_(pa.list_(pa.float16(), embedder.dimension))
        fields.append(pa.field(vector_column(embedder.kind), vectors))
    return pa.schema(fields)


def file_schema() -> ArrowSchema:
    """Return the Arrow schema of the manifest: one row per path."""
    return arrow().schema([*_fields(_FILE_TYPES), *checksum_fields(FILE_PARTS)])


def checksum_fields(parts: Sequence[RowPart]) -> list[Any]:
    """Return the Arrow fields of the checksums of a table."""
    pa = arrow()
    count = 1 + max(part.place for part in parts)
    fields = {part.column: pa.uint32() for part in parts}
    fields[CHECKSUMS] = pa.list_(pa.uint32(), count)
    return [pa.field(name, kind) for name, kind in sorted(fields.items())]


def seal(
    rows: ArrowTable, parts: Sequence[RowPart], files: Mapping[RowPart, NDArray[np.uint32]]
) -> ArrowTable:
    """Give rows the checksums of all their parts; `files` are those of their files, (rows,)."""
    pa = arrow()
    fields = checksum_fields(parts)
    names = set(rows.column_names)
    sums = {
        field.name: np.zeros((rows.num_rows, getattr(field.type, "list_size", 1)), np.uint32)
        for field in fields
    }
    for part in parts:
        if part in files:
            sums[part.column][:, part.place] = files[part]
        elif part.columns and names.issuperset(part.columns):
            sums[part.column][:, part.place] = part_checksums(rows, part.columns)
    for field in fields:
        numbers = pa.array(sums[field.name].reshape(-1))
        is_list = hasattr(field.type, "list_size")
        column = pa.FixedSizeListArray.from_arrays(numbers, field.type.list_size) if is_list else numbers
        if field.name in names:
            rows = rows.set_column(rows.column_names.index(field.name), field, column)
        else:
            rows = rows.append_column(field, column)
    return rows


def file_checksums(
    rows: ArrowTable, open_file: Callable[[str], BinaryIO]
) -> dict[RowPart, NDArray[np.uint32]]:
    """Compute the checksums of the pictures and clips of items; 0 for one that cannot be read."""

    def compute(name: str | None) -> int:
        if name is None:
            return 0
        try:
            with open_file(name) as file:
                return file_checksum(file)
        except (OSError, CollectionError):
            return 0

    return {
        part: np.asarray([compute(name) for name in rows[column].to_pylist()], np.uint32)
        for part, column in STORED_FILES.items()
    }


def name_values(document: str, name: str) -> dict[str, str | int]:
    """Return the values of the columns that all items of a document change when its name changes."""
    rows = arrow().table({"document": [document], "document_name": [name]})
    return {"document_name": name, NAME.column: int(part_checksums(rows, NAME.columns)[0])}


def item_rows(
    items: Sequence[Item],
    vectors: Sequence[NDArray[Any] | None] | None = None,
    embedder: EmbedderInfo | None = None,
    open_file: Callable[[str], BinaryIO] | None = None,
) -> ArrowTable:
    """Convert items to an Arrow table of `item_schema(embedder)`.

    With an embedder each item has vectors, (dimension,) or (vectors, dimension), or None. `open_file` opens a
    stored picture or clip; without it their checksums are those of the items, as far as these have them.
    """
    pa = arrow()
    rows = [
        {
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
            "facts": _valid(encode_facts(item.facts)),
        }
        for item in items
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(_fields(_ITEM_TYPES)))
    if embedder is not None:
        assert vectors is not None
        column = _vector_array(vectors, embedder)
        table = table.append_column(pa.field(vector_column(embedder.kind), column.type), column)
    if open_file is not None:
        return seal(table, ITEM_PARTS, file_checksums(table, open_file))
    known = {
        PICTURE: np.asarray([item.checksum for item in items], np.uint32),
        CLIP: np.asarray([item.clip.checksum if item.clip else 0 for item in items], np.uint32),
    }
    return seal(table, ITEM_PARTS, known)


def _vector_array(vectors: Sequence[NDArray[Any] | None], embedder: EmbedderInfo) -> Any:  # noqa: ANN401
    """Convert vectors to an Arrow array: numbers are copied whole, never one by one."""
    pa = arrow()
    dtype = STORED[embedder.kind][1]
    is_single = embedder.kind is VectorKind.SINGLE
    nothing = np.zeros((int(is_single), embedder.dimension), dtype)
    parts = [
        nothing if vector is None else np.asarray(vector, dtype).reshape(-1, embedder.dimension)
        for vector in vectors
    ]
    missing = pa.array([vector is None for vector in vectors], pa.bool_())
    mask = missing if any(vector is None for vector in vectors) else None
    flat = np.concatenate(parts) if parts else np.zeros((0, embedder.dimension), dtype)
    rows = pa.FixedSizeListArray.from_arrays(
        pa.array(flat.reshape(-1)), embedder.dimension, mask=mask if is_single else None
    )
    if is_single:
        return rows
    ends = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), rows, mask=mask)


class FileChecksums(NamedTuple):
    """The checksums of the files of an item; 0 where they are not known."""

    picture: int
    clip: int


def stored_file_checksums(row: dict[str, Any]) -> FileChecksums:
    """Return the checksums of the files of an item, by its row."""
    numbers = row.get(CHECKSUMS)
    return FileChecksums(numbers[PICTURE.place], numbers[CLIP.place]) if numbers else FileChecksums(0, 0)


def item_of(row: dict[str, Any]) -> Item:
    """Convert a row with `ITEM_COLUMNS`, and perhaps its checksums, to its item."""
    checksums = stored_file_checksums(row)
    width, height, spans, boxes = row["width"], row["height"], row["spans"], row["boxes"]
    words = tuple(
        Word(spans[2 * i], spans[2 * i + 1], Box.unit(*boxes[4 * i : 4 * i + 4]))
        for i in range(min(len(spans) // 2, len(boxes) // 4))
    )
    clip = None
    if row["clip_path"] is not None:
        times = row["clip_start"], row["clip_end"], tuple(row["clip_frames"] or ())
        clip = Clip(row["clip_path"], *times, checksums.clip)
    return Item(
        id=row["id"],
        document=row["document"],
        document_name=row["document_name"],
        kind=ItemKind(row["kind"]),
        ordinal=row["ordinal"],
        text=row["text"],
        words=words,
        text_source=TextSource(row["text_source"]),
        size=None if width is None or height is None else Size(width, height),
        image=row["image"],
        heading=row["heading"],
        clip=clip,
        uid=row["uid"],
        facts=decode_facts(row["facts"] or ""),
        checksum=checksums.picture,
    )


def file_key(path: str) -> str:
    """Return the key of a path in the manifest: safe in SQL whatever bytes the path is made of.

    >>> file_key("/reports/it's.pdf")
    'dff7bff128c1c85e5e28a117b08b916f'
    """
    return hashlib.sha256(_path_bytes(path)).hexdigest()[:32]


def file_rows(documents: Iterable[tuple[Document, int]]) -> ArrowTable:
    """Convert documents to rows of the manifest, as an Arrow table.

    Each comes with the number of its item rows, which for a partial document is less than its `items`.
    """
    records = [
        {
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
        for document, rows in documents
    ]
    pa = arrow()
    return seal(pa.Table.from_pylist(records, schema=pa.schema(_fields(_FILE_TYPES))), FILE_PARTS, {})


def document_of(row: dict[str, Any]) -> Document:
    """Convert a row with `FILE_COLUMNS` to its document."""
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


def _path_bytes(path: str) -> bytes:
    """Encode a path, also one that is not valid Unicode on disk."""
    return path.encode("utf-8", "surrogateescape")


def _valid(text: str) -> str:
    """Replace what cannot be stored, one character by one: word spans stay right."""
    return _SURROGATES.sub("\ufffd", text)
