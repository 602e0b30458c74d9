"""The parquet of training: what ours writes, and what the reference's converter wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import text_of
from vrag.cases.labels import read_types
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TrainingParquet"]


@dataclass(frozen=True, slots=True)
class TrainingParquet:
    """One question a row; see `vrag.cases.parquet` for the columns.

    The reference's converter leaves `file_name` and `reference_page` out at the top, where its trainer
    looks for them; here both places are read.
    """

    name: str = "parquet"

    def data_source(self, split: str) -> str:  # noqa: ARG002 - what it was is in the rows
        """`rag`."""
        return "rag"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `reward_model` and `extra_info`."""
        return {"reward_model", "extra_info"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """The question.

        Raises:
            CaseError: If a column is missing.
        """
        extra, reward = row["extra_info"], row["reward_model"]
        if not isinstance(extra, dict) or not isinstance(reward, dict):
            raise CaseError("'extra_info' or 'reward_model' is no struct.")
        known = cast("dict[str, Any]", extra)
        return [
            {
                "uid": text_of(row, "id") if row.get("id") is not None else str(number),
                "query": text_of(known, "question"),
                "reference_answer": text_of(cast("dict[str, Any]", reward), "ground_truth"),
                "meta_info": {
                    "file_name": text_of(row if row.get("file_name") is not None else known, "file_name"),
                    "reference_page": _pages(row, known),
                    **_types(row, known),
                },
            }
        ]


def _pages(row: Mapping[str, Any], known: Mapping[str, Any]) -> object:
    top = row.get("reference_page")
    return known.get("reference_page") if top is None else top


def _types(row: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, object]:
    """The types as ours writes them; else what can be told from the reference's two columns."""
    meta = known.get("meta_info")
    if isinstance(meta, dict):
        return cast("dict[str, object]", meta)
    return read_types(known.get("content_type"), known.get("reason_type"), row.get("data_source"))
