"""Retrieval evaluation: searches for the questions word for word, and measures of their results."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from vrag.evaluation.measures.ranking import DOCUMENT_RECALL, RANKING, ranking_measures
from vrag.evaluation.measures.regions import REGIONS, region_measures
from vrag.evaluation.record import subject_of
from vrag.evaluation.relevance import DocumentNames, Gold
from vrag.evaluation.statistics.intervals import mean_interval
from vrag.evaluation.statistics.pairs import document_of
from vrag.evaluation.statistics.summary import GROUPS, Estimate, grouped
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from vrag.evaluation.region_search import Locate
    from vrag.search.searcher import Searcher
    from vrag.types import Case, Document, Hit

DEPTH = 100
"""Hits of a question; a gold page further down counts as not found."""

_BATCH = 32

MEASURES: tuple[str, ...] = (*RANKING, DOCUMENT_RECALL)
"""Measures of every question, defined by `vrag.evaluation.measures.ranking` and `vrag.metrics`."""


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """The measures of one question."""

    case: Case
    measures: Mapping[str, float]
    """A value for each name in `MEASURES`; and in `REGIONS`, where regions are gold and were offered."""

    @property
    def uid(self) -> str:
        """Uid of the case."""
        return self.case.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """The results of a data set."""

    scores: tuple[QuestionScore, ...]
    """One for each question that was asked, in the order of the data set."""
    skipped: int
    """Questions that were left out because they have no gold, or no words."""
    missing: tuple[str, ...]
    """Names of gold files that are not in the collection; questions about them were asked all the
    same and, as nothing can be found, count 0."""
    pages: int
    """Number of items that were searched."""
    seconds: float
    """Wall time of all searches."""

    @property
    def measures(self) -> dict[str, float]:
        """Means over the questions that have the measure; those of `MEASURES` are 0 without any."""
        return dict.fromkeys(MEASURES, 0.0) | _means(self.scores)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Means over the questions that have the measure, with intervals over documents; see `interval`."""
        return _estimates(self.scores)

    @property
    def groups(self) -> dict[str, dict[str, dict[str, float]]]:
        """Means and `questions` by kind of group and label (`vrag.evaluation.statistics.summary`)."""
        return {
            kind: {label: {"questions": len(scores), **_means(scores)} for label, scores in labels.items()}
            for kind, labels in self._grouped().items()
        }

    def estimates_by(self, kind: str) -> dict[str, dict[str, Estimate]]:
        """`estimates` of each group of a kind (`vrag.evaluation.statistics.summary.GROUPS`)."""
        return {label: _estimates(scores) for label, scores in self._grouped().get(kind, {}).items()}

    def as_dict(self) -> dict[str, object]:
        """For JSON: means, `questions`, `pages`, `seconds`, `skipped`, `missing`, `groups`, `estimates`.

        `estimates` has by measure `mean`, `n`, `low`, `high` and `few`.
        """
        return {
            **self.measures,
            "questions": len(self.scores),
            "pages": self.pages,
            "seconds": self.seconds,
            "skipped": self.skipped,
            "missing": list(self.missing),
            "groups": self.groups,
            "estimates": {name: asdict(estimate) for name, estimate in self.estimates.items()},
        }

    def _grouped(self) -> dict[str, dict[str, list[QuestionScore]]]:
        return grouped(self.scores, {kind: _of_case(of) for kind, of in GROUPS.items()})


def evaluate_retrieval(
    cases: Iterable[Case],
    searcher: Searcher,
    documents: Sequence[Document],
    *,
    locate: Locate | None = None,
) -> RetrievalReport:
    """Search for every question that has gold, word for word, and measure where the gold stands.

    All documents are searched at once. `Gold.spot` defines the gold: a gold page is a page with the right
    number of a document one of whose names is the right one; of documents of text, which have no pages, any
    passage; of documents that are gold as a whole every item is gold; a gold stretch of a video is found by
    the first clip that overlaps it. All other hits take up places and are never gold. Raises `SearchError` if
    a question cannot be searched for.

    Args:
        cases: The questions.
        searcher: The search to measure.
        documents: The documents to search in. Empty if unknown, as with a server: all are searched then,
            and have the names by which they are found.
        locate: Returns the regions of hits, which have no boxes of their own; without it, no regions are
            measured. See `vrag.evaluation.region_search`.
    """
    names = DocumentNames.of(documents)
    golds = [(case, Gold.of(case, names)) for case in cases]
    asked = [(case, gold) for case, gold in golds if gold.grades and case.query.strip()]
    started = time.perf_counter()
    within = frozenset(document.id for document in documents) or None
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
        missing=tuple(sorted(wanted - names.by_name.keys())) if documents else (),
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
    """Return start and end of a clip in its video."""
    clip = searcher.item(hit.item).clip if hit.kind is ItemKind.CLIP else None
    return None if clip is None else (clip.start, clip.end)


def _located(case: Case, hits: Sequence[Hit], locate: Locate, names: DocumentNames) -> dict[str, float]:
    """Measure the regions of a question with gold regions."""
    gold = [((region.document or case.file_name, region.page), region.box) for region in case.regions]
    if not gold:
        return {}
    known = names.distinct({name for (name, _), _ in gold})

    def page(hit: Hit) -> Hashable:
        """Return the page under the name that the gold has for its document; other items are never gold."""
        name = names.among(known.keys(), hit.document, hit.document_name)
        return hit.item if name is None or hit.kind is not ItemKind.PAGE else (name, hit.ordinal)

    offered = [(page(hit), box) for hit, box in locate(case.query, hits)]
    return region_measures(offered, [((known[name], number), box) for (name, number), box in gold])


def _values(scores: Sequence[QuestionScore]) -> dict[str, list[tuple[QuestionScore, float]]]:
    """Return the scores and values of each measure."""
    found = {
        name: [(score, score.measures[name]) for score in scores if name in score.measures] for name in _NAMES
    }
    return {name: pairs for name, pairs in found.items() if pairs}


def _means(scores: Sequence[QuestionScore]) -> dict[str, float]:
    return {name: _mean([value for _, value in pairs]) for name, pairs in _values(scores).items()}


def _estimates(scores: Sequence[QuestionScore]) -> dict[str, Estimate]:
    return {name: _estimate(pairs) for name, pairs in _values(scores).items()}


def _estimate(pairs: Sequence[tuple[QuestionScore, float]]) -> Estimate:
    values = [value for _, value in pairs]
    found = mean_interval(values, [document_of(subject_of(score.case)) for score, _ in pairs])
    assert found is not None, "there is a value, and it is a share"
    return Estimate(_mean(values), len(values), found.low, found.high, found.few)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_NAMES = (*MEASURES, *REGIONS)


def _of_case(of: Callable[[Case], Iterable[str]]) -> Callable[[QuestionScore], Iterable[str]]:
    return lambda score: of(score.case)
