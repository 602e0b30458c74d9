"""Parquet files of gigabytes, read a row at a time: columns by name, and the place of each row."""

from __future__ import annotations

import importlib
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["RowReader", "Spot", "table_rows"]

BATCH = 1_000
"""Rows without pictures in memory at once."""
BUFFER = 1 << 20
"""Bytes of a column that are read from the disk at once; without it, all of a row group's."""


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """Where a row lies."""

    path: Path
    group: int
    """Row group, from 0."""
    row: int
    """Row of the group, from 0."""


def table_rows(
    paths: Iterable[Path], columns: Sequence[str], optional: Sequence[str] | None = ()
) -> Iterator[tuple[Spot, dict[str, Any]]]:
    """The rows of parquet files, by the columns asked for.

    Args:
        paths: The files, which follow on one another.
        columns: Those that must be there.
        optional: Those that may be; None for all there are.

    Raises:
        CaseError: If a file is no parquet, is damaged, or lacks a column.
    """
    for path in paths:
        with _opened(path) as file:
            _check(path, file, columns)
            wanted = None if optional is None else [*columns, *optional]
            for group in range(file.num_row_groups):
                yield from _group_rows(path, file, group, wanted)


class RowReader:
    """Reads rows by their place, one in memory at a time.

    Where pictures were written with a dictionary, as much of a row group is in memory as it holds of them:
    the file cannot be read otherwise. Rows that are taken in the order of their places are read once; it
    remembers where it stopped. Safe for several threads.
    """

    def __init__(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        self._columns = list(columns)
        self._optional = list(optional)
        self._lock = threading.Lock()
        self._next: Spot | None = None
        self._left: Iterator[Any] = iter(())

    def read(self, spot: Spot) -> dict[str, Any]:
        """The columns of a row.

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
                    with _told(spot.path):
                        return cast("dict[str, Any]", batch.to_pylist()[0])
            self._next = None
            raise CaseError(f"{spot.path} ends before row {spot.row + 1} of its row group {spot.group + 1}.")

    def _batches(self, spot: Spot) -> Iterator[Any]:
        """One row each."""
        with _opened(spot.path) as file:
            _check(spot.path, file, self._columns)
            yield from file.iter_batches(
                batch_size=1,
                row_groups=[spot.group],
                columns=[*self._columns, *self._optional],
                use_threads=False,
            )


def _group_rows(
    path: Path,
    file: Any,  # noqa: ANN401 - the library ships no types
    group: int,
    columns: list[str] | None,
) -> Iterator[tuple[Spot, dict[str, Any]]]:
    at = 0
    for batch in file.iter_batches(batch_size=BATCH, row_groups=[group], columns=columns):
        for row in cast("list[dict[str, Any]]", batch.to_pylist()):
            yield Spot(path, group, at), row
            at += 1


def _check(path: Path, file: Any, columns: Sequence[str]) -> None:  # noqa: ANN401 - the library ships no types
    there = set(file.schema_arrow.names)
    if missing := [name for name in columns if name not in there]:
        has = ", ".join(sorted(there)[:12]) or "none"
        raise CaseError(
            f"{path} has no column {missing[0]!r}; its columns: {has}.", "Is it a file of another data set?"
        )


@contextmanager
def _opened(path: Path) -> Generator[Any]:
    """A parquet file; errors while it is read are of cases."""
    reader: Any = importlib.import_module("pyarrow.parquet")  # it ships no types
    with (
        _told(path),
        path.open("rb") as handle,
        reader.ParquetFile(handle, buffer_size=BUFFER, pre_buffer=False) as file,
    ):
        yield file


@contextmanager
def _told(path: Path) -> Generator[None]:
    pa: Any = importlib.import_module("pyarrow")
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise CaseError(f"{path} cannot be read: {error.strerror}.") from error
        told = str(error).split("\n", 1)[0].rstrip(" .")
        raise CaseError(
            f"{path} is not a parquet file, or damaged: {told}.", "Download it again; it may be cut short."
        ) from error
