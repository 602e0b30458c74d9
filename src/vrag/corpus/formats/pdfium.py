# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""A typed interface to the parts of PDFium that are used here.

Mostly its C functions are called directly: a page has thousands of characters. PDF files are also made here,
of images of pages; the same images give the same bytes.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import math
import re
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from vrag.corpus.formats.pdfium_annotations import (
    ShownAnnotation,
    attached_files,
    extract_appearances,
    files_on_page,
    has_fields,
    has_shown_annotations,
    read_utf16,
    read_xfa_packets,
    shown_annotations,
    start_forms,
)
from vrag.errors import CorpusError, EncryptedFileError
from vrag.geometry import IMAGE_FORMATS, Box, Size, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from pypdfium2 import PdfDocument, PdfPage

    from vrag.corpus.sniff import Openable

SKIPPED = "\x03"
"""Placeholder for half a surrogate pair: characters stay aligned with PDFium's indices."""
DPI = 144.0
"""Pixels of an image per inch of its page: drawn at the usual resolution, it has the pixels it came with."""
BLANK_PAGE = (612.0, 792.0)
"""Width and height of a page whose image is missing, in points: letter paper."""
MAX_PLACE_SIDE = 4000
"""Longest side in pixels of a page of which a place is rendered to compare it."""
LAST_LATIN_LETTER = "\u024f"
FULL_WIDTH = ("\uff01", "\uff5e")
"""First and last of the full-width forms of ASCII characters."""
QUALITY = 92
"""JPEG quality for images in other formats."""
MAX_SLANT = 0.1
"""Difference from a quarter turn up to which text counts as turned by it, in quarter turns."""
MAX_OBJECTS = 20_000
"""Objects of a page that are looked through."""
MAX_FONT_OBJECTS = 10_000
"""Likewise, for fonts; a page with more counts as one with replaced fonts."""
MAX_FONT_NAME = 128
"""Bytes of the longest name of a font, with the zero that ends it."""
MAX_OUTLINE_ENTRIES, MAX_OUTLINE_DEPTH = 5000, 6
"""Entries of an outline that are read, and their levels."""
_ID = re.compile(rb"/ID\[<[0-9A-F]{32}><[0-9A-F]{32}>\]")


class PageFrame(NamedTuple):
    """The visible part of a page in PDF coordinates, and its rotation."""

    left: float
    bottom: float
    right: float
    top: float
    turn: int
    """Quarter turns clockwise."""

    @property
    def shown_size(self) -> tuple[float, float]:
        """Width and height as shown, in points."""
        width, height = self.right - self.left, self.top - self.bottom
        return (height, width) if self.turn % 2 else (width, height)

    def to_unit(self, left: float, bottom: float, right: float, top: float) -> Box:
        """Convert a rectangle on the page to fractions of its rendered image, not clipped."""
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

    def from_unit(self, box: Box) -> tuple[float, float, float, float]:
        """Convert fractions of the rendered image to left, bottom, right, top: the inverse of `to_unit`."""
        x1, y1, x2, y2 = box.as_tuple()
        match self.turn:
            case 1:
                x1, y1, x2, y2 = y1, 1 - x2, y2, 1 - x1
            case 2:
                x1, y1, x2, y2 = 1 - x2, 1 - y2, 1 - x1, 1 - y1
            case 3:
                x1, y1, x2, y2 = 1 - y2, x1, 1 - y1, x2
            case _:
                pass
        width, height = self.right - self.left, self.top - self.bottom
        return (
            self.left + x1 * width,
            self.top - y2 * height,
            self.left + x2 * width,
            self.top - y1 * height,
        )


class OutlineEntry(NamedTuple):
    """An entry of the outline (bookmarks) of a PDF file."""

    title: str
    page: int
    """Number of the page that it leads to, from 1."""
    level: int
    """From 1, the outermost."""


