"""Backups while others write, read and ask: is each the state that it says it is, and what does a kill leave?

    python -m benchmarks.backups [--backups 30] [--kills 50] [--seed 1]

Two processes write to one collection in turn, each waiting for the other: they add, change and remove files,
upload and remove others as a server does, and compact, keeping no old version. Three processes search and
ask; they record runs, and delete some. After every commit the writer notes a hash over all rows of the table
and the bytes of new pictures; the others note the bytes of each run that has ended.

Meanwhile backups are made, each is restored, and what was restored is compared with these notes: the rows of
both tables at the versions that it holds, every picture, every uploaded file, every run. A run that was in
progress has to be a beginning of what it became, and one that had ended before the backup may not be missing.

Then backups are killed with SIGKILL at random moments, some of them while they delete older ones. After each
kill all earlier snapshots are checked, one of them is restored and compared, and the next backup has to
succeed. In the end, pruning has to leave no file that the remaining snapshots do not list.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.kills import write_image, write_pdf, write_text
from vrag.corpus.converter import CorpusOptions
from vrag.index.backups.backup import back_up
from vrag.index.backups.check import find_problems
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact, remove
from vrag.index.tables.table import Table
from vrag.index.tables.version_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vrag.index.backups.snapshot import BackupSnapshot

OPTIONS = CorpusOptions(ocr="never", workers=1)
WRITERS, READERS = 2, 3
WAIT_SECONDS = 120.0
MAX_FILES = 12
"""Files of each writer, so that the collection stays small."""
MAX_RUNS = 15
"""Runs of each reader that are kept."""
WRITES = ("append", "upsert", "delete", "update", "compact")
QUESTIONS = ("What is the revenue?", "Which quarter had the highest margin?", "How large is the share?")


# --- what the children note --------------------------------------------------------------------------


@dataclass(frozen=True)
class Notes:
    """A file of notes, one JSON object a line."""

    path: Path

    def write(self, **facts: object) -> None:
        """Add a note."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")

    @staticmethod
    def read(folder: Path) -> Iterator[dict[str, Any]]:
        """Read the notes of all children; a line that is being written is left out."""
        for path in folder.glob("*.jsonl"):
            for line in path.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rows_digest(table: Table) -> tuple[int, str]:
    """The newest version of a table, and a hash over all of its rows."""
    names = sorted(table.schema.names)
    rows = table.read(names)
    return rows.version, sha256("\n".join(sorted(map(repr, rows.data.to_pylist()))).encode())


def run_files(directory: Path) -> dict[str, str]:
    """Hashes of the files of a run, but for its lock, by name."""
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "lock")
    return {path.relative_to(directory).as_posix(): sha256(path.read_bytes()) for path in paths}


