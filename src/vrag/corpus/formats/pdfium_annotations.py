# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false
"""Annotations of PDF pages: form fields, typed text, stamps, comments.

A text layer has the content of a page and not what annotations draw upon it. `extract_appearances` makes what
they draw the content of a page of its own, whose text layer has their words where they are seen. It changes
the document, which is therefore one that nothing is drawn from.
"""

from __future__ import annotations

import ctypes
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from vrag.text.signs import CHECKED, CHOSEN, NOT_CHECKED, NOT_CHOSEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pypdfium2 import PdfDocument, PdfPage

    from vrag.corpus.formats.pdfium_text import Sides

MAX_CHARACTERS = 20_000
"""Characters of the value of a field, or of a comment; more are not read."""
MAX_OPTIONS = 1000
"""Entries of a list that are looked at."""
MAX_QUADS = 1000
"""Lines of text that one annotation marks; more are not looked at."""
MAX_FILES = 1000
"""Attached files; more are not counted."""
MAX_PACKET_BYTES = 32 * 2**20


class AnnotationKind(StrEnum):
    """The way in which an annotation is read."""

    TEXT = "text"
    """By the words that it draws."""
    BUTTON = "button"
    """A check box or a radio button: by its state."""
    LIST = "list"
    """A list of which entries are chosen: by the words that it draws, a mark of their state before each."""
    NOTE = "note"
    """A comment of which the page shows an icon: by its content, at the place of the icon."""
    FILE = "file"
    """An attached file of which the page shows an icon: not at all."""


class FieldEntry(NamedTuple):
    """An entry of the form of a file about one of its fields."""

    name: str
    """Its name in the form; equal for buttons of which one is chosen."""
    title: str = ""
    """Its name for people."""
    options: tuple[str, ...] = ()
    """Entries of a list."""
    chosen: frozenset[int] = frozenset()
    """Numbers of the options that are chosen."""


class ShownAnnotation(NamedTuple):
    """An annotation that a page shows."""

    kind: AnnotationKind
    bounds: Sides
    """Left, bottom, right and top, in PDF coordinates."""
    text: str
    """The value of a text field, the mark of a button's state, the content of a note."""
    field: FieldEntry | None = None
    """The field of a form that it is; None if it is none that is filled in."""


def has_shown_annotations(page: PdfPage) -> bool:
    """Return whether a page has annotations that draw more than a mark on its content, hidden ones too."""
    from pypdfium2 import raw

    return any(
        raw.FPDFAnnot_GetSubtype(annotation) not in _unread_kinds() for annotation in _annotations(page)
    )


def has_fields(page: PdfPage) -> bool:
    """Return whether fields of a form are among the annotations that a page shows.

    A signature that is not seen has a rectangle without an area.
    """
    from pypdfium2 import raw

    return any(
        raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_WIDGET
        and not _is_hidden(annotation)
        and (bounds := _bounds_of(annotation)) is not None
        and bounds[0] < bounds[2]
        and bounds[1] < bounds[3]
        for annotation in _annotations(page)
    )


def struck_places(page: PdfPage) -> list[Sides]:
    """Return the rectangles of which annotations of a page strike out the text: for each line one."""
    from pypdfium2 import raw

    places: list[Sides] = []
    quad = raw.FS_QUADPOINTSF()
    for annotation in _annotations(page):
        if raw.FPDFAnnot_GetSubtype(annotation) != raw.FPDF_ANNOT_STRIKEOUT or _is_hidden(annotation):
            continue
        for index in range(min(raw.FPDFAnnot_CountAttachmentPoints(annotation), MAX_QUADS)):
            if raw.FPDFAnnot_GetAttachmentPoints(annotation, index, quad):
                xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
                places.append((min(xs), min(ys), max(xs), max(ys)))
    return places


def _is_hidden(annotation: Any) -> bool:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    hiding = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
    return bool(raw.FPDFAnnot_GetFlags(annotation) & hiding)


def _bounds_of(annotation: Any) -> Sides | None:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    rectangle = raw.FS_RECTF()
    if not raw.FPDFAnnot_GetRect(annotation, rectangle):
        return None
    x1, x2 = sorted((rectangle.left, rectangle.right))
    y1, y2 = sorted((rectangle.bottom, rectangle.top))
    return x1, y1, x2, y2