class Pdf:
    """An open PDF file, by its path, its bytes, or something else that opens it.

    Raises `EncryptedFileError` if it asks for a password, and `CorpusError` if it is not a PDF file, or
    damaged beyond reading.
    """

    def __init__(self, source: Openable | bytes) -> None:
        self._source = source
        self._pdf = _open_pdf(source)
        if self._pdf.get_formtype():
            start_forms(self._pdf)
        self._extracts: PdfDocument | None = None
        """The same file, changed by `extract_appearances`; opened when a page has annotations."""
        self._extracted: set[int] = set()
        """Its pages that were changed, from 0."""

    def __len__(self) -> int:
        return len(self._pdf)

    def page(self, ordinal: int) -> PdfiumPage:
        """Open a page, numbered from 1. Raises `CorpusError` if it is damaged."""
        from pypdfium2 import PdfiumError

        try:
            return PdfiumPage(self._pdf[ordinal - 1], partial(self._open_annotations, ordinal - 1))
        except PdfiumError as error:
            raise CorpusError(f"Page {ordinal} is damaged.") from error

    def label(self, ordinal: int) -> str:
        """Return the number that a page has printed on it, as the file says; "" where it does not."""
        from pypdfium2 import raw

        return read_utf16(
            lambda buffer, size: raw.FPDF_GetPageLabel(self._pdf.raw, ordinal - 1, buffer, size)
        )

    def read_outline(self) -> list[OutlineEntry]:
        """Return the entries of the outline that lead to a page, as far as `MAX_OUTLINE_ENTRIES`."""
        found: list[OutlineEntry] = []
        for entry in islice(self._pdf.get_toc(max_depth=MAX_OUTLINE_DEPTH), MAX_OUTLINE_ENTRIES):
            target = entry.get_dest()
            page = None if target is None else target.get_index()
            if page is not None:
                found.append(OutlineEntry(str(entry.get_title()), int(page) + 1, int(entry.level) + 1))
        return found

    def attached_files(self) -> list[str]:
        """Return the names of the files that are attached to the whole document."""
        return attached_files(self._pdf)

    def read_xfa(self) -> dict[str, bytes]:
        """Return the parts of its XFA form by their names; none where it has no such form."""
        return read_xfa_packets(self._pdf)

    def close(self) -> None:
        """Close the file."""
        self._pdf.close()
        if self._extracts is not None:
            self._extracts.close()

    @contextmanager
    def _open_annotations(self, index: int) -> Generator[AnnotationPage]:
        """Open what the annotations of a page draw."""
        from pypdfium2 import PdfiumError

        if self._extracts is not None and index in self._extracted:
            self._extracts.close()
            self._extracts = None
        if self._extracts is None:
            self._extracts, self._extracted = _open_pdf(self._source), set()
            start_forms(self._extracts)
        self._extracted.add(index)
        try:
            page = self._extracts[index]
            annotations = shown_annotations(self._extracts, page)
            extracted = extract_appearances(self._extracts, page, index)
        except PdfiumError as error:
            raise CorpusError(f"The annotations of page {index + 1} are damaged.") from error
        try:
            yield AnnotationPage(PdfiumPage(extracted), annotations)
        finally:
            extracted.close()
            self._extracts.del_page(len(self._extracts) - 1)


def _open_pdf(source: Openable | bytes) -> PdfDocument:
    """Open a PDF file. Raises as `Pdf` does."""
    from pypdfium2 import PdfDocument, PdfiumError, raw

    opened = source if isinstance(source, bytes | Path) else source.open("rb")
    try:
        return PdfDocument(opened, autoclose=True)
    except PdfiumError as error:
        if not isinstance(opened, bytes | Path):
            opened.close()
        if error.err_code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
            raise EncryptedFileError(
                "The PDF file is protected by a password.", "Save a copy without it."
            ) from error
        raise CorpusError("The PDF file is damaged and cannot be opened.") from error


