"""Network drives: refused, unless their owner allows them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from vrag.errors import CollectionError
from vrag.index.collection import Collection
from vrag.storage import drives
from vrag.storage.drives import ALLOWED, describe_network_drive

if TYPE_CHECKING:
    from pathlib import Path


def mount(directory: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file system of a directory listed with a type, among others and a line that is damaged."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = [
        "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw",
        "damaged",
        f"36 35 {number} / /mnt/a\\040b rw,noatime master:1 - {kind} server:/export rw,vers=4.2",
    ]
    mounts = directory / "mountinfo"
    mounts.write_text("\n".join(lines))
    monkeypatch.setattr(drives, "_MOUNTS", mounts)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_drive_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mount(tmp_path, kind, monkeypatch)
    place = tmp_path / "collection"
    with pytest.raises(CollectionError, match="network drive") as refused:
        Collection.create(place)
    assert "publish" in str(refused.value.hint)
    assert [path.name for path in place.iterdir()] == []
    (place / ALLOWED).touch()
    Collection.create(place).close()
    (place / ALLOWED).unlink()
    with pytest.raises(CollectionError, match=kind):
        Collection.open(place)


@pytest.mark.parametrize("kind", ["ext4", "overlay", "fuse.lxcfs", "9p"])
def test_other_file_systems_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mount(tmp_path, kind, monkeypatch)
    assert describe_network_drive(tmp_path) == ""
    Collection.create(tmp_path / "collection").close()


def test_what_is_not_known_is_no_network_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drives, "_MOUNTS", tmp_path / "none")
    assert describe_network_drive(tmp_path) == ""
    assert describe_network_drive(tmp_path / "none") == ""
