"""Parts of pages drawn from PDF files at the size in which they are shown, in a process of their own.

A page was rendered when its document was indexed; a part of it that is enlarged is drawn from the file again,
with the detail that the stored picture has no pixels for. The file may be hostile: `DrawTask` runs in a
worker process (`workers/worker.py`), which is given its bytes and opens no path. It draws on the pixel grid
of the stored picture, every pixel of which it divides into `factor × factor`: the part lies exactly where it
lies there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from cachetools import LRUCache

from vrag.corpus.formats.pdfium import Pdf
from vrag.errors import CorpusError
from vrag.geometry import Size, draw_part

if TYPE_CHECKING:
    from vrag.geometry import View

SUFFIX = ".pdf"
"""The only files that are drawn from: an image is stored with all its pixels, and others have no pages."""
MAX_PIXELS = 32_000_000
"""Pixels of a part, before it is reduced to the size in which it is shown."""
MAX_SIDE = 32_000
"""Longest side of the enlarged page in pixels: PDFium moves what lies beyond 50,000."""
MAX_FACTOR = 16
"""At 144 pixels per inch, this makes letters of 4 points 100 pixels high: more shows nothing more."""
OPEN_BYTES = 512 * 2**20
"""Size of all files together that a process keeps open, and so of the largest."""
_OPEN_COST = OPEN_BYTES // 16
"""Counted for an open file besides its bytes: 16 stay open at most."""


@dataclass(frozen=True, slots=True)
class PartDrawn:
    """A part was drawn."""

    size: Size
    pixels: bytes = field(repr=False)
    """RGB, row by row."""


@dataclass(frozen=True, slots=True)
class BytesNeeded:
    """The process does not have the file open: the task is to be sent again, with its bytes."""


@dataclass(frozen=True, slots=True)
class DrawTask:
    """Draw a part of a page."""

    ordinals: ClassVar[None] = None
    """It makes no items; see `Task`."""
    opening_seconds: ClassVar[float] = 0.0
    """No file takes long to open; see `Task`."""
    document: str
    """Id of the document: SHA-256 of its bytes."""
    ordinal: int
    """Number of the page, from 1."""
    view: View
    """The part, in pixels of the stored picture, and the size to draw it in. Its margin is drawn too."""
    page_seconds: float
    """Time limit in seconds of processor time."""
    data: bytes | None = field(default=None, repr=False)
    """The bytes of the file; None if the process should have it open."""

    def run(self) -> PartDrawn | BytesNeeded:
        """Draw the part. Raises `CorpusError` if the file or the page is damaged, or the page another one."""
        pdf = _open_files.get(self.document)
        if pdf is None:
            if self.data is None:
                return BytesNeeded()
            pdf = Pdf(self.data)
            _open_files.add(self.document, pdf, len(self.data))
        if not 1 <= self.ordinal <= len(pdf):
            raise CorpusError(f"The file has no page {self.ordinal}.")
        with pdf.page(self.ordinal) as page:
            _check_proportions(page.size, self.view.item)
            part = page.render_part(self.view.item, self.view.region, factor_of(self.view))
        drawn = draw_part(part, self.view)
        return PartDrawn(Size(*drawn.size), drawn.tobytes())


class OpenPdfFiles:
    """The PDF files that a process keeps open; those used longest ago are closed for others."""

    def __init__(self) -> None:
        self._files: LRUCache[str, tuple[Pdf, int]] = LRUCache(
            OPEN_BYTES + _OPEN_COST, getsizeof=lambda entry: entry[1] + _OPEN_COST
        )
        """With the sizes of the files in bytes, by the ids of their documents."""

    def get(self, document: str) -> Pdf | None:
        """Return the open file of a document."""
        entry = self._files.get(document)
        return entry[0] if entry else None

    def add(self, document: str, pdf: Pdf, size: int) -> None:
        """Keep a file open that has at most `OPEN_BYTES`."""
        while self._files.currsize + size + _OPEN_COST > self._files.maxsize:
            self._files.popitem()[1][0].close()
        self._files[document] = pdf, size

    def close(self) -> None:
        """Close all files."""
        while self._files:
            self._files.popitem()[1][0].close()


_open_files = OpenPdfFiles()


def factor_of(view: View) -> int:
    """Return the whole number by which the page is enlarged: enough for the size shown, within the limits.

    What is drawn is then reduced to that size, or, beyond the limits, enlarged.
    """
    shown, region = view.shown, view.region
    needed = math.ceil(max(shown.width / region.width, shown.height / region.height))
    by_area = math.isqrt(int(MAX_PIXELS / region.area))
    return max(1, min(needed, MAX_FACTOR, MAX_SIDE // max(view.item), by_area))


def _check_proportions(points: tuple[float, float], picture: Size) -> None:
    """Raise `CorpusError` if a picture is not of a page of this size: its sides are rounded up."""
    (width, height), scale = points, max(picture) / max(*points, 1.0)
    if abs(width * scale - picture.width) > 1.5 or abs(height * scale - picture.height) > 1.5:
        raise CorpusError("The page does not have the proportions of its stored picture.")
