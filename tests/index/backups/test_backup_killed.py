"""Backups in another process, killed. The study with a load and 50 kills is `benchmarks/durability`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents

from vrag.index.backups.backup import back_up
from vrag.index.backups.check import check_backups
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


CHILD = """
import os, sys
from pathlib import Path
from vrag.index.collection import Collection
from vrag.index.backups import capture
from vrag.index.backups.backup import back_up
calls = 0
def count(call):
    def counted(*arguments, **named):
        global calls
        calls += 1
        if calls == int(sys.argv[3]):
            print("reached", flush=True)
            sys.stdin.read()
        return call(*arguments, **named)
    return counted
capture._BATCH_FILES = 4
for name in ("link", "fsync", "replace", "rename", "unlink"):
    setattr(os, name, count(getattr(os, name)))
back_up(Collection.open(sys.argv[1]), Path(sys.argv[2]), keep=2)
"""
MOMENTS = (3, 30, 55)
"""Calls to the operating system in front of which a backup is killed: while it lists, copies and deletes."""


def test_a_killed_backup_leaves_the_others_and_the_next_one_continues(
    tmp_path: Path, collection: Collection, folder: Path, conversion: object
) -> None:
    backups = tmp_path / "backups"
    store = BackupStore(backups)
    (folder / "a.txt").write_text("pic one\npic two")
    add(collection, [folder])
    back_up(collection, backups)
    for moment in MOMENTS:
        (folder / f"{moment}.txt").write_text(f"pic one\npic {moment}\n" * moment)
        add(collection, [folder])
        before = store.names()
        command = [sys.executable, "-c", CHILD, str(collection.directory), str(backups), str(moment)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"reached\n"
            os.kill(child.pid, signal.SIGKILL)
        assert set(store.names()) >= set(before[-1:])
        assert check_backups(backups).problems == ()
        back_up(collection, backups, keep=2)
        restore(backups, tmp_path / f"restored{moment}")
        assert contents(Collection.open(tmp_path / f"restored{moment}")) == contents(collection)
    needed = {sha256 for name in store.names() for sha256 in store.contents(store.read(name)).values()}
    assert set(store.blobs.names()) == needed
    assert sum(path.is_file() for path in backups.rglob("*")) == len(needed) + 2 * len(store.names()) + 2
