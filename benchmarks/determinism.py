"""Do the same files give the same collection, however it is built?

    python -m benchmarks.determinism FOLDER [--pages 8] [--kills 50] [--seed 1] [--no-ray] [--plain]
        [--only-kills]

Reads real documents: the first pages of the PDF files in FOLDER. Some of these pages also become a scan,
pictures, a web page, texts, office documents (where LibreOffice is installed) and a video (where PyAV is).
The reference is a build with one worker. Compared with it are builds with two and four workers, builds that
are given the files in shuffled order, a build that starts its processes anew for each file, builds
whose workers take files as they are uploaded, a build on a Ray cluster of this machine, and builds whose
processes all get SIGKILL at a random moment, are continued, and perhaps killed again.

Two collections are equal if every column of every item and every file is equal, and every byte of every
stored picture and clip. Vectors come from `HashEmbedder`, which depends on the content of an item alone;
the last digits of a neural network's vectors may depend on the batch in which they were computed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.corpus.convert import find_missing_software
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.image_binding import bind_pages
from vrag.corpus.formats.pdf import read_layer
from vrag.corpus.formats.pdfium import Pdf
from vrag.embed.embedder import VectorKind
from vrag.index.build import add, add_live
from vrag.index.collection import Collection
from vrag.index.schema import ITEM_COLUMNS, blob_of
from vrag.index.vectors.embed_items import local
from vrag.index.vectors.vector_index import read_vectors
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.types import Document

EMBEDDER = HashEmbedder(VectorKind.MULTI, 8)
MOST_SECONDS = 1800.0
MOST_KILLS_OF_A_BUILD = 6


# --- the files ---------------------------------------------------------------------------------------


def make_corpus(folder: Path, documents: Sequence[Path], pages: int, *, plain: bool) -> None:
    """Files of all formats, made of the first pages of real PDF files; `plain`: only PDF, text, HTML."""
    pikepdf: Any = importlib.import_module("pikepdf")
    folder.mkdir(parents=True)
    texts: list[str] = []
    pictures: list[Image] = []
    for number, document in enumerate(documents):
        with pikepdf.open(document) as whole, pikepdf.new() as first:
            for page in whole.pages[:pages]:
                first.pages.append(page)
            path = folder / f"{number:02} {document.stem[:20]}.pdf"
            first.save(path, deterministic_id=True)
        pdf = Pdf(path)
        with pdf.page(1) as page:
            texts.append(read_layer(page).text)
            pictures.append(page.render(1.0).convert("RGB"))
        pdf.close()
    shutil.copy(folder / f"00 {documents[0].stem[:20]}.pdf", folder / "zz twin.pdf")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    for number, text in enumerate(texts):
        (folder / f"text {number}.txt").write_text(text * 4, encoding="utf-8")
    paragraphs = "".join(f"<h1>Part</h1><p>{line}</p>" for text in texts for line in text.split("\n"))
    page = f"<html><body>{paragraphs.replace('&', '')}</body></html>"
    (folder / "page.html").write_text(page, encoding="utf-8")
    if plain:
        return
    pictures[0].save(folder / "scan.jpg")
    pictures[-1].save(folder / "page.png")
    scans = [(folder / "scan.jpg").read_bytes(), None, (folder / "page.png").read_bytes()]
    (folder / "scan.pdf").write_bytes(bind_pages(scans))
    missing = {software.name for software in find_missing_software()}
    if "LibreOffice" not in missing:
        make_office(folder)
    if "PyAV" not in missing:
        make_video(folder / "film.mp4", pictures)


def make_office(folder: Path) -> None:
    """A text document and a sheet."""
    (folder / "sheet.csv").write_text("\n".join(f"{n},{n * n},item {n}" for n in range(80)), encoding="utf-8")
    shutil.copy(folder / "page.html", folder / "letter.html")
    with tempfile.TemporaryDirectory() as profile:
        for source, suffix in (("letter.html", "docx:MS Word 2007 XML"), ("sheet.csv", "xlsx")):
            filters = ["--infilter=HTML (StarWriter)"] if source.endswith("html") else []
            command = ["soffice", f"-env:UserInstallation={Path(profile).as_uri()}", "--headless", *filters]
            command += ["--convert-to", suffix, "--outdir", str(folder), str(folder / source)]
            subprocess.run(command, check=True, capture_output=True)
            (folder / source).unlink()


def make_video(path: Path, pictures: Sequence[Image]) -> None:
    """A film that shows each picture for two minutes."""
    av: Any = importlib.import_module("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=1)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 320, 416, "yuv420p", 20
        for picture in pictures[:3]:
            frame = av.VideoFrame.from_image(picture.resize((320, 416)))
            for _ in range(120):
                frame.pts = None
                container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


# --- the builds --------------------------------------------------------------------------------------


def build(way: str, directory: Path, corpus: Path, workers: int, seed: int) -> None:
    """What a child does. Every way may be continued by `add` after a kill."""
    options = CorpusOptions(workers=workers)
    collection = Collection.open_or_create(directory, options, embedder=EMBEDDER)
    files = sorted(corpus.iterdir())
    if seed:
        random.Random(seed).shuffle(files)
    match way:
        case "add":
            add(collection, files, options, embedder=EMBEDDER)
        case "cold":
            for file in files:
                add(collection, [file], options, embedder=EMBEDDER)
        case "live":
            feed = [[file] for file in files]
            producer = local(EMBEDDER, live=True)
            add_live(collection, lambda: feed.pop(0) if feed else [], producer, ignore)
        case "ray":
            from vrag.index.remote.ray import RayOptions, by_ray

            producer = by_ray(RayOptions(), partial(HashEmbedder, VectorKind.MULTI, 8), EMBEDDER)
            add(collection, files, options, embedder=EMBEDDER, producer=producer)
        case _:
            raise ValueError(way)


def ignore(document: Document, items: int) -> None:
    """Does nothing about a document that was committed."""


def start(way: str, directory: Path, corpus: Path, workers: int, seed: int) -> subprocess.Popen[bytes]:
    """Starts a build in a process group of its own."""
    command = [sys.executable, "-m", "benchmarks.determinism", "--child", way, str(directory), str(corpus)]
    return subprocess.Popen([*command, str(workers), str(seed)], start_new_session=True)


def run_to_end(way: str, directory: Path, corpus: Path, workers: int, seed: int = 0) -> float:
    """Builds without a disturbance; the seconds it took. Raises `RuntimeError` if the build fails."""
    started = time.monotonic()
    if start(way, directory, corpus, workers, seed).wait(MOST_SECONDS):
        raise RuntimeError(f"the build failed: {way}, {workers} workers, seed {seed}")
    return time.monotonic() - started


# --- the comparison ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Content:
    """All that a collection holds, without the names of its table files."""

    items: dict[str, dict[str, str]]
    """Item id → column → hash of the value."""
    files: dict[str, dict[str, str]]
    """Key of a path → column → hash of the value."""
    pictures: frozenset[str]
    """Names of pictures and clips, which are hashes of their bytes."""

    @classmethod
    def read(cls, directory: Path) -> Content:
        """Reads all rows and files."""
        collection = Collection.open(directory)
        store = collection.store
        items = {row["id"]: row for row in store.read_items(ITEM_COLUMNS).records()}
        for id, vectors in read_vectors(collection):
            items[id]["vectors"] = vectors.tobytes()
        pictures = {name for row in items.values() for name in (row["image"], row["clip"]) if name}
        assert not list(store.blobs.damaged(map(blob_of, pictures))), "a picture is damaged"
        return cls(
            {id: {name: digest(value) for name, value in row.items()} for id, row in items.items()},
            {
                file.document.path: {"rows": digest(file.rows)}
                | {name: digest(value) for name, value in asdict(file.document).items()}
                for file in store.files()
            },
            frozenset(pictures),
        )

    @property
    def fingerprint(self) -> str:
        """Twelve digits over everything, in sorted order."""
        rows = [sorted((key, str(value)) for key, value in part.items()) for part in (self.items, self.files)]
        return digest([*rows, sorted(self.pictures)])[:12]

    def differences(self, other: Content) -> Counter[str]:
        """The number of values that differ, by column; of rows and pictures that only one side has."""
        found = Counter[str]()
        for name, ours, theirs in (("items", self.items, other.items), ("files", self.files, other.files)):
            found[f"{name} of one side"] += len(ours.keys() ^ theirs.keys())
            for key in ours.keys() & theirs.keys():
                for column in ours[key].keys() | theirs[key].keys():
                    found[f"{name}.{column}"] += ours[key].get(column) != theirs[key].get(column)
        found["pictures"] += len(self.pictures ^ other.pictures)
        return +found


def digest(value: object) -> str:
    """SHA-256 of a value of a row."""
    data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()


# --- the study ---------------------------------------------------------------------------------------


@dataclass
class Study:
    """Builds of one corpus, each compared with the first."""

    folder: Path
    corpus: Path
    seed: int
    wrong: int = 0
    kills: int = 0
    reference: Content = field(init=False)
    seconds: float = field(init=False)

    def start(self) -> None:
        """Makes the reference, and prints the head of the table."""
        directory = self.folder / "reference"
        self.seconds = run_to_end("add", directory, self.corpus, 1)
        self.reference = Content.read(directory)
        words = sum(1 for _ in self.reference.items)
        print(f"{len(self.reference.files)} files, {words} items, {len(self.reference.pictures)} pictures")
        print(f"{'build':44}  {'content':12}  {'equal':5}  {'seconds':>7}")
        print(f"{'1 worker':44}  {self.reference.fingerprint}  {'-':5}  {self.seconds:7.1f}", flush=True)

    def compare(self, name: str, directory: Path, seconds: float) -> None:
        """Prints a row, and what differs."""
        content = Content.read(directory)
        differences = self.reference.differences(content)
        self.wrong += bool(differences)
        equal = "no" if differences else "yes"
        print(f"{name:44}  {content.fingerprint}  {equal:5}  {seconds:7.1f}", flush=True)
        for column, count in differences.most_common():
            print(f"    {column}: {count}")
        shutil.rmtree(directory)

    def build(self, name: str, way: str, workers: int, seed: int = 0) -> None:
        """Builds and compares."""
        directory = self.folder / "built"
        self.compare(name, directory, run_to_end(way, directory, self.corpus, workers, seed))

    def build_killed(self, kills: int) -> None:
        """Builds that are killed until there were so many kills, each continued to its end."""
        chance = random.Random(self.seed)
        while self.kills < kills:
            directory, workers, killed = self.folder / "built", chance.choice([1, 2, 4]), 0
            started = time.monotonic()
            for _ in range(chance.randint(1, MOST_KILLS_OF_A_BUILD)):
                seed = chance.randrange(1, 1000)
                process = start("add", directory, self.corpus, workers, seed)
                try:
                    process.wait(chance.uniform(0.3, 0.9 * self.seconds))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    killed += 1
                if process.wait() == 0:
                    break
            run_to_end("add", directory, self.corpus, workers, chance.randrange(1, 1000))
            self.kills += killed
            name = f"killed {killed} times, {workers} workers, shuffled ({self.kills})"
            self.compare(name, directory, time.monotonic() - started)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; 1 if any content differs."""
    parser = argparse.ArgumentParser(description="The same files give the same collection.")
    parser.add_argument("documents", type=Path, nargs="?", help="folder of PDF files")
    parser.add_argument("--most", type=int, default=8, help="PDF files taken")
    parser.add_argument("--pages", type=int, default=8, help="pages taken of each")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--plain", action="store_true", help="only PDF, text and HTML files: fast to read")
    parser.add_argument("--only-kills", action="store_true", help="leave out the other ways of building")
    parser.add_argument("--child", nargs=5, metavar=("WAY", "COLLECTION", "CORPUS", "WORKERS", "SEED"))
    options = parser.parse_args(arguments)
    if options.child:
        way, directory, corpus, workers, seed = options.child
        build(way, Path(directory), Path(corpus), int(workers), int(seed))
        return 0
    documents = sorted(options.documents.glob("*.pdf"))[: options.most]
    with tempfile.TemporaryDirectory(prefix="vrag-determinism-") as name:
        folder = Path(name)
        make_corpus(folder / "corpus", documents, options.pages, plain=options.plain)
        study = Study(folder, folder / "corpus", options.seed)
        study.start()
        if not options.only_kills:
            compare_ways(study, ray=not options.no_ray)
        study.build_killed(options.kills)
        print(f"{study.kills} kills, {study.wrong} builds that differ")
    return 1 if study.wrong else 0


def compare_ways(study: Study, *, ray: bool) -> None:
    """Builds with other numbers of workers, in other orders and by other ways."""
    study.build("2 workers", "add", 2)
    study.build("4 workers", "add", 4)
    study.build("2 workers, shuffled", "add", 2, 11)
    study.build("4 workers, shuffled", "add", 4, 12)
    study.build("1 worker, shuffled", "add", 1, 13)
    study.build("new processes for each file, shuffled", "cold", 1, 14)
    study.build("uploaded one by one", "live", 0)
    study.build("uploaded one by one, shuffled", "live", 0, 15)
    if ray:
        study.build("Ray, shuffled", "ray", 2, 16)


if __name__ == "__main__":
    sys.exit(main())
