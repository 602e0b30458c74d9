"""SIGKILL during indexing: is anything lost, doubled or out of step?

    python benchmarks/kills.py [--kills 200] [--seed 1]

Each round starts from nothing, from a collection whose files have since changed, or from one that is
to be pruned or compacted. A child process in a session of its own does the work, with its worker
processes; at some moment the whole group gets SIGKILL. Some of the runs after it are killed as well.
Then it runs to its end, and the collection is compared with a clean build of the same files: every
column of every row of both tables, and every byte of every picture.

The moment is chosen in one of four ways: at a random time after the start; at a random time after the
first items were committed; up to some milliseconds after a call into the table began; or as soon as
that call has written its transaction file, which is just before the manifest that makes it count. The
child reports through a pipe when such a call begins (`+`) and returns (`-`). A kill counts as inside a
commit if the last mark is a `+`; the files it left tell how far the commit had come. A kill counts as
after the first append if items had been committed, by this process or by one killed before it.

Vectors are made from the item's picture or text, so that a row that got another's vectors shows. Every
run ends by searching, which builds the caches of words and of vectors: those builds are killed too, and
what is found in the end is compared.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from PIL import Image, ImageDraw

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.embed_items import content_of
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import compact, prune
from vrag.index.manifest import read_manifest
from vrag.index.schema import item_of
from vrag.index.vectors.tiers import VectorOptions
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder
from vrag.types import DocumentStatus, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.types import Hit

P = ParamSpec("P")
T = TypeVar("T")

OPTIONS = CorpusOptions(ocr="never", workers=2)
WORDS = "revenue margin growth table figure quarter region forecast cost share asset 收入 增长 利润".split()
CALLS = {
    "add": "append",
    "_do_merge": "upsert",
    "delete": "delete",
    "update": "update",
    "optimize": "compact",
}
"""Methods of LanceDB's table that write, and what we call it."""
MOST_SECONDS = 120.0


# --- the files ---------------------------------------------------------------------------------------


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with a text layer: one line of text after the other on small pages."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        stream = f"BT /F1 10 Tf 20 260 Td {shown}ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 220 280] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += "".join(f"{offset:010} 00000 n \n" for offset in offsets).encode()
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def line(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS[:-3], k=5))


def write_pdf(path: Path, pages: int, chance: random.Random) -> None:
    path.write_bytes(pdf([[line(chance) for _ in range(12)] for _ in range(pages)]))


def write_image(path: Path, chance: random.Random) -> None:
    image = Image.new("RGB", (300, 200), "white")
    ImageDraw.Draw(image).text((20, 20), line(chance), "black")
    image.save(path)


def write_text(path: Path, chance: random.Random) -> None:
    path.write_text("\n\n".join(" ".join(chance.choices(WORDS, k=60)) for _ in range(8)), encoding="utf-8")


def make_corpus(folder: Path) -> None:
    """PDFs, pictures, texts, two of the same bytes, a broken file and an empty one."""
    chance = random.Random(1)
    folder.mkdir(parents=True)
    for number, pages in enumerate([40, 1, 25, 7, 60, 3, 12]):
        write_pdf(folder / f"report {number}.pdf", pages, chance)
    for number in range(12):
        write_image(folder / f"picture {number}.png", chance)
    for number in range(60):
        write_text(folder / f"text {number}.txt", chance)
    shutil.copy(folder / "report 3.pdf", folder / "twin.pdf")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (folder / "empty.txt").write_bytes(b"")


def change_corpus(folder: Path) -> None:
    """Some files change, some go, some come, one moves."""
    chance = random.Random(2)
    write_pdf(folder / "report 2.pdf", 30, chance)
    write_pdf(folder / "report 5.pdf", 2, chance)
    write_image(folder / "picture 4.png", chance)
    for number in range(0, 60, 7):
        write_text(folder / f"text {number}.txt", chance)
    write_pdf(folder / "new.pdf", 20, chance)
    (folder / "broken.pdf").write_bytes(pdf([["now it is whole"]]))
    for name in ("report 6.pdf", "text 3.txt", "picture 1.png"):
        (folder / name).unlink()
    (folder / "text 5.txt").rename(folder / "moved.txt")


# --- the child ---------------------------------------------------------------------------------------


EMBEDDER = HashEmbedder(VectorKind.MULTI, 8)
QUERIES = [Query(word) for word in ("revenue margin growth", "table of shares", "收入 增长")]


