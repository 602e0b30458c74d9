"""Region search: regions over all hits of a search, best first.

MMDocIR (Dong et al. 2025, arXiv 2501.08828) cuts every document into layouts beforehand, and ranks those of
the document that a question is about. Here nothing is cut beforehand and no document is given: regions are
made of the pages that a search over all documents finds, by the words on them, or by an embedder that can say
where a page matched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from vrag.agent.extractive.evidence_region import MAX_REGIONS, ranked_regions
from vrag.agent.extractive.text_layout import layout
from vrag.embed.similarity_map import regions
from vrag.geometry import Box

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vrag.agent.extractive.text_layout import PageLayout
    from vrag.embed.embedder import MatchMap
    from vrag.embed.similarity_map import SimilarityMatcher
    from vrag.search.searcher import Searcher
    from vrag.types import Hit

    Offer = tuple[Hit, Box]
    Scored = tuple[float, Hit, Box]

PAGES = 10
"""Hits with regions; each offers one at least, so further ones would seldom be among ten."""
WHOLE = Box.unit(0, 0, 1, 1)
_CACHE_SIZE = 512
"""Layouts in the cache: the questions about a document mostly follow each other."""


class Locate(Protocol):
    """A function that returns the regions of hits."""

    def __call__(self, question: str, hits: Sequence[Hit], /) -> Sequence[tuple[Hit, Box]]:
        """Return hits and boxes in `Space.UNIT`, best first; a hit may come several times, or never.

        Args:
            question: The question.
            hits: Its hits, best first.
        """
        ...


class WordLocator:
    """Regions where the words of a question come together on the pages found.

    Some 30 ms a question on one core. A page without words is one region, the whole page, and has the place
    among regions that it has among pages.

    Args:
        searcher: The searcher that found the hits.
        pages: Number of hits with regions.
        most: Maximum number of regions.
    """

    def __init__(self, searcher: Searcher, pages: int = PAGES, most: int = MAX_REGIONS) -> None:
        self._pages, self._most = pages, most

        def laid_out(id: str) -> PageLayout:
            return layout(searcher.item(id))

        self._layout: Callable[[str], PageLayout] = lru_cache(_CACHE_SIZE)(laid_out)

    def __call__(self, question: str, hits: Sequence[Hit]) -> list[Offer]:
        """Regions of the first hits, best first. Raises `SearchError` if there is no such item any more."""
        first = hits[: self._pages]
        pages = [self._layout(hit.item) for hit in first]
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
    what the regions of a page are; its scores are of one page alone.

    Args:
        searcher: The searcher that found the hits.
        matcher: The embedder, best the one that the pages were found by.
        pages: Number of hits with regions.
        most: Maximum number of regions.
    """

    def __init__(
        self, searcher: Searcher, matcher: SimilarityMatcher, pages: int = PAGES, most: int = MAX_REGIONS
    ) -> None:
        self._searcher, self._matcher, self._pages, self._most = searcher, matcher, pages, most

    def __call__(self, question: str, hits: Sequence[Hit]) -> list[Offer]:
        """Regions of the first hits, best first.

        Raises:
            EmbedError: If the model gives no map.
            SearchError: If there is no such item any more.
            CollectionError: If its picture is missing or damaged.
        """
        first = hits[: self._pages]
        silent = {hit.item for hit in first if self._searcher.item(hit.item).size is None}
        scored = [
            region for hit in first if hit.item not in silent for region in self._matched(question, hit)
        ]
        scored.sort(key=lambda region: -region[0])
        return _with_whole([(hit, box) for _, hit, box in scored], first, silent)[: self._most]

    def _matched(self, question: str, hit: Hit) -> list[Scored]:
        found = self._matcher.match_map(self._searcher.image(hit.item), question)
        return [(_maxsim(found, region.box), hit, region.box) for region in regions(found)]


def _maxsim(found: MatchMap, box: Box) -> float:
    """Mean over the tokens of their best patch in a box whose sides lie between patches."""
    _, rows, columns = found.similarity.shape
    top, bottom = round(box.y1 * rows), round(box.y2 * rows)
    left, right = round(box.x1 * columns), round(box.x2 * columns)
    return float(found.similarity[:, top:bottom, left:right].max(axis=(1, 2)).mean())


def _with_whole(found: Sequence[Offer], hits: Sequence[Hit], silent: Collection[str]) -> list[Offer]:
    """Regions, with each hit that nothing is known of as a whole, in the place that it has among the hits."""
    offers = list(found)
    for place, hit in enumerate(hits):
        if hit.item in silent:
            offers.insert(place, (hit, WHOLE))
    return offers
