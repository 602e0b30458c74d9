# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Pages of text and filled rectangles, printed by PDFium as a PDF file with a text layer."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from vrag.corpus.formats.image_binding import timeless
from vrag.geometry import Box

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
BLACK: Colour = (0, 0, 0)
PdfHandle: TypeAlias = Any
"""A document or a shape of PDFium."""


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; `x` and `y` are the start of its base line, from the bottom left corner."""

    x: float
    y: float
    text: str
    size: float
    bold: bool = False

    def draw(self, pdf: PdfHandle) -> PdfHandle:
        """Make a shape of a document."""
        from pypdfium2 import raw

        font = b"Helvetica-Bold" if self.bold else b"Helvetica"
        shape = raw.FPDFPageObj_NewTextObj(pdf, font, self.size)
        text = (self.text + "\0").encode("utf-16-le")
        raw.FPDFText_SetText(shape, (ctypes.c_ushort * (len(text) // 2)).from_buffer_copy(text))
        raw.FPDFPageObj_Transform(shape, 1, 0, 0, 1, self.x, self.y)
        return shape


@dataclass(frozen=True, slots=True)
class Fill:
    """A filled rectangle; `x` and `y` are its bottom left corner, from that of the page."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour

    def draw(self, _pdf: PdfHandle) -> PdfHandle:
        """Make a shape."""
        from pypdfium2 import raw

        shape = raw.FPDFPageObj_CreateNewRect(self.x, self.y, self.width, self.height)
        raw.FPDFPageObj_SetFillColor(shape, *self.colour, 255)
        raw.FPDFPath_SetDrawMode(shape, raw.FPDF_FILLMODE_WINDING, False)
        return shape


@dataclass(slots=True)
class Canvas:
    """The content of one page; lengths are points of 1/72 inch, y grows downwards."""

    width: float
    height: float
    marks: list[Label | Fill] = field(default_factory=list["Label | Fill"])
    """Later ones cover earlier ones."""

    def write(
        self, x: float, y: float, text: str, size: float, *, bold: bool = False, end: bool = False
    ) -> Box:
        """Write one line of ASCII text with its base line at `y`; with `end`, `x` is its right end.

        Returns:
            The box of its ink, in fractions of the page.
        """
        left, bottom, right, top = extent_of(text, size, bold=bold)
        start = x - right if end else x
        self.marks.append(Label(start, self.height - y, text, size, bold))
        return self._fraction(start + left, y - top, start + right, y - bottom)

    def fill(self, x1: float, y1: float, x2: float, y2: float, colour: Colour = BLACK) -> Box:
        """Fill a rectangle; return it in fractions of the page."""
        self.marks.append(Fill(x1, self.height - y2, x2 - x1, y2 - y1, colour))
        return self._fraction(x1, y1, x2, y2)

    def _fraction(self, x1: float, y1: float, x2: float, y2: float) -> Box:
        """Points as fractions of the page, in full hundredths of a per cent."""
        sides = (x1 / self.width, y1 / self.height, x2 / self.width, y2 / self.height)
        return Box.unit(*(round(min(max(side, 0.0), 1.0), 4) for side in sides))


def print_pdf(canvases: Iterable[Canvas]) -> bytes:
    """Make a PDF file; the same pages give the same bytes.

    PDFium writes the time and a random id into each file: both are overwritten, at the same length.
    """
    from pypdfium2 import PdfDocument, raw

    pdf = PdfDocument.new()
    try:
        for number, canvas in enumerate(canvases):
            page = raw.FPDFPage_New(pdf, number, canvas.width, canvas.height)
            for mark in canvas.marks:
                raw.FPDFPage_InsertObject(page, mark.draw(pdf))
            raw.FPDFPage_GenerateContent(page)
            raw.FPDF_ClosePage(page)
        saved = io.BytesIO()
        pdf.save(saved)
    finally:
        pdf.close()
    return timeless(saved.getvalue())


@lru_cache(maxsize=4096)
def extent_of(text: str, size: float, *, bold: bool = False) -> tuple[float, float, float, float]:
    """Measure the ink of a line: left, bottom, right, top, in points from the start of its base line."""
    from pypdfium2 import PdfDocument, raw

    pdf = PdfDocument.new()
    try:
        shape = Label(0, 0, text, size, bold).draw(pdf)
        sides = tuple(ctypes.c_float() for _ in range(4))
        raw.FPDFPageObj_GetBounds(shape, *sides)
        raw.FPDFPageObj_Destroy(shape)
    finally:
        pdf.close()
    left, bottom, right, top = (side.value for side in sides)
    return left, bottom, right, top
