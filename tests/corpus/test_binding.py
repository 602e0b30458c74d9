# pyright: reportUnknownMemberType=false
"""Pictures of pages become a PDF that draws them as they were."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pypdfium2 as pdfium
import pytest
from PIL import Image

from vrag.corpus.formats.image_binding import bind_pages
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Sequence


def picture(colour: object, size: tuple[int, int] = (80, 60), kind: str = "JPEG", mode: str = "RGB") -> bytes:
    saved = io.BytesIO()
    Image.new(mode, size, colour).save(saved, kind)  # pyright: ignore[reportArgumentType]
    return saved.getvalue()


def drawn(pages: Sequence[bytes | None]) -> list[Image.Image]:
    """The pages as the usual resolution draws them."""
    pdf = pdfium.PdfDocument(bind_pages(pages))
    try:
        return [page.render(scale=2).to_pil() for page in pdf]
    finally:
        pdf.close()


def is_near(image: Image.Image, at: tuple[int, int], colour: tuple[int, int, int]) -> bool:
    found = image.convert("RGB").getpixel(at)
    assert isinstance(found, tuple)
    return all(abs(one - other) <= 4 for one, other in zip(found, colour, strict=True))


def test_each_picture_fills_its_page_in_the_pixels_it_came_with() -> None:
    first, second = drawn([picture("red"), picture("blue", (30, 90), "PNG")])
    assert (first.size, second.size) == ((80, 60), (30, 90))
    for at in ((1, 1), (78, 58)):
        assert is_near(first, at, (255, 0, 0))
    assert is_near(second, (28, 88), (0, 0, 255))


def test_a_missing_picture_is_a_blank_page_and_the_next_keeps_its_number() -> None:
    pages = drawn([picture("red"), None, picture("blue")])
    assert is_near(pages[1], (10, 10), (255, 255, 255))
    assert is_near(pages[2], (10, 10), (0, 0, 255))


def test_a_jpeg_is_kept_as_it_is() -> None:
    data = picture("green")
    assert data in bind_pages([data])


def test_the_same_pictures_give_the_same_bytes() -> None:
    pages = [picture("red"), picture("blue", kind="PNG")]
    assert bind_pages(pages) == bind_pages(pages)
    assert bind_pages(pages) != bind_pages(pages[::-1])


def test_what_is_transparent_lies_on_white() -> None:
    (page,) = drawn([picture((0, 0, 0, 0), kind="PNG", mode="RGBA")])
    assert is_near(page, (5, 5), (255, 255, 255))


def test_a_photograph_stands_upright() -> None:
    image = Image.new("RGB", (80, 60), "red")
    exif = image.getexif()
    exif[0x0112] = 6  # turned by a quarter
    saved = io.BytesIO()
    image.save(saved, "JPEG", exif=exif)
    (page,) = drawn([saved.getvalue()])
    assert page.size == (60, 80)


@pytest.mark.parametrize("data", [b"", b"no picture", picture("red")[:300], picture("red", kind="PNG")[:60]])
def test_what_is_no_picture_is_named_by_its_page(data: bytes) -> None:
    with pytest.raises(CorpusError, match="Page 2 is not an image"):
        bind_pages([picture("red"), data])


def test_no_pages_are_no_document() -> None:
    with pytest.raises(CorpusError, match="no pages"):
        bind_pages([])
