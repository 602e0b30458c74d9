from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.index.lexical import lexical_index
from vrag.index.lexical.lexical_index import (
    LexicalDocument,
    LexicalEntry,
    LexicalIndex,
    compact_segments,
    open_lexical,
)
from vrag.index.lexical.segment import LexicalSegment, SegmentDocument, SegmentSource
from vrag.storage import array_cache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

WORDS = ["report", "reports", "the", "revenue", "profit", "2023", "10.5", "年", "营业收入", "café"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=4)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "rename", "reopen", "compact", "forget"]),
        st.integers(0, 5),
        TEXTS,
    ),
    min_size=1,
    max_size=12,
)
QUERIES = ("revenue report of 2023", "营业收入", "profit", "unknown word", "the")


@dataclass
class Library:
    """Documents that change, and their index in a folder."""

    home: Path
    documents: dict[str, tuple[str, list[str]]] = field(default_factory=dict[str, tuple[str, list[str]]])
    """Name and texts by id."""
    segments: list[LexicalSegment] = field(default_factory=list[LexicalSegment])
    """Those that are open."""
    counted: list[str] = field(default_factory=list[str])
    """Documents that were read, in all."""
    removed: frozenset[str] = frozenset()
    """Documents that are removed while the index is opened."""

    @property
    def entries(self) -> list[LexicalEntry]:
        """All items in the order of their ids."""
        return [
            LexicalEntry(f"{id}-{at}", id, name, text)
            for id, (name, texts) in sorted(self.documents.items())
            for at, text in enumerate(texts)
        ]

    def contents(self) -> dict[str, LexicalDocument]:
        """The documents as they are searched."""
        row, found = 0, dict[str, LexicalDocument]()
        for id, (name, texts) in sorted(self.documents.items()):
            rows = np.arange(row, row + len(texts), dtype=np.int32)
            found[id] = LexicalDocument(SegmentDocument(id, repr((name, texts)), len(texts)), rows)
            row += len(texts)
        return found

    def open(self) -> LexicalIndex:
        """Open the index."""
        contents = self.contents()

        def read(missing: AbstractSet[str]) -> Iterable[SegmentSource]:
            self.counted += sorted(missing)
            for id in sorted(missing):
                name, texts = self.documents[id]
                yield SegmentSource(contents[id].content, name, texts)

        ids = [entry.id for entry in self.entries]
        index = open_lexical(self.home, ids, contents, read, self.segments, lambda: self.removed)
        assert index is not None
        self.segments = index.segments
        return index


def segment_of(*texts: str) -> LexicalSegment:
    """A segment of one document."""
    document = SegmentSource(SegmentDocument("d", "h", len(texts)), "d.pdf", texts)
    return LexicalSegment.build([document])


