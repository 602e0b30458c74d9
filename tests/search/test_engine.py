from __future__ import annotations

import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from stored_items import blob_path, forget_document, put_blob, put_files, put_items

from vrag.errors import CollectionError, FingerprintMismatch, SearchError
from vrag.geometry import Size
from vrag.index.collection import Collection
from vrag.index.lexical.lexical_index import LexicalEntry, LexicalIndex
from vrag.index.lexical.segment import LexicalSegment
from vrag.index.maintenance import compact
from vrag.search.engine import Engine, Ranking, Snapshot, reciprocal_rank_fusion
from vrag.testing import HashEmbedder
from vrag.types import Document, DocumentStatus, Item, ItemKind, Query, item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.embed.embedder import EmbedContent

WORDS = "apple banana cherry date elder fig grape".split()


class WordEmbedder(HashEmbedder):
    """Counts of seven fruits, so that a test can compute every score by hand; ties are many."""

    def __init__(self) -> None:
        super().__init__(dimension=len(WORDS))

    def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.array([text.split().count(word) for word in WORDS], np.float32) for text in texts]

    def embed_items(self, contents: Sequence[EmbedContent]) -> list[NDArray[np.float32]]:
        return self.embed([content.text for content in contents])

    def embed_queries(self, queries: Sequence[str]) -> list[NDArray[np.float32]]:
        return self.embed(queries)


def document_id(number: int) -> str:
    return f"{number:016x}" * 4


def put(
    collection: Collection,
    number: int,
    *texts: str,
    status: DocumentStatus = DocumentStatus.READY,
    image: str = "",
) -> None:
    """Stores a document, as the build does: items first."""
    items = [
        Item(
            id=item_id(document_id(number), ordinal),
            document=document_id(number),
            document_name=f"{number}.txt",
            kind=ItemKind.PAGE if ordinal % 2 else ItemKind.PASSAGE,
            ordinal=ordinal,
            text=text,
            image=image or None,
            size=Size(4, 4) if image else None,
        )
        for ordinal, text in enumerate(texts, 1)
    ]
    mark = collection.header.embedder
    vectors = list(WordEmbedder().embed(texts)) if mark else None
    if items:
        put_items(collection, items, vectors)
    refer(collection, number, status)


def refer(
    collection: Collection, number: int, status: DocumentStatus = DocumentStatus.READY, path: str = ""
) -> None:
    row = Document(
        path=path or f"/{number}.txt",
        id=document_id(number),
        name=f"{number}.txt",
        size=1,
        mtime_ns=1,
        status=status,
    )
    put_files(collection, [(row, 1)])


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return Collection.create(tmp_path / "collection", embedder=WordEmbedder())


@pytest.fixture
def lexical(tmp_path: Path) -> Collection:
    return Collection.create(tmp_path / "lexical")


def fruits(collection: Collection, documents: int = 40) -> dict[str, str]:
    """Random texts; returns them by item id."""
    random = np.random.default_rng(1)
    texts: dict[str, str] = {}
    for number in range(1, documents + 1):
        made = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(6)]
        put(collection, number, *made)
        texts |= {item_id(document_id(number), n): text for n, text in enumerate(made, 1)}
    return texts


def ids(engine: Engine, query: Query | str, top_k: int = 10) -> list[str]:
    (hits,) = engine.search([Query(query) if isinstance(query, str) else query], top_k)
    return [hit.item for hit in hits]


