"""A collection of files on disk whose pages have small print, and what may become of its files."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from PIL import Image, ImageDraw

from vrag.corpus.converter import CorpusOptions
from vrag.geometry import Box, Size, Space, View
from vrag.index.build import add
from vrag.index.collection import Collection

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SIZE = Size(1224, 1584)
REGION = Box(110, 150, 410, 230, Space.ITEM)
"""Around the small print of the page, in pixels."""
VIEW = View(SIZE, REGION, Size(868, 224))
LINES = ("Ferries carried 48,217 passengers in 2024", "and 39,604 in 2023, by the harbour office")


def report() -> bytes:
    """A page with a headline, and two lines of five points that the region holds."""
    print_ = "".join(text_at(60, 700 - 7 * number, line, 5) for number, line in enumerate(LINES))
    return pdf_bytes(PdfPage(text_at(60, 730, "Harbour report", 20) + print_))


def write_files(folder: Path) -> None:
    """The report, and a photograph that lies on its side with a note to turn it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.pdf").write_bytes(report())
    photo = Image.new("RGB", (600, 900), "white")
    ImageDraw.Draw(photo).rectangle((0, 0, 300, 200), fill="navy")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    photo.save(folder / "photo.jpg", exif=exif, quality=90)


def collection_of(folder: Path, directory: Path) -> Collection:
    """The collection of the files in a folder."""
    collection = Collection.create(directory, CorpusOptions(ocr="never", workers=1))
    added = add(collection, [folder])
    assert added.failed == 0, added
    return collection


def id_of(collection: Collection, name: str) -> str:
    """The id of the first item of a document."""
    (document,) = (each for each in collection.documents() if each.name == name)
    return f"{document.id[:16]}-1"


def path_of(collection: Collection, name: str = "report.pdf") -> Path:
    """The file of a document."""
    (document,) = (each for each in collection.documents() if each.name == name)
    return Path(document.path)


def _changed_byte(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"48,217", b"48,218"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _link(path: Path) -> None:
    copy = path.with_name("copy.bin")
    path.rename(copy)
    path.symlink_to(copy)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


CHANGES: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "one byte changed, with the same size and time": _changed_byte,
    "replaced by a link to the same bytes": _link,
    "replaced by a folder": _folder,
    "replaced by a pipe": _pipe,
    "truncated": _truncated,
}
"""What may become of a file."""


@contextmanager
def kept(path: Path) -> Generator[None]:
    """Put a file back as it was, whatever the test makes of it."""
    data, status = path.read_bytes(), path.stat()
    yield
    for place in (path, path.with_name("copy.bin")):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
