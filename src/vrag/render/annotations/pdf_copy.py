# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Copies of PDF files with the cited places as annotations (ISO 32000-1, 12.5).

Every place has a numbered note (`/Text`), a frame around its rectangle (`/Square`) and, where the words of
the answer are known, a highlight over them (`/Highlight`); frame and highlight are grouped under the note.
All have an appearance stream, so that viewers draw them alike. What was in the file stays as it was.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pikepdf
from pikepdf import Array, Dictionary, Name, Pdf

from vrag.corpus.formats.image_binding import BLANK_PAGE, DPI
from vrag.corpus.formats.pdfium import PageFrame
from vrag.errors import CorpusError, EncryptedFileError
from vrag.geometry import Box, Size
from vrag.reading.answer import MarkRole
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.annotations.cited_place import CitedPlace

AUTHOR = "vrag"
Color = tuple[float, float, float]
"""Red, green and blue, 0 to 1."""
Sides = tuple[float, float, float, float]
"""Left, bottom, right and top in the coordinates of a page, in points."""

FRAME_COLOR: Color = (0.059, 0.463, 0.431)
DOUBTED_COLOR: Color = (0.725, 0.11, 0.11)
MARK_COLORS: Mapping[MarkRole, Color] = {
    MarkRole.ANSWER: (1.0, 0.88, 0.35),
    MarkRole.OPERAND: (1.0, 0.88, 0.35),
    MarkRole.HEAD: (0.80, 0.90, 0.98),
    MarkRole.MATCH: (0.80, 0.90, 0.98),
}
"""Highlights, multiplied with the page: what is written there stays readable."""
LINE_WIDTH = 1.5
"""Width of the frame in points. It lies outside of the rectangle."""
HALO_WIDTH = 0.5
"""Width in points of the white edges of the frame, which set it off from dark pages."""
BADGE_HEIGHT, BADGE_FONT_SIZE, BADGE_PADDING = 13.0, 9.0, 4.0
"""Size of a numbered note in points, for a page whose shorter side has `USUAL_SIDE`."""
USUAL_SIDE = 612.0
MIN_SCALE, MAX_SCALE = 0.7, 6.0
"""Limits of the size of notes and frames on small and large pages."""
STRIP_HEIGHT = 16.0
"""Height of the strip below a stored page that says what it is, in points."""
_PRINT, _NO_ZOOM, _NO_ROTATE = 4, 8, 16
"""Bits of `/F`. Notes behave as if they had the last two."""
_MAX_DEPTH = 64
"""Nodes of a page tree above a page beyond which it is a loop."""
_DIGIT_WIDTH, _POINT_WIDTH = 0.556, 0.278
"""Widths in Helvetica-Bold, in ems."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A stored picture that stands for a page of a document."""

    jpeg: bytes
    size: Size
    caption: str
    """A line below it; letters other than those of Western Europe become question marks."""
    places: tuple[CitedPlace, ...]


def annotate_pdf(
    data: bytes,
    places: Sequence[CitedPlace],
    target: BinaryIO,
    progress: Callable[[int], None] | None = None,
) -> bool:
    """Write a copy of a PDF file with annotations on the pages of the places.

    A file that its owner encrypted, and that opens without a password, stays encrypted with the same
    permissions.

    Args:
        data: The file.
        places: Places whose evidence lies in it.
        target: Takes the copy.
        progress: Called with the percentage that is written.

    Returns:
        True if the file has a digital signature, which is not valid in the copy.

    Raises:
        EncryptedFileError: If it asks for a password, or its owner does not allow notes in it.
        CorpusError: If it is damaged, or has no page of a place.
    """
    by_page: dict[int, list[CitedPlace]] = {}
    for place in places:
        by_page.setdefault(place.evidence.page, []).append(place)
    with _damage_reported(), open_pdf(data) as pdf:
        if pdf.is_encrypted and not pdf.owner_password_matched and not pdf.allow.modify_annotation:
            raise EncryptedFileError("The owner of the file does not allow annotations in it.")
        for number, on_page in by_page.items():
            page = _page(pdf, number)
            _annotate_page(pdf, page, page_frame(page), on_page)
        signed = _is_signed(pdf)
        _save(pdf, target, progress)
    return signed


