"""Searches of many threads are gathered; what each finds is what it would have found alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from vrag.errors import SearchError
from vrag.geometry import Size, View
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder, MemorySearcher, tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Item


@dataclass
class Gated:
    """A searcher whose first call waits until it may go on; it keeps how many queries each call had."""

    searcher: Searcher
    open: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    calls: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])
    items: int = 0
    images: int = 0
    within: int = 0
    most_within: int = 0

    @property
    def version(self) -> str:
        return self.searcher.version

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        self.calls.append((len(queries), top_k))
        self.within += 1
        self.most_within = max(self.most_within, self.within)
        self.entered.set()
        try:
            assert self.open.wait(60)
            if any(query.text == "bad" for query in queries):
                raise SearchError("One of the queries is bad.")
            return self.searcher.search(queries, top_k)
        finally:
            self.within -= 1

    def item(self, id: str) -> Item:
        self.items += 1
        return self.searcher.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        self.images += 1
        return self.searcher.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        return self.searcher.frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image | None:
        return self.searcher.part(id, view)


def behind(gated: Gated, asked: Sequence[tuple[str, int]], **bounds: int) -> list[list[Hit] | Exception]:
    """What these find, all of them asked while a first call runs."""
    gathered = BatchedSearcher(gated, wait=0, **bounds)

    def one(text: str, top_k: int) -> list[Hit] | Exception:
        try:
            return gathered.search([Query(text)], top_k)[0]
        except SearchError as error:
            return error

    with ThreadPoolExecutor(len(asked) + 1) as threads:
        first = threads.submit(one, "ferry", 3)
        assert gated.entered.wait(60)
        others = [threads.submit(one, text, top_k) for text, top_k in asked]
        while len(gathered._waiting) < len(asked):  # pyright: ignore[reportPrivateUsage]
            threading.Event().wait(0.001)
        gated.open.set()
        first.result(10)
        return [other.result(10) for other in others]


def test_what_arrives_during_a_call_goes_together_into_the_next() -> None:
    gated = Gated(tiny_corpus())
    texts = ["ferry", "passengers", "ticket price", "engine", "crew"]
    found = behind(gated, [(text, 3) for text in texts])
    assert gated.calls == [(1, 3), (5, 3)]
    assert found == [tiny_corpus().search([Query(text)], 3)[0] for text in texts]


def test_searches_of_other_depths_are_calls_of_their_own() -> None:
    gated = Gated(tiny_corpus())
    found = behind(gated, [("ferry", 1), ("ferry", 5), ("passengers", 1)])
    assert gated.calls[0] == (1, 3)
    assert sorted(gated.calls[1:]) == [(1, 5), (2, 1)]
    assert not isinstance(found[0], Exception)
    assert len(found[0]) == 1


def test_a_call_has_no_more_queries_than_the_bound() -> None:
    gated = Gated(tiny_corpus())
    behind(gated, [("ferry", 3)] * 10, queries=4)
    assert [queries for queries, _ in gated.calls] == [1, 4, 4, 2]
    assert gated.most_within == 1


def test_one_search_of_many_queries_is_one_call() -> None:
    gated = Gated(tiny_corpus())
    gated.open.set()
    queries = [Query("ferry"), Query("passengers")] * 5
    assert BatchedSearcher(gated, queries=4).search(queries, 3) == tiny_corpus().search(queries, 3)
    assert gated.calls == [(10, 3)]
    assert BatchedSearcher(gated).search([], 3) == []


def test_the_fault_of_one_is_its_own() -> None:
    gated = Gated(tiny_corpus())
    good, bad, other = behind(gated, [("ferry", 3), ("bad", 3), ("passengers", 3)])
    assert good == tiny_corpus().search([Query("ferry")], 3)[0]
    assert other == tiny_corpus().search([Query("passengers")], 3)[0]
    assert isinstance(bad, SearchError)


def test_searches_that_come_within_a_moment_share_a_call() -> None:
    gated = Gated(tiny_corpus())
    gated.open.set()
    gathered = BatchedSearcher(gated, wait=0.2)

    def one(number: int) -> list[list[Hit]]:
        return gathered.search([Query(f"ferry {number}")], 3)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(8)))
    assert (gathered.calls, gathered.asked) == (len(gated.calls), 8)
    assert len(gated.calls) < 8


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Words and vectors over some notes."""
    folder: Path = tmp_path_factory.mktemp("notes")
    for number in range(30):
        words = " ".join(f"word{number * step % 17}" for step in range(1, 9))
        (folder / f"note{number}.md").write_text(f"# Note {number}\n\n{words} ferry {number}\n")
    embedder = HashEmbedder()
    collection = Collection.create(folder / "collection", embedder=embedder)
    add(collection, [folder], embedder=embedder)
    return Engine(collection, embedder)


def test_a_real_collection_gives_each_of_many_threads_what_it_gives_one(engine: Engine) -> None:
    queries = [Query(f"word{number % 17} ferry {number}") for number in range(60)]
    alone = [engine.search([query], 1 + number % 3)[0] for number, query in enumerate(queries)]
    gathered = BatchedSearcher(engine)

    def one(number: int) -> list[Hit]:
        return gathered.search([queries[number]], 1 + number % 3)[0]

    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(one, range(60)))
    assert found == alone
    assert gathered.calls < 60


def test_items_and_pictures_are_opened_once_while_they_are_kept() -> None:
    gated = Gated(tiny_corpus())
    gathered = BatchedSearcher(gated)
    id = tiny_corpus().items[0].id
    small = Size(100, 100)
    for _ in range(3):
        assert gathered.item(id) == tiny_corpus().item(id)
        assert gathered.image(id).tobytes() == tiny_corpus().image(id).tobytes()
        assert gathered.image(id, least=small).tobytes() == tiny_corpus().image(id, least=small).tobytes()
    assert (gated.items, gated.images) == (1, 2)
    assert gathered.version == gated.version


def test_what_is_kept_is_bounded_and_the_latest_used_stays() -> None:
    gated = Gated(tiny_corpus())
    first, second, third = (item.id for item in tiny_corpus().items[:3])
    gathered = BatchedSearcher(gated, items=2, picture_bytes=1000)
    for id in (first, second, first, third, first):
        gathered.item(id)
    assert gated.items == 3
    gathered.item(second)
    assert gated.items == 4
    gathered.image(first)
    gathered.image(first)
    assert gated.images == 2  # larger than all that may be kept


def test_what_cannot_be_opened_is_tried_again() -> None:
    gathered = BatchedSearcher(MemorySearcher(()))
    for _ in range(2):
        with pytest.raises(SearchError, match="no item"):
            gathered.item("nothing")
