"""Restored collections, and what is not restored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import files_below, flip, flip_bit, restored

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.backup import back_up
from vrag.index.backups.restore import restore
from vrag.index.backups.snapshot import format_description
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import compact, remove


def test_a_restored_collection_is_written_to_like_any_other(
    filled: Collection, backups: Path, docs: Path
) -> None:
    back_up(filled, backups)
    copy = restored(backups)
    (docs / "c.txt").write_text("pic five")
    assert add(copy, [docs]).added == 1
    remove(copy, ["a.txt"])
    compact(copy)
    assert verify(LocalLocation(copy.directory)).ok
    assert {document.name for document in copy.documents()} == {"b.txt", "c.txt", "early.txt", "sent.txt"}


def test_nothing_is_overwritten(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    before = files_below(filled.directory)
    with pytest.raises(CollectionError, match="not empty"):
        restore(backups, filled.directory)
    assert files_below(filled.directory) == before
    assert not list(filled.directory.parent.glob(".*"))


def test_one_process_restores_to_a_directory(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    refused: list[int] = []

    def restore_as_well(done: int, _: int) -> None:
        with pytest.raises(CollectionBusy, match="Another process is restoring"):
            restore(backups, tmp_path / "new")
        refused.append(done)

    restore(backups, tmp_path / "new", progress=restore_as_well)
    assert refused
    assert contents(Collection.open(tmp_path / "new")) == contents(filled)


def test_an_empty_directory_is_filled(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    (tmp_path / "new").mkdir()
    (tmp_path / ".new.partial" / "blobs").mkdir(parents=True)  # of a killed restoring
    restore(backups, tmp_path / "new")
    assert contents(Collection.open(tmp_path / "new")) == contents(filled)
    assert not list(tmp_path.glob(".new*")), "no lock file and nothing unfinished is left"


def test_damage_is_named_with_what_it_belongs_to(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    names = [flip(backups, "blobs/"), flip(backups, "runs/blobs/"), flip(backups, "uploads/early")]
    target = tmp_path / "new"
    with pytest.raises(CollectionError, match=r"blobs/\S+ \(a picture of (a|b|sent)\.txt\)") as error:
        restore(backups, target)
    assert re.search(r"runs/blobs/\S+ \(recorded runs\)", error.value.message)
    assert "uploads/early.txt (an uploaded file)" in error.value.message
    assert "--partial" in error.value.hint
    assert not target.exists()
    report = restore(backups, target, partial=True)
    assert len(report.missing) >= len(names)
    assert not any((target / name).exists() for name in names)
    assert not verify(LocalLocation(target)).ok


def test_a_damaged_database_is_never_restored(filled: Collection, backups: Path, tmp_path: Path) -> None:
    name = back_up(filled, backups).snapshot.name
    flip_bit(backups / name / "collection.db")
    with pytest.raises(CollectionError, match=f"Its database is damaged in the backup {name}") as error:
        restore(backups, tmp_path / "new", partial=True)
    assert "--partial" not in error.value.hint
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../out", "/etc/out", "items/../../out", "", "a\\b", "C:/out"])
def test_no_name_leads_out_of_the_directory(
    filled: Collection, backups: Path, tmp_path: Path, name: str
) -> None:
    store, made = BackupStore(backups), back_up(filled, backups).snapshot.name
    content = store.read(made)
    changed = [*content.files, content.files[0]._replace(name=name)]
    path = backups / made / "backup.json"
    path.write_bytes(format_description(content.snapshot, content.database, changed))
    with pytest.raises(CollectionError, match="outside of the collection"):
        restore(backups, tmp_path / "new", made)
    changed = [content.files[0]._replace(sha256=f"../../{name}")]
    path.write_bytes(format_description(content.snapshot, content.database, changed))
    with pytest.raises(CollectionError, match="is damaged"):
        restore(backups, tmp_path / "new", made)
