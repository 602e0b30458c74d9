"""The documents and items of a collection, in the database `collection.db` and its blobs.

A change is one commit: of a killed process it is there as a whole or not at all. Each adds 1 to the
version, by which readers know what they have loaded, and keeps a hash over the set of items, which says
whether two collections hold the same. Blobs that a change names are on the disk before it.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vrag.errors import REPAIR_COMMAND, CollectionError
from vrag.index.schema import (
    FILE_COLUMNS,
    ITEM_COLUMNS,
    SCHEMA,
    STORED,
    VectorPlace,
    blob_of,
    encode_path,
    file_of,
    file_values,
    item_of,
    item_values,
    replace_surrogates,
    text_values,
)
from vrag.storage.blobs import BlobStore
from vrag.storage.database import Database
from vrag.storage.writer_lock import RefusedLock

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedderInfo
    from vrag.index.schema import KnownFile
    from vrag.storage.connection import Connection
    from vrag.storage.writer_lock import WriterLock
    from vrag.types import Document, Item

DATABASE = "collection.db"
BLOBS = "blobs"
HEADER = "header"
"""Name of the setting that holds what a collection was built with."""
_VERSION, _CONTENT = "version", "content"
_HASH_BYTES = 16
_FROM = "FROM items JOIN texts USING (number)"


class Rows(NamedTuple):
    """Rows of one version."""

    version: int
    names: tuple[str, ...]
    values: list[tuple[Any, ...]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        place = self.names.index(name)
        return [row[place] for row in self.values]

    def records(self) -> list[dict[str, Any]]:
        """Return each row by the names of its columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.values]


