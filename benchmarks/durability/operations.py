"""The operations that are killed, and what has to be true of the disk afterwards.

Each begins with a state that an earlier operation has left, says what it has done, and is compared: right
after the fault with what it said and with the states before and after it, and once it has run again with a
clean build of the same documents.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.durability.files import (
    ADDED,
    EMBEDDER,
    GONE,
    OPTIONS,
    REMOVED,
    REPLACED,
    by_document,
    find_differences,
    produce,
    read_content,
    write_documents,
)
from benchmarks.durability.processes import compute
from vrag.errors import CollectionError
from vrag.index.backups.backup import back_up
from vrag.index.backups.check import find_problems
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.problems import ProblemKind
from vrag.index.integrity.verification import verify
from vrag.index.location import LocalLocation
from vrag.index.maintenance import compact, remove
from vrag.index.opening import open_collection
from vrag.index.store import CollectionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from vrag.index.store import Change

Say = "Callable[[str], None]"
DONE = "done"
"""What an operation says at its end."""
_OLD_SECONDS = 10**9
"""Time of blobs that nothing names and that are old enough to be deleted."""


@dataclass
class Bench:
    """The folders of a study, and what clean builds hold. All of its methods run in the parent."""

    scratch: Path
    disk: Path
    """The folder whose disk has faults."""
    clean: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """Contents of clean builds by version of the documents."""
    version: int = -1
    """The version that is written."""

    @property
    def documents(self) -> Path:
        """The folder of documents."""
        return self.scratch / "documents"

    @property
    def collection(self) -> Path:
        """The collection."""
        return self.disk / "collection"

    @property
    def backups(self) -> Path:
        """Its backups."""
        return self.disk / "backups"

    def template(self, version: int) -> Path:
        """Return a collection of a version, which is built like a user would: one version after the other."""
        place = self.scratch / f"template-{version}"
        if not place.exists():
            self.write(version)
            compute(lambda: build(self.scratch / "building", self.documents))
            with suppress(FileNotFoundError):
                shutil.rmtree(place)
            (self.scratch / "building").rename(place)
        return place

    def content(self, version: int) -> dict[str, Any]:
        """Return the content of a clean build of a version."""
        if version not in self.clean:
            place = self.template(version)
            self.clean[version] = compute(lambda: read_closed(place))
        return self.clean[version]

    def write(self, version: int) -> None:
        """Write the documents of a version."""
        if self.version != version:
            write_documents(self.documents, version)
            self.version = version

    def reset(self, version: int | None) -> None:
        """Empty the disk, and put a collection of a version there."""
        for path in self.disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if version is not None:
            shutil.copytree(self.template(version), self.collection)


def build(directory: Path, documents: Path) -> None:
    """Add all documents to a collection."""
    with closing(Collection.open_or_create(directory, OPTIONS, embedder=EMBEDDER)) as collection:
        add(collection, [documents], embedder=EMBEDDER, producer=produce)


def read_closed(directory: Path) -> dict[str, Any]:
    """Return the content of a collection."""
    with closing(Collection.open(directory)) as collection:
        return read_content(collection)


def find_damage(directory: Path) -> list[str]:
    """Return what `verify` finds but for leftovers, and caches, which are made again."""
    problems = verify(LocalLocation(directory)).problems
    damage = (
        each for each in problems if each.kind is not ProblemKind.LEFTOVER and each.file[:6] != "cache/"
    )
    return [f"verify: {problem.subject}: {problem.detail}" for problem in damage]


class Operation:
    """An operation on a collection. `run` is for a child that a fault ends."""

    name = ""
    before: int | None = None
    """Version of the documents before; None where there is no collection yet."""
    after = 0
    is_repeatable = True
    """Whether what is killed may be run again as it is."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.old = bench.content(self.before) if self.before is not None else {}
        self.new = bench.content(self.after)

    def prepare(self) -> None:
        """Put the state before on the disk."""
        self.bench.reset(self.before)
        self.bench.write(self.after)

    def run(self, say: Callable[[str], None]) -> None:
        """Do it, and say what is done."""
        say_commits(say)
        self.act()
        say(DONE)

    def act(self) -> None:
        """Do it, as a command does."""
        build(self.bench.collection, self.bench.documents)

    def check(self, said: list[str]) -> list[str]:
        """Return what is wrong after a fault."""
        try:
            collection = Collection.open(self.bench.collection)
        except CollectionError as error:
            is_new = self.before is None and not said and "There is no collection" in error.message
            return [] if is_new else [f"It does not open: {error.message}"]
        with closing(collection):
            content, version = read_content(collection), collection.version
        wrong = [] if DONE in said or not said else check_commits(said, version, content["hash"])
        old = self.new if DONE in said else self.old
        known, now, found = by_document(old), by_document(self.new), by_document(content)
        wrong += [
            f"{name} is neither as before nor as after."
            for name in known.keys() | now.keys() | found.keys()
            if found.get(name) not in (known.get(name), now.get(name))
        ]
        return wrong + find_damage(self.bench.collection)

    def finish(self) -> list[str]:
        """Run it again, and return in what the result differs from a clean build."""
        self.act()
        return self.compare()

    def compare(self) -> list[str]:
        """Return in what the collection differs from a clean build."""
        differing = find_differences(read_closed(self.bench.collection), self.new)
        wrong = [f"differs from a clean build: {name.split()[0]}" for name in differing]
        return list(dict.fromkeys(wrong)) + find_damage(self.bench.collection)


