"""Files of benchmarks of documents, written as they are published."""

from __future__ import annotations

import importlib
import io
import json
from typing import TYPE_CHECKING, Any

from PIL import Image

from vrag.datasets.protocols import PageDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource, OpenBenchmark
    from vrag.types import Case

pa: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""A picture as the hub's data sets have it."""


def picture(shade: int = 255, size: tuple[int, int] = (20, 10), format: str = "JPEG") -> bytes:
    """A grey picture."""
    file = io.BytesIO()
    Image.new("RGB", size, (shade, shade, shade)).save(file, format)
    return file.getvalue()


def cell(data: bytes | None) -> dict[str, Any]:
    """A picture in a column of type `IMAGE`."""
    return {"bytes": data, "path": None}


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_table(path: Path, rows: Sequence[dict[str, Any]], schema: object, group: int = 100) -> Path:
    """A parquet file with so many rows a group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows), schema), path, row_group_size=group)
    return path


def write_files(folder: Path, *names: str) -> None:
    """Files that are there and hold their name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def taken(opened: OpenBenchmark) -> tuple[list[Case], list[DocumentSource]]:
    """The cases, and then the documents."""
    cases = list(opened.cases)
    return cases, list(opened.documents)


def pages_of(source: DocumentSource) -> list[bytes | None]:
    """The pictures of a document of pictures."""
    assert isinstance(source, PageDocument)
    return list(source.pages())
