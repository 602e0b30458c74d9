"""MMLongBench-Doc (arXiv 2407.01523): long PDFs; pages from 1, with a stray 0 that is no page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.cases.case_format import UNANSWERABLE, hops, literal_list, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MmLongBench"]


@dataclass(frozen=True, slots=True)
class MmLongBench:
    """One question a row of `samples.json`; lists in it are texts written in Python."""

    name: str = "mmlongbench"

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the reference has one name
        """`mmlongdoc`."""
        return "mmlongdoc"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `doc_id` and `evidence_sources`."""
        return {"doc_id", "question", "answer", "evidence_pages", "evidence_sources"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """The question; the rows have no ids, so that the place in the file makes one.

        Seven that cannot be answered have pages all the same: those are no gold.

        Raises:
            CaseError: If a column is missing or no list.
        """
        answer = text_of(row, "answer")
        pages = [page for page in literal_list(row, "evidence_pages") if page != 0]
        if answer == UNANSWERABLE:
            pages = []
        meta = {
            "file_name": text_of(row, "doc_id"),
            "reference_page": pages,
            "source_type": literal_list(row, "evidence_sources"),
            "query_type": "Unanswerable" if answer == UNANSWERABLE else hops(pages),
            "document_type": row.get("doc_type"),
            "answer_format": row.get("answer_format"),
        }
        query = text_of(row, "question")
        return [
            {"uid": f"mmlongbench-{number}", "query": query, "reference_answer": answer, "meta_info": meta}
        ]
