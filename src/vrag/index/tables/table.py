"""A durable table: its reads and commits, by LanceDB, whose failures are converted.

A write is one commit: data file, transaction file, then the manifest by a hard link that either
exists or does not. What a process leaves behind when it is killed before the link is not part of
any version; `compact` deletes it. Writers take turns by the collection's lock; readers take none.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from vrag.errors import CollectionError
from vrag.index.integrity.checksums import RowPart, find_damage, with_parts
from vrag.index.schema import ADDED_COLUMNS, ArrowSchema, ArrowTable, arrow, to_arrow_int64
from vrag.index.tables.copies import MAX_TABLE_BYTES, Manifest, TableCopies
from vrag.index.tables.lance import describe_failure, is_failure, open_database
from vrag.index.tables.recovery import advance_version
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.index.tables.lance import LanceTable
    from vrag.index.tables.store import TableStore, TableVersion

Result = TypeVar("Result")

_ATTEMPTS = 3
"""Number of attempts at a long read whose version is compacted away."""
_NEVER = timedelta(days=100 * 365)
"""An age that no version has."""
_MAX_SQL_VALUES = 1000
"""Values in one SQL list; longer ones are split."""
_KEYS = ("key", "id", "document")
"""The columns that rows are known by: of these, each part that has a checksum contains one."""
_TITLE = ("name", "document_name", "kind", "ordinal")
"""The columns that name the document of a row, and the place in it."""
_KINDS = frozenset(ItemKind)


class Rows(NamedTuple):
    """Part of one version of a table."""

    version: int
    """0 for a table that nothing was written to yet."""
    data: ArrowTable


def literal(text: str) -> str:
    """Quote a SQL string.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def any_of(column: str, values: Sequence[str]) -> list[str]:
    """Return SQL conditions that together hold where the column has one of the values.

    >>> any_of("id", ["a", "b"])
    ["id IN ('a', 'b')"]
    """
    return [
        f"{column} IN ({', '.join(literal(value) for value in values[at : at + _MAX_SQL_VALUES])})"
        for at in range(0, len(values), _MAX_SQL_VALUES)
    ]


class _KeyIndex(NamedTuple):
    """The rows of a version by a key."""

    key: str
    version: int
    values: NDArray[np.bytes_]
    """(rows,) sorted."""
    numbers: NDArray[np.int64]
    """(rows,) the number of each: LanceDB's where the table has them, else from 0."""

    @classmethod
    def of(cls, data: ArrowTable, key: str, version: int) -> _KeyIndex:
        values = _encode(data[key].to_pylist())
        order = np.argsort(values)
        numbers = data["_rowid"].to_numpy() if "_rowid" in data.column_names else np.arange(len(values))
        return cls(key, version, values[order], np.asarray(numbers, np.int64)[order])

    def rows(self, values: Sequence[str]) -> list[int]:
        wanted = np.unique(_encode(values))
        starts, ends = (np.searchsorted(self.values, wanted, side) for side in ("left", "right"))
        pairs = zip(starts, ends, strict=True)
        return [int(number) for start, end in pairs for number in self.numbers[start:end]]


def _describe_row(handle: LanceTable, key: str, cell: Any) -> str:  # noqa: ANN401 - pyarrow has no types
    """Return the document and the place in it that a damaged row is of, as far as that can be read."""
    title = "a row"
    try:
        value = cell.as_py()
        title = repr(value)
        names = [name for name in _TITLE if name in handle.schema.names]
        if value is None or not names:
            return title
        data = handle.search().where(f"{key} = {literal(value)}").limit(1).select(names).to_arrow()
        row = data.to_pylist()[0]
        place = f"{row['kind']} {row['ordinal']} of " if key == "id" and row.get("kind") in _KINDS else ""
        return f"{place}{row[names[0]]!r} ({value})"
    except BaseException as error:
        if not is_failure(error):
            raise
        return title  # what is damaged may be no text


def _encode(values: Sequence[str]) -> NDArray[np.bytes_]:
    return np.asarray([value.encode("utf-8", "surrogatepass") for value in values], np.bytes_)


