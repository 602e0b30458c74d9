"""Damage to the files of a collection: is it found, named and repaired?

    python -m benchmarks.damage [--rounds 1000] [--seed 1] [--no-sources] [--out FILE]

The collection has PDF files, a picture, a video, a text and an upload, with vectors of late interaction,
several versions of both tables, recorded runs and search caches. Each round takes a copy of it, and flips a
random bit in a random file, or cuts a random file at a random place; the time of the file stays, as on a
failing disk. Half of the files are drawn by their number, half by their bytes. Then

1. `verify --repair` must find it, and name the file; a cut that looks like the end of a killed process may
   count as a leftover, and so may a damaged copy of a manifest.
2. It must repair it: every row, picture, run and setting is compared with the original's, and its own second
   verification finds nothing. In every tenth round `verify` runs by itself before and after.

With `--no-sources` the documents are gone: what was not damaged must stay, and what was lost must be listed.
Rounds run in a child process, which is started again when it dies or takes longer than `MAX_SECONDS`: both
count as failures.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from vrag.agent.runs.run_checks import check_runs
from vrag.agent.runs.run_store import RunStore
from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import VectorKind
from vrag.errors import VragError
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.integrity.problems import ProblemKind, VerifyProblem, VerifyReport
from vrag.index.integrity.verification import open_damaged, verify
from vrag.index.maintenance import remove
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder
from vrag.types import Query

CORPUS = Path(__file__).resolve().parents[1] / "src" / "vrag" / "samples" / "corpus"
DOCUMENTS = ("annual-report-2024.pdf", "guillemot-slides.pdf", "notes-for-crews.md", "price-board.jpg")
QUESTIONS = ("When is the first crossing of the Guillemot planned?", "How many passengers were carried?")
MAX_SECONDS = 240.0
EMBEDDER = HashEmbedder(VectorKind.MULTI, 16)
OPTIONS = CorpusOptions(ocr="never", workers=1)


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
        """Replace the file, which may be linked, by a damaged one of the same time."""
        path = home / self.file
        status, data = path.stat(), bytearray(path.read_bytes())
        if self.cut is not None:
            del data[self.cut :]
        else:
            data[self.bit // 8] ^= 1 << self.bit % 8
        path.unlink()
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# --- the collection ----------------------------------------------------------------------------------


def build(home: Path, documents: Path, uploaded: Path) -> None:
    """Make the collection, with some history."""
    documents.mkdir(parents=True)
    for name in DOCUMENTS:
        shutil.copy(CORPUS / name, documents / name)
    write_film(documents / "film.mp4")
    (documents / "old.txt").write_text("This will be removed.\n" * 20)
    collection = Collection.create(home, OPTIONS, embedder=EMBEDDER)
    uploads = home / "uploads"
    uploads.mkdir()
    shutil.copy(uploaded, uploads / uploaded.name)
    for paths in ([documents / "old.txt", documents / DOCUMENTS[0]], [documents]):
        add(collection, paths, embedder=EMBEDDER)
    add_sources(collection, [uploads / uploaded.name], local(EMBEDDER))
    remove(collection, [str(documents / "old.txt")])
    asyncio.run(record_runs(home))
    engine = Engine(Collection.open(home), EMBEDDER)
    for _ in range(2):
        engine.search([Query(QUESTIONS[0])], 5)


def write_film(path: Path) -> None:
    """Write a video of some seconds."""
    av: Any = importlib.import_module("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.time_base = Fraction(1, 8)
        for number in range(40):
            pixels = np.full((64, 96, 3), number * 6, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


async def record_runs(home: Path) -> None:
    """Ask some questions without a model: pages are looked at."""
    import vrag

    session = vrag.open(collection=str(home), ranking="lexical")
    for question in QUESTIONS:
        await session.aask(question)


def content(home: Path) -> dict[str, Any]:
    """Read everything that counts, by name; values are compared. What is listed first is compared first."""
    collection = Collection.open(home)
    schema = collection.item_table.schema.names
    found: dict[str, Any] = {"header": (home / "collection.json").read_bytes()}
    names = [name for name in schema if "checksum" not in name]
    for row in collection.item_table.read([*names, "checksums", "name_checksum"]).data.to_pylist():
        found[f"item {row['id']}"] = row
        for column in ("image", "clip_path"):
            if row[column]:
                with collection.stored(row[column]) as file:
                    found[f"media {row[column]}"] = hashlib.sha256(file.read()).hexdigest()
    for row in collection.file_table.read(collection.file_table.schema.names).data.to_pylist():
        found[f"file {row['key']}"] = row
    for path in sorted((home / "runs").rglob("*")):
        if path.is_file() and path.name != "lock":
            found[f"run {path.relative_to(home / 'runs').as_posix()}"] = path.read_bytes()
    for path in sorted((home / "uploads").iterdir()):
        found[f"upload {path.name}"] = path.read_bytes()
    return found


# --- one round -----------------------------------------------------------------------------------------


def draw(home: Path, chance: random.Random) -> Damage:
    """Draw a damage."""
    files = sorted(p for p in home.rglob("*") if p.is_file() and p.stat().st_size)
    weights = [path.stat().st_size for path in files] if chance.random() < 0.5 else None
    [path] = chance.choices(files, weights)
    size = path.stat().st_size
    cut = chance.randrange(size) if chance.random() < 1 / 3 else None
    return Damage(path.relative_to(home).as_posix(), size, cut, chance.randrange(8 * size))


def copy(base: Path, home: Path) -> None:
    """Copy a collection by links; files that are appended to are copied."""
    shutil.rmtree(home, ignore_errors=True)
    for path in sorted(base.rglob("*")):
        target = home / path.relative_to(base)
        if path.is_dir():
            target.mkdir(parents=True)
        elif path.suffix == ".files" or path.name == "lock":
            shutil.copy2(path, target)
        else:
            target.hardlink_to(path)


def check(home: Path, *, repair: bool = False) -> VerifyReport:
    """Verify the collection and its runs, as the command does."""
    producer = local(EMBEDDER)

    def remake(damaged: Collection, paths: Sequence[Path]) -> object:
        return add(Collection.open(damaged.directory), paths, embedder=EMBEDDER, producer=producer)

    report = verify(open_damaged(home), repair=repair, prepare=lambda _: remake)
    runs = check_runs(RunStore(home / "runs", home), repair=repair)
    return report.plus(runs.runs, runs.problems)


def names_it(problem: VerifyProblem, file: str) -> bool:
    """Check whether a problem names a file, or for a table's file the folder of the same file."""
    return problem.file == file


