"""PDF files → page items: an image of each page, its text and the boxes of its words."""

from __future__ import annotations

import gc
import math
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile
from vrag.corpus.formats.image import store_jpeg, to_image
from vrag.corpus.formats.pdf_text.field_text import read_with_annotations
from vrag.corpus.formats.pdf_text.figure_shapes import find_wrong_figures
from vrag.corpus.formats.pdf_text.form_fields import locate_fields
from vrag.corpus.formats.pdf_text.marked_headings import locate_headings
from vrag.corpus.formats.pdf_text.pdf_facts import UNKNOWN_LETTERS, printed_number, unread_files
from vrag.corpus.formats.pdf_text.pdf_layer import read_layer
from vrag.corpus.formats.pdf_text.pdf_visibility import has_doubtful_text, remove_undrawn_text
from vrag.corpus.formats.pdf_text.struck_words import find_struck
from vrag.corpus.formats.pdfium import IndependentPages
from vrag.corpus.formats.text import passage_item
from vrag.corpus.formats.xfa import read_form_text
from vrag.corpus.pages.page_pass import read_page
from vrag.corpus.pages.trust import PageFonts
from vrag.corpus.sniff import describe
from vrag.errors import CorpusError
from vrag.geometry import MAX_ASPECT, Size
from vrag.types import Item, ItemFacts, ItemKind, item_id

if TYPE_CHECKING:
    from collections.abc import Generator

    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile
    from vrag.corpus.formats.pdfium import PdfiumPage
    from vrag.corpus.formats.xfa import FormText
    from vrag.corpus.pages.placed_text import PlacedText
    from vrag.corpus.sniff import Openable

JPEG_QUALITY = 88
MIN_SIDE = 8
"""Pixels of the shorter side below which a page shows nothing."""
SIGNATURE_BYTES = 1024
"""Length of the start in which readers look for the signature."""


@contextmanager
def _pause_garbage_collection() -> Generator[None]:
    """Keep Python from looking for cycles among the words of a page, again and again while they are made.

    They are in none. A page of 40,000 words takes a quarter less time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
        self._is_printed = printed is not None
        file = printed or source
        with file.open("rb") as opened:
            if b"%PDF-" not in opened.read(SIGNATURE_BYTES):
                raise CorpusError(f"This is not a PDF file: {describe(file)}.")
        self._pages = IndependentPages(file)
        self._page_count = len(self._pages)
        if not self._page_count:
            self._pages.close()
            raise CorpusError("The PDF file has no pages, or its list of pages is damaged.")
        self._form = self._read_form()
        self.count = self._page_count + len(self._form.passages)

    @_pause_garbage_collection()
    def item(self, ordinal: int) -> Item:
        """Make the item of one page or, after the last of these, of a passage of a form that has no page."""
        if ordinal > self._page_count:
            return passage_item(self._form.passages[ordinal - self._page_count - 1], self._source, ordinal)
        options = self._context.options
        with self._pages.page(ordinal) as page:
            layer, facts = _read_words(page), self._facts(ordinal, page)
            if has_doubtful_text(page, layer):
                with_ocr = options.ocr != "never"
                facts = replace(facts, hidden_text=remove_undrawn_text(page, with_ocr=with_ocr))
                layer = _read_words(page)
            if page.has_unknown_letters:
                facts = replace(facts, unread=(*facts.unread, UNKNOWN_LETTERS))
            pixels = page.render_pixels(_scale(page.size, options))
            struck = find_struck(page, layer)
            reading = read_page(
                pixels,
                layer,
                facts,
                options.ocr,
                is_drawn=page.can_draw,
                struck=struck,
                fonts=PageFonts(page.find_fonts, partial(find_wrong_figures, page)),
                is_certain=self._is_printed,
            )
            image = to_image(pixels)
            fields = locate_fields(reading.text, reading.words, page.frame, page.shown_annotations)
        headings = locate_headings(reading.text, self._titles.get(ordinal, ()))
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=reading.text,
            words=reading.words,
            text_source=reading.text_source,
            facts=replace(reading.facts, headings=headings, fields=fields),
            size=Size(*image.size),
            image=store_jpeg(image, JPEG_QUALITY, self._context, self._source, ordinal),
        )

    @cached_property
    def _titles(self) -> dict[int, list[tuple[str, int]]]:
        """Titles in the outline of the file with their levels, by the number of their page."""
        titles: dict[int, list[tuple[str, int]]] = {}
        for entry in self._pages.read_outline():
            titles.setdefault(entry.page, []).append((entry.title, entry.level))
        return titles

    def _read_form(self) -> FormText:
        """Read a form of which the pages say only to wait; one with fields on its pages is all on these."""
        packets = self._pages.read_xfa()
        if packets:
            with self._pages.page(1) as page:
                packets = {} if page.has_fields else packets
        return read_form_text(packets, self._context.options)

    def _facts(self, ordinal: int, page: PdfiumPage) -> ItemFacts:
        unread = unread_files(page.attached_files(), "The page")
        if ordinal == 1:
            unread += unread_files(self._pages.attached_files(), "The document")
            unread += self._form.unread
        return ItemFacts(label=printed_number(self._pages.label(ordinal), ordinal), unread=unread)

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


def _read_words(page: PdfiumPage) -> PlacedText:
    return read_with_annotations(page, read_layer)