class Table:
    """A table of a store, by name. Created by its first write; until then it is empty.

    May be shared by threads. Each read is of the newest version at its start. Until LanceDB is needed for
    something, `version`, `read` and `find` use a copy of the newest version where there is one. Rows that are
    read from LanceDB are compared with their checksums; a copy has been, and is checked as a whole. All
    methods raise `CollectionError` if the table cannot be read or written, or a row is damaged.
    """

    def __init__(
        self,
        store: TableStore,
        name: str,
        schema: Callable[[], ArrowSchema],
        copies: TableCopies | None = None,
        parts: Sequence[RowPart] = (),
    ) -> None:
        self._store = store
        self._parts = tuple(parts)
        """The parts of rows that have checksums."""
        self._name = name
        self._make_schema = schema
        self._handle: LanceTable = None
        self._table_version: TableVersion | None = None
        """The version of `_handle`."""
        self._key_index: _KeyIndex | None = None
        self._stamped: tuple[int | None, int] | None = None
        """A stamp of the store, and the version that was the newest then."""
        self._lock = threading.RLock()
        self._copies = copies
        self._from_copies = copies is not None
        """True if copies are read; no longer once LanceDB has opened the table."""
        self._manifest: tuple[int | None, Manifest | None] | None = None
        """A stamp of the store, and the manifest that was the newest then."""
        self._copy: tuple[Manifest, Rows] | None = None
        """The copy that was read last."""

    @property
    def schema(self) -> ArrowSchema:
        """The Arrow schema."""
        return self._make_schema()

    @property
    def version(self) -> int:
        """Number of the newest version; 0 before the first write."""
        with self._using("read"):
            if (copy := self._newest_copy()) is not None:
                return copy.version
            stamp = self._store.stamp(self._name)  # before the number: a commit in between is seen next time
            if stamp is None or self._stamped is None or self._stamped[0] != stamp:
                self._stamped = stamp, self._retry(lambda: self._number(self._newest()))
            return self._stamped[1]

    def read(
        self,
        columns: Sequence[str],
        where: str | None = None,
        limit: int | None = None,
        *,
        checked: bool = True,
    ) -> Rows:
        """Read columns of the rows for which a SQL condition holds, in no particular order.

        Unless `checked`, rows are not compared with their checksums.
        """
        with self._using("read"):
            if where is None and limit is None and (copy := self._newest_copy(columns)) is not None:
                return Rows(copy.version, copy.data.select(list(columns)))
            return self._retry(lambda: self._read(columns, where, limit, checked=checked))

    def batches(self, columns: Sequence[str], rows: int, *, checked: bool = True) -> Generator[ArrowTable]:
        """Read columns of all rows, so many rows at a time, from one version; memory is bounded by those.

        When `compact` deletes that version meanwhile, it begins again with the newest: rows that came
        already come again. Unless `checked`, rows are not compared with their checksums.
        """
        for attempt in reversed(range(_ATTEMPTS)):
            with self._using("read"):
                handle = self._retry(lambda: self._open(self._store.table_version(self._name)))
            if handle is None:
                return
            try:
                # By their places: a scan reads ahead as fast as it can, up to gigabytes.
                count = int(handle.count_rows())
                for at in range(0, count, rows):
                    places = list(range(at, min(at + rows, count)))
                    yield self._take(handle.take_offsets(places), handle, columns, checked=checked)
            except BaseException as error:
                if not is_failure(error):
                    raise
                if attempt:
                    self._store.renew()
                    continue
                with self._using("read"):
                    raise
            return

    def find(self, key: str, values: Sequence[str], columns: Sequence[str]) -> ArrowTable:
        """Read columns of the rows whose key is one of the values, in no particular order.

        The row of each key is remembered as long as the version is the same: a scan would take long
        in a large table, and request something of every file in object storage.
        """
        with self._using("read"):
            if (copy := self._newest_copy([key, *columns])) is not None:
                if not self._is_indexed(key, copy.version):
                    self._key_index = _KeyIndex.of(copy.data, key, copy.version)
                assert self._key_index is not None
                return copy.data.select(list(columns)).take(to_arrow_int64(self._key_index.rows(values)))

            def take() -> ArrowTable:
                handle = self._newest()
                if handle is None:
                    return self.schema.empty_table().select(list(columns))
                version = int(handle.version)
                if not self._is_indexed(key, version):
                    data = handle.search().select([key]).with_row_id(True).to_arrow()
                    self._key_index = _KeyIndex.of(data, key, version)
                assert self._key_index is not None
                rows = self._key_index.rows(values)
                if not rows:
                    return self.schema.empty_table().select(list(columns))
                return self._take(handle.take_row_ids(rows), handle, columns)

            return self._retry(take)

    def reopen(self) -> None:
        """Forget what is open, also copies: from here on the table itself is read, which may be another."""
        with self._lock:
            self._from_copies = False
            self._table_version = self._key_index = self._stamped = None
            self._forget()

    def save_copy(self, columns: Sequence[str]) -> None:
        """Keep a copy of these columns of the newest version, if LanceDB was used and the table is small."""
        with self._using("read"):
            manifest = self._store.manifest(self._name)
            if self._copies is None or self._from_copies or manifest is None:
                return
            if manifest.data_bytes() > MAX_TABLE_BYTES or self._copies.read(manifest) is not None:
                return
            rows = self._retry(lambda: self._read(columns, None, None))
            if self._store.manifest(self._name) == manifest and rows.version == manifest.version:
                self._copies.write(manifest, rows.data)

    @property
    def is_interrupted(self) -> bool:
        """True if a writer did not finish, or is at work."""
        with self._using("read"):
            return self._store.is_interrupted(self._name)

    def sync(self) -> None:
        """Put on the disk what is not there yet."""
        with self._using("written"):
            self._store.sync(self._name)

    def recover(self) -> bool:
        """Undo commits that were interrupted; return whether there were any since `forget_undoing`.

        The caller is the one writer.
        """
        with self._using("written"):
            is_undone = self._store.recover(self._name)
            if is_undone:
                self._forget()
            return is_undone

    def forget_undoing(self) -> None:
        """Record that the collection has looked at what was undone: `recover` reports it no longer."""
        with self._using("written"):
            self._store.forget_undoing(self._name)

    def append(self, rows: ArrowTable) -> None:
        """Add rows in one commit."""
        with self._committing() as handle:
            handle.add(self._storable(rows, handle))

    def upsert(self, rows: ArrowTable, key: str) -> None:
        """Add rows, or replace those with the same key, in one commit."""
        with self._committing() as handle:
            merge = handle.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
            merge.execute(self._storable(rows, handle))

    def delete(self, where: str) -> None:
        """Delete the rows for which a SQL condition holds, in one commit."""
        with self._committing() as handle:
            handle.delete(where)

    def update(self, where: str, values: Mapping[str, Any]) -> None:
        """Set columns of the rows for which a SQL condition holds, in one commit."""
        with self._committing() as handle:
            stored = set(handle.schema.names)
            kept = {name: value for name, value in values.items() if name in stored}
            handle.update(where=where, values=kept)

    def advance(self, version: int) -> None:
        """Commit the newest version again until its number is greater: readers remember rows by it."""
        with self._committing() as handle:
            advance_version(handle, version)

    def has_checksums(self) -> bool:
        """Return whether the table has columns of checksums: one of an earlier version of vrag has none."""
        with self._using("read"):
            handle = self._newest()
            return handle is None or self._checksum_columns <= set(handle.schema.names)

    def add_checksums(self) -> None:
        """Add the columns of checksums; the rows have none yet."""
        with self._committing() as handle:
            stored = set(handle.schema.names)
            handle.add_columns([field for field in self.schema if field.name not in stored])

    def compact(self, keep: timedelta) -> None:
        """Merge small files and delete versions older than `keep`, and what killed writers left.

        The merged version is acknowledged before the older ones are deleted. A reader in the middle of an
        older version reads again from the newest.
        """
        with self._using("written"):
            handle = self._newest()
            if handle is None:
                return
            with self._store.commit(self._name, lambda: int(handle.version)):
                handle.optimize(cleanup_older_than=_NEVER)
            with self._store.deletion(self._name):
                # Unverified files can only be leftovers: the caller holds the one writer's lock.
                handle.optimize(cleanup_older_than=keep, delete_unverified=True)

    @contextmanager
    def _committing(self) -> Generator[LanceTable]:
        """Hold the lock, and acknowledge the commit that is made in this block; create the table first."""
        with self._using("written"):
            handle = self._writable()
            with self._store.commit(self._name, lambda: int(handle.version)):
                yield handle

    def _storable(self, rows: ArrowTable, handle: LanceTable) -> ArrowTable:
        """Leave out what the table has no column for."""
        absent = self._added_columns - set(handle.schema.names)
        return rows.drop_columns(sorted(absent & set(rows.column_names))) if absent else rows

    def _read(
        self, columns: Sequence[str], where: str | None, limit: int | None, *, checked: bool = True
    ) -> Rows:
        handle = self._newest()
        if handle is None:
            return Rows(0, self.schema.empty_table().select(list(columns)))
        query = handle.search()
        query = query if where is None else query.where(where)
        query = query if limit is None else query.limit(limit)
        return Rows(self._number(handle), self._take(query, handle, columns, checked=checked))

    def _take(
        self,
        query: Any,  # noqa: ANN401 - LanceDB has no types
        handle: LanceTable,
        columns: Sequence[str],
        *,
        checked: bool = True,
    ) -> ArrowTable:
        """Read columns of a query, and compare its rows with their checksums.

        Columns that the table does not have, because an earlier version of vrag made it, are missing.
        """
        stored = set(handle.schema.names)
        missing = [name for name in columns if name not in stored and name in self._added_columns]
        wanted = [name for name in columns if name not in missing]
        with_sums = with_parts(wanted, self._parts if checked else (), handle.schema.names)
        data = query.select(with_sums).to_arrow()
        if checked:
            self._check(data, handle)
        for name in missing:
            field = self.schema.field(name)
            data = data.append_column(field, arrow().nulls(data.num_rows, field.type))
        return data.select(list(columns))

    @property
    def _checksum_columns(self) -> set[str]:
        return {part.column for part in self._parts}

    @property
    def _added_columns(self) -> set[str]:
        """The columns that tables of earlier versions may not have."""
        return self._checksum_columns | ADDED_COLUMNS

    def _check(self, data: ArrowTable, handle: LanceTable) -> None:
        damages = find_damage(data, self._parts)
        if damages:
            row, part = damages[0]
            key = next(name for name in _KEYS if name in part.columns)
            raise CollectionError(
                f"The {part.title} of {_describe_row(handle, key, data[key][row])} in the table {self._name} "
                f"in {self._store.name} is damaged: its checksum does not match.",
                self._store.hint("checksum"),
            )

    def _is_indexed(self, key: str, version: int) -> bool:
        return self._key_index is not None and self._key_index[:2] == (key, version)

    def _newest_copy(self, columns: Sequence[str] = ()) -> Rows | None:
        """Return the newest version's copy; None without one of these columns, or when LanceDB is in use."""
        if self._copies is None or not self._from_copies:
            return None
        stamp = self._store.stamp(self._name)  # before the manifest: a commit in between is seen next time
        if stamp is None or self._manifest is None or self._manifest[0] != stamp:
            self._manifest = stamp, self._store.manifest(self._name)
        manifest = self._manifest[1]
        if manifest is None:
            return None
        if self._copy is None or self._copy[0] != manifest:
            data = self._copies.read(manifest)
            if data is not None or self._copy is not None:
                self._key_index = None
            self._copy = None if data is None else (manifest, Rows(manifest.version, data))
        if self._copy is None or not set(columns) <= set(self._copy[1].data.column_names):
            return None
        return self._copy[1]

    def _newest(self) -> LanceTable:
        """Open the table at its newest version; None when there is none."""
        table_version = self._store.table_version(self._name)
        if table_version is None and self._table_version is not None:
            raise CollectionError(
                f"The table {self._name} in {self._store.name} is gone.",
                "Move the collection back, or stop and open it where it is now.",
            )
        if self._handle is None or table_version != self._table_version:
            self._handle, self._table_version = self._open(table_version), table_version
            self._key_index = None
        elif table_version is not None and not table_version.version:
            self._handle.checkout_latest()
        return self._handle

    def _open(self, table_version: TableVersion | None) -> LanceTable:
        if table_version is None:
            return None
        self._from_copies = False
        database = open_database(table_version.database, self._store.options)
        try:
            handle: LanceTable = database.open_table(self._name)
        except ValueError:  # killed between the directory and the first version
            return None
        if table_version.version:
            handle.checkout(table_version.version)
        return handle

    def _number(self, handle: LanceTable) -> int:
        if handle is None:
            return 0
        return (self._table_version.number if self._table_version else 0) or int(handle.version)

    def _writable(self) -> LanceTable:
        database_path = self._store.prepare()
        handle = self._newest()
        if handle is None:
            database = open_database(database_path, self._store.options)
            with self._store.commit(self._name, lambda: int(handle.version)):
                handle = database.create_table(self._name, schema=self.schema, exist_ok=True)
            self._handle = handle
            self._table_version = self._store.table_version(self._name)
        return handle

    def _retry(self, read: Callable[[], Result]) -> Result:
        """Read again when that fails: the version may have been deleted meanwhile."""
        try:
            return read()
        except BaseException as error:
            if not is_failure(error):
                raise
            self._forget()
            return read()

    def _forget(self) -> None:
        self._handle = None
        self._store.renew()

    @contextmanager
    def _using(self, verb: str) -> Generator[None]:
        """Hold the lock, and convert failures of LanceDB."""
        with self._lock:
            try:
                yield
            except BaseException as error:
                if not is_failure(error):
                    raise
                self._forget()
                raise CollectionError(
                    f"The table {self._name} in {self._store.name} could not be {verb}: "
                    f"{describe_failure(error)}.",
                    self._store.hint(str(error)),
                ) from error
