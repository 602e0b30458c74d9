"""PDF files → page items: an image of each page, its text and the boxes of its words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.image import store_jpeg
from vrag.corpus.formats.pdfium import SKIPPED, IndependentPages
from vrag.corpus.ocr import WORD, read_picture
from vrag.corpus.sniff import describe
from vrag.errors import CorpusError
from vrag.geometry import MAX_ASPECT, Box, Size
from vrag.types import Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    import re

    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile
    from vrag.corpus.formats.pdfium import PdfiumPage
    from vrag.corpus.sniff import Openable

JPEG_QUALITY = 88
MIN_LETTERS = 16
"""Letters and digits below which a page counts as one without text and is read by OCR: page numbers
and the stamps of scanning apps have fewer. Characters without a meaning in Unicode do not count."""
MIN_SIDE = 8
"""Pixels of the shorter side below which a page shows nothing."""
SIGNATURE_BYTES = 1024
"""Length of the start in which readers look for the signature."""
HYPHENS = frozenset("\x02\ufffe\xad")
"""Characters of PDFium and of PDF writers for a hyphen at the end of a line."""
LIGATURES = str.maketrans(
    dict(zip("\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06", "ff fi fl ffi ffl st st".split(), strict=True))
)


class PdfFile(OpenFile):
    """An open PDF file.

    Raises `EncryptedFileError` if it asks for a password, and `CorpusError` if it is not a PDF file, damaged
    beyond reading or without pages.
    """

    def __init__(
        self, source: SourceFile, context: ConversionContext, printed: Openable | None = None
    ) -> None:
        """Open the source or, of a document that is not PDF, what was printed of it."""
        self._source, self._context = source, context
        file = printed or source
        with file.open("rb") as opened:
            if b"%PDF-" not in opened.read(SIGNATURE_BYTES):
                raise CorpusError(f"This is not a PDF file: {describe(file)}.")
        self._pages = IndependentPages(file)
        self.count = len(self._pages)
        if not self.count:
            self._pages.close()
            raise CorpusError("The PDF file has no pages, or its list of pages is damaged.")

    def item(self, ordinal: int) -> Item:
        """Make the item of one page."""
        options = self._context.options
        with self._pages.page(ordinal) as page:
            text, words = read_layer(page)
            image = page.render(_scale(page.size, options))
        origin = TextSource.LAYER
        if options.ocr and _letters(text) < MIN_LETTERS:
            read, found = read_picture(image)
            if _letters(read) > _letters(text):
                text, words, origin = read, found, TextSource.OCR
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=text,
            words=words,
            text_source=origin if text else TextSource.NONE,
            size=Size(*image.size),
            image=store_jpeg(image, JPEG_QUALITY, self._context, self._source, ordinal),
        )

    def close(self) -> None:
        """Close the PDF file."""
        self._pages.close()


def _scale(points: tuple[float, float], options: CorpusOptions) -> float:
    """Return the pixels per point: by the resolution, or less for pages that would be too large.

    Raises `CorpusError` if the page has a shape that no model accepts.
    """
    width, height = points
    shape = f"The page measures {width:.4g} × {height:.4g} points"
    if not (width > 0 and height > 0 and max(points) <= MAX_ASPECT * min(points)):
        raise CorpusError(f"{shape}; no side may be {MAX_ASPECT:g} times the other.")
    scale = min(options.dpi / 72, 0.999 * math.sqrt(options.max_pixels / width / height))
    if min(points) * scale < MIN_SIDE:
        raise CorpusError(f"{shape}, too small to be drawn.")
    return scale


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def read_layer(page: PdfiumPage) -> tuple[str, tuple[Word, ...]]:
    """Read the text layer of a page as far as it is in view, and its words with their boxes.

    Words divided at the end of a line are joined in the text, and are two `Word`s with a box each.
    """
    parts: list[str] = []
    words: list[Word] = []
    position = last = 0
    with page.layer() as layer:
        characters, frame = layer.characters(), page.frame
        for match in WORD.finditer(characters):
            bounds = layer.bounds(*match.span())
            box = frame.to_unit(*bounds) if bounds else None
            if box is None or not all(0 <= side < 1 for side in box.center):
                continue
            box = Box.unit(max(0.0, box.x1), max(0.0, box.y1), min(1.0, box.x2), min(1.0, box.y2))
            word = match[0].translate(LIGATURES)
            glue = _glue(characters, last, match) if parts else ""
            parts += (glue, word)
            position += len(glue) + len(word)
            words.append(Word(position - len(word), position, box))
            last = match.end()
    return "".join(parts), tuple(words)


def _glue(characters: str, last: int, match: re.Match[str]) -> str:
    """Return the text between two words: nothing, a space, a line break or a hyphen."""
    gap = characters[last : match.start()]
    if not HYPHENS.isdisjoint(gap):
        first_half = characters[max(0, last - 40) : last].rsplit(maxsplit=1)[-1]
        return "-" if "-" in first_half or not match[0][0].islower() else ""
    if "\n" in gap or "\r" in gap:
        return "\n"
    return " " if gap.strip(SKIPPED) else ""
