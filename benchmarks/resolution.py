# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Small print in crops drawn from the source file, beside crops of the stored page: words read, and time.

    python -m benchmarks.resolution [--docs DIR] [--crops N] [--dpi N]

Both are the pictures that a model is given for the same region, at the same size; OCR stands for the model.
The share of the words in a crop that it reads is what counts: their text is known, from the text layer or
because the page was made here. Pages made here have type of 3 to 6 points as text, the same scanned at 300
pixels per inch, a chart and a map with small labels; they hold invented words and numbers, which no reader
can guess. Real pages are those of --docs: crops around words under 7 points, and around any words.

The last table has what else may be stored: an image file is kept with all its pixels, in a JPEG of quality 92
where it was one; so its crops are drawn from the stored picture, and the table shows what that costs.
"""

from __future__ import annotations

import argparse
import io
import random
import statistics
import string
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from pypdfium2 import PdfDocument, PdfImage, PdfMatrix

from benchmarks.real_documents import PDFS
from vrag.agent.environment import Environment, picture_of
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.formats.pdf import read_layer
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.pages.page_pass import read_picture
from vrag.geometry import Box, Size, Space, View, draw_part
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.model_profiles import profile_named
from vrag.search.engine import Engine
from vrag.search.searcher import StoredPictures
from vrag.synthesis.canvas import Canvas, print_pdf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.types import Item, Word

LETTER = (612.0, 792.0)
SCAN_DPI = 300
SMALL_POINTS = 7.0
CROP_POINTS = ((50.0, 24.0), (100.0, 45.0), (200.0, 90.0))
"""Width and height of crops of pages made here, in points."""
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo zu".split()
COLOURS = ((226, 236, 214), (214, 226, 240), (244, 232, 206), (236, 218, 226), (250, 250, 250))


@dataclass(frozen=True, slots=True)
class Place:
    """A crop: a region of a page, and the words in it."""

    item: Item
    region: Box
    """In pixels of the item."""
    words: tuple[str, ...]


@dataclass(slots=True)
class Measured:
    """What came of the crops of one kind, drawn in one way."""

    read: list[float] = field(default_factory=list[float])
    """Words read of each crop."""
    first: list[float] = field(default_factory=list[float])
    """Seconds of the first crop of a document."""
    again: list[float] = field(default_factory=list[float])
    """Seconds of later crops."""


def main(docs: Path, crops: int, dpi: float) -> None:
    """Measure all kinds and print a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        made = _write_documents(Path(folder))
        collection = _indexed(Path(folder) / "collection", list(made), dpi)
        kinds = {name: _places(collection, path, crops) for path, name in made.items()}
        _report_start(collection)
        _report("pages made here", collection, kinds)
        if docs.is_dir():
            real = _indexed(Path(folder) / "real", sorted(docs.glob("*.pdf")), dpi)
            small, usual = (_real_places(real, 2 * crops, small=small) for small in (True, False))
            _report("real pages", real, {"words under 7 pt": small, "any words": usual})
        _report_images(Path(folder), crops)


def _indexed(directory: Path, files: Sequence[Path], dpi: float) -> Collection:
    options = CorpusOptions(ocr="never", dpi=dpi)
    collection = Collection.create(directory, options)
    add(collection, list(files), options)
    return collection


def _report_start(collection: Collection) -> None:
    """Print the time of the first part of all, which starts a process."""
    item = _items(collection)[0]
    assert item.size is not None
    view = View(item.size, Box(0, 0, 100, 100, Space.ITEM), Size(400, 400))
    started = time.perf_counter()
    collection.part(item.id, view)
    print(f"first part of all: {(time.perf_counter() - started) * 1e3:.0f} ms")


def _report(title: str, collection: Collection, kinds: dict[str, list[Place]]) -> None:
    engine, profile = Engine(collection), profile_named("qwen2.5-vl")
    drawn = Environment(engine, profile), Environment(StoredPictures(engine), profile)
    print(f"\n{title}: recall, stored → source; ms of a crop, first of a document and later, of both")
    for kind, places in kinds.items():
        source, stored = (_measure(environment, places) for environment in drawn)
        shown = [profile.shown_size(Size(int(p.region.width), int(p.region.height))) for p in places]
        zoom = statistics.median((s.area / p.region.area) ** 0.5 for s, p in zip(shown, places, strict=True))
        words = sum(len(place.words) for place in places)
        recall = [sum(measured.read) / words for measured in (stored, source)]
        times = [_milliseconds(values) for each in (stored, source) for values in (each.first, each.again)]
        print(
            f"{kind:28} crops {len(places):3} words {words:5} enlarged {zoom:.1f}  "
            f"{recall[0]:.3f} → {recall[1]:.3f}   {' '.join(times)}"
        )


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.0f}" if seconds else "–"


