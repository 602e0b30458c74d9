"""The tables of a collection, and the conversion of items and documents to rows and back."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vrag.embed.embedder import VectorKind
from vrag.geometry import Box, Size
from vrag.item_facts import decode_facts, encode_facts
from vrag.storage.database import Schema
from vrag.types import Clip, Document, DocumentStatus, Item, ItemKind, TextSource, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

_APPLICATION = 0x76726167
"""Number of databases of collections: "vrag"."""
_TABLES = """
CREATE TABLE settings(
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The manifest: every file that was added.
CREATE TABLE files(
    path BLOB PRIMARY KEY,
    document TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    status TEXT NOT NULL,
    items INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX files_by_document ON files(document);

-- The states of files in which their content is known.
CREATE TABLE stamps(
    path BLOB PRIMARY KEY,
    document TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is read of all items; short, so that it is read fast.
CREATE TABLE items(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL,
    document_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    width INTEGER,
    height INTEGER,
    image TEXT,
    clip TEXT,
    clip_start REAL,
    clip_end REAL,
    clip_frames TEXT,
    uid TEXT NOT NULL,
    vectors TEXT,
    vectors_start INTEGER,
    vectors_count INTEGER,
    text_hash BLOB NOT NULL
) STRICT;
CREATE INDEX items_by_document ON items(document, ordinal);

-- What is read of some items.
CREATE TABLE texts(
    number INTEGER PRIMARY KEY,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    text_source TEXT NOT NULL,
    words BLOB NOT NULL,
    facts TEXT NOT NULL
) STRICT;
"""
SCHEMA = Schema(_APPLICATION, (_TABLES,), "collection")

ITEM_COLUMNS = (
    *("id", "document", "document_name", "kind", "ordinal", "width", "height", "image"),
    *("clip", "clip_start", "clip_end", "clip_frames", "uid"),
    *("heading", "text", "text_source", "words", "facts"),
)
"""The columns an `Item` is made from, of both of its tables."""
FILE_COLUMNS = ("path", "document", "name", "size", "mtime_ns", "status", "items", "rows", "reason")
"""The columns of the manifest."""

STORED: Mapping[VectorKind, type[np.floating[Any]]] = {
    VectorKind.SINGLE: np.float32,
    VectorKind.MULTI: np.float16,
}
"""The precision in which vectors of a kind are stored, which "exact" scores refer to."""

HASH_BYTES = 16
"""Bytes of the hash of an item's text."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_FAST = 1
"""Level of compression of the places of words: others gain little and take several times as long."""


class VectorPlace(NamedTuple):
    """The place of the vectors of an item."""

    chunk: str
    """Name of a blob: vectors one after the other, in the precision of their kind."""
    start: int
    """Number of its first vector in the chunk."""
    length: int
    """Number of its vectors."""


class KnownFile(NamedTuple):
    """A row of the manifest, and how many items of its content are stored."""

    document: Document
    rows: int
    """For a partial document less than its `items`."""


def item_values(item: Item, place: VectorPlace | None) -> dict[str, Any]:
    """Return the values of the row of an item in the table of items."""
    clip = item.clip
    return {
        "id": item.id,
        "document": item.document,
        "document_name": replace_surrogates(item.document_name),
        "kind": item.kind.value,
        "ordinal": item.ordinal,
        "width": item.size.width if item.size else None,
        "height": item.size.height if item.size else None,
        "image": item.image,
        "clip": clip.path if clip else None,
        "clip_start": clip.start if clip else None,
        "clip_end": clip.end if clip else None,
        "clip_frames": json.dumps(clip.frames) if clip else None,
        "uid": replace_surrogates(item.uid),
        "vectors": place.chunk if place else None,
        "vectors_start": place.start if place else None,
        "vectors_count": place.length if place else None,
        "text_hash": hash_text(item),
    }


def text_values(item: Item) -> dict[str, Any]:
    """Return the values of the row of an item in the table of texts."""
    return {
        "heading": replace_surrogates(item.heading),
        "text": replace_surrogates(item.text),
        "text_source": item.text_source.value,
        "words": pack_words(item.words),
        "facts": replace_surrogates(encode_facts(item.facts)),
    }


def item_of(row: Mapping[str, Any]) -> Item:
    """Convert a row with `ITEM_COLUMNS` to its item."""
    width, height = row["width"], row["height"]
    clip = None
    if row["clip"] is not None:
        frames = tuple(map(float, json.loads(row["clip_frames"] or "[]")))
        clip = Clip(row["clip"], row["clip_start"], row["clip_end"], frames)
    return Item(
        id=row["id"],
        document=row["document"],
        document_name=row["document_name"],
        kind=ItemKind(row["kind"]),
        ordinal=row["ordinal"],
        text=row["text"],
        words=unpack_words(row["words"]),
        text_source=TextSource(row["text_source"]),
        size=None if width is None or height is None else Size(width, height),
        image=row["image"],
        heading=row["heading"],
        clip=clip,
        uid=row["uid"],
        facts=decode_facts(row["facts"]),
    )


def file_values(document: Document, rows: int) -> tuple[Any, ...]:
    """Return the values of the row of a file, in the order of `FILE_COLUMNS`."""
    return (
        encode_path(document.path),
        document.id,
        replace_surrogates(document.name),
        document.size,
        document.mtime_ns,
        document.status.value,
        document.items,
        rows,
        replace_surrogates(document.reason),
    )


def file_of(row: tuple[Any, ...]) -> KnownFile:
    """Convert a row with `FILE_COLUMNS`."""
    path, id, name, size, mtime_ns, status, items, rows, reason = row
    document = Document(
        path=path.decode("utf-8", "surrogateescape"),
        id=id,
        name=name,
        size=size,
        mtime_ns=mtime_ns,
        status=DocumentStatus(status),
        items=items,
        reason=reason,
    )
    return KnownFile(document, rows)


def pack_words(words: tuple[Word, ...]) -> bytes:
    """Encode the places of words: starts and ends in the text, then boxes in fractions of the picture."""
    if not words:
        return b""
    spans = np.asarray([(word.start, word.end) for word in words], "<i4")
    boxes = np.asarray([word.box.as_tuple() for word in words], "<f4")
    return zlib.compress(spans.tobytes() + boxes.tobytes(), _FAST)


def unpack_words(data: bytes) -> tuple[Word, ...]:
    """Decode the places of words."""
    if not data:
        return ()
    raw = zlib.decompress(data)
    count = len(raw) // 24  # two numbers and four, of four bytes each
    spans = np.frombuffer(raw, "<i4", 2 * count).reshape(count, 2).tolist()
    boxes = np.frombuffer(raw, "<f4", 4 * count, 8 * count).reshape(count, 4).tolist()
    return tuple(Word(start, end, Box.unit(*box)) for (start, end), box in zip(spans, boxes, strict=True))


def hash_text(item: Item) -> bytes:
    """Return `HASH_BYTES` of the SHA-256 of what an item says: its heading and its text."""
    text = f"{replace_surrogates(item.heading)}\0{replace_surrogates(item.text)}"
    return hashlib.sha256(text.encode()).digest()[:HASH_BYTES]


def blob_of(name: str) -> str:
    """Return the name of the blob of a picture or clip, whose own name has the suffix of its format.

    >>> blob_of("00ff.jpg")
    '00ff'
    """
    return name.partition(".")[0]


def encode_path(path: str) -> bytes:
    """Encode a path, also one that is not valid Unicode on disk."""
    return path.encode("utf-8", "surrogateescape")


def replace_surrogates(text: str) -> str:
    """Replace what cannot be stored, one character by one: word spans stay right."""
    return _SURROGATES.sub("\ufffd", text)
