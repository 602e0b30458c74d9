"""A directory of backups: the names of snapshots, other versions, and what is pruned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import files_below, flip_bit, flip_pages, restored

from vrag.errors import CollectionError
from vrag.index.backups import snapshot
from vrag.index.backups import store as store_module
from vrag.index.backups.backup import back_up
from vrag.index.backups.store import BackupStore
from vrag.index.collection import Collection


def test_a_snapshot_is_named_by_its_beginning(filled: Collection, backups: Path) -> None:
    first, second = (back_up(filled, backups).snapshot.name for _ in range(2))
    store = BackupStore(backups)
    assert (store.find(first), store.find("last")) == (first, second)
    with pytest.raises(CollectionError, match="2 snapshots have names"):
        store.find("20")
    with pytest.raises(CollectionError, match="No snapshot has a name"):
        store.find("1999")


def test_what_another_version_made_is_refused(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "FORMAT", 3)
        patch.setattr(store_module, "FORMAT", 3)
        back_up(filled, backups)
    with pytest.raises(CollectionError, match="newer version"):
        BackupStore.open(backups)
    (backups / "backups.json").write_text('{"format": 2}')
    with pytest.raises(CollectionError, match="newer version"):
        restored(backups)
    (backups / "backups.json").write_text('{"format": 1}')
    with pytest.raises(CollectionError, match="an earlier version"):
        back_up(filled, backups)


class TestPruning:
    @pytest.mark.parametrize(("file", "damage"), [("backup.json", flip_bit), ("collection.db", flip_pages)])
    def test_nothing_is_deleted_while_a_snapshot_cannot_be_read(
        self, filled: Collection, backups: Path, file: str, damage: Callable[[Path], None]
    ) -> None:
        name = back_up(filled, backups).snapshot.name
        path = backups / name / file
        damage(path)
        store = BackupStore(backups)
        before = set(store.blobs.names())
        report = back_up(filled, backups, keep=5)
        assert report.prune_failure.startswith("Nothing was deleted: ")
        assert name in report.prune_failure
        assert (report.deleted, report.snapshot.name in store.names()) == ((), True)
        assert contents(restored(backups)) == contents(filled)
        with store.lock(), pytest.raises(CollectionError, match="Nothing was deleted"):
            store.prune(5)
        assert before <= set(store.blobs.names())
        damage(path)
        assert not back_up(filled, backups, keep=5).prune_failure

    def test_fewer_backups_than_are_kept_stay(self, filled: Collection, backups: Path) -> None:
        names = [back_up(filled, backups).snapshot.name for _ in range(3)]
        back_up(filled, backups, keep=5)
        assert BackupStore(backups).names()[:3] == names

    def test_leftovers_go(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        before = set(files_below(backups))
        store, unused = BackupStore(backups), "ab" * 32
        leftovers = (
            f"blobs/ab/{unused}", "blobs/staged/7-1", ".20260101-000000-000000.partial/collection.db",
            ".20260101-000000-000000.deleted/backup.json", ".backups.json.0123abcd",
        )  # fmt: skip
        for name in leftovers:
            (backups / name).parent.mkdir(exist_ok=True)
            (backups / name).write_bytes(b"of a killed backup")
        with store.lock():
            assert store.prune(9) == ((), 18)
        assert set(files_below(backups)) == before