class IndependentPages:
    """The pages of a PDF file, each as if no other had been read before it.

    A font that a file names and does not contain is replaced by one of PDFium's own. Its weight and
    width are set for each letter that is drawn, in a face that all files of the process share; boxes of
    letters are measured with the face as it was left, and kept while the file is open. For a page with such a
    font, PDFium is therefore started anew and the file opened again. That holds in a process that has nothing
    else of PDFium open. Raises as `Pdf` does.
    """

    def __init__(self, file: Openable) -> None:
        self._file = file
        self._pdf = self._open()

    def __len__(self) -> int:
        return len(self._pdf)

    def page(self, ordinal: int) -> PdfiumPage:
        """Open a page, numbered from 1, after the one before was closed. Raises as `Pdf.page` does."""
        if self._is_tainted:
            self._reopen()
        page = self._pdf.page(ordinal)
        if page.has_replaced_fonts:
            if self._is_used:
                page.close()
                self._reopen()
                page = self._pdf.page(ordinal)
            self._is_tainted = True
        self._is_used = True
        return page

    def label(self, ordinal: int) -> str:
        """Return the printed number of a page, as `Pdf.label`."""
        return self._pdf.label(ordinal)

    def read_outline(self) -> list[OutlineEntry]:
        """Return the entries of the outline, as `Pdf.read_outline`."""
        return self._pdf.read_outline()

    def attached_files(self) -> list[str]:
        """Return the names of attached files, as `Pdf.attached_files`."""
        return self._pdf.attached_files()

    def read_xfa(self) -> dict[str, bytes]:
        """Return the parts of the XFA form, as `Pdf.read_xfa`."""
        return self._pdf.read_xfa()

    def close(self) -> None:
        """Close the file."""
        self._pdf.close()

    def _open(self) -> Pdf:
        _restart()
        self._is_used = False
        """True if a page was opened since PDFium was started."""
        self._is_tainted = False
        """True if one of them had such fonts: the next one most likely has them too."""
        return Pdf(self._file)

    def _reopen(self) -> None:
        self._pdf.close()
        self._pdf = self._open()


def _restart() -> None:
    """Start PDFium anew, unless something of it is open in this process."""
    from pypdfium2 import raw
    from pypdfium2.internal import ObjectTracker

    if not any(ObjectTracker.values()):
        raw.FPDF_DestroyLibrary()
        raw.FPDF_InitLibraryWithConfig(raw.FPDF_LIBRARY_CONFIG(version=2))


