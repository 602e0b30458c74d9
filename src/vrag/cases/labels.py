"""Types of a case in the columns of the reference's parquet: `content_type` and `reason_type`.

Several labels stand in one text, as in `Table####Chart`. Which label stands in which column depends on
where the case comes from: `write_types` follows the reference's `hf_dataset_convert.py`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.types import Case

__all__ = ["read_labels", "read_types", "write_labels", "write_types"]

BETWEEN, NONE = "####", "Nan"
HOPS = {"Multi-Hop": "MultiHop", "Single-Hop": "SingleHop"}
SPANS = {"Non-Span": "NonSpan", "Single-Span": "SingleSpan", "Multi-Span": "MultiSpan"}
"""Parts of SlideVQA's `query_type`, as in `Multi-Hop_Single-Span`, and their labels."""


def write_types(case: Case, data_source: str) -> tuple[str, str]:
    """The content type and the reason type of a case.

    Args:
        case: The case.
        data_source: Where the parquet says that it comes from. The reference writes no types for
            `slidevqa_train` and knows no other names than those below; of those ours writes the types.

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
    """The types of a case, by their names in `meta_info`: `write_types` the other way round."""
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
    """One text of all labels; `Nan` of none. Labels that would not come back are written as JSON."""
    if not labels:
        return NONE
    text = BETWEEN.join(labels)
    return text if read_labels(text) == list(labels) else json.dumps(list(labels), ensure_ascii=False)


def read_labels(text: object) -> list[str]:
    """The labels in a text; none of what is no text.

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
