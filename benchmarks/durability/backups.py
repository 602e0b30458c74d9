"""Backups under two writers and three readers, and killed: is each the state that it says it is?

Two processes write to one collection in turn: they add, change and remove documents, and compact. Three
processes search and record runs, and delete some. With every commit the writers note its version and a hash
over all rows; the others note each event that was acknowledged, with the time, and each run that is to be
deleted.

A case is a backup and its restoring. What was restored has to be a state that was committed, with all
blobs, and of the runs a state that was recorded: no event that had been acknowledged before the backup
began is missing, none is there that its run does not have, and all files are whole. In every other case the
backup is killed first in the middle of a random call that changes a file; after that all earlier snapshots
have to be whole. Now and then older ones are deleted. Each copies its database and the contents that no
earlier one has, and a second one, while all others stand still, copies nothing.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault, Faults
from benchmarks.durability.files import EMBEDDER, OPTIONS, produce, write_text
from benchmarks.durability.operations import find_damage
from benchmarks.durability.processes import Child, compute
from benchmarks.durability.readers import hash_rows, note_commits
from benchmarks.durability.recorded import SCRIPT, event_of, find_run_damage, record_run, script_run
from vrag.agent.runs.run_store import RunStore, new_run_id
from vrag.errors import RunError
from vrag.index.backups.backup import back_up
from vrag.index.backups.check import find_problems
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.search.engine import Engine
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.durability.operations import Bench

WRITERS, READERS = 2, 3
MAX_RUNS = 6
"""Runs of each reader that are kept."""
KEPT = 6
"""Snapshots that are kept."""
WAIT_SECONDS = 120.0


class BackupStudy:
    """Cases of backups, by number."""

    def __init__(self, bench: Bench, faults: Faults, seed: int) -> None:
        faults.arm(Fault.NONE)
        self._bench, self._seed = bench, seed
        self._notes = bench.scratch / "notes"
        self._notes.mkdir()
        self._steps = compute(lambda: script_run(SCRIPT, "How many passengers?"))
        directory = bench.collection
        compute(lambda: Collection.create(directory, OPTIONS, embedder=EMBEDDER).close())
        self._note(0, f"commit 0 {compute(lambda: read_hash(directory))}")
        self._users = [Child(lambda _, n=number: self._write(n)) for number in range(WRITERS)]
        self._users += [Child(lambda _, n=number: self._read(n)) for number in range(10, 10 + READERS)]
        (bench.scratch / "second").mkdir()
        self._faults = Faults(bench.scratch / "second", bench.backups)  # of backups alone, not of the users
        self._calls = 100
        time.sleep(3)

    def close(self) -> None:
        """Stop all users."""
        for child in self._users:
            child.kill()
            if (outcome := child.end(1e6)).error:
                raise RuntimeError(outcome.error)
        self._users = []

    def case(self, number: int) -> dict[str, Any]:
        """Back up, in every other case after a kill, restore, and compare."""
        chance = random.Random(f"{self._seed} {number}")
        is_killed = number % 2 == 1
        counts = {"kills": 0, "too late": 0, "restored": 0, "runs": 0, "new KB": 0, "all KB": 0}
        wrong: list[str] = []
        keep = KEPT if number % 8 > 5 else None
        before = compute(self._list)
        if is_killed:
            self._faults.arm(Fault.TORN, chance.randint(1, self._calls))
            outcome = Child(lambda _: self._back_up(keep)).end()
            self._faults.arm(Fault.NONE)
            counts["kills" if outcome.is_killed else "too late"] += 1
            wrong += [outcome.error[-500:]] * (outcome.status == 1)
            wrong += compute(lambda: self._check_all(before, keep))
        began = time.time()
        self._faults.arm(Fault.COUNT)
        facts = compute(lambda: self._back_up(keep))
        self._calls = self._faults.calls
        self._faults.arm(Fault.NONE)
        if keep is None:  # else what an earlier attempt has stored is deleted already
            wrong += compute(lambda: self._check_added(before, facts))
        if number % 10 == 4:
            wrong += self._check_second()
        counts |= {"new KB": facts["added"] // 1024, "all KB": facts["bytes"] // 1024}
        wrong += [f"{name} was missing." for name in facts["missing"]]
        found = compute(lambda: self._compare(began, facts))
        counts["runs"], counts["restored"] = found[0], 1
        group = "after a kill" if is_killed else "undisturbed"
        return {"group": group, "counts": counts, "wrong": wrong + found[1], "backup": facts}

    def _check_second(self) -> list[str]:
        """Stop the users, and back up twice: the second one has nothing to copy."""
        for child in self._users:
            os.killpg(child.pid, signal.SIGSTOP)
        try:
            compute(lambda: self._back_up(None))
            again = compute(lambda: self._back_up(None))
        finally:
            for child in self._users:
                os.killpg(child.pid, signal.SIGCONT)
        return ["a second backup copies what is there."] * (again["added"] > 0)

    def _back_up(self, keep: int | None) -> dict[str, Any]:
        with closing(Collection.open(self._bench.collection)) as collection:
            report = back_up(collection, self._bench.backups, keep=keep, wait=WAIT_SECONDS)
        snapshot = report.snapshot
        facts = {"name": snapshot.name, "added": snapshot.added_bytes, "bytes": snapshot.bytes}
        return facts | {"missing": list(snapshot.missing), "runs": snapshot.runs, "seconds": report.seconds}

    def _list(self) -> list[str]:
        return BackupStore(self._bench.backups).names() if self._bench.backups.exists() else []

    def _check_added(self, before: list[str], facts: dict[str, Any]) -> list[str]:
        """A backup stores its database, and the contents that no earlier one has."""
        store = BackupStore.open(self._bench.backups)
        known = set(before) & set(store.names())
        earlier = {sha256 for name in known for sha256 in store.contents(store.read(name)).values()}
        new = set(store.blobs.names()) - earlier  # also what was removed while it was copied
        size = sum(store.blobs.path(name).stat().st_size for name in new)
        size += store.database(facts["name"]).stat().st_size
        return ["a backup copies more than what is new."] * (facts["added"] > size)

    def _check_all(self, before: list[str], keep: int | None) -> list[str]:
        if not before:
            return []
        store = BackupStore.open(self._bench.backups)
        needed = before[-(keep - 1) :] if keep else before
        wrong = ["a snapshot is lost by a kill."] * bool(set(needed) - set(store.names()))
        return wrong + [
            f"after a kill: {problem.detail}" for problem in find_problems(store, isolate=False)[1]
        ]

    def _compare(self, began: float, facts: dict[str, Any]) -> tuple[int, list[str]]:
        target = self._bench.scratch / "restored"
        shutil.rmtree(target, ignore_errors=True)
        restore(self._bench.backups, target, facts["name"])
        notes = list(self._read_notes())
        known = {note["text"] for note in notes}
        with closing(Collection.open(target)) as collection:
            with collection.store.database.read() as connection:
                state = f"commit {collection.version} {hash_rows(connection)}"
            lost = list(collection.store.blobs.damaged(collection.store.named_blobs()))
        wrong = ["a state that was never committed."] * (state not in known)
        wrong += ["a blob is lost."] * bool(lost)
        store = RunStore(target / "runs", target)
        rows = store.rows()
        deleted = {note["text"].split()[1] for note in notes if note["text"].startswith("deleting")}
        events: dict[str, int] = {}
        for note in notes:
            if note["text"].startswith("event") and note["time"] < began:
                _, run, number = note["text"].split()
                events[run] = max(events.get(run, 0), int(number))
        there = {row.id for row in rows}
        wrong += ["a run is missing."] * bool(events.keys() - deleted - there)
        for row in rows:
            try:
                stored = store.read(row.id).events
            except RunError:
                stored = ()
            expected = tuple(event_of(text, row.id) for _, text in self._steps)
            wrong += ["events of a run are missing."] * (len(stored) < events.get(row.id, 0))
            wrong += ["events of a run differ."] * (stored != expected[: len(stored)])
        wrong += find_damage(target) + find_run_damage(store)
        return len(rows), [*dict.fromkeys(wrong)]

    # --- the users

    def _note(self, number: int, text: str) -> None:
        line = json.dumps({"time": time.time(), "text": text}) + "\n"
        with (self._notes / f"{number}.jsonl").open("a", encoding="utf-8") as file:
            file.write(line)

    def _read_notes(self) -> Iterator[dict[str, Any]]:
        for path in self._notes.glob("*.jsonl"):
            yield from map(json.loads, path.read_bytes().split(b"\n")[:-1])

    def _write(self, number: int) -> None:
        documents = self._bench.scratch / f"documents-{number}"
        documents.mkdir()
        note_commits(lambda text: self._note(number, text))
        write_in_turn(self._bench.collection, documents, number)

    def _read(self, number: int) -> None:
        chance = random.Random(number)
        directory = self._bench.collection
        collection = Collection.open(directory)
        engine = Engine(collection, EMBEDDER)
        store = RunStore(directory / "runs", directory)
        own: list[str] = []
        while True:
            engine.search([Query("revenue margin")], 5)
            run = new_run_id()
            record_run(store, run, self._steps, lambda text: self._note(number, text))
            own.append(run)
            if len(own) > MAX_RUNS:
                gone = own.pop(chance.randrange(len(own)))
                self._note(number, f"deleting {gone}")
                store.delete(gone)
            time.sleep(chance.uniform(0, 0.2))


def read_hash(directory: Path) -> str:
    """Return the hash over all rows of a collection."""
    with closing(Collection.open(directory)) as collection, collection.store.database.read() as connection:
        return hash_rows(connection)


def write_in_turn(directory: Path, documents: Path, seed: int) -> None:
    """Add, change and remove own documents until killed, in turn with other writers."""
    from vrag.index.maintenance import compact, remove

    logging.getLogger("vrag").setLevel(logging.ERROR)
    chance = random.Random(seed)
    collection = Collection.open(directory, wait=WAIT_SECONDS)
    while True:
        for _ in range(chance.randint(1, 3)):
            write_text(documents / f"{chance.randrange(10)}.txt", chance)
        add(collection, [documents], embedder=EMBEDDER, producer=produce)
        if chance.random() < 0.4:
            own = sorted(documents.iterdir())
            targets = chance.sample(own, min(2, len(own)))
            remove(collection, targets)
            for target in targets:
                target.unlink()
        if chance.random() < 0.1:
            compact(collection)
        time.sleep(chance.uniform(0, 0.1))
