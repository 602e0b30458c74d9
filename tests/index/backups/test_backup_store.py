"""A directory of backups: the names of snapshots, newer versions, and what is pruned."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import files_below, restored

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


def test_what_a_newer_version_made_is_refused(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "FORMAT", 2)
        patch.setattr(store_module, "FORMAT", 2)
        back_up(filled, backups)
    with pytest.raises(CollectionError, match="newer version"):
        BackupStore.open(backups)
    (backups / "backups.json").write_text('{"format": 1}')
    with pytest.raises(CollectionError, match="newer version"):
        restored(backups)


class TestPruning:
    def test_nothing_is_deleted_while_a_snapshot_cannot_be_read(
        self, filled: Collection, backups: Path
    ) -> None:
        name = back_up(filled, backups).snapshot.name
        path = backups / "snapshots" / f"{name}.jsonl"
        path.write_bytes(path.read_bytes().replace(b"items", b"itens"))
        store = BackupStore(backups)
        before = store.objects.sizes()
        report = back_up(filled, backups, keep=5)
        assert report.prune_failure.startswith(f"Nothing was deleted: The snapshot {path} is damaged.")
        assert (report.deleted, report.snapshot.name in store.names()) == ((), True)
        assert contents(restored(backups)) == contents(filled)
        with store.lock(), pytest.raises(CollectionError, match="Nothing was deleted"):
            store.prune(5)
        assert before.keys() <= store.objects.sizes().keys()
        path.unlink()
        assert not back_up(filled, backups, keep=5).prune_failure

    def test_fewer_backups_than_are_kept_stay(self, filled: Collection, backups: Path) -> None:
        names = [back_up(filled, backups).snapshot.name for _ in range(3)]
        back_up(filled, backups, keep=5)
        assert BackupStore(backups).names()[:3] == names

    def test_leftovers_go(self, filled: Collection, backups: Path) -> None:
        back_up(filled, backups)
        store, unused = BackupStore(backups), "ab" * 32
        store.objects.path(unused).parent.mkdir(exist_ok=True)
        store.objects.path(unused).write_bytes(b"of a killed backup")
        (backups / "objects" / ".part-1").touch()
        (backups / "snapshots" / ".2026.0123abcd").touch()
        (backups / "partial.jsonl").touch()
        before = set(files_below(backups))
        with store.lock():
            assert store.prune(9) == ((), 18)
        assert before - set(files_below(backups)) == {
            f"objects/ab/{unused}", "objects/.part-1", "snapshots/.2026.0123abcd", "partial.jsonl",
        }  # fmt: skip
