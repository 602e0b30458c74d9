"""A loss of power at a sync point: what was acknowledged is there, and the next run makes the rest.

A small share of `benchmarks/power_loss.py`, which records the writes of real processes.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from sync_recorder import Disk, SyncRecorder, write_disk

from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, prune, remove, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from fake_conversion import FakeConversion

STATES = 24
LEFTOVERS = ("It is the picture of no item.", "items belong to no file.")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[SyncRecorder]:
    if sys.platform == "win32":
        pytest.skip("Windows does not sync folders.")
    (tmp_path / "disk").mkdir()
    recorder = SyncRecorder(tmp_path / "disk")
    monkeypatch.setattr(os, "fsync", recorder.fsync)
    yield recorder
    monkeypatch.undo()
    recorder.close()


def write_files(folder: Path, version: int) -> None:
    """The files of a version, with the same times whenever they are written."""
    texts = {"a.txt": "pic one\ntwo", "b.txt": "three\nfour", "c.txt": "pic five"}
    if version >= 1:
        texts |= {"a.txt": "pic changed\nand longer", "d.txt": "pic six\npic seven"}
    if version >= 2:
        del texts["b.txt"]
    for path in folder.iterdir():
        path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
        os.utime(folder / name, ns=(10**18, 10**18 + len(text)))


def sample(disk: SyncRecorder) -> list[tuple[Disk, int]]:
    """Some of the states, the last among those that are the same."""
    last: dict[str, tuple[Disk, int]] = {}
    for state, steps in disk.states:
        last[hashlib.sha256(repr(sorted(state.items())).encode()).hexdigest()] = state, steps
    states = list(last.values())
    return random.Random(7).sample(states, min(STATES, len(states)))


def documents(collection: Collection) -> dict[str, tuple[str, str]]:
    return {d.name: (d.id, str(d.status)) for d in collection.documents() if d.status.served}


def test_what_was_acknowledged_survives_a_loss_of_power(
    disk: SyncRecorder, folder: Path, tmp_path: Path, conversion: FakeConversion
) -> None:
    place = disk.root / "collection"
    clean: list[tuple[dict[str, object], dict[str, tuple[str, str]]]] = []
    write_files(folder, 0)
    collection = Collection.create(place)
    steps: list[Callable[[], object]] = [
        lambda: add(collection, [folder]),
        lambda: add(collection, [folder]),
        lambda: remove(collection, [folder / "b.txt"]),
        lambda: compact(collection, timedelta(milliseconds=1)),
    ]
    for number, step in enumerate(steps):
        write_files(folder, min(number, 1))
        step()
        disk.done()
    for version in range(3):
        write_files(folder, version)
        built = Collection.create(tmp_path / f"clean{version}")
        add(built, [folder])
        clean.append((contents(built), documents(built)))
    for number, (state, done) in enumerate(sample(disk)):
        copy = tmp_path / f"state{number}"
        write_disk(state, copy)
        version = min(done, 2)
        write_files(folder, version)
        header = copy / "collection" / "collection.json"
        if not done and not (header.exists() and header.stat().st_size):
            continue  # the collection was not even created
        again = Collection.open(copy / "collection")
        problems = [problem.detail for problem in verify(again).problems]
        assert not [detail for detail in problems if not detail.endswith(LEFTOVERS)], (number, done)
        found = documents(again)
        before, after = clean[min(done - 1, 2)][1] if done else {}, clean[version][1]
        for name, document in before.items():
            assert found.get(name) in {document, after.get(name)}, (number, done)
        assert not [name for name in found if name not in before and name not in after], (number, done)
        prune(again)
        add(again, [folder])
        assert contents(again) == clean[version][0], (number, done)


def test_the_recorder_sees_what_was_not_synced(disk: SyncRecorder) -> None:
    path = disk.root / "file"
    with path.open("wb") as file:
        file.write(b"abc")
        file.flush()
        os.fsync(file.fileno())
        file.write(b"def")
    handle = os.open(disk.root, os.O_RDONLY)
    os.fsync(handle)
    (disk.root / "late").write_bytes(b"x")
    path.unlink()
    disk.done()
    os.close(handle)
    assert [state for state, _ in disk.states] == [
        {},
        {"file": b"abc"},
        {"file": b"abc"},
        {"file": b"abc\0\0\0"},
        {"file": b"abc"},
        {"late": b"\0"},
    ]
