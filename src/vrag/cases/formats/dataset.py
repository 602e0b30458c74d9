"""The dataset JSON of the reference implementation, which is ours; ViDoSeek comes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import any_list, text_of
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FORM", "DatasetSource"]

FORM = (
    '{"query": "…", "reference_answer": "…", "meta_info": {"file_name": "report.pdf", "reference_page": [2]}}'
)
"""A question, as it is shown to people; its `uid` and `reference_page` may be left out."""

_ANSWERS = "An answer is text or a number; a list of them is several answers, each of which is right."


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Rows that are cases already; see `vrag.cases.dataset`."""

    name: str
    called: str
    """What the parquet calls it."""

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the same for every split
        """What the parquet calls it."""
        return self.called

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `query` and `meta_info`."""
        return {"query", "meta_info"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """The row itself; a list as its answer is several answers, each of which is right.

        A row without a `uid` is called by its place: `question-1`, ….

        Raises:
            CaseError: If it lacks something; or the answer is neither text, nor a number, nor a list of them.
        """
        if lacking := _lacking(row):
            raise CaseError(f"There is no {' and no '.join(lacking)}.", f"A question: {FORM}")
        if row.get("uid") is None:
            row = {**row, "uid": f"question-{number + 1}"}
        answer = row["reference_answer"]
        if not isinstance(answer, list | dict | bool):
            return [row]
        if not isinstance(answer, list) or not answer:
            raise CaseError(f"reference_answer is no answer: {answer!r:.80}.", _ANSWERS)
        first, *others = dict.fromkeys(map(_answer, cast("list[object]", answer)))
        return [
            {**row, "reference_answer": first, "alternatives": others + any_list(row.get("alternatives"))}
        ]


def _lacking(row: Mapping[str, Any]) -> list[str]:
    """What has to be there and is not."""
    meta = row.get("meta_info")
    named = not isinstance(meta, dict) or bool(cast("dict[str, Any]", meta).get("file_name"))
    gone = [name for name in ("query", "reference_answer", "meta_info") if row.get(name) is None]
    return gone + ([] if named else ["meta_info.file_name"])


def _answer(value: object) -> str:
    try:
        return text_of({"answer": value}, "answer")
    except CaseError as error:
        raise CaseError(f"reference_answer has what is no answer: {value!r:.80}.", _ANSWERS) from error
