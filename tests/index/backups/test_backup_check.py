"""The check of backups: what it finds, and what is stored again."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import files_below, flip, restored

from vrag.index.backups.backup import back_up
from vrag.index.backups.check import check_backups
from vrag.index.backups.store import BackupStore
from vrag.index.collection import Collection


def test_every_flip_is_found_set_aside_and_stored_again(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    names = [flip(backups, part) for part in ("items/", "index/files.lance/_versions", "runs/1/meta")]
    problems = check_backups(backups).problems
    assert {problem.file for problem in problems} >= set(names)
    assert all("is damaged" in problem.detail for problem in problems)
    assert {problem.detail.split()[-1] for problem in check_backups(backups).problems} == {"missing."}
    back_up(filled, backups)
    assert check_backups(backups).problems == ()
    assert contents(restored(backups)) == contents(filled)


def test_what_is_truncated_or_missing_is_stored_again(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    store = BackupStore(backups)
    one, other = (store.objects.path(file.sha256) for file in store.read(store.find("last"))[1][:2])
    one.write_bytes(one.read_bytes()[:-1])
    other.unlink()
    back_up(filled, backups)
    assert check_backups(backups).problems == ()


def test_a_damaged_snapshot_is_found(filled: Collection, backups: Path) -> None:
    name = back_up(filled, backups).snapshot.name
    path = backups / "snapshots" / f"{name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    (problem,) = check_backups(backups).problems
    assert (problem.snapshots, problem.file) == ((name,), "")


def test_backups_on_a_read_only_disk_are_checked(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(filled, backups)
    name = flip(backups, "items/")
    (backups / "lock").unlink()
    (backups / "lock").mkdir()  # no lock can be made
    before = files_below(backups)
    assert [problem.file for problem in check_backups(backups).problems] == [name]
    assert files_below(backups) == before