def expected_vectors(collection: Collection, row: dict[str, Any]) -> list[list[float]]:
    """Those of the picture or text that a row's item has, as they are stored."""
    content = content_of(item_of(row), collection.items_dir, EMBEDDER.modalities)
    assert content is not None, "the embedder takes pictures and text"
    (vectors,) = EMBEDDER.embed_items([content])
    return vectors.astype(np.float16).tolist()


def found(collection: Collection) -> list[list[Hit]]:
    """What some queries find, by words and by vectors, through caches that are built on the way."""
    engine = Engine(collection, EMBEDDER, vectors=VectorOptions("pooled"))
    return engine.search(QUERIES, 20)


def mark_calls(pipe: int) -> None:
    """Makes every write of the table say when it begins and returns."""
    from lancedb.table import LanceTable

    table: Any = LanceTable
    for name, meaning in CALLS.items():
        setattr(table, name, marked(getattr(table, name), meaning, pipe))


class Named(Protocol):
    """A table."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


def marked(
    call: Callable[Concatenate[Named, P], T], meaning: str, pipe: int
) -> Callable[Concatenate[Named, P], T]:
    def wrapper(table: Named, *args: P.args, **named: P.kwargs) -> T:
        os.write(pipe, f"+{meaning} {table.name}\n".encode())
        try:
            return call(table, *args, **named)
        finally:
            os.write(pipe, f"-{meaning} {table.name}\n".encode())

    return wrapper


def work(action: str, directory: Path, corpus: Path) -> None:
    """What a child does. Every action may be run again."""
    collection = Collection.open_or_create(directory, OPTIONS, embedder=EMBEDDER)
    if action == "compact":
        compact(collection)
        return
    if action == "change":
        prune(collection)
    add(collection, [corpus], embedder=EMBEDDER)
    found(collection)


# --- the parent --------------------------------------------------------------------------------------


@dataclass
class Child:
    """A running child and what it has said."""

    process: subprocess.Popen[bytes]
    pipe: int
    said: str = ""

    @classmethod
    def start(cls, action: str, directory: Path, corpus: Path) -> Child:
        """Starts one, in a process group of its own."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        command = [sys.executable, __file__, "--child", action, str(directory), str(corpus), str(theirs)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command, start_new_session=True, pass_fds=[theirs], env=env, stderr=subprocess.PIPE
        )
        os.close(theirs)
        return cls(process, ours)

    def listen(self) -> None:
        """Takes in what it has said."""
        try:
            while data := os.read(self.pipe, 65536):
                self.said += data.decode()
        except BlockingIOError:
            pass

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Until the condition holds or the child ends; whether it still runs."""
        stop = time.monotonic() + MOST_SECONDS
        while self.process.poll() is None:
            self.listen()
            if condition():
                return True
            if time.monotonic() > stop:
                self.kill()
                raise TimeoutError("the child hangs")
            time.sleep(0.0005)
        return False

    def kill(self) -> None:
        """SIGKILL to it and to its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Waits for its end and hears the rest."""
        _, error = self.process.communicate(timeout=MOST_SECONDS)
        self.listen()
        os.close(self.pipe)
        if self.process.returncode not in {0, -signal.SIGKILL}:
            raise RuntimeError(f"the child failed:\n{error.decode()}")
        return self.process.returncode

    @property
    def begun(self) -> int:
        """How many writes have begun."""
        return self.said.count("+")

    @property
    def appended(self) -> bool:
        """Whether it has committed items."""
        return "-append items" in self.said

    @property
    def inside(self) -> str | None:
        """The write that had begun and not returned."""
        marks = self.said.splitlines()
        return marks[-1][1:] if marks and marks[-1].startswith("+") else None


@dataclass
class Tally:
    """What happened."""

    kills: int = 0
    after_append: int = 0
    inside: Counter[str] = field(default_factory=Counter[str])
    stages: Counter[str] = field(default_factory=Counter[str])
    actions: Counter[str] = field(default_factory=Counter[str])
    rounds: int = 0
    of_reruns: int = 0
    too_late: int = 0
    wrong: Counter[str] = field(default_factory=Counter[str])


def stage(directory: Path, write: str) -> str:
    """How far the commit had come that was killed, by the files it left in its table.

    The steps: data file, transaction file named by the version it starts from, manifest of the next
    version under a provisional name, hard link to its name. Manifests are named by 2^64 - 1 - version.
    """
    table = directory / "index" / f"{write.split()[1]}.lance"
    manifests = [path.name for path in (table / "_versions").glob("*.manifest*")]
    newest = max((2**64 - 1 - int(n.split(".")[0]) for n in manifests if n.endswith(".manifest")), default=0)
    started = max(
        (int(path.name.split("-")[0]) for path in (table / "_transactions").glob("*.txn")), default=-1
    )
    if any("#" in name for name in manifests):
        return "manifest written, not linked"
    return (
        "transaction written, no manifest"
        if started >= newest
        else "before the transaction file, or after the link"
    )


def transactions(directory: Path) -> int:
    """How many transaction files both tables have."""
    return sum(1 for _ in directory.glob("index/*.lance/_transactions/*"))


def snapshot(collection: Collection) -> dict[str, Any]:
    """All rows by id, all files by path, all pictures by name."""
    rows = collection.scan(collection.item_table.schema.names).data.to_pylist()
    pictures = (path for path in collection.items_dir.rglob("*") if path.is_file())
    return {
        "found": found(collection),
        "ids": Counter(row["id"] for row in rows),
        "rows": {row["id"]: row for row in rows},
        "files": read_manifest(collection),
        "pictures": {p.relative_to(collection.items_dir).as_posix(): p.read_bytes() for p in pictures},
    }


def compare(collection: Collection, clean: dict[str, Any]) -> Counter[str]:
    """In what a collection differs from the clean build."""
    now = snapshot(collection)
    vectors = (row["vectors"] != expected_vectors(collection, row) for row in now["rows"].values())
    referred = {row["image"] for row in now["rows"].values() if row["image"]}
    return Counter(
        {
            "items lost": len(clean["ids"].keys() - now["ids"].keys()),
            "items too many": len(now["ids"].keys() - clean["ids"].keys()),
            "items doubled": sum(count - 1 for count in now["ids"].values()),
            "vectors out of step": sum(vectors),
            "pictures out of step": len(referred ^ now["pictures"].keys()),
            "rows that differ": sum(now["rows"].get(item) != row for item, row in clean["rows"].items()),
            "files that differ": sum(
                now["files"].get(path) != clean["files"].get(path) for path in now["files"] | clean["files"]
            ),
            "pictures that differ": sum(
                now["pictures"].get(name) != data for name, data in clean["pictures"].items()
            ),
            "searches that differ": sum(
                ours != theirs for ours, theirs in zip(now["found"], clean["found"], strict=True)
            ),
            "problems found by verify": len(verify(collection).problems),
        }
    )


class Study:
    """Rounds of kills, each compared with a clean build."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.tally = Tally()
        self._folder = folder
        self._chance = random.Random(seed)
        self.corpora = {"add": folder / "first", "change": folder / "second", "compact": folder / "second"}
        make_corpus(folder / "first")
        shutil.copytree(folder / "first", folder / "second")
        # A collection knows files by path: the same files at the paths of the second, to be changed.
        self._run("add", folder / "base", folder / "second")
        change_corpus(folder / "second")
        self.seconds = {action: self._time(action) for action in self.corpora}
        self.clean = {
            "add": snapshot(Collection.open(folder / "clean-add")),
            "change": snapshot(Collection.open(folder / "clean-change")),
        }
        self.clean["compact"] = self.clean["change"]

    def round(self) -> None:
        """From some start through one kill or more to the end."""
        action = self._chance.choices(["add", "change", "compact"], [0.6, 0.3, 0.1])[0]
        directory = self._folder / "victim"
        shutil.rmtree(directory, ignore_errors=True)
        if action == "change":
            shutil.copytree(self._folder / "base", directory)
        if action == "compact":
            shutil.copytree(self._folder / "clean-change", directory)
        appended = action != "add"
        for number in range(1 + self._chance.choice([0, 1, 1, 2, 3])):
            finished, appended = self._kill_once(action, directory, rerun=number > 0, appended=appended)
            if finished:
                break
        work("add" if action == "add" else "change", directory, self.corpora[action])
        self.tally.rounds += 1
        wrong = compare(Collection.open(directory), self.clean[action])
        self.tally.wrong.update(wrong)
        if wrong.total():
            print(f"\nround {self.tally.rounds} ({action}) is wrong: {+wrong}", file=sys.stderr)
            for path, entry in self.clean[action]["files"].items():
                now = read_manifest(Collection.open(directory)).get(path)
                if now != entry:
                    print(f"{path}: {now} instead of {entry}", file=sys.stderr)

    def _kill_once(self, action: str, directory: Path, *, rerun: bool, appended: bool) -> tuple[bool, bool]:
        """Runs and kills; whether it ended before that, and whether items have been committed."""
        child = Child.start(action, directory, self.corpora[action])
        alive = self._wait(child, action, directory, appended=appended)
        if alive:
            child.kill()
        code = child.end()
        appended = appended or child.appended
        if code == 0:
            self.tally.too_late += 1
            return True, appended
        self.tally.kills += 1
        self.tally.actions[action] += 1
        self.tally.of_reruns += rerun
        self.tally.after_append += appended
        if child.inside:
            self.tally.inside[child.inside] += 1
            self.tally.stages[stage(directory, child.inside)] += 1
        return False, appended

    def _wait(self, child: Child, action: str, directory: Path, *, appended: bool) -> bool:
        """Until the moment to kill; whether the child still runs."""
        ways = ["time", "append", "commit", "transaction"]
        way = self._chance.choices(ways, [0.1, 0.5, 0.2, 0.2])[0]
        whole = self.seconds[action]
        if way in {"commit", "transaction"}:
            nth = self._chance.randint(1, 3 if action == "compact" else 14)
            alive = child.wait_for(lambda: child.begun >= nth)
            if way == "commit":
                time.sleep(self._chance.uniform(0, 0.006))
                return alive
            files = transactions(directory)
            stop = time.monotonic() + 0.2
            while transactions(directory) == files and time.monotonic() < stop:
                pass
            return alive
        if way == "append" and not appended:
            child.wait_for(lambda: child.appended)
            whole *= 0.3
        moment = time.monotonic() + self._chance.uniform(0.05, whole)
        return child.wait_for(lambda: time.monotonic() >= moment)

    def _run(self, action: str, directory: Path, corpus: Path) -> None:
        child = Child.start(action, directory, corpus)
        child.wait_for(lambda: False)
        assert child.end() == 0

    def _time(self, action: str) -> float:
        """Makes the clean build; seconds of the run that will be killed."""
        directory = self._folder / f"clean-{action}"
        started = time.monotonic()
        if action == "compact":
            shutil.copytree(self._folder / "clean-change", directory)
        self._run(action, directory, self.corpora[action])
        return time.monotonic() - started