def say_commits(say: Callable[[str], None]) -> None:
    """Say each commit of this process once it is done: its version, and the hash over all items."""
    original = CollectionStore.change

    @contextmanager
    def change(self: CollectionStore, wait: float | None = None) -> Generator[Change]:
        with original(self, wait) as changes:
            yield changes
        say(f"commit {self.version} {self.item_hash}")

    CollectionStore.change = change


def check_commits(said: list[str], version: int, content: str) -> list[str]:
    """Compare a state with the last commit that was said: it is that, or the one after it."""
    _, last, known = said[-1].split()
    if version == int(last):
        return [] if content == known else ["the last commit has other items."]
    return [] if version == int(last) + 1 else [f"a commit is lost: {version} is not {last}."]


class Create(Operation):
    """Adding to a collection that is created for it."""

    name, before, after = "add to a new one", None, ADDED


class Add(Operation):
    """Adding more documents."""

    name, before, after = "add", 0, ADDED


class Replace(Operation):
    """Adding documents that have changed."""

    name, before, after = "replace", ADDED, REPLACED


class Remove(Operation):
    """Removing documents."""

    name, before, after = "remove", REPLACED, REMOVED

    def act(self) -> None:
        """Remove what is still there."""
        with closing(Collection.open(self.bench.collection)) as collection:
            known = {Path(document.path).name for document in collection.documents()}
            targets = [self.bench.documents / name for name in GONE if name in known]
            if targets:
                remove(collection, targets)
            add(collection, [self.bench.documents], embedder=EMBEDDER, producer=produce)  # finishes it


class Compact(Operation):
    """Compacting after removals, with blobs that a killed process has left."""

    name, before, after = "compact", REMOVED, REMOVED

    def prepare(self) -> None:
        """Put files there that nothing names, some of them old enough to be deleted."""
        super().prepare()
        for number in range(6):
            data = f"nothing names this {number}".encode()
            name = hashlib.sha256(data).hexdigest()
            path = self.bench.collection / "blobs" / name[:2] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            if number % 2:
                os.utime(path, (_OLD_SECONDS, _OLD_SECONDS))

    def act(self) -> None:
        """Compact."""
        with closing(Collection.open(self.bench.collection)) as collection:
            compact(collection)

    def compare(self) -> list[str]:
        """Old blobs that nothing names are gone, too; the others are not."""
        with closing(Collection.open(self.bench.collection)) as collection:
            stray = len(set(collection.store.blobs.names()) - collection.store.named_blobs())
        return [*super().compare(), *(["old blobs are left."] if stray > 3 else [])]