class PdfiumPage:
    """An open page; a context manager."""

    def __init__(
        self,
        page: PdfPage,
        open_annotations: Callable[[], AbstractContextManager[AnnotationPage]] | None = None,
    ) -> None:
        self._page = page
        self._open_annotations = open_annotations
        self._has_annotations = bool(open_annotations) and has_shown_annotations(page)
        self.shown_annotations: list[ShownAnnotation] = []
        """The annotations that it shows; known once `annotations` has opened what they draw."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height as shown, in points of 1/72 inch."""
        return self._page.get_size()

    @property
    def frame(self) -> PageFrame:
        """The visible part."""
        from pypdfium2 import raw

        box = raw.FS_RECTF()
        raw.FPDF_GetPageBoundingBox(self._page.raw, box)
        return PageFrame(box.left, box.bottom, box.right, box.top, self._page.get_rotation() // 90)

    @cached_property
    def objects(self) -> list[tuple[int, Any]]:
        """Kind and handle of its first objects (`MAX_OBJECTS`), in the order in which they are drawn.

        Those of forms within it are left out.
        """
        from pypdfium2 import raw

        page = self._page.raw
        count = min(raw.FPDFPage_CountObjects(page), MAX_OBJECTS)
        return _list_objects(partial(raw.FPDFPage_GetObject, page), count)

    @cached_property
    def has_replaced_fonts(self) -> bool:
        """True if some of its text has a font that the file does not contain, or one made of drawings.

        Annotations count as such text: many are drawn in a font of PDFium's own.
        """
        return self._has_annotations or self._fonts is None or not all(map(_is_contained, self._fonts))

    @property
    def font_names(self) -> list[str]:
        """Names of the fonts of its text; none if it has too many objects."""
        return [_font_name(font) for font in self._fonts or ()]

    @cached_property
    def _fonts(self) -> list[Any] | None:
        """The fonts of its text; None if it has more objects than are looked through."""
        from pypdfium2 import raw

        fonts: dict[int, Any] = {}
        forms: list[Any] = []
        objects, remaining = self.objects, MAX_FONT_OBJECTS
        while (remaining := remaining - len(objects)) >= 0:
            for kind, entry in objects:
                if kind == raw.FPDF_PAGEOBJ_TEXT:
                    font = raw.FPDFTextObj_GetFont(entry)
                    fonts.setdefault(address_of(font), font)
                elif kind == raw.FPDF_PAGEOBJ_FORM:
                    forms.append(entry)
            if not forms:
                return list(fonts.values())
            form = forms.pop()
            count = min(raw.FPDFFormObj_CountObjects(form), MAX_FONT_OBJECTS + 1)
            objects = _list_objects(partial(raw.FPDFFormObj_GetObject, form), count)
        return None

    def can_draw(self, text: str) -> bool:
        """Return whether PDFium has the letters of a word, which is on the page, to draw them.

        Of fonts that a file does not contain, it has those of Latin script, and not their full-width forms,
        which are ASCII in the text of an item.
        """
        if not text or not self.has_replaced_fonts:
            return True
        return max(text) <= LAST_LATIN_LETTER and self._full_width_letters.isdisjoint(text)

    @cached_property
    def _full_width_letters(self) -> frozenset[str]:
        """ASCII letters, digits and signs of which the page has the full-width form."""
        with self.layer() as layer:
            characters = layer.characters()
        first, last = FULL_WIDTH
        return frozenset(
            chr(ord(each) - ord(first) + ord("!")) for each in characters if first <= each <= last
        )

    def render(self, scale: float) -> Image:
        """Render the page as `render_pixels` does, as an image of mode RGBX."""
        return to_image(self.render_pixels(scale))

    def render_pixels(self, scale: float) -> NDArray[np.uint8]:
        """Render the page at `scale` pixels per point, in rows of RGBX.

        PDFium draws it, and JPEG is written, faster so than as RGB. Raises `CorpusError` if the page has no
        area.
        """
        from pypdfium2 import PdfiumError

        try:
            return self._page.render(scale=scale, rev_byteorder=True, prefer_bgrx=True).to_numpy()
        except (PdfiumError, ValueError) as error:
            raise CorpusError(f"The page cannot be drawn: {error}.") from error

    @property
    def handle(self) -> Any:  # noqa: ANN401 - a handle of PDFium
        """The page, for PDFium's own functions."""
        return self._page.raw

    def render_place(self, place: tuple[float, float, float, float]) -> NDArray[np.uint8]:
        """Render left, bottom, right, top of a page, in PDF coordinates, at two pixels per point."""
        import numpy as np

        width, height = (max(1, round(2 * side)) for side in self.size)
        scale = min(1.0, MAX_PLACE_SIDE / max(width, height))
        size = Size(max(1, int(width * scale)), max(1, int(height * scale)))
        box = self.frame.to_unit(*place)
        region = Box(
            math.floor(min(max(box.x1, 0.0), 1.0) * (size.width - 1)),
            math.floor(min(max(box.y1, 0.0), 1.0) * (size.height - 1)),
            math.ceil(min(max(box.x2, 0.0), 1.0) * (size.width - 1)) + 1,
            math.ceil(min(max(box.y2, 0.0), 1.0) * (size.height - 1)) + 1,
            Space.ITEM,
        )
        return np.asarray(self.render_part(size, region, 1))

    def render_part(self, picture: Size, region: Box, factor: int) -> Image:
        """Render a part of the page, RGB, as if the whole were `factor` times as large as in its picture.

        Args:
            picture: Size of the picture that `render` made of the page.
            region: The part in pixels of that picture, with whole-number sides.
            factor: From 1. The part of the larger picture is that from `factor × region.x1` and so on: at 1,
                its pixels are those of `render`.
        """
        from pypdfium2 import PdfBitmap, raw

        left, top, right, bottom = (int(side) * factor for side in region.as_tuple())
        width, height = picture.width * factor, picture.height * factor
        bitmap = PdfBitmap.new_native(right - left, bottom - top, raw.FPDFBitmap_BGRx, rev_byteorder=True)
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, right - left, bottom - top)
        flags = raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
        arguments = (bitmap, self._page, -left, -top, width, height, 0, flags)
        raw.FPDF_RenderPageBitmap(*arguments)
        if self._page.formenv:
            raw.FPDF_FFLDraw(self._page.formenv, *arguments)
        return bitmap.to_pil().convert("RGB")

    def layer(self) -> Layer:
        """Open its text layer."""
        return Layer(self._page)

    @property
    def has_fields(self) -> bool:
        """True if it has fields of a form, as far as they are annotations."""
        return self._has_annotations and has_fields(self._page)

    def attached_files(self) -> list[str]:
        """Return the names of the files of which it shows an icon."""
        return files_on_page(self._page) if self._has_annotations else []

    @contextmanager
    def annotations(self) -> Generator[AnnotationPage | None]:
        """Open what its annotations draw upon it; None if it has none that draw words."""
        if self._open_annotations is None or not self._has_annotations:
            yield None
            return
        with self._open_annotations() as shown:
            self.shown_annotations = shown.annotations
            yield shown

    def close(self) -> None:
        """Close the page."""
        self._page.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AnnotationPage(NamedTuple):
    """What the annotations of a page draw upon it."""

    page: PdfiumPage
    """A page of the same size that shows nothing else."""
    annotations: list[ShownAnnotation]
    """The annotations that are shown, in the order in which they are drawn."""


