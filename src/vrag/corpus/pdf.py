"""PDF files → page items: a picture of each page, its text and the boxes of its words."""

from __future__ import annotations

import ctypes
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from vrag.corpus.ocr import read_picture
from vrag.corpus.pictures import store_jpeg
from vrag.errors import CorpusError, EncryptedFile
from vrag.geometry import Box, Size
from vrag.types import Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image
    from pypdfium2 import PdfDocument, PdfPage

    from vrag.corpus.base import Desk, Source

__all__ = ["PdfFile"]

JPEG_QUALITY = 88
LEAST_TEXT = 16
"""Letters and digits below which a page counts as one without text, and is read by OCR. A page number
or the stamp of a scanning app is less than this."""

CJK = "\u2e80-\u303f\u3040-\u30ff\u3100-\u312f\u3190-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uffee\U00020000-\U0003ffff"
"""Scripts written without spaces: each character is a word with its own box."""
NOISE = "\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ue000-\uf8ff\ufeff\ufff0-\uffff\U000e0000-\U0010ffff"
"""Control, invisible, private-use and replacement characters: not text."""
WORD = re.compile(rf"[{CJK}]|[^\s{CJK}{NOISE}]+")
HYPHENS = "\x02\ufffe\xad"
"""What PDFium and PDF writers put for a hyphen at the end of a line."""
SKIPPED = "\x03"
"""Holds the place of half a surrogate pair: characters stay aligned with PDFium's indices."""
LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)


class Frame(NamedTuple):
    """The visible part of a page in PDF coordinates, and the turn by which it is shown."""

    left: float
    bottom: float
    right: float
    top: float
    turn: int
    """Quarter turns clockwise."""

    def to_unit(self, left: float, bottom: float, right: float, top: float) -> Box:
        """A rectangle on the page in fractions of its rendered picture, not clipped."""
        width, height = self.right - self.left, self.top - self.bottom
        x1, x2 = (left - self.left) / width, (right - self.left) / width
        y1, y2 = (self.top - top) / height, (self.top - bottom) / height
        match self.turn:
            case 1:
                return Box.unit(1 - y2, x1, 1 - y1, x2)
            case 2:
                return Box.unit(1 - x2, 1 - y2, 1 - x1, 1 - y1)
            case 3:
                return Box.unit(y1, 1 - x2, y2, 1 - x1)
            case _:
                return Box.unit(x1, y1, x2, y2)


class PdfFile:
    """An open PDF file.

    Raises:
        EncryptedFile: If it asks for a password.
        CorpusError: If it is not a PDF file or damaged beyond reading.
    """

    def __init__(self, source: Source, desk: Desk) -> None:
        self._source = source
        self._desk = desk
        self._pdf = _open(source)
        self.count = len(self._pdf)
        if not self.count:
            self._pdf.close()
            raise CorpusError("The PDF file has no pages.")
        if self._pdf.get_formtype():
            self._pdf.init_forms()

    def item(self, ordinal: int) -> Item:
        """Makes the item of one page."""
        from pypdfium2 import PdfiumError

        try:
            page = self._pdf[ordinal - 1]
        except PdfiumError as error:
            raise CorpusError(f"Page {ordinal} is damaged.") from error
        try:
            return self._item(page, ordinal)
        finally:
            page.close()

    def _item(self, page: PdfPage, ordinal: int) -> Item:
        text, words = read_layer(page)
        image = _render(page, self._desk.options.dpi, self._desk.options.max_pixels)
        origin = TextSource.LAYER
        if self._desk.options.ocr and not _usable(text):
            text, words = read_picture(image)
            origin = TextSource.OCR
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
            image=store_jpeg(image, JPEG_QUALITY, self._desk, self._source, ordinal),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pdf.close()


def _open(source: Source) -> PdfDocument:
    from pypdfium2 import PdfDocument, PdfiumError, raw

    try:
        return PdfDocument(source.path)
    except PdfiumError as error:
        if error.err_code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
            raise EncryptedFile("The PDF file is protected by a password.", "Save a copy without it.") from error
        raise CorpusError("This is not a PDF file, or it is damaged.") from error