class BackUp(Operation):
    """A backup beside an earlier one, which it deletes in the end in half of the cases."""

    name, before, after = "backup", REPLACED, REPLACED
    keep: int | None = None

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._earlier = bench.scratch / "earlier-backups"
        if not self._earlier.exists():
            bench.reset(ADDED)
            compute(lambda: back_up_closed(bench.collection, bench.backups, None))
            shutil.copytree(bench.backups, self._earlier)
        self._number = 0

    def prepare(self) -> None:
        """Put an earlier backup there, of another state."""
        super().prepare()
        shutil.copytree(self._earlier, self.bench.backups)
        self._number += 1
        self.keep = 1 if self._number % 2 else None

    def act(self) -> None:
        """Back up."""
        back_up_closed(self.bench.collection, self.bench.backups, self.keep)

    def check(self, said: list[str]) -> list[str]:
        """All snapshots that are there are whole, the earlier one unless it was to be deleted."""
        wrong = super().check(said)
        store = BackupStore.open(self.bench.backups)
        names, (earlier,) = (
            store.names(),
            (path.name for path in self._earlier.iterdir() if path.name[0] == "2"),
        )
        if earlier not in names and (self.keep is None or len(names) != 1):
            wrong.append("a snapshot is lost.")
        if DONE in said and len(names) != (self.keep or 2):
            wrong.append("the snapshot that was acknowledged is not there.")
        wrong += [f"backup: {problem.detail}" for problem in find_problems(store, isolate=False)[1]]
        return wrong

    def finish(self) -> list[str]:
        """Back up again, restore that, and compare."""
        self.act()
        target = self.bench.scratch / "restored"
        shutil.rmtree(target, ignore_errors=True)
        restore(self.bench.backups, target)
        differing = find_differences(read_closed(target), self.new)
        wrong = [f"the restored one differs: {name.split()[0]}" for name in differing]
        store = BackupStore.open(self.bench.backups)
        if self.keep == 1:  # nothing else is left
            needed = set(store.contents(store.read(store.names()[0])).values())
            wrong += ["blobs are left that no snapshot needs."] * (set(store.blobs.names()) != needed)
        return [*wrong, *self.compare()]


def back_up_closed(directory: Path, backups: Path, keep: int | None) -> None:
    """Back up a collection."""
    with closing(Collection.open(directory)) as collection:
        back_up(collection, backups, keep=keep)


class Publish(Operation):
    """Publishing to a folder by its URL, where an earlier state is published."""

    name, before, after = "publish", REPLACED, REPLACED

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._published = bench.content(ADDED)
        self._earlier = bench.scratch / "earlier-publication"
        if not self._earlier.exists():
            bench.reset(ADDED)
            compute(self.act)
            shutil.copytree(self._folder, self._earlier)

    @property
    def _folder(self) -> Path:
        return self.bench.disk / "published"

    def prepare(self) -> None:
        """Put the earlier publication there."""
        super().prepare()
        shutil.copytree(self._earlier, self._folder)
        shutil.rmtree(self.bench.scratch / "fetched", ignore_errors=True)

    def act(self) -> None:
        """Publish."""
        from vrag.index.remote.publish import publish

        with closing(Collection.open(self.bench.collection)) as collection:
            publish(collection, self._folder.as_uri())

    def check(self, said: list[str]) -> list[str]:
        """What is published is the earlier state or the new one, as a whole."""
        found = self._fetch()
        known = [self.new] if DONE in said else [self.new, self._published]
        wrong = [] if found in known else ["what is published is neither as before nor as after."]
        return wrong + super().check(said)

    def finish(self) -> list[str]:
        """Publish again, and compare what is published."""
        self.act()
        return ["what is published differs."] * (self._fetch() != self.new) + self.compare()

    def _fetch(self) -> dict[str, Any]:
        for name in ("CACHE", "DATA"):
            os.environ[f"XDG_{name}_HOME"] = str(self.bench.scratch / "fetched" / name)
        with closing(open_collection(self._folder.as_uri())) as collection:
            return read_content(collection)
