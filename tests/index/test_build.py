from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_conversion import contents

from vrag.corpus.options import CorpusOptions
from vrag.embed.base import Content, VectorKind
from vrag.errors import CollectionBusy, CollectionError, EmbedError, FingerprintMismatch
from vrag.index import build
from vrag.index.build import Progress, add, compact, prune, remove, status, verify
from vrag.index.plan import read_manifest
from vrag.index.rows import file_rows
from vrag.index.store import Collection
from vrag.index.table import Table
from vrag.index.writer import Writer
from vrag.testing import HashEmbedder
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fake_conversion import FakeConversion
    from numpy.typing import NDArray

    from vrag.types import Document

READY, PARTIAL = DocumentStatus.READY, DocumentStatus.PARTIAL
FAILED, PENDING = DocumentStatus.FAILED, DocumentStatus.PENDING

pytestmark = pytest.mark.usefixtures("conversion")


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def texts(collection: Collection) -> list[str]:
    return sorted(collection.scan(["text"]).data["text"].to_pylist())


def the_document(collection: Collection) -> Document:
    (document,) = collection.documents()
    return document


class TestAdd:
    def test_items_and_manifest_of_a_new_file(self, collection: Collection, folder: Path) -> None:
        path = write(folder / "deep" / "er" / "a.txt", "one", "pic two")

        report = add(collection, [folder])

        assert (report.added, report.changed, report.unchanged, report.items) == (1, 0, 0, 2)
        assert texts(collection) == ["one", "pic two"]
        document = the_document(collection)
        assert (document.path, document.name, document.status, document.items) == (
            str(path),
            "a.txt",
            READY,
            2,
        )
        assert document.size == path.stat().st_size
        item = collection.item(f"{document.id[:16]}-2")
        assert item.words[0].box.as_tuple() == (0.25, 0.5, 0.75, 1.0)
        assert collection.image(item).getpixel((0, 0)) == (2, 0, 0)

    def test_a_second_run_reads_no_file_and_commits_nothing(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        version = collection.table_version, collection.file_table.version
        monkeypatch.setattr(build, "read_source", None)

        report = add(collection, [folder])

        assert report.unchanged == 1
        assert (collection.table_version, collection.file_table.version) == version

    def test_a_file_only_touched_is_read_but_not_made_again(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "a.txt", "one")
        add(collection, [folder])
        os.utime(path, ns=(1, 1))

        report = add(collection, [folder])

        assert (report.changed, report.items, len(conversion.made)) == (1, 0, 1)
        assert the_document(collection).mtime_ns == 1

    def test_a_changed_file_replaces_its_items_and_pictures(
        self, collection: Collection, folder: Path
    ) -> None:
        path = write(folder / "a.txt", "pic old", "pic old too")
        add(collection, [folder])
        write(path, "pic new")

        report = add(collection, [folder])

        assert (report.added, report.changed) == (0, 1)
        assert texts(collection) == ["pic new"]
        assert len([p for p in collection.items_dir.rglob("*") if p.is_file()]) == 1
        assert verify(collection).ok

    def test_a_changed_file_that_now_fails_keeps_nothing_of_the_old(
        self, collection: Collection, folder: Path
    ) -> None:
        path = write(folder / "a.txt", "pic old")
        add(collection, [folder])
        write(path, "BAD broken")

        report = add(collection, [folder])

        assert (report.added, report.changed, report.failed) == (0, 0, 1)
        assert [d.reason for d in report.problems] == ["broken"]
        assert the_document(collection).status is FAILED
        assert texts(collection) == []

    def test_a_failed_file_stops_nothing_and_is_told_every_time(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        write(folder / "a.txt", "BAD no such page")
        write(folder / "b.txt", "one", "!too big", "three", "!too big", "!too big", "!odd")

        first, second = add(collection, [folder]), add(collection, [folder])

        assert (first.added, first.changed, first.failed) == (1, 0, 1), "a partial file is in"
        assert (second.added, second.changed, second.failed) == (0, 0, 0), "of this run only"
        assert [d.reason for d in first.problems] == ["no such page", "No. 2, 4–5: too big No. 6: odd"]
        assert second.problems == first.problems
        assert len(conversion.made) == 2
        assert [d.status for d in collection.documents()] == [FAILED, PARTIAL]
        assert [entry.rows for entry in read_manifest(collection).values()] == [0, 2]
        assert verify(collection).ok

    def test_failures_are_tried_again_on_request(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        write(folder / "a.txt", "one", "!later")
        add(collection, [folder])
        conversion.healed = True

        report = add(collection, [folder], retry_failed=True)

        assert (report.items, report.changed, report.failed, report.problems) == (1, 1, 0, ())
        assert the_document(collection).status is READY

    def test_what_is_no_file_to_convert_is_reported(self, collection: Collection, folder: Path) -> None:
        write(folder / "a.unknown", "one")

        report = add(collection, [folder, folder / "missing.txt"])

        assert {skipped.path.name for skipped in report.skipped} == {"a.unknown", "missing.txt"}
        assert all(skipped.reason for skipped in report.skipped)

    def test_a_collection_within_the_folder_does_not_swallow_itself(self, folder: Path) -> None:
        collection = Collection.create(folder / "collection")
        write(folder / "a.txt", "pic one")
        add(collection, [folder])
        (collection.items_dir / "b.txt").write_text("two")

        report = add(collection, [folder])

        assert (report.added, report.unchanged) == (0, 1)
        assert [skipped.path for skipped in report.skipped] == [collection.directory]

    def test_a_file_that_cannot_be_read_is_recorded(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder / "a.txt", "one")

        def refuse(path: Path) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(build, "read_source", refuse)
        report = add(collection, [folder])

        assert [(d.status, d.reason) for d in report.problems] == [
            (FAILED, "It cannot be read: Permission denied.")
        ]

    def test_another_file_of_the_same_content_is_there_when_the_first_one_changes_meanwhile(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        first, twin = write(folder / "a.txt", "one", "two"), write(folder / "b.txt", "one", "two")
        conversion.before_item = lambda _: os.utime(first, ns=(5, 5))
        [problem] = add(collection, [folder]).problems
        assert Path(problem.path) == first
        assert texts(collection) == ["one", "two"]
        assert {d.name: d.status.served for d in collection.documents()} == {"a.txt": False, "b.txt": True}
        assert twin.exists()

    def test_a_file_that_changes_while_it_is_read_leaves_nothing(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "a.txt", "one", "two")
        conversion.before_item = lambda _: os.utime(path, ns=(5, 5))

        assert "changed while" in add(collection, [folder]).problems[0].reason
        assert texts(collection) == []

        conversion.before_item = lambda _: None
        assert add(collection, [folder]).problems == ()
        assert texts(collection) == ["one", "two"]

    def test_names_that_are_not_unicode(self, collection: Collection, folder: Path) -> None:
        path = folder / os.fsdecode(b"it's \xff.txt")
        try:
            write(path, "one")
        except OSError:
            pytest.skip("this file system takes Unicode names only")

        add(collection, [folder])

        assert the_document(collection).path == str(path)
        assert add(collection, [folder]).unchanged == 1
        assert len(remove(collection, [path]).documents) == 1

    def test_text_that_is_not_unicode_keeps_its_length(self, collection: Collection, folder: Path) -> None:
        (folder / "a.txt").write_bytes(b"on\xffe")
        add(collection, [folder])
        assert texts(collection) == ["on\ufffde"]

    def test_relative_paths_are_the_same_files(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        monkeypatch.chdir(folder.parent)

        assert add(collection, ["files", Path("files") / "a.txt"]).unchanged == 1
        assert len(collection.documents()) == 1

    def test_many_small_files_take_few_commits(self, collection: Collection, folder: Path) -> None:
        for number in range(300):
            write(folder / f"{number}.txt", f"text {number}")

        add(collection, [folder])

        assert collection.table_version < 12
        assert collection.file_table.version < 16

    def test_ten_thousand_known_files_are_checked_quickly(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(10_000):
            (folder / f"{number}.txt").write_bytes(b"%d" % number)
        monkeypatch.setattr(Writer, "ITEMS", 10_000)
        monkeypatch.setattr(Writer, "DOCUMENTS", 10_000)
        add(collection, [folder])

        started = time.process_time()
        assert add(collection, [folder]).unchanged == 10_000
        assert time.process_time() - started < 4.0

    def test_progress_ends_with_everything_done(self, collection: Collection, folder: Path) -> None:
        write(folder / "a.txt", "one", "!bad")
        write(folder / "b.txt", "BAD worse")
        seen: list[Progress] = []

        add(collection, [folder], progress=seen.append)

        last = seen[-1]
        assert (last.files_done, last.files, last.items_done, last.items, last.failed) == (2, 2, 1, 2, 2)
        assert last.remaining_seconds == 0


class TestSameBytes:
    def test_two_paths_have_one_set_of_items(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        write(folder / "a.txt", "pic same")
        write(folder / "b.txt", "pic same")

        assert add(collection, [folder]).added == 2
        assert texts(collection) == ["pic same"]
        assert {d.status for d in collection.documents()} == {READY}

        remove(collection, [folder / "a.txt"])
        assert texts(collection) == ["pic same"]
        assert verify(collection).ok
        remove(collection, [folder / "b.txt"])
        assert texts(collection) == []
        assert len(conversion.made) == 1

    def test_items_bear_the_name_of_the_first_path_whatever_the_order(
        self, collection: Collection, folder: Path
    ) -> None:
        first, second = write(folder / "a.txt", "same"), write(folder / "b.txt", "same")

        add(collection, [second])
        assert collection.scan(["document_name"]).data["document_name"].to_pylist() == ["b.txt"]
        add(collection, [first])
        assert collection.scan(["document_name"]).data["document_name"].to_pylist() == ["a.txt"]
        remove(collection, [first])
        assert collection.scan(["document_name"]).data["document_name"].to_pylist() == ["b.txt"]

    def test_a_renamed_file_is_not_made_again(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "z.txt", "same")
        add(collection, [folder])
        path.rename(folder / "a.txt")

        add(collection, [folder])
        prune(collection)

        assert len(conversion.made) == 1
        assert the_document(collection).name == "a.txt"

    def test_tried_again_at_one_path_is_up_to_date_at_the_other(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        for name in ("here/a.txt", "there/b.txt"):
            write(folder / name, "one", "!later")
        add(collection, [folder])
        conversion.healed = True

        add(collection, [folder / "there"], retry_failed=True)

        assert {(d.name, d.status, d.reason) for d in collection.documents()} == {
            ("a.txt", READY, ""),
            ("b.txt", READY, ""),
        }
        assert verify(collection).ok

    def test_a_twin_in_another_format_is_tried_when_the_first_fails(
        self, collection: Collection, folder: Path
    ) -> None:
        write(folder / "a.txt", "BAD as text")
        write(folder / "b.md", "BAD as text")

        add(collection, [folder])

        assert [d.status for d in collection.documents()] == [FAILED, READY]
        assert verify(collection).ok


class TestRemoval:
    def test_by_path_folder_name_and_id(self, collection: Collection, folder: Path) -> None:
        for name in ("a", "b", "c", "d", "deep/e", "deep/f"):
            write(folder / f"{name}.txt", name)
        add(collection, [folder])
        by_name = {document.name: document for document in collection.documents()}

        report = remove(collection, [folder / "a.txt", "b.txt", by_name["c.txt"].id[:8], folder / "deep"])

        assert (len(report.documents), report.items) == (5, 5)
        assert texts(collection) == ["d"]

    def test_an_unknown_target_removes_nothing(self, collection: Collection, folder: Path) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        with pytest.raises(CollectionError, match=r"nothing\.txt"):
            remove(collection, ["a.txt", "nothing.txt"])
        with pytest.raises(CollectionError, match="not in the collection"):
            remove(collection, [the_document(collection).id[:7]])
        assert texts(collection) == ["one"]

    def test_a_path_means_what_lies_there_and_no_namesake(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there = write(folder / "a" / "r.md", "here"), write(folder / "b" / "r.md", "there")
        add(collection, [folder])
        monkeypatch.chdir(here.parent)

        assert [document.path for document in remove(collection, ["r.md"]).documents] == [str(here)]
        assert [document.path for document in remove(collection, ["r.md"]).documents] == [str(there)]

    def test_a_name_of_several_documents_removes_none(self, collection: Collection, folder: Path) -> None:
        paths = [write(folder / name / "r.md", name) for name in ("a", "b")]
        add(collection, [folder])

        with pytest.raises(CollectionError, match=f"2 documents are named.*{paths[0]}, {paths[1]}"):
            remove(collection, ["r.md"])
        assert len(collection.documents()) == 2

    def test_a_link_means_itself_before_what_it_leads_to(self, collection: Collection, folder: Path) -> None:
        path, link = write(folder / "a.txt", "one"), folder / "b.txt"
        link.symlink_to(path)
        add(collection, [folder])

        assert [document.path for document in remove(collection, [link]).documents] == [str(link)]
        assert [document.path for document in remove(collection, [link]).documents] == [str(path)]

    def test_prune_takes_out_what_is_gone(self, collection: Collection, folder: Path) -> None:
        gone, _ = write(folder / "a.txt", "one"), write(folder / "b.txt", "two")
        add(collection, [folder])
        gone.unlink()

        assert [document.name for document in prune(collection).documents] == ["a.txt"]
        assert texts(collection) == ["two"]


class TestGuards:
    def test_other_settings_are_refused(self, collection: Collection, folder: Path) -> None:
        with pytest.raises(FingerprintMismatch, match=r"dpi 144\.0, not 100"):
            add(collection, [folder], CorpusOptions(dpi=100))

    def test_another_number_of_workers_is_no_other_setting(
        self, collection: Collection, folder: Path
    ) -> None:
        add(collection, [folder], CorpusOptions(workers=3))

    def test_items_of_an_older_reading_are_not_mixed(self, collection: Collection, folder: Path) -> None:
        collection.header = replace(collection.header, corpus_fingerprint="of an older version")
        with pytest.raises(FingerprintMismatch, match="another version"):
            add(collection, [folder])

    def test_one_writer_at_a_time(self, collection: Collection, folder: Path) -> None:
        write(folder / "a.txt", "one")
        other = Collection.open(collection.directory)
        with other.lock(), pytest.raises(CollectionBusy, match=rf"process {os.getpid()} on"):
            add(collection, [folder])
        add(collection, [folder])

    def test_interrupted_by_the_keyboard_keeps_what_is_made(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        write(folder / "a.txt", "one", "two", "three")

        def interrupt(id: str) -> None:
            if id.endswith("-3"):
                raise KeyboardInterrupt

        conversion.before_item = interrupt
        with pytest.raises(KeyboardInterrupt):
            add(collection, [folder])
        assert texts(collection) == ["one", "two"]
        assert the_document(collection).status is PENDING

        conversion.before_item = lambda _: None
        assert add(collection, []).items == 1, "whatever is added next, what was begun is finished"
        assert texts(collection) == ["one", "three", "two"]


class TestNothingToDo:
    """No lock is taken: another process may hold it, and the collection may be write-protected."""

    CODE = (
        "import sys; from vrag.index.store import Collection\n"
        "with Collection.open(sys.argv[1]).lock(): print('held', flush=True); sys.stdin.read()"
    )

    @pytest.fixture(params=["another process", "no lock can be made"])
    def no_lock(self, request: pytest.FixtureRequest, collection: Collection) -> Callable[[], object]:
        """Keeps the test from writing, until it ends."""

        def block() -> None:
            if request.param != "another process":
                (collection.directory / "lock").unlink()
                (collection.directory / "lock").mkdir()
                return
            command = [sys.executable, "-c", self.CODE, str(collection.directory)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            request.addfinalizer(process.communicate)
            request.addfinalizer(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"

        return block

    def test_what_is_there_is_reported(
        self, collection: Collection, folder: Path, no_lock: Callable[[], object]
    ) -> None:
        write(folder / "a.txt", "one")
        write(folder / "b.txt", "BAD whole")
        add(collection, [folder])
        no_lock()

        report = add(collection, [folder])

        assert (report.unchanged, report.items, len(report.problems)) == (2, 0, 1)
        write(folder / "c.txt", "new")
        with pytest.raises(CollectionError):
            add(collection, [folder])

    def test_what_others_began_waits(
        self, collection: Collection, folder: Path, no_lock: Callable[[], object]
    ) -> None:
        path = write(folder / "here" / "a.txt", "one")
        add(collection, [path])
        begun = replace(the_document(collection), path=str(write(folder / "there.txt", "two")), id="0" * 64)
        rows = file_rows([(replace(begun, status=PENDING), 0)])
        collection.file_table.upsert(rows, "key")
        (collection.items_dir / "stray").mkdir(parents=True)
        no_lock()
        seen: list[Progress] = []

        assert add(collection, [path.parent], progress=seen.append).unchanged == 1

        assert [progress.files for progress in seen] == [0]
        with pytest.raises(CollectionError):
            add(collection, [folder])

    def test_what_nothing_refers_to_goes_when_the_lock_can_be_had(
        self, collection: Collection, folder: Path
    ) -> None:
        path = write(folder / "a.txt", "one")
        add(collection, [path])
        collection.file_table.delete("true")
        add(collection, [])
        assert texts(collection) == []


class NumberEmbedder(HashEmbedder):
    """The vector of a text is its length and its last number: a row out of step shows."""

    def __init__(self) -> None:
        super().__init__(dimension=2)

    def embed_items(self, contents: Sequence[Content]) -> Sequence[NDArray[np.float32]]:
        return [np.array([len(one.text), int(one.text.split()[-1])], np.float32) for one in contents]


class BrokenEmbedder(NumberEmbedder):
    def embed_items(self, contents: Sequence[Content]) -> Sequence[NDArray[np.float32]]:
        return super().embed_items(contents)[:1]


class WrongShape(NumberEmbedder):
    def embed_items(self, contents: Sequence[Content]) -> Sequence[NDArray[np.float32]]:
        return [np.zeros(3, np.float32) for _ in contents]


class Picky(NumberEmbedder):
    """Refuses a batch with a 7 in it, and gives something that is no number for an 8."""

    def embed_items(self, contents: Sequence[Content]) -> Sequence[NDArray[np.float32]]:
        if any(one.text.endswith("7") for one in contents):
            raise EmbedError("Sevens are too much.")
        made = super().embed_items(contents)
        return [vector * np.nan if vector[1] == 8 else vector for vector in made]


class TestVectors:
    def test_vectors_are_columns_of_their_items(self, tmp_path: Path, folder: Path) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", *(f"line {n}" for n in range(150)))

        add(collection, [folder], embedder=NumberEmbedder())

        rows = collection.scan(["text", "vector"]).data.to_pylist()
        assert len(rows) == 150
        assert all(row["vector"] == [len(row["text"]), int(row["text"].split()[-1])] for row in rows)
        assert verify(collection).ok

    def test_many_vectors_of_an_item_are_kept_whole_in_half_precision(
        self, tmp_path: Path, folder: Path
    ) -> None:
        embedder = HashEmbedder(VectorKind.MULTI, 8)
        collection = Collection.create(tmp_path / "vectors", embedder=embedder)
        write(folder / "a.txt", *("word " * n for n in range(1, 40)))

        add(collection, [folder], embedder=embedder)

        for row in collection.scan(["text", "vectors"]).data.to_pylist():
            (expected,) = embedder.embed_items([Content(text=row["text"])])
            assert np.array_equal(np.array(row["vectors"], np.float16), expected.astype(np.float16))
        assert verify(collection).ok

    @pytest.mark.parametrize("made", [True, False])
    def test_another_embedder_is_refused(self, tmp_path: Path, folder: Path, *, made: bool) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder() if made else None)
        with pytest.raises(FingerprintMismatch, match="embedder hash"):
            add(collection, [folder], embedder=None if made else NumberEmbedder())

    @pytest.mark.parametrize("broken", [BrokenEmbedder, WrongShape])
    def test_vectors_that_do_not_fit_store_nothing(
        self, tmp_path: Path, folder: Path, broken: type[NumberEmbedder]
    ) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", "line 1", "line 2")
        with pytest.raises(CollectionError, match="embedder"):
            add(collection, [folder], embedder=broken())
        assert texts(collection) == []
        add(collection, [folder], embedder=NumberEmbedder())
        assert verify(collection).ok

    def test_what_cannot_be_embedded_costs_itself_alone_and_says_why(
        self, tmp_path: Path, folder: Path
    ) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", *(f"line {n}" for n in range(1, 10)))

        report = add(collection, [folder], embedder=Picky())

        assert report.items == 7
        (problem,) = report.problems
        assert problem.status is DocumentStatus.PARTIAL
        assert "Sevens are too much." in problem.reason
        assert "not finite" in problem.reason
        assert verify(collection).ok
        assert add(collection, [folder], embedder=NumberEmbedder(), retry_failed=True).items == 2
        assert len(texts(collection)) == 9


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code catches it."""


class Assassin:
    """Kills before or after the n-th write to any table, or before the n-th picture's row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.left = at
        self._after = after
        for name in ("append", "upsert", "delete", "update", "compact"):
            monkeypatch.setattr(Table, name, self._wrap(getattr(Table, name)))

    def _wrap(self, write: Callable[..., None]) -> Callable[..., None]:
        def wrapped(table: Table, *args: object) -> None:
            self.left -= 1
            if self.left == 0 and not self._after:
                raise Killed
            write(table, *args)
            if self.left == 0:
                raise Killed

        return wrapped


def scene(folder: Path) -> list[Callable[[Collection], object]]:
    """Steps that write in every way there is. Each may be run again."""

    def first(collection: Collection) -> None:
        write(folder / "a.txt", *(f"pic a {n}" for n in range(5)))
        write(folder / "b.txt", "one", "!two", "three")
        write(folder / "c.txt", "BAD whole")
        write(folder / "twin.txt", *(f"pic a {n}" for n in range(5)))
        _age(folder)
        add(collection, [folder])

    def change(collection: Collection) -> None:
        write(folder / "a.txt", *(f"pic changed {n}" for n in range(7)))
        write(folder / "c.txt", "now it works")
        _age(folder)
        add(collection, [folder])

    def drop(collection: Collection) -> None:
        (folder / "b.txt").unlink(missing_ok=True)
        prune(collection)
        if any(document.name == "twin.txt" for document in collection.documents()):
            remove(collection, ["twin.txt"])
        (folder / "twin.txt").unlink(missing_ok=True)

    return [first, change, drop, compact]


def _age(folder: Path) -> None:
    """Equal times in every round: the manifest holds them, and a file rewritten alike is unchanged."""
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))


class TestKilled:
    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("step", range(4))
    def test_before_or_after_any_commit_running_again_equals_a_clean_build(
        self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool
    ) -> None:
        monkeypatch.setattr(Writer, "ITEMS", 3)
        clean = Collection.create(tmp_path / "clean")
        for run in scene(folder)[: step + 1]:
            run(clean)
        expected = contents(clean)

        for at in range(1, 100):
            victim = Collection.create(tmp_path / f"victim{at}")
            for path in folder.iterdir():
                path.unlink()
            for run in scene(folder)[:step]:
                run(victim)
            with monkeypatch.context() as patch:
                assassin = Assassin(patch, at, after=after)
                with suppress(Killed):
                    scene(folder)[step](victim)
            again = Collection.open(victim.directory)
            scene(folder)[step](again)
            add(again, [folder])
            assert contents(again) == expected, f"killed at write {at}"
            assert verify(again).ok
            if assassin.left > 0:
                assert at > 1
                return
        pytest.fail("the kill never came too late")

    def test_parts_of_pictures_are_cleared_away(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "a.txt", "pic one", "pic two")

        def leave_a_part(id: str) -> None:
            part = collection.items_dir / id.split("-", maxsplit=1)[0] / "9.jpg.part"
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(b"x")
            raise Killed

        conversion.before_item = leave_a_part
        with pytest.raises(Killed):
            add(collection, [path])
        conversion.before_item = lambda _: None
        add(collection, [path])
        assert verify(collection).ok

    def test_twice_in_a_row(
        self, tmp_path: Path, folder: Path, conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Writer, "ITEMS", 2)
        write(folder / "a.txt", *(f"pic {n}" for n in range(12)))
        collection = Collection.create(tmp_path / "victim")
        for _ in range(30):
            with monkeypatch.context() as patch:
                Assassin(patch, 3, after=False)
                try:
                    add(collection, [folder])
                except Killed:
                    continue
            break
        assert len(texts(collection)) == 12
        assert the_document(collection).status is READY
        assert len(conversion.made) < 30, "what was committed is not made again"


def test_status_counts(collection: Collection, folder: Path) -> None:
    write(folder / "a.txt", "one", "two")
    write(folder / "b.txt", "one", "two")
    write(folder / "c.txt", "BAD whole")
    add(collection, [folder])

    now = status(collection)

    assert now.files == {READY: 2, FAILED: 1}
    assert (now.documents, now.items, len(now.problems), now.pending) == (1, 2, 1, ())
    assert now.bytes > 0
