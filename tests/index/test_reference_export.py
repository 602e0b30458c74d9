"""Collections become indexes that the reference loads: FAISS itself and our own import read them here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from legacy_imports import OPTIONS
from old_indexes import draw
from PIL import Image

from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.reference.index_export import export_index, reference_name
from vrag.index.reference.index_import import import_indexes
from vrag.index.schema import blob_of
from vrag.index.vectors.vector_index import read_vectors
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from vrag.embed.embedder import Embedder

SINGLE = HashEmbedder(VectorKind.SINGLE, 16)
MULTI = HashEmbedder(VectorKind.MULTI, 128)


def build(place: Path, embedder: Embedder | None, *, files: Path | None = None) -> Collection:
    """Two pictures of one name in two folders, and a text."""
    files = files or place.with_name("files")
    draw(files / "a" / "slide.png", 1)
    draw(files / "b" / "slide.png", 2)
    (files / "notes.md").write_text("# Notes\n\nThe ferry leaves at nine.", encoding="utf-8")
    collection = Collection.create(place, OPTIONS, embedder=embedder)
    add(collection, [files], embedder=embedder)
    return collection


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return build(tmp_path / "own", SINGLE)


def vectors_of(collection: Collection) -> list[np.ndarray]:
    """By the paths of documents."""
    documents = dict(collection.store.read_items(["id", "document"]).values)
    by_document = {documents[id]: np.array(each, np.float32) for id, each in read_vectors(collection)}
    return [by_document[document.id] for document in collection.documents()]


def comparable(place: Path) -> list[list[float]]:
    return sorted(vectors.ravel().tolist() for vectors in vectors_of(Collection.open(place)))


def entries_of(directory: Path) -> list[dict[str, Any]]:
    (path,) = directory.glob("*_file_data_list.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class TestFaiss:
    def test_faiss_reads_the_vectors_in_the_order_of_the_list(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        faiss: Any = pytest.importorskip("faiss")
        report = export_index(collection, tmp_path / "out", VectorKind.SINGLE, model="Some-Lab/GVE-3B")
        assert (report.items, report.without_vector) == (3, 0)
        index = faiss.read_index(str(tmp_path / "out" / "Some_Lab_GVE_3B_faiss_index.bin"))
        assert (type(index).__name__, index.d, index.metric_type) == ("IndexFlatIP", 16, 0)
        entries = entries_of(tmp_path / "out")
        assert index.ntotal == len(entries) == 3
        made = index.reconstruct_n(0, 3)
        assert [entry["type"] for entry in entries] == ["image", "image", "text"]
        assert entries[2]["content"].endswith("The ferry leaves at nine.")
        assert made.tolist() == [vectors.ravel().tolist() for vectors in vectors_of(collection)]

    def test_the_description_is_the_references(self, collection: Collection, tmp_path: Path) -> None:
        export_index(collection, tmp_path / "out", VectorKind.SINGLE, model="Some-Lab/GVE-3B")
        described = json.loads((tmp_path / "out" / "Some_Lab_GVE_3B_meta_data.json").read_text())
        date = described.pop("date_created")
        assert described == {"vector_dimension": 16, "num_vectors": 3, "model_name": "Some-Lab/GVE-3B"}
        assert len(date) == len("2026-02-03-04-05-06")

    def test_pictures_lie_beside_it_under_names_of_their_own(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        export_index(collection, tmp_path / "out", VectorKind.SINGLE)
        paths = [Path(entry["file_path"]) for entry in entries_of(tmp_path / "out")]
        pictures = [path for path in paths if path.suffix == ".jpg"]
        assert len(set(pictures)) == 2
        first, second = sorted((path.name for path in pictures), key=len)
        assert first == "slide.jpg"
        assert re.fullmatch(r"slide_[0-9a-f]{16}\.jpg", second)
        for path in pictures:
            with Image.open(path) as image:
                assert image.format == "JPEG"
        assert all(path.is_relative_to(tmp_path / "out" / "media") for path in pictures)

    def test_imported_again_it_has_the_same_vectors_and_texts(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        export_index(collection, tmp_path / "out", VectorKind.SINGLE)
        import_indexes(tmp_path / "again", [tmp_path / "out"], OPTIONS, embedder=None)
        assert comparable(tmp_path / "again") == comparable(tmp_path / "own")

    def test_names_of_models(self) -> None:
        names = ["gve-3b", "gve:Alibaba-NLP/GVE-7B", "Alibaba-NLP/GVE-3B", "gve:/models/GVE-3B"]
        assert list(map(reference_name, names)) == [
            "Alibaba-NLP/GVE-3B",
            "Alibaba-NLP/GVE-7B",
            "Alibaba-NLP/GVE-3B",
            "/models/GVE-3B",
        ]


class TestNodes:
    def test_imported_again_they_have_the_same_vectors(self, tmp_path: Path) -> None:
        build(tmp_path / "own", MULTI)
        report = export_index(Collection.open(tmp_path / "own"), tmp_path / "out", VectorKind.MULTI)
        assert report.items == len(list((tmp_path / "out").glob("*.node"))) == 3
        import_indexes(tmp_path / "again", [tmp_path / "out"], OPTIONS, embedder=None)
        assert comparable(tmp_path / "again") == comparable(tmp_path / "own")

    def test_other_dimensions_do_not_fit(self, tmp_path: Path) -> None:
        collection = build(tmp_path / "own", HashEmbedder(VectorKind.MULTI, 64))
        with pytest.raises(CollectionError, match="have 64 numbers; nodes hold vectors of 128"):
            export_index(collection, tmp_path / "out", VectorKind.MULTI)


class TestRefusals:
    def test_a_collection_without_vectors(self, tmp_path: Path) -> None:
        collection = build(tmp_path / "own", None)
        with pytest.raises(CollectionError, match="has no vectors") as raised:
            export_index(collection, tmp_path / "out", VectorKind.SINGLE)
        assert "--embedder" in raised.value.hint
        assert not (tmp_path / "out").exists()

    def test_the_wrong_kind_names_the_right_one(self, collection: Collection, tmp_path: Path) -> None:
        with pytest.raises(CollectionError, match="one vector") as raised:
            export_index(collection, tmp_path / "out", VectorKind.MULTI)
        assert "--faiss" in raised.value.hint
        with pytest.raises(CollectionError, match="many vectors"):
            export_index(build(tmp_path / "multi", MULTI), tmp_path / "out", VectorKind.SINGLE)

    def test_what_exists_stays_unless_it_is_to_be_replaced(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        export_index(collection, tmp_path / "out", VectorKind.SINGLE, model="a")
        with pytest.raises(CollectionError, match="exists"):
            export_index(collection, tmp_path / "out", VectorKind.SINGLE, model="b")
        assert (tmp_path / "out" / "a_meta_data.json").is_file()
        export_index(collection, tmp_path / "out", VectorKind.SINGLE, model="b", replace=True)
        assert not (tmp_path / "out" / "a_meta_data.json").exists()
        assert (tmp_path / "out" / "b_meta_data.json").is_file()

    def test_folders_of_other_things_are_never_replaced(self, collection: Collection, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.doc").write_text("my only copy")
        with pytest.raises(CollectionError, match=r"files that are not of an index \(thesis\.doc\)"):
            export_index(collection, tmp_path / "out", VectorKind.SINGLE, replace=True)
        (tmp_path / "photos" / "media").mkdir(parents=True)
        (tmp_path / "photos" / "media" / "only.jpg").write_text("my only copy")
        with pytest.raises(CollectionError, match=r"files that are not of an index \(media\)"):
            export_index(collection, tmp_path / "photos", VectorKind.SINGLE, replace=True)
        (tmp_path / "file").write_text("a file")
        with pytest.raises(CollectionError, match="not a directory"):
            export_index(collection, tmp_path / "file", VectorKind.SINGLE, replace=True)

    @pytest.mark.parametrize("embedder", [SINGLE, MULTI])
    def test_foreign_files_beside_the_exported_media_are_never_deleted(
        self, tmp_path: Path, embedder: HashEmbedder
    ) -> None:
        collection, out = build(tmp_path / "own", embedder), tmp_path / "out"
        export_index(collection, out, embedder.kind)
        export_index(collection, out, embedder.kind, replace=True)
        (out / "media" / "only.jpg").write_text("my only copy")
        with pytest.raises(CollectionError, match=r"does not list \(only\.jpg\)"):
            export_index(collection, out, embedder.kind, replace=True)
        assert (out / "media" / "only.jpg").read_text() == "my only copy"

    def test_a_missing_picture_is_an_error_and_leaves_nothing(
        self, collection: Collection, tmp_path: Path
    ) -> None:
        names = collection.store.read_items(["image"], "image IS NOT NULL").column("image")
        collection.store.blobs.delete(map(blob_of, names))
        with pytest.raises(CollectionError, match="missing"):
            export_index(collection, tmp_path / "out", VectorKind.SINGLE)
        assert {path.name for path in tmp_path.glob("*out*")} <= {".out.lock"}


KILLED = """
import os, sys
from pathlib import Path
from vrag import atomic_io
from vrag.embed.embedder import VectorKind
from vrag.index.collection import Collection
from vrag.index.reference import index_export
atomic_io.replace_directory = lambda *_: os._exit(9)
index_export.export_index(Collection.open(sys.argv[1]), Path(sys.argv[2]), VectorKind.SINGLE, replace=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("existing", [False, True])
def test_killed_before_the_end_it_leaves_what_was_there(
    collection: Collection, tmp_path: Path, existing: bool
) -> None:
    out = tmp_path / "out"
    if existing:
        export_index(collection, out, VectorKind.SINGLE, model="before")
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "own", out], check=False)
    assert done.returncode == 9
    assert out.exists() == existing
    if existing:
        assert (out / "before_meta_data.json").is_file()
    export_index(collection, out, VectorKind.SINGLE, model="after", replace=True)
    assert (out / "after_meta_data.json").is_file()
    assert [path.name for path in tmp_path.glob(".out*")] == [".out.lock"]


WAITING = """
import sys
from pathlib import Path
from vrag import atomic_io
from vrag.embed.embedder import VectorKind
from vrag.index.collection import Collection
from vrag.index.reference import index_export
from vrag.index.schema import blob_of
from vrag.index.vectors.vector_index import read_vectors
place = atomic_io.replace_directory
def wait(written, target):
    print("written", flush=True)
    sys.stdin.read()
    place(written, target)
atomic_io.replace_directory = wait
index_export.export_index(Collection.open(sys.argv[1]), Path(sys.argv[2]), VectorKind.SINGLE, model="first")
"""


@pytest.mark.slow
def test_an_export_to_a_target_that_another_process_writes_is_refused(
    collection: Collection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, tmp_path / "own", out], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"written\n"
        with pytest.raises(CollectionError, match="Another export"):
            export_index(collection, out, VectorKind.SINGLE, model="second")
        other.stdin.close()
        assert other.wait(60) == 0
    assert (out / "first_meta_data.json").is_file()
