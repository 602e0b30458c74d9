"""How well search finds what is gold, asked with the questions word for word."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.evaluation.gold import Gold
from vrag.evaluation.groups import GROUPS, grouped
from vrag.evaluation.measures.ranking import DOCUMENT_RECALL, RANKING, ranking_measures
from vrag.evaluation.measures.regions import REGIONS, region_measures
from vrag.evaluation.names import Names
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vrag.search.engine import Searcher
    from vrag.types import Case, Document, Hit, Region

__all__ = ["DEPTH", "MEASURES", "QuestionScore", "RetrievalReport", "evaluate_retrieval"]

DEPTH = 100
"""How many hits are looked at; a gold page further down counts as not found."""

_BATCH = 32

MEASURES: tuple[str, ...] = (*RANKING, DOCUMENT_RECALL)
"""What is measured of every question; `vrag.evaluation.measures.ranking` and `vrag.metrics` say how."""


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """How well one question went."""

    case: Case
    measures: Mapping[str, float]
    """A value for each name in `MEASURES`; and `region_recall`, where it could be measured."""

    @property
    def uid(self) -> str:
        """Of the case."""
        return self.case.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """How well a data set's gold was found."""

    scores: tuple[QuestionScore, ...]
    """One per question that was asked, in the order of the data set."""
    skipped: int
    """Questions left out because nothing is gold for them."""
    missing: tuple[str, ...]
    """Names of gold files that are not in the collection; questions about them were asked all the
    same and, as nothing can be found, count 0."""
    pages: int
    """Items that were searched."""
    seconds: float
    """Wall time of all searches."""

    @property
    def measures(self) -> dict[str, float]:
        """Means over the questions that have the measure; those of `MEASURES` are 0 without any."""
        return dict.fromkeys(MEASURES, 0.0) | _means(self.scores)

    @property
    def groups(self) -> dict[str, dict[str, dict[str, float]]]:
        """Means by kind of group and label (`vrag.evaluation.groups`), each with its `questions`."""
        labels = {kind: _of_case(of) for kind, of in GROUPS.items()}
        return {
            kind: {label: {"questions": len(held), **_means(held)} for label, held in those.items()}
            for kind, those in grouped(self.scores, labels).items()
        }

    def as_dict(self) -> dict[str, object]:
        """For JSON: means, `questions`, `pages`, `seconds`, `skipped`, `missing`, `groups`."""
        return {
            **self.measures,
            "questions": len(self.scores),
            "pages": self.pages,
            "seconds": self.seconds,
            "skipped": self.skipped,
            "missing": list(self.missing),
            "groups": self.groups,
        }


def evaluate_retrieval(
    cases: Iterable[Case],
    searcher: Searcher,
    documents: Sequence[Document],
    *,
    locate: Callable[[str, Sequence[Hit]], Sequence[Region]] | None = None,
) -> RetrievalReport:
    """Asks every question for which something is gold, word for word, and measures where that stands.

    All documents are searched at once. What a hit is, `Gold.spot` says: a gold page is a page with the
    right number of a document one of whose names is the right one; of documents that are gold as a whole
    every item is gold; a gold stretch of a video is found by the first clip that overlaps it. All other
    hits take up places and are never gold.

    Args:
        cases: The questions.
        searcher: What is measured.
        documents: The documents to search in.
        locate: Question and hits → regions of the hits' pages, best first, each with the name of its
            document as its hit has it. Hits have no boxes of their own: without it, no regions are measured.

    Raises:
        SearchError: If a question cannot be searched for.
    """
    names = Names.of(documents)
    golds = [(case, Gold.of(case, names)) for case in cases]
    asked = [(case, gold) for case, gold in golds if gold.grades]
    started = time.perf_counter()
    within = frozenset(document.id for document in documents)
    found = _search(searcher, [Query(case.query, within) for case, _ in asked])
    seconds = time.perf_counter() - started
    scores = [
        QuestionScore(
            case, _ranked(hits, gold, searcher) | (_located(case, hits, locate, names) if locate else {})
        )
        for (case, gold), hits in zip(asked, found, strict=True)
    ]
    wanted = {name for _, gold in asked for name in gold.documents}
    return RetrievalReport(
        scores=tuple(scores),
        skipped=len(golds) - len(asked),
        missing=tuple(sorted(wanted - names.by_name.keys())),
        pages=sum({document.id: document.items for document in documents}.values()),
        seconds=seconds,
    )


def _search(searcher: Searcher, queries: Sequence[Query]) -> list[list[Hit]]:
    starts = range(0, len(queries), _BATCH)
    return [hits for at in starts for hits in searcher.search(queries[at : at + _BATCH], DEPTH)]


def _ranked(hits: Sequence[Hit], gold: Gold, searcher: Searcher) -> dict[str, float]:
    owners = [gold.document(hit.document, hit.document_name) for hit in hits]
    spots = [
        gold.spot(
            hit.item,
            hit.document_name,
            hit.ordinal,
            hit.kind,
            _seconds(hit, searcher) if gold.spans and owner in gold.documents else None,
        )
        for hit, owner in zip(hits, owners, strict=True)
    ]
    return ranking_measures(spots, owners, gold)


def _seconds(hit: Hit, searcher: Searcher) -> tuple[float, float] | None:
    """From when to when a clip is in its video."""
    clip = searcher.item(hit.item).clip if hit.kind is ItemKind.CLIP else None
    return None if clip is None else (clip.start, clip.end)


def _located(
    case: Case, hits: Sequence[Hit], locate: Callable[[str, Sequence[Hit]], Sequence[Region]], names: Names
) -> dict[str, float]:
    """`region_recall` of a question with gold regions, under the names that these have for the documents."""
    gold = [replace(region, document=region.document or case.file_name) for region in case.regions]
    if not gold:
        return {}
    known = names.distinct({region.document for region in gold})
    called = {hit.document_name: names.among(known.keys(), hit.document, hit.document_name) for hit in hits}
    offered = [
        replace(region, document=called.get(region.document) or region.document)
        for region in locate(case.query, hits)
    ]
    return region_measures(offered, [replace(one, document=known[one.document]) for one in gold])


def _means(scores: Sequence[QuestionScore]) -> dict[str, float]:
    given = {name: [one.measures[name] for one in scores if name in one.measures] for name in _NAMES}
    return {name: math.fsum(values) / len(values) for name, values in given.items() if values}


_NAMES = (*MEASURES, *REGIONS)


def _of_case(of: Callable[[Case], Iterable[str]]) -> Callable[[QuestionScore], Iterable[str]]:
    return lambda score: of(score.case)