def note_commits(collection: Collection, notes: Notes) -> None:
    """Let every write to a table of the collection be followed by a note of what is in it."""
    names = {id(collection.item_table): "items", id(collection.file_table): "files"}
    noted: set[str] = set()

    def noting(write: Callable[..., None]) -> Callable[..., None]:
        def wrapper(table: Table, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - those of the method
            write(table, *arguments, **named)
            version, digest = rows_digest(table)
            notes.write(table=names[id(table)], version=version, digest=digest)
            for name in stored_files(table) - noted if names[id(table)] == "items" else ():
                noted.add(name)
                notes.write(picture=name, sha256=sha256((collection.items_dir / name).read_bytes()))

        return wrapper

    for name in WRITES:
        setattr(Table, name, noting(getattr(Table, name)))


# --- the children ------------------------------------------------------------------------------------


def write_forever(directory: Path, folder: Path, number: int, seed: int) -> None:
    """Change the collection until killed, in turn with the other writer."""
    chance = random.Random(seed * 100 + number)
    collection = Collection.open(directory, wait=WAIT_SECONDS)
    note_commits(collection, Notes(folder / "notes" / f"writer{number}.jsonl"))
    docs, uploads = folder / f"docs{number}", directory / "uploads"
    docs.mkdir(exist_ok=True)
    uploads.mkdir(exist_ok=True)
    count = 0
    while True:
        count += 1
        own = sorted(docs.iterdir())
        sent = sorted(uploads.glob(f"{number}-*"))
        action = chance.choices(
            ["add", "change", "remove", "upload", "withdraw", "compact"], [5, 3, 2, 3, 2, 1]
        )[0]
        if len(own) + len(sent) > MAX_FILES:
            action = chance.choice(["remove", "withdraw"])
        if action == "compact":
            compact(collection, keep=timedelta(0))
        elif action == "add" or (action == "change" and not own):
            make_file(docs / f"{number}-{count}", chance)
            add(collection, [docs], OPTIONS)
        elif action == "change":
            path = chance.choice(own)
            make_file(path.with_suffix(""), chance, path.suffix)
            add(collection, [docs], OPTIONS)
        elif action == "remove" and own:
            path = chance.choice(own)
            remove(collection, [path])
            path.unlink()
        elif action == "upload":
            part = make_file(folder / f"part{number}-{count}", chance)
            path = uploads / f"{number}-{count}{part.suffix}"
            part.rename(path)
            add_sources(collection, [path], local(None))
        elif action == "withdraw" and sent:
            path = chance.choice(sent)
            hidden = path.with_name(f".{path.name}.gone")
            path.rename(hidden)
            remove(collection, [path])
            hidden.unlink()


def make_file(stem: Path, chance: random.Random, suffix: str = "") -> Path:
    """Write a PDF of some pages, a picture or a text."""
    suffix = suffix or chance.choice([".pdf", ".pdf", ".png", ".txt"])
    path = stem.with_name(f"{stem.name}{suffix}")
    if suffix == ".pdf":
        write_pdf(path, chance.randint(1, 6), chance)
    elif suffix == ".png":
        write_image(path, chance)
    else:
        write_text(path, chance)
    return path


def read_forever(directory: Path, folder: Path, number: int, seed: int) -> None:
    """Search and ask until killed; note each run that has ended, and each that is deleted."""
    import vrag

    chance = random.Random(seed * 100 + number)
    notes = Notes(folder / "notes" / f"reader{number}.jsonl")
    session = vrag.open(collection=directory)
    own: list[str] = []
    while True:
        session.search(chance.choice(QUESTIONS))
        events = list(session.stream(chance.choice(QUESTIONS)))
        run = events[0].run_id
        notes.write(run=run, ended=time.time(), files=run_files(session.runs.directory / run))
        own.append(run)
        if len(own) > MAX_RUNS:
            session.runs.delete(deleted := own.pop(chance.randrange(len(own))))
            notes.write(deleted=deleted, at=time.time())
        time.sleep(chance.uniform(0, 0.1))


def back_up_once(directory: Path, destination: Path, keep: int) -> None:
    """Make a backup, and print when it begins."""
    collection = Collection.open(directory)
    import_module("lancedb")  # the kill is to fall into the backup, not into the import

    print("begun", flush=True)
    back_up(collection, destination, keep=keep or None)


# --- the comparison ----------------------------------------------------------------------------------


@dataclass
class Truth:
    """What the children have noted."""

    digests: dict[str, dict[int, str]]
    pictures: dict[str, str]
    runs: dict[str, dict[str, Any]]
    deleted: dict[str, float]

    @classmethod
    def read(cls, folder: Path) -> Truth:
        """Read all notes."""
        truth = cls({"items": {}, "files": {}}, {}, {}, {})
        for note in Notes.read(folder / "notes"):
            if "table" in note:
                truth.digests[note["table"]][note["version"]] = note["digest"]
            elif "picture" in note:
                truth.pictures[note["picture"]] = note["sha256"]
            elif "run" in note:
                truth.runs[note["run"]] = note
            else:
                truth.deleted[note["deleted"]] = note["at"]
        return truth

    def digest(self, table: str, version: int) -> str | None:
        """The hash of the rows at a version: compaction makes several versions with the same rows."""
        known = [number for number in self.digests[table] if number <= version]
        return self.digests[table][max(known)] if known else None


def compare(directory: Path, snapshot: BackupSnapshot, truth: Truth, tally: Counter[str]) -> Counter[str]:
    """In what a restored collection differs from the state that its snapshot names."""
    collection = Collection.open(directory)
    wrong: Counter[str] = Counter()
    for name, table in (("items", collection.item_table), ("files", collection.file_table)):
        if table.version:
            version, digest = rows_digest(table)
            wrong[f"rows of {name} that were never so"] += truth.digest(name, version) != digest
            tally["versions of tables"] += 1
    wrong["content versions that differ"] += collection.content_version != snapshot.content_version
    rows = collection.documents()
    wrong["counts that differ"] += (snapshot.documents, snapshot.items) != (
        len(rows),
        collection.item_table.read(["id"]).data.num_rows,
    )
    for name in stored_files(collection.item_table):
        path = collection.items_dir / name
        wrong["pictures that differ"] += (
            not path.is_file() or sha256(path.read_bytes()) != truth.pictures[name]
        )
        tally["pictures"] += 1
    for row in rows:
        place = Path(row.path)
        if place.parent.name == "uploads" and row.status.served:
            own = directory / "uploads"
            copies = (own / place.name, own / f".{place.name}.gone")
            wrong["uploaded files that differ"] += not any(
                copy.is_file() and sha256(copy.read_bytes()) == row.id for copy in copies
            )
            tally["uploaded files"] += 1
    compare_runs(directory / "runs", snapshot, truth, wrong, tally)
    for problem in verify(collection).problems:
        if problem.kind is ProblemKind.LEFTOVER:  # such as of a removal that was going on
            tally["leftovers of what was going on"] += 1
        else:
            wrong[f"found by verify: {problem.detail}"] += 1
    return wrong


def compare_runs(
    runs: Path, snapshot: BackupSnapshot, truth: Truth, wrong: Counter[str], tally: Counter[str]
) -> None:
    """Compare restored runs with the notes of those who wrote them."""
    found = {path.name for path in runs.iterdir()} if runs.is_dir() else set[str]()
    for run, note in truth.runs.items():
        if run in found:
            files = run_files(runs / run)
            if files.get("events.jsonl") == note["files"]["events.jsonl"] and "end.json" in files:
                tally["whole runs"] += 1
                wrong["runs that differ"] += files != note["files"]
            else:
                tally["runs in progress"] += 1
                wrong["ended runs that are not whole"] += note["ended"] < snapshot.created
                events = (runs / run / "events.jsonl").read_bytes()
                wrong["torn lines"] += bool(events) and not events.endswith(b"\n")
                wrong["files of runs that differ"] += any(
                    note["files"].get(name) != digest
                    for name, digest in files.items()
                    if name.startswith("files/")
                )
                pictures = {f"files/{name}.jpg" for name in shown_pictures(events)}
                wrong["pictures of runs that are missing"] += len(pictures - files.keys())
        elif note["ended"] < snapshot.created and truth.deleted.get(run, time.time()) > snapshot.created + 60:
            wrong["runs that are missing"] += 1
    wrong["leftovers of deleted runs"] += sum(name.startswith(".") for name in found)


def shown_pictures(events: bytes) -> set[str]:
    """Hashes of the pictures that events name."""
    parsed = map(json.loads, events.splitlines())
    return {event["sha256"] for event in parsed if event["type"] == "image_shown"}


# --- the study ---------------------------------------------------------------------------------------


@dataclass
class Study:
    """A folder with the collection, its backups, and the children that use it."""

    folder: Path
    seed: int
    tally: Counter[str] = field(default_factory=Counter[str])
    wrong: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])
    added: list[int] = field(default_factory=list[int])
    children: list[subprocess.Popen[str]] = field(default_factory=list["subprocess.Popen[str]"])

    def __post_init__(self) -> None:
        self.directory, self.backups = self.folder / "collection", self.folder / "backups"
        (self.folder / "notes").mkdir(parents=True)
        Collection.create(self.directory, OPTIONS)
        self.chance = random.Random(self.seed)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a child."""
        command = [sys.executable, "-m", "benchmarks.backups", "--child", *map(str, arguments)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        with (self.folder / "errors.txt").open("ab") as errors:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, start_new_session=True
            )

    def failed(self, child: subprocess.Popen[str]) -> RuntimeError:
        """The error that a child has failed, with the last of what the children printed."""
        child.communicate()
        return RuntimeError(f"a child has failed:\n{(self.folder / 'errors.txt').read_text()[-3000:]}")

    def start_users(self, writers: int = WRITERS, readers: int = READERS) -> None:
        """Start the writers and the readers, and wait until there is something to read."""
        for number in range(writers):
            self.children.append(self.start("writer", self.directory, self.folder, number, self.seed))
        while not Collection.open(self.directory).documents():
            self.check_users()
            time.sleep(0.1)
        for number in range(10, 10 + readers):
            self.children.append(self.start("reader", self.directory, self.folder, number, self.seed))

    def check_users(self) -> None:
        """Raise an error if a child has ended."""
        for child in self.children:
            if child.poll() is not None:
                raise self.failed(child)

    def stop_users(self) -> None:
        """Stop all children."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        self.children = []

    def back_up(self, keep: int = 0) -> None:
        """Make a backup here."""
        self.check_users()
        report = back_up(Collection.open(self.directory), self.backups, keep=keep or None, wait=60)
        self.tally["backups"] += 1
        self.seconds.append(report.seconds)
        self.added.append(report.snapshot.added_bytes)
        self.wrong["files that a backup missed"] += len(report.missing)

    def time_backup(self) -> float:
        """Let a child make a backup, and return its seconds."""
        child = self.start("backup", self.directory, self.backups, 0)
        assert child.stdout
        child.stdout.readline()
        started = time.monotonic()
        if child.wait() != 0:
            raise self.failed(child)
        return time.monotonic() - started

    def kill_backup(self, seconds: float) -> None:
        """Start a backup, kill it within some seconds, and look at what is left."""
        store = BackupStore(self.backups)
        before = store.names()
        keep = self.chance.choice([0, 0, max(2, len(before) - 2)])
        child = self.start("backup", self.directory, self.backups, keep)
        assert child.stdout
        if child.stdout.readline() != "begun\n":
            raise self.failed(child)
        if keep and self.chance.random() < 0.5:  # in the middle of deleting
            while store.names() == before and child.poll() is None:
                time.sleep(0.0005)
            time.sleep(self.chance.uniform(0, 0.03))
        else:
            time.sleep(self.chance.uniform(0, seconds))
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        self.tally["kills"] += 1
        self.tally["kills of a finished backup"] += child.returncode == 0
        names = store.names()
        self.tally["kills after the snapshot was made"] += bool(set(names) - set(before))
        self.tally["kills while older ones were deleted"] += bool(set(before) - set(names))
        expected = before[len(before) + 1 - keep :] if keep else before
        self.wrong["snapshots lost by a kill"] += len(set(expected) - set(names))
        objects = store.objects.sizes()
        for name in names:
            listed = store.read(name)[1]
            self.wrong["objects lost by a kill"] += sum(
                objects.get(file.sha256) != file.size for file in listed
            )
            self.tally["snapshots checked after a kill"] += 1
        if names:
            self.restore(self.chance.choice(names))
        self.back_up()

    def restore(self, name: str) -> None:
        """Restore a snapshot and compare it."""
        target = self.folder / "restored"
        shutil.rmtree(target, ignore_errors=True)
        report = restore(self.backups, target, name)
        self.tally["restored"] += 1
        wrong = compare(target, report.snapshot, Truth.read(self.folder), self.tally)
        self.wrong.update(wrong)
        if wrong.total():
            print(f"\n{name}: {dict(+wrong)}", file=sys.stderr)

    def check_leftovers(self, keep: int = 2) -> None:
        """Prune, and count what no snapshot lists."""
        store = BackupStore(self.backups)
        self.back_up(keep=keep)
        listed = {file.sha256 for name in store.names() for file in store.read(name)[1]}
        files = {path.relative_to(self.backups) for path in self.backups.rglob("*") if path.is_file()}
        expected = {store.objects.path(name).relative_to(self.backups) for name in listed}
        expected |= {Path("snapshots", f"{name}.jsonl") for name in store.names()}
        expected |= {Path("backups.json"), Path("lock")}
        self.wrong["files that nothing needs"] += len(files - expected)
        self.wrong["files that are gone"] += len(expected - files)
        self.wrong["held files that are left"] += len(list(self.directory.glob(".vrag-*")))
        self.wrong["snapshots kept beyond the limit"] += len(store.names()) != keep
        self.wrong["damage found by the check"] += len(find_problems(store, isolate=False))

    def run(self, backups: int, kills: int) -> None:
        """Run both parts."""
        self.start_users()
        try:
            for number in range(backups):
                self.back_up()
                print(f"\r{number + 1} backups", end="", file=sys.stderr)
            for name in BackupStore(self.backups).names():
                self.restore(name)
                print(f"\r{self.tally['restored']} restored", end="", file=sys.stderr)
            seconds = self.time_backup()
            for _ in range(kills):
                self.kill_backup(seconds)
                print(f"\r{self.tally['kills']} kills   ", end="", file=sys.stderr)
            self.check_leftovers()
        finally:
            self.stop_users()
        for name in BackupStore(self.backups).names():
            self.restore(name)
        print(file=sys.stderr)


