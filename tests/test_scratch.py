"""Directories for a while: a killed process's are removed, a live one's never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from vrag.index.collection import Collection
from vrag.scratch import remove_abandoned, scratch_directory

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from vrag.scratch import scratch_directory
with scratch_directory() as directory:
    (directory / "file").write_text("content")
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files, in this process and its children."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", os.fspath(folder))
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(folder))
    return folder


def hold() -> subprocess.Popen[bytes]:
    """Start a process that holds a scratch directory, with a file in it."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.mark.slow
def test_a_killed_process_leaves_what_the_next_one_removes_and_a_live_one_keeps_its_own(folder: Path) -> None:
    live, victim = hold(), hold()
    try:
        assert len(list(folder.iterdir())) == 2
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        remove_abandoned()
        (left,) = folder.iterdir()
        assert (left / "file").read_text() == "content"
    finally:
        live.communicate()
        victim.communicate()
    assert live.returncode == 0
    assert not list(folder.iterdir())


def test_foreign_directories_and_links_stay(folder: Path, tmp_path: Path) -> None:
    mine = folder / "vrag-scratch-mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine", encoding="utf-8")
    os.utime(mine, (0, 0))
    target = tmp_path / "target"
    target.mkdir()
    (target / ".vrag-scratch").touch()
    (folder / "vrag-scratch-link").symlink_to(target)
    with scratch_directory() as first, scratch_directory() as second:
        remove_abandoned()
        assert first.is_dir()
        assert second.is_dir()
    assert sorted(path.name for path in folder.iterdir()) == ["vrag-scratch-link", "vrag-scratch-mine"]
    assert (target / ".vrag-scratch").exists()


@pytest.mark.parametrize("names", [[], [".vrag-scratch.lock"]])
def test_a_directory_without_a_lock_is_removed_once_it_is_old(folder: Path, names: list[str]) -> None:
    new, old = folder / "vrag-scratch-new", folder / "vrag-scratch-old"
    for directory in (new, old):
        directory.mkdir()
        for name in names:
            (directory / name).touch()
    os.utime(old, (0, 0))
    remove_abandoned()
    assert list(folder.iterdir()) == [new]


@pytest.mark.slow
def test_who_writes_to_a_collection_removes_what_killed_writers_left(folder: Path, tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "collection")
    torn = [collection.directory / ".served.json.0123abcd", collection.cache_dir / ".cache.json.89abcdef"]
    kept = [collection.directory / ".note.txt", collection.cache_dir / ".cache.keep"]
    collection.cache_dir.mkdir()
    for path in torn + kept:
        path.write_text("{", encoding="utf-8")
    build = collection.cache_dir / ".vrag-scratch-x"
    build.mkdir()
    (build / ".vrag-scratch").touch()
    victim = hold()
    victim.kill()
    victim.communicate()
    assert list(folder.iterdir())
    with collection.build():
        pass
    assert not [path for path in (*torn, build) if path.exists()]
    assert all(path.exists() for path in kept)
    assert not list(folder.iterdir())
