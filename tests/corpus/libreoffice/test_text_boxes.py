"""Texts of boxes that are not printed whole are passages."""

from __future__ import annotations

import io
from xml.etree.ElementTree import fromstring

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.formats.libreoffice import text_boxes
from vrag.corpus.formats.libreoffice.text_boxes import find_cut_boxes, read_boxes, read_printed_letters
from vrag.corpus.formats.libreoffice.xml_parts import NAMES

SPACES = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMES.items())


def printed(*lines: str) -> str | None:
    content = "".join(text_at(72, 700 - 30 * number, line) for number, line in enumerate(lines))
    return read_printed_letters(io.BytesIO(pdf_bytes(PdfPage(content))))


def test_texts_of_boxes_and_shapes_are_read_once() -> None:
    box = "<draw:text-box><text:p>Harbour</text:p><text:p>office</text:p></draw:text-box>"
    root = fromstring(
        f"<a {SPACES}><text:p>Body{box}{box}</text:p>"
        "<draw:custom-shape><text:p>Pier</text:p></draw:custom-shape><draw:text-box/></a>"
    )
    assert read_boxes(root) == ("Harbour\noffice", "Pier")


def test_a_box_that_is_printed_whole_is_no_passage_however_its_lines_are_broken() -> None:
    letters = printed("Ask the har-", "bour office", "before noon.")
    assert find_cut_boxes(["Ask the harbour office before noon."], letters) == ()


def test_a_box_that_is_cut_off_is_a_passage_with_all_of_its_text() -> None:
    text = "Ask the harbour office.\nFees are 12 euro."
    (section,) = find_cut_boxes([text, "Ask"], printed("Ask the harbour office."))
    assert (section.headings, section.text) == (("Text box",), text)


def test_a_document_of_too_many_pages_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_boxes, "MAX_PAGES", 0)
    assert find_cut_boxes(["Gone"], printed("Ask")) == ()
