from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_items import put_files, put_items

from vrag.errors import FingerprintMismatch, SearchError
from vrag.index.catalog import Catalog, Column
from vrag.index.collection import Collection
from vrag.index.lexical.lexical_index import LexicalEntry, LexicalIndex
from vrag.search.engine import Engine, Ranking, Snapshot, reciprocal_rank_fusion
from vrag.search.multi import NUMBER_STRIDE, MultiSearcher, unique_names
from vrag.testing import HashEmbedder
from vrag.types import Document, DocumentStatus, Item, ItemKind, Query, item_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent
    from vrag.types import Hit

WORDS = "apple banana cherry date elder fig grape".split()


TEXT = st.lists(
    st.sampled_from(
        [
            "ferry",
            "ferries",
            "the",
            "shore",
            "power",
            "2024",
            "10.5",
            "末班船",
            "年",
            "매출",
            "café",
            "Überfahrt",
        ]
    ),
    max_size=6,
).map(" ".join)
TITLE = st.sampled_from(["-.pdf", "ferry.pdf", "shore power.pdf", "年.pdf"])


class WordEmbedder(HashEmbedder):
    """Counts of seven fruits, so that a test can compute every score; keeps what it was asked."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(dimension=len(WORDS), seed=seed)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[text.split().count(word) for word in WORDS] for text in texts], np.float32)

    def embed_items(self, contents: Sequence[EmbedContent]) -> list[NDArray[np.float32]]:
        return list(self.embed([content.text for content in contents]))

    def embed_queries(self, queries: Sequence[str]) -> list[NDArray[np.float32]]:
        asked.append(list(queries))
        return list(self.embed(queries))


asked: list[list[str]] = []


def document_id(number: int) -> str:
    return f"{number:016x}" * 4


def fill(collection: Collection, texts: dict[int, str]) -> Collection:
    """A document of one passage for each text."""
    for number, text in texts.items():
        item = Item(
            id=item_id(document_id(number), 1),
            document=document_id(number),
            document_name=f"{number}.txt",
            kind=ItemKind.PASSAGE,
            ordinal=1,
            text=text,
        )
        mark = collection.header.embedder
        vectors = list(WordEmbedder().embed([text])) if mark else None
        put_items(collection, [item], vectors)
        row = Document(
            path=f"/{number}.txt",
            id=document_id(number),
            name=f"{number}.txt",
            size=1,
            mtime_ns=1,
            status=DocumentStatus.READY,
        )
        put_files(collection, [(row, 1)])
    return collection


def random_texts(first: int, count: int, seed: int) -> dict[int, str]:
    random = np.random.default_rng(seed)
    return {first + n: " ".join(random.choice(WORDS, random.integers(1, 6))) for n in range(count)}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Collection]:
    """Collections `a` and `b` that share ten documents, `both` with all of them, `words` without vectors."""
    folder = tmp_path_factory.mktemp("shelf")
    some, others = random_texts(1, 30, 1), random_texts(21, 40, 2)
    others |= {number: some[number] for number in range(21, 31)}
    collections = {
        name: Collection.create(folder / name, embedder=WordEmbedder()) for name in ("a", "b", "both")
    }
    fill(collections["a"], some)
    fill(collections["b"], others)
    fill(collections["both"], some | others)
    collections["words"] = fill(Collection.create(folder / "words"), {99: "apple zucchini"})
    return collections


def several(
    shelf: dict[str, Collection], *names: str, rankings: Sequence[Ranking] = tuple(Ranking)
) -> MultiSearcher:
    return MultiSearcher({name: Engine(shelf[name], WordEmbedder(), rankings=rankings) for name in names})


def in_memory(documents: dict[int, tuple[str, list[str]]]) -> Engine:
    """An engine over passages that are on no disk: a title and texts for each number of a document."""
    rows = sorted(
        (item_id(document_id(number), ordinal), document_id(number), title, ordinal, text)
        for number, (title, texts) in documents.items()
        for ordinal, text in enumerate(texts, 1)
    )
    ids = [row[0] for row in rows]
    catalog = Catalog(
        version=1,
        ids=ids,
        documents=column([row[1] for row in rows]),
        document_names=column([row[2] for row in rows]),
        ordinals=np.array([row[3] for row in rows], np.int32),
        kinds=column([ItemKind.PASSAGE.value] * len(rows)),
        text_hashes=np.zeros((len(rows), 16), np.uint8),
        shown=np.ones(len(rows), np.bool_),
        key=repr(ids),
        content=repr(rows),
    )
    lexical = LexicalIndex.build(
        LexicalEntry(item, document, title, text) for item, document, title, _, text in rows
    )
    return cast("Engine", InMemory(Snapshot(catalog, lexical, None, 0.0, 0.0)))


def column(values: list[str]) -> Column:
    distinct = sorted(set(values))
    return Column(distinct, np.array([distinct.index(value) for value in values], np.int32))


class UntitledPages:
    """As much of a collection as the search for titles needs: no page has a title."""

    address = "memory"

    @property
    def store(self) -> UntitledPages:
        return self

    def find_items(self, *_: object) -> list[dict[str, str]]:
        return []


@dataclass(frozen=True)
class InMemory:
    """As much of an `Engine` as several of them need."""

    state: Snapshot
    rankings: frozenset[Ranking] = frozenset({Ranking.LEXICAL})
    embedder: None = None

    @property
    def collection(self) -> UntitledPages:
        return UntitledPages()

    def snapshot(self) -> Snapshot:
        return self.state


def found_by(found: list[list[Hit]]) -> list[list[tuple[str, float, int]]]:
    """Items with scores and ranks, without the rows that say in which collection they are."""
    return [[(hit.item, hit.score, hit.rank) for hit in hits] for hits in found]


QUERIES = [Query("apple fig"), Query("date"), Query("grape grape cherry")]


@pytest.mark.slow
@pytest.mark.parametrize("top_k", [1, 7, 1000])
def test_by_vectors_it_finds_what_one_collection_of_all_finds(
    shelf: dict[str, Collection], top_k: int
) -> None:
    one = Engine(shelf["both"], WordEmbedder(), rankings=[Ranking.VECTOR]).search(QUERIES, top_k)
    two = several(shelf, "a", "b", rankings=[Ranking.VECTOR]).search(QUERIES, top_k)
    key = [[(hit.item, hit.score, hit.rank) for hit in hits] for hits in one]
    assert [[(hit.item, hit.score, hit.rank) for hit in hits] for hits in two] == key


def test_a_document_of_two_collections_is_found_once(shelf: dict[str, Collection]) -> None:
    for rankings in ([Ranking.LEXICAL], [Ranking.VECTOR], list(Ranking)):
        for hits in several(shelf, "a", "b", rankings=rankings).search(QUERIES, 1000):
            assert len({hit.item for hit in hits}) == len(hits)
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert len(several(shelf, "a", "b", rankings=[Ranking.VECTOR]).search(QUERIES[:1], 1000)[0]) == 60


def test_by_words_it_finds_what_one_collection_of_all_finds(shelf: dict[str, Collection]) -> None:
    """Also where documents are in both."""
    one = Engine(shelf["both"], rankings=[Ranking.LEXICAL]).search(QUERIES, 1000)
    two = several(shelf, "a", "b", rankings=[Ranking.LEXICAL]).search(QUERIES, 1000)
    assert found_by(two) == found_by(one)
    assert any(found_by(one))


class TestWords:
    """The ranking by words of several collections is that of one with the same items."""

    @given(
        documents=st.lists(st.tuples(TITLE, st.lists(TEXT, min_size=1, max_size=3)), max_size=8),
        holders=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=8, max_size=8),
        query=TEXT.filter(bool),
        top_k=st.sampled_from([1, 3, 1000]),
    )
    def test_splitting_changes_nothing(
        self,
        documents: list[tuple[str, list[str]]],
        holders: list[set[int]],
        query: str,
        top_k: int,
    ) -> None:
        numbered = dict(enumerate(documents))
        parts: dict[str, dict[int, tuple[str, list[str]]]] = {name: {} for name in "0123"}
        for number, document in numbered.items():
            for holder in holders[number]:
                parts[str(holder)][number] = document
        split = MultiSearcher({name: in_memory(part) for name, part in parts.items()})
        whole = MultiSearcher({"all": in_memory(numbered)})
        assert found_by(split.search([Query(query)], top_k)) == found_by(whole.search([Query(query)], top_k))

    @given(
        kept=st.sets(st.sampled_from("0123"), min_size=1),
        texts=st.lists(TEXT, min_size=4, max_size=4),
        query=TEXT.filter(bool),
    )
    def test_only_collections_that_a_query_asks_count(
        self, kept: set[str], texts: list[str], query: str
    ) -> None:
        engines = {str(number): in_memory({number: ("-", [text])}) for number, text in enumerate(texts)}
        limited = MultiSearcher(engines).search([Query(query, corpora=frozenset(kept)), Query(query)], 10)
        alone = MultiSearcher({name: engines[name] for name in kept}).search([Query(query)], 10)
        assert found_by(limited) == found_by([*alone, *MultiSearcher(engines).search([Query(query)], 10)])

    def test_a_word_that_is_rare_where_it_stands_does_not_beat_both_words(self) -> None:
        """By its own statistics "power" weighs much in the collection where it is rare."""
        harbour = in_memory(
            {
                n: (
                    "-",
                    [f"The shore power of berth {n} is switched on by the harbour." if n < 9 else "power"],
                )
                for n in range(10)
            }
        )
        canteen = in_memory(
            {n: ("-", ["power" if n == 10 else f"Lunch of day {n} is soup."]) for n in range(10, 40)}
        )
        (hits,) = MultiSearcher({"canteen": canteen, "harbour": harbour}).search([Query("shore power")], 40)
        assert [hit.item for hit in hits][:9] == [item_id(document_id(n), 1) for n in range(9)]

    def test_an_unknown_word_and_no_item_at_all(self) -> None:
        nothing = in_memory({})
        assert MultiSearcher({"a": nothing, "b": nothing}).search([Query("apple")], 3) == [[]]
        some = in_memory({1: ("-", ["apple pie"])})
        assert MultiSearcher({"a": nothing, "b": some}).search([Query("zebra")], 3) == [[]]


def test_rankings_are_merged_before_they_are_fused(shelf: dict[str, Collection]) -> None:
    parts = [
        [hit.item for hit in several(shelf, "a", "b", rankings=[ranking]).search(QUERIES[:1], 50)[0]]
        for ranking in Ranking
    ]
    (hits,) = several(shelf, "a", "b").search(QUERIES[:1], 5)
    assert [(hit.item, hit.score) for hit in hits] == reciprocal_rank_fusion(parts)[:5]


def test_ties_go_by_item_id_across_collections(tmp_path: Path) -> None:
    engines: dict[str, Engine] = {}
    for name, numbers in (("x", (4, 1)), ("y", (3, 2))):
        collection = fill(Collection.create(tmp_path / name), dict.fromkeys(numbers, "apple pear"))
        engines[name] = Engine(collection)
    (hits,) = MultiSearcher(engines).search([Query("apple")], 10)
    assert [hit.document_name for hit in hits] == ["1.txt", "2.txt", "3.txt", "4.txt"]


class TestCorpora:
    def test_a_query_looks_where_it_says(self, shelf: dict[str, Collection]) -> None:
        searcher = several(shelf, "a", "b")
        alone = Engine(shelf["b"], WordEmbedder()).search(QUERIES, 20)
        limited = [Query(query.text, corpora=frozenset({"b"})) for query in QUERIES]
        found = searcher.search(limited, 20)
        assert [[(hit.item, hit.score) for hit in hits] for hits in found] == [
            [(hit.item, hit.score) for hit in hits] for hits in alone
        ]

    def test_queries_of_one_search_may_differ(self, shelf: dict[str, Collection]) -> None:
        nowhere = Query("apple", corpora=frozenset())
        everywhere = Query("banana")
        only_a = Query("cherry date", corpora=frozenset({"a"}))
        searcher = several(shelf, "a", "b", rankings=[Ranking.VECTOR])
        found = searcher.search([nowhere, everywhere, only_a], 1000)
        assert [len(hits) for hits in found] == [0, 60, 30]
        assert found == [searcher.search([query], 1000)[0] for query in (nowhere, everywhere, only_a)]

    def test_an_unknown_name_is_refused_with_the_known_ones(self, shelf: dict[str, Collection]) -> None:
        query = Query("apple", corpora=frozenset({"a", "c"}))
        with pytest.raises(SearchError, match=r"no collection named 'c'. There are: a, b.") as refused:
            several(shelf, "a", "b").search([query], 1)
        with pytest.raises(SearchError) as alone:
            Engine(shelf["a"], WordEmbedder()).search([query], 1)
        assert alone.value.message == refused.value.message

    def test_filters_hold_in_every_collection(self, shelf: dict[str, Collection]) -> None:
        wanted = frozenset({document_id(1), document_id(25), document_id(60)})
        (hits,) = several(shelf, "a", "b").search([Query("apple date fig", documents=wanted)], 10)
        assert {hit.document for hit in hits} <= wanted
        (hits,) = several(shelf, "a", "b").search([Query("apple", kinds=frozenset({ItemKind.PAGE}))], 10)
        assert hits == []


class TestEmbedders:
    def test_vectors_of_different_embedders_are_refused(
        self, shelf: dict[str, Collection], tmp_path: Path
    ) -> None:
        other = Engine(Collection.create(tmp_path / "other", embedder=WordEmbedder(1)), WordEmbedder(1))
        engine = Engine(shelf["a"], WordEmbedder())
        with pytest.raises(FingerprintMismatch, match=r"a and other.*one at a time"):
            MultiSearcher({"a": engine, "other": other})
        lexical = Engine(other.collection, rankings=[Ranking.LEXICAL])
        MultiSearcher({"a": engine, "other": lexical})

    def test_a_collection_without_vectors_takes_part_by_its_words(self, shelf: dict[str, Collection]) -> None:
        engines = {"a": Engine(shelf["a"], WordEmbedder()), "words": Engine(shelf["words"])}
        (hits,) = MultiSearcher(engines).search([Query("zucchini apple")], 1000)
        assert "99.txt" in {hit.document_name for hit in hits}

    def test_queries_are_embedded_once_for_all(self, shelf: dict[str, Collection]) -> None:
        asked.clear()
        several(shelf, "a", "b").search(QUERIES, 3)
        assert asked == [[query.text for query in QUERIES]]


def test_it_has_the_items_of_all(shelf: dict[str, Collection]) -> None:
    searcher = several(shelf, "a", "b")
    for number in (1, 25, 60):
        assert searcher.item(item_id(document_id(number), 1)).document_name == f"{number}.txt"
    with pytest.raises(SearchError, match="no item"):
        searcher.item("nothing")
    with pytest.raises(SearchError, match="no picture"):
        searcher.image(item_id(document_id(60), 1))
    with pytest.raises(SearchError, match="no item"):
        searcher.image("nothing")


def test_rows_of_different_items_differ(shelf: dict[str, Collection]) -> None:
    (hits,) = several(shelf, "a", "b", rankings=[Ranking.VECTOR]).search(QUERIES[:1], 1000)
    assert len({hit.row for hit in hits}) == len(hits)
    only = several(shelf, "a", rankings=[Ranking.VECTOR]).search(QUERIES[:1], 1000)[0]
    first = {hit.item: hit.row for hit in hits if hit.row < NUMBER_STRIDE}
    assert first == {hit.item: hit.row for hit in only}


def test_its_version_changes_with_any_of_theirs(tmp_path: Path) -> None:
    collections = {name: fill(Collection.create(tmp_path / name), {1: "apple"}) for name in "xy"}

    def version() -> str:
        return MultiSearcher({name: Engine(each) for name, each in collections.items()}).version

    before = version()
    assert version() == before
    fill(collections["y"], {2: "banana"})
    assert version() != before
    renamed = {"x": Engine(collections["x"]), "z": Engine(collections["y"])}
    assert MultiSearcher(renamed).version != version(), "queries may name collections"


def test_nothing_to_search_is_refused(shelf: dict[str, Collection]) -> None:
    with pytest.raises(SearchError, match="no collection to search"):
        MultiSearcher({})
    searcher = several(shelf, "a", "b")
    assert searcher.search([], 3) == []
    for query, top_k in ((Query(" "), 3), (Query("apple"), 0), (Query("apple"), 1001)):
        with pytest.raises(SearchError):
            searcher.search([query], top_k)


class TestNames:
    def test_are_the_ends_of_the_addresses(self) -> None:
        assert unique_names(["/x/a", "s3://bucket/b/"]) == {"a": "/x/a", "b": "s3://bucket/b/"}

    def test_are_longer_where_ends_are_equal(self) -> None:
        addresses = ["/x/index", "/y/index", "/y/z/x/index", "/one"]
        names = unique_names(addresses)
        assert set(names.values()) == set(addresses)
        assert names["one"] == "/one"
        assert names["y/index"] == "/y/index"
        assert all(address.endswith(name) for name, address in names.items())

    def test_are_those_that_a_collection_alone_has(self, shelf: dict[str, Collection]) -> None:
        engine = Engine(shelf["a"], WordEmbedder())
        assert list(unique_names([engine.collection.address])) == [engine.name]

    def test_one_address_is_one_collection(self) -> None:
        assert unique_names(["/x/a", "/x/a"]) == {"a": "/x/a"}