class TestRanking:
    def test_hits_tell_where_they_come_from(self, lexical: Collection) -> None:
        put(lexical, 7, "nothing", "an apple")
        ((hit,),) = Engine(lexical).search([Query("apple")], 1)
        assert (hit.item, hit.rank, hit.document, hit.document_name) == (
            item_id(document_id(7), 2),
            1,
            document_id(7),
            "7.txt",
        )
        assert (hit.ordinal, hit.kind) == (2, ItemKind.PASSAGE)
        assert hit.score > 0

    def test_lists_are_one_per_query_and_scores_descend(self, collection: Collection) -> None:
        fruits(collection)
        lists = Engine(collection, WordEmbedder()).search([Query("apple fig"), Query("date")], 25)
        assert [len(hits) for hits in lists] == [25, 25]
        for hits in lists:
            assert [hit.rank for hit in hits] == list(range(1, 26))
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @pytest.mark.parametrize("top_k", [12, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 5, 1000))])
    def test_vectors_rank_as_a_full_sort_does(self, collection: Collection, top_k: int) -> None:
        texts = fruits(collection)
        engine = Engine(collection, WordEmbedder(), rankings=[Ranking.VECTOR])
        query = "apple fig fig"
        vector = WordEmbedder().embed([query])[0]
        score = {item: float(WordEmbedder().embed([text])[0] @ vector) for item, text in texts.items()}
        assert ids(engine, query, top_k) == sorted(texts, key=lambda item: (-score[item], item))[:top_k]

    def test_fusion_is_that_of_both_rankings(self, collection: Collection) -> None:
        fruits(collection)
        only = [
            ids(Engine(collection, WordEmbedder(), rankings=[ranking]), "apple grape", 100)
            for ranking in Ranking
        ]
        (hits,) = Engine(collection, WordEmbedder()).search([Query("apple grape")], 10)
        assert [(hit.item, hit.score) for hit in hits] == reciprocal_rank_fusion(only)[:10]

    @pytest.mark.parametrize(
        ("rankings", "depth"),
        [((Ranking.VECTOR,), 3), ((Ranking.LEXICAL,), 3), (tuple(Ranking), 100)],
        ids=["vector", "lexical", "both"],
    )
    def test_only_what_is_to_be_fused_is_looked_for_deeper_than_asked(
        self, collection: Collection, monkeypatch: pytest.MonkeyPatch, rankings: Sequence[Ranking], depth: int
    ) -> None:
        asked: list[int] = []
        rank = Snapshot.rank

        def ranked(self: Snapshot, queries: Any, depth: int, vectors: Any) -> Any:  # noqa: ANN401
            asked.append(depth)
            return rank(self, queries, depth, vectors)

        monkeypatch.setattr(Snapshot, "rank", ranked)
        for top_k in (1, 3):
            Engine(collection, WordEmbedder(), rankings=rankings).search([Query("apple")], top_k)
        assert asked[-1] == depth

    def test_without_vectors_the_score_is_that_of_bm25(self, lexical: Collection) -> None:
        put(lexical, 1, "apple", "apple apple fig")
        (hits,) = Engine(lexical).search([Query("apple")], 2)
        (document,) = {hit.document for hit in hits}
        entries = [
            LexicalEntry(hit.item, document, hit.document_name, f"\n{lexical.item(hit.item).text}")
            for hit in hits
        ]
        expected = LexicalIndex.build(entries).search("apple", 9)
        assert [(hit.item, hit.score) for hit in hits] == expected

    def test_chinese_is_found(self, lexical: Collection) -> None:
        put(lexical, 1, "苹果公司2023年营业收入增长", "梨的价格")
        assert ids(Engine(lexical), "营业收入")[0] == item_id(document_id(1), 1)


class TestFilters:
    @pytest.mark.parametrize("ranking", list(Ranking))
    def test_apply_before_ranking(self, collection: Collection, ranking: Ranking) -> None:
        """The few items let through are all found, however low they rank among all."""
        fruits(collection)
        put(collection, 99, "apple " + "banana " * 50, "apple date")
        query = Query("apple", frozenset({document_id(99)}), frozenset({ItemKind.PASSAGE}))
        assert ids(Engine(collection, WordEmbedder(), rankings=[ranking]), query, 1) == [
            item_id(document_id(99), 2)
        ]

    def test_the_best_of_what_is_let_through_are_those_of_the_whole_list(self, lexical: Collection) -> None:
        fruits(lexical)
        engine = Engine(lexical)
        chosen = frozenset(document_id(number) for number in range(5, 15))
        everything = [
            item for item in ids(engine, "apple fig", 1000) if item[:16] in {c[:16] for c in chosen}
        ]
        assert ids(engine, Query("apple fig", chosen), 7) == everything[:7]

    def test_unknown_documents_find_nothing(self, collection: Collection) -> None:
        fruits(collection, 2)
        assert ids(Engine(collection, WordEmbedder()), Query("apple", frozenset({"no"}))) == []


