"""Loss of power: is anything lost that was acknowledged?

    python -m benchmarks.power_loss [index|server] [--seeds 2] [--share 1] [--minutes 60]

The writes of real processes are recorded by strace (`recorded_writes`). `index` runs `vrag index add` twice,
changes files and adds them again, removes one, compacts with nothing kept, and publishes to an S3-compatible
server. `server` runs `vrag ask`, then a server with uploads, a run whose events a client follows, and the
removal of a document. Whatever a process says, that it is done, an answer, a status, an event, is marked at
its place among the writes.

Before and after every sync and every mark, and in the middle between them, the disk is made as a loss of
power may leave it: all that was not synced is lost; names are there, data is not, or is zeros; or a random
part of both is there. States that are the same are opened once. Each is opened by the real program, which
recovers, and checked: `verify` finds no damage but that of caches, which are made again, all that was said
before is there, and the next run gives what a clean build gives.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from benchmarks.kills import write_image, write_pdf, write_text
from benchmarks.load_processes import environment, wait_for
from benchmarks.recorded_writes import MARKS, Recording, digest, losses, materialize, record
from vrag.agent.runs.run_store import RunStore
from vrag.corpus.converter import CorpusOptions
from vrag.errors import VragError
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.maintenance import prune
from vrag.samples import corpus_dir

OPTIONS = CorpusOptions(ocr="never", workers=1)
VERSIONS = 4
"""Of the files: at first, with more, with changed ones, without one."""
LEFTOVERS = ("It is the picture of no item.", "items belong to no file.")
"""What a crash may leave, which is no damage: for versions whose `verify` does not say so itself."""
REMOVED = "text 3.txt"
REPORT = "annual-report-2024.pdf"
QUESTION = "How many passengers did the ferries carry in 2024?"


# --- the files ---------------------------------------------------------------------------------------


def write_report(path: Path, chance: random.Random) -> None:
    """A PDF of four pages."""
    write_pdf(path, 4, chance)


def write_corpus(folder: Path, version: int) -> None:
    """The files of a version: the same bytes and times whenever it is written."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    writers: dict[str, Any] = {f"text {number}.txt": write_text for number in range(9)}
    writers |= {f"picture {number}.png": write_image for number in range(3)}
    writers["report.pdf"] = write_report
    if version >= 1:
        writers |= {"late.txt": write_text, "late.png": write_image}
    for name, write in writers.items():
        changed = version >= 2 and name in {"text 1.txt", "report.pdf", "picture 0.png"}
        if not (version >= 3 and name == REMOVED):
            write(folder / name, random.Random(f"{name} {changed}"))
            os.utime(folder / name, ns=(10**18, 10**18 + int(changed)))


def content(collection: Collection) -> dict[str, dict[str, Any]]:
    """By path: a file's id, state and items; these with all that they consist of."""
    columns = ["id", "document", "ordinal", "document_name", "text", "spans", "boxes", "image"]
    rows = collection.scan(columns).data.to_pylist()
    items: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["id"]):
        if row["image"] is not None:
            data = (collection.items_dir / row["image"]).read_bytes()
            row["picture"] = hashlib.sha256(data).hexdigest()
        items.setdefault(row["document"], []).append(json.loads(json.dumps(row)))
    return {
        Path(document.path).name: {
            "id": document.id,
            "status": str(document.status),
            "items": items.get(document.id, []),
        }
        for document in collection.documents()
    }


# --- what is recorded --------------------------------------------------------------------------------


