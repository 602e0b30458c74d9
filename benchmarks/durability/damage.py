"""Flipped bits and cut files: is each named by `verify`, or in bytes that hold nothing, and repaired?

The collection and its runs exist in three states: with the log in the database; with a log that a killed
writer has left, and its index; and with such a log without the index, as a copy or a restart leaves it.
Each case flips one bit of one file, or cuts a file at a random place; the time of the file stays, as on a
failing disk. Half of the files are drawn by their number, half by their bytes.

Damage is *named* if `verify` reports it, or the collection is refused when it is opened. Else everything
that the collection and its runs hold is compared with what they held before: if that is equal, it lies in
bytes that hold nothing. What differs and was not named is a *silent* change: there must be none. One kind
is counted apart: damage to the last commit of a log without its index cannot be told from a commit that was
interrupted; the state is then that before this commit, as a whole. Damage to a collection that was named is
repaired from the documents, and compared.
"""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.durability.faults import Fault
from benchmarks.durability.files import ADDED, EMBEDDER, by_document, find_differences, produce, read_content
from benchmarks.durability.operations import Bench, build
from benchmarks.durability.processes import Child, compute
from benchmarks.durability.recorded import RUNS, SCRIPT, event_of, record_run, script_run
from vrag.agent.runs.run_checks import check_runs
from vrag.agent.runs.run_store import RunStore
from vrag.errors import RunError, VragError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.storage.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.durability.faults import Faults
    from vrag.index.integrity.problems import VerifyProblem

CLOSED, LOGGED, COPIED = "closed", "log with index", "log without index"
"""The states of the files."""
STATES = (CLOSED, LOGGED, COPIED)


