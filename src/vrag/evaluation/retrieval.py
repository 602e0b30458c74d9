"""Retrieval evaluation: searches for the questions, without what they say about the form of the answer.

Regions are ranked over all hits of a search. MMDocIR (Dong et al. 2025, arXiv 2501.08828) cuts every document
into layouts beforehand, and ranks those of the document that a question is about. Here nothing is cut
beforehand and no document is given: regions are made of the pages that a search over all documents finds, by
the words on them (`WordLocator`), or by an embedder that can say where a page matched (`MatchLocator`).

`BlankSearcher` is the control: the same search, and nothing to look at.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from PIL import Image

from vrag.embed.similarity_map import regions
from vrag.evaluation.intervals import mean_interval
from vrag.evaluation.measures.search_measures import (
    DOCUMENT_RECALL,
    RANKING,
    REGIONS,
    ranking_measures,
    region_measures,
)
from vrag.evaluation.pairs import document_of
from vrag.evaluation.record import subject_of
from vrag.evaluation.relevance import DocumentNames, Gold
from vrag.evaluation.summary import Estimate, grouped
from vrag.geometry import Box
from vrag.reading.page_text import read_page_text
from vrag.reading.places.evidence_region import MAX_REGIONS, ranked_regions
from vrag.reading.questions.query_analysis import without_form
from vrag.search.searcher import ForwardedItems
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from vrag.corpus.formats.video import VideoFrame
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.evaluation.relevance import Spot
    from vrag.geometry import Size, View
    from vrag.reading.page_text import PageText
    from vrag.search.searcher import Searcher
    from vrag.types import Case, Document, Hit

    Offer = tuple[Hit, Box]

DEPTH = 100
"""Hits of a question; a gold page further down counts as not found."""

_BATCH = 32
PAGES = 10
"""Hits with regions; each offers one at least, so further ones would seldom be among ten."""
WHOLE = Box.unit(0, 0, 1, 1)
_CACHE_SIZE = 512
"""Layouts in the cache: the questions about a document mostly follow each other."""

MEASURES: tuple[str, ...] = (*RANKING, DOCUMENT_RECALL)
"""Measures of every question, defined by `vrag.evaluation.measures.search_measures` and `vrag.metrics`."""
BLANK = "-blank"
"""Ending of versions of collections with white images: their runs are not runs of the collection."""


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
        """Means and `questions` by kind of group and label (`vrag.evaluation.summary`)."""
        return {
            kind: {label: {"questions": len(scores), **_means(scores)} for label, scores in labels.items()}
            for kind, labels in self._grouped().items()
        }

    def estimates_by(self, kind: str) -> dict[str, dict[str, Estimate]]:
        """Return the `estimates` of each group of a kind (`vrag.evaluation.summary.GROUPS`)."""
        return {label: _estimates(scores) for label, scores in self._grouped().get(kind, {}).items()}

    def as_dict(self) -> dict[str, object]:
        """Return means, `questions`, `pages`, `seconds`, `skipped`, `missing`, `groups`, `estimates`.

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
        return grouped(self.scores, lambda score: score.case)


def evaluate_retrieval(
    cases: Iterable[Case], searcher: Searcher, documents: Sequence[Document], *, locate: Locate | None = None
) -> RetrievalReport:
    """Search for every question that has gold, word for word, and measure where the gold stands.

    All documents are searched at once. `Gold.spot` defines the gold: a gold page is a page with the right
    number of a document one of whose names is the right one; of documents of text, which have no pages, any
    passage; of documents that are gold as a whole every item is gold; a gold stretch of a video is found by
    the first clip that overlaps it. All other hits take up places and are never gold. Raises `SearchError` if
    a question cannot be searched for.

    The documents are those to search in. Without any, as with a server, all are searched, and have the names
    by which they are found. `locate` returns the regions of hits, which have no boxes of their own; without
    it, no regions are measured.
    """
    names = DocumentNames.of(documents)
    golds = [(case, Gold.of(case, names)) for case in cases]
    asked = [(case, gold) for case, gold in golds if gold.grades and case.query.strip()]
    started = time.perf_counter()
    within = frozenset(document.id for document in documents) or None
    queries = [Query(without_form(case.query), within) for case, _ in asked]
    batches = (queries[at : at + _BATCH] for at in range(0, len(queries), _BATCH))
    found = [hits for batch in batches for hits in searcher.search(batch, DEPTH)]
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


def _ranked(hits: Sequence[Hit], gold: Gold, searcher: Searcher) -> dict[str, float]:
    owners = [gold.document(hit.document, hit.document_name) for hit in hits]
    spots: list[Spot] = []
    for hit, owner in zip(hits, owners, strict=True):
        has_spans = gold.spans and owner in gold.documents and hit.kind is ItemKind.CLIP
        clip = searcher.item(hit.item).clip if has_spans else None
        seconds = None if clip is None else (clip.start, clip.end)
        spots.append(gold.spot(hit.item, hit.document_name, hit.ordinal, hit.kind, seconds))
    return ranking_measures(spots, owners, gold)


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


def _means(scores: Sequence[QuestionScore]) -> dict[str, float]:
    return {
        name: math.fsum(value for _, value in pairs) / len(pairs) for name, pairs in _values(scores).items()
    }