def run_round(number: int, seed: int, base: Path, home: Path, original: dict[str, Any]) -> dict[str, Any]:
    """Damage a copy; verify; repair; compare."""
    chance = random.Random(f"{seed} {number}")
    copy(base, home)
    damage = draw(home, chance)
    damage.apply(home)
    facts: dict[str, Any] = {"round": number, **damage._asdict()}
    began = time.monotonic()
    try:
        report = check(home) if number % 10 == 0 else None
        repaired = check(home, repair=True)
        again = check(home) if report else None
        now = content(home)
    except VragError as error:
        return facts | {"error": error.message}
    report = report or repaired
    named = [problem for problem in report.problems if names_it(problem, damage.file)]
    facts |= {
        "found": any(problem.kind is not ProblemKind.UNPROTECTED for problem in report.problems),
        "named": bool(named),
        "kind": next(iter(sorted(problem.kind for problem in named)), ""),
        "problems": [f"{p.subject}: {p.detail} [{p.file}]" for p in report.problems][:6],
        "seconds": time.monotonic() - began,
    }
    differing = sorted(name for name in original.keys() | now.keys() if original.get(name) != now.get(name))
    listed = [f"{p.subject}: {p.detail}" for p in repaired.open]
    return facts | {
        "clean": (again or repaired).worst is None,
        "differing": differing[:8],
        "columns": describe(original, now, differing),
        "listed": listed[:6],
    }


def describe(original: dict[str, Any], now: dict[str, Any], differing: list[str]) -> list[str]:
    """Name the columns that differ."""
    found: list[str] = []
    for name in differing[:8]:
        a, b = original.get(name), now.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            before: dict[str, Any] = dict(cast("dict[str, Any]", a))
            found += [f"{name}.{column}" for column in before if before[column] != b[column]]
        else:
            found.append(f"{name} {'gone' if b is None else 'new' if a is None else 'other'}")
    return found[:12]