@settings(max_examples=60)
@given(CHANGES)
def test_after_any_history_all_is_as_in_one_clean_index(
    changes: list[tuple[str, int, list[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical_index, "MIN_SEGMENT_ITEMS", 2)
        library = Library(Path(folder) / "cache")
        for kind, number, texts in changes:
            id = f"d{number}"
            if kind == "add":
                library.documents[id] = f"{id} profit.pdf", texts
            elif kind == "remove":
                library.documents.pop(id, None)
            elif kind == "rename" and id in library.documents:
                library.documents[id] = f"revenue {number}.pdf", library.documents[id][1]
            elif kind == "reopen":
                library.segments = []
            elif kind == "compact":
                compact_segments(library.home, library.contents())
            elif kind == "forget":
                shutil.rmtree(library.home, ignore_errors=True)
            index, clean = library.open(), LexicalIndex.build(library.entries)
            for query in QUERIES:
                assert index.scores(query).tolist() == clean.scores(query).tolist()
                assert index.search(query, 3) == clean.search(query, 3)
                assert index.rows_with(query).tolist() == clean.rows_with(query).tolist()
                assert str(index.statistics(query)) == str(clean.statistics(query))
                counted = np.array([entry.document != "d1" for entry in library.entries], np.bool_)
                assert str(index.statistics(query, counted)) == str(clean.statistics(query, counted))


@given(TEXTS, TEXTS, st.booleans())
def test_a_merged_segment_is_that_of_the_documents_that_are_kept(
    first: list[str],
    second: list[str],
    keeps_first: bool,
) -> None:
    documents = [
        SegmentSource(SegmentDocument(id, id, len(texts)), f"{id} profit.pdf", texts)
        for id, texts in (("a", first), ("b", second))
    ]
    both = LexicalSegment.build(documents)
    kept = np.array([keeps_first, True])
    third = SegmentSource(SegmentDocument("c", "c", 1), "c.pdf", ["profit of a café"])
    merged = LexicalSegment.merge([(both, kept), (LexicalSegment.build([third]), np.array([True]))])
    clean = LexicalSegment.build([*(documents if keeps_first else documents[1:]), third])
    assert merged.contents == clean.contents
    assert merged.name == clean.name
    for query in QUERIES:
        assert str(merged.statistics(query)) == str(clean.statistics(query))
        known = clean.statistics(query)
        scores = [each.scores(query, known, phrase=0.5, document=1.5) for each in (merged, clean)]
        assert scores[0].tolist() == scores[1].tolist()


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    library = Library(tmp_path / "cache")
    library.documents = {f"d{n:02}": (f"d{n}.pdf", [f"profit of {n}"] * 4) for n in range(20)}
    library.open()
    library.counted.clear()
    library.documents["d05"] = "d5.pdf", ["other words"]
    del library.documents["d07"]
    library.documents["new"] = "new.pdf", ["new words"]
    library.segments = []
    index = library.open()
    assert library.counted == ["d05", "new"]
    assert index.search("profit of 7", 1)[0][0] != "d07-0"
    library.segments = []
    library.open()
    assert library.counted == ["d05", "new"]


def test_there_are_few_segments_and_each_document_is_merged_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "MIN_SEGMENT_ITEMS", 1)
    merged: list[int] = []
    merge = LexicalSegment.merge

    def count(
        parts: list[tuple[LexicalSegment, np.ndarray[tuple[int], np.dtype[np.bool_]]]],
    ) -> LexicalSegment:
        made = merge(parts)
        merged.append(len(made.contents))
        return made

    monkeypatch.setattr(LexicalSegment, "merge", count)
    library = Library(tmp_path / "cache")
    for number in range(100):
        library.documents[f"d{number:03}"] = f"{number}.pdf", [f"words of {number}"]
        sizes = sorted(len(segment.contents) for segment in library.open().segments)
        assert all(sum(sizes[:at]) * 2 < size for at, size in enumerate(sizes) if at)
    assert sum(merged) / 100 < 8
    names = {path.name for path in library.home.iterdir()}
    assert {f"lexical-{segment.name}" for segment in library.segments} <= names


def test_a_segment_of_which_more_than_a_quarter_is_removed_is_rewritten_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(tmp_path / "cache")
    library.documents = {f"d{n}": (f"d{n}.pdf", ["profit"]) for n in range(9)}
    (before,) = library.open().segments
    for number in range(2):
        del library.documents[f"d{number}"]
    assert library.open().segments == [before]
    del library.documents["d2"]
    (after,) = library.open().segments
    assert len(after.contents) == 6
    monkeypatch.setattr(LexicalSegment, "merge", None)
    library.segments = []
    assert [segment.name for segment in library.open().segments] == [after.name]


def test_what_two_segments_have_is_left_out_of_one_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "MIN_SEGMENT_ITEMS", 1)
    mine, others = Library(tmp_path / "cache"), Library(tmp_path / "elsewhere")
    mine.documents = {f"d{n}": (f"d{n}.pdf", ["profit"]) for n in range(9)}
    others.documents = {"d7": mine.documents["d7"], "d8": mine.documents["d8"], "e": ("e.pdf", ["profit"])}
    mine.open()
    others.open()
    shutil.copytree(others.home, mine.home, dirs_exist_ok=True)
    mine.documents["e"] = others.documents["e"]
    mine.open()
    assert "e" not in mine.counted
    monkeypatch.setattr(LexicalSegment, "merge", None)
    mine.segments = []
    assert sorted(len(segment.contents) for segment in mine.open().segments) == [1, 9]


def test_what_another_process_compacted_takes_the_place_of_what_is_open(tmp_path: Path) -> None:
    library = Library(tmp_path / "cache")
    library.documents = {f"d{n}": (f"d{n}.pdf", ["profit"]) for n in range(9)}
    library.open()
    del library.documents["d0"]
    compact_segments(library.home, library.contents())
    (segment,) = library.open().segments
    assert [f"lexical-{segment.name}"] == [path.name for path in library.home.iterdir()]


def test_no_word_stays_of_a_document_that_was_removed_while_its_segment_was_written(tmp_path: Path) -> None:
    library = Library(tmp_path / "cache")
    library.documents = {"a": ("a.pdf", ["an unheard xylophone"]), "b": ("b.pdf", ["profit"])}
    library.removed = frozenset({"a"})
    assert library.open().search("xylophone", 1)[0][0] == "a-0"
    assert not any(b"xylophone" in path.read_bytes() for path in library.home.rglob("*") if path.is_file())
    del library.documents["a"]
    assert library.open().search("profit", 1)[0][0] == "b-0"
    assert library.counted == ["a", "b"]


@pytest.mark.parametrize("is_open", [False, True])
def test_damage_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_open: bool) -> None:
    """Of other large files only parts are checked when they are opened."""
    monkeypatch.setattr(array_cache, "_MAX_CHECKED_BYTES", 0)
    library = Library(tmp_path / "cache")
    library.documents = {f"d{n}": (f"d{n}.pdf", ["profit"]) for n in range(9)}
    (segment,) = library.open().segments
    with (library.home / f"lexical-{segment.name}" / "items-counts").open("r+b") as file:
        file.write(bytes([9] * 9))
    library.segments = library.segments if is_open else []
    library.documents["new"] = "new.pdf", ["profit"]
    clean = LexicalIndex.build(library.entries)
    assert library.open().scores("profit").tolist() == clean.scores("profit").tolist()