def write_stored_pages(pages: Sequence[StoredPage], target: BinaryIO) -> None:
    """Write a PDF file of stored pages with their annotations, each above a line that says what it is."""
    with Pdf.new() as pdf:
        for stored in pages:
            width, height = (side * 72 / DPI for side in stored.size)
            page = pdf.add_blank_page(page_size=(width, height + STRIP_HEIGHT))
            image = pdf.make_stream(
                stored.jpeg,
                Type=Name.XObject,
                Subtype=Name.Image,
                Width=stored.size.width,
                Height=stored.size.height,
                ColorSpace=Name.DeviceRGB,
                BitsPerComponent=8,
                Filter=Name.DCTDecode,
            )
            page.obj.Resources = Dictionary(
                XObject=Dictionary(Page=image), Font=Dictionary(F=_font(pdf, "Helvetica"))
            )
            size = min(8.0, 1.8 * width / max(len(stored.caption), 1))
            caption = _literal(stored.caption)
            page.obj.Contents = pdf.make_stream(
                b"q %.3f 0 0 %.3f 0 %.3f cm /Page Do Q " % (width, height, STRIP_HEIGHT)
                + b"BT 0.36 g /F %.2f Tf 4 5 Td %s Tj ET" % (size, caption)
            )
            frame = PageFrame(0, STRIP_HEIGHT, width, height + STRIP_HEIGHT, 0)
            _annotate_page(pdf, page, frame, stored.places)
        _save(pdf, target, None)


def open_pdf(data: bytes) -> Pdf:
    """Open a PDF file without a password.

    Raises `EncryptedFileError` if it asks for one, and `CorpusError` if it is damaged beyond reading.
    """
    try:
        return Pdf.open(io.BytesIO(data), suppress_warnings=True)
    except pikepdf.PasswordError as error:
        raise EncryptedFileError("The PDF file is protected by a password.") from error
    except pikepdf.PdfError as error:
        raise CorpusError("The PDF file is damaged and cannot be opened.") from error


def page_frames(data: bytes, pages: Collection[int], count: int | None = None) -> dict[int, PageFrame]:
    """Return the visible parts of pages of a PDF file, numbered from 1.

    Raises `EncryptedFileError` and `CorpusError` as `open_pdf`, and `CorpusError` if it has no such page, or
    not `count` pages: a damaged file is not read alike by everyone.
    """
    with _damage_reported(), open_pdf(data) as pdf:
        if count is not None and len(pdf.pages) != count:
            raise CorpusError(f"It has {len(pdf.pages)} pages here, and had {count} when it was indexed.")
        return {number: page_frame(_page(pdf, number)) for number in pages}


def page_frame(page: pikepdf.Page) -> PageFrame:
    """Return the visible part of a page: the crop box within the media box, as PDFium draws it.

    Boxes without an area count as absent; a page without boxes is letter paper.
    """
    media = _box(page, "/MediaBox") or (0.0, 0.0, *BLANK_PAGE)
    crop = _box(page, "/CropBox") or media
    left, bottom = max(media[0], crop[0]), max(media[1], crop[1])
    right, top = min(media[2], crop[2]), min(media[3], crop[3])
    if left >= right or bottom >= top:
        raise CorpusError("A page has no visible part.")
    degrees = _inherited(page, "/Rotate")
    turn = math.trunc(float(degrees) / 90) % 4 if _is_number(degrees) else 0
    return PageFrame(left, bottom, right, top, turn)


@contextmanager
def _damage_reported() -> Generator[None]:
    try:
        yield
    except (pikepdf.PdfError, ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        raise CorpusError("The PDF file is damaged: no notes can be written in it.") from error


def _page(pdf: Pdf, number: int) -> pikepdf.Page:
    if not 1 <= number <= len(pdf.pages):
        raise CorpusError(f"The PDF file has {len(pdf.pages)} pages, and no page {number}.")
    return pdf.pages[number - 1]


def _inherited(page: pikepdf.Page, name: str) -> Any:  # noqa: ANN401 - any PDF object
    """Return an attribute of a page, or of the nearest node of the page tree above it that has one."""
    node: Any = page.obj
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, Dictionary):
            return None
        if (found := node.get(name)) is not None:
            return found
        node = node.get("/Parent")
    return None


def _box(page: pikepdf.Page, name: str) -> Sides | None:
    found = _inherited(page, name)
    if not isinstance(found, Array) or len(found) < 4 or not all(map(_is_number, found)):
        return None
    x1, y1, x2, y2 = (float(side) for side in list(found)[:4])
    sides = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
    return sides if sides[0] < sides[2] and sides[1] < sides[3] else None


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(float(value))  # pyright: ignore[reportArgumentType] - Decimal, int and others
    except (TypeError, ValueError):
        return False


def _is_signed(pdf: Pdf) -> bool:
    form = pdf.Root.get("/AcroForm")
    flags = form.get("/SigFlags", 0) if isinstance(form, Dictionary) else 0
    return bool(int(flags) & 1) if _is_number(flags) else False