class TestRefusals:
    @pytest.mark.parametrize("top_k", [-1, 0, 1001])
    def test_top_k_out_of_range(self, lexical: Collection, top_k: int) -> None:
        with pytest.raises(SearchError, match="top_k"):
            Engine(lexical).search([Query("apple")], top_k)

    @pytest.mark.parametrize("text", ["", " \n"])
    def test_empty_query(self, lexical: Collection, text: str) -> None:
        with pytest.raises(SearchError, match="empty"):
            Engine(lexical).search([Query("apple"), Query(text)], 3)

    def test_no_queries_have_no_lists(self, lexical: Collection) -> None:
        assert Engine(lexical).search([], 3) == []

    def test_an_empty_collection_finds_nothing(self, lexical: Collection) -> None:
        assert Engine(lexical).search([Query("apple")], 3) == [[]]

    @pytest.mark.parametrize("id", ["nothing", "it's", "' OR '1'='1"])
    def test_unknown_item(self, lexical: Collection, id: str) -> None:
        put(lexical, 1, "apple")
        with pytest.raises(SearchError, match="no item"):
            Engine(lexical).item(id)

    def test_vectors_need_the_embedder_they_were_made_by(self, collection: Collection) -> None:
        with pytest.raises(FingerprintMismatch, match="hash:single-7"):
            Engine(collection)
        Engine(collection, rankings=[Ranking.LEXICAL])

    def test_vectors_alone_need_vectors(self, lexical: Collection) -> None:
        with pytest.raises(SearchError, match="no vectors"):
            Engine(lexical, rankings=[Ranking.VECTOR])


class TestPictures:
    def test_opens_as_rgb(self, lexical: Collection) -> None:
        from PIL import Image

        buffer = io.BytesIO()
        Image.new("L", (4, 4), 9).save(buffer, "PNG")
        put(lexical, 1, "apple", image=put_blob(lexical, buffer.getvalue(), ".png"))
        image = Engine(lexical).image(item_id(document_id(1), 1))
        assert (image.mode, image.getpixel((0, 0))) == ("RGB", (9, 9, 9))

    @pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", ".", "a/../../secret.png", ""])
    def test_what_is_no_name_of_a_blob_is_refused(self, lexical: Collection, path: str) -> None:
        picture = put_blob(lexical, b"picture")
        put(lexical, 1, "apple", image=picture)
        with lexical.store.database.write() as connection:
            connection.execute("UPDATE items SET image = ?", (path,))
        with pytest.raises(CollectionError):
            Engine(lexical).image(item_id(document_id(1), 1))

    def test_missing_and_absent_pictures_are_told_apart(self, lexical: Collection) -> None:
        picture = put_blob(lexical, b"picture")
        put(lexical, 1, "apple", image=picture)
        put(lexical, 2, "fig")
        blob_path(lexical, picture).unlink()
        with pytest.raises(CollectionError, match="cannot be opened"):
            Engine(lexical).image(item_id(document_id(1), 1))
        with pytest.raises(SearchError, match="no picture"):
            Engine(lexical).image(item_id(document_id(2), 1))


def wait_for_count(engine: Engine, query: str, count: int) -> int:
    """Search until `count` items are found; older states serve while newer ones load.

    Returns:
        The number of items found last.
    """
    stop = time.monotonic() + 300
    while (found := len(ids(engine, query, 1000))) != count and time.monotonic() < stop:
        time.sleep(0.01)
    return found


