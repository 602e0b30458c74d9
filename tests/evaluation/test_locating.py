"""Which parts of the pages found are offered: by words, or by an embedder that says where a page matched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from vrag.embed.embedder import MatchMap
from vrag.evaluation.retrieval import PAGES, WHOLE, MatchLocator, WordLocator
from vrag.geometry import Box, Size
from vrag.testing import MemorySearcher, page, passage
from vrag.types import Hit, ItemKind, Query

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.types import Item

FERRY = page("ferry.pdf", 1, "The ferry\n\n\n\n\n\n\nIt carried 48,200 passengers in 2024")
PRICES = page("prices.pdf", 1, "A return ticket costs 12 crowns")
SCAN = replace(page("scan.pdf", 1, "x"), text="", words=())
NOTES = passage("notes.md", 1, "The ferry does not run in January.")


def hits(*items: Item) -> list[Hit]:
    return [
        Hit(item.id, 1 / rank, rank, item.document, item.document_name, item.ordinal, item.kind)
        for rank, item in enumerate(items, 1)
    ]


class CountingSearcher(MemorySearcher):
    """Counts how often items are asked for, as that reads a table."""

    def item(self, id: str) -> Item:
        self.queries.append(Query(id))
        return super().item(id)


class TestByWords:
    SEARCHER = MemorySearcher((FERRY, PRICES, SCAN, NOTES))

    def test_the_words_of_the_question_come_first(self) -> None:
        hit, box = WordLocator(self.SEARCHER)("What does a ticket cost?", hits(FERRY, PRICES))[0]
        assert hit.item == PRICES.id
        assert box.covers(*PRICES.words[0].box.center)
        assert box.area < 0.25

    def test_a_page_without_words_is_whole_and_keeps_its_place(self) -> None:
        locate = WordLocator(self.SEARCHER)
        for place, order in enumerate([(SCAN, FERRY, PRICES), (FERRY, SCAN, PRICES)]):
            offers = locate("How many passengers in 2024?", hits(*order))
            assert [hit.item for hit, box in offers if box == WHOLE] == [SCAN.id]
            assert offers[place][0].item == SCAN.id
        assert [hit.item for hit, _ in locate("ferry", hits(SCAN))] == [SCAN.id]

    def test_a_passage_is_whole_and_ranked_by_its_words(self) -> None:
        offers = WordLocator(self.SEARCHER)("When does the ferry not run in January?", hits(PRICES, NOTES))
        assert (offers[0][0].item, offers[0][1]) == (NOTES.id, WHOLE)
        assert offers[0][0].kind is ItemKind.PASSAGE

    def test_only_the_first_hits_are_looked_at_and_only_once(self) -> None:
        items = [page("long.pdf", at, f"The ferry number {at}") for at in range(1, PAGES + 3)]
        searcher = CountingSearcher(tuple(items))
        locate = WordLocator(searcher)
        offers = locate("ferry", hits(*items))
        assert {hit.item for hit, _ in offers} <= {item.id for item in items[:PAGES]}
        locate("ferry number", hits(*items))
        assert len(searcher.queries) == PAGES

    def test_no_more_are_given_than_were_asked_for(self) -> None:
        offers = WordLocator(self.SEARCHER, most=2)("ferry", hits(SCAN, FERRY, PRICES, NOTES))
        assert len(offers) == 2
        assert WordLocator(self.SEARCHER)("ferry", []) == []


@dataclass
class TableMatcher:
    """Gives the map that was written down for a picture of this width: where it matches is the test's."""

    maps: dict[int, NDArray[np.float32]]
    seen: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def match_map(self, image: Image, query: str) -> MatchMap:
        self.seen.append((image.width, query))
        return MatchMap(("a", "b"), self.maps[image.width])


def patches(*tokens: list[list[float]]) -> NDArray[np.float32]:
    return np.asarray(tokens, np.float32)


class TestByMatch:
    NARROW = page("narrow.pdf", 1, "x", size=Size(500, 1000))
    WIDE = page("wide.pdf", 1, "x", size=Size(800, 1000))
    SEARCHER = MemorySearcher((NARROW, WIDE, NOTES))
    ONE_CORNER = patches([[0.9, 0.1], [0.1, 0.1]], [[0.5, 0.1], [0.1, 0.1]])
    """Both tokens match the patch at the top left: 0.7 on average."""
    TWO_CORNERS = patches([[0.8, 0.0], [0.0, 0.2]], [[0.0, 0.0], [0.0, 0.9]])
    """The second token matches the patch at the lower right, 0.55 on average; the first that above, 0.4."""
    LEFT_SIDE = patches([[0.9, 0.0], [0.1, 0.0]], [[0.1, 0.0], [0.9, 0.0]])
    """Each token matches one patch on the left: 0.9, though the patches there are 0.5 on average."""

    def locate(self, *items: Item, **limits: int) -> tuple[list[tuple[str, Box]], TableMatcher]:
        matcher = TableMatcher({500: self.ONE_CORNER, 800: self.TWO_CORNERS})
        offers = MatchLocator(self.SEARCHER, matcher, **limits)("what?", hits(*items))
        return [(hit.item, box) for hit, box in offers], matcher

    def test_regions_of_several_pages_are_compared_by_the_patches_within(self) -> None:
        top_left, lower_right = Box.unit(0, 0, 0.5, 0.5), Box.unit(0.5, 0.5, 1, 1)
        offers, matcher = self.locate(self.WIDE, self.NARROW)
        assert offers == [
            (self.NARROW.id, top_left),
            (self.WIDE.id, lower_right),
            (self.WIDE.id, top_left),
        ]
        assert matcher.seen == [(800, "what?"), (500, "what?")]

    def test_each_token_counts_by_its_best_patch(self) -> None:
        matcher = TableMatcher({500: self.ONE_CORNER, 800: self.LEFT_SIDE})
        offers = MatchLocator(self.SEARCHER, matcher)("what?", hits(self.NARROW, self.WIDE))
        assert [(hit.item, box) for hit, box in offers] == [
            (self.WIDE.id, Box.unit(0, 0, 0.5, 1)),
            (self.NARROW.id, Box.unit(0, 0, 0.5, 0.5)),
        ]

    def test_what_has_no_picture_is_whole_and_keeps_its_place(self) -> None:
        offers, matcher = self.locate(NOTES, self.NARROW)
        assert offers[0] == (NOTES.id, WHOLE)
        assert len(matcher.seen) == 1

    def test_the_cost_is_bounded(self) -> None:
        offers, matcher = self.locate(self.WIDE, self.NARROW, pages=1, most=1)
        assert [item for item, _ in offers] == [self.WIDE.id]
        assert matcher.seen == [(800, "what?")]

    def test_a_page_that_matches_nowhere_offers_nothing(self) -> None:
        matcher = TableMatcher({500: np.full((2, 2, 2), 0.3, np.float32)})
        assert MatchLocator(self.SEARCHER, matcher)("what?", hits(self.NARROW)) == []