def _save(pdf: Pdf, target: BinaryIO, progress: Callable[[int], None] | None) -> None:
    encrypted = pdf.is_encrypted
    pdf.save(
        target,
        min_version="1.6",
        fix_metadata_version=False,
        encryption=encrypted,
        deterministic_id=not encrypted,
        progress=progress,
    )


def _annotate_page(pdf: Pdf, page: pikepdf.Page, frame: PageFrame, places: Sequence[CitedPlace]) -> None:
    annotations: list[Any] = []
    badges: list[Box] = []
    marked: set[Box] = set()
    for place in places:
        annotations += _PlaceAnnotations(pdf, page, frame, place).make(badges, marked)
    before = page.obj.get("/Annots")
    kept = list(before) if isinstance(before, Array) else []
    page.obj.Annots = pdf.make_indirect(Array([*kept, *annotations]))


@dataclass(frozen=True, slots=True)
class _PlaceAnnotations:
    """The annotations of a place on its page."""

    pdf: Pdf
    page: pikepdf.Page
    frame: PageFrame
    place: CitedPlace

    def make(self, badges: list[Box], marked: set[Box]) -> list[Any]:
        """Make highlights, frame and note, in the order in which they are drawn.

        `badges` and `marked` are notes and highlighted boxes of other places of the page, as fractions of it;
        the new ones are added. What two answers rest on is highlighted once: twice would darken it.
        """
        badge = self._place_badge(badges)
        badges.append(badge)
        note = self._note(badge)
        boxes: dict[MarkRole, list[Box]] = {}
        for mark in self.place.evidence.marks:
            box = Box.unit(*mark.box)
            if box not in marked:
                boxes.setdefault(mark.role, []).append(box)
                marked.add(box)
        highlights = [self._highlight(role, found, note) for role, found in boxes.items()]
        square = [] if self.place.box is None else [self._square(self.place.box, note)]
        return [*highlights, *square, note]

    @property
    def _scale(self) -> float:
        return min(max(min(self.frame.shown_size) / USUAL_SIDE, MIN_SCALE), MAX_SCALE)

    @property
    def _color(self) -> Color:
        doubted = self.place.verdict is ClaimVerdict.DOUBTED
        return DOUBTED_COLOR if doubted else FRAME_COLOR

    def _place_badge(self, taken: Sequence[Box]) -> Box:
        """Return where the number stands: left of the upper corner, above it, or within the rectangle.

        Below other numbers, where these are in its place; in fractions of the page.
        """
        page_width, page_height = self.frame.shown_size
        width = (_text_width(self.place.number) * BADGE_FONT_SIZE + 2 * BADGE_PADDING) * self._scale
        width, height = width / page_width, BADGE_HEIGHT * self._scale / page_height
        line_x, line_y = LINE_WIDTH * self._scale / page_width, LINE_WIDTH * self._scale / page_height
        box = self.place.box
        left, top = (line_x, line_y) if box is None else (box.x1 - line_x, box.y1 - line_y)
        if box is not None and left - width >= 0:
            left -= width
        elif box is not None and top - height >= 0:
            top -= height
        left, top = min(max(left, 0.0), max(1 - width, 0.0)), min(max(top, 0.0), max(1 - height, 0.0))
        badge = Box.unit(left, top, left + width, top + height)
        while any(badge.intersect(other).area > 0 for other in taken) and badge.y2 + height <= 1:
            badge = Box.unit(left, badge.y1 + height, left + width, badge.y2 + height)
        return badge

    def _note(self, badge: Box) -> Any:  # noqa: ANN401 - a PDF object
        """Make the numbered note. It is drawn upright on rotated pages, from its upper left corner."""
        left, top = self._point(badge.x1, badge.y1)
        width, height = badge.width * self.frame.shown_size[0], badge.height * self.frame.shown_size[1]
        size = BADGE_FONT_SIZE * self._scale
        text_width = _text_width(self.place.number) * size
        content = b"%s rg 0 0 %.3f %.3f re f 1 g BT /F %.3f Tf %.3f %.3f Td %s Tj ET" % (
            _numbers(self._color),
            width,
            height,
            size,
            (width - text_width) / 2,
            (height - 0.72 * size) / 2,
            _literal(self.place.number),
        )
        form = self._form(
            (0, 0, width, height), content, Font=Dictionary(F=_font(self.pdf, "Helvetica-Bold"))
        )
        note = self._annotation("note", (left, top - height, left + width, top), form)
        note.Subtype = Name.Text
        note.Name = Name.Note
        note.F = _PRINT | _NO_ZOOM | _NO_ROTATE
        note.Contents = self.place.note
        popup = self.pdf.make_indirect(
            Dictionary(
                Type=Name.Annot,
                Subtype=Name.Popup,
                Rect=Array(_rounded((left + width, top - 140, left + width + 220, top))),
                Parent=note,
                Open=False,
                P=self.page.obj,
            )
        )
        note.Popup = popup
        return note

    def _square(self, box: Box, note: Any) -> Any:  # noqa: ANN401
        """Make the frame around the rectangle."""
        line, halo = LINE_WIDTH * self._scale, HALO_WIDTH * self._scale
        left, bottom, right, top = self.frame.from_unit(box)
        outer = line + halo
        rect = (left - outer, bottom - outer, right + outer, top + outer)
        half = line / 2
        path = (left - half, bottom - half, right - left + line, top - bottom + line)
        outline = b"%.3f w %.3f %.3f %.3f %.3f re S"
        content = b"1 G %s %s RG %s" % (
            outline % (line + 2 * halo, *path),
            _numbers(self._color),
            outline % (line, *path),
        )
        square = self._annotation("frame", rect, self._form(rect, content))
        square.Subtype = Name.Square
        square.BS = Dictionary(W=round(line, 3), S=Name.S)
        return self._grouped(square, note)

    def _highlight(self, role: MarkRole, boxes: Sequence[Box], note: Any) -> Any:  # noqa: ANN401
        """Make the highlight over words of a role."""
        color = MARK_COLORS[role]
        sides = [self.frame.from_unit(box) for box in boxes]
        lefts, bottoms, rights, tops = zip(*sides, strict=True)
        rect = (min(lefts), min(bottoms), max(rights), max(tops))
        paths = b" ".join(
            b"%.3f %.3f %.3f %.3f re" % (x, y, right - x, top - y) for x, y, right, top in sides
        )
        multiplied = Dictionary(Type=Name.ExtGState, BM=Name.Multiply)
        content = b"/M gs %s rg %s f" % (_numbers(color), paths)
        form = self._form(rect, content, ExtGState=Dictionary(M=multiplied))
        highlight = self._annotation(f"words-{role}", rect, form)
        highlight.Subtype = Name.Highlight
        highlight.C = Array(color)
        highlight.QuadPoints = Array(
            round(side, 3)
            for box in boxes
            for x, y in ((box.x1, box.y1), (box.x2, box.y1), (box.x1, box.y2), (box.x2, box.y2))
            for side in self._point(x, y)
        )
        return self._grouped(highlight, note)

    def _annotation(self, name: str, rect: Sides, form: Any) -> Any:  # noqa: ANN401
        created = time.strftime("D:%Y%m%d%H%M%SZ", time.gmtime(self.place.asked))
        return self.pdf.make_indirect(
            Dictionary(
                Type=Name.Annot,
                Rect=Array(_rounded(rect)),
                P=self.page.obj,
                NM=f"vrag-{self.place.run}-{self.place.number}-{name}",
                T=AUTHOR,
                Subj=f"Citation {self.place.number}",
                Contents=self.place.summary,
                M=created,
                CreationDate=created,
                C=Array(self._color),
                F=_PRINT,
                AP=Dictionary(N=form),
            )
        )

    def _grouped(self, annotation: Any, note: Any) -> Any:  # noqa: ANN401
        """Put an annotation under the note: viewers that know groups list both as one."""
        annotation.IRT = note
        annotation.RT = Name.Group
        return annotation

    def _form(self, bounds: Sides, content: bytes, **resources: Any) -> Any:  # noqa: ANN401
        return self.pdf.make_stream(
            content,
            Type=Name.XObject,
            Subtype=Name.Form,
            BBox=Array(_rounded(bounds)),
            Resources=Dictionary(**resources),
        )

    def _point(self, x: float, y: float) -> tuple[float, float]:
        left, bottom, _, _ = self.frame.from_unit(Box.unit(x, y, x, y))
        return left, bottom


def _font(pdf: Pdf, name: str) -> Any:  # noqa: ANN401 - a PDF object
    return pdf.make_indirect(
        Dictionary(
            Type=Name.Font, Subtype=Name.Type1, BaseFont=Name(f"/{name}"), Encoding=Name.WinAnsiEncoding
        )
    )


def _text_width(number: str) -> float:
    """Return the width of digits and points, in ems."""
    return sum(_POINT_WIDTH if character == "." else _DIGIT_WIDTH for character in number)


def _literal(text: str) -> bytes:
    """Return a string of a content stream, in the encoding of the font."""
    return pikepdf.String(text.encode("cp1252", "replace")).unparse()


def _numbers(values: Sequence[float]) -> bytes:
    return " ".join(f"{value:.3f}" for value in values).encode()


def _rounded(sides: Sides) -> list[float]:
    return [round(side, 3) for side in sides]