class CollectionStore:
    """The database of a collection and its blobs. May be shared by threads, and its directory by processes.

    All that reads or writes raises `CollectionError`.
    """

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self.database, self.blobs = database, blobs
        self._freed: set[str] = set()
        """Blobs of items that were deleted here."""

    @classmethod
    def create(
        cls, directory: Path, lock: WriterLock, header: str, *, durable: bool = True
    ) -> CollectionStore:
        """Create the store in a directory; `header` is what the collection is built with, as JSON."""

        def fill(connection: Connection) -> None:
            settings = (HEADER, header), (_VERSION, "0"), (_CONTENT, "0")
            connection.executemany("INSERT INTO settings VALUES (?, ?)", settings)

        database = Database.create(
            directory / DATABASE, SCHEMA, lock, CollectionError, durable=durable, fill=fill
        )
        return cls(database, BlobStore(directory / BLOBS, durable=durable))

    @classmethod
    def open(
        cls,
        directory: Path,
        lock: WriterLock,
        *,
        durable: bool = True,
        fixed: bool = False,
        read_only: bool = False,
    ) -> CollectionStore:
        """Open the store in a directory; `fixed` and `read_only` as for `Database.open`."""
        path = directory / DATABASE
        database = Database.open(
            path, SCHEMA, lock, CollectionError, durable=durable, fixed=fixed, read_only=read_only
        )
        return cls(database, BlobStore(directory / BLOBS, durable=durable))

    @classmethod
    def open_fixed(cls, path: Path, blobs: BlobStore, error: CollectionError) -> CollectionStore:
        """Open a database that nobody changes, and its blobs elsewhere; writing raises `error`."""
        lock = RefusedLock(error)
        return cls(Database.open(path, SCHEMA, lock, CollectionError, fixed=True), blobs)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def version(self) -> int:
        """Number of the last commit; it grows with every write."""
        with self.database.read() as connection:
            return _read_version(connection)

    @property
    def item_hash(self) -> str:
        """Hash over the set of all items: their ids, their texts and the names of their documents."""
        return f"{int(self.setting(_CONTENT), 16):032x}"

    def setting(self, name: str) -> str:
        """Return a setting; empty if there is none of this name."""
        with self.database.read() as connection:
            return connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).get or ""

    def renumber(self, version: int) -> None:
        """Give a copy of a collection another version."""
        with self.database.write() as connection:
            connection.execute("UPDATE settings SET value = ? WHERE name = ?", (str(version), _VERSION))
        self.database.checkpoint()

    @contextmanager
    def snapshot(self) -> Generator[int]:
        """Let all reads of this thread in the block see one version, which is returned."""
        with self.database.read() as connection:
            yield _read_version(connection)

    def read_items(
        self,
        columns: Sequence[str],
        where: str = "",
        parameters: Sequence[Any] = (),
        limit: int | None = None,
    ) -> Rows:
        """Read columns of the items for which a condition in SQL holds, in no particular order."""
        needs_text = any(name in columns or name in where for name in _TEXT_COLUMNS)
        source = _FROM if needs_text else "FROM items"
        condition = f" WHERE {where}" if where else ""
        bound = f" LIMIT {limit}" if limit is not None else ""
        return self._select(columns, f"{source}{condition}{bound}", parameters)

    def find_items(self, ids: Sequence[str], columns: Sequence[str] = ITEM_COLUMNS) -> list[dict[str, Any]]:
        """Read columns of those of these items that exist, in no particular order."""
        if not ids:
            return []
        text = any(name in _TEXT_COLUMNS for name in columns)
        statement = f"SELECT {', '.join(columns)} {_FROM if text else 'FROM items'} WHERE id = ?"
        with self.database.read() as connection:
            found = (connection.execute(statement, (id,)).fetchone() for id in dict.fromkeys(ids))
            return [dict(zip(columns, row, strict=True)) for row in found if row is not None]

    def items(self, ids: Sequence[str]) -> dict[str, Item]:
        """Return the items with these ids; those that do not exist are absent."""
        return {row["id"]: item_of(row) for row in self.find_items(ids)}

    def files(self, where: str = "", parameters: Sequence[Any] = ()) -> list[KnownFile]:
        """Read the manifest, or the rows for which a condition in SQL holds, in the order of their paths."""
        condition = f" WHERE {where}" if where else ""
        rows = self._select(FILE_COLUMNS, f"FROM files{condition} ORDER BY path", parameters)
        return [file_of(row) for row in rows.values]

    def statuses(self) -> list[str]:
        """Return the status of each file."""
        return self._select(["status"], "FROM files", ()).column("status")

    @contextmanager
    def change(self, wait: float | None = None) -> Generator[Change]:
        """Change documents and items in one commit, made when the block ends; nothing if it fails.

        Blobs that were stored before are put on the disk first. Raises `CollectionError` if a blob that the
        change names is gone: store it again.
        """
        with self.database.explain("written"):
            self.blobs.sync()
        with self.database.write(wait) as connection:
            change = Change(connection, int(_read_setting(connection, _CONTENT), 16))
            yield change
            self._freed |= change.freed
            if gone := self.blobs.absent(sorted(change.named)):
                raise CollectionError(f"A stored file is gone: {gone[0]}.", "Run the command again.")
            if change.is_empty:
                return
            values = (str(_read_version(connection) + 1), _VERSION), (f"{change.hash:x}", _CONTENT)
            connection.executemany("UPDATE settings SET value = ? WHERE name = ?", values)

    @contextmanager
    def explain_writing(self) -> Generator[None]:
        """Convert failures of the disk in a block that stores blobs."""
        with self.database.explain("written"):
            yield

    def collect(self, min_age: float | None = None) -> int:
        """Delete blobs that no item names, as `BlobStore.collect` describes; return how many."""
        with self.database.lock(), self.database.explain("cleaned up"):
            named = self.named_blobs()
            return (
                self.blobs.collect(named) if min_age is None else self.blobs.collect(named, min_age=min_age)
            )

    def erase(self) -> None:
        """Delete the blobs of items that were deleted here and that no other item names, and empty the log.

        Of what was deleted, no byte is left then. The caller holds the lock of builds: none is about to name
        such a blob.
        """
        with self.database.lock(), self.database.explain("cleaned up"):
            self.blobs.delete(self._freed - self.named_blobs())
        self._freed = set()
        self.database.checkpoint()

    def read_blob(self, name: str, title: str) -> bytes:
        """Read a blob; raise `CollectionError`, with its title for people, if it is gone or damaged."""
        try:
            return self.blobs.read(name)
        except (OSError, ValueError) as error:
            reason = "missing" if isinstance(error, FileNotFoundError) else "damaged"
            raise CollectionError(f"{title} is {reason}.", f"Run: {REPAIR_COMMAND}") from error

    def compact(self) -> None:
        """Rewrite the database without free pages, and delete blobs that no item names."""
        with self.database.explain("written"):
            self.database.vacuum()
        self.collect()

    def count_stray(self) -> int:
        """Return the number of blobs that no item names, of those that are old enough to be left over."""
        return self.blobs.count_stray(self.named_blobs())

    def count_items(self) -> list[tuple[str, str, int]]:
        """Return the documents of items with their names, and the number of items of each."""
        clauses = "FROM items GROUP BY document, document_name"
        return self._select(["document", "document_name", "count(*)"], clauses, ()).values

    def named_blobs(self) -> set[str]:
        """Return the names of all blobs that items have."""
        with self.database.read() as connection:
            return {
                blob_of(name)
                for column in _BLOB_COLUMNS
                for (name,) in connection.execute(f"SELECT DISTINCT {column} FROM items")  # noqa: S608
                if name is not None
            }

    def describe_blobs(self, names: AbstractSet[str]) -> dict[str, str]:
        """Return what blobs are, for people, as far as items name them: "a picture of report.pdf"."""
        rows = self.read_items(["document_name", *_BLOB_COLUMNS]).values
        owned = ((document, zip(_BLOB_TITLES, blobs, strict=True)) for document, *blobs in rows)
        return {
            blob_of(blob): f"{title} of {document}"
            for document, blobs in owned
            for title, blob in blobs
            if blob is not None and blob_of(blob) in names
        }

    def _select(self, columns: Sequence[str], clauses: str, parameters: Sequence[Any]) -> Rows:
        with self.database.read() as connection:
            statement = f"SELECT {', '.join(columns)} {clauses}"
            values = connection.execute(statement, tuple(parameters)).fetchall()
            return Rows(_read_version(connection), tuple(columns), values)