class Story:
    """A process that runs others and marks what they say."""

    def __init__(self, folder: Path, corpus: Path) -> None:
        self.folder, self.corpus = folder, corpus
        self.collection = folder / "collection"
        self._marks = os.open(folder.with_name(MARKS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def mark(self, *words: object) -> None:
        """Marks what was said."""
        os.write(self._marks, (" ".join(map(str, words)) + "\n").encode())

    def vrag(self, *words: str) -> str:
        """Runs the command line."""
        line = [sys.executable, "-m", "vrag", *words, "--collection", str(self.collection)]
        return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout

    def index(self) -> None:
        """Adds, changes, removes, compacts and publishes."""
        for version in range(VERSIONS):
            write_corpus(self.corpus, version)
            self.mark("begin", version)
            if version == 3:
                self.vrag("index", "remove", str(self.corpus / REMOVED))
            else:
                self.vrag("index", "add", str(self.corpus), "--workers", "1", "--ocr", "never")
            self.mark("done", version)
        for action in ("compact", "publish"):
            line = [sys.executable, "-m", "benchmarks.power_loss", f"--{action}", str(self.collection)]
            subprocess.run(line, check=True)
            self.mark("done", action)

    def server(self) -> None:
        """Asks, uploads, asks the server, and removes."""
        write_corpus(self.corpus, 0)
        self.vrag("index", "add", str(corpus_dir() / REPORT), "--workers", "1", "--ocr", "never")
        self.mark("indexed", REPORT)
        self.mark("answered", json.loads(self.vrag("ask", QUESTION, "--json"))["run"])
        uploads = {
            "first.txt": self.corpus / "text 5.txt",
            "second.png": self.corpus / "picture 1.png",
            "third.pdf": self.corpus / "report.pdf",
        }
        port = "18743"
        line = [sys.executable, "-m", "vrag", "serve", "--port", port, "--collection", str(self.collection)]
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, process)
            with httpx.Client(base_url=url, timeout=120) as client:
                jobs: dict[str, str] = {}
                for name, path in uploads.items():
                    data = path.read_bytes()
                    answer = client.put(f"/collections/collection/documents/{name}", content=data)
                    assert answer.status_code == 202, answer.text
                    self.mark("stored", name, hashlib.sha256(data).hexdigest())
                    jobs[name] = answer.json()["id"]
                for name, job in jobs.items():
                    while (state := client.get(f"/jobs/{job}").json())["state"] not in {"finished", "failed"}:
                        time.sleep(0.1)
                    assert state["state"] == "finished", state
                    self.mark("ready", name)
                run = client.post("/runs", json={"question": QUESTION}).json()["id"]
                with client.stream("GET", f"/runs/{run}/events") as events:
                    for text in events.iter_lines():
                        if text.startswith("id: "):
                            self.mark("event", run, text[4:])
                found = client.get("/collections/collection/documents").json()["documents"]
                (document,) = (entry["id"] for entry in found if entry["name"] == "first.txt")
                self.mark("removing", "first.txt")
                assert client.delete(f"/collections/collection/documents/{document}").status_code == 204
                self.mark("removed", "first.txt")
            process.send_signal(signal.SIGTERM)


def compact_all(directory: str) -> None:
    """Compacts, and keeps no older version."""
    from vrag.index.maintenance import compact

    compact(Collection.open(directory), timedelta(milliseconds=1))


def publish_all(directory: str) -> None:
    """Publishes to a server of this process, merging all small files before."""
    from tests.index.object_storage import BUCKET, environment, serve
    from vrag.index.remote import publish

    publish.MAX_PIECES = 0
    serving = serve()
    storage = next(serving)
    os.environ |= environment(storage)
    storage.start_over()
    publish.publish(Collection.open(directory), f"s3://{BUCKET}/loss")
    serving.close()


# --- what is checked ---------------------------------------------------------------------------------


def damage(collection: Collection) -> list[str]:
    """What `verify` finds, without the leftovers of a crash."""
    try:
        module = importlib.import_module("vrag.index.integrity.verification")
    except ImportError:
        module = importlib.import_module("vrag.index.maintenance")
    report = module.verify(collection)
    problems = [p for p in report.problems if getattr(p, "kind", "damage") == "damage"]
    found = [f"{problem.subject}: {problem.detail}" for problem in problems]
    return [text for text in found if not text.endswith(LEFTOVERS) and not text.startswith("cache/")]


class Checker:
    """The checks of the states of one story."""

    def __init__(self, corpus: Path, scratch: Path) -> None:
        self.corpus, self.scratch = corpus, scratch
        self._clean: dict[int, dict[str, Any]] = {}

    def clean(self, version: int) -> dict[str, Any]:
        """A clean build of a version of the files."""
        if version not in self._clean:
            write_corpus(self.corpus, version)
            collection = Collection.create(self.scratch / f"clean{version}", OPTIONS)
            add(collection, [self.corpus])
            self._clean[version] = content(collection)
        return self._clean[version]

    def index(self, folder: Path, marks: list[list[str]]) -> list[str]:
        """What is lost of the files that were added and removed."""
        begun = max((int(mark[1]) for mark in marks if mark[0] == "begin"), default=0)
        done = max((int(mark[1]) for mark in marks if mark[0] == "done" and mark[1].isdigit()), default=-1)
        now = self.clean(begun)
        before = self.clean(done) if done >= 0 else {}
        write_corpus(self.corpus, begun)
        place = folder / "collection"
        if done < 0 and not (place / "collection.json").exists():
            collection = Collection.create(place, OPTIONS)
        else:
            collection = Collection.open(place)
        lost = damage(collection)
        found = content(collection)
        for name, document in before.items():
            allowed = [document, now[name]] if name in now else [document, None]
            entry = found.get(name)
            if entry not in allowed:
                lost.append(f"{name}: {entry and (entry['status'], len(entry['items']))}")
        lost += [f"{name} is back" for name in found if name not in before and name not in now]
        prune(collection)
        add(collection, [self.corpus])
        if content(collection) != now:
            lost.append("The next run gives something else than a clean build.")
        return lost + [f"afterwards: {problem}" for problem in damage(collection)]

    def server(self, folder: Path, marks: list[list[str]]) -> list[str]:
        """What is lost of runs and uploads."""
        write_corpus(self.corpus, 0)
        place = folder / "collection"
        if not marks and not (place / "collection.json").exists():
            return []
        collection = Collection.open(place)
        lost = damage(collection)
        found = content(collection)
        said: dict[str, set[str]] = {}
        for word, name, *_ in marks:
            said.setdefault(word, set()).add(name)
        removing = said.get("removing", set())
        for name in said.get("indexed", set()) | said.get("ready", set()) - removing:
            if name not in found or found[name]["status"] != "ready" or not found[name]["items"]:
                lost.append(f"{name} is not in the collection.")
        for word, name, *more in marks:
            if word == "stored" and name not in removing:
                path = place / "uploads" / name
                if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != more[0]:
                    lost.append(f"{name} is not stored.")
        lost += self._runs(collection, marks)
        uploads = place / "uploads"
        paths = [path for path in sorted(uploads.glob("*")) if not path.name.startswith(".")]
        add_sources(collection, paths, local(None, 8))
        found = content(collection)
        for name in said.get("stored", set()) - removing:
            if name not in found or found[name]["status"] != "ready":
                lost.append(f"{name} is not indexed by the next run.")
        lost += [f"{name} is back." for name in said.get("removed", set()) if name in found]
        return lost + [f"afterwards: {problem}" for problem in damage(collection)]

    def _runs(self, collection: Collection, marks: list[list[str]]) -> list[str]:
        lost: list[str] = []
        store = RunStore(collection.runs_dir)
        seen = {mark[1]: -1 for mark in marks if mark[0] in {"answered", "event"}}
        for mark in marks:
            if mark[0] == "event":
                seen[mark[1]] = max(seen[mark[1]], int(mark[2]))
        for run, last in seen.items():
            try:
                stored = store.read(run)
            except VragError as error:
                lost.append(f"run {run}: {error}")
                continue
            if max(event.seq for event in stored.events) < last:
                lost.append(f"run {run}: events after {max(event.seq for event in stored.events)} of {last}.")
            if last < 0 and not stored.has_end:
                lost.append(f"run {run}: its answer is lost.")
            for event in stored.events:
                sha256 = getattr(event, "sha256", None)
                if isinstance(sha256, str) and event.seq <= max(last, 10**6 if last < 0 else last):
                    path = stored.file(sha256)
                    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                        lost.append(f"run {run}: the picture {sha256[:8]} is lost.")
        return lost


def check_states(story: str, corpus: Path, scratch: Path) -> None:
    """Checks the states that are named on standard input, one after the other."""
    checker = Checker(corpus, scratch)
    for line in sys.stdin:
        order = json.loads(line)
        marks = [mark.split() for mark in order["marks"]]
        try:
            lost = getattr(checker, story)(Path(order["folder"]), marks)
        except (VragError, OSError, ValueError, KeyError) as error:
            lost = [f"{type(error).__name__}: {error}"]
        print(json.dumps(lost), flush=True)


class CheckProcess:
    """The process that opens states; another one when it dies."""

    def __init__(self, story: str, corpus: Path, scratch: Path) -> None:
        self._line = [sys.executable, "-m", "benchmarks.power_loss", "--check", story, str(corpus)]
        self._scratch, self._number = scratch, 0
        self._process: subprocess.Popen[str] | None = None

    def check(self, folder: Path, marks: list[str]) -> list[str]:
        """What is lost in the state in a folder."""
        if self._process is None or self._process.poll() is not None:
            self._number += 1
            scratch = self._scratch / f"clean{self._number}"
            scratch.mkdir()
            self._process = subprocess.Popen(
                [*self._line, str(scratch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), "marks": marks}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return json.loads(answer) if answer else ["The program died."]

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def study(story: str, scratch: Path, *, seeds: int, share: float, minutes: float, durability: str) -> int:
    """Records a story, opens the states, and prints a table; returns how many lose something."""
    folder, corpus = scratch / "disk", scratch / "corpus"
    folder.mkdir()
    started = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.power_loss", "--story", story, str(folder), str(corpus)]
    env = environment(scratch, "") | {"VRAG_DURABILITY": durability, "PYTHONDONTWRITEBYTECODE": "1"}
    del env["VRAG_COLLECTION"]
    if durability == "none":
        del env["VRAG_DURABILITY"]
    recording = record(command, folder, scratch / "trace", env)
    operations, seconds = len(recording.operations), time.monotonic() - started
    marks = len(recording.marks(operations))
    print(f"{story}: {operations} operations, {len(recording.syncs)} syncs, {marks} marks", flush=True)
    print(f"recorded in {seconds:.0f} s", flush=True)
    chosen = losses(recording, seeds)
    random.Random(1).shuffle(chosen)
    print(f"{len(recording.points())} points, {len(chosen)} states", flush=True)
    chosen = chosen[: math.ceil(len(chosen) * share)]
    process = CheckProcess(story, corpus, scratch)
    return open_states(recording, chosen, process, scratch / "state", time.monotonic() + 60 * minutes)


def open_states(
    recording: Recording, chosen: list[Any], process: CheckProcess, folder: Path, end: float
) -> int:
    """Opens states until the end, on the monotonic clock, and prints what is lost."""
    seen: set[tuple[str, int]] = set()
    opened, lossy, at_points = Counter[str](), Counter[str](), Counter[str]()
    examples: Counter[str] = Counter()
    points: set[int] = set()
    bad: set[int] = set()
    for point, loss, seed in chosen:
        state = recording.state(recording.kept(point, loss, seed))
        marks = recording.marks(point)
        key = digest(state), len(marks)
        if time.monotonic() > end:
            print("The time is over.")
            break
        points.add(point)
        if key in seen:
            continue
        seen.add(key)
        shutil.rmtree(folder, ignore_errors=True)
        materialize(state, folder)
        lost = process.check(folder, marks)
        opened[loss] += 1
        if lost:
            lossy[loss] += 1
            bad.add(point)
            place = marks[-1].split()[:2] if marks else ["nothing said"]
            at_points[" ".join(place)] += 1
            examples[lost[0][:150]] += 1
            if os.environ.get("POWER_LOSS_TRACE"):
                print(point, loss, seed, place, lost[:3], flush=True)
    process.close()
    print(f"\n{'what is lost':32}{'states opened':>14}{'something lost':>16}")
    for loss in opened:
        print(f"{loss:32}{opened[loss]:14}{lossy[loss]:16}")
    print(f"{'all':32}{opened.total():14}{lossy.total():16}")
    print(f"points: {len(points)}, of which {len(bad)} lose something")
    for place, count in at_points.most_common(12):
        print(f"  after {place}: {count}")
    for example, count in examples.most_common(8):
        print(f"  {count} × {example}")
    return lossy.total()


def main() -> None:
    """Runs the studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stories", nargs="*", default=["index", "server"])
    parser.add_argument("--seeds", type=int, default=2, help="random parts of each point")
    parser.add_argument("--share", type=float, default=1.0, help="share of the states that is opened")
    parser.add_argument("--minutes", type=float, default=600.0, help="time for opening states")
    parser.add_argument("--durability", default="full", help="full, normal, or none for the default")
    parser.add_argument("--keep", type=Path, help="folder for what is made, instead of a temporary one")
    for hidden in ("story", "check"):
        parser.add_argument(f"--{hidden}", nargs=3, help=argparse.SUPPRESS)
    for hidden in ("compact", "publish"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.story:
        name, folder, corpus = given.story
        getattr(Story(Path(folder), Path(corpus)), name)()
    elif given.check:
        name, corpus, scratch = given.check
        check_states(name, Path(corpus), Path(scratch))
    elif given.compact:
        compact_all(given.compact)
    elif given.publish:
        publish_all(given.publish)
    else:
        lossy = 0
        for story in given.stories:
            with contextlib.ExitStack() as stack:
                place = given.keep or stack.enter_context(tempfile.TemporaryDirectory())
                scratch = Path(place) / story
                scratch.mkdir(parents=True)
                lossy += study(
                    story,
                    scratch,
                    seeds=given.seeds,
                    share=given.share,
                    minutes=given.minutes,
                    durability=given.durability,
                )
        sys.exit(1 if lossy else 0)


if __name__ == "__main__":
    main()