def _measure(environment: Environment, places: Sequence[Place]) -> Measured:
    measured, seen = Measured(), set[str]()
    for place in places:
        size = place.item.size
        assert size is not None
        started = time.perf_counter()
        picture = environment.closer(place.item.id, View.whole(size, size), place.region)
        seconds = time.perf_counter() - started
        (measured.again if place.item.document in seen else measured.first).append(seconds)
        seen.add(place.item.document)
        measured.read.append(_words_read(picture.image, place.words))
    return measured


def _words_read(image: Image.Image, words: Sequence[str]) -> float:
    """Count the words that OCR reads in a picture, each as often as it is there."""
    found = Counter(_plain(word) for word in read_picture(image)[0].split())
    return float((found & Counter(words)).total())


def _plain(word: str) -> str:
    return word.casefold().strip(string.punctuation)


def _places(collection: Collection, path: Path, crops: int) -> list[Place]:
    """Return crops of a document made here, of both sizes, at random places that hold words."""
    rng = random.Random(path.name)
    layer = path.with_suffix(".txt")  # a scan has no text layer of its own
    texts = Path(layer.read_text(encoding="utf-8")) if layer.exists() else path
    items = _items(collection, path.name)
    found: list[Place] = []
    words_of = {item.ordinal: _layer_words(texts, item.ordinal) for item in items}
    while len(found) < crops:
        item = rng.choice(items)
        width, height = CROP_POINTS[len(found) % len(CROP_POINTS)]
        x, y = rng.uniform(30, LETTER[0] - width - 30), rng.uniform(30, LETTER[1] - height - 30)
        box = Box.unit(x / LETTER[0], y / LETTER[1], (x + width) / LETTER[0], (y + height) / LETTER[1])
        if place := _place(item, box, *words_of[item.ordinal]):
            found.append(place)
    return found


def _real_places(collection: Collection, crops: int, *, small: bool) -> list[Place]:
    """Return crops around words of real pages: around small ones, or any."""
    rng = random.Random(int(small))
    items = [item for item in _items(collection) if item.words and item.text_source == "layer"]
    rng.shuffle(items)
    paths = {document.id: Path(document.path) for document in collection.documents()}
    per_document: Counter[str] = Counter()
    found: list[Place] = []
    for item in items:
        if len(found) == crops or per_document[item.document] >= max(2, crops // 10):
            continue
        height = item.size.height if item.size else 1
        words = [w for w in item.words if not small or 2 < w.box.height * height / 2 < SMALL_POINTS]
        if len(words) < (20 if small else 1):
            continue
        middle = rng.choice(words).box.center
        wide, high = (0.12, 0.04) if small else (0.18, 0.06)
        box = Box.unit(
            max(0.0, middle[0] - wide),
            max(0.0, middle[1] - high),
            min(1.0, middle[0] + wide),
            min(1.0, middle[1] + high),
        )
        if place := _place(item, box, *_layer_words(paths[item.document], item.ordinal)):
            found.append(place)
            per_document[item.document] += 1
    return found


def _items(collection: Collection, name: str = "") -> list[Item]:
    ids = collection.store.read_items(["id"]).column("id")
    items = [item for item in collection.items(ids).values() if name in {"", item.document_name}]
    return sorted(items, key=lambda item: item.id)


def _layer_words(path: Path, ordinal: int) -> tuple[str, tuple[Word, ...]]:
    pdf = Pdf(path)
    try:
        with pdf.page(ordinal) as page:
            layer = read_layer(page)
            return layer.text, layer.words
    finally:
        pdf.close()


def _place(item: Item, box: Box, text: str, words: Sequence[Word]) -> Place | None:
    """Return a crop with the words that lie wholly in it; None if there are few."""
    assert item.size is not None
    inside = [
        _plain(text[word.start : word.end])
        for word in words
        if box.x1 <= word.box.x1 and word.box.x2 <= box.x2 and box.y1 <= word.box.y1 and word.box.y2 <= box.y2
    ]
    inside = [word for word in inside if len(word) > 1]
    region = View.whole(item.size, item.size).cut(box)
    return Place(item, region, tuple(inside)) if len(inside) >= 3 else None


def _write_documents(folder: Path) -> dict[Path, str]:
    """Write the documents made here; return what each is, by its path."""
    made: dict[Path, str] = {}
    for points in (3, 4, 5, 6):
        path = folder / f"text-{points}.pdf"
        path.write_bytes(print_pdf([_text_page(points, page) for page in range(3)]))
        made[path] = f"text of {points} pt"
        scan = folder / f"scan-{points}.pdf"
        scan.write_bytes(_scanned(path))
        scan.with_suffix(".txt").write_text(str(path), encoding="utf-8")
        made[scan] = f"scan of {points} pt at {SCAN_DPI} dpi"
    for name, draw in (("chart", _chart_page), ("map", _map_page)):
        path = folder / f"{name}.pdf"
        path.write_bytes(print_pdf([draw(page) for page in range(3)]))
        made[path] = f"{name}, labels of 4 to 6 pt"
    return made


def _invented(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return f"{rng.randrange(10, 99999) / 100:.2f}"
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randrange(2, 4)))


