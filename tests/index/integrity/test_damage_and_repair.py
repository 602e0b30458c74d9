from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from vrag.corpus.converter import CorpusOptions
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity import inspection
from vrag.index.integrity import repair as repair_module
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import open_damaged, verify
from vrag.index.location import LocalLocation
from vrag.index.tables.file_records import check_files, recorded_deletion
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.index.integrity.problems import VerifyReport
    from vrag.index.tables.file_records import FileFault, FileRecord


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents and a collection of them."""
    home = tmp_path_factory.mktemp("made")
    (home / "documents").mkdir()
    (home / "documents" / "a.txt").write_text("The ferry sails at nine.")
    (home / "documents" / "b.txt").write_text("The harbour closes at ten.")
    Image.effect_noise((80, 60), 50).convert("RGB").save(home / "documents" / "c.png")
    collection = Collection.create(home / "collection", CorpusOptions(ocr="never", workers=1))
    add(collection, [home / "documents" / "a.txt"])
    add(collection, [home / "documents"])
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the collection; its documents stay where they were indexed."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(made / "collection", tmp_path / "collection")


@pytest.fixture
def no_sources(made: Path) -> object:
    """The documents are gone during the test."""
    (made / "documents").rename(made / "gone")
    yield
    (made / "gone").rename(made / "documents")


def flip(path: Path, bit: int = 8 * 100) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


def content(home: Path) -> list[object]:
    collection = Collection.open(home)
    items = collection.item_table.read(collection.item_table.schema.names).data.to_pylist()
    pictures = [path.read_bytes() for path in sorted(collection.items_dir.rglob("*.*"))]
    return [sorted(items, key=lambda row: row["id"]), collection.documents(), pictures]


def repair(home: Path) -> VerifyReport:
    def remake(damaged: Collection, paths: object) -> object:
        return add(Collection.open(damaged.directory), paths)  # pyright: ignore[reportArgumentType]

    return verify(open_damaged(home), repair=True, prepare=lambda _: remake)


def newest(home: Path, pattern: str) -> Path:
    return max((home / "index").glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def oldest_manifest(home: Path) -> Path:
    return max((home / "index").glob("files.lance/_versions/*.manifest"))


def newest_data(home: Path) -> Path:
    return newest(home, "files.lance/data/*.lance")


FLIPPED: dict[str, Callable[[Path], Path]] = {
    "header": lambda home: home / "collection.json",
    "copy of the header": lambda home: home / "index" / "collection.json",
    "records": lambda home: home / "index" / "items.files",
    "older version": oldest_manifest,
    "newest version": lambda home: min((home / "index").glob("items.lance/_versions/*.manifest")),
    "data": lambda home: newest(home, "items.lance/data/*.lance"),
    "picture": lambda home: next((home / "items").rglob("*.*")),
    "hint": lambda home: home / "index" / "items.lance" / "_versions" / "latest_version_hint.json",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLIPPED)
def test_a_flipped_bit_is_found_named_and_repaired(home: Path, name: str) -> None:
    before = content(home)
    path = FLIPPED[name](home)
    flip(path)
    named = path.relative_to(home).as_posix()
    report = verify(open_damaged(home))
    assert named in {problem.file for problem in report.problems if problem.kind is ProblemKind.DAMAGE}
    assert not report.ok
    assert verify(open_damaged(home)).problems == report.problems, "looking changes nothing"

    repaired = repair(home)
    assert (repaired.ok, repaired.open) == (True, ()), repaired.problems
    assert not any(problem.deleted for problem in repaired.problems)
    assert content(home) == before


@pytest.mark.slow
@pytest.mark.parametrize("table", ["items", "files"])
def test_a_table_that_is_cut_off_is_written_anew_from_what_can_be_read(home: Path, table: str) -> None:
    before = content(home)
    for path in (home / "index").glob(f"{table}.lance/data/*.lance"):
        os.truncate(path, path.stat().st_size // 2)
    repaired = repair(home)
    assert repaired.repaired
    items, _, pictures = content(home)
    assert (items, pictures) == (before[0], before[2]), repaired.problems


@pytest.mark.usefixtures("no_sources")
def test_a_picture_is_repaired_without_its_document_where_one_bit_was_flipped(home: Path) -> None:
    before = content(home)
    flip(next((home / "items").rglob("*.*")))
    assert repair(home).open == ()
    assert content(home) == before


@pytest.mark.parametrize(
    ("table", "column", "value", "columns", "message"),
    [
        ("item_table", "text_source", "ocr", ["text_source"], "The media of passage 1 of 'a.txt' ("),
        ("item_table", "document_name", "b.txt", ["document", "document_name"], "The file name of 'b.txt' ("),
        ("file_table", "size", 9, ["size"], "The file of 'a.txt' ("),
        ("file_table", "id", "9", ["id"], "The entry of 'a.txt' ("),
        ("item_table", "kind", "\x1b[2J", ["kind"], "The entry of 'a.txt' ("),
    ],
)
def test_a_damaged_row_is_named_by_its_document(
    home: Path, table: str, column: str, value: object, columns: list[str], message: str
) -> None:
    name = "document_name" if table == "item_table" else "name"
    getattr(Collection.open(home), table).update(f"{name} = 'a.txt'", {column: value})
    with pytest.raises(CollectionError) as error:
        getattr(Collection.open(home), table).read(columns)
    assert str(error.value).startswith(message)
    assert error.value.hint == "Run: vrag index verify --repair"


def test_a_damaged_picture_is_named_by_its_document(home: Path) -> None:
    flip(next((home / "items").rglob("*.*")))
    collection = Collection.open(home)
    (id,) = (row["id"] for row in collection.scan(["id", "image"]).data.to_pylist() if row["image"])
    with pytest.raises(
        CollectionError, match=r"picture of c_1 .*(damaged|cannot be opened).*verify --repair"
    ):
        collection.image(id)


@pytest.mark.usefixtures("no_sources")
def test_what_cannot_be_made_again_is_kept_and_listed(home: Path) -> None:
    collection = Collection.open(home)
    collection.item_table.update("text LIKE '%ferry%'", {"text": "The ferry sails at mine."})
    with pytest.raises(
        CollectionError, match=r"text of passage 1 of 'a\.txt' .* is damaged.*verify --repair"
    ):
        Collection.open(home).scan(["text"])

    repaired = repair(home)
    damaged, reason = repaired.open
    assert "checksum of its text" in damaged.detail
    assert (reason.subject, damaged.document) == ("a.txt", reason.document)
    assert "kept as far as it can be read" in reason.detail
    collection = Collection.open(home)
    assert "The ferry sails at mine." in collection.scan(["text"]).data["text"].to_pylist()
    states = {document.name: document.status for document in collection.documents()}
    assert (states["a.txt"], states["b.txt"]) == (DocumentStatus.PARTIAL, DocumentStatus.READY)
    assert verify(collection).problems == ()


@pytest.mark.usefixtures("no_sources")
def test_an_item_that_cannot_be_told_nor_made_again_is_deleted_and_not_called_repaired(home: Path) -> None:
    collection = Collection.open(home)
    before = len(collection.catalog().ids)
    collection.item_table.update("text LIKE '%ferry%'", {"ordinal": "7"})
    repaired = repair(home)
    assert len(Collection.open(home).catalog().ids) == before - 1
    gone = [problem for problem in repaired.problems if problem.item]
    assert gone
    assert all(problem.repaired and problem.deleted for problem in gone)
    assert "1 items were damaged beyond reading, and are gone" in repaired.open[0].detail


@pytest.mark.usefixtures("no_sources")
def test_a_damaged_picture_without_its_document_stays_where_it_is(home: Path) -> None:
    picture = next((home / "items").rglob("*.*"))
    data = picture.read_bytes()[:-100]
    picture.write_bytes(data)
    assert not repair(home).ok
    assert picture.read_bytes() == data
    collection = Collection.open(home)
    [item] = [item for item in collection.items(collection.catalog().ids).values() if item.image]
    with pytest.raises(CollectionError, match=r"checksum .*does not match"):
        collection.image(item.id)


@pytest.mark.slow
@pytest.mark.usefixtures("no_sources")
def test_pictures_whose_rows_are_lost_stay(home: Path) -> None:
    pictures = sorted((home / "items").rglob("*.*"))
    for path in (home / "index").glob("items.lance/data/*.lance"):
        os.truncate(path, path.stat().st_size // 2)
    assert not repair(home).ok
    assert sorted((home / "items").rglob("*.*")) == pictures


def test_leftovers_are_no_damage(home: Path) -> None:
    (home / "items" / "stray.jpg").write_bytes(b"x")
    report = verify(open_damaged(home))
    assert (report.ok, report.worst) == (True, ProblemKind.LEFTOVER)
    repaired = repair(home)
    assert repaired.worst is None
    assert [(problem.repaired, problem.deleted) for problem in repaired.problems] == [(True, True)]


def test_rows_of_an_earlier_version_get_their_checksums(home: Path) -> None:
    before = content(home)
    header = json.loads((home / "collection.json").read_bytes())
    del header["checksum"]
    (home / "collection.json").write_text(json.dumps(header, indent=2))
    collection = Collection.open(home)
    collection.item_table.update("true", {"checksums": None, "name_checksum": None})
    collection.file_table.update("true", {"checksums": None})
    report = verify(open_damaged(home))
    assert (report.ok, report.worst) == (True, ProblemKind.UNPROTECTED)
    assert repair(home).problems
    assert verify(open_damaged(home)).problems == ()
    assert content(home) == before


@pytest.mark.parametrize(("size", "commits"), [(1 << 20, 1), (1, 3)])
def test_checksums_are_added_in_commits_of_limited_size(
    home: Path, monkeypatch: pytest.MonkeyPatch, size: int, commits: int
) -> None:
    monkeypatch.setattr(repair_module, "_BATCH_ROWS", 1)
    monkeypatch.setattr(repair_module, "_BATCH_BYTES", size)
    collection = Collection.open(home)
    collection.item_table.update("true", {"checksums": None})
    before = collection.table_version
    repair(home)
    assert Collection.open(home).table_version == before + commits
    assert verify(collection).problems == ()


@pytest.fixture
def unlockable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No collection can be locked."""

    def lock(_: LocalLocation, wait: float | None = None) -> None:
        raise CollectionError("It is write-protected.")

    monkeypatch.setattr(LocalLocation, "lock", lock)