def to_image(pixels: NDArray[np.uint8]) -> Image:
    """Return rows of RGBX as an image, which shares them."""
    from PIL import Image

    height, width = pixels.shape[:2]
    return Image.frombuffer("RGBX", (width, height), pixels, "raw", "RGBX", pixels.strides[0], 1)


def address_of(handle: Any) -> int:  # noqa: ANN401 - a handle of PDFium
    """Return the address that a handle holds, which tells it from others; 0 for none.

    `ctypes.cast` would take as long as eight calls of PDFium.
    """
    return ctypes.c_void_p.from_buffer(handle).value or 0


def _list_objects(get_object: Callable[[int], Any], count: int) -> list[tuple[int, Any]]:
    """List the kind and the handle of each of some objects."""
    from pypdfium2 import raw

    return [(raw.FPDFPageObj_GetType(entry), entry) for entry in map(get_object, range(count))]


def _is_contained(font: Any) -> bool:  # noqa: ANN401 - a handle of PDFium
    """Return whether a file contains a font as a font file."""
    from pypdfium2 import raw

    size = ctypes.c_size_t()
    return bool(
        raw.FPDFFont_GetIsEmbedded(font) > 0 and raw.FPDFFont_GetFontData(font, None, 0, size) and size.value
    )


def _font_name(font: Any) -> str:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    buffer = ctypes.create_string_buffer(MAX_FONT_NAME)
    raw.FPDFFont_GetBaseFontName(font, buffer, MAX_FONT_NAME)
    return buffer.value.decode("utf-8", "replace")


Sides = tuple[float, float, float, float]
"""Left, bottom, right and top in PDF coordinates."""


def turn_sides(sides: Sides, turn: int) -> Sides:
    """Return a rectangle as if text that is turned by quarters clockwise ran to the right.

    >>> turn_sides((0, 0, 10, 40), 3), turn_sides((0, 0, 10, 40), 1)
    ((0, -10, 40, 0), (-40, 0, 0, 10))
    """
    left, bottom, right, top = sides
    match turn:
        case 1:
            return -top, left, -bottom, right
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return bottom, -right, top, -left
        case _:
            return sides


class Glyph(NamedTuple):
    """A character as it is drawn; lengths in points."""

    character: str
    bottom: float
    top: float
    """Of its ink."""
    baseline: float
    size: float
    """Height of its line."""


