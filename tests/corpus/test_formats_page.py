"""The page on formats names every file that is read, and its table is what is read of such a file."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from extras import require
from PIL import Image

from corpus.annotated_pdfs import ATTACHED_PLAN, annotated_page
from corpus.format_samples import (
    FILM_KINDS,
    OFFICE_SAMPLES,
    PHONE_SUFFIXES,
    SAMPLES,
    Sample,
    mail,
    phone_picture,
    scan,
    web_page,
)
from corpus.office_files import docx
from corpus.test_xfa import entry, packets_of, shell
from corpus.texts.test_epub import book_bytes, encryption
from corpus.video_files import Film, film_bytes
from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.errors import CorpusError
from vrag.index.manifest import OpenDocument
from vrag.types import DocumentStatus, ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.types import Item, OcrMode

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
HAS_OFFICE = bool(shutil.which("soffice") or shutil.which("libreoffice"))
needs_office = pytest.mark.skipif(not HAS_OFFICE, reason="LibreOffice is not installed")


def table_rows() -> list[list[str]]:
    """The cells of the rows: suffixes, what a file becomes, through what, what is told."""
    text = PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| suffix .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in table.splitlines()]


def row_of(suffix: str) -> list[str]:
    (row,) = (row for row in table_rows() if suffix[1:] in row[0].split(", "))
    return row


def read_suffixes() -> list[str]:
    return [f".{suffix.strip()}" for row in table_rows() for suffix in row[0].split(",")]


def test_every_suffix_is_in_one_row_and_has_a_converter() -> None:
    assert sorted(set(read_suffixes())) == sorted(CONVERTERS)
    assert len(read_suffixes()) == len(CONVERTERS)


def test_what_is_said_not_to_be_read_is_not() -> None:
    (said,) = re.findall(r"\*\*Not read\*\*: (.*?)\.", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert not {f".{word}" for word in re.findall(r"\b[a-z]{3,5}\b", said)} & set(CONVERTERS)


@dataclass(frozen=True)
class Reading:
    """What is read of a file, and what the index would say of it."""

    items: list[Item]
    status: DocumentStatus
    reason: str

    @property
    def text(self) -> str:
        return " ".join(" ".join(item.text for item in self.items).split())


def read(path: Path, data: bytes, ocr: OcrMode = "never") -> Reading:
    path.write_bytes(data)
    context = ConversionContext(path.parent / "items", CorpusOptions(ocr=ocr, clip_seconds=3))
    document = OpenDocument(read_source(path))
    items: list[Item] = []
    with CONVERTERS[path.suffix](read_source(path), context) as file:
        document.count(file.count, 0)
        for ordinal in range(1, file.count + 1):
            try:
                items.append(file.item(ordinal))
                document.add_item(items[-1])
            except CorpusError as error:
                document.fail(ordinal, str(error))
    return Reading(items, *document.outcome())


def kinds_in_row(suffix: str) -> set[ItemKind]:
    """The kinds of items that a row names."""
    names = {"a page": ItemKind.PAGE, "passages": ItemKind.PASSAGE, "clips": ItemKind.CLIP}
    return {kind for name, kind in names.items() if re.search(rf"\b{name}\b", row_of(suffix)[1])}


def check_sample(tmp_path: Path, suffix: str, sample: Sample, kinds: set[ItemKind]) -> None:
    reading = read(tmp_path / f"a{suffix}", sample.data())
    assert {item.kind for item in reading.items} == kinds
    assert sample.seen in reading.text
    if sample.unseen:
        assert sample.unseen not in reading.text
        hidden = " ".join(item.facts.hidden_text for item in reading.items)
        assert sample.unseen in hidden or ItemKind.PASSAGE in kinds


@pytest.mark.parametrize("suffix", SAMPLES)
def test_a_file_becomes_what_its_row_says_without_what_nobody_sees(tmp_path: Path, suffix: str) -> None:
    kinds = kinds_in_row(suffix)
    if suffix == ".pdf":
        kinds.remove(ItemKind.PASSAGE)  # of forms without pages, below
    check_sample(tmp_path, suffix, SAMPLES[suffix], kinds)


def test_a_form_without_pages_becomes_passages_after_its_page(tmp_path: Path) -> None:
    data = shell(packets_of(entry("lamp", "Lamp"), "<lamp>lantern</lamp>"))
    check_sample(tmp_path, ".pdf", Sample(lambda: data, "lantern"), kinds_in_row(".pdf"))


@pytest.mark.slow
@needs_office
@pytest.mark.parametrize("suffix", OFFICE_SAMPLES)
def test_an_office_file_becomes_pages_and_passages(tmp_path: Path, suffix: str) -> None:
    kinds = kinds_in_row(suffix)
    if suffix == ".rtf":
        kinds.remove(ItemKind.PASSAGE)  # it has no comments
    check_sample(tmp_path, suffix, OFFICE_SAMPLES[suffix], kinds)


@pytest.mark.parametrize("suffix", PHONE_SUFFIXES)
def test_a_picture_of_a_phone_becomes_a_page(tmp_path: Path, suffix: str) -> None:
    require("heic", "pillow_heif")
    picture = Sample(lambda: phone_picture(Image.new("RGB", (64, 48), "red")), "")
    check_sample(tmp_path, suffix, picture, kinds_in_row(suffix))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FILM_KINDS)
def test_a_video_becomes_clips(tmp_path: Path, suffix: str) -> None:
    require("video", "av")
    film = Film(kind=FILM_KINDS[suffix], codec="mpeg4" if suffix == ".avi" else "libx264")
    reading = read(tmp_path / f"a{suffix}", film_bytes(film))
    assert {item.kind for item in reading.items} == kinds_in_row(suffix)


def test_a_file_of_every_suffix_is_read_here() -> None:
    """Of office files, one for each kind of document: test_office.py reads the same pages from the others."""
    others = "docm", "doc", "pptx", "pptm", "ppt", "xlsx", "xlsm", "xls", "odt"
    read_here = {*SAMPLES, *PHONE_SUFFIXES, *OFFICE_SAMPLES, *FILM_KINDS}
    assert set(CONVERTERS) - read_here == {f".{name}" for name in others}


ENCRYPTED = {"META-INF/encryption.xml": encryption("http://x/aes256-cbc", "OPS/text/chapter%201.xhtml")}
WITHOUT_PICTURE = b'<p>Lamps</p><img src="a.png" alt="The bay">'
LOSSES: list[tuple[str, str, Callable[[], bytes], str]] = [
    (".pdf", "attached files", lambda: annotated_page(catalog=ATTACHED_PLAN), "plan.dwg"),
    (".pdf", "XFA form that is damaged", lambda: shell("<a>"), "Print it to PDF"),
    (".pdf", "pictures of text without OCR", partial(scan, "PDF"), "--ocr auto"),
    (".png", "text without OCR", partial(scan, "PNG"), "--ocr auto"),
    (".html", "pictures that are missing", lambda: WITHOUT_PICTURE, "a.png: It is missing"),
    (".html", "text without OCR", web_page, "--ocr auto"),
    (".eml", "other attachments", partial(mail, "application", "pdf", "chart.pdf"), "chart.pdf"),
    (".eml", "encrypted messages", partial(mail, "application", "pkcs7-mime", "a.p7m"), "as plain mail"),
    (".mbox", "text of pictures without OCR", SAMPLES[".mbox"].data, "--ocr auto"),
    (".epub", "chapters that are encrypted", partial(book_bytes, ENCRYPTED), "encrypted chapter (DRM)"),
    (".epub", "missing", partial(book_bytes, {"OPS/last.xhtml": None}), "a chapter that is not read"),
]


@pytest.mark.parametrize(("suffix", "loss", "data", "told"), LOSSES)
def test_what_is_seen_and_not_read_is_told(
    tmp_path: Path, suffix: str, loss: str, data: Callable[[], bytes], told: str
) -> None:
    assert loss in row_of(suffix)[3]
    reading = read(tmp_path / f"a{suffix}", data())
    assert reading.status is DocumentStatus.PARTIAL
    assert told in reading.reason


@pytest.mark.slow
@needs_office
def test_an_embedded_document_of_another_kind_is_told(tmp_path: Path) -> None:
    assert "embedded documents that are neither web pages nor text" in row_of(".docx")[3]
    data = docx('<w:p/><w:altChunk r:id="r2"/>', chunk="MIME-Version: 1.0", chunk_name="chunk.mht")
    assert "(.mht)" in read(tmp_path / "a.docx", data).reason


@pytest.mark.slow
def test_a_video_that_is_cut_short_is_told(tmp_path: Path) -> None:
    require("video", "av")
    assert "cut short" in row_of(".mkv")[3]
    data = film_bytes(Film(kind="matroska", codec="mpeg4"))
    reading = read(tmp_path / "a.mkv", data[: len(data) * 2 // 3])
    assert reading.status is DocumentStatus.PARTIAL
    assert reading.items


@pytest.mark.parametrize("suffix", [suffix for suffix in SAMPLES if row_of(suffix)[3] == "nothing"])
def test_of_files_that_lose_nothing_all_is_read(tmp_path: Path, suffix: str) -> None:
    reading = read(tmp_path / f"a{suffix}", SAMPLES[suffix].data())
    assert reading.status is DocumentStatus.READY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "data"),
    [(".png", partial(scan, "PNG")), (".pdf", partial(scan, "PDF")), (".html", web_page), (".eml", mail)],
)
def test_ocr_reads_pictures_of_text(tmp_path: Path, suffix: str, data: Callable[[], bytes]) -> None:
    reading = read(tmp_path / f"a{suffix}", data(), "auto")
    assert reading.status is DocumentStatus.READY
    assert "Lantern on the pier" in reading.text