class Damage(NamedTuple):
    """A change to a file."""

    file: str
    """Path relative to the collection."""
    size: int
    cut: int | None
    """Bytes that are left; None for a flipped bit."""
    bit: int
    """The number of the flipped bit."""

    def apply(self, home: Path) -> None:
        """Damage the file; its time stays."""
        path = home / self.file
        status, data = path.stat(), bytearray(path.read_bytes())
        if self.cut is not None:
            del data[self.cut :]
        else:
            data[self.bit // 8] ^= 1 << self.bit % 8
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def draw(home: Path, chance: random.Random) -> Damage:
    """Draw a damage: of the files that hold something, not of locks, of caches, or of the index of a log."""
    files = sorted(
        path
        for path in home.rglob("*")
        if path.is_file()
        and path.stat().st_size
        and path.suffix not in {".lock", ".json"}
        and not path.name.endswith("-shm")
        and "recording" not in path.parts
    )
    weights = [path.stat().st_size for path in files] if chance.random() < 0.5 else None
    [path] = chance.choices(files, weights)
    size = path.stat().st_size
    cut = chance.randrange(size) if chance.random() < 1 / 3 else None
    return Damage(path.relative_to(home).as_posix(), size, cut, chance.randrange(8 * size))


class DamageStudy:
    """Cases of damage, by number."""

    def __init__(self, bench: Bench, faults: Faults, seed: int) -> None:
        self._bench, self._seed = bench, seed
        faults.arm(Fault.NONE)
        self._states = {state: bench.scratch / f"state-{number}" for number, state in enumerate(STATES)}
        steps = compute(lambda: script_run(SCRIPT, "How many passengers?"))
        self._make(steps)
        bench.write(ADDED)
        self._original = {state: compute(partial(self._read_copy, state)) for state in STATES}
        if find_differences(self._original[LOGGED], self._original[COPIED]):
            raise RuntimeError("The states do not hold the same.")

    def case(self, number: int) -> dict[str, Any]:
        """Damage a copy of a state, look what is named, compare, repair, and compare."""
        chance = random.Random(f"{self._seed} {number}")
        state = STATES[number % len(STATES)]
        home = self._put(state)
        damage = draw(home, chance)
        damage.apply(home)
        original = self._original[state]
        try:
            facts = compute(lambda: look(home, original))
        except RuntimeError as error:
            facts = {"outcome": "crashed", "error": str(error)[-3000:]}
        wrong: list[str] = []
        outcome: str = facts["outcome"]
        if outcome == "silent" and state == COPIED and damage.file.endswith("-wal"):
            is_cut = damage.cut is not None
            outcome = compute(lambda: name_earlier(home, original, damage.file, is_cut=is_cut)) or outcome
        if outcome in {"silent", "crashed"}:
            wrong.append(f"{outcome}: {facts.get('error', facts.get('differing'))}")
        if outcome == "named":
            shutil.rmtree(home)
            self._put(state)
            damage.apply(home)
            repaired, detail = self._repair(home, original)
            facts |= {"repair": repaired, "detail": detail}
            if repaired == "wrong":
                wrong.append(f"repair: {detail[:300]}")
        group = f"{state}: {part_of(damage.file)}"
        names = ("named", "nothing", "last commit", "cut to an earlier commit", "silent", "crashed")
        counts = {"flips": int(damage.cut is None), "cuts": int(damage.cut is not None)}
        counts |= {name: int(outcome == name) for name in names}
        counts |= {name: int(facts.get("repair") == name) for name in ("repaired", "listed", "refused")}
        return {"group": group, **damage._asdict(), **facts, "counts": counts, "wrong": wrong}

    def _make(self, steps: list[Any]) -> None:
        """Make the three states: the same documents and runs, the last of them in the log or not."""
        bench = self._bench
        home = bench.collection
        bench.reset(0)
        compute(lambda: record(home, steps, RUNS[:2]))
        bench.write(ADDED)

        def leave_log(_: Callable[[str], None]) -> None:
            setattr(Database, "checkpoint", keep_log)  # noqa: B010 - it is killed before
            collection = Collection.open(home)
            add(collection, [bench.documents], embedder=EMBEDDER, producer=produce)
            store = RunStore(home / "runs", home)
            with store.record(run=RUNS[2]) as log:
                for files, text in steps:
                    for name, data in files.items():
                        log.save(name, data)
                    log.write(event_of(text, RUNS[2]))
                os._exit(0)  # as if it were killed

        Child(leave_log).end()
        shutil.copytree(home, self._states[LOGGED])
        shutil.copytree(home, self._states[COPIED])
        for path in self._states[COPIED].rglob("*-shm"):
            path.unlink()
        compute(lambda: close(home))
        shutil.copytree(home, self._states[CLOSED])
        for log in ("collection.db-wal", "runs/runs.db-wal"):
            if not (self._states[LOGGED] / log).stat().st_size:
                raise RuntimeError(f"{log} is empty.")

    def _put(self, state: str) -> Path:
        """Put a copy of a state on the disk, where its runs and documents belong."""
        self._bench.reset(None)
        home = self._bench.collection
        shutil.copytree(self._states[state], home)
        return home

    def _read_copy(self, state: str) -> dict[str, Any]:
        return read_all(self._put(state))

    def _repair(self, home: Path, original: dict[str, Any]) -> tuple[str, str]:
        """Repair from the documents; return how it ended, and the first difference."""
        try:
            return compute(lambda: repair(home, original))
        except RuntimeError as error:
            return "wrong", str(error)[-1500:]


def keep_log(*_: object) -> bool:
    """Move nothing."""
    return False


def record(home: Path, steps: list[Any], runs: Sequence[str]) -> None:
    """Record runs."""
    store = RunStore(home / "runs", home)
    for run in runs:
        record_run(store, run, steps, lambda _: None)


def close(home: Path) -> None:
    """Open and close all, which moves the logs to the databases."""
    Collection.open(home).close()
    RunStore(home / "runs", home).files.create().checkpoint()


def read_all(home: Path) -> dict[str, Any]:
    """Return all that a collection and its runs hold; a file of a run is None if it is damaged."""
    with closing(Collection.open(home)) as collection:
        found = read_content(collection)
        found["version"] = collection.version
    store = RunStore(home / "runs", home)
    for row in store.rows():
        found[f"run {row.id}"] = row
        with suppress(RunError):  # it has no events
            found[f"events {row.id}"] = store.read(row.id).events
        for name in store.file_names(row.id):
            try:
                found[f"blob of {row.id} {name}"] = store.read_file(row.id, *name.split("."))
            except OSError:
                found[f"blob of {row.id} {name}"] = None
    return found


def look(home: Path, original: dict[str, Any]) -> dict[str, Any]:
    """Return whether damage is named, lies where nothing is, or is silent."""
    try:
        found = find_problems(home)
    except VragError as error:
        return {"outcome": "named", "problems": [f"refused: {error.message}"]}
    if found:
        return {"outcome": "named", "problems": found[:6]}
    try:
        now = read_all(home)
    except VragError as error:  # by reading, but not by `verify`
        return {"outcome": "silent", "differing": [f"verify is silent, and reading says: {error.message}"]}
    differing = find_differences(now, original)
    return {"outcome": "silent" if differing else "nothing", "differing": differing[:8]}


def find_problems(home: Path) -> list[str]:
    """Return what `verify` finds, without leftovers."""
    problems: list[VerifyProblem] = list(verify(LocalLocation(home)).problems)
    problems += check_runs(RunStore(home / "runs", home)).problems
    damage = (problem for problem in problems if problem.kind is not ProblemKind.LEFTOVER)
    return [f"{problem.subject}: {problem.detail} [{problem.file}]" for problem in damage]


def name_earlier(home: Path, original: dict[str, Any], file: str, *, is_cut: bool) -> str:
    """Return the name of an earlier state that a log without its index shows; empty if it is not whole.

    Bits may hide the last commit, a cut all that followed it.
    """
    now = read_all(home)
    if file.startswith("runs/"):
        events, expected = now.get(f"events {RUNS[2]}", ()), original[f"events {RUNS[2]}"]
        missing = len(expected) - len(events)
        is_whole = events == expected[: len(events)]
    else:
        missing = original["version"] - now["version"]
        known, found = by_document(original), by_document(now)
        is_whole = all(known[name] == entry for name, entry in found.items())
    if is_whole and missing <= 1:
        return "last commit"
    return "cut to an earlier commit" if is_whole and is_cut else ""


def repair(home: Path, original: dict[str, Any]) -> tuple[str, str]:
    """Repair, and compare with the original: equal, or different with the difference listed, or refused."""

    def reindex(collection: Collection, paths: Sequence[Path]) -> object:
        return add(collection, paths, embedder=EMBEDDER, producer=produce)

    try:
        report = verify(LocalLocation(home), repair=True, prepare=lambda _: reindex)
        runs = check_runs(RunStore(home / "runs", home), repair=True)
    except VragError as error:
        return "refused", error.message
    listed = [problem for problem in (*report.problems, *runs.problems) if not problem.repaired]
    if (left := find_problems(home)) and not listed:
        return "wrong", f"after the repair: {left}"
    build(home, home.parent.parent / "documents")  # makes what was not finished, and what the log has lost
    now = read_all(home)
    differing = [
        name
        for name in find_differences(now, original)
        if name != "version" and (not listed or not name.startswith(("run ", "events ", "blob of ")))
    ]
    if differing:
        return "wrong", str(differing[:6])
    return ("listed" if listed else "repaired"), str(
        [f"{each.subject}: {each.detail}" for each in listed][:3]
    )


def part_of(file: str) -> str:
    """Return the part of a collection that a file belongs to."""
    return f"{file.split('blobs/', maxsplit=1)[0]}blobs" if "blobs/" in file else file
