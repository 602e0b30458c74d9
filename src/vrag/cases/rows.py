"""Rows of published data sets: their files, which are JSON, JSON lines or parquet, and their formats.

Parquet files of gigabytes are read a row at a time: columns by name, and the place of each row.
"""

from __future__ import annotations

import gzip
import importlib
import json
import math
import re
import threading
import zlib
from abc import ABC, abstractmethod
from ast import literal_eval
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from vrag.errors import CaseError, MissingExtra, first_line

BATCH_ROWS = 1_000
"""Rows of a parquet file without images in memory at once."""
BUFFER_BYTES = 1 << 20
"""Size of one read of a column; without it, a whole row group's column is read."""
IMAGE_COLUMNS = re.compile(r"page_\d+")
"""Columns with the images of a deck (SlideVQA): gigabytes that no case needs."""
MAX_LINE_CHARACTERS = 64 * 2**20
"""Length of a row in a compressed file: a longer one is a fault, or made to fill memory."""
LIST_NAMES = ("examples", "data")
"""Names under which an object holds its rows: in the reference implementation's JSON, in SQuAD's."""
MAX_LITERAL_CHARACTERS = 10_000
"""Length of a list that is written as Python; a longer one is refused."""


def read_rows(path: Path) -> Iterator[object]:
    """Read rows one after the other; JSON lines and parquet are not read into memory as a whole.

    Raises `CaseError` if the file cannot be read, or is of another kind.
    """
    try:
        match path.suffix.lower():
            case ".parquet":
                with open_parquet(path) as file:
                    columns = [name for name in file.schema_arrow.names if not IMAGE_COLUMNS.fullmatch(name)]
                    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                        yield from batch.to_pylist()
            case ".jsonl" | ".ndjson":
                with path.open(encoding="utf-8-sig") as file:
                    yield from _parse_lines(file, path)
            case ".gz" if path.stem.lower().endswith((".jsonl", ".ndjson")):
                yield from _read_compressed_lines(path)
            case ".json" | "":  # a shell's <(…) has no ending
                yield from _read_json(path)
            case suffix:
                raise CaseError(f"{path} ends in {suffix}, not in .json, .jsonl, .jsonl.gz or .parquet.")
    except OSError as error:
        raise CaseError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise CaseError(f"{path} is not text in UTF-8.") from error


def _read_json(path: Path) -> Iterator[object]:
    """Read a JSON file, also one that holds JSON lines, as many files called .json do."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            is_json_lines = isinstance(json.loads(text.split("\n", 1)[0]), dict)
        except (ValueError, RecursionError):
            is_json_lines = False
        if not is_json_lines:
            raise CaseError(f"{path} is not JSON: {error}.") from error
        yield from _parse_lines(text.split("\n"), path)  # of the text: a pipe can be read only once
        return
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        value = next((fields[name] for name in LIST_NAMES if isinstance(fields.get(name), list)), [fields])
    if not isinstance(value, list):
        raise CaseError(f"{path} does not hold a list of cases.")
    yield from cast("list[object]", value)


def _read_compressed_lines(path: Path) -> Iterator[object]:
    def lines() -> Iterator[str]:
        while line := file.readline(MAX_LINE_CHARACTERS):
            if len(line) == MAX_LINE_CHARACTERS:
                raise CaseError(f"{path} has a line of more than {MAX_LINE_CHARACTERS:,} characters.")
            yield line

    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") as file:
            yield from _parse_lines(lines(), path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CaseError(f"{path} is not a complete gzip file: {error}.", "Download it again.") from error


def _parse_lines(lines: Iterable[str], path: Path) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CaseError(f"{path}, line {number} is not JSON: {error}.") from error


def import_pyarrow(module: str = "pyarrow") -> Any:  # noqa: ANN401 - it ships no types
    """Import pyarrow, or a module of it, which the extras `eval` and `train` bring.

    Raises `MissingExtra` if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra("pyarrow", "eval") from error


@contextmanager
def parquet_errors(path: Path) -> Generator[None]:
    """Raise errors about a parquet file as `CaseError`, those of the system as well."""
    pa = import_pyarrow()
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system; others are about the content
            raise CaseError(f"{path} cannot be read: {error.strerror}.") from error
        raise CaseError(
            f"{path} is not a parquet file, or damaged: {first_line(error)}.",
            "Download it again; it may be cut short.",
        ) from error


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

    Columns that are `optional` are read where they exist; None for all. Raises `CaseError` if a file is not a
    parquet file, is damaged, or lacks a column.
    """
    for path in paths:
        with open_parquet(path, columns) as file:
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

        Raises `CaseError` if the file is damaged, lacks a column, or ends before.
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
        with open_parquet(spot.path, self._columns) as file:
            columns = [*self._columns, *self._optional]
            yield from file.iter_batches(
                batch_size=1, row_groups=[spot.group], columns=columns, use_threads=False
            )


@contextmanager
def open_parquet(path: Path, columns: Sequence[str] = ()) -> Generator[Any]:
    """Open a parquet file that has these columns; errors while it is read become `CaseError`."""
    reader = import_pyarrow("pyarrow.parquet")
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


class CaseFormat(ABC):
    """A row format: the columns that identify it, and the cases of a row."""

    __slots__ = ()
    name: str
    """Name for `--from`."""
    columns: ClassVar[tuple[frozenset[str], ...]]
    """A row has this format if it has all columns of one of these sets."""

    def data_source(self, split: str) -> str:  # noqa: ARG002 - most have one name for every split
        """Return the data source in the training parquet, as the reference names it."""
        return self.name

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has this format, by its columns."""
        return any(columns <= row.keys() for columns in self.columns)

    @abstractmethod
    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Convert a row to cases in the dataset JSON (`vrag.cases.case_json`).

        Args:
            row: A row that fits.
            number: Its place in the file, from 0.

        Raises:
            CaseError: If the row is not as published.
        """


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """Return the text in the first of these columns that holds a text or a finite number.

    Raises `CaseError` if none does.
    """
    for name in names:
        value = row.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
        if isinstance(value, str) or is_number:
            return str(value)
    raise CaseError(f"There is no {names[0]!r}.")


def any_list(value: object) -> list[Any]:
    """Return a list as it is, and an empty list for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def any_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def object_of(value: object, name: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises `CaseError` if the value is something else; `name` says in the message what it is.
    """
    if not isinstance(value, dict):
        raise CaseError(f"{name} is not an object.")
    return cast("dict[str, Any]", value)


def plain_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a column. Raises `CaseError` if the column holds none."""
    value = row.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{name!r} is not a list.")
    return cast("list[Any]", value)


def literal_list(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a column, also from Python source such as "[3, 'a']", which is never executed.

    Raises `CaseError` if the column holds neither.
    """
    value = row.get(name)
    if isinstance(value, str) and len(value) <= MAX_LITERAL_CHARACTERS:
        try:
            value = literal_eval(value.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise CaseError(f"{name!r} is not a list: {row[name]!r:.80}.") from error
    return plain_list({name: value}, name)


def hops(pages: Iterable[object]) -> str:
    """Return the query type of a question by its gold pages, for data sets that have no column for it."""
    return "Multi-Hop" if len(set(map(str, pages))) > 1 else "Single-Hop"
