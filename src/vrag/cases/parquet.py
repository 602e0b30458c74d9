"""The parquet of training: written row group by row group, and read back, also as the reference wrote it.

The columns are those of the reference's trainer. Its converter left `file_name` and `reference_page` out at
the top, where the trainer looks for them; here they stand in both places. `content_type` and `reason_type`
hold the types of a case as the reference's converter (`hf_dataset_convert.py`) writes them, several labels in
one text, as in `Table####Chart`. That cannot always be undone: the types themselves stand in
`extra_info.meta_info`, with their names in the JSON, and gold boxes in `extra_info.regions`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

from vrag.cases.case_json import written_whole
from vrag.cases.rows import CaseFormat, import_pyarrow, object_of, text_of
from vrag.types import Case

BETWEEN, NONE = "####", "Nan"
HOPS = {"Multi-Hop": "MultiHop", "Single-Hop": "SingleHop"}
SPANS = {"Non-Span": "NonSpan", "Single-Span": "SingleSpan", "Multi-Span": "MultiSpan"}
"""Parts of SlideVQA's `query_type`, as in `Multi-Hop_Single-Span`, and their labels."""


def write_types(case: Case, data_source: str) -> tuple[str, str]:
    """Return the content type and the reason type of a case.

    The reference writes no types for the data source `slidevqa_train` and knows no other names than those
    below; for other names the types are written as they are.

    >>> from vrag.types import Case
    >>> case = Case(
    ...     uid="1", query="?", reference_answer="!", file_name="a.pdf", query_type="Multi-Hop_Single-Span"
    ... )
    >>> write_types(case, "slidevqa_test")
    ('SingleSpan', 'MultiHop')
    """
    match data_source:
        case "slidevqa_train":
            return NONE, NONE
        case "slidevqa_test":
            return _label(SPANS, case.query_type), _label(HOPS, case.query_type)
        case "mmlongdoc":
            return write_labels(case.source_type) if case.source_type else "", case.document_type or NONE
        case _:
            return write_labels(case.source_type), write_labels([case.query_type] if case.query_type else [])


def read_types(content_type: object, reason_type: object, data_source: object) -> dict[str, object]:
    """Return the types of a case by their names in `meta_info`, from the columns that `write_types` makes."""
    content, reasons = read_labels(content_type), read_labels(reason_type)
    reason = reasons[0] if reasons else ""
    match data_source:
        case "slidevqa_test":
            names = {label: name for name, label in (HOPS | SPANS).items()}
            parts = [names[label] for label in (reason, *content) if label in names]
            return {"query_type": "_".join(parts)}
        case "mmlongdoc":
            return {"source_type": content, "doc_type": reason}
        case _:
            return {"source_type": content, "query_type": reason}


def _label(labels: Mapping[str, str], query_type: str) -> str:
    return next((label for name, label in labels.items() if name in query_type), NONE)


def write_labels(labels: Sequence[str]) -> str:
    """Join labels to one text; `Nan` for none. Labels that could not be read back are written as JSON."""
    if not labels:
        return NONE
    text = BETWEEN.join(labels)
    return text if read_labels(text) == list(labels) else json.dumps(list(labels), ensure_ascii=False)


def read_labels(text: object) -> list[str]:
    """Return the labels in a text; none of anything else.

    >>> read_labels("Table####Chart"), read_labels("Nan")
    (['Table', 'Chart'], [])
    """
    if not isinstance(text, str) or text == NONE:
        return []
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, list) and all(isinstance(part, str) for part in cast("list[object]", value)):
                return cast("list[str]", value)
    return [part for part in text.split(BETWEEN) if part]


ArrowSchema: TypeAlias = Any
"""A `pyarrow.Schema`."""

ABILITY = "vqa"
"""A column by which trainers may group; those of this package ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """Content of rows beside the case."""

    split: str = "train"
    instruction: str = ""
    """Text before the question in the prompt."""
    row_group: int = 1_000
    """Rows in memory, which are written at once."""


def parquet_schema() -> ArrowSchema:
    """Return the columns and their types."""
    pa = import_pyarrow()
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
    region = pa.struct(
        [("page", pa.int64()), ("box", pa.list_(pa.float64())), ("document", text), ("annotator", text)]
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
            ("regions", pa.list_(region)),
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
    """Write cases as they come, and return their number; the file is complete or not there at all.

    Each case comes with its data source, the name by which trainers group rows. An existing file is replaced.
    Raises `CaseError` if it cannot be written, `MissingExtra` without pyarrow.
    """
    pa, parquet = import_pyarrow(), import_pyarrow("pyarrow.parquet")
    count = 0
    schema = parquet_schema()
    with written_whole(path) as file, parquet.ParquetWriter(file, schema) as writer:
        left = iter(cases)
        while group := list(islice(left, options.row_group)):
            rows = [_row(case, source, count + at, options) for at, (source, case) in enumerate(group)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(group)
    return count


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
            "regions": [
                {
                    "page": region.page,
                    "box": list(region.box.as_tuple()),
                    "document": region.document,
                    "annotator": region.annotator,
                }
                for region in case.regions
            ],
        },
        "file_name": case.file_name,
        "reference_page": pages,
    }


class TrainingParquet(CaseFormat):
    """Rows of this parquet, and of the one that the reference's converter wrote; one question a row."""

    name = "parquet"
    columns = (frozenset({"reward_model", "extra_info"}),)

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the rows name their own
        """`rag`."""
        return "rag"

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Convert the question; file name and pages stand at the top or in `extra_info`."""
        extra = object_of(row["extra_info"], "'extra_info'")
        reward = object_of(row["reward_model"], "'reward_model'")
        meta, pages = extra.get("meta_info"), row.get("reference_page")
        if not isinstance(meta, dict):
            meta = read_types(extra.get("content_type"), extra.get("reason_type"), row.get("data_source"))
        return [
            {
                "uid": text_of(row, "id") if row.get("id") is not None else str(number),
                "query": text_of(extra, "question"),
                "reference_answer": text_of(reward, "ground_truth"),
                "meta_info": {
                    "file_name": text_of(row if row.get("file_name") is not None else extra, "file_name"),
                    "reference_page": extra.get("reference_page") if pages is None else pages,
                    **cast("dict[str, object]", meta),
                },
                "regions": extra.get("regions"),
            }
        ]
