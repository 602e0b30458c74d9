"""Rows of JSON, JSON lines (also compressed by gzip) and parquet files."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

BATCH_ROWS = 1_000
"""Rows of a parquet file in memory at once."""
IMAGE_COLUMNS = re.compile(r"page_\d+")
"""Columns with the images of a deck (SlideVQA): gigabytes that no case needs."""
MAX_LINE_CHARACTERS = 64 * 2**20
"""Length of a row in a compressed file: a longer one is a fault, or made to fill memory."""
LIST_NAMES = ("examples", "data")
"""Names under which an object holds its rows: in the reference implementation's JSON, in SQuAD's."""


def read_rows(path: Path) -> Iterator[object]:
    """Read rows one after the other; JSON lines and parquet are not read into memory as a whole.

    Raises:
        CaseError: If the file cannot be read, or is of another kind.
    """
    try:
        match path.suffix.lower():
            case ".parquet":
                yield from _read_parquet(path)
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
        if not _is_object(text.split("\n", 1)[0]):
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


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_parquet(path: Path) -> Iterator[object]:
    reader: Any = importlib.import_module("pyarrow.parquet")  # it ships no types
    with parquet_errors(path), path.open("rb") as handle, reader.ParquetFile(handle) as file:
        columns = [name for name in file.schema_arrow.names if not IMAGE_COLUMNS.fullmatch(name)]
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
            yield from cast("list[dict[str, Any]]", batch.to_pylist())


@contextmanager
def parquet_errors(path: Path) -> Generator[None]:
    """Raise errors about a parquet file as `CaseError`, those of the system as well."""
    pa: Any = importlib.import_module("pyarrow")
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system; others are about the content
            raise CaseError(f"{path} cannot be read: {error.strerror}.") from error
        reason = str(error).split("\n", 1)[0].rstrip(" .")
        raise CaseError(
            f"{path} is not a parquet file, or damaged: {reason}.", "Download it again; it may be cut short."
        ) from error
