"""Which parts of the pages found are offered: by words, or by an embedder that says where a page matched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vrag.embed.base import MatchMap
from vrag.evaluation.locating import PAGES, WHOLE, MatchLocator, WordLocator
from vrag.geometry import Box
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
    NARROW, WIDE = (page(f"{width}.pdf", 1, "x", size=FERRY.size._replace(width=width)) for width in (500, 800)) \
        if FERRY.size else ()  # fmt: skip
