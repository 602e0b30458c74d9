# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""A typed interface to the parts of PDFium that are used here.

Mostly its C functions are called directly: a page has thousands of objects.
"""

from __future__ import annotations

import ctypes
import math
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from vrag.corpus.formats.image import drop_colors, to_image
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
    struck_places,
)
from vrag.corpus.formats.pdfium_text import MAX_FONT_NAME, Layer, address_of, find_function, is_contained
from vrag.errors import CorpusError, EncryptedFileError
from vrag.geometry import Box, Size, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from pypdfium2 import PdfDocument, PdfPage

    from vrag.corpus.sniff import Openable

MAX_PLACE_SIDE = 4000
"""Longest side in pixels of a page of which a place is rendered to compare it."""
LAST_LATIN_LETTER = "\u024f"
MAX_OBJECTS = 20_000
"""Objects of a page that are looked through."""
MAX_FONT_OBJECTS = 10_000
"""Likewise, for fonts; a page with more counts as one with replaced fonts."""
MAX_OUTLINE_ENTRIES, MAX_OUTLINE_DEPTH = 5000, 6
"""Entries of an outline that are read, and their levels."""


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
                return Box(x1, y1, x2, y2, Space.UNIT)

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
        self.has_unknown_letters = False
        """True if it has letters of which nobody knows which they are; known once its words were read."""
        self.full_width_letters = frozenset[str]()
        """ASCII letters, digits and signs of which it has the full-width form; likewise."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height as shown, in points of 1/72 inch."""
        return self._page.get_size()

    @cached_property
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
        return _list_objects("FPDFPage_GetObject", page, count)

    @cached_property
    def has_replaced_fonts(self) -> bool:
        """True if some of its text has a font that the file does not contain, or one made of drawings.

        Annotations count as such text: many are drawn in a font of PDFium's own.
        """
        return self._has_annotations or self._fonts is None or not all(map(is_contained, self._fonts))

    @property
    def font_names(self) -> list[str]:
        """Names of the fonts of its text; none if it has too many objects."""
        return [_font_name(font) for font in self._fonts or ()]

    def list_fonts(self) -> list[tuple[int, Any, str]]:
        """Return the number, as in `find_fonts`, the handle and the name of each of its fonts."""
        return [(address_of(font), font, _font_name(font)) for font in self._fonts or ()]

    def list_characters(self, wanted: str, fonts: Container[int]) -> dict[int, set[str]]:
        """Return which of some characters its text has in some of its fonts, by the numbers of these."""
        found: dict[int, set[str]] = {}
        with self.layer() as layer:
            for index, character in enumerate(layer.characters()):
                if character in wanted and (number := layer.font_number(index)) in fonts:
                    found.setdefault(number, set()).add(character)
        return found

    @cached_property
    def _fonts(self) -> list[Any] | None:
        """The fonts of its text; None if it has more objects than are looked through."""
        from pypdfium2 import raw

        get_font = find_function("FPDFTextObj_GetFont")
        fonts: dict[int, Any] = {}
        forms: list[Any] = []
        objects, remaining = self.objects, MAX_FONT_OBJECTS
        while (remaining := remaining - len(objects)) >= 0:
            for kind, entry in objects:
                if kind == raw.FPDF_PAGEOBJ_TEXT:
                    font = get_font(entry)
                    fonts.setdefault(address_of(font), font)
                elif kind == raw.FPDF_PAGEOBJ_FORM:
                    forms.append(entry)
            if not forms:
                return list(fonts.values())
            form = forms.pop()
            count = min(raw.FPDFFormObj_CountObjects(form), MAX_FONT_OBJECTS + 1)
            objects = _list_objects("FPDFFormObj_GetObject", form, count)
        return None

    def can_draw(self, text: str) -> bool:
        """Return whether PDFium has the letters of a word, which is on the page, to draw them.

        Of fonts that a file does not contain, it has those of Latin script, and not their full-width forms,
        which are ASCII in the text of an item.
        """
        if not text or not self.has_replaced_fonts:
            return True
        return max(text) <= LAST_LATIN_LETTER and self.full_width_letters.isdisjoint(text)

    def render(self, scale: float) -> Image:
        """Render the page as `render_pixels` does, as an image of mode RGBX, or L without colours."""
        return to_image(self.render_pixels(scale))

    def render_pixels(self, scale: float) -> NDArray[np.uint8]:
        """Render the page at `scale` pixels per point, in rows of RGBX, or of grey if it has no colours.

        PDFium draws it, and JPEG is written, faster so than as RGB; grey takes a third of that. Raises
        `CorpusError` if the page has no area.
        """
        width, height = (math.ceil(side * scale) for side in self.size)
        if min(width, height) < 1:
            raise CorpusError("The page cannot be drawn: it has no area.")
        return drop_colors(self._draw((0, 0, width, height), (width, height)))

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
        left, top, right, bottom = (int(side) * factor for side in region.as_tuple())
        size = (picture.width * factor, picture.height * factor)
        return to_image(self._draw((left, top, right, bottom), size)).convert("RGB")

    def _draw(self, part: tuple[int, int, int, int], size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return rows of RGBX of a part of the page: left, top, right, bottom in a picture of this size."""
        import numpy as np
        from pypdfium2 import PdfBitmap, raw

        left, top, right, bottom = part
        pixels = np.full((bottom - top, right - left, 4), 255, np.uint8)
        buffer = (ctypes.c_ubyte * pixels.size).from_buffer(pixels)
        bitmap = PdfBitmap.new_native(
            right - left, bottom - top, raw.FPDFBitmap_BGRx, rev_byteorder=True, buffer=buffer
        )
        flags = raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
        arguments = (bitmap, self._page, -left, -top, *size, 0, flags)
        raw.FPDF_RenderPageBitmap(*arguments)
        if self._page.formenv:
            raw.FPDF_FFLDraw(self._page.formenv, *arguments)
        return pixels

    def layer(self) -> Layer:
        """Open its text layer."""
        return Layer(self._page)

    def struck_places(self) -> list[Box]:
        """Return the parts, in fractions of the page, of which annotations strike out the text."""
        return [self.frame.to_unit(*sides) for sides in struck_places(self._page)]

    def find_fonts(self, boxes: Iterable[Box]) -> Generator[int]:
        """Yield a number for the font of each word, by its box in fractions of the page; 0 for none."""
        with self.layer() as layer:
            for box in boxes:
                left, bottom, right, top = self.frame.from_unit(box)
                reach = min(right - left, top - bottom) / 2
                yield layer.find_font((left + right) / 2, (bottom + top) / 2, reach)

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
    """The drawings of the annotations of a page."""

    page: PdfiumPage
    """A page of the same size that shows nothing else."""
    annotations: list[ShownAnnotation]
    """The annotations that are shown, in the order in which they are drawn."""


def _list_objects(getter: str, parent: Any, count: int) -> list[tuple[int, Any]]:  # noqa: ANN401 - a handle
    """List the kind and the handle of each of the first objects of a page or a form.

    Args:
        getter: Name of the function of PDFium that returns one by its index.
        parent: Handle of the page or form.
        count: Number of objects.
    """
    get_object, get_kind = find_function(getter), find_function("FPDFPageObj_GetType")
    entries = [get_object(parent, index) for index in range(count)]
    return list(zip(map(get_kind, entries), entries, strict=True))


def _font_name(font: Any) -> str:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    buffer = ctypes.create_string_buffer(MAX_FONT_NAME)
    raw.FPDFFont_GetBaseFontName(font, buffer, MAX_FONT_NAME)
    return buffer.value.decode("utf-8", "replace")
