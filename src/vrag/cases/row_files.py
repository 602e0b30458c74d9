"""The rows of a file, whatever it is: JSON, JSON lines, packed by gzip or not, parquet."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import zlib
from typing import TYPE_CHECKING, Any, cast

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["read_rows"]

BATCH = 1_000
"""Rows of a parquet file in memory at once."""
PICTURES = re.compile(r"page_\d+")
"""Columns with the pictures of a deck (SlideVQA): gigabytes that no case needs."""
LONGEST_LINE = 64 * 2**20
"""Signs of a row in a packed file: what is longer is a fault, or made to fill memory."""
LISTS = ("examples", "data")
"""Under which names an object holds its rows: in the reference implementation's JSON, in SQuAD's."""


def read_rows(path: Path) -> Iterator[object]:
    """The rows, one after the other; JSON lines and parquet are not read into memory as a whole.

    Raises:
        CaseError: If the file cannot be read, or is of another kind.
    """
    try:
        match path.suffix.lower():
            case ".parquet":
                yield from _parquet(path)
            case ".jsonl" | ".ndjson":
                yield from _lines(path)
            case ".gz" if path.stem.lower().endswith((".jsonl", ".ndjson")):
                yield from _packed_lines(path)
            case ".json" | "":  # without an ending comes what a shell hands over: <(…)
                yield from _json(path)
            case suffix:
                raise CaseError(f"{path} ends in {suffix}, not in .json, .jsonl, .jsonl.gz or .parquet.")
    except OSError as error:
        raise CaseError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise CaseError(f"{path} is not text in UTF-8.") from error


def _json(path: Path) -> Iterator[object]:
    """Rows of a JSON file; also of lines in a file that is called .json, as many are."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not _is_object(text.split("\n", 1)[0]):
            raise CaseError(f"{path} is not JSON: {error}.") from error
        yield from _parsed(text.split("\n"), path)  # not read anew: what comes through a pipe comes once
        return
    yield from _within(value, path)


def _within(value: object, path: Path) -> list[object]:
    """The list of rows in a value; a single row otherwise."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        value = next((fields[name] for name in LISTS if isinstance(fields.get(name), list)), [fields])
    if not isinstance(value, list):
        raise CaseError(f"{path} holds no list of cases.")
    return cast("list[object]", value)


def _lines(path: Path) -> Iterator[object]:
    with path.open(encoding="utf-8-sig") as file:
        yield from _parsed(file, path)


def _packed_lines(path: Path) -> Iterator[object]:
    def lines() -> Iterator[str]:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise CaseError(f"{path} has a line of more than {LONGEST_LINE:,} signs.")
            yield line

    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") as file:
            yield from _parsed(lines(), path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CaseError(f"{path} is no whole gzip file: {error}.", "Download it again.") from error


def _parsed(lines: Iterable[str], path: Path) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CaseError(f"{path}, line {number} is not JSON: {error}.") from error


def _parquet(path: Path) -> Iterator[object]:
    pa: Any = importlib.import_module("pyarrow")  # it ships no types
    reader: Any = importlib.import_module("pyarrow.parquet")

    try:
        with path.open("rb") as handle, reader.ParquetFile(handle) as file:
            columns = [name for name in file.schema_arrow.names if not PICTURES.fullmatch(name)]
            for batch in file.iter_batches(batch_size=BATCH, columns=columns):
                yield from cast("list[dict[str, Any]]", batch.to_pylist())
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system; others are of what stands in the file
            raise
        told = str(error).splitlines()[0].rstrip(" .")
        raise CaseError(f"{path} is not a parquet file, or damaged: {told}.") from error


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
