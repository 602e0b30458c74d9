"""The seeds' Python names give what they gave, on indexes of ours and of the reference."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from old_indexes import draw, embed, write_faiss, write_node
from PIL import Image

from vrag.compat import SearchEngine
from vrag.embed.embedder import VectorKind
from vrag.embed.registry import full_name
from vrag.errors import CollectionError, CorpusError, EmbedError, FingerprintMismatch, SearchError
from vrag.index.collection import Collection
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where real data lie beside the repository, if at all."""
SINGLE = HashEmbedder(VectorKind.SINGLE, 256)
MULTI = HashEmbedder(VectorKind.MULTI, 128)
"""Pictures are found by their size, as a word: `24×18`."""


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VRAG_OCR", "false")
    monkeypatch.setenv("VRAG_WORKERS", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number in range(1, 6):
        draw(tmp_path / "corpus" / "img" / f"slide_{number}.png", number)
    return tmp_path / "corpus" / "img"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Full names of the embedders that were to be opened; none is."""
    names: list[str] = []

    def load(_: object, spec: str) -> HashEmbedder:
        names.append(full_name(spec))
        return SINGLE

    monkeypatch.setattr("vrag.compat.search_engine.load_embedder", load)
    return names


def size_of(path: Path) -> str:
    with Image.open(path) as image:
        return f"{image.width}×{image.height}"


class TestNewer:
    def test_has_the_signatures_of_the_seeds(self) -> None:
        build = list(inspect.signature(SearchEngine.build_index).parameters.values())[1:]
        names = ["input_dir", "index_output_path", "corpus_output_path", "bs", "save_interval"]
        assert [parameter.name for parameter in build] == names
        assert [parameter.default for parameter in build[3:]] == [2, 512]
        search = list(inspect.signature(SearchEngine.search).parameters.values())[1:]
        assert [(p.name, p.default) for p in search[1:]] == [("top_k", 3), ("search_corpus", None)]

    def test_builds_and_searches_a_folder(self, images: Path) -> None:
        engine = SearchEngine("a model", embedder=SINGLE)
        done = engine.build_index(
            input_dir="corpus/img",
            index_output_path="corpus/image_index",
            corpus_output_path="corpus/image_index",
            bs=16,
        )
        assert done.items == 5
        results = engine.search([size_of(images / "slide_3.png"), "anything"], top_k=2)
        assert [result.keys() for result in results] == [{"score", "indice", "data"}] * 2
        for result in results:
            assert [len(part) for part in result.values()] == [2, 2, 2]
            assert result["score"] == sorted(result["score"], reverse=True)
            assert all(type(score) is float for score in result["score"])
            assert all(type(row) is int for row in result["indice"])
        best = results[0]["data"][0]
        assert best["type"] == "image"
        assert Path(best["file_path"]).name == "slide_3.png"
        with Image.open(best["file_path"]) as found, Image.open(images / "slide_3.png") as given:
            assert found.convert("RGB").tobytes() == given.convert("RGB").tobytes()
        json.dumps(results)

    def test_one_query_may_come_as_it_is(self, images: Path) -> None:
        engine = SearchEngine("a model", embedder=SINGLE)
        engine.build_index("corpus/img", "index")
        assert engine.search("words") == engine.search(["words"], 3, None)
        assert len(engine.search("words", top_k=10**9)[0]["data"]) == 5

    def test_goes_on_where_it_was_and_loads_what_was_built(self, images: Path, tmp_path: Path) -> None:
        SearchEngine("a model", embedder=SINGLE).build_index("corpus/img", "index", "index")
        draw(images / "slide_9.png", 9)
        assert SearchEngine("a model", embedder=SINGLE).build_index("corpus/img", "index", "index").items == 1
        engine = SearchEngine("a model", embedder=SINGLE)
        engine.load_index("index")
        assert len(engine.search("words", top_k=9)[0]["data"]) == 6

    def test_takes_a_list_with_uid(self, images: Path, tmp_path: Path) -> None:
        lines: list[Any] = [
            {"uid": "squad-1", "type": "text", "file_path": "squad", "content": "the ferry runs at noon"},
            {"uid": "squad-2", "type": "text", "file_path": "squad", "content": "a kayak costs four crowns"},
            {"uid": "slide-2", "type": "image", "file_path": str(images / "slide_2.png")},
            {"uid": "gone", "type": "image", "file_path": "nowhere/slide_7.png"},
            {"uid": "odd"},
        ]
        Path("corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        engine = SearchEngine("a model", embedder=SINGLE)
        done = engine.build_index("corpus.jsonl", "index", "index")
        assert (done.items, done.failed, len(done.skipped)) == (3, 1, 1)
        (result,) = engine.search("a kayak costs", top_k=1)
        (entry,) = result["data"]
        assert {name: entry[name] for name in ("type", "uid", "content")} == {
            "type": "text",
            "uid": "squad-2",
            "content": "a kayak costs four crowns",
        }
        assert entry["file_path"] == "squad"
        (result,) = engine.search(size_of(images / "slide_2.png"), top_k=1)
        assert result["data"][0]["uid"] == "slide-2"
        draw(tmp_path / "nowhere" / "slide_7.png", 7)
        again = engine.build_index("corpus.jsonl", "index", "index")
        assert (again.items, again.unchanged) == (1, 3)
        statuses = {d.name: d.status.value for d in Collection.open("index").documents()}
        assert statuses.pop("slide_7.png") == "ready"
        assert set(statuses.values()) == {"ready"}, "nothing is left of the failure"

    def test_searches_several_indexes_together_or_one_by_name(self, images: Path, tmp_path: Path) -> None:
        builder = SearchEngine("a model", embedder=SINGLE)
        builder.build_index("corpus/img", "image_index")
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "a.txt").write_text("the ferry runs at noon")
        builder.build_index("notes", "text_index")
        engine = SearchEngine("a model", embedder=SINGLE)
        engine.load_multi_index_corpus_together(["image_index", "text_index"])
        (result,) = engine.search("the ferry runs at noon", top_k=10)
        assert len(result["data"]) == 6
        assert result["data"][0]["type"] == "text"
        assert len(set(result["indice"])) == 6
        (result,) = engine.search("the ferry runs at noon", 10, "image_index")
        assert {entry["type"] for entry in result["data"]} == {"image"}
        with pytest.raises(SearchError, match="image_index, text_index"):
            engine.search("the ferry", 3, "others")

    def test_a_directory_loaded_twice_is_there_once(self, images: Path) -> None:
        engine = SearchEngine("a model", embedder=SINGLE)
        engine.build_index("corpus/img", "index")
        engine.load_multi_index_corpus_together(["index", "./index"])
        assert len(engine.search("words", top_k=10)[0]["data"]) == 5

    def test_loads_what_the_reference_wrote(self, images: Path, tmp_path: Path) -> None:
        paths = sorted(images.iterdir())
        entries = [{"type": "image", "file_path": str(path)} for path in paths]
        write_faiss(tmp_path / "old", entries, np.stack(embed(SINGLE, *paths)))
        engine = SearchEngine("/models/GVE-3B", files="corpus", embedder=SINGLE)
        before = sorted((tmp_path / "old").iterdir())
        engine.load_index("old")
        (result,) = engine.search(size_of(paths[3]), top_k=5)
        expected = self.by_hand(np.stack(embed(SINGLE, *paths)), size_of(paths[3]))
        names = [Path(entry["file_path"]).name for entry in result["data"]]
        assert names == [paths[row].name for row in expected]
        assert sorted((tmp_path / "old").iterdir()) == before, "nothing is written there"
        (result,) = engine.search("words", 1, "old")
        assert len(result["data"]) == 1

    def by_hand(self, stored: NDArray[np.float32], query: str) -> list[int]:
        scores = stored @ SINGLE.embed_queries([query])[0]
        return np.argsort(-scores).tolist()

    def test_what_the_reference_wrote_is_imported_anew_when_it_changes(
        self, images: Path, tmp_path: Path
    ) -> None:
        paths = sorted(images.iterdir())
        for count in (2, 5, 5):
            entries = [{"type": "image", "file_path": str(path)} for path in paths[:count]]
            write_faiss(tmp_path / "old", entries, np.stack(embed(SINGLE, *paths[:count])))
            engine = SearchEngine("a model", files="corpus", embedder=SINGLE)
            engine.load_index("old")
            assert len(engine.search("words", top_k=10)[0]["data"]) == count
        assert len(list((tmp_path / "cache" / "vrag" / "imported").glob("*/*"))) == 1

    def test_vectors_that_changed_are_those_that_are_searched(self, images: Path, tmp_path: Path) -> None:
        """Though the pictures are still what they were."""
        paths = sorted(images.iterdir())
        entries = [{"type": "image", "file_path": str(path)} for path in paths]
        right = np.stack(embed(SINGLE, *paths))
        noise = np.random.default_rng(0).standard_normal(right.shape).astype(np.float32) / 200
        for vectors in ((right + noise).astype(np.float32), right):
            write_faiss(tmp_path / "old", entries, vectors)
            engine = SearchEngine("a model", files="corpus", embedder=SINGLE)
            engine.load_index("old")
            (result,) = engine.search("24×18", top_k=5)
            scores = sorted((vectors @ SINGLE.embed_queries(["24×18"])[0]).tolist(), reverse=True)
            assert result["score"] == pytest.approx(scores, abs=1e-6)

    def test_another_model_is_refused(self, images: Path, tmp_path: Path) -> None:
        SearchEngine("a model", embedder=SINGLE).build_index("corpus/img", "index")
        paths = sorted(images.iterdir())
        entries = [{"type": "image", "file_path": str(path)} for path in paths]
        write_faiss(tmp_path / "old", entries, np.stack(embed(SINGLE, *paths)))
        strange = HashEmbedder(VectorKind.SINGLE, 256, seed=1)
        other = SearchEngine("another", files="corpus", embedder=strange)
        for directory in ("index", "old"):
            with pytest.raises(FingerprintMismatch):
                other.load_index(directory)
        with pytest.raises(FingerprintMismatch):
            other.build_index("corpus/img", "index")

    def test_what_cannot_be_loaded_changes_nothing_of_what_is(self, images: Path) -> None:
        strange = HashEmbedder(VectorKind.SINGLE, 256, seed=1)
        SearchEngine("another", embedder=strange).build_index("corpus/img", "strange")
        engine = SearchEngine("a model", embedder=SINGLE)
        engine.build_index("corpus/img", "index")
        before = engine.search("words")
        with pytest.raises(FingerprintMismatch):
            engine.load_multi_index_corpus_together(["strange"])
        with pytest.raises(CollectionError):
            engine.load_index("nowhere")
        with pytest.raises(CorpusError, match="nowhere does not exist"):
            engine.build_index("nowhere", "new")
        assert not Path("new").exists()
        assert engine.search("words") == before
        engine.load_multi_index_corpus_together(["index"])
        assert engine.search("words") == before

    def test_files_that_a_list_names_elsewhere_are_not_taken(self, images: Path, tmp_path: Path) -> None:
        Path("lists").mkdir()
        entry = {"type": "image", "file_path": str(images / "slide_1.png")}
        Path("lists/a.jsonl").write_text(json.dumps(entry) + "\n")
        done = SearchEngine("a model", embedder=SINGLE).build_index("lists/a.jsonl", "index")
        assert (done.items, done.failed) == (0, 1)
        engine = SearchEngine("a model", files=str(images), embedder=SINGLE)
        assert engine.build_index("lists/a.jsonl", "index").items == 1

    @pytest.mark.parametrize(
        ("model", "spec"),
        [
            ("Alibaba-NLP/GVE-7B", "gve:Alibaba-NLP/GVE-7B"),
            ("Qwen/Qwen3-VL-Embedding-2B", "qwen3-vl:Qwen/Qwen3-VL-Embedding-2B"),
            ("vidore/colqwen2-v1.0", "sentence:vidore/colqwen2-v1.0"),
            ("bge-m3", "sentence:BAAI/bge-m3"),
            ("remote:m@http://localhost:1", "remote:m@http://localhost:1"),
        ],
    )
    def test_knows_the_models_that_the_seeds_name(self, model: str, spec: str, asked: list[str]) -> None:
        SearchEngine(model)
        assert asked == [spec]

    @pytest.mark.parametrize(
        ("kind", "scheme"), [("qwen2_5_vl", "gve"), ("qwen3_vl", "qwen3-vl"), ("bert", "sentence")]
    )
    def test_tells_a_local_model_by_its_files(
        self, tmp_path: Path, kind: str, scheme: str, asked: list[str]
    ) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": kind}))
        SearchEngine(str(tmp_path / "model"))
        assert asked == [f"{scheme}:{tmp_path / 'model'}"]

    def test_says_what_to_do_first(self, tmp_path: Path) -> None:
        engine = SearchEngine("a model", embedder=SINGLE)
        with pytest.raises(SearchError, match="build_index first"):
            engine.search("words")
        with pytest.raises(CollectionError, match="build_index"):
            engine.load_index("nowhere")
        with pytest.raises(SearchError, match="Name one"):
            SearchEngine()
        with pytest.raises(EmbedError):
            SearchEngine(str(tmp_path / "no-model"))


class TestOlder:
    @pytest.fixture
    def corpus(self, images: Path) -> Path:
        """As the seeds have it: pictures below `img`, nodes whose paths begin in the repository."""
        for path in sorted(images.iterdir()):
            write_node(
                images.parent / "colqwen_ingestion", f"elsewhere/img/{path.name}", embed(MULTI, path)[0]
            )
        return images.parent

    def test_finds_file_names(self, corpus: Path) -> None:
        engine = SearchEngine(
            dataset_dir=str(corpus),
            node_dir_prefix="colqwen_ingestion",
            embed_model_name="vidore/colqwen2-v1.0",
            embedder=MULTI,
        )
        queries = [size_of(corpus / "img" / "slide_4.png"), "anything"]
        found = engine.batch_search(queries)
        assert [len(names) for names in found] == [5, 5]
        assert found[0][0] == "slide_4.png"
        assert set(found[1]) == {f"slide_{n}.png" for n in range(1, 6)}

    def test_ten_names_are_the_most(self, corpus: Path) -> None:
        for number in range(10, 22):
            path = draw(corpus / "img" / f"slide_{number}.png", number)
            write_node(corpus / "colqwen_ingestion", f"img/{path.name}", embed(MULTI, path)[0])
        engine = SearchEngine(dataset_dir=str(corpus), embedder=MULTI)
        assert len(engine.batch_search(["words"])[0]) == 10

    def test_the_folder_may_come_first(self, corpus: Path) -> None:
        """As the reference's own server calls it."""
        engine = SearchEngine(str(corpus), embed_model_name="vidore/colqwen2-v1.0", embedder=MULTI)
        assert len(engine.batch_search(["words"])[0]) == 5

    def test_pictures_that_are_gone_cost_the_picture_alone(self, corpus: Path) -> None:
        (corpus / "img" / "slide_2.png").unlink()
        engine = SearchEngine(dataset_dir=str(corpus), embedder=MULTI)
        assert sorted(engine.batch_search(["words"])[0]) == [f"slide_{n}.png" for n in range(1, 6)]


@pytest.mark.data
@pytest.mark.skipif(not (BESIDE / "colqwen2-pages").is_dir(), reason="the reference's own nodes are not here")
def test_the_reference_nodes_are_searched(tmp_path: Path) -> None:
    engine = SearchEngine(dataset_dir=str(BESIDE), node_dir_prefix="colqwen2-pages", embedder=MULTI)
    assert sorted(engine.batch_search(["words"])[0]) == ["aliyun4_1.jpg", "slide_1_1024.jpg"]
