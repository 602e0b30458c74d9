"""`vrag index backup`, `backups` and `restore` as a person or a script uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import vrag
from PIL import Image

from vrag.atomic_io import one_writer
from vrag.errors import VragError
from vrag.index.backups.store import BackupStore

if TYPE_CHECKING:
    from pathlib import Path


def test_a_collection_is_backed_up_and_asked_after_it_is_restored(home: Path) -> None:
    done = vrag(home, "index", "backup", "backups")
    assert done.status == 0, done.err
    assert "1 documents, 1 items, 0 runs" in done.out
    vrag(home, "ask", "How many passengers did the ferry carry?")
    made = vrag(home, "index", "backup", "backups", "--keep", "1", "--json").json
    assert made["snapshot"]["runs"] == 1
    assert len(made["deleted"]) == 1
    listed = vrag(home, "index", "backups", "backups", "--check", "--json").json
    assert [snapshot["name"] for snapshot in listed["snapshots"]] == [made["snapshot"]["name"]]
    assert listed["problems"] == []
    done = vrag(home, "index", "restore", "backups", "restored")
    assert done.status == 0, done.err
    assert "48,200" in vrag(home, "ask", "How many passengers did the ferry carry?", "-c", "restored").out
    assert vrag(home, "index", "restore", "backups", "restored").status == 1


def test_a_check_counts_what_is_stored_and_not_files(home: Path) -> None:
    (home / "copy.md").write_bytes((home / "notes.md").read_bytes())
    vrag(home, "index", "backup", "backups")
    checked = vrag(home, "index", "backups", "backups", "--check").out
    stored = len(list(BackupStore(home / "backups").blobs.names()))
    assert f"Checked {stored} stored contents of 1 backup; equal files share one" in checked


@pytest.mark.parametrize("command", ["backups", "restore"])
def test_the_directory_that_is_read_is_not_called_a_destination(home: Path, command: str) -> None:
    text = vrag(home, "index", command, "--help").out
    assert "BACKUPS" in text
    assert "DEST" not in text


def test_damage_has_an_exit_status(home: Path) -> None:
    vrag(home, "index", "backup", "backups")
    for path in (home / "backups").glob("*/collection.db"):
        if path.is_file() and path.stat().st_size:
            path.write_bytes(b"x" + path.read_bytes()[1:])
    done = vrag(home, "index", "backups", "backups", "--check")
    assert done.status == 1
    assert "is damaged" in done.out
    done = vrag(home, "index", "restore", "backups", "restored", "--json")
    assert done.status == 1
    assert "is damaged in the backup" in done.json["failure"]
    assert not (home / "restored").exists()


def test_the_hint_of_a_partial_restore_leads_to_the_restored_collection(home: Path) -> None:
    vrag(home, "ask", "How many passengers did the ferry carry?")
    vrag(home, "index", "backup", "backups")
    store = BackupStore(home / "backups")
    run = next(file for file in store.read(store.find("last")).files if file.name.startswith("runs/"))
    store.blobs.path(run.sha256).write_bytes(b"damaged")
    done = vrag(home, "index", "restore", "backups", "restored", "--partial")
    assert done.status == 1
    assert f"Run: vrag index verify --collection {home / 'restored'} --repair, then" in done.out


def test_a_picture_that_is_missing_is_listed_with_each_command(home: Path) -> None:
    Image.new("RGB", (40, 30)).save(home / "ship.png")
    vrag(home, "index", "add", "ship.png")
    (path,) = (home / "collection" / "blobs").glob("??/*")
    path.unlink()
    done = vrag(home, "index", "backup", "backups")
    assert done.status == 1
    assert f"{path.name}: It was missing in the collection" in done.out
    assert "The collection is damaged. Run: vrag index verify" in done.out
    assert "the collection was damaged" in vrag(home, "index", "backups", "backups").out
    done = vrag(home, "index", "restore", "backups", "restored")
    assert done.status == 1
    assert f"{path.name}: It was missing in the collection" in done.out
    assert f"Run: vrag index verify --collection {home / 'restored'} --repair" in done.out
    assert vrag(home, "index", "verify", "-c", "restored").status == 1


def test_a_backup_is_searched_in_place_and_not_changed(home: Path) -> None:
    made = vrag(home, "index", "backup", "backups", "--json").json["snapshot"]["name"]
    place = f"backups/{made}"
    assert "48,200" in vrag(home, "ask", "How many passengers did the ferry carry?", "-c", place).out
    (home / "more.md").write_text("more")
    for command in (("add", "more.md"), ("verify", "--repair"), ("remove", "notes.md"), ("compact",)):
        done = vrag(home, "index", *command, "-c", place)
        assert done.status == 1
        assert "is a backup and read-only" in done.err
    assert sorted(path.name for path in (home / place).iterdir()) == ["backup.json", "collection.db"]


def test_a_backup_is_reported_even_if_older_ones_cannot_be_deleted(home: Path) -> None:
    vrag(home, "index", "backup", "backups")
    (old,) = (home / "backups").glob("*/backup.json")
    old.write_bytes(b"damaged")
    done = vrag(home, "index", "backup", "backups", "--keep", "2")
    assert done.status == 1
    assert f"Backup {BackupStore(home / 'backups').names()[-1]} in " in done.out
    assert f"Nothing was deleted: The snapshot {old.parent} is damaged" in done.out
    done = vrag(home, "index", "backups", "backups", "--keep", "2")
    assert done.status == 1
    assert "Nothing was deleted" in done.err


def test_old_backups_are_deleted_without_a_new_one(home: Path) -> None:
    for _ in range(3):
        vrag(home, "index", "backup", "backups")
    done = vrag(home, "index", "backups", "backups", "--keep", "1")
    assert (done.status, len(BackupStore(home / "backups").names())) == (0, 1)
    assert "Deleted 2 backups" in done.out


def test_a_busy_directory_has_the_status_of_a_busy_collection(home: Path) -> None:
    vrag(home, "index", "backup", "backups")
    with BackupStore(home / "backups").lock():
        for command in ("backup", "backups --check", "backups --keep 1"):
            name, *options = command.split()
            assert vrag(home, "index", name, "backups", *options, "--wait", "0").status == 4
    with one_writer(home / ".restored.lock", VragError("not held")):
        assert vrag(home, "index", "restore", "backups", "restored").status == 4


@pytest.mark.parametrize("address", ["s3://bucket/reports", "qdrant://host/x"])
def test_object_storage_is_no_directory(home: Path, address: str) -> None:
    done = vrag(home, "index", "backup", address)
    assert done.status == 1
    assert "vrag index publish" in done.err.replace("\n", " ")
    assert not (home / address.split("/", 1)[0]).exists()
