# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""PDF files that are made of images of pages, by PDFium; the same images give the same bytes."""

from __future__ import annotations

import hashlib
import io
import re
from typing import TYPE_CHECKING

from vrag.errors import CorpusError
from vrag.geometry import IMAGE_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable

DPI = 144.0
"""Pixels of an image per inch of its page: drawn at the usual resolution, it has the pixels it came with."""
BLANK_PAGE = (612.0, 792.0)
"""Width and height of a page whose image is missing, in points: letter paper."""
QUALITY = 92
"""JPEG quality for images in other formats."""
_ID = re.compile(rb"/ID\[<[0-9A-F]{32}><[0-9A-F]{32}>\]")


def bind_pages(pages: Iterable[bytes | None]) -> bytes:
    """Make a PDF file with an image on each page, which fills it.

    JPEG is kept as it is; other formats become JPEG. A missing image is a blank page, so that those after it
    keep their numbers. Raises `CorpusError` if one is not an image, with the number of its page, or if there
    are no pages.
    """
    from pypdfium2 import PdfDocument, PdfImage, PdfMatrix

    pdf = PdfDocument.new()
    try:
        number = 0
        for number, data in enumerate(pages, 1):
            if data is None:
                pdf.new_page(*BLANK_PAGE)
                continue
            jpeg, size = _jpeg(data, number)
            width, height = (side * 72 / DPI for side in size)
            image = PdfImage.new(pdf)
            image.load_jpeg(io.BytesIO(jpeg), inline=True)
            image.set_matrix(PdfMatrix().scale(width, height))
            page = pdf.new_page(width, height)
            page.insert_obj(image)
            page.gen_content()
        if not number:
            raise CorpusError("A document with no pages cannot be made.")
        saved = io.BytesIO()
        pdf.save(saved)
    finally:
        pdf.close()
    return timeless(saved.getvalue())


def timeless(data: bytes) -> bytes:
    """Blank the creation date of a PDF file of PDFium and make its random id of its content."""
    data = re.sub(rb"/CreationDate\([^)]*\)", lambda match: b" " * len(match[0]), data)
    bare = _ID.sub(b"", data)
    name = hashlib.sha256(bare).hexdigest()[:32].upper().encode()
    return _ID.sub(b"/ID[<%b><%b>]" % (name, name), data)


def _jpeg(data: bytes, number: int) -> tuple[bytes, tuple[int, int]]:
    """Return an image as upright JPEG, on white where it is transparent, and its size."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            if image.format == "JPEG" and image.mode in {"RGB", "L"} and image.getexif().get(0x0112, 1) == 1:
                image.load()
                return data, image.size
            upright = ImageOps.exif_transpose(image)
            if upright.has_transparency_data:
                canvas = Image.new("RGBA", upright.size, "white")
                canvas.alpha_composite(upright.convert("RGBA"))
                upright = canvas
            flat = upright.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise CorpusError(f"Page {number} is not an image: {error}.") from error
    saved = io.BytesIO()
    flat.save(saved, "JPEG", quality=QUALITY, subsampling=0)
    return saved.getvalue(), flat.size
