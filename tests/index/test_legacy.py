"""Indexes of the reference become collections, whatever state they are in."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from corpus.video_files import Film, film_bytes
from fake_conversion import contents
from hypothesis import given
from hypothesis import strategies as st
from old_indexes import STEM, draw, embed, write_faiss, write_node

from vrag.corpus.options import CorpusOptions
from vrag.embed.base import VectorKind
from vrag.errors import CollectionError, FingerprintMismatch
from vrag.index.adopt import ImportReport, import_indexes
from vrag.index.build import add, prune, remove, verify
from vrag.index.entries import Entry
from vrag.index.header import EmbedderMark
from vrag.index.legacy import LARGEST_NODE, read_old_index
from vrag.index.rows import file_rows
from vrag.index.store import Collection
from vrag.search.engine import Engine, Ranking
from vrag.testing import HashEmbedder
from vrag.types import ABSENT, DocumentStatus, Item, ItemKind, Query, TextSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vrag.embed.base import Embedder

OPTIONS = CorpusOptions(ocr=False, workers=1)
SINGLE = HashEmbedder(VectorKind.SINGLE, 16)
MULTI = HashEmbedder(VectorKind.MULTI, 128)
REAL = Path(__file__).parents[3] / "shared" / "data" / "colqwen2-pages"
"""Where real nodes lie beside the repository, if at all."""


def vectors(rows: int, dimension: int = 16, seed: int = 0) -> NDArray[np.float32]:
    made = np.random.default_rng(seed).standard_normal((rows, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def text(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "text", "file_path": f"/far/notes/{number}.txt", "content": f"Note {number}", **fields}


def picture(path: str | Path) -> dict[str, Any]:
    return {"type": "image", "file_path": str(path)}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "collection"


def take(
    target: Path, *paths: Path, files: Path | None = None, embedder: Embedder | None = None
) -> ImportReport:
    return import_indexes(target, paths, OPTIONS, files=files, embedder=embedder)


def stored(target: Path) -> dict[str, tuple[Item, NDArray[np.float64]]]:
    """Items and vectors by the name of their document."""
    collection = Collection.open(target)
    mark = collection.header.embedder
    assert mark is not None
    column = "vector" if mark.kind is VectorKind.SINGLE else "vectors"
    rows = collection.scan(["id", column]).data.to_pylist()
    items = collection.items([row["id"] for row in rows])
    return {items[row["id"]].document_name: (items[row["id"]], np.array(row[column])) for row in rows}


class TestFaiss:
    def test_items_have_the_vectors_names_and_texts_of_the_index(self, tmp_path: Path, target: Path) -> None:
        entries = [
            picture("/far/img/slide_1.jpg"),
            {"type": "video", "file_path": "C:\\videos\\talk.mp4"},
            text(3, uid="squad-3"),
        ]
        made = vectors(3)
        report = take(target, write_faiss(tmp_path / "old", entries, made))
        assert (report.entries, report.without_file, report.duplicates, report.unusable) == (3, 2, 0, ())
        assert report.added.items == 3
        found = stored(target)
        for name, row in (("slide_1.jpg", 0), ("talk.mp4", 1), ("3.txt", 2)):
            assert np.array_equal(found[name][1], made[row]), "float32 as it stood"
        assert [found[name][0].kind for name in ("slide_1.jpg", "talk.mp4", "3.txt")] == [
            ItemKind.PAGE,
            ItemKind.CLIP,
            ItemKind.PASSAGE,
        ]
        note = found["3.txt"][0]
        assert (note.text, note.uid, note.text_source) == ("Note 3", "squad-3", TextSource.FILE)
        assert found["slide_1.jpg"][0].image is None
        assert verify(Collection.open(target)).ok

    def test_pictures_that_are_here_are_converted_as_any(self, tmp_path: Path, target: Path) -> None:
        here = draw(tmp_path / "old" / "img" / "a_1.png", 1)
        elsewhere = draw(tmp_path / "files" / "deep" / "b_2.png", 2)
        entries = [picture(here), picture("/far/img/b_2.png")]
        report = take(target, write_faiss(tmp_path / "old", entries, vectors(2)), files=tmp_path / "files")
        assert report.without_file == 0
        plain = Collection.create(tmp_path / "plain", OPTIONS)
        add(plain, [here, elsewhere])
        collection = Collection.open(target)
        assert collection.items([row["id"] for row in plain.scan(["id"]).data.to_pylist()]).keys()
        for document in collection.documents():
            (item,) = (item for item, _ in stored(target).values() if item.document == document.id)
            assert item == plain.item(item.id), "the same item that indexing the file makes"
            assert collection.image(item).tobytes() == plain.image(item).tobytes()
        assert {document.path for document in collection.documents()} == {str(here), str(elsewhere)}

    def test_a_video_stays_whole(self, tmp_path: Path, target: Path) -> None:
        """The index has one vector of all of it, however long the clips of the collection are."""
        film = tmp_path / "old" / "talk.mp4"
        film.parent.mkdir()
        film.write_bytes(film_bytes(Film(times=range(0, 4000, 100))))
        old = write_faiss(tmp_path / "old", [{"type": "video", "file_path": str(film)}], vectors(1))
        import_indexes(target, [old], replace(OPTIONS, clip_seconds=1.0))
        item, kept = stored(target)["talk.mp4"]
        assert item.clip is not None
        assert (item.kind, item.clip.start) == (ItemKind.CLIP, 0.0)
        assert item.clip.end == pytest.approx(4.0, abs=0.2)
        assert np.array_equal(kept, vectors(1)[0])
        assert [document.status for document in Collection.open(target).documents()] == [DocumentStatus.READY]

    def test_the_folder_that_is_named_is_searched_as_the_reference_lays_it_out(
        self, tmp_path: Path, target: Path
    ) -> None:
        """It runs in its repository: paths begin there, and the index lies beside the pictures."""
        corpus = tmp_path / "search_engine" / "corpus"
        here = draw(corpus / "img" / "a.png", 1)
        old = write_faiss(corpus / "index", [picture("search_engine/corpus/img/a.png")], vectors(1))
        report = take(tmp_path / "without", old)
        assert report.without_file == 1
        assert "--files DIR" in report.notes[0]
        report = take(target, old, files=corpus)
        assert (report.without_file, report.notes) == (0, ())
        assert [document.path for document in Collection.open(target).documents()] == [str(here)]

    def test_of_files_with_one_name_that_with_the_likest_path_is_taken(
        self, tmp_path: Path, target: Path
    ) -> None:
        right = draw(tmp_path / "files" / "report" / "1.png", 1)
        draw(tmp_path / "files" / "other" / "1.png", 2)
        old = write_faiss(tmp_path / "old", [picture("/far/report/1.png")], vectors(1))
        take(target, old, files=tmp_path / "files")
        assert [document.path for document in Collection.open(target).documents()] == [str(right)]

    def test_a_guess_between_files_of_one_name_is_not_made(self, tmp_path: Path, target: Path) -> None:
        for number, folder in enumerate("ab"):
            draw(tmp_path / "files" / folder / "1.png", number)
        old = write_faiss(tmp_path / "old", [picture("/far/c/1.png")], vectors(1))
        assert take(target, old, files=tmp_path / "files").without_file == 1

    def test_what_the_reference_indexed_twice_is_there_once(
        self, tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It knows a file by the path as it was typed: absolute and relative are two to it."""
        monkeypatch.chdir(tmp_path)
        here = draw(tmp_path / "old" / "img" / "a.png", 1)
        twice = vectors(1).repeat(4, axis=0)
        entries = [picture("img/a.png"), picture(here), picture("gone/b.png"), picture("/far/gone/b.png")]
        report = take(target, write_faiss(tmp_path / "old", entries, twice))
        assert (report.added.items, report.duplicates, report.without_file) == (2, 2, 1)

    def test_texts_of_one_file_are_told_apart(self, tmp_path: Path, target: Path) -> None:
        entries = [
            {"type": "text", "file_path": "wiki.txt", "content": "one", "uid": "u1"},
            {"type": "text", "file_path": "wiki.txt", "content": "two", "uid": 2},
            {"type": "text", "file_path": "wiki.txt", "content": "three"},
            {"type": "text", "file_path": "wiki.txt", "content": "four"},
            {"type": "text", "content": "five"},
        ]
        old = write_faiss(tmp_path / "old", entries, vectors(5))
        report = take(target, old)
        assert report.added.items == 5
        ends = ("text", "wiki.txt", "wiki.txt#2", "wiki.txt#3", "wiki.txt#u1")
        assert [document.path for document in Collection.open(target).documents()] == [
            str(old / end) for end in ends
        ]
        assert take(target, old).added.unchanged == 5

    def test_a_vector_that_is_not_finite_costs_itself(self, tmp_path: Path, target: Path) -> None:
        made = vectors(3)
        made[1, 5] = np.nan
        report = take(target, write_faiss(tmp_path / "old", [text(n) for n in range(3)], made))
        assert [problem.reason for problem in report.unusable] == ["Vector 2, of 1.txt, is not finite."]
        assert stored(target).keys() == {"0.txt", "2.txt"}

    @pytest.mark.parametrize(
        "line",
        [
            "{",
            "[]",
            "17",
            '{"type": "image"}',
            '{"type": "image", "file_path": 3}',
            '{"type": "image", "file_path": " "}',
            '{"type": "sound", "file_path": "a.mp3"}',
            '{"type": "text", "file_path": "a.txt"}',
            '{"type": "text", "file_path": "a.txt", "content": null}',
            '{"type": "text", "content": "a", "uid": {}}',
            '{"type": ["text"], "content": "a"}',
            "[" * 100_000,
            '{"a": ' * 100_000,
        ],
        ids=lambda line: line[:30],
    )
    def test_an_entry_that_cannot_be_used_costs_itself(self, tmp_path: Path, target: Path, line: str) -> None:
        old = write_faiss(tmp_path / "old", [text(n) for n in range(3)], vectors(3))
        path = old / f"{STEM}_file_data_list.jsonl"
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], line, lines[2]]))
        report = take(target, old)
        assert stored(target).keys() == {"0.txt", "2.txt"}
        assert np.array_equal(stored(target)["2.txt"][1], vectors(3)[2]), "the others keep their vectors"
        (problem,) = report.unusable
        assert problem.reason.startswith("Line 2: ")

    def test_strange_paths_are_names_and_nothing_else(self, tmp_path: Path, target: Path) -> None:
        strange = ["a\0b.png", "\ud800.png", "../../etc/passwd", "x" * 5000 + ".png", 'it\'s "q" #1.png', "."]
        report = take(target, write_faiss(tmp_path / "old", [picture(p) for p in strange], vectors(6)))
        assert report.added.items == 6
        assert verify(Collection.open(target)).ok
        assert report.without_file == 6

    @pytest.mark.parametrize("lines", [2, 4])
    def test_vectors_and_entries_out_of_step_are_refused(
        self, tmp_path: Path, target: Path, lines: int
    ) -> None:
        old = write_faiss(tmp_path / "old", [text(n) for n in range(lines)], vectors(3))
        with pytest.raises(CollectionError, match=rf"3 vectors and its list {lines} entries.*torn"):
            take(target, old)
        assert not target.exists()

    def test_a_description_that_lags_behind_is_noted(self, tmp_path: Path, target: Path) -> None:
        old = write_faiss(tmp_path / "old", [text(n) for n in range(3)], vectors(3), counted=1)
        assert "says 1" in take(target, old).notes[0]
        assert len(stored(target)) == 3

    @pytest.mark.parametrize("end", ["_faiss_index.bin", "_file_data_list.jsonl", "_meta_data.json"])
    def test_without_one_of_its_files_it_is_refused(self, tmp_path: Path, target: Path, end: str) -> None:
        old = write_faiss(tmp_path / "old", [text(0)], vectors(1))
        (old / f"{STEM}{end}").unlink()
        with pytest.raises(CollectionError, match=r"cannot be read|no index of the reference"):
            take(target, old)

    @pytest.mark.parametrize(
        ("offset", "value"),
        [
            (4, struct.pack("<i", 2**28)),
            (4, struct.pack("<i", -16)),
            (4, struct.pack("<i", 0)),
            (8, struct.pack("<q", 5 * 2**30)),
            (8, struct.pack("<q", -3)),
            (33, struct.pack("<i", 7)),
            (37, struct.pack("<Q", 2**63)),
            (0, b"IwFl"),
        ],
    )
    def test_what_a_header_claims_is_not_believed(
        self, tmp_path: Path, target: Path, offset: int, value: bytes
    ) -> None:
        path = write_faiss(tmp_path / "old", [text(0)], vectors(1)) / f"{STEM}_faiss_index.bin"
        data = bytearray(path.read_bytes())
        data[offset : offset + len(value)] = value
        path.write_bytes(data)
        with pytest.raises(CollectionError, match=r"damaged header|not what the reference writes"):
            take(target, path.parent)

    def test_an_index_cut_short_anywhere_is_refused(self, tmp_path: Path) -> None:
        path = write_faiss(tmp_path / "old", [text(0)], vectors(1)) / f"{STEM}_faiss_index.bin"
        data = path.read_bytes()
        for length in (*range(60), len(data) - 1):
            path.write_bytes(data[:length])
            with pytest.raises(CollectionError):
                read_old_index(path)
        path.write_bytes(data + b"\0")
        with pytest.raises(CollectionError, match="claims"):
            read_old_index(path)

    @pytest.mark.parametrize("meta", ["", "{", "[]", '{"vector_dimension": 17}', "[" * 100_000])
    def test_a_description_that_is_none_is_refused(self, tmp_path: Path, target: Path, meta: str) -> None:
        old = write_faiss(tmp_path / "old", [text(0)], vectors(1))
        (old / f"{STEM}_meta_data.json").write_text(meta)
        with pytest.raises(CollectionError):
            take(target, old)

    def test_an_empty_index_has_nothing_to_import(self, tmp_path: Path, target: Path) -> None:
        with pytest.raises(CollectionError, match="Nothing can be used"):
            take(target, write_faiss(tmp_path / "old", [], vectors(0)))

    def test_of_two_models_in_one_folder_one_is_named(self, tmp_path: Path, target: Path) -> None:
        old = write_faiss(tmp_path / "old", [text(0)], vectors(1))
        write_faiss(old, [text(1)], vectors(1, 8), model="bge-m3")
        with pytest.raises(CollectionError, match="2 models"):
            take(target, old)
        take(target, old / "bge_m3_faiss_index.bin")
        assert stored(target).keys() == {"1.txt"}

    def test_any_list_is_read_or_refused(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        old = write_faiss(tmp_path_factory.mktemp("old"), [text(0)], vectors(1))
        path = old / f"{STEM}_file_data_list.jsonl"

        @given(st.binary(max_size=200) | ANY_JSON.map(json.dumps).map(str.encode))
        def check(data: bytes) -> None:
            path.write_bytes(data)
            try:
                index = read_old_index(old)
            except CollectionError:
                return
            assert len(index.entries) + len(index.problems) == 1

        check()


class TestHostileLists:
    """A list may come from anybody: it names no file but those of its own folder and of the one given."""

    @pytest.fixture
    def old(self, tmp_path: Path) -> Path:
        (tmp_path / "old").mkdir()
        return tmp_path / "old"

    def names(self, target: Path, old: Path, *entries: dict[str, Any], files: Path | None = None) -> int:
        """How many files are found."""
        report = take(target, write_faiss(old, entries, vectors(len(entries))), files=files)
        secrets = [item for item, _ in stored(target).values() if "hunter2" in item.text]
        assert secrets == []
        assert verify(Collection.open(target)).ok
        return len(entries) - report.without_file

    @pytest.mark.parametrize("kind", ["image", "video"])
    @pytest.mark.parametrize("suffix", [".json", ".txt", ".pdf", ".html", ".docx", ""])
    def test_what_is_no_picture_is_none_wherever_it_lies(
        self, old: Path, target: Path, kind: str, suffix: str
    ) -> None:
        secret = old / f"secret{suffix}"
        secret.write_text('{"password": "hunter2"}')
        entries = [{"type": kind, "file_path": path} for path in (str(secret), secret.name)]
        assert self.names(target, old, *entries, files=old) == 0

    def test_kinds_are_not_mistaken_for_each_other(self, old: Path, target: Path) -> None:
        here = draw(old / "a.png", 1)
        (old / "b.mp4").write_bytes(film_bytes(Film(times=range(0, 1000, 100))))
        wrong = [{"type": "video", "file_path": str(here)}, {"type": "image", "file_path": "b.mp4"}]
        assert self.names(target, old, *wrong, files=old) == 0

    @pytest.mark.parametrize(
        "path", ["{0}/home/a.png", "../home/a.png", "x/../../home/a.png", "home/a.png", "./../home/./a.png"]
    )
    def test_pictures_elsewhere_are_not_taken(
        self, tmp_path: Path, old: Path, target: Path, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        draw(tmp_path / "home" / "a.png", 1)
        (tmp_path / "files").mkdir()
        monkeypatch.chdir(tmp_path)
        entry = picture(path.format(tmp_path))
        assert self.names(target, old, entry) == 0
        assert self.names(target, old, entry, files=tmp_path / "files") == 0
        assert self.names(target, old, entry, files=tmp_path / "home") == 1, "but where it is named"

    @pytest.mark.parametrize("kind", ["file", "folder", "chain"])
    def test_links_that_lead_out_are_not_followed(
        self, tmp_path: Path, old: Path, target: Path, kind: str
    ) -> None:
        secret = draw(tmp_path / "home" / "a.png", 1)
        if kind == "file":
            (old / "a.png").symlink_to(secret)
        elif kind == "folder":
            (old / "img").symlink_to(secret.parent)
        else:
            (old / "b.png").symlink_to("../home/a.png")
            (old / "a.png").symlink_to("b.png")
        entries = [picture("a.png"), picture("img/a.png"), picture(old / "img" / "a.png")]
        assert self.names(target, old, *entries, files=old) == 0

    def test_links_within_the_folder_are(self, tmp_path: Path, old: Path, target: Path) -> None:
        draw(old / "img" / "a.png", 1)
        (old / "b.png").symlink_to("img/a.png")
        (tmp_path / "way").symlink_to(old)
        write_faiss(old, [picture("b.png")], vectors(1))
        assert take(target, tmp_path / "way").without_file == 0

    def test_text_under_the_name_of_a_picture_is_not_read(self, old: Path, target: Path) -> None:
        (old / "a.png").write_text("password: hunter2")
        assert self.names(target, old, picture("a.png")) == 1
        (document,) = Collection.open(target).documents()
        assert "not a picture" in document.reason

    def test_an_embedder_is_shown_nothing_from_elsewhere(
        self, tmp_path: Path, old: Path, target: Path
    ) -> None:
        """Even to find out whether it is the one that made the vectors."""
        secret = draw(tmp_path / "home" / "a.png", 1)
        write_faiss(old, [picture(secret), picture("../home/a.png")], vectors(2))
        report = take(target, old, embedder=SINGLE)
        assert "No picture or text is here" in report.notes[-1]


class TestNodes:
    def test_items_have_the_vectors_of_the_nodes(self, tmp_path: Path, target: Path) -> None:
        made = vectors(7, 128), vectors(5, 128, seed=1)
        for number, page in enumerate(made, 1):
            write_node(tmp_path / "nodes", f"search_engine/corpus/img/deck_{number}.jpg", page)
        report = take(target, tmp_path / "nodes")
        assert report.embedder == EmbedderMark("colqwen2", VectorKind.MULTI, 128, report.embedder.fingerprint)
        assert report.embedder.imported
        for number, page in enumerate(made, 1):
            item, kept = stored(target)[f"deck_{number}.jpg"]
            assert np.array_equal(kept, page.astype(np.float16).astype(np.float64)), "to half precision"
            assert (item.name, item.kind) == (f"deck_{number}_1", ItemKind.PAGE)

    def test_a_picture_of_another_size_than_the_node_says_is_not_taken(
        self, tmp_path: Path, target: Path
    ) -> None:
        here = draw(tmp_path / "nodes" / "img" / "a.png", 1)
        write_node(tmp_path / "nodes", str(here), vectors(3, 128), file_size=here.stat().st_size + 1)
        assert take(target, tmp_path / "nodes").without_file == 1
        write_node(tmp_path / "nodes", str(here), vectors(3, 128), file_size=here.stat().st_size)
        assert take(tmp_path / "again", tmp_path / "nodes").without_file == 0

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"embedding": [0.5] * 129}, "not vectors of 128"),
            ({"embedding": []}, "no vectors"),
            ({"embedding": None}, "no vectors"),
            ({"embedding": [float("nan")] * 128}, "not finite"),
            ({"embedding": [1e300] * 128}, "not finite"),
            ({"embedding": [10**400] * 128}, "not finite"),
            ({"embedding": ["0.5"] * 128}, "not a number"),
            ({"embedding": [True] * 128}, "not a number"),
            ({"embedding": [[0.5] * 128] * 128}, "not a number"),
            ({"metadata": None}, "names no file"),
            ({"metadata": {"file_path": 7}}, "names no file"),
        ],
    )
    def test_a_node_that_cannot_be_used_costs_itself(
        self, tmp_path: Path, target: Path, change: dict[str, object], reason: str
    ) -> None:
        write_node(tmp_path / "nodes", "good.jpg", vectors(2, 128))
        bad = write_node(tmp_path / "nodes", "bad.jpg", vectors(2, 128))
        (node,) = json.loads(bad.read_text())
        bad.write_text(json.dumps([node | change]))
        report = take(target, tmp_path / "nodes")
        assert stored(target).keys() == {"good.jpg"}
        assert [(problem.path, reason in problem.reason) for problem in report.unusable] == [(bad, True)]

    def test_a_node_cut_short_anywhere_is_refused(self, tmp_path: Path) -> None:
        path = write_node(tmp_path, "a.jpg", vectors(1, 128))
        data = path.read_bytes()
        for length in range(0, len(data) - 1, 97):
            path.write_bytes(data[:length])
            index = read_old_index(tmp_path)
            assert not index.entries
            assert index.problems

    def test_a_node_of_gigabytes_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "a.node").open("wb") as file:
            file.truncate(5 * 2**30)
        assert f"{LARGEST_NODE:,}" in read_old_index(tmp_path).problems[0].reason

    def test_any_node_is_read_or_refused(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("nodes")
        number = st.floats() | st.integers(-(2**70), 2**70) | st.booleans() | st.none() | st.text(max_size=2)
        node = st.fixed_dictionaries(
            {},
            optional={
                "embedding": st.lists(number, max_size=3).map(lambda some: some * 128) | ANY_JSON,
                "metadata": st.dictionaries(
                    st.sampled_from(["file_path", "file_name", "file_size"]), ANY_JSON
                ),
                "class_name": st.sampled_from(["ImageNode", "TextNode"]) | ANY_JSON,
                "text": ANY_JSON,
            },
        )

        @given(st.lists(node, max_size=3).map(json.dumps).map(str.encode) | st.binary(max_size=100))
        def check(data: bytes) -> None:
            (folder / "a.node").write_bytes(data)
            index = read_old_index(folder)
            assert index.entries or index.problems
            for entry in index.entries:
                assert entry.vector is not None
                assert np.isfinite(entry.vector().astype(np.float16)).all()

        check()

    @pytest.mark.data
    @pytest.mark.skipif(not REAL.is_dir(), reason="the reference's own nodes are not here")
    def test_those_that_the_reference_itself_made(self, target: Path) -> None:
        report = take(target, REAL)
        assert (report.entries, report.unusable) == (2, ())
        pages = np.load(REAL / "pages.npz")
        starts = np.cumsum([0, *pages["lengths"]])
        names = [Path(str(name)).stem for name in pages["names"]]
        for name, (item, kept) in stored(target).items():
            at = names.index(Path(name).stem)
            page = pages["embeddings"][starts[at] : starts[at + 1]]
            assert np.allclose(kept, page, atol=2e-3), name
            assert item.kind is ItemKind.PAGE


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


class TestAgain:
    """A second import of the same index."""

    def test_changes_nothing(self, tmp_path: Path, target: Path) -> None:
        entries = [text(0), picture(draw(tmp_path / "old" / "a.png", 1)), picture("/far/b.png")]
        old = write_faiss(tmp_path / "old", entries, vectors(3))
        take(target, old)
        before = contents(Collection.open(target))
        again = take(target, old)
        assert (again.added.unchanged, again.added.items) == (3, 0)
        assert contents(Collection.open(target)) == before

    def test_gives_items_the_pictures_found_since(self, tmp_path: Path, target: Path) -> None:
        old = write_faiss(tmp_path / "old", [picture("/far/a.png"), picture("/far/b.png")], vectors(2))
        assert take(target, old).without_file == 2
        draw(tmp_path / "files" / "a.png", 1)
        assert take(target, old, files=tmp_path / "files").without_file == 1
        found = stored(target)
        assert len(Collection.open(target).documents()) == 2
        assert found["a.png"][0].image is not None
        assert np.array_equal(found["a.png"][1], vectors(2)[0])
        assert found["b.png"][0].image is None
        take(tmp_path / "clean", old, files=tmp_path / "files")
        assert contents(Collection.open(target)) == contents(Collection.open(tmp_path / "clean"))

    def test_brings_another_index_of_the_same_model_in(self, tmp_path: Path, target: Path) -> None:
        some = write_faiss(tmp_path / "some", [text(0)], vectors(1))
        more = write_faiss(tmp_path / "more", [text(1)], vectors(1, seed=1))
        take(target, some)
        take(target, more)
        take(tmp_path / "both", some, more)
        assert stored(target).keys() == stored(tmp_path / "both").keys() == {"0.txt", "1.txt"}

    def test_refuses_an_index_of_another_model(self, tmp_path: Path, target: Path) -> None:
        take(target, write_faiss(tmp_path / "some", [text(0)], vectors(1)))
        other = write_faiss(tmp_path / "other", [text(1)], vectors(1), model="Alibaba-NLP/GVE-7B")
        with pytest.raises(FingerprintMismatch, match="GVE-7B"):
            take(target, other)
        with pytest.raises(FingerprintMismatch, match="collection each"):
            take(tmp_path / "both", tmp_path / "some", other)
        lexical = Collection.create(tmp_path / "lexical", OPTIONS)
        with pytest.raises(FingerprintMismatch, match="no vectors"):
            take(lexical.directory, other)


class TestUpkeep:
    def test_prune_keeps_what_came_without_a_file(self, tmp_path: Path, target: Path) -> None:
        here = draw(tmp_path / "old" / "a.png", 1)
        old = write_faiss(tmp_path / "old", [picture(here), picture("/far/b.png"), text(2)], vectors(3))
        take(target, old)
        here.unlink()
        for path in old.iterdir():
            path.unlink()
        assert [document.name for document in prune(Collection.open(target)).documents] == ["a.png"]
        assert stored(target).keys() == {"b.png", "2.txt"}

    def test_it_is_removed_by_name(self, tmp_path: Path, target: Path) -> None:
        take(target, write_faiss(tmp_path / "old", [picture("/far/b.png"), text(2)], vectors(2)))
        assert remove(Collection.open(target), ["b.png"]).items == 1
        assert stored(target).keys() == {"2.txt"}

    def test_a_file_that_comes_to_lie_at_its_path_is_new(self, tmp_path: Path, target: Path) -> None:
        late = tmp_path / "old" / "late" / "b.png"
        take(target, write_faiss(tmp_path / "old", [picture(late)], vectors(1, SINGLE.dimension)))
        draw(late, 3)
        take(target, tmp_path / "old")
        (document,) = Collection.open(target).documents()
        assert (document.path, document.mtime_ns != ABSENT, document.items) == (str(late), True, 1)

    def test_a_picture_that_cannot_be_read_costs_itself(self, tmp_path: Path, target: Path) -> None:
        broken = tmp_path / "old" / "broken.png"
        broken.parent.mkdir()
        broken.write_bytes(b"no picture")
        take(target, write_faiss(tmp_path / "old", [picture(broken)], vectors(1)))
        (document,) = Collection.open(target).documents()
        assert document.status is DocumentStatus.PARTIAL
        assert "not a picture" in document.reason
        item, kept = stored(target)["broken.png"]
        assert item.image is None
        assert np.array_equal(kept, vectors(1)[0])
        assert verify(Collection.open(target)).ok

    def test_an_item_without_its_picture_is_made_once(self, tmp_path: Path, target: Path) -> None:
        """Killed between the item and the row of its file, the next run finds the item there."""
        broken = tmp_path / "old" / "broken.png"
        broken.parent.mkdir()
        broken.write_bytes(b"no picture")
        old = write_faiss(tmp_path / "old", [picture(broken)], vectors(1))
        take(target, old)
        collection = Collection.open(target)
        (document,) = collection.documents()
        begun = replace(document, status=DocumentStatus.PENDING, items=0, reason="")
        collection.file_table.upsert(file_rows([(begun, 0)]), "key")
        take(target, old)
        assert collection.scan(["id"]).data.num_rows == 1
        assert collection.documents() == [document]
        assert verify(collection).ok

    def test_frames_after_the_first_have_no_vector_and_say_so(self, tmp_path: Path, target: Path) -> None:
        from PIL import Image

        path = tmp_path / "old" / "scan.tiff"
        path.parent.mkdir()
        frames = [Image.new("L", (32, 32), shade) for shade in (10, 200)]
        frames[0].save(path, save_all=True, append_images=frames[1:])
        take(target, write_faiss(tmp_path / "old", [picture(path)], vectors(1)))
        (document,) = Collection.open(target).documents()
        assert (document.status, document.items) == (DocumentStatus.PARTIAL, 2)
        assert "No. 2: The imported index has a vector of the first item only." in document.reason
        assert len(stored(target)) == 1


class TestEmbedder:
    def make(self, folder: Path, embedder: Embedder = SINGLE, count: int = 5) -> Path:
        paths = [draw(folder / "old" / "img" / f"{n}.png", n) for n in range(count)]
        return write_faiss(folder / "old", list(map(picture, paths)), np.stack(embed(embedder, *paths)))

    def test_the_one_that_made_the_vectors_searches_them(self, tmp_path: Path, target: Path) -> None:
        wide = HashEmbedder(VectorKind.SINGLE, 512)
        report = take(target, self.make(tmp_path, wide), embedder=wide)
        assert report.embedder == EmbedderMark.of(wide)
        assert report.notes == ()
        engine = Engine(Collection.open(target), wide, rankings=[Ranking.VECTOR])
        (hits,) = engine.search([Query("24×18")], 1)
        assert hits[0].document_name == "2.png", "the picture that is 18 high"

    def test_another_one_is_refused_and_nothing_is_made(self, tmp_path: Path, target: Path) -> None:
        old = self.make(tmp_path)
        for wrong in (
            HashEmbedder(VectorKind.SINGLE, 16, seed=1),
            HashEmbedder(VectorKind.SINGLE, 32),
            MULTI,
        ):
            with pytest.raises(FingerprintMismatch, match=r"GVE-3B"):
                take(target, old, embedder=wrong)
            assert not target.exists()

    def test_one_that_makes_slightly_other_vectors_is_noted(self, tmp_path: Path, target: Path) -> None:
        paths = [draw(tmp_path / "old" / f"{n}.png", n) for n in range(5)]
        noise = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
        near = np.stack(embed(SINGLE, *paths)) + 0.25 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        old = write_faiss(tmp_path / "old", list(map(picture, paths)), near)
        assert "slightly other" in take(target, old, embedder=SINGLE).notes[0]

    def test_where_nothing_can_be_compared_it_is_said(self, tmp_path: Path, target: Path) -> None:
        old = write_faiss(tmp_path / "old", [picture("/far/a.png")], vectors(1))
        assert "No picture or text" in take(target, old, embedder=SINGLE).notes[-1]
        assert Collection.open(target).header.embedder == EmbedderMark.of(SINGLE)

    def test_vectors_wait_for_it_and_words_do_not(self, tmp_path: Path, target: Path) -> None:
        entries = [text(n) for n in range(3)]
        made = np.stack([SINGLE.embed_queries([entry["content"]])[0] for entry in entries])
        old = write_faiss(tmp_path / "old", entries, made)
        take(target, old)
        waiting = Collection.open(target)
        assert waiting.header.embedder is not None
        assert waiting.header.embedder.imported
        (hits,) = Engine(waiting, rankings=[Ranking.LEXICAL]).search([Query("note 2")], 1)
        assert hits[0].document_name == "2.txt"
        with pytest.raises(FingerprintMismatch, match=r"index import DIR --embedder MODEL"):
            Engine(waiting, SINGLE)

        report = take(target, old, embedder=SINGLE)
        assert report.added.unchanged == 3
        (hits,) = Engine(Collection.open(target), SINGLE, rankings=[Ranking.VECTOR]).search(
            [Query("note 2")], 1
        )
        assert hits[0].document_name == "2.txt"

    def test_a_bound_collection_takes_more_by_the_same_only(self, tmp_path: Path, target: Path) -> None:
        take(target, self.make(tmp_path), embedder=SINGLE)
        more = write_faiss(tmp_path / "more", [text(1)], vectors(1))
        with pytest.raises(FingerprintMismatch, match="--embedder hash:single-16-0"):
            take(target, more)
        with pytest.raises(FingerprintMismatch, match="not what made"):
            take(target, more, embedder=SINGLE)
        right = np.stack(SINGLE.embed_queries(["Note 1"]))
        assert (
            take(target, write_faiss(tmp_path / "right", [text(1)], right), embedder=SINGLE).added.items == 1
        )

    def test_nodes_are_compared_vector_by_vector(self, tmp_path: Path, target: Path) -> None:
        """The reference's nodes have vectors of the prompt as well: more than an embedder makes of a page."""
        page = draw(tmp_path / "nodes" / "img" / "a.png", 1)
        (made,) = embed(MULTI, page)
        write_node(tmp_path / "nodes", str(page), np.concatenate([vectors(4, 128), made]))
        assert take(target, tmp_path / "nodes", embedder=MULTI).notes == ()
        with pytest.raises(FingerprintMismatch, match="not what made"):
            take(tmp_path / "other", tmp_path / "nodes", embedder=HashEmbedder(VectorKind.MULTI, 128, seed=1))


def test_the_entry_of_a_text_needs_no_path(tmp_path: Path) -> None:
    record: Mapping[str, Any] = {"type": "text", "content": "words", "uid": 7}
    entry = Entry.parse(record, tmp_path)
    assert (entry.name, entry.uid, entry.content) == ("7", "7", "words")


CHILD = """
import sys
from pathlib import Path
from vrag.corpus.options import CorpusOptions
from vrag.index.adopt import import_indexes
from vrag.index.writer import Writer
Writer.ITEMS = Writer.DOCUMENTS = 3
import_indexes(sys.argv[1], [Path(sys.argv[2])], CorpusOptions(ocr=False, workers=1))
"""


@pytest.mark.slow
def test_killed_while_it_imports_it_equals_a_clean_import(tmp_path: Path, target: Path) -> None:
    pictures = [picture(draw(tmp_path / "old" / "img" / f"{n}.png", n)) for n in range(30)]
    missing = [picture(f"/far/missing-{n}.png") for n in range(15)]
    entries = [*pictures, *missing, *(text(n) for n in range(15))]
    old = write_faiss(tmp_path / "old", entries, vectors(len(entries)))
    killed = 0
    for commits in (1, 5, 9, 14):
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(target), str(old)],
            start_new_session=True,
            stderr=subprocess.PIPE,
        )
        if _wait(process, target, commits):
            os.killpg(process.pid, signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        assert process.returncode in {0, -signal.SIGKILL}, error.decode()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 3
    take(target, old)
    take(tmp_path / "clean", old)
    assert contents(Collection.open(target)) == contents(Collection.open(tmp_path / "clean"))
    assert verify(Collection.open(target)).ok
    assert len(stored(target)) == len(entries)


def _wait(process: subprocess.Popen[bytes], target: Path, commits: int) -> bool:
    """Until the items have that many commits; whether the process still runs."""
    versions = target / "index" / "items.lance" / "_versions"
    while process.poll() is None:
        if versions.is_dir() and sum(1 for _ in versions.glob("*.manifest")) >= commits:
            return True
        time.sleep(0.002)
    return False