class Layer:
    """The text layer of a page; a context manager."""

    def __init__(self, page: PdfPage) -> None:
        from pypdfium2 import raw

        self._text = raw.FPDFText_LoadPage(page.raw)
        self._count_rects = raw.FPDFText_CountRects
        self._get_rect = raw.FPDFText_GetRect
        self._get_angle = raw.FPDFText_GetCharAngle
        self._sides = tuple(ctypes.c_double() for _ in range(4))
        self._pointers = tuple(map(ctypes.byref, self._sides))
        self._font_name, self._font_flags = ctypes.create_string_buffer(MAX_FONT_NAME), ctypes.c_int()

    def characters(self) -> str:
        """Return its characters, each at its PDFium index."""
        from pypdfium2 import raw

        count = raw.FPDFText_CountChars(self._text) if self._text else 0
        if count <= 0:
            return ""
        buffer = (ctypes.c_ushort * (count + 1))()
        units = raw.FPDFText_GetText(self._text, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * max(units, 0)].decode("utf-16-le", "surrogatepass")
        if len(text) == units == count:  # otherwise some characters have no place in it, or two
            return text
        return _paired([raw.FPDFText_GetUnicode(self._text, index) for index in range(count)])

    def rects(self, start: int, end: int) -> list[Sides]:
        """Return the rectangles around characters `start` to `end`, one for each piece of text of the page.

        Marks without a position have none. One or two calls a word instead of one a character.
        """
        left, top, right, bottom = self._sides
        found: list[Sides] = []
        for index in range(self._count_rects(self._text, start, end - start)):
            if self._get_rect(self._text, index, *self._pointers):
                sides = left.value, bottom.value, right.value, top.value
                if (
                    -math.inf < sides[0] <= sides[2] < math.inf
                    and -math.inf < sides[1] <= sides[3] < math.inf
                ):
                    found.append(sides)
        return found

    def font_name(self, index: int) -> str:
        """Return the name of the font of a character; "" if it has none."""
        from pypdfium2 import raw

        name = self._font_name
        size = raw.FPDFText_GetFontInfo(self._text, index, name, MAX_FONT_NAME, self._font_flags)
        return name.value.decode("utf-8", "replace") if 0 < size <= MAX_FONT_NAME else ""

    def turn(self, index: int) -> int | None:
        """Return the quarter turns clockwise of a character, 0 to 3; None if it is slanted or mirrored."""
        angle = self._get_angle(self._text, index)
        if angle <= 0:
            return 0
        quarters = angle / (math.pi / 2)
        nearest = round(quarters)
        if abs(quarters - nearest) > MAX_SLANT or (nearest % 4 and self._is_mirrored(index)):
            return None
        return nearest % 4

    def _is_mirrored(self, index: int) -> bool:
        from pypdfium2 import raw

        matrix = raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(self._text, index, matrix)
        return matrix.a * matrix.d - matrix.b * matrix.c < 0

    def ink(self, index: int) -> Sides:
        """Return the rectangle around what is drawn of a character."""
        from pypdfium2 import raw

        left, top, right, bottom = self._sides
        raw.FPDFText_GetCharBox(self._text, index, left, right, bottom, top)
        return left.value, bottom.value, right.value, top.value

    def glyphs(self, start: int, end: int, turn: int) -> list[Glyph]:
        """Return characters `start` to `end`, turned by `turn` quarters, as if they ran to the right."""
        from pypdfium2 import raw

        x, y = ctypes.c_double(), ctypes.c_double()
        loose = raw.FS_RECTF()
        glyphs: list[Glyph] = []
        for index in range(start, end):
            raw.FPDFText_GetCharOrigin(self._text, index, x, y)
            raw.FPDFText_GetLooseCharBox(self._text, index, loose)
            _, foot, _, head = turn_sides(self.ink(index), turn)
            _, low, _, high = turn_sides((loose.left, loose.bottom, loose.right, loose.top), turn)
            _, baseline, _, _ = turn_sides((x.value, y.value, x.value, y.value), turn)
            character = chr(raw.FPDFText_GetUnicode(self._text, index))
            glyphs.append(Glyph(character, foot, head, baseline, high - low))
        return glyphs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        from pypdfium2 import raw

        if self._text:
            raw.FPDFText_ClosePage(self._text)
            self._text = None


def _paired(codes: list[int]) -> str:
    r"""Decode UTF-16 or UTF-32 codes to one character per code: a pair's second half gives `SKIPPED`.

    >>> _paired([0x41, 0xD835, 0xDC56, 0xD835]) == "A\U0001d456" + SKIPPED + SKIPPED
    True
    """
    out: list[str] = []
    for code, after in zip(codes, [*codes[1:], 0], strict=True):
        if 0xD800 <= code < 0xDC00 <= after < 0xE000:
            out.append(chr(0x10000 + ((code - 0xD800) << 10) + (after - 0xDC00)))
        elif 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            out.append(SKIPPED)
        else:
            out.append(chr(code))
    return "".join(out)


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
