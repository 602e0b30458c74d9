"""SlideVQA (arXiv 2301.04883): slide decks of twenty pages, numbered from 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.cases.case_format import hops, literal_list, text_of
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["SlideVqa"]

LAST = 20


@dataclass(frozen=True, slots=True)
class SlideVqa:
    """One question a row; the file is `<deck_name>.pdf`, as corpora made of the slides call it."""

    name: str = "slidevqa"

    def data_source(self, split: str) -> str:
        """`slidevqa_train` or `slidevqa_test`."""
        return f"slidevqa_{'train' if split == 'train' else 'test'}"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `qa_id` and `evidence_pages`."""
        return {"qa_id", "question", "answer", "evidence_pages"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """The question; only the repository's files say what reasoning it takes, the hub's do not.

        Raises:
            CaseError: If a page lies outside of the deck, or a column is missing.
        """
        pages = [] if row.get("evidence_pages") is None else literal_list(row, "evidence_pages")
        if any(not isinstance(page, int) or not 1 <= page <= LAST for page in pages):
            raise CaseError(f"Pages of a deck go from 1 to {LAST}, not {pages!r:.80}.")
        meta = {
            "file_name": f"{text_of(row, 'deck_name')}.pdf",
            "reference_page": pages,
            "query_type": str(row.get("reasoning_type") or hops(pages)),
        }
        return [
            {
                "uid": text_of(row, "qa_id"),
                "query": text_of(row, "question"),
                "reference_answer": text_of(row, "answer"),
                "meta_info": meta,
            }
        ]