def _estimates(scores: Sequence[QuestionScore]) -> dict[str, Estimate]:
    estimates: dict[str, Estimate] = {}
    for name, mean in _means(scores).items():
        pairs = _values(scores)[name]
        documents = [document_of(subject_of(score.case)) for score, _ in pairs]
        found = mean_interval([value for _, value in pairs], documents)
        assert found is not None, "there is a value, and it is a share"
        estimates[name] = Estimate(mean, len(pairs), found.low, found.high, found.few)
    return estimates


def _values(scores: Sequence[QuestionScore]) -> dict[str, list[tuple[QuestionScore, float]]]:
    found = {
        name: [(score, score.measures[name]) for score in scores if name in score.measures]
        for name in (*MEASURES, *REGIONS)
    }
    return {name: pairs for name, pairs in found.items() if pairs}


Locate: TypeAlias = "Callable[[str, Sequence[Hit]], Sequence[tuple[Hit, Box]]]"
"""A function that returns the regions of the hits of a question, in `Space.UNIT`, best first; a hit may come
several times, or never."""


class WordLocator:
    """Regions where the words of a question come together on the pages found.

    Some 30 ms a question on one core. A page without words is one region, the whole page, and has the place
    among regions that it has among pages. The searcher is the one that found the hits; `pages` of them have
    regions, `most` at most.
    """

    def __init__(self, searcher: Searcher, pages: int = PAGES, most: int = MAX_REGIONS) -> None:
        self._pages, self._most = pages, most

        @lru_cache(_CACHE_SIZE)
        def read_text(id: str) -> PageText:
            return read_page_text(searcher.item(id))

        self._read_text: Callable[[str], PageText] = read_text

    def __call__(self, question: str, hits: Sequence[Hit]) -> list[Offer]:
        """Return the regions of the first hits, best first. Raises `SearchError` for an item that is gone."""
        first = hits[: self._pages]
        pages = [self._read_text(hit.item) for hit in first]
        by_item = {hit.item: hit for hit in first}
        found = [(by_item[region.item], region.box) for region in ranked_regions(question, pages, self._most)]
        silent = {page.item.id for page in pages if not page.lines}
        return _with_whole(found, first, silent)[: self._most]


class MatchLocator:
    """Regions that an embedder of many vectors says matched: boxes around the patches that did.

    It costs a forward pass of the model for each page looked at, of each question, as collections keep no
    grid of patches: a thousand questions cost as much as indexing ten thousand pages. What has no picture is
    one region, as a page without words is to `WordLocator`.

    Regions of several pages are compared by MaxSim over the patches within them (Khattab and Zaharia 2020,
    ColBERT): the mean over the question's tokens of the best patch there. `vrag.embed.similarity_map` says
    what the regions of a page are; its scores are of one page alone. The embedder is best the one that the
    pages were found by; other arguments are as of `WordLocator`.
    """

    def __init__(
        self, searcher: Searcher, matcher: SimilarityMatcher, pages: int = PAGES, most: int = MAX_REGIONS
    ) -> None:
        self._searcher, self._matcher, self._pages, self._most = searcher, matcher, pages, most

    def __call__(self, question: str, hits: Sequence[Hit]) -> list[Offer]:
        """Return the regions of the first hits, best first.

        Raises `EmbedError` if the model gives no map, `SearchError` if there is no such item any more, and
        `CollectionError` if its picture is missing or damaged.
        """
        first = hits[: self._pages]
        silent = {hit.item for hit in first if self._searcher.item(hit.item).size is None}
        scored: list[tuple[float, Hit, Box]] = []
        for hit in first:
            if hit.item not in silent:
                found = self._matcher.match_map(self._searcher.image(hit.item), question)
                _, rows, columns = found.similarity.shape
                for box in (region.box for region in regions(found)):  # whose sides lie between patches
                    down = slice(round(box.y1 * rows), round(box.y2 * rows))
                    across = slice(round(box.x1 * columns), round(box.x2 * columns))
                    maxsim = float(found.similarity[:, down, across].max(axis=(1, 2)).mean())
                    scored.append((maxsim, hit, box))
        scored.sort(key=lambda region: -region[0])
        return _with_whole([(hit, box) for _, hit, box in scored], first, silent)[: self._most]


def _with_whole(found: Sequence[Offer], hits: Sequence[Hit], silent: Collection[str]) -> list[Offer]:
    """Insert hits that nothing is known of, as a whole, in the places that they have among the hits."""
    offers = list(found)
    for place, hit in enumerate(hits):
        if hit.item in silent:
            offers.insert(place, (hit, WHOLE))
    return offers


class BlankSearcher(ForwardedItems):
    """A `Searcher` that finds the same and shows nothing: a control that tells looking from guessing."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = self._items = searcher

    @property
    def version(self) -> str:
        """Version that differs from that of the collection: its runs are not runs of the collection."""
        return f"{self._searcher.version}{BLANK}"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return the hits of the searcher."""
        return self._searcher.search(queries, top_k)

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        """Return a white image of the same size."""
        return _white(self._searcher.image(id, least=least))

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Return white frames at the same moments."""
        frames = self._searcher.frames(id, fps=fps, most=most)
        return [type(frame)(_white(frame.image), frame.seconds) for frame in frames]

    def part(self, id: str, view: View) -> None:
        """Draw nothing: what is enlarged is the white image."""


def _white(image: Image.Image) -> Image.Image:
    return Image.new("RGB", image.size, "white")