def _text_page(points: float, seed: int) -> Canvas:
    canvas, rng = Canvas(*LETTER), random.Random(f"{points} {seed}")
    y = 36.0
    while y < LETTER[1] - 36:
        words: list[str] = []
        while sum(map(len, words)) * points * 0.56 < LETTER[0] - 110:
            words.append(_invented(rng))
        canvas.write(36, y, " ".join(words), points)
        y += points * 1.3
    return canvas


def _chart_page(seed: int) -> Canvas:
    """Bars in four panels, each bar with its name and value in small print."""
    canvas, rng = Canvas(*LETTER), random.Random(seed)
    for left in (40.0, 330.0):
        for top in (40.0, 420.0):
            for row in range(40):
                y = top + row * 8.5
                length = rng.uniform(20, 150)
                canvas.fill(left + 50, y, left + 50 + length, y + 5, rng.choice(COLOURS[:4]))
                canvas.write(left + 47, y + 5, _invented(rng), 4 + seed % 3, end=True)
                canvas.write(left + 54 + length, y + 5, _invented(rng), 4 + seed % 3)
    return canvas


def _map_page(seed: int) -> Canvas:
    """Parcels of several colours with grey streets between them, each parcel with a name or a number."""
    canvas, rng = Canvas(*LETTER), random.Random(seed)
    canvas.fill(20, 20, LETTER[0] - 20, LETTER[1] - 20, (205, 205, 205))
    y = 24.0
    while y < LETTER[1] - 50:
        x, height = 24.0, rng.uniform(11, 20)
        while x < LETTER[0] - 70:
            width = rng.uniform(30, 52)
            canvas.fill(x, y, x + width, y + height, rng.choice(COLOURS))
            canvas.write(x + 2, y + height / 2 + 2, _invented(rng), 4 + seed % 3)
            x += width + 1.5
        y += height + 1.5
    return canvas


def _scanned(path: Path) -> bytes:
    """Make a PDF file of images of the pages of another one, as a scanner does."""
    source, scan = Pdf(path), PdfDocument.new()
    for ordinal in range(1, len(source) + 1):
        with source.page(ordinal) as page:
            image = page.render(SCAN_DPI / 72).convert("L")
        jpeg = io.BytesIO()
        image.save(jpeg, "JPEG", quality=80)
        placed = PdfImage.new(scan)
        placed.load_jpeg(io.BytesIO(jpeg.getvalue()), inline=True)
        placed.set_matrix(PdfMatrix().scale(*LETTER))
        sheet = scan.new_page(*LETTER)
        sheet.insert_obj(placed)
        sheet.gen_content()
    saved = io.BytesIO()
    scan.save(saved)
    source.close()
    return saved.getvalue()


def _report_images(folder: Path, crops: int) -> None:
    """Compare crops of a JPEG file as stored with crops of the file itself."""
    print("\nimage files: recall, stored → file")
    profile, rng = profile_named("qwen2.5-vl"), random.Random(5)
    for quality in (75, 90):
        path = folder / f"photo-{quality}.jpg"
        with Pdf(folder / "text-6.pdf").page(1) as page:
            page.render(2.5).convert("RGB").save(path, quality=quality)
        (item,) = _items(collection := _indexed(folder / f"images-{quality}", [path], 144.0))
        text, words = _layer_words(folder / "text-6.pdf", 1)
        assert item.size is not None
        read: list[list[float]] = [[], []]
        count = 0
        for _ in range(crops):
            x, y = rng.uniform(0.06, 0.7), rng.uniform(0.06, 0.85)
            place = _place(item, Box.unit(x, y, x + 0.24, y + 0.08), text, words)
            if place is None:
                continue
            count += len(place.words)
            sides = tuple(int(side) for side in place.region.as_tuple())
            view = View(
                item.size,
                place.region,
                profile.shown_size(Size(int(place.region.width), int(place.region.height))),
            )
            for number, image in enumerate((collection.image(item.id), Image.open(path))):
                part = draw_part(image.convert("RGB").crop(sides), view)  # pyright: ignore[reportArgumentType]
                shown = picture_of(part, item.id, view).image
                read[number].append(_words_read(shown, place.words))
        recall = [sum(each) / count for each in read]
        print(f"JPEG of quality {quality:2}  words {count}  {recall[0]:.3f} → {recall[1]:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", type=Path, default=PDFS)
    parser.add_argument("--crops", type=int, default=12, help="of each kind; twice as many of real pages")
    parser.add_argument("--dpi", type=float, default=144.0)
    arguments = parser.parse_args()
    main(arguments.docs, arguments.crops, arguments.dpi)
