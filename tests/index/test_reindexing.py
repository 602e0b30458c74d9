"""Files that were indexed come again, are the same as others, change nothing, or go."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from built_files import FAILED, PENDING, READY, texts, the_document, write
from stored_items import location_of

from vrag.errors import CollectionError
from vrag.index.build import add
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import prune, remove
from vrag.index.manifest import IndexProgress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_conversion import FakeConversion

    from vrag.index.collection import Collection


pytestmark = pytest.mark.usefixtures("conversion")


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
        assert verify(location_of(collection)).ok
        remove(collection, [folder / "b.txt"])
        assert texts(collection) == []
        assert len(conversion.made) == 1

    def test_items_bear_the_name_of_the_first_path_whatever_the_order(
        self, collection: Collection, folder: Path
    ) -> None:
        first, second = write(folder / "a.txt", "same"), write(folder / "b.txt", "same")

        add(collection, [second])
        assert collection.store.read_items(["document_name"]).column("document_name") == ["b.txt"]
        add(collection, [first])
        assert collection.store.read_items(["document_name"]).column("document_name") == ["a.txt"]
        remove(collection, [first])
        assert collection.store.read_items(["document_name"]).column("document_name") == ["b.txt"]

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
        assert verify(location_of(collection)).ok

    def test_a_twin_in_another_format_is_tried_when_the_first_fails(
        self, collection: Collection, folder: Path
    ) -> None:
        write(folder / "a.txt", "BAD as text")
        write(folder / "b.md", "BAD as text")

        add(collection, [folder])

        assert [d.status for d in collection.documents()] == [FAILED, READY]
        assert verify(location_of(collection)).ok


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


class TestNothingToDo:
    """No lock is taken: another process may hold it, and the collection may be write-protected."""

    CODE = (
        "import sys; from vrag.index.collection import Collection\n"
        "with Collection.open(sys.argv[1]).build(): print('held', flush=True); sys.stdin.read()"
    )

    @pytest.fixture(params=["another process", "no lock can be made"])
    def no_lock(self, request: pytest.FixtureRequest, collection: Collection) -> Callable[[], object]:
        """Keeps the test from writing, until it ends."""

        def block() -> None:
            if request.param != "another process":
                (collection.directory / "build.lock").unlink()
                (collection.directory / "build.lock").mkdir()
                return
            command = [sys.executable, "-c", self.CODE, str(collection.directory)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            request.addfinalizer(process.communicate)
            request.addfinalizer(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"

        return block

    @pytest.mark.slow
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

    @pytest.mark.slow
    def test_what_others_began_waits(
        self, collection: Collection, folder: Path, no_lock: Callable[[], object]
    ) -> None:
        path = write(folder / "here" / "a.txt", "one")
        add(collection, [path])
        begun = replace(the_document(collection), path=str(write(folder / "there.txt", "two")), id="0" * 64)
        with collection.store.change() as change:
            change.put_files([(replace(begun, status=PENDING), 0)])
        no_lock()
        seen: list[IndexProgress] = []

        assert add(collection, [path.parent], progress=seen.append).unchanged == 1

        assert [progress.files for progress in seen] == [0]
        with pytest.raises(CollectionError):
            add(collection, [folder])

    def test_what_nothing_refers_to_goes_when_the_lock_can_be_had(
        self, collection: Collection, folder: Path
    ) -> None:
        path = write(folder / "a.txt", "one")
        add(collection, [path])
        with collection.store.change() as change:
            change.delete_files([str(path)])
        add(collection, [])
        assert texts(collection) == []


def test_other_bytes_of_the_same_size_and_time_are_found_and_nothing_is_made_twice(
    collection: Collection, folder: Path, conversion: FakeConversion
) -> None:
    changed, same, broken = (
        write(folder / name, text) for name, text in (("a.txt", "old"), ("b.txt", "same"), ("c.txt", "BAD x"))
    )
    add(collection, [folder])
    status = changed.stat()
    changed.write_text("new", encoding="utf-8")
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    made = len(conversion.made)

    report = add(collection, [folder])
    assert (report.changed, report.unchanged, report.added, report.failed) == (1, 2, 0, 0)
    assert texts(collection) == ["new", "same"]
    assert len(conversion.made) == made + 1
    version = collection.content_version
    assert add(collection, [folder, same, broken], force_read=True).unchanged == 3
    assert collection.content_version == version
    assert verify(location_of(collection)).ok
