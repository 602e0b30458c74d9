"""Restored collections, and what is not restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import AT_ONCE, files_below, flip, restored

from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups.backup import back_up
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact, remove


def test_copies_of_manifests_are_not_backed_up_but_made_anew(filled: Collection, backups: Path) -> None:
    copies = {"index/files.manifest", "index/items.manifest"}
    name = back_up(filled, backups).snapshot.name
    stored = {file.name for file in BackupStore.open(backups).read(name)[1]}
    copy = restored(backups)
    assert copies <= files_below(filled.directory).keys() - stored
    assert copies <= files_below(copy.directory).keys()
    assert not any(problem.file in copies for problem in verify(copy).problems)


def test_a_restored_collection_is_written_to_like_any_other(
    filled: Collection, backups: Path, docs: Path
) -> None:
    back_up(filled, backups)
    copy = restored(backups)
    (docs / "c.txt").write_text("pic five")
    assert add(copy, [docs]).added == 1
    remove(copy, ["a.txt"])
    compact(copy, keep=AT_ONCE)
    assert verify(copy).ok
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
    (tmp_path / ".new.partial" / "index").mkdir(parents=True)  # of a killed restoring
    restore(backups, tmp_path / "new")
    assert contents(Collection.open(tmp_path / "new")) == contents(filled)
    assert not (tmp_path / ".new.partial").exists()


def test_damage_is_named_with_what_it_belongs_to(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    flip(backups, "items/")
    target = tmp_path / "new"
    with pytest.raises(CollectionError, match=r"items/\w+/1\.png \(a picture of (a|b|sent)\.txt\)") as error:
        restore(backups, target)
    assert "--partial" in error.value.hint
    assert not target.exists()
    report = restore(backups, target, partial=True)
    assert len(report.missing) == 1
    assert not verify(Collection.open(target)).ok


def test_a_damaged_table_is_never_restored(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    flip(backups, "index/items.lance/data/")
    with pytest.raises(CollectionError, match=r"\(the table items\)") as error:
        restore(backups, tmp_path / "new", partial=True)
    assert "--partial" not in error.value.hint


@pytest.mark.parametrize("name", ["../out", "/etc/out", "items/../../out", "", "a\\b", "C:/out"])
def test_no_name_leads_out_of_the_directory(
    filled: Collection, backups: Path, tmp_path: Path, name: str
) -> None:
    snapshot = back_up(filled, backups).snapshot
    store = BackupStore(backups)
    files = store.read(snapshot.name)[1]
    changed = store.write(snapshot, [*files, files[0]._replace(name=name)])
    with pytest.raises(CollectionError, match="outside of the collection"):
        restore(backups, tmp_path / "new", changed.name)
    changed = store.write(snapshot, [files[0]._replace(sha256=f"../../{name}")])
    with pytest.raises(CollectionError, match="is damaged"):
        restore(backups, tmp_path / "new", changed.name)
