"""Files become items: what is added, who may write, what is counted."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from built_files import FAILED, PARTIAL, PENDING, READY, texts, the_document, write
from stored_items import location_of

from vrag.cli.terminal.console import print_add_report
from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionBusy, FingerprintMismatch
from vrag.index import build
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import remove, status
from vrag.index.manifest import IndexProgress, Writer, read_manifest

if TYPE_CHECKING:
    from fake_conversion import FakeConversion


pytestmark = pytest.mark.usefixtures("conversion")


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
        assert collection.image(item.id).getpixel((0, 0)) == (2, 0, 0)

    def test_a_second_run_reads_no_file_and_commits_nothing(
        self, collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder / "a.txt", "one")
        add(collection, [folder])
        version = collection.version
        monkeypatch.setattr(build, "read_source", None)

        report = add(collection, [folder])

        assert report.unchanged == 1
        assert (collection.version) == version

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
        assert len(list(collection.store.blobs.names())) == 1
        assert verify(location_of(collection)).ok

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
        assert [d.reason for d in first.problems] == ["no such page", "Parts 2, 4–5: too big\nPart 6: odd"]
        assert second.problems == first.problems
        assert len(conversion.made) == 2
        assert [d.status for d in collection.documents()] == [FAILED, PARTIAL]
        assert [entry.rows for entry in read_manifest(collection).values()] == [0, 2]
        assert verify(location_of(collection)).ok

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
        (collection.directory / "b.txt").write_text("two")

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

    def test_files_with_the_content_of_another_are_counted_and_not_read_again(
        self, collection: Collection, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("a.txt", "b.txt"):
            write(folder / "first" / name, "one", "two")
        first = add(collection, [folder / "first"])
        assert (first.added, first.items, first.copies) == (2, 2, 1)
        (folder / "first").rename(folder / "moved")

        moved = add(collection, [folder / "moved"])
        os.utime(folder / "moved" / "a.txt", ns=(1, 1))
        touched = add(collection, [folder / "moved" / "a.txt"])

        assert (moved.added, moved.items, moved.copies) == (2, 0, 2)
        assert touched.changed == 1
        print_add_report(moved)
        assert "2 files have content that is indexed already" in capsys.readouterr().err
        print_add_report(replace(moved, copies=0))
        assert "already" not in capsys.readouterr().err

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

        assert collection.version < 16

    @pytest.mark.slow
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
        seen: list[IndexProgress] = []

        add(collection, [folder], progress=seen.append)

        last = seen[-1]
        assert (last.files_done, last.files, last.items_done, last.items, last.failed) == (2, 2, 1, 2, 2)
        assert last.remaining_seconds == 0


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
        with other.build(), pytest.raises(CollectionBusy, match=rf"process {os.getpid()} on"):
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


def test_status_counts(collection: Collection, folder: Path) -> None:
    write(folder / "a.txt", "one", "two")
    write(folder / "b.txt", "one", "two")
    write(folder / "c.txt", "BAD whole")
    add(collection, [folder])

    now = status(collection)

    assert now.files == {READY: 2, FAILED: 1}
    assert (now.documents, now.items, len(now.problems), now.pending) == (1, 2, 1, ())
    assert now.bytes > 0
