"""Readers beside a writer that is at work, was killed or has closed: the committed state, or a refusal.

The reader is the same user, another user who may not write anywhere in the folder, or sees the folder by a
mount that is read-only. The writer notes with each commit its version and a hash over all rows, inside of
the transaction. A reader opens the collection again and again, or stays, and reads: the version and the
hash have to be a pair that was noted, the hash that of the rows which it reads, and versions never fall. A
refusal is an error of vrag that names its reason.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from benchmarks.durability.faults import Fault
from benchmarks.durability.files import EMBEDDER, OPTIONS, produce, write_pdf, write_text
from benchmarks.durability.processes import Child
from vrag.errors import VragError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, remove
from vrag.index.store import CollectionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from benchmarks.durability.faults import Faults
    from benchmarks.durability.operations import Bench
    from vrag.index.store import Change
    from vrag.storage.connection import Connection

NOBODY = 65534
WRITERS = ("at work", "killed", "closed")
READERS = ("same user", "another user", "read-only mount")
SECONDS = 1.5
"""Time for which a reader reads."""


class ReaderStudy:
    """Cases of a writer and a reader, by number."""

    def __init__(self, bench: Bench, faults: Faults, seed: int) -> None:
        faults.arm(Fault.NONE)
        self._bench, self._seed = bench, seed
        bench.scratch.chmod(0o755)
        self._sample = bench.template(0)

    def case(self, number: int) -> dict[str, Any]:
        """Let one write and another read."""
        chance = random.Random(f"{self._seed} {number}")
        writer = WRITERS[number % 3]
        reader = READERS[number // 3 % 3]
        self._bench.reset(None)
        directory, documents = self._bench.collection, self._bench.scratch / "written"
        shutil.rmtree(documents, ignore_errors=True)
        documents.mkdir()
        seed = chance.getrandbits(32)
        steps = chance.randint(2, 9) if writer == "closed" else None
        said: list[str] = []
        child = Child(lambda say: write(directory, documents, seed, steps, say))
        if writer == "closed":
            said = child.end().acknowledged
        else:
            time.sleep(chance.uniform(0.4, 1.5))
            if writer == "killed":
                child.kill()
                said = child.end().acknowledged
        with read_only_view(directory, is_mounted=reader == "read-only mount") as view:
            user = NOBODY if reader == "another user" else 0
            is_kept = chance.random() < 0.5
            looked = Child(lambda say: read(view, user, is_kept, say, self._sample)).end()
        if writer == "at work":
            child.kill()
            said = child.end().acknowledged
        wrong = [f"The reader failed: {looked.error.strip()[-400:]}"] if looked.status else []
        known = {line.removeprefix("commit ") for line in said if line.startswith("commit")}
        states = [line for line in looked.acknowledged if not line.startswith("refused")]
        wrong += ["a state that was never committed."] * any(state not in known for state in states)
        versions = [int(state.split()[0]) for state in states]
        wrong += ["versions fall."] * (versions != sorted(versions))
        done = [int(line.split()[1]) for line in said if line.startswith("done")]
        if states and writer != "at work" and done and versions[0] < max(done):
            wrong.append("an older state than that which was acknowledged.")
        refusals = len(looked.acknowledged) - len(states)
        counts = {"states read": len(states), "refusals": refusals, "commits": len(known)}
        facts = {"refusal": next((line for line in looked.acknowledged if line.startswith("refused")), "")}
        return {"group": f"{writer}, {reader}", "counts": counts, "wrong": wrong, **facts}


@contextmanager
def read_only_view(directory: Path, *, is_mounted: bool) -> Generator[Path]:
    """Return the folder as a reader sees it: by a mount that is read-only."""
    if not is_mounted:
        yield directory
        return
    view = directory.with_name("view")
    view.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", directory, view], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True)
    try:
        yield view
    finally:
        subprocess.run(["umount", "-l", view], check=True)


def hash_rows(connection: Connection) -> str:
    """Return a hash over all rows of documents and items."""
    digest = hashlib.sha256()
    for table in ("files ORDER BY path", "items ORDER BY id", "texts ORDER BY number"):
        for row in connection.execute(f"SELECT * FROM {table}"):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def note_commits(say: Callable[[str], None]) -> None:
    """Say each commit before it is made, and its version when it is."""
    original = CollectionStore.change

    @contextmanager
    def change(self: CollectionStore, wait: float | None = None) -> Generator[Change]:
        with original(self, wait) as changes:
            yield changes
            with self.database.read() as connection:  # the one of the transaction
                say(f"commit {self.version + (not changes.is_empty)} {hash_rows(connection)}")
        say(f"done {self.version}")

    CollectionStore.change = change


def write(directory: Path, documents: Path, seed: int, steps: int | None, say: Callable[[str], None]) -> None:
    """Add, change and remove documents, and compact: so many times, or until killed."""
    chance = random.Random(seed)
    collection = Collection.create(directory, OPTIONS, embedder=EMBEDDER)
    with collection.store.database.read() as connection:
        say(f"commit 0 {hash_rows(connection)}")
    note_commits(say)
    count = 0
    while steps is None or count < steps:
        count += 1
        for number in range(chance.randint(1, 4)):
            path = documents / f"{chance.randrange(12)}-{number}{chance.choice(['.txt', '.txt', '.pdf'])}"
            (write_pdf if path.suffix == ".pdf" else write_text)(path, chance)
        add(collection, [documents], embedder=EMBEDDER, producer=produce)
        if chance.random() < 0.4:
            known = [document.path for document in collection.documents()]
            targets = chance.sample(known, min(2, len(known)))
            remove(collection, targets)
            for target in targets:
                Path(target).unlink()
        if chance.random() < 0.2:
            compact(collection)
        if chance.random() < 0.3:
            collection.close()
            collection = Collection.open(directory)
    collection.close()


def read(view: Path, user: int, is_kept: bool, say: Callable[[str], None], sample: Path) -> None:
    """Read states for some time, and say each. `sample` is read before, so that all is imported."""
    if user:
        with closing(Collection.open(sample)) as collection:
            collection.catalog()
        with suppress(VragError):
            Collection.open(sample / "nothing")
        os.environ |= {"TMPDIR": "/tmp", "HOME": "/tmp"}
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    end = time.monotonic() + SECONDS
    opened: Collection | None = None
    said = ""
    while time.monotonic() < end:
        try:
            opened = opened or Collection.open(view)
            with opened.store.database.read() as connection:
                state = f"{opened.version} {hash_rows(connection)}"
            opened.catalog()
        except VragError as error:
            state = f"refused: {error.message} {error.hint}"
            is_kept = False
        if state != said:
            say(state)
            said = state
        if not is_kept and opened is not None:
            with suppress(VragError):
                opened.close()
            opened = None
        time.sleep(0.002)