def work(base: Path, home: Path, seed: int) -> None:
    """The child: rounds by their numbers from standard input, results to standard output."""
    shutil.rmtree(home, ignore_errors=True)
    copy(base, home)
    original = content(home)
    for line in sys.stdin:
        facts = run_round(int(line), seed, base, home, original)
        print(json.dumps(facts), flush=True)


# --- all rounds ----------------------------------------------------------------------------------------


class Worker:
    """A child that runs rounds."""

    def __init__(self, base: Path, home: Path, seed: int) -> None:
        self._command = [sys.executable, "-m", __spec__.name if __spec__ else "benchmarks.damage"]
        self._command += ["--work", str(base), str(home), "--seed", str(seed)]
        self._child: subprocess.Popen[str] | None = None

    def run(self, number: int) -> dict[str, Any]:
        """Run a round; a child that dies or hangs is a result of its own."""
        if self._child is None:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        child = self._child
        assert child.stdin
        assert child.stdout
        assert child.stderr
        print(number, file=child.stdin, flush=True)
        timer = threading.Timer(MAX_SECONDS, child.kill)
        timer.start()
        line = child.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        self._child = None
        child.kill()
        return {"round": number, "crash": child.stderr.read()[-1500:], "status": child.wait()}

    def close(self) -> None:
        """End the child."""
        if self._child and self._child.stdin:
            self._child.stdin.close()
            self._child.wait()


def main() -> None:
    """Run all rounds and print the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-sources", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=2, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        base, home = args.work
        work(base, home, args.seed)
        return
    with tempfile.TemporaryDirectory(prefix="vrag-damage-") as folder:
        base, home, documents = Path(folder) / "base", Path(folder) / "collection", Path(folder) / "documents"
        build(home, documents, CORPUS / "passenger-guide-zh.pdf")
        home.rename(base)
        if args.no_sources:
            documents.rename(Path(folder) / "gone")
        worker = Worker(base, home, args.seed)
        results: list[dict[str, Any]] = []
        for number in range(args.first, args.first + args.rounds):
            results.append(worker.run(number))
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(results[-1]) + "\n")
            if problem := fault_of(results[-1], no_sources=args.no_sources):
                print(f"round {number}: {problem}: {json.dumps(results[-1])}", flush=True)
        worker.close()
    print_totals(results, no_sources=args.no_sources)


def fault_of(facts: dict[str, Any], *, no_sources: bool) -> str:
    """Return what is wrong with the result of a round; empty if nothing is."""
    listed = facts.get("listed")
    faults = {
        "crashed": "crash" in facts,
        "failed": "error" in facts,
        "not found": not facts.get("found"),
        "not named": not facts.get("named"),
        "changed in silence": facts.get("differing") and not (listed or (no_sources and not facts["clean"])),
        "not repaired and not listed": not facts.get("clean") and not listed,
    }
    return next((fault for fault, is_so in faults.items() if is_so), "")


def part_of(file: str) -> str:
    """Return the part of a collection that a file belongs to."""
    folder, _, rest = file.partition("/")
    if folder == "index" and "/" in rest:
        table, kind, *_ = rest.split("/")
        return f"index/{table}/{kind}"
    if folder == "runs":
        name = file.rsplit("/", 1)[-1]
        return f"runs: {'pictures and messages' if '/files/' in file else name}"
    return folder if "/" in file else file


def print_totals(results: list[dict[str, Any]], *, no_sources: bool) -> None:
    """Print a table by parts of the collection."""
    parts: dict[str, Counter[str]] = {}
    for facts in results:
        row = parts.setdefault(part_of(facts.get("file", "?")), Counter())
        row["rounds"] += 1
        row["flips" if facts.get("cut") is None else "cuts"] += 1
        row["found"] += bool(facts.get("found"))
        row["named"] += bool(facts.get("named"))
        same = not facts.get("differing", [1])
        row["as before"] += same
        row["listed"] += not same and bool(facts.get("listed"))
        row["faults"] += bool(fault_of(facts, no_sources=no_sources))
    names = ("rounds", "flips", "cuts", "found", "named", "as before", "listed", "faults")
    print(f"{'part':34}" + "".join(f"{name:>11}" for name in names))
    for part, row in sorted(parts.items()):
        print(f"{part:34}" + "".join(f"{row[name]:11}" for name in names))
    total = sum(parts.values(), Counter[str]())
    print(f"{'all':34}" + "".join(f"{total[name]:11}" for name in names))


if __name__ == "__main__":
    main()
