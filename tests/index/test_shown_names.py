from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from vrag.errors import CollectionError
from vrag.index import shown_names
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import remove
from vrag.index.shown_names import ShownNames, find_documents, is_present
from vrag.types import Document, DocumentStatus

if TYPE_CHECKING:
    from pathlib import Path

    from fake_conversion import FakeConversion

pytestmark = pytest.mark.usefixtures("conversion")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(collection: Collection, *paths: Path) -> dict[str, str | None]:
    """The name of each document by the text of its item."""
    naming = ShownNames(lambda: {"collection": collection}, paths)
    rows = collection.store.read_items(["document", "text"]).records()
    return {row["text"]: naming.name_of(row["document"]) for row in rows}


@pytest.fixture
def years(folder: Path) -> Path:
    for year in (2023, 2024):
        write(folder / str(year) / "invoice.txt", f"of {year}")
    return folder


class TestNames:
    def test_are_paths_below_the_folder_that_is_asked(self, collection: Collection, years: Path) -> None:
        add(collection, [years])
        assert names(collection, years) == {"of 2023": "2023/invoice.txt", "of 2024": "2024/invoice.txt"}
        assert names(collection, years.parent)["of 2024"] == "files/2024/invoice.txt"
        assert names(collection, years / "2024")["of 2024"] == "invoice.txt"
        assert names(collection, years, years / "2024")["of 2024"] == "2024/invoice.txt"

    def test_are_those_of_files_that_are_asked_with_as_many_folders_as_tell_them_apart(
        self, collection: Collection, years: Path
    ) -> None:
        files = [years / "2023" / "invoice.txt", years / "2024" / "invoice.txt"]
        add(collection, files)
        assert names(collection, files[0])["of 2023"] == "invoice.txt"
        assert list(names(collection, *files).values()) == ["2023/invoice.txt", "2024/invoice.txt"]
        assert sorted(map(str, names(collection, years / "2023", files[1]).values())) == [
            "2023/invoice.txt",
            "2024/invoice.txt",
        ]

    def test_of_a_whole_collection_are_paths_below_the_folder_of_all_files(
        self, collection: Collection, years: Path
    ) -> None:
        add(collection, [years])
        assert names(collection) == {"of 2023": "2023/invoice.txt", "of 2024": "2024/invoice.txt"}
        remove(collection, [years / "2023"])
        assert names(collection) == {"of 2024": "invoice.txt"}

    def test_follow_a_linked_folder(self, collection: Collection, years: Path) -> None:
        link = years.parent / "link"
        link.symlink_to(years)
        add(collection, [years])
        assert names(collection, link)["of 2024"] == "2024/invoice.txt"

    def test_of_uploads_have_the_folder_that_they_were_uploaded_with(self, collection: Collection) -> None:
        uploads = collection.directory / "uploads"
        write(uploads / "2024／invoice.txt", "in a folder")
        write(uploads / "fees.txt", "alone")
        for path in uploads.iterdir():
            collection_add(collection, path)
        assert names(collection) == {"in a folder": "2024/invoice.txt", "alone": "fees.txt"}

    def test_in_several_collections_begin_with_that_of_the_collection_where_two_are_equal(
        self, collection: Collection, folder: Path
    ) -> None:
        other = Collection.create(folder.parent / "other")
        for place, text in ((collection, "here"), (other, "there")):
            add(place, [write(folder / text / "fees.txt", text)])
        add(other, [write(folder / "there" / "rules.txt", "rules")])
        naming = ShownNames(lambda: {"a": collection, "b": other})
        ids = {document.name + document.path: document.id for document in other.documents()}
        assert sorted(str(naming.name_of(id)) for id in ids.values()) == ["b/fees.txt", "rules.txt"]
        assert [naming.name_of(document.id) for document in collection.documents()] == ["a/fees.txt"]

    def test_are_valid_unicode(self, collection: Collection, folder: Path) -> None:
        path = folder / os.fsdecode(b"\xff") / "a.txt"
        try:
            write(path, "one")
        except OSError:
            pytest.skip("this disk takes no such name")
        add(collection, [path, write(folder / "b.txt", "two")])
        assert names(collection, folder)["one"] == "\ufffd/a.txt"

    def test_of_an_unknown_document_there_are_none(self, collection: Collection) -> None:
        assert ShownNames(lambda: {"collection": collection}).name_of("0" * 64) is None


