from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pypdfium2 import PdfDocument

from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.ocr import MODELS, has_lines, read_lines, read_strip, rows
from vrag.corpus.pages.page_pass import read_picture
from vrag.types import Word


@cache
def letter() -> tuple[Image.Image, str, tuple[Word, ...]]:
    """A page drawn as a picture, and what is read from it."""
    lines = ["Dear Madam,", "the total amount due is 1,284.50 EUR", "Kind regards"]
    content = "".join(text_at(60, 330 - 60 * n, line, 20) for n, line in enumerate(lines))
    document = PdfDocument(pdf_bytes(PdfPage(content, "/MediaBox [0 0 460 400]")))
    picture = Image.fromarray(document[0].render(scale=2, rev_byteorder=True).to_numpy())  # pyright: ignore
    return picture, *read_picture(picture)[:2]


def test_print_is_read_line_by_line() -> None:
    assert letter()[1].splitlines() == ["Dear Madam,", "the total amount due is 1,284.50 EUR", "Kind regards"]


def test_words_are_those_of_the_text_and_their_boxes_hold_the_ink() -> None:
    picture, text, words = letter()
    assert [text[word.start : word.end] for word in words] == text.split()
    dark = np.asarray(picture.convert("L")) < 128
    covered = np.zeros_like(dark)
    for word in words:
        x1, y1, x2, y2 = word.box.as_tuple()
        assert 0 <= x1 < x2 <= 1
        assert 0 <= y1 < y2 <= 1
        inside = (
            slice(int(y1 * picture.height), int(y2 * picture.height) + 1),
            slice(int(x1 * picture.width), int(x2 * picture.width) + 1),
        )
        assert dark[inside].any()
        covered[inside] = True
    assert (dark & covered).sum() > 0.95 * dark.sum()


@pytest.mark.parametrize("colour", ["white", "black", (250, 247, 240)])
def test_a_blank_picture_has_no_text(colour: str | tuple[int, int, int]) -> None:
    assert read_picture(Image.new("RGB", (600, 800), colour))[:2] == ("", ())


@pytest.mark.parametrize("size", [(9, 4000), (4000, 9), (8, 1200)])
def test_a_very_narrow_picture_is_read_too(size: tuple[int, int]) -> None:
    pixels = np.full((*size, 3), 255, np.uint8)
    pixels[2:6, 2:6] = 0
    assert read_lines(pixels) == []
    assert not has_lines(pixels)
    assert isinstance(read_strip(pixels)[0], str)


def test_texture_is_no_text() -> None:
    assert read_picture(Image.effect_noise((300, 200), 80))[1] == ()


def test_the_models_are_named_so_that_nothing_is_downloaded() -> None:
    assert set(MODELS) == {"Det.model_path", "Rec.model_path"}


BOXES = st.lists(st.tuples(*[st.integers(0, 50)] * 2, *[st.integers(51, 99)] * 2), max_size=20)


@given(BOXES)
def test_rows_hold_each_box_once(boxes: list[tuple[int, int, int, int]]) -> None:
    assert sorted(index for row in rows(boxes) for index in row) == list(range(len(boxes)))
