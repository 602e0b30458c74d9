"""The check of backups: what it finds, and what is stored again."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_conversion import contents
from filled_collection import contents_of, files_below, flip, flip_bit, restored

from vrag.index.backups.backup import back_up
from vrag.index.backups.check import check_backups
from vrag.index.collection import Collection


def test_every_flip_is_found_set_aside_and_stored_again(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    names = [flip(backups, part) for part in ("blobs/", "uploads/early", "runs/blobs/")]
    problems = check_backups(backups).problems
    assert {problem.file for problem in problems} >= set(names)
    assert all("is damaged" in problem.detail for problem in problems)
    assert {problem.detail.split()[-1] for problem in check_backups(backups).problems} == {"missing."}
    back_up(filled, backups)
    assert check_backups(backups).problems == ()
    assert contents(restored(backups)) == contents(filled)


def test_what_is_truncated_or_missing_is_stored_again(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    one, *_, other = contents_of(backups).values()
    one.write_bytes(one.read_bytes()[:-1])
    other.unlink()
    assert len(check_backups(backups).problems) >= 2
    back_up(filled, backups)
    assert check_backups(backups).problems == ()


@pytest.mark.parametrize(("part", "file"), [("backup.json", ""), ("collection.db", "collection.db")])
def test_a_damaged_snapshot_is_found(filled: Collection, backups: Path, part: str, file: str) -> None:
    name = back_up(filled, backups).snapshot.name
    flip_bit(backups / name / part)
    (problem,) = check_backups(backups).problems
    assert (problem.snapshots, problem.file) == ((name,), file)


def test_backups_on_a_read_only_disk_are_checked(filled: Collection, backups: Path) -> None:
    back_up(filled, backups)
    name = flip(backups, "blobs/")
    (backups / "lock").unlink()
    (backups / "lock").mkdir()  # no lock can be made
    before = files_below(backups)
    assert [problem.file for problem in check_backups(backups).problems] == [name]
    assert files_below(backups) == before
