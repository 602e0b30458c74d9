"""How files are held where the file system has no hard links, or the collection is not ours."""

from __future__ import annotations

import errno
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from fake_conversion import contents
from filled_collection import change_content, files_below, restored

from vrag.errors import CollectionError
from vrag.index.backups.backup import back_up
from vrag.index.backups.capture import StateCapture
from vrag.index.backups.store import BackupStore
from vrag.index.collection import Collection
from vrag.index.maintenance import compact
from vrag.scratch import scratch_directory


def refuse(*_: object) -> None:
    raise OSError(errno.EPERM, "refused")


@pytest.fixture(params=["no hard links", "no links", "nothing may be written to the collection"])
def limits(request: pytest.FixtureRequest, filled: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_inside(parent: Path, *, hidden: bool) -> AbstractContextManager[Path]:
        if parent == filled.directory:
            refuse()
        return scratch_directory(parent, hidden=hidden)

    if request.param.startswith("nothing"):
        monkeypatch.setattr("vrag.index.backups.held_files.scratch_directory", refuse_inside)
    else:
        monkeypatch.setattr("vrag.index.backups.held_files.os.link", refuse)
    if request.param == "no links":
        monkeypatch.setattr(Path, "symlink_to", refuse)


@pytest.mark.usefixtures("limits")
def test_the_backup_is_the_same(filled: Collection, backups: Path) -> None:
    before = files_below(filled.directory)
    back_up(filled, backups)
    assert files_below(filled.directory) == before
    assert contents(restored(backups)) == contents(filled)
    assert not list(filled.directory.glob(".vrag-*")) + list(backups.glob(".vrag-*"))


@pytest.mark.parametrize("first", ["index/", "items/"])
def test_a_full_disk_is_no_damage(
    filled: Collection, backups: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    def fill(source: Path, target: Path) -> None:
        if f"collection/{first}" in Path(target).as_posix():
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr("vrag.index.backups.held_files.os.link", refuse)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    monkeypatch.setattr("vrag.index.backups.held_files.shutil.copyfile", fill)
    with pytest.raises(CollectionError, match="No space left on device") as refused:
        back_up(filled, backups)
    assert "Free some disk space" in refused.value.hint
    assert BackupStore.open(backups).names() == []


def test_what_is_deleted_behind_a_symbolic_link_is_listed_anew(
    filled: Collection, backups: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateCapture._store  # pyright: ignore[reportPrivateUsage]
    attempts: list[object] = []

    def change_and_store(self: Any) -> None:  # noqa: ANN401
        if not attempts:
            change_content(Collection.open(filled.directory), docs, "documents, versions")
        attempts.append(self)
        store(self)

    monkeypatch.setattr("vrag.index.backups.held_files.os.link", refuse)
    monkeypatch.setattr(StateCapture, "_store", change_and_store)  # pyright: ignore[reportPrivateUsage]
    back_up(filled, backups)
    assert len(attempts) == 2
    assert contents(restored(backups)) == contents(filled)


def test_what_a_killed_backup_held_is_removed(filled: Collection, backups: Path) -> None:
    for parent, clean in (
        (filled.directory, lambda: back_up(filled, backups)),
        (backups, lambda: back_up(filled, backups)),
        (filled.directory, lambda: compact(filled)),
    ):
        left = parent / ".vrag-scratch-killed"
        left.mkdir()
        (left / ".vrag-scratch").touch()
        clean()
        assert not left.exists()
