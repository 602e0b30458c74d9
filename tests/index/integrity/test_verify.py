"""Verification of a collection: what is wrong is named, and what is under way is not wrong."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from PIL import Image
from stored_items import blob_path, delete_items, put_blob, put_files

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity import verification
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import compact, remove
from vrag.types import Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_conversion import FakeConversion

    from vrag.index.integrity.problems import VerifyReport
    from vrag.types import Item

pytestmark = pytest.mark.usefixtures("conversion")


def page(collection: Collection) -> Item:
    """The one item with a picture."""
    ids = collection.store.read_items(["id"], "image IS NOT NULL").column("id")
    return collection.item(*ids)


def lose_a_row(collection: Collection) -> None:
    delete_items(collection, page(collection).id)


def lose_all_rows(collection: Collection) -> None:
    delete_items(collection, *collection.store.read_items(["id"], "text != 'four'").column("id"))


def lose_a_picture(collection: Collection) -> None:
    blob_path(collection, page(collection).image).unlink()


def spoil_a_picture(collection: Collection) -> None:
    blob_path(collection, page(collection).image).write_bytes(b"junk")


def exchange_a_picture(collection: Collection) -> None:
    with blob_path(collection, page(collection).image).open("wb") as file:
        Image.new("RGB", (5, 5)).save(file, "PNG")


DAMAGES: dict[Callable[[Collection], None], str] = {
    lose_a_row: "It has 2 of 3 items.",
    lose_all_rows: "It has 0 of 3 items.",
    lose_a_picture: "Its picture is missing.",
    spoil_a_picture: "Its picture is damaged.",
    exchange_a_picture: "Its picture is damaged.",
}


@pytest.fixture
def filled(collection: Collection, folder: Path) -> Collection:
    (folder / "a.txt").write_text("one\npic two\nthree")
    (folder / "b.txt").write_text("four\n!five")
    add(collection, [folder])
    return collection


def check(collection: Collection, *, repair: bool = False) -> VerifyReport:
    return verify(LocalLocation(collection.directory), repair=repair)


def test_a_sound_collection_has_no_problems(filled: Collection) -> None:
    report = check(filled)
    assert (report.ok, report.problems) == (True, ())
    assert (report.files, report.items, report.pictures, report.repaired) == (2, 4, 1, False)


@pytest.mark.parametrize(
    ("damage", "told"), DAMAGES.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_damage_is_told_and_repair_and_add_heal_it(
    filled: Collection, folder: Path, damage: Callable[[Collection], object], told: str
) -> None:
    sound = contents(filled)
    damage(filled)

    report = check(filled)
    assert [problem.detail for problem in report.problems] == [told]
    assert not report.ok
    assert check(filled).problems == report.problems, "looking changes nothing"

    assert check(filled, repair=True).repaired
    add(filled, [folder])
    assert check(filled).problems == ()
    assert contents(filled) == sound


def test_repair_makes_only_what_is_missing(
    filled: Collection, folder: Path, conversion: FakeConversion
) -> None:
    lose_a_row(filled)
    check(filled, repair=True)
    conversion.made.clear()
    assert add(filled, [folder]).items == 1
    assert len(conversion.made) == 1


def test_what_is_under_way_is_no_damage(filled: Collection) -> None:
    row = Document(
        path="/elsewhere.txt", id="c" * 64, name="c", size=1, mtime_ns=1, status=DocumentStatus.PENDING
    )
    put_files(filled, [(row, 0)])
    put_blob(filled, b"of an item that is not committed yet")
    assert check(filled).problems == ()


def test_leftovers_are_no_damage(filled: Collection) -> None:
    sound = contents(filled)
    old = time.time() - 7200
    os.utime(blob_path(filled, put_blob(filled, b"stray")), (old, old))
    report = check(filled)
    assert (report.ok, report.worst) == (True, ProblemKind.LEFTOVER)
    repaired = check(filled, repair=True)
    assert (repaired.worst, [problem.repaired for problem in repaired.problems]) == (None, [True])
    assert check(filled).problems == ()
    assert contents(filled) == sound


@pytest.mark.parametrize("act", [remove, compact])
def test_what_a_writer_changes_meanwhile_is_no_damage(
    filled: Collection, monkeypatch: pytest.MonkeyPatch, act: Callable[..., object]
) -> None:
    inspect = verification.check_caches
    targets = [["a.txt"]] if act is remove else []

    def inspect_later(place: Path) -> object:
        with closing(Collection.open(filled.directory)) as other:
            act(other, *targets)
        return inspect(place)

    monkeypatch.setattr(verification, "check_caches", inspect_later)
    assert check(filled).problems == ()


def test_not_while_another_writes(filled: Collection) -> None:
    with filled.build():
        assert check(filled).ok, "looking needs no lock"
        with pytest.raises(CollectionBusy):
            check(filled, repair=True)


def test_a_collection_that_cannot_be_written_to_is_checked(
    filled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.close()
    before = {path: path.is_file() and path.read_bytes() for path in filled.directory.rglob("*[!m]")}
    for folder in (filled.directory, *filled.directory.rglob("*")):
        folder.chmod(0o555 if folder.is_dir() else 0o444)

    def is_allowed(_: Path, mode: int) -> bool:
        return mode & os.W_OK == 0

    monkeypatch.setattr(os, "access", is_allowed)
    assert check(filled).problems == ()
    now = {path: path.is_file() and path.read_bytes() for path in filled.directory.rglob("*[!m]")}
    assert now == before
    image = blob_path(filled, page(filled).image)
    image.parent.chmod(0o755)
    image.unlink()
    assert not check(filled).ok
    with pytest.raises(CollectionError):
        check(filled, repair=True)


def test_there_is_no_collection(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="no collection"):
        verify(LocalLocation(tmp_path / "elsewhere"))


def test_compact_clears_what_belongs_to_nothing_and_loses_nothing(filled: Collection) -> None:
    sound = contents(filled)
    old = time.time() - 7200
    os.utime(blob_path(filled, put_blob(filled, b"x" * 100_000)), (old, old))
    (filled.directory / "blobs" / "staged").mkdir(exist_ok=True)
    staged = filled.directory / "blobs" / "staged" / "1-ab"
    staged.write_bytes(b"x")
    os.utime(staged, (old, old))
    report = compact(filled)
    assert contents(filled) == sound
    assert report.bytes_before - report.bytes_after > 100_000
    assert not staged.exists()
    assert check(filled).ok