class TestFinding:
    def test_an_upload_with_its_folder_is_removed_by_the_name_that_is_shown(
        self, collection: Collection
    ) -> None:
        collection_add(collection, write(collection.directory / "uploads" / "2024／invoice.txt", "one"))
        collection_add(collection, write(collection.directory / "uploads" / "fees.txt", "two"))
        assert names(collection)["one"] == "2024/invoice.txt"
        assert remove(collection, ["2024/invoice.txt"]).items == 1
        assert names(collection) == {"two": "fees.txt"}

    def test_every_name_that_is_shown_means_its_document(self, collection: Collection, folder: Path) -> None:
        other = Collection.create(folder.parent / "other")
        add(collection, [write(folder / "a" / "fees.txt", "one"), write(folder / "fees.txt", "two")])
        add(other, [write(folder / "b" / "fees.txt", "three"), write(folder / "b" / "rules.txt", "four")])
        documents = [*collection.documents(), *other.documents()]
        for paths in ([], [folder]):
            naming = ShownNames(lambda: {"collection": collection, "other": other}, paths)
            shown = {str(naming.name_of(document.id)): document for document in documents}
            assert len(shown) == 4
            for name, document in shown.items():
                assert find_documents(name, [documents], naming) == [document]

    def test_a_name_may_begin_with_that_of_its_collection(self, collection: Collection, years: Path) -> None:
        add(collection, [years])
        with pytest.raises(CollectionError, match="not in the collection"):
            remove(collection, ["elsewhere/2024/invoice.txt"])
        removed = remove(collection, [f"{collection.directory.name}/2024/invoice.txt"])
        assert [document.path for document in removed.documents] == [str(years / "2024" / "invoice.txt")]

    def test_the_end_of_a_path_is_a_name_where_none_is_shown(
        self, collection: Collection, years: Path
    ) -> None:
        add(collection, [years, write(years / "2024" / "q1" / "fees.txt", "fees")])
        with pytest.raises(CollectionError, match=r"2 documents are named invoice\.txt"):
            remove(collection, ["invoice.txt"])
        assert [document.name for document in remove(collection, ["./q1/fees.txt"]).documents] == ["fees.txt"]


def collection_add(collection: Collection, path: Path) -> None:
    """Add an upload, which `add` leaves out as a part of the collection."""
    from vrag.index.build import add_sources
    from vrag.index.vectors.embed_items import local

    add_sources(collection, [path], local(None))


class TestMoves:
    def test_a_renamed_file_has_its_new_name_and_is_not_made_again(
        self, collection: Collection, folder: Path, conversion: FakeConversion
    ) -> None:
        path = write(folder / "aaa.txt", "one")
        add(collection, [folder])
        path.rename(folder / "zzz.txt")
        add(collection, [folder])
        assert names(collection, folder) == {"one": "zzz.txt"}
        assert [document.name for document in collection.documents()] == ["zzz.txt"]
        assert collection.store.read_items(["document_name"]).column("document_name") == ["zzz.txt"]
        assert len(conversion.made) == 1

    def test_a_file_in_another_folder_has_its_new_path(self, collection: Collection, folder: Path) -> None:
        path = write(folder / "a.txt", "one")
        add(collection, [folder])
        (folder / "sub").mkdir()
        path.rename(folder / "sub" / "a.txt")
        add(collection, [folder])
        assert names(collection, folder) == {"one": "sub/a.txt"}

    def test_of_two_copies_the_one_that_is_asked_is_named(self, collection: Collection, folder: Path) -> None:
        write(folder / "2024" / "letter.txt", "one")
        write(folder / "2025" / "notice.txt", "one")
        add(collection, [folder])
        assert names(collection, folder) == {"one": "2024/letter.txt"}
        assert names(collection, folder / "2025") == {"one": "notice.txt"}

    @pytest.mark.parametrize("is_added", [True, False])
    def test_of_two_copies_the_one_that_is_left_is_named(
        self, collection: Collection, folder: Path, is_added: bool
    ) -> None:
        gone = write(folder / "2024" / "letter.txt", "one")
        write(folder / "2025" / "notice.txt", "one")
        add(collection, [folder])
        gone.unlink()
        if is_added:
            add(collection, [folder / "2025"])
            assert [document.name for document in collection.documents()] == ["notice.txt"]
        assert names(collection, folder) == {"one": "2025/notice.txt"}

    def test_files_of_a_disk_that_is_gone_stay(self, collection: Collection, folder: Path) -> None:
        write(folder / "disk" / "a.txt", "one")
        write(folder / "disk" / "b.txt", "one")
        add(collection, [folder])
        shutil.move(folder / "disk", folder.parent / "elsewhere")
        add(collection, [folder])
        assert [document.name for document in collection.documents()] == ["a.txt", "b.txt"]


class TestNamesThatADiskDoesNotTellApart:
    @pytest.mark.parametrize(
        ("old", "new"),
        [("Report.txt", "report.txt"), ("e\u0301.txt", "\u00e9.txt")],
        ids=["case", "Unicode form"],
    )
    def test_the_name_on_the_disk_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
    ) -> None:
        write(tmp_path / new, "one")
        documents = [
            Document(
                path=str(tmp_path / name), id="0", name=name, size=1, mtime_ns=1, status=DocumentStatus.READY
            )
            for name in (old, new)
        ]

        def stat(path: str) -> None:
            """Find the file by either name."""
            del path

        monkeypatch.setattr(shown_names.os, "lstat", stat)
        assert [is_present(document, documents) for document in documents] == [False, True]

    def test_two_files_on_a_disk_that_does_are_both_there(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / name, "one") for name in ("A.txt", "a.txt")]
        if len(os.listdir(tmp_path)) < 2:  # noqa: PTH208
            pytest.skip("this disk does not tell them apart")
        documents = [
            Document(path=str(path), id="0", name=path.name, size=1, mtime_ns=1, status=DocumentStatus.READY)
            for path in paths
        ]
        assert all(is_present(document, documents) for document in documents)