def shown_annotations(pdf: PdfDocument, page: PdfPage) -> list[ShownAnnotation]:
    """Return the annotations that a page shows, without links and marks on its content.

    Args:
        pdf: The document, with a form environment.
        page: One of its pages. Those of its annotations that are not drawn are flagged as hidden, which
            `extract_appearances` heeds.
    """
    from pypdfium2 import raw

    found: list[ShownAnnotation] = []
    for annotation in _annotations(page):
        if raw.FPDFAnnot_GetSubtype(annotation) in _unread_kinds():
            continue
        if _is_hidden(annotation):
            raw.FPDFAnnot_SetFlags(annotation, raw.FPDF_ANNOT_FLAG_HIDDEN)
        elif bounds := _bounds_of(annotation):
            found.append(_read(pdf, annotation, bounds))
    return found


def extract_appearances(pdf: PdfDocument, page: PdfPage, index: int) -> PdfPage:
    """Return a new page of the same size whose content is what the annotations of a page draw.

    The page is the one at `index`, from 0. It is closed, and has no annotations afterwards.
    """
    from pypdfium2 import raw

    bounds, turn = page.get_bbox(), page.get_rotation()
    own = raw.FPDFPage_CountObjects(page.raw)
    raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY)
    page.close()
    flat, extracted = pdf[index], pdf.new_page(1, 1)
    extracted.set_mediabox(*bounds)
    extracted.set_rotation(turn)
    for _ in range(raw.FPDFPage_CountObjects(flat.raw) - own):  # appended to its own
        entry = raw.FPDFPage_GetObject(flat.raw, own)
        if not raw.FPDFPage_RemoveObject(flat.raw, entry):
            break
        raw.FPDFPage_InsertObject(extracted.raw, entry)
    flat.close()
    return extracted


def start_forms(pdf: PdfDocument) -> None:
    """Give a document a form environment, with forms or without.

    Its pages then get the appearances of annotations that have none, when they are opened.
    """
    from pypdfium2 import PdfFormEnv, raw

    settings = raw.FPDF_FORMFILLINFO(version=2)
    if handle := raw.FPDFDOC_InitFormFillEnvironment(pdf.raw, settings):
        pdf.formenv = PdfFormEnv(handle, settings)


@cache
def _unread_kinds() -> frozenset[int]:
    """Return the kinds of annotations that have no words of their own on the page."""
    from pypdfium2 import raw

    return frozenset(
        (
            raw.FPDF_ANNOT_LINK,
            raw.FPDF_ANNOT_POPUP,
            raw.FPDF_ANNOT_HIGHLIGHT,
            raw.FPDF_ANNOT_UNDERLINE,
            raw.FPDF_ANNOT_SQUIGGLY,
            raw.FPDF_ANNOT_STRIKEOUT,
        )
    )


def _annotations(page: PdfPage) -> Iterator[Any]:
    """Yield the annotations of a page, each open until the next one."""
    from pypdfium2 import raw

    for index in range(raw.FPDFPage_GetAnnotCount(page.raw)):
        if annotation := raw.FPDFPage_GetAnnot(page.raw, index):
            try:
                yield annotation
            finally:
                raw.FPDFPage_CloseAnnot(annotation)


def _read(
    pdf: PdfDocument,
    annotation: Any,  # noqa: ANN401 - a handle of PDFium
    bounds: Sides,
) -> ShownAnnotation:
    """Return what is read of an annotation."""
    from pypdfium2 import raw

    match raw.FPDFAnnot_GetSubtype(annotation):
        case raw.FPDF_ANNOT_TEXT:
            return ShownAnnotation(AnnotationKind.NOTE, bounds, _string_of(annotation, b"Contents"))
        case raw.FPDF_ANNOT_FILEATTACHMENT:
            return ShownAnnotation(AnnotationKind.FILE, bounds, "")
        case raw.FPDF_ANNOT_WIDGET if pdf.formenv:
            return _read_field(pdf.formenv.raw, annotation, bounds)
        case _:
            return ShownAnnotation(AnnotationKind.TEXT, bounds, "")