def report(study: Study, seconds: float) -> bool:
    """Prints what happened; whether it is as it should be."""
    tally, inside = study.tally, study.tally.inside.total()
    clean = study.clean["add"]
    failed = sum(entry.document.status is DocumentStatus.FAILED for entry in clean["files"].values())
    print(f"files {len(clean['files'])} (of which {failed} broken), items {len(clean['rows'])};", end=" ")
    print("an undisturbed run takes", ", ".join(f"{k} {v:.1f} s" for k, v in study.seconds.items()))
    print(f"kills                          {tally.kills}")
    for action, count in tally.actions.most_common():
        print(f"  during {action:<21} {count}")
    print(f"  of a run after a kill        {tally.of_reruns}")
    print(f"  after the first append       {tally.after_append}")
    print(f"  inside a table commit        {inside}")
    for write, count in sorted(tally.inside.items()):
        print(f"    {write:<26} {count}")
    for name, count in tally.stages.most_common():
        print(f"    {name}: {count}")
    print(f"runs that ended before the kill {tally.too_late} (not counted)")
    print(f"collections compared           {tally.rounds}")
    for name, count in tally.wrong.items():
        print(f"  {name:<28} {count}")
    print(f"wall time                      {seconds:.0f} s")
    return not tally.wrong.total()


def main() -> int:
    parser = argparse.ArgumentParser(description="SIGKILL during indexing.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=4, metavar=("ACTION", "COLLECTION", "CORPUS", "PIPE"))
    arguments = parser.parse_args()
    if arguments.child:
        action, directory, corpus, pipe = arguments.child
        mark_calls(int(pipe))
        work(action, Path(directory), Path(corpus))
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vrag-kills-") as folder:
        study = Study(Path(folder), arguments.seed)
        while study.tally.kills < arguments.kills:
            study.round()
            print(f"\r{study.tally.kills} kills", end="", file=sys.stderr)
        print(file=sys.stderr)
        sound = report(study, time.monotonic() - started)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
