"""How well search finds the gold pages of questions."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.cases import gold_pages
from vrag.metrics import ndcg, recall, reciprocal_rank
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vrag.search.engine import Searcher
    from vrag.types import Case, Document, Hit

__all__ = ["DEPTH", "MEASURES", "QuestionScore", "RetrievalReport", "evaluate_retrieval"]

DEPTH = 100
"""How many hits are looked at; a gold page further down counts as not found."""

_BATCH = 32

_Page = tuple[str, int]
"""File name of a document and a page from 1."""

MEASURES: Mapping[str, Callable[[Sequence[_Page], frozenset[_Page]], float]] = {
    "ndcg@5": lambda found, gold: ndcg(found, gold, 5),
    "ndcg@10": lambda found, gold: ndcg(found, gold, 10),
    "recall@1": lambda found, gold: recall(found, gold, 1),
    "recall@3": lambda found, gold: recall(found, gold, 3),
    "recall@5": lambda found, gold: recall(found, gold, 5),
    "recall@10": lambda found, gold: recall(found, gold, 10),
    "mrr": reciprocal_rank,
}
"""What is measured of each question, of its ranking of pages and its gold pages; see `vrag.metrics`."""


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """How well one question went."""

    uid: str
    measures: Mapping[str, float]
    """A value for each name in `MEASURES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """How well a data set's gold pages were found."""

    scores: tuple[QuestionScore, ...]
    """One per question that was asked, in the order of the data set."""
    skipped: int
    """Questions left out because they have no gold page."""
    missing: tuple[str, ...]
    """Names of gold files that are not in the collection; questions about them were asked all the
    same and, as nothing can be found, count 0."""
    pages: int
    """Items that were searched."""
    seconds: float
    """Wall time of all searches."""

    @property
    def measures(self) -> dict[str, float]:
        """Means over the questions, 0 without any."""
        count = max(len(self.scores), 1)
        return {name: math.fsum(score.measures[name] for score in self.scores) / count for name in MEASURES}

    def as_dict(self) -> dict[str, float | int | list[str]]:
        """What is reported as JSON: the means, `questions`, `pages`, `seconds`, `skipped`, `missing`."""
        return {
            **self.measures,
            "questions": len(self.scores),
            "pages": self.pages,
            "seconds": self.seconds,
            "skipped": self.skipped,
            "missing": list(self.missing),
        }


def evaluate_retrieval(
    cases: Iterable[Case], searcher: Searcher, documents: Sequence[Document]
) -> RetrievalReport:
    """Asks every question that has a gold page, word for word, and measures where its pages stand.

    All documents are searched at once. A hit is a gold page when it is a page, its number is right
    and one of the names of its document is the case's file name; hits of other kinds take up places
    and are never gold.

    Args:
        cases: The questions.
        searcher: What is measured.
        documents: The documents to search in.

    Raises:
        SearchError: If a question cannot be searched for.
    """
    all_cases = list(cases)
    asked = [case for case in all_cases if case.reference_page]
    names = _names(documents)
    known = {name for those in names.values() for name in those}
    started = time.perf_counter()
    within = frozenset(document.id for document in documents)
    found = _search(searcher, [Query(case.query, within) for case in asked])
    seconds = time.perf_counter() - started
    return RetrievalReport(
        scores=tuple(_score(case, hits, names) for case, hits in zip(asked, found, strict=True)),
        skipped=len(all_cases) - len(asked),
        missing=tuple(sorted({case.file_name for case in asked} - known)),
        pages=sum({document.id: document.items for document in documents}.values()),
        seconds=seconds,
    )


def _names(documents: Iterable[Document]) -> dict[str, set[str]]:
    """The names of each document: the same bytes may lie in several files."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for document in documents:
        if document.items:
            names[document.id].add(document.name)
    return names


def _search(searcher: Searcher, queries: Sequence[Query]) -> list[list[Hit]]:
    starts = range(0, len(queries), _BATCH)
    return [hits for at in starts for hits in searcher.search(queries[at : at + _BATCH], DEPTH)]


def _score(case: Case, hits: Sequence[Hit], names: Mapping[str, set[str]]) -> QuestionScore:
    gold = gold_pages(case)
    ranking = [_page(hit, case.file_name, names) for hit in hits]
    return QuestionScore(case.uid, {name: measure(ranking, gold) for name, measure in MEASURES.items()})


def _page(hit: Hit, asked: str, names: Mapping[str, set[str]]) -> _Page:
    """The page a hit is, under the name asked for if its document has that name."""
    if hit.kind is not ItemKind.PAGE:
        return hit.item, 0
    return asked if asked in names.get(hit.document, set()) else hit.document, hit.ordinal