def slow_down(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let newer states be loaded once the event is set."""
    monkeypatch.setattr(Engine, "BLINK", 0.05)
    go = threading.Event()
    load: Callable[[object], object] = getattr(engine, "_load")  # noqa: B009 - what is private, slowed down

    def slow(old: object) -> object:
        go.wait(30)
        return load(old)

    monkeypatch.setattr(engine, "_load", slow)
    return go


class TestGrowth:
    @pytest.fixture(autouse=True)
    def wait_for_versions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have queries wait for a newer version, however busy the machine is; `slow_down` ends that."""
        monkeypatch.setattr(Engine, "BLINK", 120.0)

    def test_sees_what_is_added_and_removed(self, collection: Collection) -> None:
        engine = Engine(Collection.open(collection.directory), WordEmbedder())
        put(collection, 1, "apple")
        assert ids(engine, "apple") == [item_id(document_id(1), 1)]
        put(collection, 2, "apple")
        assert len(ids(engine, "apple")) == 2
        forget_document(collection, document_id(1))
        assert ids(engine, "apple") == [item_id(document_id(2), 1)]

    def test_items_count_from_the_moment_the_manifest_refers_to_them(self, lexical: Collection) -> None:
        engine = Engine(lexical)
        put(lexical, 1, "apple old")
        put(lexical, 2, "apple new")
        refer(lexical, 2, path="/1.txt")  # the switch of a changed file
        forget_document(lexical, document_id(1))
        assert ids(engine, "apple") == [item_id(document_id(2), 1)]

    def test_no_word_comes_back_of_a_document_removed_while_the_index_of_words_is_written(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save = LexicalSegment.save

        def save_late(segment: LexicalSegment, directory: Path) -> None:
            monkeypatch.setattr(LexicalSegment, "save", save)
            other = Collection.open(lexical.directory)
            forget_document(other, document_id(1))
            compact(other)
            segment.save(directory)

        put(lexical, 1, "xylophone")
        put(lexical, 2, "apple")
        engine = Engine(lexical)
        monkeypatch.setattr(LexicalSegment, "save", save_late)
        ids(engine, "apple")
        files = [path for path in lexical.directory.rglob("*") if path.is_file()]
        assert [path for path in files if b"xylophone" in path.read_bytes()] == []
        assert ids(engine, "apple xylophone") == [item_id(document_id(2), 1)]

    def test_of_failed_files_nothing_is_found(self, lexical: Collection) -> None:
        put(lexical, 1, "apple", status=DocumentStatus.FAILED)
        assert ids(Engine(lexical), "apple") == []

    def test_of_files_under_way_what_there_is_is_found(self, lexical: Collection) -> None:
        put(lexical, 1, "apple", status=DocumentStatus.PENDING)
        assert len(ids(Engine(lexical), "apple")) == 1

    def test_while_files_are_under_way_not_every_commit_is_followed(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "PATIENCE", 1e9)
        engine = Engine(lexical)
        put(lexical, 1, "apple", status=DocumentStatus.PENDING)
        assert len(ids(engine, "apple")) == 1
        put(lexical, 2, "apple")
        assert len(ids(engine, "apple")) == 1
        monkeypatch.setattr(Engine, "PATIENCE", 0)
        assert len(ids(engine, "apple")) == 2
        monkeypatch.setattr(Engine, "PATIENCE", 1e9)
        refer(lexical, 1)
        put(lexical, 3, "apple")
        assert len(ids(engine, "apple")) == 3, "the add has ended"

    def test_while_files_are_under_way_what_clients_were_told_of_is_followed(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "PATIENCE", 1e9)
        engine = Engine(lexical)
        put(lexical, 1, "apple", status=DocumentStatus.PENDING)
        assert len(ids(engine, "apple")) == 1
        put(lexical, 2, "apple")
        lexical.announced = lexical.version
        assert len(ids(engine, "apple")) == 2

    def test_what_took_the_place_of_what_was_removed_is_found(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "PATIENCE", 1e9)
        engine = Engine(lexical)
        put(lexical, 1, "apple", status=DocumentStatus.PENDING)
        put(lexical, 2, "apple")
        assert len(ids(engine, "apple")) == 2
        forget_document(lexical, document_id(2))
        put(lexical, 3, "apple")
        assert ids(engine, "apple") == [item_id(document_id(number), 1) for number in (1, 3)]

    def test_an_older_state_serves_nothing_that_was_removed(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(lexical)
        put(lexical, 1, "apple")
        put(lexical, 2, "apple")
        assert len(ids(engine, "apple")) == 2
        before = engine.version
        go = slow_down(engine, monkeypatch)
        forget_document(lexical, document_id(2))
        assert ids(engine, "apple") == [item_id(document_id(1), 1)]
        after = engine.version
        assert after != before
        assert engine.version == after
        go.set()

    def test_what_takes_long_to_load_is_loaded_while_the_older_state_serves(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(lexical)
        put(lexical, 1, "apple")
        assert len(ids(engine, "apple")) == 1
        go = slow_down(engine, monkeypatch)
        put(lexical, 2, "apple")
        assert len(ids(engine, "apple")) == 1
        go.set()
        assert wait_for_count(engine, "apple", 2) == 2

    def test_what_clients_were_told_of_while_an_older_state_was_loaded_is_found(
        self, lexical: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = Engine(lexical)
        put(lexical, 1, "apple")
        assert len(ids(engine, "apple")) == 1
        monkeypatch.setattr(Engine, "BLINK", 0.01)
        go, loaded = threading.Event(), threading.Event()
        load: Callable[[object], object] = getattr(engine, "_load")  # noqa: B009 - what is private, slowed down

        def slow(old: object) -> object:
            found = load(old)
            loaded.set()
            go.wait(30)
            return found

        monkeypatch.setattr(engine, "_load", slow)
        put(lexical, 2, "apple")
        assert len(ids(engine, "apple")) == 1
        assert loaded.wait(30)
        put(lexical, 3, "apple")
        lexical.announced = lexical.version
        monkeypatch.setattr(Engine, "BLINK", 30)
        go.set()
        getattr(engine, "_loading").result(30)  # noqa: B009
        assert len(ids(engine, "apple")) == 3

    def test_goes_on_when_its_version_is_compacted_away(self, lexical: Collection) -> None:
        engine = Engine(Collection.open(lexical.directory))
        for number in range(1, 9):
            put(lexical, number, "apple")
        assert len(ids(engine, "apple")) == 8
        compact(lexical)
        assert engine.item(item_id(document_id(3), 1)).text == "apple"
        assert len(ids(engine, "apple")) == 8

    @pytest.mark.slow
    def test_threads_search_while_it_grows(
        self, collection: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "BLINK", 0.01)  # older states serve while newer ones are loaded
        engine = Engine(Collection.open(collection.directory), WordEmbedder())
        put(collection, 1, "apple")
        done = threading.Event()

        def search() -> int:
            least = 1
            while not done.is_set():
                found = len(ids(engine, "apple", 1000))
                assert found >= least, "what was found once stays"
                least = found
            return least

        with ThreadPoolExecutor(3) as pool:
            searches = [pool.submit(search) for _ in range(3)]
            try:
                for number in range(2, 60):
                    put(collection, number, "apple")
            finally:
                done.set()
            assert all(future.result() >= 1 for future in searches)
        assert wait_for_count(engine, "apple", 59) == 59

    def test_works_after_a_move(self, lexical: Collection, tmp_path: Path) -> None:
        put(lexical, 1, "apple")
        ids(Engine(lexical), "apple")
        moved = lexical.directory.rename(tmp_path / "moved é #1")
        assert len(ids(Engine(Collection.open(moved)), "apple")) == 1


class TestCache:
    def test_is_used_and_not_built_again(self, lexical: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
        put(lexical, 1, "apple")
        expected = ids(Engine(lexical), "apple")
        monkeypatch.setattr(LexicalSegment, "build", None)
        assert ids(Engine(lexical), "apple") == expected

    def test_a_damaged_one_is_replaced(self, lexical: Collection) -> None:
        put(lexical, 1, "apple")
        ids(Engine(lexical), "apple")
        for path in lexical.cache_dir.rglob("*"):
            if path.is_file():
                path.write_bytes(b"junk")
        assert len(ids(Engine(lexical), "apple")) == 1
        assert len(ids(Engine(lexical), "apple")) == 1

    def test_compact_keeps_the_current_one_only(self, lexical: Collection) -> None:
        for number in (1, 2):
            put(lexical, number, "apple")
            ids(Engine(lexical), "apple")
        assert len(list(lexical.cache_dir.iterdir())) == 2
        compact(lexical)
        (kept,) = lexical.cache_dir.iterdir()
        modified = kept.stat().st_mtime_ns
        ids(Engine(lexical), "apple")
        assert [path.stat().st_mtime_ns for path in lexical.cache_dir.iterdir()] == [modified]

    def test_old_ones_of_other_contents_go(self, lexical: Collection) -> None:
        put(lexical, 1, "apple")
        ids(Engine(lexical), "apple")
        (old,) = lexical.cache_dir.iterdir()
        os.utime(old, (0, 0))
        put(lexical, 2, "apple")
        ids(Engine(lexical), "apple")
        assert not old.exists()

    def test_is_not_needed(self, lexical: Collection) -> None:
        put(lexical, 1, "apple")
        lexical.cache_dir.write_text("a file stands where the cache should be")
        assert len(ids(Engine(lexical), "apple")) == 1


def test_version_is_that_of_the_content(lexical: Collection, tmp_path: Path) -> None:
    other = Collection.create(tmp_path / "other")
    for target in (lexical, other):
        put(target, 1, "apple")
    assert Engine(lexical).version == Engine(other).version
    assert Engine(lexical).version == lexical.content_version
    put(other, 2, "fig")
    assert Engine(lexical).version != Engine(other).version


def test_version_is_of_what_is_searched(lexical: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """While files are being added, that may be older than what the collection holds."""
    put(lexical, 1, "apple", status=DocumentStatus.PENDING)
    engine = Engine(lexical)
    before = engine.version
    monkeypatch.setattr(Engine, "PATIENCE", 1e9)
    put(lexical, 2, "apple", status=DocumentStatus.PENDING)
    assert (engine.version, len(ids(engine, "apple"))) == (before, 1)
    monkeypatch.setattr(Engine, "PATIENCE", 0)
    assert (engine.version, len(ids(engine, "apple"))) == (lexical.content_version, 2)
    assert engine.version != before
