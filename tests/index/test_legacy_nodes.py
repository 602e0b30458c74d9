"""Nodes of the reference become collections; lists that mean harm do none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus.video_files import Film, film_bytes
from hypothesis import given
from hypothesis import strategies as st
from legacy_imports import ANY_JSON, SINGLE, picture, stored, take, vectors
from old_indexes import draw, write_faiss, write_node
from stored_items import location_of

from vrag.embed.embedder import VectorKind
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import EmbedderRecord
from vrag.index.reference.index_files import MAX_NODE_BYTES, read_index
from vrag.types import ItemKind

REAL = Path(__file__).parents[3] / "shared" / "data" / "colqwen2-pages"
"""Where real nodes lie beside the repository, if at all."""


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
        assert verify(location_of(Collection.open(target))).ok
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
        assert report.embedder == EmbedderRecord(
            "colqwen2", VectorKind.MULTI, 128, report.embedder.fingerprint
        )
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
            index = read_index(tmp_path)
            assert not index.entries
            assert index.problems

    def test_a_node_of_gigabytes_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "a.node").open("wb") as file:
            file.truncate(5 * 2**30)
        assert f"{MAX_NODE_BYTES:,}" in read_index(tmp_path).problems[0].reason

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
            index = read_index(folder)
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
