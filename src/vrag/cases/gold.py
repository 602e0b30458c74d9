"""Which pages hold the answer to a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case, Hit

__all__ = ["gold_documents", "gold_pages", "graded_pages", "is_gold"]


def gold_pages(case: Case) -> frozenset[tuple[str, int]]:
    """The gold pages, each by the file name of its document and its number from 1."""
    return frozenset(graded_pages(case))


def graded_pages(case: Case) -> Mapping[tuple[str, int], int]:
    """The gold pages with their relevance; 1 where the data set grades none."""
    if not case.gold:
        return dict.fromkeys(((case.file_name, page) for page in case.reference_page), 1)
    return {(gold.document, gold.page): gold.relevance for gold in case.gold if gold.page is not None}


def gold_documents(case: Case) -> frozenset[str]:
    """File names of the documents every item of which is gold, as their pages are not annotated."""
    return frozenset(gold.document for gold in case.gold if gold.page is None)


def is_gold(hit: Hit, case: Case) -> bool:
    """Whether a hit is gold: an annotated page, or any item of a document that is annotated as a whole."""
    if hit.document_name in gold_documents(case):
        return True
    return hit.kind is ItemKind.PAGE and (hit.document_name, hit.ordinal) in gold_pages(case)
