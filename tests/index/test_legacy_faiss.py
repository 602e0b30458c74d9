"""FAISS indexes of the reference become collections, whatever state they are in."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from corpus.video_files import Film, film_bytes
from hypothesis import given
from hypothesis import strategies as st
from legacy_imports import ANY_JSON, OPTIONS, picture, stored, take, text, vectors
from old_indexes import STEM, draw, write_faiss
from stored_items import location_of

from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.reference.index_files import read_index
from vrag.index.reference.index_import import import_indexes
from vrag.types import DocumentStatus, ItemKind, TextSource

if TYPE_CHECKING:
    from pathlib import Path


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
        assert verify(location_of(Collection.open(target))).ok

    def test_where_a_collection_is_expected_the_hint_names_the_import(self, tmp_path: Path) -> None:
        old = write_faiss(tmp_path / "old", [text(1)], vectors(1))

        with pytest.raises(CollectionError) as missing:
            Collection.open(old)
        with pytest.raises(CollectionError) as taken:
            Collection.create(old, OPTIONS)

        hint = f"It holds an index of the reference: vrag index import {old} --collection DIR"
        assert missing.value.hint == taken.value.hint == hint

    def test_pictures_that_are_here_are_converted_as_any(self, tmp_path: Path, target: Path) -> None:
        here = draw(tmp_path / "old" / "img" / "a_1.png", 1)
        elsewhere = draw(tmp_path / "files" / "deep" / "b_2.png", 2)
        entries = [picture(here), picture("/far/img/b_2.png")]
        report = take(target, write_faiss(tmp_path / "old", entries, vectors(2)), files=tmp_path / "files")
        assert report.without_file == 0
        plain = Collection.create(tmp_path / "plain", OPTIONS)
        add(plain, [here, elsewhere])
        collection = Collection.open(target)
        assert collection.items([row["id"] for row in plain.store.read_items(["id"]).records()]).keys()
        for document in collection.documents():
            (item,) = (item for item, _ in stored(target).values() if item.document == document.id)
            assert item == plain.item(item.id), "the same item that indexing the file makes"
            assert collection.image(item.id).tobytes() == plain.image(item.id).tobytes()
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
        assert verify(location_of(Collection.open(target))).ok
        assert report.without_file == 6

    @pytest.mark.parametrize("lines", [2, 4])
    def test_vectors_and_entries_out_of_step_are_refused(
        self, tmp_path: Path, target: Path, lines: int
    ) -> None:
        old = write_faiss(tmp_path / "old", [text(n) for n in range(lines)], vectors(3))
        with pytest.raises(CollectionError, match=rf"3 vectors and its list {lines} entries.*incompletely"):
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
        with pytest.raises(CollectionError, match=r"damaged header|not a flat FAISS index"):
            take(target, path.parent)

    def test_an_index_cut_short_anywhere_is_refused(self, tmp_path: Path) -> None:
        path = write_faiss(tmp_path / "old", [text(0)], vectors(1)) / f"{STEM}_faiss_index.bin"
        data = path.read_bytes()
        for length in (*range(60), len(data) - 1):
            path.write_bytes(data[:length])
            with pytest.raises(CollectionError):
                read_index(path)
        path.write_bytes(data + b"\0")
        with pytest.raises(CollectionError, match="claims"):
            read_index(path)

    @pytest.mark.parametrize("meta", ["", "{", "[]", '{"vector_dimension": 17}', "[" * 100_000])
    def test_a_description_that_is_none_is_refused(self, tmp_path: Path, target: Path, meta: str) -> None:
        old = write_faiss(tmp_path / "old", [text(0)], vectors(1))
        (old / f"{STEM}_meta_data.json").write_text(meta)
        with pytest.raises(CollectionError):
            take(target, old)

    def test_an_empty_index_has_nothing_to_import(self, tmp_path: Path, target: Path) -> None:
        with pytest.raises(CollectionError, match="Nothing in the index can be used"):
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
                index = read_index(old)
            except CollectionError:
                return
            assert len(index.entries) + len(index.problems) == 1

        check()
