from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from PIL import Image

from vrag.errors import CollectionBusy
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact
from vrag.index.schema import file_rows
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_conversion import FakeConversion

pytestmark = pytest.mark.usefixtures("conversion")

Damage = "Callable[[Collection], object]"


def first_document(collection: Collection) -> str:
    return collection.documents()[0].id


def lose_a_row(collection: Collection) -> None:
    collection.item_table.delete(f"id = '{first_document(collection)[:16]}-2'")


def lose_all_rows(collection: Collection) -> None:
    collection.item_table.delete(f"document = '{first_document(collection)}'")


def double_a_row(collection: Collection) -> None:
    table = collection.item_table
    rows = table.read(table.schema.names, f"id = '{first_document(collection)[:16]}-2'").data
    table.append(rows)


def lose_the_manifest_row(collection: Collection) -> None:
    collection.file_table.delete(f"id = '{first_document(collection)}'")


def lose_a_picture(collection: Collection) -> None:
    next(collection.items_dir.rglob("*.png")).unlink()


def spoil_a_picture(collection: Collection) -> None:
    next(collection.items_dir.rglob("*.png")).write_bytes(b"junk")


def exchange_a_picture(collection: Collection) -> None:
    Image.new("RGB", (5, 5)).save(next(collection.items_dir.rglob("*.png")))


def lead_a_picture_out(collection: Collection) -> None:
    collection.item_table.update("image IS NOT NULL", {"image": "../../etc/passwd"})


def rename_a_row(collection: Collection) -> None:
    collection.item_table.update("ordinal = 2", {"id": "another-2"})


def cut_text(collection: Collection) -> None:
    collection.item_table.update("image IS NOT NULL", {"text": "p"})


def leave_a_picture(collection: Collection) -> None:
    (collection.items_dir / "stray.jpg").write_bytes(b"x")


DAMAGES = {
    lose_a_row: "has 2 items instead of 3",
    lose_all_rows: "has 0 items instead of 3",
    double_a_row: "more than once",
    lose_the_manifest_row: "no entry in the list of files",
    lose_a_picture: "picture is missing",
    spoil_a_picture: "cannot be opened",
    exchange_a_picture: "is 5×5, not 40×30",
    lead_a_picture_out: "outside",
    rename_a_row: "not that of its document",
    cut_text: "outside of its text",
    leave_a_picture: "No item uses this picture",
}


@pytest.fixture
def filled(collection: Collection, folder: Path) -> Collection:
    (folder / "a.txt").write_text("one\npic two\nthree")
    (folder / "b.txt").write_text("four\n!five")
    add(collection, [folder])
    return collection


def test_a_sound_collection_has_no_problems(filled: Collection) -> None:
    report = verify(filled)
    assert report.ok
    assert (report.files, report.items, report.pictures, report.repaired) == (2, 4, 1, False)


@pytest.mark.parametrize(
    ("damage", "told"), DAMAGES.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_damage_is_told_and_repair_and_add_heal_it(
    filled: Collection, folder: Path, damage: Callable[[Collection], object], told: str
) -> None:
    sound = contents(filled)
    damage(filled)

    report = verify(filled)
    assert any(told in problem.detail for problem in report.problems), report.problems
    assert verify(filled).problems == report.problems, "looking changes nothing"

    assert verify(filled, repair=True).repaired
    add(filled, [folder])
    assert verify(filled).problems == ()
    assert contents(filled) == sound


def test_repair_makes_only_what_is_missing(
    filled: Collection, folder: Path, conversion: FakeConversion
) -> None:
    lose_a_row(filled)
    verify(filled, repair=True)
    conversion.made.clear()
    assert add(filled, [folder]).items == 1
    assert len(conversion.made) == 1


def test_what_is_under_way_is_no_damage(filled: Collection) -> None:
    document = filled.documents()[0]
    row = type(document)(
        path="/elsewhere.txt", id="c" * 64, name="c", size=1, mtime_ns=1, status=DocumentStatus.PENDING
    )
    filled.file_table.upsert(file_rows([(row, 0)]), "key")
    assert verify(filled).ok


def test_not_while_another_writes(filled: Collection) -> None:
    with filled.lock(), pytest.raises(CollectionBusy):
        verify(Collection.open(filled.directory))


def test_compact_clears_what_belongs_to_nothing_and_loses_nothing(filled: Collection) -> None:
    from datetime import timedelta

    sound = contents(filled)
    (filled.items_dir / "0123456789abcdef").mkdir()
    (filled.items_dir / "0123456789abcdef" / "1.jpg").write_bytes(b"x" * 100_000)
    (next(filled.items_dir.rglob("*.png")).parent / "9.png.tmp").write_bytes(b"x")
    report = compact(filled, timedelta(milliseconds=1))
    assert contents(filled) == sound
    assert report.bytes_before - report.bytes_after > 100_000
    assert verify(filled).ok