def report(study: Study, seconds: float) -> bool:
    """Print what happened; return whether it is as it should be."""
    truth = Truth.read(study.folder)
    commits = {table: len(digests) for table, digests in truth.digests.items()}
    print(f"meanwhile: {commits['items']} commits to the items, {commits['files']} to the files, ", end="")
    print(f"{len(truth.runs)} runs asked, {len(truth.deleted)} deleted")
    for name, count in study.tally.items():
        print(f"{name:<36} {count}")
    made = sorted(study.seconds)
    print(f"seconds of a backup                  {made[len(made) // 2]:.2f} (longest {made[-1]:.2f})")
    print(f"megabytes that one added             {sorted(study.added)[len(made) // 2] / 1e6:.2f}")
    print("differences:")
    for name, count in study.wrong.items():
        print(f"  {name:<34} {count}")
    print(f"wall time                            {seconds:.0f} s")
    return not study.wrong.total()


def main() -> int:
    parser = argparse.ArgumentParser(description="Backups under load, and killed.")
    parser.add_argument("--backups", type=int, default=30)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.child:
        kind, directory, *rest = arguments.child
        if kind == "backup":
            back_up_once(Path(directory), Path(rest[0]), int(rest[1]))
        else:
            act = write_forever if kind == "writer" else read_forever
            act(Path(directory), Path(rest[0]), int(rest[1]), int(rest[2]))
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vrag-backups-") as folder:
        study = Study(Path(folder), arguments.seed)
        study.run(arguments.backups, arguments.kills)
        sound = report(study, time.monotonic() - started)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
