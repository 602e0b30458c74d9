from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corpus.annotated_pdfs import LABEL, annotated_page, annotation
from corpus.pdf_files import PdfPage, pdf_bytes, text_at, with_owner_password
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.pdf_text.pdf_facts import INVOICE_DATA, printed_number, unread_files

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

STREAM = "<< /Type /EmbeddedFile /Length 3 >>\nstream\nabc\nendstream"


def read_items(tmp_path: Path, data: bytes) -> list[Item]:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    with PdfFile(
        read_source(path), ConversionContext(tmp_path / "items", CorpusOptions(ocr="never"))
    ) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def with_catalog(data: bytes, entries: str) -> bytes:
    """Adds entries to the catalogue of a file of `pdf_bytes`; PDFium repairs the table of offsets."""
    return data.replace(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Catalog /Pages 2 0 R %b >>" % entries.encode()
    )


def book(labels: str, pages: int = 4) -> bytes:
    data = pdf_bytes(*(PdfPage(text_at(72, 700, f"Words of {number}")) for number in range(pages)))
    return with_catalog(data, f"/PageLabels << /Nums [{labels}] >>")


def attached(*names: str) -> bytes:
    """A PDF file with attached files."""
    files = " ".join(
        f"({name}) << /Type /Filespec /F ({name}) /UF ({name}) /EF << /F 6 0 R >> >>" for name in names
    )
    return annotated_page(catalog=f"/Names << /EmbeddedFiles << /Names [{files}] >> >>", extra=(STREAM,))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("0 << /S /r >> 2 << /S /D >>", ["i", "ii", "1", "2"]),
        ("0 << /S /D >>", ["", "", "", ""]),
        ("0 << /S /D /P (A-) >> 3 << /S /D /St 4 >>", ["A-1", "A-2", "A-3", ""]),
        ("0 << /S /D /St 11 >>", ["11", "12", "13", "14"]),
        ("", ["", "", "", ""]),
    ],
)
def test_printed_numbers_are_stored_where_they_are_not_the_position(
    tmp_path: Path, labels: str, expected: list[str]
) -> None:
    assert [item.facts.label for item in read_items(tmp_path, book(labels))] == expected


@pytest.mark.parametrize(
    ("label", "ordinal", "expected"),
    [
        ("iv", 4, "iv"),
        ("4", 4, ""),
        ("004", 4, ""),
        ("Page 4", 4, ""),
        ("Seite 5", 4, "Seite 5"),
        ("A-4", 4, "A-4"),
        ("\x1b[31m\n iv ", 4, "[31m iv"),
        ("x" * 500, 1, "x" * 40),
    ],
)
def test_labels_are_one_short_line(label: str, ordinal: int, expected: str) -> None:
    assert printed_number(label, ordinal) == expected


def test_attached_files_are_told_of_on_the_first_page(tmp_path: Path) -> None:
    (item,) = read_items(tmp_path, attached("a.xlsx", "b.pdf"))
    (sentence,) = item.facts.unread
    assert sentence.startswith("The document has 2 attached files (a.xlsx, b.pdf), which are not read.")
    assert item.text == LABEL


@pytest.mark.parametrize("name", [*sorted(INVOICE_DATA), "ZUGFeRD-invoice.xml"])
def test_the_data_of_an_invoice_leaves_nothing_unread(tmp_path: Path, name: str) -> None:
    (item,) = read_items(tmp_path, attached(name))
    assert item.facts.unread == ()


def test_a_file_attached_to_a_place_is_told_of_on_its_page(tmp_path: Path) -> None:
    file = "/FS << /Type /Filespec /F (plan.dwg) /UF (plan.dwg) /EF << /F 7 0 R >> >>"
    (item,) = read_items(tmp_path, annotated_page(annotation("FileAttachment", file), extra=(STREAM,)))
    (sentence,) = item.facts.unread
    assert sentence.startswith("The page has an attached file (plan.dwg), which is not read.")


def test_many_attached_files_are_counted() -> None:
    (sentence,) = unread_files([f"{number}.pdf" for number in range(12)], "The document")
    assert "12 attached files" in sentence
    assert "4.pdf, and 7 more" in sentence
    assert unread_files([], "The document") == ()


def test_a_file_with_an_owners_password_only_is_read(tmp_path: Path) -> None:
    (item,) = read_items(tmp_path, with_owner_password("Barbecues until nine"))
    assert item.text == "Barbecues until nine"
    assert item.facts.unread == ()