def test_compacting_writes_no_segment_that_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(tmp_path / "cache", {"a": ("a.pdf", ["profit"])})
    (segment,) = library.open().segments
    monkeypatch.setattr(LexicalSegment, "save", None)
    compact_segments(library.home, library.contents())
    assert [path.name for path in library.home.iterdir()] == [f"lexical-{segment.name}"]


def test_compacting_leaves_no_word_of_removed_documents_and_reads_nothing(tmp_path: Path) -> None:
    library = Library(tmp_path / "cache")
    library.documents = {"a": ("a.pdf", ["an unheard xylophone"]), "b": ("b.pdf", ["profit"])}
    library.open()
    del library.documents["a"]
    library.open()
    assert any(b"xylophone" in path.read_bytes() for path in library.home.rglob("*") if path.is_file())
    compact_segments(library.home, library.contents())
    assert not any(b"xylophone" in path.read_bytes() for path in library.home.rglob("*") if path.is_file())
    library.segments = []
    assert library.open().search("profit", 1)[0][0] == "b-0"
    assert library.counted == ["a", "b"]


def test_a_folder_that_cannot_be_written_to_is_searched_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(array_cache, "write_file", full)
    library = Library(tmp_path / "cache", {"a": ("a.pdf", ["profit"])})
    assert library.open().search("profit", 1)[0][0] == "a-0"
    library.documents["b"] = "b.pdf", ["revenue"]
    assert library.open().search("revenue", 1)[0][0] == "b-0"
    assert library.counted == ["a", "b"], "what is open is used"
    assert list((tmp_path / "cache").iterdir()) == []


@given(TEXTS, st.sampled_from(QUERIES))
def test_what_is_saved_is_loaded(texts: list[str], query: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = segment_of(*texts)
        made.save(Path(folder) / "cache")
        loaded = LexicalSegment.load(Path(folder) / "cache")
        assert loaded is not None
        assert loaded.contents == made.contents
        assert str(loaded.statistics(query)) == str(made.statistics(query))
        assert loaded.rows_with(query).tolist() == made.rows_with(query).tolist()


def test_a_word_that_occurs_often_is_counted_in_full() -> None:
    often, seldom = segment_of("profit " * 70_000), segment_of("profit " * 3)
    merged = LexicalSegment.merge([(often, np.array([True]))])
    assert often.statistics("profit").items.length == merged.statistics("profit").items.length == 70_000
    known = often.statistics("profit")
    weights = {"phrase": 0.0, "document": 0.0}
    assert often.scores("profit", known, **weights)[0] > seldom.scores("profit", known, **weights)[0]


def test_a_damaged_cache_is_refused_and_replaced(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    segment = segment_of("some text", "more text")
    segment.save(cache)
    for path in sorted(cache.iterdir()):
        whole = path.read_bytes()
        for damaged in (b"", whole[: len(whole) // 2], whole[:-1]):
            path.write_bytes(damaged)
            assert LexicalSegment.load(cache) is None
        path.unlink()
        assert LexicalSegment.load(cache) is None
        segment.save(cache)
        loaded = LexicalSegment.load(cache)
        assert loaded is not None
        assert loaded.contents == segment.contents
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_files_of_two_caches_do_not_go_together(tmp_path: Path) -> None:
    segment_of("some text", "more text").save(tmp_path / "one")
    segment_of("words").save(tmp_path / "two")
    for name in ("terms", "items-rows"):
        shutil.copytree(tmp_path / "one", tmp_path / name)
        shutil.copy(tmp_path / "two" / name, tmp_path / name / name)
        assert LexicalSegment.load(tmp_path / name) is None


def test_a_segment_of_another_version_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(tmp_path / "cache", {"a": ("a.pdf", ["profit"])})
    with monkeypatch.context() as former:
        former.setattr(lexical_index, "FORMAT", 1)
        former.setattr("vrag.index.lexical.segment.FORMAT", 1)
        library.open()
    library.segments = []
    library.open()
    assert library.counted == ["a", "a"]