def _render(page: PdfPage, dpi: float, max_pixels: int) -> Image:
    from PIL.Image import Image as Picture

    width, height = page.get_size()
    scale = dpi / 72
    if width * height * scale * scale > max_pixels:
        scale = math.sqrt(max_pixels / (width * height)) * 0.999
    image: Picture = page.render(scale=scale, rev_byteorder=True).to_pil()
    return image


def _usable(text: str) -> bool:
    return sum(map(str.isalnum, text)) >= LEAST_TEXT


def read_layer(page: PdfPage) -> tuple[str, tuple[Word, ...]]:
    """The text layer of a page, and its visible words with their boxes."""
    from pypdfium2 import raw

    textpage: Any = raw.FPDFText_LoadPage(page.raw)
    if not textpage:
        return "", ()
    try:
        return _compose(_characters(textpage), textpage, _frame(page))
    finally:
        raw.FPDFText_ClosePage(textpage)


def _compose(characters: str, textpage: Any, frame: Frame) -> tuple[str, tuple[Word, ...]]:
    """Joins the words in view to a text."""
    parts: list[str] = []
    words: list[Word] = []
    position = last = 0
    for match, box in _words_in_view(characters, textpage, frame):
        word = match[0].translate(LIGATURES)
        glue = _glue(characters, last, match) if parts else ""
        parts += (glue, word)
        position += len(glue) + len(word)
        words.append(Word(position - len(word), position, box))
        last = match.end()
    return "".join(parts), tuple(words)


def _glue(characters: str, last: int, match: re.Match[str]) -> str:
    """What stands between two words: nothing, a space, a line break or a hyphen."""
    gap = characters[last : match.start()]
    if any(hyphen in gap for hyphen in HYPHENS):
        begun = characters[max(0, last - 40) : last].rsplit(None, 1)[-1:]
        keeps = "-" in (begun or [""])[0] or not match[0][0].islower()
        return "-" if keeps else ""
    if "\n" in gap or "\r" in gap:
        return "\n"
    return " " if gap.strip(SKIPPED) else ""


def _words_in_view(characters: str, textpage: Any, frame: Frame) -> Iterator[tuple[re.Match[str], Box]]:
    from pypdfium2 import raw

    get_box = raw.FPDFText_GetCharBox
    sides = tuple(ctypes.c_double() for _ in range(4))
    left, right, bottom, top = sides
    refs = tuple(map(ctypes.byref, sides))
    for match in WORD.finditer(characters):
        x1 = y1 = math.inf
        x2 = y2 = -math.inf
        for index in range(match.start(), match.end()):
            if get_box(textpage, index, *refs):
                x1, y1 = min(x1, left.value), min(y1, bottom.value)
                x2, y2 = max(x2, right.value), max(y2, top.value)
        if x1 <= x2:
            box = frame.to_unit(x1, y1, x2, y2)
            if 0 <= box.center[0] < 1 and 0 <= box.center[1] < 1:
                yield match, Box.unit(max(0.0, box.x1), max(0.0, box.y1), min(1.0, box.x2), min(1.0, box.y2))


def _characters(textpage: Any) -> str:
    """The characters of a text page, each at its PDFium index."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountChars(textpage)
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    units = raw.FPDFText_GetText(textpage, 0, count, buffer) - 1
    text = bytes(buffer)[: 2 * units].decode("utf-16-le", "surrogatepass")
    if len(text) == units == count:
        return text
    return _paired([raw.FPDFText_GetUnicode(textpage, index) for index in range(count)])


def _paired(codes: list[int]) -> str:
    """Characters of UTF-16 or UTF-32 codes, one per code: a pair's second half gives `SKIPPED`."""
    out: list[str] = []
    for index, code in enumerate(codes):
        after = codes[index + 1] if index + 1 < len(codes) else 0
        if 0xD800 <= code < 0xDC00 <= after < 0xE000:
            out.append(chr(0x10000 + ((code - 0xD800) << 10) + (after - 0xDC00)))
        elif 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            out.append(SKIPPED)
        else:
            out.append(chr(code))
    return "".join(out)


def _frame(page: PdfPage) -> Frame:
    from pypdfium2 import raw

    box = raw.FS_RECTF()
    raw.FPDF_GetPageBoundingBox(page.raw, box)
    return Frame(box.left, box.bottom, box.right, box.top, page.get_rotation() // 90)
