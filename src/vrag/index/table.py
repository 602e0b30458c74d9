"""One durable table: the only code that talks to LanceDB, and turns its failures into ours.

A write is one commit: data file, transaction file, then the manifest by a hard link that either
exists or does not. What a process leaves behind when it is killed before the link is not part of
any version; `compact` clears it. Writers take turns by the collection's lock; readers take none.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vrag.errors import CollectionError
from vrag.index.arrow import ArrowSchema, ArrowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

__all__ = ["Rows", "Table", "any_of", "literal"]

LanceTable: TypeAlias = Any
"""A `lancedb.table.LanceTable`, which has no types to speak of; None for a table without a version."""

_LIST = 1000
"""Values in one SQL list; longer ones are split."""


class Rows(NamedTuple):
    """Part of one version of a table."""

    version: int
    """0 for a table that nothing was written to yet."""
    data: ArrowTable


def literal(text: str) -> str:
    """A SQL string literal.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def any_of(column: str, values: Sequence[str]) -> list[str]:
    """SQL conditions that together hold where the column has one of the values.

    >>> any_of("id", ["a", "b"])
    ["id IN ('a', 'b')"]
    """
    return [
        f"{column} IN ({', '.join(literal(value) for value in values[at : at + _LIST])})"
        for at in range(0, len(values), _LIST)
    ]


class Table:
    """A table by name in a directory. Created by its first write; until then it is empty.

    May be shared by threads. Each read is of the newest version at its start.
    """

    def __init__(self, directory: Path, name: str, schema: Callable[[], ArrowSchema]) -> None:
        self._directory = directory
        self._name = name
        self._make_schema = schema
        self._handle: LanceTable = None
        self._turn = threading.RLock()

    @property
    def schema(self) -> ArrowSchema:
        """The Arrow schema."""
        return self._make_schema()

    @property
    def version(self) -> int:
        """Number of the newest version; 0 before the first write."""
        with self._turn, self._failures("read"):
            handle = self._newest()
            return 0 if handle is None else int(handle.version)

    def read(self, columns: Sequence[str], where: str | None = None) -> Rows:
        """Some columns of the rows for which a SQL condition holds, in no particular order.

        Raises:
            CollectionError: If the table cannot be read.
        """
        with self._turn, self._failures("read"):
            try:
                return self._read(columns, where)
            except RuntimeError:  # `compact` may have cleared this version away meanwhile
                self._handle = None
                return self._read(columns, where)

    def append(self, rows: ArrowTable) -> None:
        """Adds rows in one commit."""
        with self._turn, self._failures("written"):
            self._writable().add(rows)

    def upsert(self, rows: ArrowTable, key: str) -> None:
        """Adds rows, or replaces those with the same key, in one commit."""
        with self._turn, self._failures("written"):
            merge = self._writable().merge_insert(key)
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def delete(self, where: str) -> None:
        """Deletes the rows for which a SQL condition holds, in one commit."""
        with self._turn, self._failures("written"):
            self._writable().delete(where)

    def update(self, where: str, values: Mapping[str, Any]) -> None:
        """Sets columns of the rows for which a SQL condition holds, in one commit."""
        with self._turn, self._failures("written"):
            self._writable().update(where=where, values=dict(values))

    def compact(self, keep: timedelta) -> None:
        """Merges small files and deletes versions older than `keep`, and what killed writers left.

        A reader in the middle of an older version reads again from the newest.
        """
        with self._turn, self._failures("written"):
            handle = self._newest()
            if handle is not None:
                # Unverified files can only be leftovers: the caller holds the one writer's lock.
                handle.optimize(cleanup_older_than=keep, delete_unverified=True)

    def _read(self, columns: Sequence[str], where: str | None) -> Rows:
        handle = self._newest()
        if handle is None:
            schema = self.schema
            return Rows(0, schema.empty_table().select(list(columns)))
        query = handle.search().select(list(columns))
        data = (query if where is None else query.where(where)).to_arrow()
        return Rows(int(handle.version), data.select(list(columns)))

    def _newest(self) -> LanceTable:
        """The table at its newest version; None when there is none."""
        if self._handle is not None:
            self._handle.checkout_latest()
        elif (self._directory / f"{self._name}.lance").is_dir():
            self._handle = self._open()
        return self._handle

    def _open(self) -> LanceTable:
        import lancedb

        database: Any = lancedb.connect(str(self._directory))
        try:
            return database.open_table(self._name)
        except ValueError:  # killed between the directory and the first version
            return None

    def _writable(self) -> LanceTable:
        handle = self._newest()
        if handle is None:
            import lancedb

            self._directory.mkdir(parents=True, exist_ok=True)
            database: Any = lancedb.connect(str(self._directory))
            handle = self._handle = database.create_table(self._name, schema=self.schema, exist_ok=True)
        return handle

    @contextmanager
    def _failures(self, done: str) -> Generator[None]:
        """LanceDB raises what its parts raise: RuntimeError, OSError or ValueError."""
        try:
            yield
        except (RuntimeError, OSError, ValueError) as error:
            self._handle = None
            raise CollectionError(
                f"The table {self._name} in {self._directory} could not be {done}: {_first_line(error)}.",
                _hint(str(error)),
            ) from error


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300].rstrip(".")


def _hint(message: str) -> str:
    lowered = message.casefold()
    if "no space" in lowered or "quota" in lowered or "file too large" in lowered:
        return "Make room on the disk and run the command again: it goes on where it stopped."
    if "permission" in lowered or "read-only" in lowered:
        return "Give yourself the right to write there, or use a collection in another directory."
    return "Run: vrag index verify"