_TEXT_COLUMNS = ("heading", "text", "text_source", "words", "facts")
_BLOB_COLUMNS = ("image", "clip", "vectors")
_BLOB_TITLES = ("a picture", "a clip", "vectors")


class Change:
    """A commit that is being made."""

    def __init__(self, connection: Connection, hash: int) -> None:
        self._connection = connection
        self.hash = hash
        """Hash over the set of items: the sum of theirs, so that their order does not matter."""
        self.named: set[str] = set()
        """Blobs that rows of this change name."""
        self.freed: set[str] = set()
        """Blobs of rows that this change deletes."""
        self.is_empty = True

    def put_header(self, header: str) -> None:
        """Replace what the collection was built with, as JSON."""
        self.is_empty = False
        self._connection.execute("UPDATE settings SET value = ? WHERE name = ?", (header, HEADER))

    def put_files(self, files: Iterable[tuple[Document, int]]) -> None:
        """Add rows to the manifest, or replace those of the same path; each with the number of its items."""
        rows = [file_values(document, rows) for document, rows in files]
        if rows:
            self.is_empty = False
            marks = ", ".join("?" * len(FILE_COLUMNS))
            self._connection.executemany(f"INSERT OR REPLACE INTO files VALUES ({marks})", rows)  # noqa: S608

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete rows of the manifest."""
        for path in paths:
            self.is_empty = False
            self._connection.execute("DELETE FROM files WHERE path = ?", (encode_path(path),))

    def put_items(self, items: Iterable[tuple[Item, VectorPlace | None]]) -> None:
        """Add items with the places of their vectors, or replace those of the same id."""
        for item, place in items:
            self._delete("id = ?", (item.id,))
            values = item_values(item, place)
            self.named |= {blob_of(values[column]) for column in _BLOB_COLUMNS if values[column] is not None}
            self.hash = _add(self.hash, _hash_item(item.id, values["text_hash"], values["document_name"]))
            self._insert("items", values)
            number = self._connection.last_insert_rowid()
            self._insert("texts", {"number": number, **text_values(item)})
            self.is_empty = False

    def delete_items_by_id(self, ids: Iterable[str]) -> None:
        """Delete items."""
        for id in ids:
            self._delete("id = ?", (id,))

    def delete_items(self, document: str) -> int:
        """Delete the items of a document; return how many there were."""
        return self._delete("document = ?", (document,))

    def rename_document(self, document: str, name: str) -> None:
        """Give the items of a document another name."""
        name = replace_surrogates(name)
        before = "SELECT id, text_hash, document_name FROM items WHERE document = ?"
        for id, text_hash, old in self._connection.execute(before, (document,)).fetchall():
            self.hash = _add(self.hash, -_hash_item(id, text_hash, old))
            self.hash = _add(self.hash, _hash_item(id, text_hash, name))
        statement = "UPDATE items SET document_name = ? WHERE document = ?"
        self._connection.execute(statement, (name, document))
        self.is_empty = False

    def _delete(self, where: str, parameters: tuple[Any, ...]) -> int:
        columns = ("number", "id", "text_hash", "document_name", *_BLOB_COLUMNS)
        statement = f"SELECT {', '.join(columns)} FROM items WHERE {where}"  # noqa: S608
        rows = self._connection.execute(statement, parameters).fetchall()
        for number, id, text_hash, name, *blobs in rows:
            self.freed |= {blob_of(blob) for blob in blobs if blob is not None}
            self.hash = _add(self.hash, -_hash_item(id, text_hash, name))
            self._connection.execute("DELETE FROM texts WHERE number = ?", (number,))
            self._connection.execute("DELETE FROM items WHERE number = ?", (number,))
            self.is_empty = False
        return len(rows)

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        statement = f"INSERT INTO {table}({columns}) VALUES ({marks})"  # noqa: S608
        self._connection.execute(statement, tuple(values.values()))


def write_item_hash(connection: Connection) -> None:
    """Compute the hash over the set of items anew."""
    total = 0
    for id, text_hash, name in connection.execute("SELECT id, text_hash, document_name FROM items"):
        total = _add(total, _hash_item(id, text_hash, name))
    connection.execute("UPDATE settings SET value = ? WHERE name = ?", (f"{total:x}", _CONTENT))


def _read_version(connection: Connection) -> int:
    return int(_read_setting(connection, _VERSION))


def _read_setting(connection: Connection, name: str) -> str:
    value: str | None = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).get
    return value or "0"


def _hash_item(id: str, text_hash: bytes, name: str) -> int:
    digest = hashlib.sha256(b"\0".join((id.encode(), text_hash, name.encode()))).digest()
    return int.from_bytes(digest[:_HASH_BYTES], "big")


def _add(total: int, number: int) -> int:
    return (total + number) % (1 << 8 * _HASH_BYTES)


def store_files(item: Item, staging: Path, blobs: BlobStore) -> Item:
    """Move the files of an item from the staging directory to blobs; return it with their names.

    Raises `OSError`.
    """
    image, clip = item.image, item.clip
    if image is not None:
        image = _store_file(image, staging, blobs)
    if clip is not None:
        clip = replace(clip, path=_store_file(clip.path, staging, blobs))
    return replace(item, image=image, clip=clip)


def _store_file(name: str, staging: Path, blobs: BlobStore) -> str:
    path = staging / name
    return f"{blobs.put_file(path)}{path.suffix}"


def store_vectors(
    vectors: Sequence[NDArray[Any] | None], embedder: EmbedderInfo | None, blobs: BlobStore
) -> list[VectorPlace | None]:
    """Store the vectors of items in one blob; return the place of each, None for an item without.

    Vectors are (dimension,), or (vectors, dimension). Raises `OSError`.
    """
    if embedder is None or all(vector is None for vector in vectors):
        return [None] * len(vectors)
    dtype, dimension = STORED[embedder.kind], embedder.dimension
    parts = [None if each is None else np.asarray(each, dtype).reshape(-1, dimension) for each in vectors]
    chunk = blobs.put(b"".join(part.tobytes() for part in parts if part is not None))
    places: list[VectorPlace | None] = []
    start = 0
    for part in parts:
        places.append(None if part is None else VectorPlace(chunk, start, len(part)))
        start += 0 if part is None else len(part)
    return places
