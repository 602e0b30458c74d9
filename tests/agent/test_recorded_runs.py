"""What is written of runs is durable, in order, and gone when it is deleted."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from test_run_checks import failed

from vrag.agent.runs import recorder
from vrag.agent.runs.run_store import RunState, RunStore
from vrag.errors import RunError
from vrag.storage.database import Database

if TYPE_CHECKING:
    from pathlib import Path

RECORDING = """
import hashlib, sys, threading
from pathlib import Path
from vrag.agent.events import InvalidAction
from vrag.agent.runs.run_store import RunStore

def record():
    with store.record() as log:
        for number in range(100_000):
            data = b"picture %d" % (number // 3)
            log.save(hashlib.sha256(data).hexdigest() + ".jpg", data)
            event = InvalidAction(run_id=log.id, seq=number, ts=1.0, step=0, reason="x" * 900)
            log.write(event)
            sys.stdout.write(f"{log.id} {number}\\n")
            sys.stdout.flush()

store = RunStore(Path(sys.argv[1]))
threads = [threading.Thread(target=record) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def do_nothing(_: RunStore) -> None:
    """Stands for a process that died."""


def files_of(directory: Path) -> bytes:
    """All bytes below a directory, and all names."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() + path.name.encode() for path in paths)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.3, 0.7, 1.1])
def test_a_killed_process_leaves_every_event_that_was_acknowledged(tmp_path: Path, moment: float) -> None:
    command = [sys.executable, "-c", RECORDING, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        check_killed(tmp_path, process, moment)


def check_killed(directory: Path, process: subprocess.Popen[str], moment: float) -> None:
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    store = RunStore(directory)
    assert {store.state_of(row) for row in store.rows()} == {RunState.RUNNING}
    killer = threading.Timer(moment, process.kill)
    killer.start()
    lines += list(process.stdout)
    assert process.wait() == -signal.SIGKILL
    shown: dict[str, list[int]] = {}
    for run, number in (line.split() for line in lines if line.endswith("\n")):
        shown.setdefault(run, []).append(int(number))
    assert len(shown) == 8
    rows = {row.id: row for row in store.rows()}
    for run, numbers in shown.items():
        found = [
            int(seq)
            for (seq,) in store.files.select(
                "json_extract(CAST(data AS TEXT), '$.seq') FROM events JOIN runs ON runs.number = run "
                "WHERE id = ? ORDER BY events.number",
                [run],
            )
        ]
        assert found == list(range(len(found)))
        assert found[: len(numbers)] == numbers
        assert rows[run].events == len(found)
        assert store.state_of(rows[run]) is RunState.INTERRUPTED
        for name in store.file_names(run):
            assert store.read_file(run, *name.split("."))
    assert len(list((directory / "recording").iterdir())) == 1
    old = time.time() - 3600
    os.utime(next((directory / "recording").iterdir()), (old, old))
    store.sweep()
    assert list((directory / "recording").iterdir()) == []


def test_runs_that_wait_at_one_time_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, commits = RunStore(tmp_path), 0
    write = Database.write

    def count(self: Database, wait: float | None = None) -> object:
        nonlocal commits
        commits += 1
        time.sleep(0.02)  # as a disk does
        return write(self, wait)

    async def ask(number: int) -> str:
        with store.record() as log:
            await all_begun.wait()
            for seq in range(10):
                await log.awrite(failed(log.id, seq, f"{number}"))
                assert store.row(log.id).events == seq + 1  # type: ignore[union-attr]
        return log.id

    async def ask_all() -> list[str]:
        return await asyncio.gather(*map(ask, range(32)))

    all_begun = asyncio.Barrier(32)
    monkeypatch.setattr(Database, "write", count)
    runs = asyncio.run(ask_all())
    assert sorted(runs) == sorted(store.ids())
    assert {row.events for row in store.rows()} == {10}
    assert commits < 32 + 32 * 10 / 4, "32 for their beginnings"


def test_files_are_on_the_disk_before_the_event_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, absent = RunStore(tmp_path), list[list[str]]()
    name_files = recorder._name_files  # pyright: ignore[reportPrivateUsage]

    def check(connection: object, number: int, files: dict[str, bytes]) -> None:
        absent.append(store.files.blobs.absent(name.partition(".")[0] for name in files))
        name_files(connection, number, files)

    monkeypatch.setattr(recorder, "_name_files", check)
    with store.record() as log:
        log.save(f"{hashlib.sha256(b'a').hexdigest()}.jpg", b"a")
        log.write(failed(log.id, 0, ""))
    assert absent == [[], []]


def test_a_picture_that_a_deletion_removed_just_now_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, name = RunStore(tmp_path), f"{hashlib.sha256(b'a').hexdigest()}.jpg"
    with store.record() as first:
        first.save(name, b"a")
        first.write(failed(first.id, 0, ""))
    sync, synced = type(store.files.blobs).sync, list[int]()

    def sync_and_delete(blobs: object) -> None:
        sync(blobs)  # type: ignore[arg-type]
        if not synced:
            synced.append(1)
            store.delete(first.id)

    with store.record() as second:
        second.save(name, b"a")
        monkeypatch.setattr(type(store.files.blobs), "sync", sync_and_delete)
        second.write(failed(second.id, 0, ""))
    assert synced
    assert store.ids() == [second.id]
    assert store.read_file(second.id, name[:-4]) == b"a"


def test_a_deleted_run_leaves_no_byte(tmp_path: Path) -> None:
    """Runs are recorded at once, so that their rows lie between each other, and are long and short."""
    store = RunStore(tmp_path, durable=False)
    shared = b"shared picture"

    def record(number: int) -> str:
        word = f"Word{number:04}!"
        with store.record() as log:
            for seq in range(40):
                own = f"{word} picture {seq}".encode()
                for data in (own, shared):
                    log.save(f"{hashlib.sha256(data).hexdigest()}.jpg", data)
                log.write(failed(log.id, seq, word + "x" * (seq * 37 % 1100) + word))
        store.change_meta(log.id, title=f"{word} title")
        store.change_meta(log.id, title=f"{word} another and longer title")
        return log.id

    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(record, range(24)))
    for number, run in list(enumerate(runs))[::3]:
        word = f"Word{number:04}!".encode()
        picture = hashlib.sha256(word + b" picture 3").hexdigest().encode()
        assert word in files_of(tmp_path)
        assert picture in files_of(tmp_path)
        store.delete(run)
        assert word not in files_of(tmp_path)
        assert not store.files.blobs.path(picture.decode()).exists()
    for run in store.ids():
        assert store.row(run).events == 40  # type: ignore[union-attr]
        assert store.read_file(run, hashlib.sha256(shared).hexdigest()) == shared
    assert len(store.ids()) == 16


def test_a_deletion_whose_process_died_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, data = RunStore(tmp_path), b"Unique"
    with store.record() as log:
        log.save(f"{hashlib.sha256(data).hexdigest()}.jpg", data)
        log.write(failed(log.id, 0, "Unique"))
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "erase", do_nothing)
        store.delete(log.id)
    assert data in files_of(tmp_path)
    store.sweep()
    assert data not in files_of(tmp_path)


def test_space_of_deleted_runs_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.agent.runs.run_database._MIN_VACUUM_BYTES", 100_000)
    store = RunStore(tmp_path)
    runs: list[str] = []
    for _ in range(3):
        with store.record() as log:
            log.write(failed(log.id, 0, "x" * 100_000))
        runs.append(log.id)
    before = store.files.path.stat().st_size
    store.delete(runs[0])
    assert store.files.path.stat().st_size == before
    store.delete(runs[1])
    assert store.files.path.stat().st_size < before / 2
    assert len(store.files.select("1 FROM events")) == 1
    store.delete(runs[2])


def test_a_run_in_progress_cannot_be_deleted(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with store.record() as log, pytest.raises(RunError, match="in progress"):
        store.delete(log.id)
    store.delete(log.id)
    assert store.ids() == []


def test_an_interrupted_run_is_known_while_others_are_recorded(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with store.record() as other:
        with store.record() as log:
            assert store.state(log.id, ended=False) is RunState.RUNNING
        assert store.state(log.id, ended=False) is RunState.INTERRUPTED
        assert store.state(other.id, ended=False) is RunState.RUNNING


def test_two_runs_of_one_id_are_refused_and_other_runs_are_not(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.add("a1", [failed("a1", 0, "")], {})
    with pytest.raises(RunError, match="There is a run a1 already"):
        store.add("a1", [failed("a1", 0, "")], {})
    with pytest.raises(RunError, match="There is a run a1 already"), store.record(run="a1"):
        pass
    assert store.ids() == ["a1"]


def test_a_store_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    store.add("a1", [failed("a1", 0, "")], {})
    other = RunStore(tmp_path / "other")
    other.add("b2", [failed("b2", 0, "")], {})
    store.directory.rename(tmp_path / "old")
    assert store.ids() == []
    other.directory.rename(store.directory)
    assert store.ids() == ["b2"]
    store.add("c3", [failed("c3", 0, "")], {})
    assert store.ids() == ["c3", "b2"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_not_be_written_to_is_read(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    store.add("a1", [failed("a1", 0, "")], {})
    store.directory.chmod(0o500)
    try:
        assert RunStore(store.directory, durable=False).ids() == ["a1"]
    finally:
        store.directory.chmod(0o700)
