"""Backups: what they hold, and what of them is copied.

Backups under load and hundreds of moments of kills: `benchmarks/backups.py`.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_conversion import contents
from filled_collection import age, files_below, restored

from vrag import atomic_io
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups import objects
from vrag.index.backups.backup import BackupReport, back_up
from vrag.index.backups.check import check_backups
from vrag.index.backups.objects import ObjectWriter
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection


def test_a_restored_collection_is_the_one_that_was_backed_up(filled: Collection, backups: Path) -> None:
    report = back_up(filled, backups)
    copy = restored(backups)
    made = report.snapshot
    assert contents(copy) == contents(filled)
    assert (made.content_version, made.documents, made.items, made.runs) == (copy.content_version, 4, 8, 2)
    own, other = files_below(filled.directory), files_below(copy.directory)
    assert other["runs/2/events.jsonl"] == b'{"type":"a"}\n'  # whole lines of a run in progress
    left_out = {
        name for name in own if name.split("/")[0] in {"cache", "lock", "index"} or name.endswith("/lock")
    }
    kept = own.keys() - left_out - {"runs/2/events.jsonl"}
    assert kept == {name for name in other if not name.startswith("index/")} - {"runs/2/events.jsonl"}
    assert all(own[name] == other[name] for name in kept)
    status = (filled.directory / "uploads" / "sent.txt").stat()
    assert (copy.directory / "uploads" / "sent.txt").stat().st_mtime_ns == status.st_mtime_ns


def test_what_is_stored_is_not_read_again(filled: Collection, backups: Path, docs: Path) -> None:
    first = back_up(filled, backups)
    second = back_up(filled, backups)
    assert (second.read, second.snapshot.added_bytes) == (1, 0)  # the torn run
    assert second.snapshot.bytes == first.snapshot.bytes
    (docs / "c.txt").write_text("pic five")
    add(filled, [docs])
    third = back_up(filled, backups)
    stored = BackupStore(backups).objects.sizes()
    assert 0 < third.snapshot.added_bytes < first.snapshot.added_bytes
    assert sum(stored.values()) == first.snapshot.added_bytes + third.snapshot.added_bytes
    assert restored(backups, second.snapshot.name).content_version == second.snapshot.content_version
    assert contents(restored(backups)) == contents(filled)


def test_content_is_stored_once_under_any_name(filled: Collection, backups: Path, tmp_path: Path) -> None:
    back_up(filled, backups)
    copy = shutil.copytree(filled.directory, tmp_path / "moved")
    with pytest.raises(CollectionError, match="another collection"):
        back_up(Collection.open(copy), backups)
    assert back_up(Collection.open(copy), backups, moved=True).snapshot.added_bytes == 0


def test_a_full_disk_loses_nothing_and_the_next_backup_continues(
    filled: Collection, backups: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(filled, backups).snapshot
    (docs / "c.txt").write_text("\n".join(f"pic {number}" for number in range(9)))
    add(filled, [docs])
    age(filled.directory)
    monkeypatch.setattr(objects, "_BATCH_FILES", 4)
    added: list[str] = []

    def add_until(limit: int) -> Any:  # noqa: ANN401
        def add_object(self: ObjectWriter, source: Any, name: str, *sizes: int) -> Any:  # noqa: ANN401
            added.append(name)
            if len(added) > limit:
                patch.setattr(objects, "_copy", full)
            return original(self, source, name, *sizes)

        original = ObjectWriter.add
        return add_object

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(ObjectWriter, "add", add_until(9))
        with pytest.raises(CollectionError, match="No space left") as error:
            back_up(filled, backups)
    assert "it continues" in error.value.hint
    assert BackupStore(backups).names() == [first.name]
    assert check_backups(backups).problems == ()
    stored, added = added[:8], []  # two batches
    with monkeypatch.context() as patch:
        patch.setattr(ObjectWriter, "add", add_until(99))
        back_up(filled, backups)
    assert added
    assert not set(stored) & set(added)
    assert contents(restored(backups)) == contents(filled)


def test_a_backup_is_on_the_disk_whatever_the_durability_of_the_collection(
    filled: Collection, backups: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.open(filled.directory, durable=False)
    (docs / "c.txt").write_text("pic five")
    add(collection, [docs])
    synced: set[int] = set()

    def sync_handle(handle: int, original: Callable[[int], None] = atomic_io.sync_handle) -> None:
        synced.add(os.fstat(handle).st_ino)
        original(handle)

    monkeypatch.setattr(atomic_io, "sync_handle", sync_handle)
    back_up(collection, backups)
    paths = [path for path in backups.rglob("*") if path.name not in {"lock", "backups.json"}]
    assert len(paths) > 20
    assert {path.name for path in paths if path.stat().st_ino not in synced} == set()


@pytest.mark.parametrize("place", [".", "backups", "..", "../.."])
def test_backups_and_collection_lie_apart(filled: Collection, place: str) -> None:
    with pytest.raises(CollectionError, match="may contain the other"):
        back_up(filled, filled.directory / place)
    assert not (filled.directory.parent / "backups.json").exists()


def test_a_directory_of_something_else_is_refused(filled: Collection, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(CollectionError, match=r"not empty \(cat\.jpg\)"):
        back_up(filled, tmp_path / "photos")
    with pytest.raises(CollectionError, match="cannot be written to"):
        back_up(filled, tmp_path / "photos" / "cat.jpg" / "backups")


def test_one_process_writes_to_the_backups(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    with BackupStore(backups).lock(), pytest.raises(CollectionBusy, match="Another process"):
        back_up(filled, backups, wait=0.01)


def test_only_the_newest_backups_are_kept(filled: Collection, backups: Path, docs: Path) -> None:
    reports: list[BackupReport] = []
    for number in range(3):
        (docs / "c.txt").write_text(f"pic {number}")
        add(filled, [docs])
        reports.append(back_up(filled, backups, keep=2))
    names = [report.snapshot.name for report in reports]
    store = BackupStore(backups)
    assert store.names() == names[1:]
    assert reports[-1].deleted == (names[0],)
    assert reports[-1].freed_bytes > 0
    listed = {file.sha256 for name in names[1:] for file in store.read(name)[1]}
    assert set(store.objects.sizes()) == listed
    for name in names[1:]:
        assert restored(backups, name).content_version == store.read(name)[0].content_version


def test_the_newest_backup_is_the_last_one_made_whatever_the_clock_says(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(filled, backups).snapshot
    monkeypatch.setattr(time, "time", lambda: first.created - 3600)
    second = back_up(filled, backups, keep=1).snapshot
    assert BackupStore(backups).names() == [second.name]
