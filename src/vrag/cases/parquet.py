"""The parquet of training: written row group by row group, with the columns that trainers read.

The columns are those of the reference's trainer. Its converter left `file_name` and `reference_page` out at
the top, where the trainer looks for them; here they stand in both places. Gold boxes have no column.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag.cases.dataset import written_whole
from vrag.cases.labels import write_labels

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

    data_source: str
    """Where the cases come from: trainers count by it."""
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


def write_parquet(path: Path, cases: Iterable[Case], options: ParquetOptions) -> int:
    """Writes cases as they come; whole or not at all.

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
            rows = [_row(case, count + at, options) for at, case in enumerate(group)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(group)
    return count


def _groups(cases: Iterable[Case], size: int) -> Iterator[list[Case]]:
    left = iter(cases)
    while group := list(islice(left, size)):
        yield group


def _row(case: Case, index: int, options: ParquetOptions) -> dict[str, Any]:
    prompt = f"{options.instruction}\n{case.query}".lstrip("\n")
    pages = list(case.reference_page)
    return {
        "id": case.uid,
        "prompt": [{"role": "user", "content": prompt}],
        "data_source": options.data_source,
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": case.reference_answer},
        "extra_info": {
            "split": options.split,
            "index": index,
            "answer": case.reference_answer,
            "question": case.query,
            "content_type": write_labels(case.source_type),
            "reason_type": write_labels([case.query_type] if case.query_type else []),
            "file_name": case.file_name,
            "reference_page": pages,
        },
        "file_name": case.file_name,
        "reference_page": pages,
    }
