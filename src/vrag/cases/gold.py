"""The gold of a case: the pages and documents that hold its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case, Hit

UNANSWERABLE = "Not answerable"
"""The answer to a question that the documents do not answer, as MMLongBench-Doc writes it."""


def gold_pages(case: Case) -> frozenset[tuple[str, int]]:
    """Return the gold pages, each as the file name of its document and its number from 1."""
    return frozenset(graded_pages(case))


def graded_pages(case: Case) -> Mapping[tuple[str, int], int]:
    """Return the gold pages with their relevance; 1 where the data set has no grades."""
    if not case.gold:
        return dict.fromkeys(((case.file_name, page) for page in case.reference_page), 1)
    return {(gold.document, gold.page): gold.relevance for gold in case.gold if gold.page is not None}


def gold_documents(case: Case) -> frozenset[str]:
    """Return file names of documents of which every item is gold, as their pages are not annotated."""
    return frozenset(gold.document for gold in case.gold if gold.page is None)


def is_gold(hit: Hit, case: Case) -> bool:
    """Return whether a hit is an annotated page, or an item of a document that is annotated as a whole."""
    if hit.document_name in gold_documents(case):
        return True
    return hit.kind is ItemKind.PAGE and (hit.document_name, hit.ordinal) in gold_pages(case)
