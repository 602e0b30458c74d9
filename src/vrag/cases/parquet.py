"""The parquet of training: written row group by row group, with the columns that trainers read.

The columns are those of the reference's trainer. Its converter left `file_name` and `reference_page` out at
the top, where the trainer looks for them; here they stand in both places. `content_type` and `reason_type`
hold what the reference's converter makes of the types of a case, which cannot always be undone: the types
themselves stand in `extra_info.meta_info`, with their names in the JSON. Gold boxes have no column.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag.cases.dataset import written_whole
from vrag.cases.labels import write_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vrag.types import Case

__all__ = ["ParquetOptions", "parquet_schema", "write_parquet"]

ArrowSchema: TypeAlias = Any
"""A `pyarrow.Schema`."""

ABILITY = "vqa"
"""What trainers may group by; ours do not look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """What the rows say beside the case."""

    split: str = "train"
    instruction: str = ""
    """What stands in the prompt before the question."""
    row_group: int = 1_000
    """Rows that are held in memory and written at once."""


def parquet_schema() -> ArrowSchema:
    """The columns and their types."""
    pa: Any = importlib.import_module("pyarrow")  # it ships no types

    text, pages = pa.string(), pa.list_(pa.int64())
    message = pa.struct([("role", text), ("content", text)])
    reward = pa.struct([("style", text), ("ground_truth", text)])
    meta = pa.struct(
        [
            ("source_type", pa.list_(text)),
            ("query_type", text),
            ("doc_type", text),
            ("answer_format", text),
        ]
    )
    extra = pa.struct(
        [
            ("split", text),
            ("index", pa.int64()),
            ("answer", text),
            ("question", text),
            ("content_type", text),
            ("reason_type", text),
            ("file_name", text),
            ("reference_page", pages),
            ("meta_info", meta),
        ]
    )
    return pa.schema(
        [
            ("id", text),
            ("prompt", pa.list_(message)),
            ("data_source", text),
            ("ability", text),
            ("reward_model", reward),
            ("extra_info", extra),
            ("file_name", text),
            ("reference_page", pages),
        ]
    )


def write_parquet(path: Path, cases: Iterable[tuple[str, Case]], options: ParquetOptions) -> int:
    """Write cases as they come; the file is complete or not there at all.

    Args:
        path: The file; one that exists is replaced.
        cases: Each with its data source, the name by which trainers group rows.
        options: What all rows have in common.

    Returns:
        How many there were.

    Raises:
        CaseError: If the file cannot be written.
    """
    pa: Any = importlib.import_module("pyarrow")
    written: Any = importlib.import_module("pyarrow.parquet")
    count = 0
    schema = parquet_schema()
    with (
        written_whole(path) as unfinished,
        unfinished.open("wb") as file,
        written.ParquetWriter(file, schema) as writer,
    ):
        for group in _groups(cases, options.row_group):
            rows = [_row(case, source, count + at, options) for at, (source, case) in enumerate(group)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(group)
    return count


def _groups(cases: Iterable[tuple[str, Case]], size: int) -> Iterator[list[tuple[str, Case]]]:
    left = iter(cases)
    while group := list(islice(left, size)):
        yield group


def _row(case: Case, data_source: str, index: int, options: ParquetOptions) -> dict[str, Any]:
    prompt = f"{options.instruction}\n{case.query}".lstrip("\n")
    pages = list(case.reference_page)
    content_type, reason_type = write_types(case, data_source)
    return {
        "id": case.uid,
        "prompt": [{"role": "user", "content": prompt}],
        "data_source": data_source,
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": case.reference_answer},
        "extra_info": {
            "split": options.split,
            "index": index,
            "answer": case.reference_answer,
            "question": case.query,
            "content_type": content_type,
            "reason_type": reason_type,
            "file_name": case.file_name,
            "reference_page": pages,
            "meta_info": {
                "source_type": list(case.source_type),
                "query_type": case.query_type,
                "doc_type": case.document_type,
                "answer_format": case.answer_format.value,
            },
        },
        "file_name": case.file_name,
        "reference_page": pages,
    }