def _read_field(
    forms: Any,  # noqa: ANN401 - handles of PDFium
    annotation: Any,  # noqa: ANN401
    bounds: Sides,
) -> ShownAnnotation:
    from pypdfium2 import raw

    is_set = bool(raw.FPDFAnnot_IsChecked(forms, annotation))
    name = _field_string(raw.FPDFAnnot_GetFormFieldName, forms, annotation)
    entry = FieldEntry(name, _field_string(raw.FPDFAnnot_GetFormFieldAlternateName, forms, annotation))
    match raw.FPDFAnnot_GetFormFieldType(forms, annotation):
        case raw.FPDF_FORMFIELD_CHECKBOX:
            kind, text = AnnotationKind.BUTTON, CHECKED if is_set else NOT_CHECKED
        case raw.FPDF_FORMFIELD_RADIOBUTTON:
            kind, text = AnnotationKind.BUTTON, CHOSEN if is_set else NOT_CHOSEN
        case raw.FPDF_FORMFIELD_TEXTFIELD:
            kind, text = (
                AnnotationKind.TEXT,
                _field_string(raw.FPDFAnnot_GetFormFieldValue, forms, annotation),
            )
        case raw.FPDF_FORMFIELD_COMBOBOX:
            kind, entry = AnnotationKind.TEXT, _read_options(forms, annotation, entry)
            text = next((entry.options[number] for number in entry.chosen), "")
            text = text or _field_string(raw.FPDFAnnot_GetFormFieldValue, forms, annotation)
        case raw.FPDF_FORMFIELD_LISTBOX:
            kind, text, entry = AnnotationKind.LIST, "", _read_options(forms, annotation, entry)
        case _:
            return ShownAnnotation(AnnotationKind.TEXT, bounds, "")
    return ShownAnnotation(kind, bounds, text, entry)


def _read_options(forms: Any, annotation: Any, entry: FieldEntry) -> FieldEntry:  # noqa: ANN401 - handles
    from pypdfium2 import raw

    count = min(max(raw.FPDFAnnot_GetOptionCount(forms, annotation), 0), MAX_OPTIONS)

    def label(index: int) -> str:
        return read_utf16(
            lambda buffer, size: raw.FPDFAnnot_GetOptionLabel(forms, annotation, index, buffer, size)
        )

    chosen = (index for index in range(count) if raw.FPDFAnnot_IsOptionSelected(forms, annotation, index))
    return entry._replace(options=tuple(map(label, range(count))), chosen=frozenset(chosen))


def _string_of(annotation: Any, key: bytes) -> str:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    return read_utf16(lambda buffer, size: raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size))


def _field_string(
    read: Callable[[Any, Any, Any, int], int],
    forms: Any,  # noqa: ANN401 - handles of PDFium
    annotation: Any,  # noqa: ANN401
) -> str:
    return read_utf16(lambda buffer, size: read(forms, annotation, buffer, size))


def attached_files(pdf: PdfDocument) -> list[str]:
    """Return the names of the files that are attached to a document, without those of its pages."""
    from pypdfium2 import raw

    count = min(raw.FPDFDoc_GetAttachmentCount(pdf.raw), MAX_FILES)
    return [_file_name(raw.FPDFDoc_GetAttachment(pdf.raw, index)) for index in range(count)]


def read_xfa_packets(pdf: PdfDocument) -> dict[str, bytes]:
    """Return the parts of the XFA form of a document by their names, as far as they are not too large."""
    from pypdfium2 import raw

    packets: dict[str, bytes] = {}
    for index in range(min(max(raw.FPDF_GetXFAPacketCount(pdf.raw), 0), MAX_FILES)):
        name_size = raw.FPDF_GetXFAPacketName(pdf.raw, index, None, 0)
        if not 0 < name_size <= MAX_CHARACTERS:
            continue
        name = ctypes.create_string_buffer(name_size)
        raw.FPDF_GetXFAPacketName(pdf.raw, index, name, name_size)
        size = ctypes.c_ulong()
        raw.FPDF_GetXFAPacketContent(pdf.raw, index, None, 0, size)
        if not 0 < size.value <= MAX_PACKET_BYTES:
            continue
        content = ctypes.create_string_buffer(size.value)
        raw.FPDF_GetXFAPacketContent(pdf.raw, index, content, size.value, size)
        packets[name.value.decode("utf-8", "replace")] = content.raw
    return packets


def files_on_page(page: PdfPage) -> list[str]:
    """Return the names of the files that are attached to a place of a page."""
    from pypdfium2 import raw

    return [
        _file_name(raw.FPDFAnnot_GetFileAttachment(annotation))
        for annotation in _annotations(page)
        if raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_FILEATTACHMENT
    ][:MAX_FILES]


def _file_name(attachment: Any) -> str:  # noqa: ANN401 - a handle of PDFium
    from pypdfium2 import raw

    if not attachment:
        return ""
    return read_utf16(lambda buffer, size: raw.FPDFAttachment_GetName(attachment, buffer, size))


def read_utf16(read: Callable[[Any, int], int]) -> str:
    """Return a string of PDFium, or the start of one that is too long.

    Args:
        read: Writes it with a zero at its end to a buffer of a size in bytes, and returns its own size in
            bytes. It writes nothing to a buffer that is too small.
    """
    from pypdfium2 import raw

    size = read(None, 0)
    if size <= 2 or size > 64 * MAX_CHARACTERS:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")[:MAX_CHARACTERS]
