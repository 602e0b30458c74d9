from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from corpus.pdf_files import PdfPage, asking_for_password, pdf_bytes, pdf_without_font, text_at
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.pdf_text.pdf_facts import UNKNOWN_LETTERS
from vrag.errors import CorpusError, EncryptedFileError
from vrag.geometry import Box
from vrag.types import TextSource

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

OPTIONS = CorpusOptions(ocr="never")
LONG = "Mostly harmless planet Earth"


def items_of(tmp_path: Path, data: bytes, options: CorpusOptions = OPTIONS) -> list[Item]:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    with PdfFile(read_source(path), ConversionContext(tmp_path / "items", options)) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def darkness(tmp_path: Path, item: Item) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    assert item.image
    with Image.open(tmp_path / "items" / item.image) as picture:
        return np.asarray(picture.convert("L")) < 128


@pytest.mark.parametrize("turn", [0, 90, 180, 270, -90, 450])
@pytest.mark.parametrize(
    "boxes",
    [
        "/MediaBox [0 0 612 792]",
        "/MediaBox [-100 -50 500 700]",
        "/MediaBox [0 0 612 792] /CropBox [40 200 500 760]",
        "/MediaBox [20 30 612 792] /CropBox [0 0 550 900]",
    ],
)
def test_word_boxes_hold_the_dark_pixels_of_the_picture(tmp_path: Path, boxes: str, turn: int) -> None:
    content = text_at(72, 600, "Hello big") + text_at(200, 300, "world")
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(content, f"{boxes} /Rotate {turn}")))
    dark = darkness(tmp_path, item)
    assert item.size
    covered = np.zeros_like(dark)
    for word in item.words:
        x1, y1, x2, y2 = word.box.as_tuple()
        left, right = x1 * item.size.width, x2 * item.size.width
        top, bottom = y1 * item.size.height, y2 * item.size.height
        inside = (slice(max(0, int(top) - 1), int(bottom) + 2), slice(max(0, int(left) - 1), int(right) + 2))
        assert dark[inside].mean() > 0.1, "a box without ink"
        covered[inside] = True
    assert [item.text[word.start : word.end] for word in item.words] == ["Hello", "big", "world"]
    assert dark.sum() > 500
    assert not (dark & ~covered).any(), "ink outside of the boxes"


@pytest.mark.slow
def test_a_page_gives_the_same_whatever_was_read_before_it(tmp_path: Path) -> None:
    """With a font that the file names and does not contain, boxes used to depend on the pages before.

    In a process of its own: PDFium is started anew only where nothing is open.
    """
    pages = [PdfPage(text_at(72, 700, line) + text_at(72, 600, "Same words")) for line in ("Wide WWW", "iii")]
    path = tmp_path / "file.pdf"
    path.write_bytes(pdf_bytes(*pages, PdfPage()).replace(b"/Helvetica ", b"/Verdana   "))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:

        def read(*ordinals: int) -> dict[int, tuple[Item, bytes]]:
            return process.submit(read_pages, path, ordinals).result()

        alone = read(1) | read(2) | read(3)
        assert read(1, 2, 3) == read(3, 2, 1) == read(2, 3, 1) == read(2, 1, 3, 1, 2) == alone


def read_pages(path: Path, ordinals: tuple[int, ...]) -> dict[int, tuple[Item, bytes]]:
    """Read pages of a file in this order, and their pictures."""
    items: dict[int, tuple[Item, bytes]] = {}
    with PdfFile(read_source(path), ConversionContext(path.parent / "items", OPTIONS)) as file:
        for ordinal in ordinals:
            item = file.item(ordinal)
            items[ordinal] = item, (path.parent / "items" / str(item.image)).read_bytes()
    return items


def test_text_outside_of_the_crop_box_is_left_out(tmp_path: Path) -> None:
    content = text_at(72, 700, "hidden") + text_at(72, 100, "seen")
    (item,) = items_of(
        tmp_path, pdf_bytes(PdfPage(content, "/MediaBox [0 0 612 792] /CropBox [0 0 612 400]"))
    )
    assert item.text == "seen"


