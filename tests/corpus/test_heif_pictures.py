"""Pictures in HEIC and HEIF, as phones store them."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from corpus.format_samples import phone_picture
from corpus.test_image import corners, items_of, stored
from corpus.texts.test_mail import write_mail
from vrag.corpus.convert import CONVERTERS, find_missing_software
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.errors import CorpusError, FileTooLargeError, UnsupportedFormatError
from vrag.server.collections.files import fault_of_head

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

require("heic", "pillow_heif")


def red_at(path: Path, item: Item, row: int, column: int) -> bool:
    return bool(np.abs(np.asarray(stored(path, item), dtype=int)[row, column] - [255, 0, 0]).max() < 60)


@pytest.mark.parametrize("name", ["a.heic", "a.HEIF", "a.jpg"])
def test_a_picture_of_a_phone_is_a_page_whatever_its_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(phone_picture(corners()))
    (item,) = items_of(path)
    assert item.size == (40, 20)
    assert red_at(path, item, 3, 3)
    assert not red_at(path, item, 15, 30)


def test_it_is_stored_upright(tmp_path: Path) -> None:
    path = tmp_path / "a.heic"
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    path.write_bytes(phone_picture(corners(), exif=exif.tobytes()))
    (item,) = items_of(path)
    assert item.size == (20, 40)
    assert red_at(path, item, 3, 16)


def test_each_picture_of_a_series_is_a_page(tmp_path: Path) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(phone_picture(corners(), Image.new("RGB", (30, 50), "red")))
    first, second = items_of(path)
    assert (first.size, second.size) == ((40, 20), (30, 50))
    assert red_at(path, second, 25, 15)


def test_a_picture_of_too_many_pixels_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(phone_picture(Image.new("L", (300, 300))))
    with pytest.raises(FileTooLargeError, match="300 × 300"):
        items_of(path, CorpusOptions(max_pixels=80_000))


@given(at=st.floats(0, 1, exclude_max=True), value=st.binary(min_size=0, max_size=4))
def test_a_damaged_picture_is_an_error_that_says_so(
    tmp_path_factory: pytest.TempPathFactory, at: float, value: bytes
) -> None:
    data = bytearray(phone_picture(corners()))
    place = int(at * len(data))
    data[place : place + len(value) if value else len(data)] = value
    path = tmp_path_factory.mktemp("damaged") / "a.heic"
    path.write_bytes(data)
    with suppress(CorpusError):
        assert items_of(path)


def test_a_picture_attached_to_mail_is_a_page(tmp_path: Path) -> None:
    message = write_mail(body="See the pier.")
    message.add_attachment(
        phone_picture(corners().resize((80, 40))), "image", "heic", filename="IMG_0412.HEIC"
    )
    path = tmp_path / "a.eml"
    path.write_bytes(bytes(message))
    context = ConversionContext(tmp_path / "items", CorpusOptions(ocr="never"))
    with CONVERTERS[".eml"](read_source(path), context) as mail:
        assert mail.item(mail.count).size == (80, 40)


def test_without_the_library_the_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(phone_picture(corners()))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UnsupportedFormatError, match="pillow-heif is needed") as refused:
        items_of(path)
    assert "pip install 'vrag-agent[heic]'" in str(refused.value.hint)
    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    assert any(".heic" in missing.suffixes for missing in find_missing_software())


def find_nothing(name: str) -> None:
    """No package is installed."""


def test_uploads_are_told_from_videos() -> None:
    head = phone_picture(corners())[:64]
    film = b"\x00\x00\x00\x18ftypisom" + bytes(40)
    assert (fault_of_head(".heic", head), fault_of_head(".jpg", head)) == ("", "")
    assert fault_of_head(".heic", film) == "This is not a picture: it seems to be a video, or a damaged one."
