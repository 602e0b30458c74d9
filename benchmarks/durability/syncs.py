"""What is on the disk, and when: the writes and syncs of real processes, recorded by strace.

A process adds, replaces and removes documents, compacts, backs up, records and deletes runs, and serves
uploads. From its writes and syncs two things are known:

1. *Order.* No page that holds a row which names a blob is written to a log or a database before that blob,
   its name and its folders are on the disk.
2. *Loss of power.* Before and after every sync and every acknowledgement, and between them, the disk is
   made as a loss of power may leave it: all that was not synced lost; names there, data lost or zeros; a
   random part of both there. Each state is opened, and what had been acknowledged is there; after the next
   run it equals a clean build.

And the collector: while documents are added whose blobs exist already, old and named by nothing, another
process deletes such blobs again and again. What was put again survives.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault
from benchmarks.durability.files import (
    ADDED,
    REMOVED,
    REPLACED,
    by_document,
    find_differences,
    read_content,
    write_documents,
)
from benchmarks.durability.operations import back_up_closed, build, find_damage, read_closed
from benchmarks.durability.processes import Child, compute, void
from benchmarks.durability.recorded import (
    RUNS,
    SCRIPT,
    event_of,
    find_run_damage,
    record_run,
    script_run,
    send,
    serve,
)
from benchmarks.durability.recording import MARKS, Recording, losses, materialize, record
from vrag.agent.runs.run_store import RunStore
from vrag.errors import CollectionError, RunError
from vrag.index.backups.check import find_problems
from vrag.index.backups.store import BackupStore
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, prune
from vrag.index.schema import KnownFile

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.durability.faults import Faults
    from benchmarks.durability.operations import Bench

VERSIONS = (0, ADDED, REPLACED, REMOVED)
UPLOADS = {"one.txt": b"An upload about ferries.\n" * 20, "two.md": b"# Two\n\nAnother upload.\n" * 20}
_NAME = re.compile(rb"[0-9a-f]{64}")
OLD_SECONDS = 10**9


def tell_story(disk: Path, documents: Path) -> None:
    """Do what is recorded, and mark what is acknowledged."""
    marks = os.open(disk.with_name(MARKS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def mark(text: str) -> None:
        os.write(marks, f"{text}\n".encode())

    collection = disk / "collection"
    for version in VERSIONS:
        write_documents(documents, version)
        mark(f"begin {version}")
        build_and_prune(collection, documents)
        mark(f"done {version}")
        if version == ADDED:
            back_up_closed(collection, disk / "backups", None)
            mark("backup 1")
    with closing(Collection.open(collection)) as opened:
        compact(opened)
    back_up_closed(collection, disk / "backups", None)
    mark("backup 2")
    steps = pickle.loads(disk.with_name("steps").read_bytes())
    store = RunStore(collection / "runs", collection)
    for run in RUNS:
        record_run(store, run, steps, mark)
    mark(f"deleting {RUNS[0]}")
    store.delete(RUNS[0])
    mark(f"deleted {RUNS[0]}")
    back_up_closed(collection, disk / "backups", 2)
    mark("backup 2")


def tell_uploads(disk: Path, _: Path) -> None:
    """Serve uploads, and mark what is acknowledged."""
    from benchmarks.durability.files import OPTIONS

    marks = os.open(disk.with_name(MARKS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    Collection.create(disk / "collection", OPTIONS).close()
    serve(
        disk / "collection",
        lambda port: send(port, UPLOADS, lambda text: void(os.write(marks, f"{text}\n".encode()))),
    )


def build_and_prune(collection: Path, documents: Path) -> None:
    """Add all documents, and remove those that are gone."""
    if (collection / "collection.db").exists():
        with closing(Collection.open(collection)) as opened:
            prune(opened)
    build(collection, documents)


STORIES = {"collection and runs": tell_story, "uploads": tell_uploads}


class SyncStudy:
    """Cases by number: the order of writes of each story, then the collector and states after a loss."""

    def __init__(self, bench: Bench, faults: Faults, seed: int) -> None:
        faults.arm(Fault.NONE)
        self._bench, self._seed = bench, seed
        self._content = {version: bench.content(version) for version in VERSIONS}
        entries = [entry for content in self._content.values() for entry in content.values()]
        self._ids = {entry.document.id.encode() for entry in entries if isinstance(entry, KnownFile)}
        self._steps = compute(lambda: script_run(SCRIPT, "How many passengers?"))
        (bench.scratch / "steps").write_bytes(pickle.dumps(self._steps))
        self._recordings: dict[str, Recording] = {}
        self._states: list[tuple[str, int, Any, int]] = []
        for story in STORIES:
            self._recordings[story] = recording = self._record(story)
            chosen = losses(recording, 2)
            self._states += [(story, *state) for state in chosen]
            counts = len(recording.operations), len(recording.syncs), len(chosen)
            print("{}: {:,} operations, {:,} syncs, {:,} states".format(story, *counts), flush=True)
        random.Random(seed).shuffle(self._states)

    def case(self, number: int) -> dict[str, Any]:
        """Look at the order, run the collector, or open a state."""
        names = list(STORIES)
        if number < len(names):
            counts, wrong = check_order(self._recordings[names[number]], self._ids)
            return {"group": f"order: {names[number]}", "counts": counts, "wrong": wrong}
        if number % 4 == 0:
            return {"group": "collector", "counts": {}, "wrong": self._collect(number)}
        story, point, loss, seed = self._states[(number - number // 4) % len(self._states)]
        recording = self._recordings[story]
        state = self._bench.scratch / "state"
        shutil.rmtree(state, ignore_errors=True)
        materialize(recording.state(recording.kept(point, loss, seed)), state / "disk")
        said = recording.marks(point)
        check = self._check_uploads if story == "uploads" else self._check
        version = max((int(mark.split()[1]) for mark in said if mark.startswith("begin")), default=0)
        self._bench.write(version)
        try:
            wrong = compute(lambda: check(state / "disk", said))
        except RuntimeError as error:
            wrong = [str(error)[-1200:]]
        return {"group": f"{story}: {loss}", "counts": {"states": 1}, "point": point, "wrong": wrong}

    def _record(self, story: str) -> Recording:
        bench = self._bench
        bench.reset(None)
        (bench.scratch / MARKS).unlink(missing_ok=True)
        bench.version = -1
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in {"LD_PRELOAD", "DURABILITY_FAULTS"}
        }
        command = [
            sys.executable,
            "-m",
            "benchmarks.durability.syncs",
            story,
            str(bench.disk),
            str(bench.documents),
        ]
        return record(command, bench.disk, bench.scratch / "trace", env)

    def _collect(self, number: int) -> list[str]:
        """Add documents whose blobs are there, old, while another process collects."""
        bench, chance = self._bench, random.Random(f"{self._seed} {number}")
        bench.reset(0)
        shutil.copytree(bench.template(ADDED) / "blobs", bench.collection / "blobs", dirs_exist_ok=True)
        for path in (bench.collection / "blobs").rglob("*"):
            if path.is_file():
                os.utime(path, (OLD_SECONDS, OLD_SECONDS))
        bench.write(ADDED)
        collector = Child(lambda _: collect_forever(bench.collection, chance.uniform(0, 0.01)))
        builder = Child(lambda _: build(bench.collection, bench.documents)).end()
        collector.kill()
        collector.end()
        if builder.status:
            return [builder.error[-600:]]
        found = compute(lambda: read_closed(bench.collection))
        return ["the result differs."] * bool(find_differences(found, self._content[ADDED]))

    def _check(self, disk: Path, said: list[str]) -> list[str]:
        """Return what is lost of documents, runs and backups."""
        begun = max((int(mark.split()[1]) for mark in said if mark.startswith("begin")), default=0)
        done = max((int(mark.split()[1]) for mark in said if mark.startswith("done")), default=-1)
        now, before = self._content[begun], self._content.get(done, {})
        directory, wrong = disk / "collection", list[str]()
        try:
            with closing(Collection.open(directory)) as collection:
                found = by_document(read_content(collection))
            known, coming = by_document(before), by_document(now)
            wrong += [
                f"{name} is neither as before nor as after."
                for name in known.keys() | coming.keys() | found.keys()
                if found.get(name) not in (known.get(name), coming.get(name))
            ]
            wrong += find_damage(directory)
        except CollectionError as error:
            wrong += [error.message] * (done >= 0 or "There is no collection" not in error.message)
        wrong += self._check_runs(directory, said)
        wrong += check_backups_after_loss(disk / "backups", said)
        if not wrong:
            build_and_prune(directory, self._bench.documents)
            differing = find_differences(read_closed(directory), now)
            wrong += ["differs from a clean build."] * bool(differing)
        return wrong

    def _check_runs(self, directory: Path, said: list[str]) -> list[str]:
        if not (directory / "runs" / "runs.db").exists():
            return ["the runs are lost."] * any(mark.startswith("event") for mark in said)
        store = RunStore(directory / "runs", directory)
        ids, wrong = set(store.ids()), list[str]()
        for run in RUNS:
            count = sum(mark.startswith(f"event {run}") for mark in said)
            if f"deleting {run}" in said:
                wrong += ["a deleted run is back."] * (f"deleted {run}" in said and run in ids)
                continue
            try:
                stored = store.read(run).events if run in ids else ()
            except RunError:
                stored = ()
            expected = tuple(event_of(text, run) for _, text in self._steps)
            wrong += ["events are lost."] * (len(stored) < count)
            wrong += ["events differ."] * (stored != expected[: len(stored)])
        return wrong + find_run_damage(store)

    def _check_uploads(self, disk: Path, said: list[str]) -> list[str]:
        """Return what is lost of uploads."""
        directory, wrong = disk / "collection", list[str]()
        for name, data in UPLOADS.items():
            path = directory / "uploads" / name
            if any(mark.startswith(f"stored {name}") for mark in said):
                wrong += [f"{name} is lost."] * (not path.is_file() or path.read_bytes() != data)
        ready = {mark.removeprefix("ready ") for mark in said if mark.startswith("ready")}
        if not said and not (directory / "collection.db").exists():
            return wrong
        with closing(Collection.open(directory)) as collection:
            found = by_document(read_content(collection))
        wrong += [f"{name} is not ready." for name in ready if name not in found or not found[name][1]]
        return wrong + find_damage(directory)


def check_backups_after_loss(backups: Path, said: list[str]) -> list[str]:
    """Return what is lost of backups."""
    wanted = max((int(mark.split()[1]) for mark in said if mark.startswith("backup")), default=0)
    if not (backups / "backups.json").exists():
        return ["the backups are lost."] * (wanted > 0)
    store = BackupStore.open(backups)
    wrong = ["a snapshot is lost."] * (len(store.names()) < wanted)
    return wrong + [f"backup: {problem.detail}" for problem in find_problems(store, isolate=False)[1]]


def collect_forever(directory: Path, seconds: float) -> None:
    """Delete old blobs that nothing names, until killed."""
    import time

    collection = Collection.open(directory)
    while True:
        collection.store.collect()
        time.sleep(seconds)


def check_order(recording: Recording, ids: set[bytes]) -> tuple[dict[str, int], list[str]]:
    """Find pages that name a blob and are written before it is on the disk.

    `ids` are those of documents, which come first: a picture that is stored as it is has the same name.
    """
    blobs = find_blobs(recording) - ids
    paths: dict[int, str] = {0: ""}
    """Paths of files and folders by the numbers of their inodes."""
    ready: dict[bytes, float] = {}
    """Place from which a blob, its name and its folders are on the disk, by its name; the first one."""
    data: dict[int, float] = {}
    """Place from which the data of an inode so far is on the disk."""
    folders: dict[int, float] = {0: 0}
    """Place from which the name of a folder is on the disk, with those above it."""
    checked, wrong, syncs = 0, list[str](), len(recording.syncs)
    for at, operation in enumerate(recording.operations):
        for folder, name, inode in operation.names:
            if inode is None:
                continue
            if inode.is_folder:
                folders[inode.number] = max(folders[folder.number], operation.certain)
            paths[inode.number] = path = f"{paths[folder.number]}/{name}"
            if _NAME.fullmatch(name.encode()) and path.startswith("/collection/"):
                whole = max(data.get(inode.number, 0), operation.certain, folders[folder.number])
                ready[name.encode()] = min(ready.get(name.encode(), sys.maxsize), whole)
        if operation.kind == "data" and operation.inode is not None:
            number = operation.inode.number
            data[number] = max(data.get(number, 0), operation.certain)
            if paths.get(number, "").endswith((".db", ".db-wal", ".db.new", ".db.new-wal")):
                named = set(_NAME.findall(operation.data)) & blobs
                checked += len(named)
                early = sum(ready.get(name, sys.maxsize) > at for name in named)
                wrong += [f"{paths[number]} names a blob before it is on the disk."] * early
    return {"names in pages": checked, "syncs": syncs, "blobs": len(ready)}, wrong


def find_blobs(recording: Recording) -> set[bytes]:
    """Return the names of all blobs of the collection and its runs."""
    paths = {0: ""}
    found: set[bytes] = set()
    for operation in recording.operations:
        for folder, name, inode in operation.names:
            if inode is not None:
                paths[inode.number] = path = f"{paths[folder.number]}/{name}"
                if _NAME.fullmatch(name.encode()) and path.startswith("/collection/"):
                    found.add(name.encode())
    return found


if __name__ == "__main__":
    from pathlib import Path

    STORIES[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
