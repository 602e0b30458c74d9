"""The indexes that the reference implementation writes: FAISS directories and ColQwen nodes.

Their vectors are checked before they are used, and no header decides how much memory is allocated: its
numbers are compared with the file's size first.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vrag.corpus.discover import Skipped
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError
from vrag.index.location import INDEX_FILE, LIST_FILE, META_FILE
from vrag.index.reference.entry_list import BadEntry, EntryKind, ListEntry, read_list, valid_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

NODE_DIMENSION = 128
"""Length of the vectors in nodes: the reference cuts the flat list into pieces of it."""
NODE_MODEL = "colqwen2"
"""The assumed model of nodes, which do not name it: the reference's default is a ColQwen2."""
MAX_NODE_BYTES = 64 * 2**20
"""Bytes of a node file at most: thirty times what a page takes."""
MAX_META_BYTES = 2**20
MAX_DIMENSION = 2**16
MAX_FLOAT16 = 65504.0
"""The largest finite float16: multi-vectors are stored as such."""
FLAT_HEADER = struct.Struct("<4siqqq?iQ")
"""FAISS's `IndexFlatIP`: a mark, dimension, number of vectors, two fillers, trained, metric, numbers."""
FLAT_IP = b"IxFI"
_BLOCK_SIZE = 4096
"""Vectors that are read together."""


@dataclass(frozen=True, slots=True)
class ReferenceIndex:
    """An index of the reference, read and checked."""

    directory: Path
    model: str
    """The model of the vectors, as the index names it."""
    kind: VectorKind
    dimension: int
    entries: tuple[ListEntry, ...]
    """Each with its `vector`."""
    problems: tuple[Skipped, ...]
    """Entries that cannot be used, with reasons."""
    notes: tuple[str, ...] = ()
    """Harmless inconsistencies, for people."""


def read_index(path: Path) -> ReferenceIndex:
    """Read a directory with a FAISS index or with `.node` files; or one `…_faiss_index.bin` of several in it.

    All vectors are read once, to be checked; none stays in memory. Raises `CollectionError` if there is no
    such index, or it is incomplete.
    """
    path = path.absolute()
    try:
        if path.name.endswith(INDEX_FILE) and path.is_file():
            return _read_faiss(path)
        faiss = sorted(path.glob(f"*{INDEX_FILE}"))
        nodes = sorted(path.glob("*.node"))
    except OSError as error:
        raise CollectionError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(faiss) > 1:
        raise CollectionError(
            f"{path} holds indexes of {len(faiss)} models: {', '.join(index.name for index in faiss)}.",
            "Name the file of the one you mean.",
        )
    if faiss:
        return _read_faiss(faiss[0])
    if nodes:
        return _read_nodes(path, nodes)
    raise CollectionError(
        f"There is no index of the reference in {path}.",
        f"Such an index has files named *{INDEX_FILE} or *.node. To add documents: vrag index add PATH",
    )


def _read_faiss(path: Path) -> ReferenceIndex:
    """Read three files that belong together."""
    stem = path.name.removesuffix(INDEX_FILE)
    meta = _read_meta(path.with_name(stem + META_FILE))
    try:
        vectors = _Flat.open(path)
        listed = list(read_list(path.with_name(stem + LIST_FILE)))
        notes = _compare(vectors, len(listed), meta)
        entries: list[ListEntry] = []
        problems: list[Skipped] = []
        for row, (entry, vector) in enumerate(zip(listed, vectors.all(), strict=True)):
            if isinstance(entry, Skipped):
                problems.append(entry)
            elif not np.isfinite(vector).all():
                problems.append(Skipped(path, f"Vector {row + 1}, of {entry.name}, is not finite."))
            else:
                digest = entry.digest_with(vector.tobytes())
                entries.append(replace(entry, digest=digest, vector=partial(vectors.row, row)))
    except OSError as error:
        raise _unreadable(path, error) from error
    except BadEntry as error:
        raise _torn(str(error)) from error
    return ReferenceIndex(
        directory=path.parent,
        model=valid_text(str(meta.get("model_name") or stem)),
        kind=VectorKind.SINGLE,
        dimension=vectors.dimension,
        entries=tuple(entries),
        problems=tuple(problems),
        notes=notes,
    )


def _unreadable(path: Path, error: OSError) -> CollectionError:
    return CollectionError(
        f"{error.filename or path} cannot be read: {error.strerror or error}.",
        "An index of the reference is three files; without one of them it cannot be used.",
    )


