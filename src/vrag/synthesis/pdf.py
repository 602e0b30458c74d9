# pyright: reportUnknownMemberType=false
"""Pages as a PDF file with a text layer, drawn by PDFium; the same pages give the same bytes."""

from __future__ import annotations

import ctypes
import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from vrag.corpus.formats.images_to_pdf import timeless

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PdfHandle: TypeAlias = Any
"""What PDFium hands out: a document, or a shape on a page."""

__all__ = ["Fill", "Label", "Mark", "extent_of", "print_pdf"]


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; `x` and `y` are the start of its base line, from the bottom left corner."""

    x: float
    y: float
    text: str
    size: float
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """A filled rectangle; `x` and `y` are its bottom left corner, from that of the page."""

    x: float
    y: float
    width: float
    height: float
    colour: tuple[int, int, int]


Mark = Label | Fill
"""Something on a page; lengths in points of 1/72 inch."""


def print_pdf(pages: Iterable[tuple[float, float, Sequence[Mark]]]) -> bytes:
    """Makes a PDF file.

    PDFium writes the time and a random id into each file: both are overwritten, at the same length, so
    that the bytes depend on the pages alone.

    Args:
        pages: Width, height and marks of each page; later marks cover earlier ones.
    """
    from pypdfium2 import PdfDocument

    pdf = PdfDocument.new()
    try:
        for number, (width, height, marks) in enumerate(pages):
            _add_page(pdf, number, width, height, marks)
        saved = io.BytesIO()
        pdf.save(saved)
    finally:
        pdf.close()
    return timeless(saved.getvalue())


@lru_cache(maxsize=4096)
def extent_of(text: str, size: float, *, bold: bool = False) -> tuple[float, float, float, float]:
    """What the ink of a line covers: left, bottom, right, top, in points from the start of its base line."""
    from pypdfium2 import PdfDocument, raw

    pdf = PdfDocument.new()
    try:
        shape = _draw_label(pdf, Label(0, 0, text, size, bold))
        sides = tuple(ctypes.c_float() for _ in range(4))
        raw.FPDFPageObj_GetBounds(shape, *sides)
        raw.FPDFPageObj_Destroy(shape)
    finally:
        pdf.close()
    left, bottom, right, top = (side.value for side in sides)
    return left, bottom, right, top


def _add_page(pdf: PdfHandle, number: int, width: float, height: float, marks: Sequence[Mark]) -> None:
    from pypdfium2 import raw

    page = raw.FPDFPage_New(pdf, number, width, height)
    for mark in marks:
        shape = _draw_label(pdf, mark) if isinstance(mark, Label) else _draw_fill(mark)
        raw.FPDFPage_InsertObject(page, shape)
    raw.FPDFPage_GenerateContent(page)
    raw.FPDF_ClosePage(page)


def _draw_label(pdf: PdfHandle, label: Label) -> PdfHandle:
    from pypdfium2 import raw

    font = b"Helvetica-Bold" if label.bold else b"Helvetica"
    shape = raw.FPDFPageObj_NewTextObj(pdf, font, label.size)
    text = (label.text + "\0").encode("utf-16-le")
    raw.FPDFText_SetText(shape, (ctypes.c_ushort * (len(text) // 2)).from_buffer_copy(text))
    raw.FPDFPageObj_Transform(shape, 1, 0, 0, 1, label.x, label.y)
    return shape


def _draw_fill(fill: Fill) -> PdfHandle:
    from pypdfium2 import raw

    shape = raw.FPDFPageObj_CreateNewRect(fill.x, fill.y, fill.width, fill.height)
    raw.FPDFPageObj_SetFillColor(shape, *fill.colour, 255)
    raw.FPDFPath_SetDrawMode(shape, raw.FPDF_FILLMODE_WINDING, False)
    return shape
