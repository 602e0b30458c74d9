# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Pictures of pages bound into a PDF file; the same pictures give the same bytes."""

from __future__ import annotations

import hashlib
import io
import re
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageOps, UnidentifiedImageError

from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["bind_pages", "timeless"]

RESOLUTION = 144.0
"""Pixels of a picture per inch of its page: drawn at the usual resolution, it has the pixels it came with."""
BLANK = (612.0, 792.0)
"""Width and height of a page whose picture is missing, in points: letter paper."""
QUALITY = 92
"""Of the JPEG that pictures in other formats become."""
_ID = re.compile(rb"/ID\[<[0-9A-F]{32}><[0-9A-F]{32}>\]")


def bind_pages(pages: Iterable[bytes | None]) -> bytes:
    """Makes a PDF file with a picture on each page, which fills it.

    JPEG is kept as it is; other formats become JPEG. A missing picture is a blank page, so that those after
    it keep their numbers.

    Args:
        pages: The file of each picture, from page 1; None where there is none.

    Raises:
        CorpusError: If one is no picture, or there are none; names the page.
    """
    from pypdfium2 import PdfDocument

    pdf = PdfDocument.new()
    try:
        number = 0
        for number, data in enumerate(pages, 1):
            _add(pdf, data, number)
        if not number:
            raise CorpusError("A document of no pages cannot be made.")
        saved = io.BytesIO()
        pdf.save(saved)
    finally:
        pdf.close()
    return timeless(saved.getvalue())


def timeless(data: bytes) -> bytes:
    """A PDF file of PDFium with its creation date blanked and its random id made of its content."""
    data = re.sub(rb"/CreationDate\([^)]*\)", lambda found: b" " * len(found[0]), data)
    bare = _ID.sub(b"", data)
    name = hashlib.sha256(bare).hexdigest()[:32].upper().encode()
    return _ID.sub(b"/ID[<%b><%b>]" % (name, name), data)


def _add(pdf: Any, data: bytes | None, number: int) -> None:  # noqa: ANN401 - the library is not typed
    from pypdfium2 import PdfImage, PdfMatrix

    if data is None:
        pdf.new_page(*BLANK)
        return
    jpeg, (width, height) = _jpeg(data, number)
    wide, high = width * 72 / RESOLUTION, height * 72 / RESOLUTION
    image = PdfImage.new(pdf)
    image.load_jpeg(io.BytesIO(jpeg), inline=True)
    image.set_matrix(PdfMatrix().scale(wide, high))
    page = pdf.new_page(wide, high)
    page.insert_obj(image)
    page.gen_content()


def _jpeg(data: bytes, number: int) -> tuple[bytes, tuple[int, int]]:
    """A picture as JPEG that stands upright, and its size."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.format == "JPEG" and image.mode in {"RGB", "L"} and image.getexif().get(0x0112, 1) == 1:
                image.load()
                return data, image.size
            flat = _flat(ImageOps.exif_transpose(image))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise CorpusError(f"Page {number} is no picture: {error}.") from error
    saved = io.BytesIO()
    flat.save(saved, "JPEG", quality=QUALITY, subsampling=0)
    return saved.getvalue(), flat.size


def _flat(image: Image.Image) -> Image.Image:
    """On white where it is transparent."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    sheet = Image.new("RGBA", image.size, "white")
    sheet.alpha_composite(image.convert("RGBA"))
    return sheet.convert("RGB")