def test_lines_are_separated_and_words_match_the_text(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(text_at(72, 700, "one two") + text_at(72, 600, "three"))))
    assert item.text == "one two\nthree"
    assert item.text_source is TextSource.LAYER


@pytest.mark.parametrize("size", [6, 9, 24])
@pytest.mark.parametrize("matrix", ["1 0 0 1 72 600", "-1 0 0 -1 400 600"])
def test_letters_without_a_glyph_are_words_with_the_height_of_their_line(
    tmp_path: Path, size: int, matrix: str
) -> None:
    shown = "港湾使用料".encode("utf-16-be").hex()
    content = f"BT /F2 {size} Tf {matrix} Tm <{shown}> Tj ET"
    (item,) = items_of(tmp_path, pdf_without_font(content, "UniJIS-UTF16-H"))
    assert (item.text, item.facts.unread) == ("港湾使用料", ())
    left, top, right, bottom = Box.around([word.box for word in item.words]).as_tuple()
    assert (bottom - top) * 792 == pytest.approx(size, rel=0.1)
    assert (right - left) * 612 == pytest.approx(5 * size, rel=0.1)


@pytest.mark.parametrize("glyphs", ["025b025c0266", "026d030502690003003a026e02590026"])
def test_letters_that_nobody_knows_are_told_and_no_text(tmp_path: Path, glyphs: str) -> None:
    content = text_at(72, 700, LONG) + f"BT /F2 9 Tf 72 600 Td <{glyphs}> Tj 0 -20 Td <0026003f> Tj ET"
    (item,) = items_of(tmp_path, pdf_without_font(content, "Identity-H", "Identity"))
    assert item.text == LONG
    assert item.facts.unread[0] == UNKNOWN_LETTERS


def test_thin_words_keep_their_boxes(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path, pdf_bytes(PdfPage(text_at(72, 700, "a l \\227 \\227\\227 ___ | ."))))
    assert item.text == "a l — —— ___ | ."
    heights = {item.text[word.start : word.end]: word.box.y2 - word.box.y1 for word in item.words}
    assert all(heights[dash] * 792 < 4 for dash in ("—", "——", "___"))


def test_a_huge_page_is_drawn_smaller(tmp_path: Path) -> None:
    page = PdfPage(text_at(72, 700, LONG, 400), "/MediaBox [0 0 14400 14400]")
    (item,) = items_of(tmp_path, pdf_bytes(page), CorpusOptions(ocr="never", max_pixels=1_000_000))
    assert item.size
    assert 900_000 < item.size.area <= 1_000_000


def test_a_page_of_an_impossible_shape_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.pdf"
    path.write_bytes(pdf_bytes(PdfPage(entries="/MediaBox [0 0 14000 10]"), PdfPage(text_at(72, 700, LONG))))
    with PdfFile(read_source(path), ConversionContext(tmp_path / "items", OPTIONS)) as file:
        assert file.count == 2
        with pytest.raises(CorpusError, match="200 times"):
            file.item(1)
        assert file.item(2).text == LONG


def test_the_same_bytes_give_the_same_items_and_pictures(tmp_path: Path) -> None:
    data = pdf_bytes(PdfPage(text_at(72, 700, LONG)))
    (first,) = items_of(tmp_path, data)
    assert first.image
    picture = (tmp_path / "items" / first.image).read_bytes()
    (second,) = items_of(tmp_path, data)
    assert first == second
    assert picture == (tmp_path / "items" / first.image).read_bytes()


def test_a_password_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(EncryptedFileError, match="password"):
        items_of(tmp_path, asking_for_password())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"plain words", "seems to be text"),
        (b"\x89PNG\r\n\x1a\n....", "PNG picture"),
        (b"%PDF-1.7\nnothing", "damaged"),
        (b"PK\x03\x04abc", "Office"),
    ],
)
def test_what_is_no_pdf_is_refused_with_what_it_seems_to_be(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        items_of(tmp_path, data)
