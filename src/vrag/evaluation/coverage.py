"""Which documents were searched, and which that questions are about were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from vrag.cases import gold_documents, gold_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.types import Case, Document

__all__ = ["Searched", "searched_for"]


class Searched(BaseModel):
    """What was searched: another download of a benchmark may have files that cannot be read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int
    """Those that can be found."""
    absent: tuple[str, ...] = ()
    """File names of documents that questions are about and that cannot be found, in order."""
    questions: int = 0
    """How many questions are about one of these."""


def searched_for(cases: Sequence[Case], documents: Iterable[Document]) -> Searched | None:
    """Compares what questions are about with what is searched.

    Args:
        cases: The questions.
        documents: What is searched; without any nothing is known, as where a server searches.
    """
    there = {document.name for document in documents if document.status.served}
    if not there:
        return None
    missing = [_about(case) - there for case in cases]
    absent = sorted(set[str]().union(*missing))
    return Searched(documents=len(there), absent=tuple(absent), questions=sum(map(bool, missing)))


def _about(case: Case) -> set[str]:
    """File names."""
    pages = {name for name, _ in gold_pages(case)}
    return {name for name in {case.file_name, *pages, *gold_documents(case)} if name}