@pytest.mark.slow
@pytest.mark.usefixtures("unlockable")
@pytest.mark.parametrize(
    ("gone", "kind"), [(oldest_manifest, ProblemKind.LEFTOVER), (newest_data, ProblemKind.DAMAGE)]
)
def test_without_the_lock_a_deletion_that_did_not_end_is_no_damage(
    home: Path, gone: Callable[[Path], Path], kind: ProblemKind
) -> None:
    """Files that the newest version needs are never deleted."""
    with suppress(KeyboardInterrupt), recorded_deletion(home / "index" / "files.lance"):
        gone(home).unlink()
        raise KeyboardInterrupt
    report = verify(open_damaged(home))
    assert (report.worst, report.ok) == (kind, kind is ProblemKind.LEFTOVER), report.problems


@pytest.mark.usefixtures("unlockable")
@pytest.mark.parametrize("writes", [1, 1000])
def test_what_a_writer_changes_meanwhile_is_no_damage(
    home: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    written: list[int] = []

    def check(table: Path, records: Iterable[FileRecord]) -> list[FileFault]:
        if table.stem == "items" and len(written) < writes:
            written.append(1)
            writer = Collection.open(home).item_table
            writer.delete("false")
            writer.compact(timedelta(milliseconds=1))
        return check_files(table, records)

    monkeypatch.setattr(inspection, "check_files", check)
    if writes == 1:
        assert verify(open_damaged(home)).problems == ()
        return
    with pytest.raises(CollectionBusy, match="while it was checked"):
        verify(open_damaged(home))


@pytest.mark.usefixtures("unlockable")
def test_a_collection_that_cannot_be_locked_is_checked(home: Path) -> None:
    assert verify(open_damaged(home)).problems == ()
    with pytest.raises(CollectionError, match="write-protected"):
        verify(open_damaged(home), repair=True)


@pytest.mark.parametrize("table", ["files", "items"])
@pytest.mark.parametrize(
    "lost", ["table", "all manifests", pytest.param("newest manifest", marks=pytest.mark.slow)]
)
def test_a_lost_table_or_manifest_is_found_and_no_item_is_deleted(home: Path, table: str, lost: str) -> None:
    before = content(home)
    directory = home / "index" / f"{table}.lance"
    manifests = sorted((directory / "_versions").glob("*.manifest"))  # the newest first
    if lost == "table":
        shutil.rmtree(directory)
    for manifest in () if lost == "table" else manifests if lost == "all manifests" else manifests[:1]:
        manifest.unlink()
    assert ProblemKind.DAMAGE in {problem.kind for problem in verify(open_damaged(home)).problems}
    repair(home)
    assert content(home)[0] == before[0]
    assert content(home)[2] == before[2]
    documents = Collection.open(home).documents()
    assert {document.name for document in documents} == {"a.txt", "b.txt", "c.png"}
    assert not verify(open_damaged(home)).problems


def newest_manifest(home: Path, table: str) -> Path:
    return min((home / "index").glob(f"{table}.lance/_versions/*.manifest"))


def cut(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.slow
@pytest.mark.usefixtures("no_sources")
@pytest.mark.parametrize("table", ["files", "items"])
@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_the_newest_manifest_is_put_back_from_its_copy(
    home: Path, table: str, damage: Callable[[Path], None]
) -> None:
    before, manifest = content(home), newest_manifest(home, table)
    written = manifest.read_bytes()
    damage(manifest)
    repaired = repair(home)
    assert repaired.problems
    assert (repaired.ok, repaired.open) == (True, ()), repaired.problems
    assert not any(problem.deleted for problem in repaired.problems)
    assert content(home) == before
    assert manifest.read_bytes() == written


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_damaged_copy_of_a_manifest_is_a_leftover_and_written_anew(
    home: Path, damage: Callable[[Path], None]
) -> None:
    copy = home / "index" / "items.manifest"
    damage(copy)
    (problem,) = verify(open_damaged(home)).problems
    assert (problem.kind, problem.file) == (ProblemKind.LEFTOVER, "index/items.manifest")
    repaired = repair(home)
    assert (repaired.worst, repaired.problems[0].repaired) == (None, True)
    assert copy.read_bytes() == newest_manifest(home, "items").read_bytes()
    assert verify(open_damaged(home)).problems == ()


def test_tables_of_an_earlier_version_need_no_copies_of_manifests(home: Path) -> None:
    for path in (*(home / "index").glob("*.manifest"), *(home / "index").glob("*.files")):
        path.unlink()
    problems = verify(open_damaged(home)).problems
    assert {problem.kind for problem in problems} == {ProblemKind.UNPROTECTED}


@pytest.mark.slow
@pytest.mark.usefixtures("no_sources")
def test_items_that_are_lost_with_a_manifest_and_its_copy_are_not_called_repaired(home: Path) -> None:
    cut(newest_manifest(home, "items"))
    (home / "index" / "items.manifest").unlink()
    found = repair(home)
    lost = {problem.subject for problem in found.open if problem.document}
    assert lost == {"b.txt", "c.png"}, found.problems
    assert any(
        not problem.repaired and problem.detail.startswith("It has 0 items instead of 1. Missing")
        for problem in found.problems
    )
    assert not found.ok


def test_a_table_that_was_being_replaced_is_put_back(home: Path) -> None:
    before = content(home)
    (home / "index" / "files.lance").rename(home / "index" / ".files.lance.former")
    assert content(home) == before


@pytest.mark.slow
def test_a_table_that_is_written_anew_goes_on_with_the_numbers_of_its_versions(home: Path) -> None:
    reader = Collection.open(home)
    version = reader.table_version
    newest(home, "items.lance/data/*.lance").write_bytes(b"")
    repair(home)
    assert reader.table_version > version
    assert reader.items([row["id"] for row in content(home)[0]])  # pyright: ignore


def test_a_copy_of_an_earlier_header_is_a_leftover(home: Path) -> None:
    from vrag.index.integrity.sealed_json import seal_json

    copy = home / "index" / "collection.json"
    copy.write_bytes(seal_json({**json.loads(copy.read_bytes()), "corpus_fingerprint": "earlier"}))
    assert {problem.kind for problem in verify(open_damaged(home)).problems} == {ProblemKind.LEFTOVER}
    repair(home)
    assert not verify(open_damaged(home)).problems
