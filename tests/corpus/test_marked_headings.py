"""Headings of a page are the lines that the outline of its file names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.pdf_text.marked_headings import MAX_TITLES, locate_headings
from vrag.corpus.formats.pdfium import OutlineEntry, Pdf
from vrag.types import MarkedHeading


def found(text: str, *titles: tuple[str, int]) -> list[tuple[str, int]]:
    return [(text[each.start : each.end], each.level) for each in locate_headings(text, titles)]


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("Intro\nFees of 2026\nThey rise.", "Fees of 2026", "Fees of 2026"),
        ("1.2 Fees of\nthe piers \nThey rise.", "Fees of the Piers", "1.2 Fees of\nthe piers"),
        ("Chapter 3. Fees\nThey rise.", "Fees", "Chapter 3. Fees"),
        ("Überblick:\nMehr", "ÜBERBLICK", "Überblick:"),
        ("料金表\n続き", "料金表", "料金表"),
    ],
)
def test_a_title_is_found_over_lines_behind_a_number_and_in_any_case(
    text: str, title: str, expected: str
) -> None:
    assert found(text, (title, 2)) == [(expected, 2)]


@pytest.mark.parametrize(
    "text",
    ["Fees ...... 12\nPiers", "The Fees\nPiers", "All of it: Fees", "", "Fees rise.", "A Fees", "IV Fees"],
)
def test_a_title_within_a_line_is_no_heading(text: str) -> None:
    assert found(text, ("Fees", 1), ("...", 1)) == []


def test_a_title_that_stands_twice_is_found_twice_in_order() -> None:
    text = "Fees\nlow\nFees\nhigh"
    assert [each.start for each in locate_headings(text, [("Fees", 1), ("Fees", 2), ("Fees", 2)])] == [0, 9]


def test_titles_out_of_order_are_found() -> None:
    assert found("Piers\nFees", ("Fees", 2), ("Piers", 1)) == [("Piers", 1), ("Fees", 2)]


def test_no_more_titles_are_sought_than_a_page_has() -> None:
    text = "\n".join(f"title {number}" for number in range(MAX_TITLES + 9))
    assert len(found(text, *((line, 1) for line in text.split("\n")))) == MAX_TITLES


def test_a_title_of_one_letter_costs_little_in_a_long_line() -> None:
    begun = time.process_time()
    assert found("a" * 200_000, *[("a", 1)] * MAX_TITLES) == []
    assert time.process_time() - begun < 5


def outlined() -> bytes:
    """A file of two pages with three entries in its outline, one of which leads nowhere."""
    pages = [PdfPage(text_at(72, 700, "Fees") + text_at(72, 600, "low")), PdfPage(text_at(72, 700, "Piers"))]
    extra = (
        "<< /First 9 0 R /Last 11 0 R /Count 3 >>",
        "<< /Title (Fees) /Parent 8 0 R /Dest [4 0 R /Fit] /Next 11 0 R /First 10 0 R /Last 10 0 R >>",
        "<< /Title (Piers) /Parent 9 0 R /Dest [6 0 R /Fit] >>",
        "<< /Title (Gone) /Parent 8 0 R /Prev 9 0 R >>",
    )
    data = pdf_bytes(*pages, extra=extra)
    return data.replace(b"/Type /Catalog", b"/Type /Catalog /Outlines 8 0 R", 1)


def test_pages_know_their_headings(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(outlined())
    context = ConversionContext(tmp_path / "items", CorpusOptions(ocr="never"))
    with PdfFile(read_source(path), context) as file:
        first, second = file.item(1), file.item(2)
    assert first.facts.headings == (MarkedHeading(0, 4, 1),)
    assert second.facts.headings == (MarkedHeading(0, 5, 2),)


def test_the_outline_of_a_file_has_pages_and_levels(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(outlined())
    pdf = Pdf(path)
    assert pdf.read_outline() == [OutlineEntry("Fees", 1, 1), OutlineEntry("Piers", 2, 2)]
    pdf.close()
