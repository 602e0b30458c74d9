"""Backups: what they hold, and what of them is copied.

Backups under load and hundreds of moments of kills: `benchmarks/durability`.
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
from filled_collection import age, contents_of, files_below, restored, run_contents

from vrag import atomic_io
from vrag.errors import CollectionBusy, CollectionError
from vrag.index.backups import capture
from vrag.index.backups.backup import BackupReport, back_up
from vrag.index.backups.check import check_backups
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import status
from vrag.index.opening import open_collection
from vrag.search.engine import Engine
from vrag.storage.blobs import BlobStore
from vrag.storage.connection import has_checksums
from vrag.types import Query


def test_a_restored_collection_is_the_one_that_was_backed_up(filled: Collection, backups: Path) -> None:
    report = back_up(filled, backups)
    copy = restored(backups)
    made = report.snapshot
    assert contents(copy) == contents(filled)
    assert (made.content_version, made.documents, made.items, made.runs) == (copy.content_version, 4, 8, 2)
    own, other = files_below(filled.directory), files_below(copy.directory)
    kept = {name for name in own if name.startswith(("uploads", "blobs", "runs/blobs", "served"))}
    assert kept == {name for name in other if not name.startswith(("collection.db", "runs/runs.db"))}
    assert all(own[name] == other[name] for name in kept)
    assert run_contents(copy) == run_contents(filled)
    status = (filled.directory / "uploads" / "sent.txt").stat()
    assert (copy.directory / "uploads" / "sent.txt").stat().st_mtime_ns == status.st_mtime_ns


def test_a_backup_is_a_collection_that_is_only_read(filled: Collection, backups: Path, docs: Path) -> None:
    directory = backups / back_up(filled, backups).snapshot.name
    before = files_below(backups)
    with pytest.raises(CollectionError, match="read-only"):
        Collection.open(directory)
    copy = open_collection(directory)
    assert contents(copy) == contents(filled)
    hit = Engine(copy).search([Query("three")], 1)[0][0]
    assert copy.image(hit.item).size == filled.image(hit.item).size
    assert status(copy).bytes == BackupStore(backups).read(directory.name).snapshot.bytes
    (docs / "c.txt").write_text("pic five")
    for act in (lambda: add(copy, [docs]), copy.store.compact, lambda: back_up(copy, backups)):
        with pytest.raises(CollectionError, match="read-only"):
            act()
    assert files_below(backups) == before
    assert has_checksums(directory / "collection.db")


def test_what_is_stored_is_not_read_again(filled: Collection, backups: Path, docs: Path) -> None:
    first = back_up(filled, backups)
    second = back_up(filled, backups)
    assert (second.read, second.snapshot.added_bytes) == (1, 0)  # the torn run
    assert second.snapshot.bytes == first.snapshot.bytes
    (docs / "c.txt").write_text("-\n-\n-\n-\npic five")
    add(filled, [docs])
    third = back_up(filled, backups)
    store = BackupStore(backups)
    database = store.database(third.snapshot.name).stat().st_size
    assert database < third.snapshot.added_bytes < first.snapshot.added_bytes
    inodes = {path.stat().st_ino: path for path in backups.glob("*/**/*") if path.name != "backup.json"}
    sizes = [path.stat().st_size for path in inodes.values() if path.is_file()]
    assert sum(sizes) == first.snapshot.added_bytes + third.snapshot.added_bytes
    assert restored(backups, second.snapshot.name).content_version == second.snapshot.content_version
    assert contents(restored(backups)) == contents(filled)


def test_a_damaged_database_is_not_linked_to(filled: Collection, backups: Path) -> None:
    first = back_up(filled, backups).snapshot.name
    path = BackupStore(backups).database(first)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    back_up(filled, backups)
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
    monkeypatch.setattr(capture, "_BATCH_FILES", 4)
    added: list[object] = []

    def put_until(limit: int) -> Any:  # noqa: ANN401
        def put(self: BlobStore, *arguments: Any, original: Any = BlobStore.put_stream) -> Any:  # noqa: ANN401
            if len(added) == limit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            added.append(original(self, *arguments))
            return added[-1]

        return put

    monkeypatch.setattr(BlobStore, "put_stream", put_until(6))
    with pytest.raises(CollectionError, match="No space left") as error:
        back_up(filled, backups)
    assert "it continues" in error.value.hint
    assert BackupStore(backups).names() == [first.name]
    assert check_backups(backups).problems == ()
    stored, added[:] = added[:4], []  # one batch
    monkeypatch.setattr(BlobStore, "put_stream", put_until(99))
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
    left_out = {"lock", "backups.json", "staged"}
    paths = [path for path in backups.rglob("*") if path.name not in left_out]
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
        (docs / "c.txt").write_text(f"pic {number}\n" * (6 - number))
        add(filled, [docs])
        reports.append(back_up(filled, backups, keep=2))
    names = [report.snapshot.name for report in reports]
    store = BackupStore(backups)
    assert store.names() == names[1:]
    assert reports[-1].deleted == (names[0],)
    assert reports[-1].freed_bytes > 0
    needed = {sha256 for name in names[1:] for sha256 in store.contents(store.read(name)).values()}
    assert set(store.blobs.names()) == needed > {path.name for path in contents_of(backups).values()}
    for name in names[1:]:
        assert restored(backups, name).content_version == store.read(name).snapshot.content_version


def test_the_newest_backup_is_the_last_one_made_whatever_the_clock_says(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(filled, backups).snapshot
    monkeypatch.setattr(time, "time", lambda: first.created - 3600)
    second = back_up(filled, backups, keep=1).snapshot
    assert BackupStore(backups).names() == [second.name]
