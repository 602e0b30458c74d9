"""Qdrant in its client's local mode, which searches exactly, against our own scores."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from stored_items import count_items

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError, FingerprintMismatch, MissingExtra, SearchError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import remove
from vrag.index.remote.qdrant import QdrantStore, is_qdrant
from vrag.search.engine import Engine, Ranking
from vrag.search.qdrant import QdrantSearcher
from vrag.testing import HashEmbedder
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.types import Hit

WORDS = "apple pear plum cherry berry quince melon grape lemon orange fig date".split()


@pytest.fixture
def client() -> Any:  # noqa: ANN401
    lib: Any = importlib.import_module("qdrant_client")
    return lib.QdrantClient(":memory:")


@pytest.fixture(scope="module", params=list(VectorKind))
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, HashEmbedder]:
    """A folder with files and their collection, made once."""
    home = tmp_path_factory.mktemp("built")
    (home / "files").mkdir()
    chance = np.random.default_rng(5)
    for number in range(6):
        paragraphs = [" ".join(chance.choice(WORDS, 12)) for _ in range(8)]
        (home / "files" / f"{number}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    embedder = HashEmbedder(request.param, 16)
    options = CorpusOptions(ocr="never", workers=1, passage_chars=100)
    collection = Collection.create(home / "collection", options, embedder=embedder)
    add(collection, [home / "files"], embedder=embedder)
    return home, embedder


@pytest.fixture
def embedder(built: tuple[Path, HashEmbedder]) -> HashEmbedder:
    return built[1]


@pytest.fixture
def folder(built: tuple[Path, HashEmbedder]) -> Path:
    return built[0] / "files"


@pytest.fixture
def collection(built: tuple[Path, HashEmbedder], tmp_path: Path) -> Collection:
    shutil.copytree(built[0] / "collection", tmp_path / "collection")
    return Collection.open(tmp_path / "collection")


@pytest.fixture
def store(client: Any, collection: Collection) -> QdrantStore:  # noqa: ANN401
    store = QdrantStore(client, "fruit", indexed=False)
    store.push(collection)
    return store


def same(ours: Sequence[Sequence[Hit]], theirs: Sequence[Sequence[Hit]]) -> None:
    """The same hits, the scores within rounding."""
    for mine, yours in zip(ours, theirs, strict=True):
        assert [hit.score for hit in mine] == pytest.approx([hit.score for hit in yours], abs=2e-3)
        assert {hit.item for hit in mine} == {hit.item for hit in yours}
        assert [(hit.rank, hit.document_name) for hit in mine][:1] == [
            (hit.rank, hit.document_name) for hit in yours
        ][:1]


def queries(collection: Collection) -> list[Query]:
    some = frozenset(document.id for document in collection.documents()[:2])
    return [
        Query("apple pear"),
        Query("quince melon", documents=some),
        Query("fig", kinds=frozenset({ItemKind.PASSAGE})),
        Query("date", kinds=frozenset({ItemKind.PAGE})),
        Query("date", documents=frozenset()),
    ]


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
@pytest.mark.parametrize("exact", [True, False])
def test_what_is_found_is_what_exact_search_finds(
    exact: bool, store: QdrantStore, collection: Collection, embedder: HashEmbedder
) -> None:
    ours = Engine(collection, embedder, rankings=[Ranking.VECTOR]).search(queries(collection), 5)
    searcher = QdrantSearcher(store, collection, embedder, exact=exact)
    theirs = searcher.search(queries(collection), 5)
    same(theirs, ours)
    assert [len(hits) for hits in theirs] == [5, 5, 5, 0, 0]
    best = theirs[0][0]
    assert searcher.item(best.item) == collection.item(best.item)
    assert searcher.version == collection.content_version


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
def test_lexical_search_is_fused_as_the_engine_does(
    store: QdrantStore, collection: Collection, embedder: HashEmbedder
) -> None:
    words = Engine(collection, rankings=[Ranking.LEXICAL])
    searcher = QdrantSearcher(store, collection, embedder, lexical=words, exact=True)
    ours = Engine(collection, embedder).search([Query("apple pear")], 5)
    theirs = searcher.search([Query("apple pear")], 5)
    assert [hit.item for hit in theirs[0]] == [hit.item for hit in ours[0]]
    assert [hit.score for hit in theirs[0]] == pytest.approx([hit.score for hit in ours[0]])


def test_a_second_push_sends_only_what_is_missing_and_deletes_what_is_gone(
    store: QdrantStore, collection: Collection, folder: Path, tmp_path: Path, embedder: HashEmbedder
) -> None:
    before = store.push(collection)
    items = count_items(collection)
    assert (before.uploaded, before.present, before.deleted, before.without) == (0, items, 0, 0)
    remove(collection, [folder / "0.txt"])
    (tmp_path / "new.txt").write_text("mulberry " * 5)
    add(collection, [tmp_path / "new.txt"], embedder=embedder)
    after = store.push(collection)
    left = count_items(collection)
    assert (after.uploaded, after.present, after.deleted) == (1, left - 1, items - left + 1)
    found = QdrantSearcher(store, collection, embedder).search([Query("mulberry")], 1)
    assert found[0][0].document_name == "new.txt"


def test_a_push_that_was_stopped_goes_on(
    client: Any,  # noqa: ANN401
    collection: Collection,
    embedder: HashEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vrag.index.remote.qdrant._NUMBERS", 200)
    store = QdrantStore(client, "fruit", indexed=False)
    told: list[int] = []

    def stop(done: int, _of: int) -> None:
        told.append(done)
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.push(collection, stop)
    with pytest.raises(CollectionError, match="another state"):
        QdrantSearcher(store, collection, embedder)
    report = store.push(collection)
    assert report.present > 0
    assert report.uploaded > 0
    assert report.present + report.uploaded == count_items(collection)
    assert QdrantSearcher(store, collection, embedder).search([Query("apple")], 3)[0]


def test_items_that_are_gone_are_not_shown_while_qdrant_still_has_them(
    store: QdrantStore, collection: Collection, folder: Path, embedder: HashEmbedder
) -> None:
    searcher = QdrantSearcher(store, collection, embedder)
    for name in ("1.txt", "2.txt", "3.txt", "4.txt"):
        remove(collection, [folder / name])
    (hits,) = searcher.search([Query("apple pear")], 5)
    assert {hit.document_name for hit in hits} <= {"0.txt", "5.txt"}
    assert len(hits) == 5
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]


def test_points_of_another_embedder_are_refused(
    client: Any,  # noqa: ANN401
    store: QdrantStore,
    collection: Collection,
    tmp_path: Path,
    folder: Path,
    embedder: HashEmbedder,
) -> None:
    other = HashEmbedder(embedder.kind, 16, seed=1)
    with pytest.raises(FingerprintMismatch):
        QdrantSearcher(store, collection, other)
    another = Collection.create(tmp_path / "another", embedder=other)
    with pytest.raises(FingerprintMismatch, match="another name"):
        store.push(another)
    with pytest.raises(FingerprintMismatch):
        QdrantSearcher(store, another, other)


def test_another_state_of_the_collection_is_refused(
    store: QdrantStore, collection: Collection, folder: Path, embedder: HashEmbedder
) -> None:
    remove(collection, [folder / "0.txt"])
    with pytest.raises(CollectionError, match=r"another state.*vrag index publish qdrant"):
        QdrantSearcher(store, collection, embedder)


def test_a_collection_that_is_not_ours_is_left_alone(
    client: Any,  # noqa: ANN401
    collection: Collection,
    embedder: HashEmbedder,
) -> None:
    models: Any = importlib.import_module("qdrant_client.models")
    client.create_collection(
        "theirs", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT)
    )
    client.upsert("theirs", points=[models.PointStruct(id=1, vector=[1, 0, 0, 0], payload={"x": 1})])
    store = QdrantStore(client, "theirs", indexed=False)
    with pytest.raises(CollectionError, match="does not belong to vrag"):
        store.push(collection)
    with pytest.raises(CollectionError, match="has no collection"):
        QdrantSearcher(QdrantStore(client, "nothing", indexed=False), collection, embedder)
    assert client.count("theirs").count == 1


def test_points_outlive_the_process(collection: Collection, embedder: HashEmbedder, tmp_path: Path) -> None:
    lib: Any = importlib.import_module("qdrant_client")
    for _ in range(2):
        client = lib.QdrantClient(path=str(tmp_path / "qdrant"))
        store = QdrantStore(client, "fruit", indexed=False)
        store.push(collection)
        assert QdrantSearcher(store, collection, embedder).search([Query("apple")], 3)[0]
        client.close()


def test_what_cannot_be_asked_is_refused(
    store: QdrantStore, collection: Collection, embedder: HashEmbedder
) -> None:
    searcher = QdrantSearcher(store, collection, embedder)
    assert searcher.search([], 5) == []
    for bad, top_k in ((Query(" "), 5), (Query("a"), 0), (Query("a"), 1001)):
        with pytest.raises(SearchError):
            searcher.search([bad], top_k)


def test_a_collection_without_vectors_cannot_be_pushed(
    client: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    with pytest.raises(CollectionError, match="holds no vectors"):
        QdrantStore(client, "fruit").push(Collection.create(tmp_path / "plain"))


def test_a_server_that_cannot_be_reached_is_told(collection: Collection) -> None:
    with pytest.raises(CollectionError, match=r"cannot be used.*Check that the server is running"):
        QdrantStore.at("qdrant://127.0.0.1:9/fruit").push(collection)


@pytest.mark.parametrize(
    "address", ["qdrant://host", "qdrant:///x", "http://h/x", "qdrant://h/a/b", "qdrant://h/a?x"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    assert not is_qdrant(address)
    with pytest.raises(CollectionError, match="not a collection in Qdrant"):
        QdrantStore.at(address)


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingExtra, match=r"vrag-agent\[qdrant\]"):
        QdrantStore.at("qdrant://localhost:6333/x")