def _read_meta(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MAX_META_BYTES:
            raise CollectionError(f"{path} is too large to describe an index.")
        meta: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise CollectionError(f"{path} is not JSON, or cut short.", _INDEX_AGAIN) from error
    if not isinstance(meta, dict):
        raise CollectionError(f"{path} is not a JSON object.", _INDEX_AGAIN)
    return cast("dict[str, Any]", meta)


_INDEX_AGAIN = "Index the files themselves: vrag index add PATH"


@dataclass(frozen=True, slots=True)
class _Flat:
    """The vectors of a FAISS `IndexFlatIP` on disk.

    Read here and not by FAISS, so that importing needs no FAISS, little memory and trusts no header.
    """

    path: Path
    count: int
    dimension: int

    @classmethod
    def open(cls, path: Path) -> _Flat:
        """Check the header against the size of the file."""
        with path.open("rb") as file:
            head = file.read(FLAT_HEADER.size)
            size = file.seek(0, 2)
        if not head.startswith(FLAT_IP):
            message = f"{path} is not a flat FAISS index of inner products, as the reference writes it"
            raise CollectionError(f"{message}: it begins with {head[:4]!r}.", _INDEX_AGAIN)
        if len(head) < FLAT_HEADER.size:
            raise _torn(f"{path} ends in its header")
        _, dimension, count, _, _, _, metric, numbers = FLAT_HEADER.unpack(head)
        if metric != 0 or not 0 < dimension <= MAX_DIMENSION or numbers != count * dimension:
            raise _torn(f"{path} has a damaged header")
        if size - FLAT_HEADER.size != numbers * 4:
            raise _torn(f"{path} claims {count:,} vectors of {dimension:,} and has {size:,} bytes")
        return cls(path, count, dimension)

    def all(self) -> Iterator[NDArray[np.float32]]:
        for start in range(0, self.count, _BLOCK_SIZE):
            yield from self._read(start, min(_BLOCK_SIZE, self.count - start))

    def row(self, number: int) -> NDArray[np.float32]:
        """Read one vector, (dimension,)."""
        return self._read(number, 1)[0]

    def _read(self, start: int, count: int) -> NDArray[np.float32]:
        offset = FLAT_HEADER.size + start * self.dimension * 4
        numbers = np.fromfile(self.path, "<f4", count * self.dimension, offset=offset)
        if numbers.size != count * self.dimension:
            raise BadEntry(f"{self.path} became shorter meanwhile.")
        return numbers.reshape(count, self.dimension)


def _torn(message: str) -> CollectionError:
    return CollectionError(f"{message}: it was saved or copied incompletely.", _INDEX_AGAIN)


def _compare(vectors: _Flat, lines: int, meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Refuse an index whose vectors and lines do not match: which belongs to which is unknown."""
    path, count, dimension = vectors.path, vectors.count, vectors.dimension
    if count != lines:
        raise _torn(f"{path} has {count:,} vectors and its list {lines:,} entries")
    if meta.get("vector_dimension", dimension) != dimension:
        raise _torn(f"{path} has vectors of {dimension}, and its description says {meta['vector_dimension']}")
    described = meta.get("num_vectors", count)
    if described == count:
        return ()
    note = f"{path.name} and its list have {count:,} entries, and its description says {described}"
    return (f"{note}: it is written last, so that the two were used as they are.",)


def _read_nodes(directory: Path, paths: list[Path]) -> ReferenceIndex:
    entries: list[ListEntry] = []
    problems: list[Skipped] = []
    for path in paths:
        try:
            nodes = _load_nodes(path)
        except (BadEntry, OSError) as error:
            problems.append(Skipped(path, str(error)))
            continue
        for number, node in enumerate(nodes):
            try:
                entries.append(_node_entry(node, path, number))
            except BadEntry as error:
                problems.append(Skipped(path, str(error)))
    return ReferenceIndex(
        directory, NODE_MODEL, VectorKind.MULTI, NODE_DIMENSION, tuple(entries), tuple(problems)
    )


def _load_nodes(path: Path) -> list[Mapping[str, Any]]:
    if path.stat().st_size > MAX_NODE_BYTES:
        raise BadEntry(f"It is larger than {MAX_NODE_BYTES:,} bytes: no page has so many vectors.")
    try:
        loaded: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise BadEntry("It is not JSON, or cut short.") from None
    if not isinstance(loaded, list) or not loaded:
        raise BadEntry("It is not a list of nodes.")
    nodes = cast("list[Any]", loaded)
    if not all(isinstance(node, dict) for node in nodes):
        raise BadEntry("It holds something that is not a node.")
    return nodes


def _node_entry(node: Mapping[str, Any], path: Path, number: int) -> ListEntry:
    vectors = _node_vectors(node)
    metadata = node.get("metadata")
    fields = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    file = fields.get("file_path") or fields.get("file_name")
    if not isinstance(file, str) or not file.strip():
        raise BadEntry("It names no file.")
    text = node.get("text")
    size = fields.get("file_size")
    is_text = node.get("class_name") == "TextNode" and isinstance(text, str) and bool(text.strip())
    entry = ListEntry(
        kind=EntryKind.TEXT if is_text else EntryKind.IMAGE,
        path=valid_text(file),
        content=valid_text(str(text)) if is_text else "",
        origin=path.parent,
        size=size if isinstance(size, int) and not isinstance(size, bool) else None,
        # Read again when it is needed: the vectors of all nodes at once would not fit into memory.
        vector=lambda: _node_vectors(_load_nodes(path)[number]),
        digest="",
    )
    return replace(entry, digest=entry.digest_with(vectors.tobytes()))


def _node_vectors(node: Mapping[str, Any]) -> NDArray[np.float32]:
    flat = node.get("embedding")
    if not isinstance(flat, list) or not flat:
        raise BadEntry("It has no vectors.")
    numbers = cast("list[Any]", flat)
    if len(numbers) % NODE_DIMENSION:
        raise BadEntry(f"Its {len(numbers):,} numbers are not vectors of {NODE_DIMENSION}.")
    if not {type(number) for number in numbers} <= {int, float}:
        raise BadEntry("Its vectors hold something that is not a number.")
    try:
        values = np.array(numbers, np.float64)
    except OverflowError:
        values = np.array([np.inf])
    if not (np.abs(values) <= MAX_FLOAT16).all():
        raise BadEntry("Its vectors are not finite, or too large to be any.")
    return values.astype(np.float32).reshape(-1, NODE_DIMENSION)
