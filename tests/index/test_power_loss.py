"""A loss of power at a sync point: what was acknowledged is there, and the next run makes the rest."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from fake_conversion import contents
from sqlite_files import watch_files
from stored_items import location_of
from sync_recorder import Disk, SyncRecorder, write_disk

from vrag.agent.budget import StopReason
from vrag.agent.events import RunFailed
from vrag.agent.runs.event_log import EventLog
from vrag.agent.runs.run_store import RunStore
from vrag.atomic_io import make_directory
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact, prune, remove
from vrag.index.store import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from fake_conversion import FakeConversion

STATES = 24


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[SyncRecorder]:
    if sys.platform == "win32":
        pytest.skip("Windows does not sync folders.")
    (tmp_path / "disk").mkdir()
    recorder = SyncRecorder(tmp_path / "disk")
    files = watch_files(monkeypatch, synced=recorder.sync)
    monkeypatch.setattr(os, "fsync", recorder.fsync)
    yield recorder
    monkeypatch.undo()
    files.unregister()
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


@pytest.mark.slow
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
        lambda: compact(collection),
    ]
    for number, step in enumerate(steps):
        write_files(folder, min(number, 1))
        step()
        disk.done()
    collection.close()
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
        if not done and not (copy / "collection" / DATABASE).exists():
            continue  # the collection was not even created
        with closing(Collection.open(copy / "collection")) as again:
            report = verify(location_of(again))
            assert report.ok, (number, done, report.problems)
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


@pytest.mark.parametrize("durable", [True, False])
def test_an_event_of_a_run_is_on_the_disk_with_its_files_before_anybody_is_shown_it(
    disk: SyncRecorder, durable: bool, tmp_path: Path
) -> None:
    picture = hashlib.sha256(b"a message").hexdigest()
    with RunStore(disk.root / "runs", durable=durable).record() as run:
        log = EventLog(run.id, run.save)
        log.save_file(f"{picture}.json", b"a message")
        event = log.add(RunFailed, boundary="Test", message="Why", stop_reason=StopReason.CANCELLED)
        disk.done()
        run.write(event)
        disk.done()
        certain, _ = disk.states[-2]
    write_disk(certain, tmp_path / "after")
    assert (certain.get(f"runs/blobs/{picture[:2]}/{picture}") == b"a message") == durable
    rows = RunStore(tmp_path / "after" / "runs").rows()
    assert [row.outcome for row in rows] == (["failed"] if durable else [])


def test_a_new_folder_is_on_the_disk_with_its_parents(disk: SyncRecorder) -> None:
    make_directory(disk.root / "a" / "b")
    disk.done()
    assert disk.states[-2][0] == {"a": None, "a/b": None}
