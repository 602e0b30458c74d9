"""The export of a collection as an index that the reference implementation can load.

Single vectors become its three FAISS files, many vectors its `.node` files; pictures and clips are in
`media/`, and entries name them by absolute paths, since the reference opens whatever path an
entry has. Everything is written in a folder beside the target and renamed in the end: a process that is
killed leaves no half index, only that folder, which the next export removes. A lock file beside the target,
`.<name>.lock`, which stays, keeps two exports to one target apart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.atomic_io import atomic_dir, one_writer
from vrag.corpus.formats.image import SUFFIXES as PICTURES
from vrag.embed.embedder import VectorKind
from vrag.embed.registry import SHORT_NAMES
from vrag.errors import CollectionError
from vrag.geometry import IMAGE_FORMATS
from vrag.index.location import INDEX_PATTERNS
from vrag.index.reference import index_files
from vrag.index.vectors.vector_index import LENGTHS, STARTS, VALID, VECTORS, gather
from vrag.parsing import parse_json
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.index.collection import Collection
    from vrag.index.location import EmbedderRecord

_COLUMNS = ("id", "document", "document_name", "kind", "ordinal", "text", "image", "clip", "uid")
_TYPES = {ItemKind.PAGE: "image", ItemKind.CLIP: "video", ItemKind.PASSAGE: "text"}
_MEDIA = "media"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_STEM_BYTES = 200
"""Bytes of a file name without page number and suffix at most."""
_ONE_PAGE = frozenset(PICTURES) - {".tif", ".tiff"}
"""Suffixes of documents that are one picture."""
_JPEG_QUALITY = 95
_JPEG_SUFFIXES = (".jpg", ".jpeg")
_BLOCK = 4096
"""Vectors that are in memory together."""
_FILLER = 1 << 20
"""The value that FAISS writes into two fields of the header that it does not use."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export."""

    directory: Path
    model: str
    """The model to give to the reference's `SearchEngine`."""
    items: int
    without_vector: int
    """Items that have no vector, and are left out."""
    files: tuple[str, ...]
    """Names of the index's own files."""


@dataclass(frozen=True, slots=True)
class _Exported:
    kind: ItemKind
    text: str
    uid: str
    name: str
    """File name without folder; of a passage, the path of its document."""
    stored: str
    """Its picture or clip in the collection; empty where there is none."""


