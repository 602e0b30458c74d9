"""What a server has open follows its collections as they come and go, whoever is searching meanwhile."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hosting import ANSWER, SEARCH, PacedPolicy

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionBusy, CollectionError, SearchError, SettingsError
from vrag.factory.collection_registry import MARK, CollectionRegistry
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.vectors.embed_items import local
from vrag.model_profiles import PROFILES
from vrag.server.collections.registry import CollectionSet
from vrag.settings import Settings
from vrag.testing import HashEmbedder
from vrag.types import Hit, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vrag.agent.events import Event
    from vrag.search.searcher import Searcher


def collection(place: Path, *texts: str, embedder: HashEmbedder | None = None) -> Collection:
    """With a text document for each text, in one folder of sources beside it."""
    made = Collection.create(place, CorpusOptions(dpi=100.0), embedder=embedder)
    sources = place.parent.parent / f"sources-{place.name}"
    sources.mkdir(parents=True)
    for n, text in enumerate(texts):
        (sources / f"{place.name}-{n}.md").write_text(text, encoding="utf-8")
    if texts:
        options = CorpusOptions(dpi=100.0, workers=1)
        add(made, [sources], options, embedder=embedder, producer=local(embedder))
    return made


def opened(*places: Path, embedder: HashEmbedder | None = None, **settings: Any) -> CollectionRegistry:  # noqa: ANN401
    return CollectionRegistry.open(
        Settings(collections=tuple(map(str, places)), workers=1, **settings), embedder
    )


def names(searcher: Searcher, corpora: frozenset[str] | None = None) -> list[str]:
    return [hit.document_name for hit in searcher.search([Query("whales", corpora=corpora)], 20)[0]]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    place = tmp_path / "shelves" / "first"
    collection(place, "whales sing")
    return place


class TestOpening:
    def test_searches_what_was_named_together_and_each_alone(self, first: Path) -> None:
        second = first.parent / "second"
        collection(second, "whales dive")
        shelf = opened(first, second)
        assert shelf.names == ("first", "second")
        assert sorted(names(shelf)) == ["first-0.md", "second-0.md"]
        assert names(shelf, corpora=frozenset({"second"})) == ["second-0.md"]

    def test_has_nothing_but_what_was_named(self, first: Path) -> None:
        collection(first.parent / "second", "whales dive")
        assert opened(first).names == ("first",)

    def test_refuses_a_name_that_is_not_open(self, first: Path) -> None:
        with pytest.raises(SearchError, match="no collection named 'none'"):
            names(opened(first), corpora=frozenset({"none"}))

    def test_shows_items_and_their_files(self, first: Path) -> None:
        shelf = opened(first)
        [hit] = shelf.search([Query("whales")], 1)[0]
        assert shelf.item(hit.item).text == "whales sing"
        assert shelf.details([hit.item])[hit.item].text == "whales sing"
        with pytest.raises(SearchError):
            shelf.image(hit.item)
        with pytest.raises(SearchError):
            shelf.frames(hit.item, fps=1, most=1)

    def test_fails_where_there_is_no_collection(self, tmp_path: Path) -> None:
        with pytest.raises(CollectionError):
            opened(tmp_path / "none")

    def test_of_a_search_server_has_no_collections(self) -> None:
        shelf = CollectionRegistry.open(Settings(search_url="http://127.0.0.1:9/search"))
        assert (shelf.names, shelf.open_collections) == ((), ())
        assert shelf.absent
        for change in (lambda: shelf.create("a"), lambda: shelf.drop("a"), lambda: shelf.collection):
            with pytest.raises(SettingsError):
                change()

    def test_gives_a_server_what_it_asks_for(self, first: Path) -> None:
        registry: CollectionSet = opened(first)
        assert [entry.writable for entry in registry.open_collections] == [True]


class TestCreating:
    def test_makes_one_like_the_first_that_is_searched_at_once(self, first: Path) -> None:
        shelf = opened(first)
        before = shelf.version
        made = shelf.create("notes")
        assert made.collection.header == shelf.collection.header
        assert made.collection.directory == first.parent / "notes"
        assert shelf.names == ("first", "notes")
        assert names(shelf) == ["first-0.md"]
        assert shelf.version != before

    def test_goes_by_the_first_ones_embedder(self, tmp_path: Path) -> None:
        embedder = HashEmbedder()
        place = tmp_path / "shelves" / "first"
        collection(place, "whales sing", embedder=embedder)
        shelf = opened(place, embedder=embedder)
        made = shelf.create("notes")
        vectors = opened(place, embedder=embedder, ranking="vector")
        assert names(shelf) == names(vectors) == ["first-0.md"], (
            "loaded, so that what comes has to be noticed"
        )
        source = tmp_path / "n.md"
        source.write_text("whales dive", encoding="utf-8")
        add(made.collection, [source], embedder=embedder, producer=made.producer)
        assert sorted(names(shelf)) == sorted(names(vectors)) == ["first-0.md", "n.md"]
        assert names(shelf, corpora=frozenset({"notes"})) == ["n.md"]

    @pytest.mark.parametrize("name", ["", "A", "a/b", "..", ".a", "a" * 65, "a\n", "first"])
    def test_refuses_names_that_cannot_be_or_are_taken(self, first: Path, name: str) -> None:
        shelf = opened(first)
        with pytest.raises(SettingsError):
            shelf.create(name)
        assert [path.name for path in first.parent.iterdir()] == ["first"]

    def test_is_not_possible_beside_what_cannot_be_written_to(
        self, first: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("os.access", closed)
        shelf = opened(first)
        assert not shelf.open_collections[0].writable
        with pytest.raises(SettingsError, match="No collection can be created"):
            shelf.create("notes")

    def test_by_many_at_once_makes_each_once(self, first: Path) -> None:
        shelf = opened(first)
        refused: list[SettingsError] = []

        def make(name: str) -> None:
            try:
                shelf.create(name)
            except SettingsError as error:
                refused.append(error)

        threads = [threading.Thread(target=make, args=(f"n{n % 4}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(shelf.names) == ["first", "n0", "n1", "n2", "n3"]
        assert len(refused) == 4


class TestTheNextStart:
    def test_finds_what_was_made_and_may_delete_it(self, first: Path) -> None:
        opened(first).create("notes")
        shelf = opened(first)
        assert [(entry.name, entry.removable) for entry in shelf.open_collections] == [
            ("first", False),
            ("notes", True),
        ]

    def test_leaves_alone_what_was_made_where_only_what_is_named_is_searched(self, first: Path) -> None:
        opened(first).create("more")
        alone = CollectionRegistry.open(Settings(collection=str(first), workers=1), managed=False)
        assert alone.names == ("first",)

    def test_does_not_delete_what_is_named_then(self, first: Path) -> None:
        opened(first).create("notes")
        shelf = opened(first, first.parent / "notes")
        with pytest.raises(SettingsError):
            shelf.drop("notes")
        assert (first.parent / "notes").is_dir()

    def test_of_another_first_collection_does_not_find_it(self, first: Path) -> None:
        collection(first.parent / "other", "birds")
        opened(first).create("notes")
        assert opened(first.parent / "other").names == ("other",)

    @pytest.mark.parametrize(
        "mark", ["", "[]", '{"beside": "other"}', '"first"', '{"beside": ["first"]}', "\0"]
    )
    def test_leaves_alone_what_bears_no_mark_of_ours(self, first: Path, mark: str) -> None:
        collection(first.parent / "notes", "birds")
        (first.parent / "notes" / MARK).write_text(mark, encoding="utf-8")
        assert opened(first).names == ("first",)

    def test_leaves_out_what_is_damaged_and_goes_on(self, first: Path) -> None:
        opened(first).create("notes")
        (first.parent / "notes" / "collection.db").write_bytes(b"x" * 5000)
        assert opened(first).names == ("first",)

    def test_leaves_out_vectors_of_another_embedder(self, first: Path) -> None:
        made = collection(first.parent / "notes", embedder=HashEmbedder())
        (made.directory / MARK).write_text(json.dumps({"beside": "first"}), encoding="utf-8")
        assert opened(first).names == ("first",)

    def test_clears_away_what_a_kill_left_half_done(self, first: Path) -> None:
        for name, age in ((".vrag-served-old", 3600), (".vrag-served-new", 0)):
            place = first.parent / name
            place.mkdir()
            (place / "lock").write_text("")
            os.utime(place, (time.time() - age, time.time() - age))
        (first.parent / ".mine").mkdir()
        opened(first)
        assert sorted(path.name for path in first.parent.iterdir()) == [".mine", ".vrag-served-new", "first"]


class TestDropping:
    def test_closes_and_deletes(self, first: Path) -> None:
        shelf = opened(first)
        shelf.create("notes")
        shelf.drop("notes")
        assert shelf.names == ("first",)
        assert names(shelf) == ["first-0.md"]
        assert [path.name for path in first.parent.iterdir()] == ["first"]
        shelf.create("notes")

    @pytest.mark.parametrize("name", ["first", "none", "", ".."])
    def test_is_for_what_was_made_here(self, first: Path, name: str) -> None:
        with pytest.raises(SettingsError):
            opened(first).drop(name)
        assert first.is_dir()

    def test_of_what_is_being_written_is_refused_and_it_stays_open(self, first: Path) -> None:
        shelf = opened(first)
        made = shelf.create("notes")
        with made.collection.build(), pytest.raises(CollectionBusy):
            shelf.drop("notes")
        assert shelf.names == ("first", "notes")
        assert made.collection.directory.is_dir()

    def test_disturbs_nobody_who_searches(self, first: Path) -> None:
        """A search that began before begins again: the other collections are still there."""
        shelf = opened(first)
        faults: list[BaseException] = []
        over = threading.Event()

        def search() -> None:
            while not over.is_set():
                try:
                    assert names(shelf) == ["first-0.md"]
                    assert shelf.version
                except BaseException as error:  # noqa: BLE001
                    faults.append(error)
                    return

        reader = threading.Thread(target=search)
        reader.start()
        for _ in range(5):
            shelf.create("notes")
            shelf.drop("notes")
        over.set()
        reader.join(30)
        assert faults == []
        assert names(shelf) == ["first-0.md"]

    def test_within_a_search_begins_it_again(self, first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shelf, _ = searching(first, None)
        assert sorted(names(shelf)) == ["first-0.md", "n.md"]
        search, dropped = type(shelf.searcher).search, list[str]()

        def drop_first(searcher: Searcher, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
            if not dropped:
                dropped.append("notes")
                shelf.drop("notes")
            return search(searcher, queries, top_k)

        monkeypatch.setattr(type(shelf.searcher), "search", drop_first)
        assert names(shelf) == ["first-0.md"]

    def test_of_a_damaged_collection_fails_once(self, first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shelf = opened(first)
        calls: list[int] = []

        def fail(*_: object) -> None:
            calls.append(1)
            raise CollectionError("damaged")

        monkeypatch.setattr(type(shelf.searcher), "search", fail)
        with pytest.raises(CollectionError):
            names(shelf)
        assert len(calls) == 1


class TestARunOverACollectionThatIsDropped:
    """It ends as a run does, and never takes what lies elsewhere for what it was asked to look at."""

    @pytest.mark.parametrize("when", ["run_started", "search_requested", "search_returned", "passage_shown"])
    def test_that_looked_there_alone_says_so_or_answers_by_what_it_saw(self, first: Path, when: str) -> None:
        shelf, agent = searching(first, "notes")
        run = told(agent, when, lambda: shelf.drop("notes"))
        assert {hit.document_name for step in run.steps for hit in step.hits} <= {"n.md"}
        stopped = {"search_returned": "answered", "passage_shown": "answered"}.get(when, "search_error")
        assert run.stop_reason == stopped

    @pytest.mark.parametrize("when", ["run_started", "search_requested", "search_returned", "passage_shown"])
    def test_that_looks_everywhere_goes_on(self, first: Path, when: str) -> None:
        shelf, agent = searching(first, None)
        run = told(agent, when, lambda: shelf.drop("notes"))
        assert (run.stop_reason, run.answer) == ("answered", "48,200")
        assert "first-0.md" in {hit.document_name for step in run.steps for hit in step.hits}


def searching(first: Path, where: str | None) -> tuple[CollectionRegistry, Agent]:
    """An agent that searches twice for whales in a collection made beside the first one, or in both."""
    shelf = opened(first)
    made = shelf.create("notes")
    source = first.parent.parent / "n.md"
    source.write_text("whales dive", encoding="utf-8")
    add(made.collection, [source], producer=made.producer)
    search = SEARCH.replace("ferry passengers", "whales")
    policy = PacedPolicy([search, ANSWER])
    policy.go.set()
    environment = Environment(shelf, PROFILES["qwen2.5-vl"], EnvironmentOptions(collection=where))
    return shelf, Agent(policy, environment, VragMethod())


def told(agent: Agent, when: str, act: Callable[[], None]) -> RunResult:
    """A run in which something happens after the first event of a type."""
    events: list[Event] = []
    for event in agent.stream("What do whales do?"):
        if event.type == when and all(earlier.type != when for earlier in events):
            act()
        events.append(event)
    assert when in {event.type for event in events}
    return RunResult.of(events)


class TestWhatCannotBeWritten:
    def test_says_why_where_qdrant_searches(self, tmp_path: Path) -> None:
        embedder = HashEmbedder()
        place = tmp_path / "shelves" / "first"
        collection(place, embedder=embedder)
        shelf = opened(place, embedder=embedder, ranking="lexical", qdrant="qdrant://127.0.0.1:9/x")
        [entry] = shelf.open_collections
        assert not entry.writable
        assert "Qdrant" in entry.reason

    def test_says_why_where_two_are_called_alike(self, tmp_path: Path) -> None:
        places = [tmp_path / side / "same" for side in "ab"]
        for place in places:
            Collection.create(place)
        shelf = opened(*places)
        assert shelf.names == ("a/same", "b/same")
        assert all("same name" in entry.reason for entry in shelf.open_collections)


def closed(*_: object) -> bool:
    return False
