"""MMDocIR (arXiv 2501.08828): pages and layout boxes for questions; pages count from 0 there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import any_list, hops, literal_list, plain_list, text_of
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MmDocIr"]


@dataclass(frozen=True, slots=True)
class MmDocIr:
    """A document a row of `MMDocIR_annotations.jsonl`, with its questions."""

    name: str = "mmdocir"

    def data_source(self, split: str) -> str:  # noqa: ARG002 - it has one split
        """`mmdocir`."""
        return "mmdocir"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `doc_name` and `questions`."""
        return {"doc_name", "questions"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """The questions about a document.

        Raises:
            CaseError: If a column is missing, or a box cannot be placed on its page.
        """
        name = text_of(row, "doc_name")
        file_name = name if name.lower().endswith(".pdf") else f"{name}.pdf"
        for at, question in enumerate(plain_list(row, "questions")):
            if not isinstance(question, dict):
                raise CaseError(f"questions[{at}] is no object.")
            made = _case(cast("dict[str, Any]", question), file_name, f"mmdocir-{number}-{at}")
            made["meta_info"]["document_type"] = row.get("domain")
            yield made


def _case(question: Mapping[str, Any], file_name: str, uid: str) -> dict[str, Any]:
    pages = [_from_one(page) for page in plain_list(question, "page_id")]
    kinds = question.get("type")
    sources = literal_list(question, "type") if str(kinds).lstrip().startswith("[") else [str(kinds or "")]
    return {
        "uid": uid,
        "query": text_of(question, "Q"),
        "reference_answer": text_of(question, "A"),
        "meta_info": {
            "file_name": file_name,
            "reference_page": pages,
            "source_type": [source for source in sources if source],
            "query_type": hops(pages),
        },
        "regions": [_region(layout) for layout in any_list(question.get("layout_mapping"))],
    }


def _region(layout: object) -> dict[str, Any]:
    """A box in points as fractions of its page.

    Raises:
        CaseError: If it is not four numbers on a page with an area.
    """
    row = cast("dict[str, Any]", layout) if isinstance(layout, dict) else {}
    size, box = row.get("page_size"), row.get("bbox")
    if not (_numbers(size, 2) and _numbers(box, 4) and min(cast("list[float]", size)) > 0):
        raise CaseError(f"A layout has no box on a page: {layout!r:.120}.")
    width, height = cast("list[float]", size)
    sides = zip(cast("list[float]", box), (width, height, width, height), strict=True)
    unit = [min(max(side / whole, 0.0), 1.0) for side, whole in sides]
    return {"page": _from_one(row.get("page")), "box": unit}


def _from_one(page: object) -> int:
    if not isinstance(page, int) or isinstance(page, bool) or page < 0:
        raise CaseError(f"A page is a number from 0, not {page!r:.40}.")
    return page + 1


def _numbers(value: object, count: int) -> bool:
    """Whether a value is a list of so many numbers, none beyond all measure."""
    parts = any_list(value)
    return len(parts) == count and all(isinstance(part, int | float) and abs(part) < 1e9 for part in parts)