def export_index(
    collection: Collection, target: Path, kind: VectorKind, *, model: str = "", replace: bool = False
) -> ExportReport:
    """Write a collection to a directory, as an index of the reference with vectors of this kind.

    Single vectors become a FAISS index, for its `load_index(target)`. Many vectors, of 128 numbers, become
    `.node` files, one for each item; the reference calls their directory `node_dir_prefix`. The model name
    for the reference is that of the collection's embedder if empty. With `replace`, an index that is there is
    replaced. Raises `CollectionError` if the collection has no such vectors, the target cannot be used, or
    nothing can be written.
    """
    embedder = _check_kind(collection, kind)
    target = Path(os.path.abspath(target))  # noqa: PTH100 - links stay links
    model = model or reference_name(embedder.name)
    write = _write_faiss if kind is VectorKind.SINGLE else _write_nodes
    busy = CollectionError(f"Another export writes {target}.", "Wait for it, or name another directory.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with one_writer(target.with_name(f".{target.name}.lock"), busy):
            _check_target(target, replace=replace)
            with atomic_dir(target) as partial:
                (partial / _MEDIA).mkdir()
                items, without = write(collection, partial, target, model)
            files = tuple(sorted(path.name for path in target.iterdir() if path.is_file()))
    except OSError as error:
        raise CollectionError(
            f"{target} cannot be written: {error.strerror or error}.",
            "Free some disk space, or name a directory that you may write to.",
        ) from error
    return ExportReport(target, model, items, without, files)


def reference_name(name: str) -> str:
    """Return the name that the reference has for the model of an embedder.

    >>> reference_name("gve:Alibaba-NLP/GVE-3B"), reference_name("gve-7b")
    ('Alibaba-NLP/GVE-3B', 'Alibaba-NLP/GVE-7B')
    """
    full = SHORT_NAMES.get(name.lower(), name)
    scheme, colon, model = full.partition(":")
    return model if colon and "/" not in scheme else full


def _check_kind(collection: Collection, kind: VectorKind) -> EmbedderRecord:
    """Return the record of the embedder. Raises `CollectionError` if it makes no vectors of this kind."""
    embedder = collection.header.embedder
    if embedder is None:
        raise CollectionError(
            f"The collection {collection.address} has no vectors, which such an index consists of.",
            "Index the files with an embedder: vrag index add PATH --collection NEW --embedder MODEL",
        )
    if embedder.kind is not kind:
        has, fits = ("many vectors", "--nodes") if kind is VectorKind.SINGLE else ("one vector", "--faiss")
        raise CollectionError(
            f"{embedder.name} makes {has} for each item.", f"Use {fits} for this collection."
        )
    if kind is VectorKind.MULTI and embedder.dimension != index_files.NODE_DIMENSION:
        raise CollectionError(
            f"The vectors of {embedder.name} have {embedder.dimension} numbers; nodes hold vectors of "
            f"{index_files.NODE_DIMENSION}."
        )
    return embedder


def _check_target(target: Path, *, replace: bool) -> None:
    """Refuse what is there, unless it is empty, or an index and to be replaced."""
    if not os.path.lexists(target):
        return
    if not target.is_dir() or target.is_symlink():
        raise CollectionError(f"{target} is not a directory.", "Name another one.")
    if not any(target.iterdir()):
        return
    own = {path.name for pattern in INDEX_PATTERNS for path in target.glob(pattern)}
    others = {path.name for path in target.iterdir()} - own
    if own:  # beside no index, a folder of this name is somebody else's
        others -= {_MEDIA}
    if others:
        raise CollectionError(
            f"{target} has files that are not of an index ({min(others)}).", "Name a new directory."
        )
    if not replace:
        raise CollectionError(f"{target} exists.", "Name a new directory, or add --replace.")
    media = target / _MEDIA
    present = {path.name for path in media.iterdir()} if media.is_dir() else set[str]()
    if present and (foreign := present - _listed_media(target)):  # an export did not write them
        raise CollectionError(
            f"{media} holds files that the index does not list ({min(foreign)}).",
            "Move them elsewhere, or name a new directory.",
        )


def _listed_media(directory: Path) -> set[str]:
    """Return the files below `media` that an index lists; none where its lists cannot be read."""
    names: set[str] = set()
    try:
        for path in directory.glob(f"*{index_files.LIST_FILE}"):
            with path.open(encoding="utf-8") as lines:
                names.update(Path(parse_json(line)["file_path"]).name for line in lines)
        for path in directory.glob("*.node"):
            nodes = parse_json(path.read_bytes())
            names.update(Path(node["metadata"]["file_path"]).name for node in nodes)
    except (ValueError, KeyError, TypeError):
        return set()
    return names


def _list_items(collection: Collection) -> tuple[list[str], list[_Exported]]:
    """Return ids and items, in the order of their documents and pages, with unique file names."""
    documents = {document.id: document for document in collection.documents() if document.status.served}
    rows = [row for row in collection.store.read_items(_COLUMNS).records() if row["document"] in documents]
    rows.sort(key=lambda row: (documents[row["document"]].path, row["ordinal"], row["id"]))
    taken: set[str] = set()
    items: list[_Exported] = []
    for row in rows:
        kind = ItemKind(row["kind"])
        stored = (row["clip"] if kind is ItemKind.CLIP else row["image"]) or ""
        name = (
            _file_name(row, stored, taken)
            if kind is not ItemKind.PASSAGE
            else documents[row["document"]].path
        )
        text = row["text"] if kind is ItemKind.PASSAGE else ""
        items.append(_Exported(kind, text, row["uid"] or "", name, stored))
    return [row["id"] for row in rows], items


def _file_name(row: dict[str, Any], stored: str, taken: set[str]) -> str:
    """Name a file `<stem>_<page from 1>.jpg`, as the reference names pages; `<stem>.jpg` of a picture.

    Pages of a second document of the same name are told apart by its id.
    """
    stem, _, own = _UNSAFE.sub("_", row["document_name"]).rpartition(".")
    stem = (stem or own).encode("utf-8", "replace")[:_STEM_BYTES].decode("utf-8", "ignore") or "_"
    is_clip = row["kind"] == ItemKind.CLIP
    page = "" if not is_clip and f".{own.lower()}" in _ONE_PAGE else f"_{row['ordinal']}"
    suffix = Path(stored).suffix if is_clip else ".jpg"
    name = f"{stem}{page}{suffix}"
    if name in taken:
        name = f"{stem}_{row['document'][:16]}{page}{suffix}"
    taken.add(name)
    return name


def _write_faiss(collection: Collection, place: Path, target: Path, model: str) -> tuple[int, int]:
    """Write index, list and description; return how many items they have, and how many were left out."""
    embedder = collection.header.embedder
    assert embedder is not None
    ids, items = _list_items(collection)
    valid, vectors = _gathered(collection, ids, place, np.float32)
    rows = np.flatnonzero(valid)
    stem = model.replace("/", "_").replace("-", "_")
    with (place / f"{stem}{index_files.INDEX_FILE}").open("wb") as file:
        numbers = len(rows) * embedder.dimension
        header = (index_files.FLAT_IP, embedder.dimension, len(rows), _FILLER, _FILLER, True, 0, numbers)
        file.write(index_files.FLAT_HEADER.pack(*header))
        for start in range(0, len(rows), _BLOCK):
            file.write(np.ascontiguousarray(vectors[rows[start : start + _BLOCK]]).data)
    with (place / f"{stem}{index_files.LIST_FILE}").open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(_entry(collection, items[row], place, target)) + "\n")
    described = {
        "vector_dimension": embedder.dimension,
        "num_vectors": len(rows),
        "model_name": model,
        "date_created": time.strftime("%Y-%m-%d-%H-%M-%S"),
    }
    (place / f"{stem}{index_files.META_FILE}").write_text(json.dumps(described, indent=4), encoding="utf-8")
    _remove_gathered(place)
    return len(rows), len(ids) - len(rows)


