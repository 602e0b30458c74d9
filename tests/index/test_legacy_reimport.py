"""What was imported is imported again, looked after, bound to its embedder, and survives a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fake_conversion import contents
from legacy_imports import OPTIONS, SINGLE, picture, stored, take, text, vectors
from old_indexes import draw, embed, write_faiss, write_node
from stored_items import count_items, location_of, put_files

from vrag.embed.embedder import VectorKind
from vrag.errors import FingerprintMismatch
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import EmbedderRecord
from vrag.index.maintenance import prune, remove
from vrag.index.reference.entry_list import ListEntry
from vrag.index.store import DATABASE
from vrag.search.engine import Engine, Ranking
from vrag.testing import HashEmbedder
from vrag.types import ABSENT, DocumentStatus, Query

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vrag.embed.embedder import Embedder

MULTI = HashEmbedder(VectorKind.MULTI, 128)


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
        with pytest.raises(FingerprintMismatch, match="its own collection"):
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
        assert verify(location_of(Collection.open(target))).ok

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
        put_files(collection, [(begun, 0)])
        take(target, old)
        assert count_items(collection) == 1
        assert collection.documents() == [document]
        assert verify(location_of(collection)).ok

    def test_frames_after_the_first_have_no_vector_and_say_so(self, tmp_path: Path, target: Path) -> None:
        from PIL import Image

        path = tmp_path / "old" / "scan.tiff"
        path.parent.mkdir()
        frames = [Image.new("L", (32, 32), shade) for shade in (10, 200)]
        frames[0].save(path, save_all=True, append_images=frames[1:])
        take(target, write_faiss(tmp_path / "old", [picture(path)], vectors(1)))
        (document,) = Collection.open(target).documents()
        assert (document.status, document.items) == (DocumentStatus.PARTIAL, 2)
        assert "Page 2: The imported index has a vector of the first item only." in document.reason
        assert len(stored(target)) == 1


class TestEmbedder:
    def make(self, folder: Path, embedder: Embedder = SINGLE, count: int = 5) -> Path:
        paths = [draw(folder / "old" / "img" / f"{n}.png", n) for n in range(count)]
        return write_faiss(folder / "old", list(map(picture, paths)), np.stack(embed(embedder, *paths)))

    def test_the_one_that_made_the_vectors_searches_them(self, tmp_path: Path, target: Path) -> None:
        wide = HashEmbedder(VectorKind.SINGLE, 512)
        report = take(target, self.make(tmp_path, wide), embedder=wide)
        assert report.embedder == EmbedderRecord.of(wide)
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
        assert Collection.open(target).header.embedder == EmbedderRecord.of(SINGLE)

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
        with pytest.raises(FingerprintMismatch, match="did not make"):
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
        with pytest.raises(FingerprintMismatch, match="did not make"):
            take(tmp_path / "other", tmp_path / "nodes", embedder=HashEmbedder(VectorKind.MULTI, 128, seed=1))


def test_the_entry_of_a_text_needs_no_path(tmp_path: Path) -> None:
    record: Mapping[str, Any] = {"type": "text", "content": "words", "uid": 7}
    entry = ListEntry.parse(record, tmp_path)
    assert (entry.name, entry.uid, entry.content) == ("7", "7", "words")


CHILD = """
import sys
from pathlib import Path
from vrag.corpus.converter import CorpusOptions
from vrag.index.reference.index_import import import_indexes
from vrag.index.manifest import Writer
Writer.ITEMS = Writer.DOCUMENTS = 3
import_indexes(sys.argv[1], [Path(sys.argv[2])], CorpusOptions(ocr="never", workers=1))
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
    assert verify(location_of(Collection.open(target))).ok
    assert len(stored(target)) == len(entries)


def _wait(process: subprocess.Popen[bytes], target: Path, commits: int) -> bool:
    """Until the collection has that many commits; whether the process still runs."""
    while process.poll() is None:
        if (target / DATABASE).exists():
            with closing(Collection.open(target)) as collection:
                if collection.version >= commits:
                    return True
        time.sleep(0.002)
    return False
