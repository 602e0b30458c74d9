"""Which pages hold the answer to a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.types import ItemKind

if TYPE_CHECKING:
    from vrag.types import Case, Hit

__all__ = ["gold_pages", "is_gold"]


def gold_pages(case: Case) -> frozenset[tuple[str, int]]:
    """The gold pages, each by the file name of its document and its number from 1."""
    return frozenset((case.file_name, page) for page in case.reference_page)


def is_gold(hit: Hit, case: Case) -> bool:
    """Whether a hit is a gold page of a case; clips and passages are none."""
    return hit.kind is ItemKind.PAGE and (hit.document_name, hit.ordinal) in gold_pages(case)
