"""HotpotQA (arXiv 1809.09600): questions over two Wikipedia articles; passages, so no pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import any_list, text_of
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["HotpotQa"]


@dataclass(frozen=True, slots=True)
class HotpotQa:
    """One question a row, of the published JSON or of its parquet.

    A case belongs to one document: that is the first article among the supporting facts. All of them are
    gold, by their titles.
    """

    name: str = "hotpotqa"

    def data_source(self, split: str) -> str:  # noqa: ARG002 - one name for all
        """`hotpotqa`."""
        return "hotpotqa"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `supporting_facts`."""
        return {"question", "answer", "supporting_facts"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """The question.

        Raises:
            CaseError: If a column is missing.
        """
        titles = _titles(row.get("supporting_facts"))
        meta = {
            "file_name": titles[0],
            "source_type": ["Text"],
            "query_type": "Multi-Hop",
        }
        return [
            {
                "uid": text_of(row, "_id", "id"),
                "query": text_of(row, "question"),
                "reference_answer": text_of(row, "answer"),
                "meta_info": meta,
                "gold": [{"document": title} for title in titles],
            }
        ]


def _titles(facts: object) -> list[str]:
    """Titles of the supporting facts, each once: pairs of title and sentence, or a column of titles.

    Raises:
        CaseError: If there are none.
    """
    if isinstance(facts, dict):
        facts = cast("dict[str, Any]", facts).get("title")
    else:
        facts = [any_list(pair)[0] for pair in any_list(facts) if any_list(pair)]
    titles = list(dict.fromkeys(title for title in any_list(facts) if isinstance(title, str) and title))
    if not titles:
        raise CaseError("'supporting_facts' names no article.")
    return titles