def _write_nodes(collection: Collection, place: Path, target: Path, model: str) -> tuple[int, int]:  # noqa: ARG001
    """Write one node for each item that has vectors; return as `_write_faiss` does."""
    ids, items = _list_items(collection)
    lengths, vectors = _gathered(collection, ids, place, np.float16)
    starts = np.fromfile(place / STARTS, np.int64)
    rows = np.flatnonzero(lengths)
    for row in rows:
        item, start = items[row], int(starts[row])
        entry = _entry(collection, item, place, target)
        node = _node(entry, vectors[start : start + int(lengths[row])])
        name = _UNSAFE.sub("_", Path(item.name).stem)
        if item.kind is ItemKind.PASSAGE or (place / f"{name}.node").exists():
            name = f"{name}_{row}"
        (place / f"{name}.node").write_text(json.dumps([node], ensure_ascii=False), encoding="utf-8")
    _remove_gathered(place)
    return len(rows), len(ids) - len(rows)


def _gathered(
    collection: Collection, ids: Sequence[str], place: Path, number: type[np.floating[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Load the items with vectors (or their number), and all vectors, (vectors, dimension), memory-mapped."""
    embedder = collection.header.embedder
    assert embedder is not None
    content = gather(collection, ids, place)
    if content is None:
        raise CollectionError("The collection was written to meanwhile.", "Export it again.")
    shape = content.arrays[VECTORS][1]
    counted = VALID if embedder.kind is VectorKind.SINGLE else LENGTHS
    there = np.fromfile(place / counted, content.arrays[counted][0])
    if not shape[0]:
        return there, np.empty((0, embedder.dimension), number)
    return there, np.memmap(place / VECTORS, number, "r", shape=(shape[0], embedder.dimension))


def _remove_gathered(place: Path) -> None:
    for name in (VECTORS, VALID, STARTS, LENGTHS):
        (place / name).unlink(missing_ok=True)


def _entry(collection: Collection, item: _Exported, place: Path, target: Path) -> dict[str, str]:
    """Return the line of an item in the reference's list; its picture or clip is written."""
    from PIL import Image, UnidentifiedImageError

    entry = {"type": _TYPES[item.kind], "file_path": item.name}
    if item.uid:
        entry["uid"] = item.uid
    if item.kind is ItemKind.PASSAGE:
        return entry | {"content": item.text}
    path = place / _MEDIA / item.name
    try:
        if item.stored:
            with collection.stored(item.stored) as source:
                if item.kind is ItemKind.CLIP or Path(item.stored).suffix.lower() in _JPEG_SUFFIXES:
                    with path.open("wb") as file:
                        shutil.copyfileobj(source, file)
                else:
                    with Image.open(source, formats=IMAGE_FORMATS) as image:
                        image.convert("RGB").save(path, "JPEG", quality=_JPEG_QUALITY)
    except (FileNotFoundError, UnidentifiedImageError) as error:
        raise CollectionError(
            f"The picture or clip of {item.name} is missing or damaged.", collection.location.repair_hint
        ) from error
    return entry | {"file_path": os.fspath(target / _MEDIA / item.name)}


def _node(entry: dict[str, str], vectors: NDArray[Any]) -> dict[str, object]:
    """Make a node as LlamaIndex stores it, with what the reference reads."""
    name = Path(entry["file_path"]).name
    metadata = {"file_path": entry["file_path"], "file_name": name}
    text = entry.get("content", "")
    node: dict[str, object] = {
        "id_": str(uuid.uuid5(uuid.NAMESPACE_URL, entry["file_path"] + "\n" + text)),
        "embedding": vectors.astype(np.float64).ravel().tolist(),
        "metadata": metadata,
        "excluded_embed_metadata_keys": [],
        "excluded_llm_metadata_keys": [],
        "relationships": {},
        "text": text,
        "class_name": "TextNode" if entry["type"] == "text" else "ImageNode",
    }
    if entry["type"] != "text":
        node |= {"mimetype": "image/jpeg", "image_path": entry["file_path"]}
    return node
