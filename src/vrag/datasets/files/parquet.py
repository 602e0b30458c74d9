"""Parquet files of gigabytes, read a row at a time: columns by name, and the place of each row."""

from __future__ import annotations

import importlib
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.rows import parquet_errors
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

BATCH_ROWS = 1_000
"""Rows without images in memory at once."""
BUFFER_BYTES = 1 << 20
"""Size of one read of a column; without it, a whole row group's column is read."""


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """The place of a row."""

    path: Path
    group: int
    """Row group, from 0."""
    row: int
    """Row of the group, from 0."""


def table_rows(
    paths: Iterable[Path], columns: Sequence[str], optional: Sequence[str] | None = ()
) -> Iterator[tuple[Spot, dict[str, Any]]]:
    """Yield the rows of parquet files, one file after the other.

    Args:
        paths: The files.
        columns: Required columns.
        optional: Further columns that are read where they exist; None for all.

    Raises:
        CaseError: If a file is not a parquet file, is damaged, or lacks a column.
    """
    for path in paths:
        with _open(path, columns) as file:
            names = None if optional is None else [*columns, *optional]
            for group in range(file.num_row_groups):
                at = 0
                for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=names):
                    for row in cast("list[dict[str, Any]]", batch.to_pylist()):
                        yield Spot(path, group, at), row
                        at += 1


class RowReader:
    """A reader of rows by their place, with one row in memory at a time.

    Where images were written with a dictionary, the images of a row group are in memory: the file cannot be
    read otherwise. Rows that are taken in the order of their places are read once; the reader remembers where
    it stopped. Safe for several threads.
    """

    def __init__(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        self._columns = list(columns)
        self._optional = list(optional)
        self._lock = threading.Lock()
        self._next: Spot | None = None
        self._left: Iterator[Any] = iter(())

    def read(self, spot: Spot) -> dict[str, Any]:
        """Read the columns of a row.

        Raises:
            CaseError: If the file is damaged, lacks a column, or ends before.
        """
        with self._lock:
            ahead = self._next is not None and (self._next.path, self._next.group) == (spot.path, spot.group)
            if not ahead or self._next is None or self._next.row > spot.row:
                self._left, self._next = self._batches(spot), Spot(spot.path, spot.group, 0)
            for at, batch in enumerate(self._left, self._next.row):
                if at == spot.row:
                    self._next = Spot(spot.path, spot.group, at + 1)
                    with parquet_errors(spot.path):
                        return cast("dict[str, Any]", batch.to_pylist()[0])
            self._next = None
            raise CaseError(f"{spot.path} ends before row {spot.row + 1} of its row group {spot.group + 1}.")

    def _batches(self, spot: Spot) -> Iterator[Any]:
        with _open(spot.path, self._columns) as file:
            yield from file.iter_batches(
                batch_size=1,
                row_groups=[spot.group],
                columns=[*self._columns, *self._optional],
                use_threads=False,
            )


@contextmanager
def _open(path: Path, columns: Sequence[str]) -> Generator[Any]:
    """Open a parquet file that has these columns; errors while it is read become `CaseError`."""
    reader: Any = importlib.import_module("pyarrow.parquet")  # it ships no types
    with (
        parquet_errors(path),
        path.open("rb") as handle,
        reader.ParquetFile(handle, buffer_size=BUFFER_BYTES, pre_buffer=False) as file,
    ):
        names = set(file.schema_arrow.names)
        if missing := [name for name in columns if name not in names]:
            known = ", ".join(sorted(names)[:12]) or "none"
            raise CaseError(
                f"{path} has no column {missing[0]!r}; its columns: {known}.",
                "Is it a file of another data set?",
            )
        yield file
